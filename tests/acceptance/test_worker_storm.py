"""Everything at once: workers killed, paused and replaced, the host and the database restarted, all at random (G6, G8; B16).

The longer it runs the more it meets. `EVENTLOG_TEST_STORM` is the number of seconds of each storm (6 by default; 300 for a
good one), `EVENTLOG_TEST_STORM_SEED` repeats the order of events of another run, which says its seed.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from autogen_core import AgentId, try_get_known_serializers_for_type

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedGrpcWorkerAgentRuntime
from autogen_eventlog.errors import DatabaseUnavailable, EventLogError, StreamOwned, Undeliverable
from autogen_eventlog.events import EventType
from autogen_eventlog.postgres.embedded import EmbeddedServer, open_embedded

from .asking import until
from .checking import check_versions, twice
from .programs.depot import AGENTS, DESKS, HEARS, Ledger, Order, Receipt, Worked, weight
from .test_database_outages import kill_server
from .test_failover import free_port
from .workers import Depot, Remote

SECONDS = float(os.environ.get("EVENTLOG_TEST_STORM", "6"))
MORE = [(2, 60.0)] if "EVENTLOG_TEST_STORM" in os.environ else []
SEED = int(os.environ.get("EVENTLOG_TEST_STORM_SEED", random.randrange(1 << 30)))
LEASE = 2.0
BOUND = 150.0
"""Seconds within which every caller has an answer or an error: `patience`, and as much again for what it waits for."""
AT_ONCE = 8
IMPATIENT = 2.0


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server that nobody but the test starts again: its log is opened by dsn."""
    with open_embedded(tmp_path / "data") as server:
        yield server
        server.ensure_running()


class Slot:
    """A worker process with some agent types, whichever it is at the moment."""

    def __init__(self, depot: Yard, types: list[str]) -> None:
        self._yard = depot
        self._types = types
        self.worker: Depot | None = None
        self.busy = asyncio.Lock()

    async def start(self) -> None:
        self.worker = await self._yard.worker(self._types)

    async def kill(self) -> None:
        assert self.worker is not None
        await self.worker.kill()
        await self.start()

    async def pause(self) -> None:
        """For less than its lease, or for more."""
        assert self.worker is not None
        self.worker.signal(signal.SIGSTOP)
        await asyncio.sleep(self._yard.random.choice([0.2, 0.8, 1.6]) * LEASE * self._yard.random.random())
        self.worker.signal(signal.SIGCONT)

    async def replace(self) -> None:
        """Pause it, and let another have its types: the host forgets the paused one. Later, one of the two is killed."""
        zombie = self.worker
        assert zombie is not None
        zombie.signal(signal.SIGSTOP)
        await self._yard.restart_host()
        await self.start()
        zombie.signal(signal.SIGCONT)
        await asyncio.sleep(2 * LEASE * self._yard.random.random())
        assert self.worker is not None
        dies = self._yard.random.choice([zombie, self.worker])
        self.worker = zombie if dies is self.worker else self.worker
        await dies.kill()


