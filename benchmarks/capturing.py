"""(f) What a state costs: captured and loaded, beside pickle; the loop's pause meanwhile; and what a log takes on disk."""

from __future__ import annotations

import asyncio
import pickle
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from autogen_core import AgentId, MessageContext, RoutedAgent, message_handler
from autogen_core.models import UserMessage

from autogen_eventlog import EventLogHandler, EventSourcedAgentRuntime, SnapshotPolicy
from autogen_eventlog.codec import Codec
from autogen_eventlog.state import capture, load
from benchmarks.places import Place, fresh, value
from benchmarks.report import Aim, Cell, Report, Table
from benchmarks.sizes import Sizes

_MEGABYTE = 1_000_000
_LINEAR = 1.15
_NOISE = random.Random(1).randbytes(50_000).hex()
"""A text that can't be made much smaller."""


@dataclass
class Item:
    """A small object."""

    number: int
    name: str
    tags: list[int] = field(default_factory=list)


class Holder:
    """What is captured; it can be pickled, which an agent can't."""

    def __init__(self) -> None:
        self.held: Any = None


@dataclass
class Page:
    """A message of a size."""

    text: str


class Keeper(RoutedAgent):
    """Keeps everything, as an agent with a growing context does."""

    def __init__(self, size: int = 0) -> None:
        super().__init__("A keeper")
        self.pages = [f"{number:>100}" for number in range(size)]

    @message_handler
    async def keep(self, message: Page, ctx: MessageContext) -> int:
        self.pages.append(message.text)
        return len(self.pages)