class Yard:
    """The processes: a host, workers, a database server."""

    def __init__(
        self, server: EmbeddedServer, outside: Path, workers: int, patience: float, stack: AsyncExitStack
    ) -> None:
        self.random = random.Random(SEED)
        self.port = free_port()
        self.slots = [Slot(self, list(AGENTS)[number::workers]) for number in range(workers)]
        self.did: Counter[str] = Counter()
        self._server = server
        self._patience = patience
        self._outside = outside
        self._stack = stack
        self._host: Remote | None = None
        self._host_busy = asyncio.Lock()
        self._database_busy = asyncio.Lock()

    async def open(self) -> None:
        self._host = await self._stack.enter_async_context(Remote("host", self.port))
        await asyncio.gather(*(slot.start() for slot in self.slots))

    async def worker(self, types: list[str]) -> Depot:
        arguments = (self._server.dsn, self.port, LEASE, self._patience, self._outside, *types)
        return await self._stack.enter_async_context(Depot(*arguments))

    async def restart_host(self) -> None:
        async with self._host_busy:
            assert self._host is not None
            await self._host.kill()
            await asyncio.sleep(self.random.random())
            self._host = await self._stack.enter_async_context(Remote("host", self.port))

    async def restart_database(self) -> None:
        async with self._database_busy:
            how = self.random.choice([signal.SIGINT, signal.SIGQUIT, signal.SIGKILL])
            await asyncio.to_thread(kill_server, self._server.dsn, how)
            await asyncio.sleep(2 * self.random.random())
            await asyncio.to_thread(self._server.ensure_running)

    async def storm(self, seconds: float) -> None:
        """Things happen, several at once; it ends when all of them are over."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        happening: set[asyncio.Task[None]] = set()
        while loop.time() < ends:
            name = self.random.choice(["kill", "kill", "kill", "pause", "pause", "replace", "host", "database"])
            task = asyncio.create_task(self._happen(name))
            happening.add(task)
            await asyncio.wait([task], timeout=2 * self.random.random())
            while len(happening) > 3:
                done, happening = await asyncio.wait(happening, return_when=asyncio.FIRST_COMPLETED)
                await asyncio.gather(*done)
        await asyncio.gather(*happening)

    async def _happen(self, name: str) -> None:
        if name in ("kill", "pause", "replace"):
            slot = self.random.choice(self.slots)
            async with slot.busy:
                await getattr(slot, name)()
        else:
            await (self.restart_host() if name == "host" else self.restart_database())
        self.did[name] += 1


class Customers:
    """Order, some at a time, and wait for their receipts."""

    def __init__(self, runtime: EventSourcedGrpcWorkerAgentRuntime) -> None:
        self._runtime = runtime
        self.ordered = 0
        self.answered: list[int] = []
        self.refused: dict[int, EventLogError] = {}

    @asynccontextmanager
    async def ordering(self) -> AsyncGenerator[None]:
        closing = asyncio.Event()
        customers = [asyncio.create_task(self._order(closing)) for _ in range(AT_ONCE)]
        try:
            yield
        finally:
            closing.set()
            await asyncio.gather(*customers)

    async def _order(self, closing: asyncio.Event) -> None:
        while not closing.is_set():
            self.ordered += 1
            number = self.ordered
            sending = self._runtime.send_message(Order(number), AgentId("desk", str(number % DESKS)))
            try:
                receipt = await asyncio.wait_for(sending, BOUND)
            except (Undeliverable, DatabaseUnavailable, StreamOwned) as error:  # what `send_message` may come to
                self.refused[number] = error
            else:
                assert receipt == Receipt(number, weight(number))
                self.answered.append(number)


@asynccontextmanager
async def customers(
    dsn: str, port: int, patience: float
) -> AsyncGenerator[tuple[Customers, EventSourcedGrpcWorkerAgentRuntime, EventLog]]:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedGrpcWorkerAgentRuntime(
            f"localhost:{port}", intervention_handlers=[EventLogHandler(log)], patience=patience
        )
        await runtime.start()
        runtime.add_message_serializer(try_get_known_serializers_for_type(Receipt))
        try:
            yield Customers(runtime), runtime, log
        finally:
            await runtime.stop()


@pytest.mark.timeout(SECONDS * 3 + 300)
@pytest.mark.parametrize(("workers", "patience"), [*MORE, (8, 60.0), (4, IMPATIENT)])
async def test_whatever_dies_nothing_is_lost_nothing_is_done_twice_and_nobody_waits_for_ever(
    own_server: EmbeddedServer, tmp_path: Path, workers: int, patience: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With patience everything arrives. Without, what does not is an error of its sender, or in the log as given up."""
    print(f"seed {SEED}")
    outside = tmp_path / "outside"
    outside.touch()
    monkeypatch.setattr(Worked, "outside", str(outside))  # what is asked of it is compared in views
    async with AsyncExitStack() as stack:
        yard = Yard(own_server, outside, workers, patience, stack)
        await yard.open()
        some, runtime, log = await stack.enter_async_context(customers(own_server.dsn, yard.port, patience))
        async with some.ordering():
            await yard.storm(SECONDS)
        print(f"{some.ordered} orders, {len(some.refused)} refused, {dict(yard.did)}")
        print(*(f"{number}: {type(error).__name__}: {error}" for number, error in some.refused.items()), sep="\n")
        deals = Deals(runtime, log)
        await until(
            deals.are_settled, "nothing is in flight and everybody has heard everything", timeout=90, interval=0.5
        )
        deals.check(some, outside.read_text().splitlines())
        if patience > IMPATIENT:
            assert (some.refused, deals.given_up) == ({}, {name: set() for name in HEARS})
    check_versions(own_server.dsn)


class Deals:
    """What the agents say of themselves, in views, for which their whole past is replayed."""

    def __init__(self, runtime: EventSourcedGrpcWorkerAgentRuntime, log: EventLog) -> None:
        self._runtime = runtime
        self._log = log
        self.states: dict[str, list[Worked]] = {}
        self.given_up: dict[str, set[int]] = {}
        """By the log: publications that did not reach an agent of that type."""

    async def are_settled(self) -> bool:
        if await self._log.audit.in_flight():
            return False
        await self._look()
        said = {name: self.known("mailer" if name == "archive" else "desk") for name in HEARS}
        return all(said[name] - self.given_up[name] <= self.known(name) <= said[name] for name in HEARS)

    async def _look(self) -> None:
        self.states = {name: [] for name in AGENTS}
        for head in await self._log.agents():
            kind = head.stream.partition("/")[0]
            if kind in AGENTS and head.version > 0:  # 0: claimed, and its worker died before it had recorded anything
                view = await self._runtime.view(AgentId.from_str(head.stream), factory=AGENTS[kind], type=Worked)
                self.states[kind].append(view)
        self.given_up = {name: set() for name in HEARS}
        async for event in self._log.tail(follow=False):
            if event.type is EventType.MESSAGE_DROPPED and event.topic is not None:
                for agent in event.metadata["lacking"]:
                    self.given_up[agent.partition("/")[0]].add(self._log.message(event).number)  # type: ignore[attr-defined]

    def done(self, name: str) -> list[int]:
        return [number for one in self.states[name] for number in one.done]

    def known(self, name: str) -> set[int]:
        return {number for one in self.states[name] for number in [*one.done, *one.unknown]}

    def check(self, some: Customers, outside: list[str]) -> None:
        """It agrees with what was asked for, and with what was done outside."""
        desks = self.known("desk")
        assert set(some.answered) <= desks <= set(range(1, some.ordered + 1))
        for name in set(AGENTS) - {"scales"}:
            assert twice([number for one in self.states[name] for number in [*one.done, *one.unknown]]) == [], name
        for name in ("stock", "carrier"):
            assert desks <= self.known(name), name
        for ledger in self.states["ledger"]:  # none, if nothing that was ordered ever arrived
            assert isinstance(ledger, Ledger) and ledger.total == sum(map(weight, self.known("ledger")))
        assert len(self.states["ledger"]) == bool(self.known("ledger"))
        count = Counter(outside)
        for what, name in (("take", "stock"), ("ship", "carrier"), ("mail", "mailer")):
            times = {int(line.split()[1]): number for line, number in count.items() if line.split()[0] == what}
            assert set(times.values()) <= {1}, f"{what} was done twice"
            assert set(self.done(name)) <= set(times) <= self.known(name), what