STATES: dict[str, Callable[[int], Any]] = {
    "long strings": lambda size: [f"{number:>100}" for number in range(size // 103)],
    "AutoGen's messages": lambda size: [UserMessage(content="hello " * 20, source=f"u{n}") for n in range(size // 290)],
    "JSON-like dicts": lambda size: {f"k{n}": {"a": n, "b": [1.5, None, True], "c": "text"} for n in range(size // 90)},
    "small objects": lambda size: [Item(n, f"name{n}", [1, 2, 3]) for n in range(size // 110)],
}


def run(dsn: str, sizes: Sizes) -> Report:
    states = [_state_row(name, make, sizes) for name, make in STATES.items()]
    place = fresh(dsn, "capturing")
    pause, size = asyncio.run(_pause(place, sizes))
    storage, growth = asyncio.run(_storage(place, sizes))
    columns = ("", "MB", "capture, ms/MB", "÷ pickle", "load, ms/MB", "÷ pickle")
    beside = [["the longest pause of the loop while a state is captured, ms", pause], ["MB of that state", size]]
    return Report(
        [
            Table(
                "A state of about a megabyte in its stored form, beside pickle.dumps and pickle.loads.", columns, states
            ),
            Table("An agent at rest; another process's work goes on in the loop.", ("", ""), beside),
            Table(
                "A log on disk: the event table with its indexes, the large payloads and the snapshots.",
                ("", "messages", "bytes of payload", "bytes of the log", "log ÷ payload", "bytes an event"),
                storage,
            ),
        ],
        [
            Aim(
                "storage of an agent whose state grows, a snapshot each 100: twice the messages ÷ 2",
                growth,
                _LINEAR,
                True,
            )
        ],
    )


def _state_row(name: str, make: Callable[[int], Any], sizes: Sizes) -> Sequence[Cell]:
    holder, codec = Holder(), Codec()
    holder.held = make(sizes.state_bytes)
    captured, pickled = capture(holder, codec), pickle.dumps(holder)
    found = {
        "capture": _best(lambda: capture(holder, codec), sizes),
        "dumps": _best(lambda: pickle.dumps(holder), sizes),
        "load": _best(lambda: load(captured.data, into=Holder(), codec=codec), sizes),
        "loads": _best(lambda: pickle.loads(pickled), sizes),
    }
    megabytes = len(captured.data) / _MEGABYTE
    return [
        name,
        round(megabytes, 2),
        found["capture"] * 1000 / megabytes,
        found["capture"] / found["dumps"],
        found["load"] * 1000 / megabytes,
        found["load"] / found["loads"],
    ]


def _best(work: Callable[[], object], sizes: Sizes) -> float:
    times: list[float] = []
    for _ in range(sizes.rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


async def _pause(place: Place, sizes: Sizes) -> tuple[float, float]:
    """The longest time between two turns of a task that does nothing else, in milliseconds."""
    async with place.log() as log:
        runtime = EventSourcedAgentRuntime(
            intervention_handlers=[EventLogHandler(log, snapshots=SnapshotPolicy(within=None))]
        )
        await Keeper.register(runtime, "large", lambda: Keeper(sizes.state_bytes // 103))
        runtime.start()
        agent = AgentId("large", "one")
        await runtime.send_message(Page("a"), agent)
        await runtime.snapshot(agent)  # it knows the size from here on
        await runtime.send_message(Page("b"), agent)
        shell = runtime.recorded_agents.shells[agent]
        watching, longest = True, 0.0

        async def watch() -> None:
            nonlocal longest
            before = time.perf_counter()
            while watching:
                await asyncio.sleep(0)
                now = time.perf_counter()
                longest, before = max(longest, now - before), now

        watcher = asyncio.create_task(watch())
        await shell.take_snapshot()
        watching = False
        await watcher
        (snapshot, *_) = await log.snapshots.list_snapshots(str(agent))
        await runtime.stop()
    return longest * 1000, round(len(snapshot.payload) / _MEGABYTE, 2)


async def _storage(place: Place, sizes: Sizes) -> tuple[list[Sequence[Cell]], float]:
    """What a log takes on disk, once small messages went to one agent, once larger ones, and once an agent's state grew."""
    rows: list[Sequence[Cell]] = []
    for name, text in (("small messages", "a note"), ("messages of 2 kB", "word " * 400)):
        rows.append(await _stored(place, name, text, sizes.storage_messages, None))
    policy = SnapshotPolicy(every=200, within=None, proving=1.0)
    half = await _stored(
        place, "a growing state, a snapshot each 100 messages", "a note " * 10, sizes.storage_messages, policy
    )
    whole = await _stored(place, "twice as many", "a note " * 10, 2 * sizes.storage_messages, policy)
    rows.append(await _stored(place, "one message of 100 kB, each time to an agent of its own", _NOISE, 50, None, 50))
    return [*rows, half, whole], float(whole[3]) / float(half[3]) / 2  # type: ignore[arg-type]


async def _stored(
    place: Place, name: str, text: str, messages: int, policy: SnapshotPolicy | None, agents: int = 1
) -> Sequence[Cell]:
    place.recreate()
    async with place.log() as log, place.connection() as connection:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, snapshots=policy)])
        await Keeper.register(runtime, "keeper", Keeper)
        runtime.start()
        keepers = [AgentId("keeper", uuid4().hex[:8]) for _ in range(agents)]
        for begun in range(0, messages, 50):
            wave = range(begun, min(begun + 50, messages))
            await asyncio.gather(*(runtime.send_message(Page(text), keepers[n % agents]) for n in wave))
        await runtime.recorded_agents.snapshots.settled()
        await runtime.stop_when_idle()
        payload = await value(connection, "SELECT sum(length(payload)) FROM event_full")
        events = await value(connection, "SELECT count(*) FROM event")
        await connection.execute(b"VACUUM FULL")
        taken = await value(
            connection,
            "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class AS c WHERE c.relkind = 'r'"
            " AND c.relnamespace = quote_ident(current_schema())::regnamespace"
            " AND (c.relname LIKE 'event%' OR c.relname LIKE 'large_payload%' OR c.relname = 'snapshot')",
        )
    return [name, messages, int(payload), int(taken), float(taken) / float(payload), float(taken) / float(events)]
