"""Snapshots of agents that know nothing of them: taken, proven, restored from, and refused when they can't be right."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import random
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import AgentId, CancellationToken, MessageContext, RoutedAgent, message_handler, rpc
from autogen_core.model_context import BufferedChatCompletionContext
from autogen_core.models import ModelInfo
from autogen_ext.models.replay import ReplayChatCompletionClient
from typer.testing import CliRunner

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.cli.app import app
from autogen_eventlog.errors import NotCapturable
from autogen_eventlog.events import EventType
from autogen_eventlog.runtime.identity import Identity, TracedId
from autogen_eventlog.runtime.shell import JournaledAgent
from autogen_eventlog.runtime.snapshotting import Snapshotting
from autogen_eventlog.snapshots import FAILED, PROVEN, TAKEN, SnapshotPolicy, kept
from autogen_eventlog.state import capture
from autogen_eventlog.state import difference as state_difference
from autogen_eventlog.testing.equality import difference

ONE = AgentId("hoarder", "one")
EVERY_TEN = SnapshotPolicy(every=10, within=None, proving=1.0)


@dataclass
class Put:
    value: int


@dataclass
class Sum:
    value: int


@dataclass
class Node:
    name: str
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)


class Hoarder(RoutedAgent):
    """Keeps all kinds of things, in private, and has no idea of snapshots."""

    def __init__(self) -> None:
        super().__init__("hoards")
        self._by_rest: defaultdict[int, list[int]] = defaultdict(list)
        self._counts: Counter[str] = Counter()
        self._last: deque[int] = deque(maxlen=3)
        self._order: OrderedDict[int, str] = OrderedDict()
        self._seen: set[int] = set()
        self._root = Node("root")
        self._root.children.append(Node("first", self._root))
        self._shared = self._by_rest
        self._lock = asyncio.Lock()
        self._turns: asyncio.Queue[int] = asyncio.Queue()
        self._pairs: dict[tuple[int, str], frozenset[int]] = {}
        self._ordered: set[int] = set()

    @rpc
    async def on_put(self, message: Put, ctx: MessageContext) -> Sum:
        async with self._lock:
            await asyncio.sleep(0)
            self._by_rest[message.value % 3].append(message.value)
            self._counts.update(str(message.value))
            self._last.append(message.value)
            self._order[message.value] = str(message.value)
            self._order.move_to_end(message.value, last=message.value % 2 == 0)
            self._seen.add(message.value)
            self._ordered |= {5 - 8 * message.value, 5 + 8 * message.value}  # they collide: their order is a state
            self._root.children[0].children.append(Node(str(message.value), self._root.children[0]))
            await self._turns.put(message.value)
            self._pairs[message.value, str(message.value)] = frozenset(self._last)
        return Sum(sum(self._seen))


class Threaded(Hoarder):
    """Holds a thread that it started itself."""

    @rpc
    async def on_put(self, message: Put, ctx: MessageContext) -> Sum:
        self._running = asyncio.get_running_loop().create_future()
        return Sum(1)


class Fickle(Hoarder):
    """What it keeps depends on something that no log knows."""

    outside = 0

    @rpc
    async def on_put(self, message: Put, ctx: MessageContext) -> Sum:
        self._seen.add(message.value * 1000 + Fickle.outside)
        return Sum(message.value)


class Slow(Hoarder):
    """Takes its time."""

    gate: asyncio.Event

    @rpc
    async def on_put(self, message: Put, ctx: MessageContext) -> Sum:
        answer = await super().on_put(message, ctx)
        await asyncio.sleep(0.01)
        return answer


@asynccontextmanager
async def running(
    dsn: str, cls: type[RoutedAgent] = Hoarder, policy: SnapshotPolicy | None = EVERY_TEN, name: str = "hoarder"
) -> AsyncIterator[EventSourcedAgentRuntime]:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, snapshots=policy)])
        await cls.register(runtime, name, cls)
        runtime.start()
        yield runtime
        await runtime.stop_when_idle()


def log_of(runtime: EventSourcedAgentRuntime) -> EventLog:
    return runtime._agents.log


async def put(runtime: EventSourcedAgentRuntime, *values: int, agent: AgentId = ONE) -> None:
    for value in values:
        await runtime.send_message(Put(value), agent)


async def settled(runtime: EventSourcedAgentRuntime) -> None:
    await runtime._agents.snapshots.settled()


async def state_of(runtime: EventSourcedAgentRuntime, agent: AgentId = ONE) -> dict[str, Any]:
    instance = await runtime.try_get_underlying_agent_instance(agent)
    return {name: value for name, value in vars(instance).items() if name not in ("_runtime", "_lock", "_handlers")}


def plain(state: dict[str, Any]) -> dict[str, Any]:
    """Without what is compared by identity alone."""
    queue = state.pop("_turns")
    return {**state, "turns": list(queue._queue), "waiting": queue.qsize()}


# -- taking and proving -------------------------------------------------------------------------------------------


async def test_an_agent_that_knows_nothing_of_snapshots_is_recovered_from_them(dsn: str) -> None:
    async with running(dsn) as runtime:
        await put(runtime, *range(25))
        await settled(runtime)
        snapshots = await log_of(runtime).snapshots.list_snapshots(str(ONE))
        assert len(snapshots) >= 2
        assert {snapshot.status for snapshot in snapshots} == {PROVEN}
        live = plain(await state_of(runtime))
    async with running(dsn) as runtime:
        head = await log_of(runtime).head(ONE)
        assert head is not None
        report = await runtime.restore(ONE, version=head.version)
        assert report.snapshot_version == snapshots[0].version
        assert report.events_replayed < 15
        recovered = plain(await state_of(runtime))
        assert difference(live, recovered) is None
        assert recovered["_shared"] is recovered["_by_rest"]
        assert recovered["_root"].children[0].children[3].parent.parent is recovered["_root"]
        # And it goes on as the live one would.
        await put(runtime, 100, 101, 102, 103)
        more = await state_of(runtime)
        assert (list(more["_last"]), more["_last"].maxlen) == ([101, 102, 103], 3)
        assert more["_by_rest"][99] == []
        assert await more["_turns"].get() == 0
        await settled(runtime)


async def test_every_version_is_the_same_with_and_without_snapshots(dsn: str) -> None:
    async with running(dsn) as runtime:
        await put(runtime, *range(12))
        await settled(runtime)
        log = log_of(runtime)
        head = await log.head(ONE)
        assert head is not None
        digests = [
            capture(await runtime.view(ONE, version=version), log.codec).digest
            for version in range(1, head.version + 1)
        ]
        sql(dsn, "DELETE FROM eventlog.snapshot")
        without = [
            capture(await runtime.view(ONE, version=version), log.codec).digest
            for version in range(1, head.version + 1)
        ]
        assert digests == without


async def test_snapshots_every_few_milliseconds_under_load_each_restored_and_run_to_the_end(dsn: str) -> None:
    """A7."""
    policy = SnapshotPolicy(every=1, within=None, keep=1000, proving=1.0)
    async with running(dsn, Slow, policy) as runtime:
        await asyncio.gather(*(put(runtime, value, value + 100) for value in range(30)))
        await settled(runtime)
        log = log_of(runtime)
        snapshots = [one for one in await log.snapshots.list_snapshots(str(ONE)) if one.status == PROVEN]
        assert snapshots
        end = capture(await runtime.try_get_underlying_agent_instance(ONE), log.codec).digest
        for snapshot in snapshots:
            sql(dsn, f"UPDATE eventlog.snapshot SET status = 'taken' WHERE version <> {snapshot.version}")
            sql(dsn, f"UPDATE eventlog.snapshot SET status = 'proven' WHERE version = {snapshot.version}")
            assert capture(await runtime.view(ONE), log.codec).digest == end


async def test_a_snapshot_on_demand_is_proven_at_once(dsn: str) -> None:
    async with running(dsn, policy=SnapshotPolicy(within=None)) as runtime:
        await put(runtime, 1, 2, 3)
        report = await runtime.snapshot(ONE)
        assert (report.proven, report.kind, report.differing) == (True, "captured", ())
        head = await log_of(runtime).head(ONE)
        assert head is not None and report.version == head.version
        assert (await runtime.restore(ONE, version=report.version)).snapshot_version == report.version


async def test_an_agent_that_pauses_and_one_whose_runtime_stops_get_theirs(dsn: str) -> None:
    policy = SnapshotPolicy(within=None, idle=0.05, at_stop=True)
    async with running(dsn, policy=policy) as runtime:
        await put(runtime, 1)
        while not (paused := await log_of(runtime).snapshots.list_snapshots(str(ONE))):
            await asyncio.sleep(0.01)
        await put(runtime, 2)
        log = log_of(runtime)
        await runtime.stop_when_idle()
        stopped = await log.snapshots.list_snapshots(str(ONE))
        assert stopped[0].version > paused[0].version
        runtime.start()


async def test_a_snapshot_is_due_by_the_time_that_replay_would_take(dsn: str) -> None:
    class Busy(Hoarder):
        @rpc
        async def on_put(self, message: Put, ctx: MessageContext) -> Sum:
            sum(range(100_000))
            return Sum(message.value)

    async with running(dsn, Busy, SnapshotPolicy(within=0.05, proving=1.0)) as runtime:
        await put(runtime, *range(60))
        await settled(runtime)
        busy = await log_of(runtime).snapshots.list_snapshots(str(ONE))
    async with running(dsn, policy=SnapshotPolicy(within=5.0)) as runtime:
        other = AgentId("hoarder", "other")
        await put(runtime, *range(60), agent=other)
        await settled(runtime)
        assert busy and await log_of(runtime).snapshots.list_snapshots(str(other)) == []


async def test_a_candidate_that_its_process_did_not_prove_is_proven_by_the_next(dsn: str) -> None:
    async with running(dsn, policy=SnapshotPolicy(within=None, at_stop=True)) as runtime:
        await put(runtime, *range(60))
    async with running(dsn, policy=EVERY_TEN) as runtime:
        before = await log_of(runtime).snapshots.list_snapshots(str(ONE))
        assert [one.status for one in before] == [TAKEN]
        await put(runtime, 1)
        await settled(runtime)
        statuses = {one.version: one.status for one in await log_of(runtime).snapshots.list_snapshots(str(ONE))}
        assert PROVEN in statuses.values()


async def test_no_snapshot_is_taken_amid_a_delivery(dsn: str) -> None:
    async with running(dsn, Slow, SnapshotPolicy(every=1, within=None)) as runtime:
        sending = asyncio.gather(*(put(runtime, value) for value in range(5)))
        await sending
        await settled(runtime)
        log = log_of(runtime)
        for snapshot in await log.snapshots.list_snapshots(str(ONE)):
            running_then = 0
            async for event in log.read(ONE, until_version=snapshot.version):
                running_then += event.type is EventType.MESSAGE_DELIVERED
                running_then -= event.type is EventType.DELIVERY_COMPLETED
            assert running_then == 0


async def test_a_message_that_comes_again_waits_while_the_state_is_read(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks the log first whether it came before; the state may be being read by then."""
    reading, asked, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
    read, join = Snapshotting._read, JournaledAgent._join
    taking: list[asyncio.Task[Any]] = []

    async def slow(self: Snapshotting, *arguments: Any) -> Any:
        reading.set()
        await go_on.wait()
        return await read(self, *arguments)

    async def meanwhile(self: JournaledAgent, *arguments: Any) -> Any:
        taking.append(asyncio.create_task(runtime.snapshot(ONE)))
        await reading.wait()
        joined = await join(self, *arguments)
        asked.set()
        return joined

    async with running(dsn, policy=SnapshotPolicy(within=None)) as runtime:
        await put(runtime, 1)
        shell = runtime._agents.shell_for(ONE)
        monkeypatch.setattr(Snapshotting, "_read", slow)
        monkeypatch.setattr(JournaledAgent, "_join", meanwhile)
        again = TracedId("m", Identity(uuid4(), None, again=True))
        context = MessageContext(
            sender=None, topic_id=None, is_rpc=True, cancellation_token=CancellationToken(), message_id=again
        )
        delivering = asyncio.create_task(shell.deliver(Put(2), context))
        version = shell._version()
        await asked.wait()
        for _ in range(100):  # turns in which it would begin
            await asyncio.sleep(0)
        assert shell._version() == version
        go_on.set()
        assert await delivering == Sum(3)
        assert (await taking[0]).proven


class Busy(Hoarder):
    """Has something to do from the first message to the last: each is in hand when the next one comes."""

    @rpc
    async def on_put(self, message: Put, ctx: MessageContext) -> Sum:
        await asyncio.sleep(0.02)
        return await super().on_put(message, ctx)


async def keep_busy(runtime: EventSourcedAgentRuntime, messages: int) -> None:
    """Four at a time, out of step, so that one is always under way."""

    async def one(first: int) -> None:
        await asyncio.sleep(first * 0.005)
        await put(runtime, *range(first, messages, 4))

    await asyncio.gather(*(one(first) for first in range(4)))


async def test_an_agent_that_is_never_at_rest_gets_one_in_a_pause(dsn: str) -> None:
    policy = SnapshotPolicy(every=40, within=None, proving=1.0, pause=1.0)
    async with running(dsn, Busy, policy) as runtime:
        await keep_busy(runtime, 120)
        await settled(runtime)
        log = log_of(runtime)
        events = [event async for event in log.read(ONE)]
        snapshots = await log.snapshots.list_snapshots(str(ONE))
        amid = [one for one in snapshots if one.version < events[-1].version]
        assert amid
        assert {one.status for one in amid} == {PROVEN}
        live = capture(await runtime.try_get_underlying_agent_instance(ONE), log.codec).digest
        view = await runtime.view(ONE)
        assert capture(view, log.codec).digest == live
        assert sorted(vars(view)["_seen"]) == list(range(120))


class Cooperating(RoutedAgent):
    """Says itself what it keeps, and leaves something out."""

    def __init__(self) -> None:
        super().__init__("keeps")
        self.number = 0
        self.mode = self._idle
        self.kind: type = int
        self.generator = random.Random(1)
        self.buffer = io.StringIO()
        self.items: list[int] = []
        self.current = self.items

    def _idle(self) -> None: ...

    def _busy(self) -> None: ...

    @rpc
    async def on_put(self, message: Put, ctx: MessageContext) -> Sum:
        self.number += 1
        self.items.append(message.value)
        self.left_out()
        return Sum(self.number)

    def left_out(self) -> None: ...

    async def save_state(self) -> dict[str, Any]:
        return {"number": self.number, "items": self.items}

    async def load_state(self, state: Any) -> None:
        self.number = state["number"]
        self.items = self.current = list(state["items"])


class OtherMethod(Cooperating):
    def left_out(self) -> None:
        self.mode = self._busy


class OtherClass(Cooperating):
    def left_out(self) -> None:
        self.kind = str


class OtherGenerator(Cooperating):
    def left_out(self) -> None:
        self.generator.random()


class OtherBuffer(Cooperating):
    def left_out(self) -> None:
        self.buffer.write("more")


class OtherIdentity(Cooperating):
    async def load_state(self, state: Any) -> None:
        self.number, self.items, self.current = state["number"], list(state["items"]), list(state["items"])


@pytest.mark.parametrize(
    ("cls", "left_out"),
    [
        (Cooperating, "buffer"),  # it has no equality: whether it is the same can't be said
        (OtherMethod, "mode"),
        (OtherClass, "kind"),
        (OtherGenerator, "generator"),
        (OtherBuffer, "buffer"),
        (OtherIdentity, "current"),
    ],
)
async def test_what_an_agent_s_own_save_state_leaves_out_is_named(
    dsn: str, cls: type[RoutedAgent], left_out: str
) -> None:
    async with running(dsn, cls, SnapshotPolicy(within=None, kind="save_state"), name="hoarder") as runtime:
        await put(runtime, 1, 2)
        with pytest.raises(NotCapturable, match=f"save_state leaves out .*self.{left_out}"):
            await runtime.snapshot(ONE)
        assert await log_of(runtime).snapshots.list_snapshots(str(ONE)) == []


class Saving(Cooperating):
    def __init__(self) -> None:
        super().__init__()
        del self.buffer, self.generator


async def test_an_agent_s_own_save_state_that_leaves_nothing_out_is_believed(dsn: str) -> None:
    async with running(dsn, Saving, SnapshotPolicy(within=None, kind="save_state")) as runtime:
        await put(runtime, 1, 2)
        assert (await runtime.snapshot(ONE)).proven


class Relay(Hoarder):
    """Ends with a message only when the next one has come."""

    def __init__(self) -> None:
        super().__init__()
        self._next = asyncio.Event()

    @rpc
    async def on_put(self, message: Put, ctx: MessageContext) -> Sum:
        self._next.set()
        self._next = mine = asyncio.Event()
        if message.value >= 0:
            await mine.wait()
        return Sum(message.value)


@pytest.mark.parametrize(("pause", "waited"), [(None, 0), (0.01, 3)])
async def test_a_pause_that_brings_no_rest_is_made_ever_more_rarely(
    dsn: str, pause: float | None, waited: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[int] = []
    take = Snapshotting.take_in_a_pause

    async def counted(self: Snapshotting, incarnation: Any, appender: Any, gate: Any) -> Any:
        pauses.append(appender.version)
        return await take(self, incarnation, appender, gate)

    monkeypatch.setattr(Snapshotting, "take_in_a_pause", counted)
    policy = SnapshotPolicy(every=5, within=None, pause=pause)
    async with running(dsn, Relay, policy) as runtime:
        last: asyncio.Future[Any] | None = None
        for value in [*range(30), -1]:
            sent = asyncio.ensure_future(runtime.send_message(Put(value), ONE))
            if last is not None:
                await last
            last = sent
        assert last is not None
        await last
        assert len(pauses) == waited
        taken = await log_of(runtime).snapshots.list_snapshots(str(ONE))
        assert all(snapshot.version > 60 for snapshot in taken)  # at the end, when it is at rest


class Caller(RoutedAgent):
    """Asks another agent, which asks back, and always has another message in hand."""

    def __init__(self) -> None:
        super().__init__("asks")
        self.done = 0

    @rpc
    async def on_put(self, message: Put, ctx: MessageContext) -> Sum:
        if message.value < 0:
            return Sum(self.done)
        await asyncio.sleep(0.005)
        back = await self.send_message(message, AgentId("echo", "one"))
        self.done += 1
        return Sum(back.value)


class Echo(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("asks back")

    @rpc
    async def on_put(self, message: Put, ctx: MessageContext) -> Sum:
        return await self.send_message(Put(-1), ONE)  # type: ignore[no-any-return]


async def test_handlers_that_wait_for_a_message_to_their_own_agent_are_not_waited_for_without_end(dsn: str) -> None:
    policy = SnapshotPolicy(every=4, within=None, proving=1.0, pause=3600.0)  # it ends as one waits for the other
    async with running(dsn, Caller, policy) as runtime:
        await Echo.register(runtime, "echo", Echo)
        await keep_busy(runtime, 40)
        await settled(runtime)
        assert vars(await runtime.view(ONE))["done"] == 40


def test_old_snapshots_become_ever_fewer() -> None:
    versions = list(range(10, 100_000, 10))
    stay = kept(versions, 3)
    assert {99_990, 99_980, 99_970} <= stay
    assert len(stay) <= 3 + 18
    assert kept([], 3) == set()
    assert kept([7], 3) == {7}
    # What stays once stays for long: pruning again and again loses no distance.
    there: list[int] = []
    for version in versions:
        there = sorted(kept([*there, version], 3))
    distances = {(there[-1] - version).bit_length() for version in there}
    assert len(distances) >= 10


class Asking(RoutedAgent):
    """Keeps the tasks that it has started."""

    def __init__(self) -> None:
        super().__init__("asks")
        self.tasks: list[asyncio.Task[int]] = []

    async def ask(self, value: int) -> int:
        await asyncio.sleep(0)
        return value

    @rpc
    async def on_put(self, message: Put, ctx: MessageContext) -> Sum:
        self.tasks.append(asyncio.create_task(self.ask(message.value), name=f"ask {message.value}"))
        return Sum(sum([await task for task in self.tasks]))


async def test_an_agent_that_keeps_tasks_that_are_done_is_recovered_from_a_snapshot(dsn: str) -> None:
    async with running(dsn, Asking, policy=None) as runtime:
        await put(runtime, 1, 2)
        report = await runtime.snapshot(ONE)
        assert report.proven, report.differing
    async with running(dsn, Asking, policy=None) as runtime:
        restored = await runtime.restore(ONE, version=report.version)
        assert restored.snapshot_version == report.version
        assert await runtime.send_message(Put(4), ONE) == Sum(7)
        agent: Any = await runtime.try_get_underlying_agent_instance(ONE)
        assert [task.get_name() for task in agent.tasks] == ["ask 1", "ask 2", "ask 4"]
        report = await runtime.snapshot(ONE)
        assert report.proven, report.differing


# -- what can't be right is refused -------------------------------------------------------------------------------


async def test_what_can_t_be_captured_is_named_and_the_agent_restored_by_replay(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(dsn, Threaded) as runtime:
        with caplog.at_level(logging.WARNING):
            await put(runtime, *range(12))
            await settled(runtime)
        assert "_running" in caplog.text
        assert await log_of(runtime).snapshots.list_snapshots(str(ONE)) == []
        with pytest.raises(NotCapturable, match="_running"):
            await runtime.snapshot(ONE)
        assert await runtime.view(ONE)


async def test_a_state_that_replay_does_not_reach_is_not_believed(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    Fickle.outside = 0
    async with running(dsn, Fickle, SnapshotPolicy(within=None)) as runtime:
        await put(runtime, 1, 2)
        Fickle.outside = 5
        with caplog.at_level(logging.WARNING):
            report = await runtime.snapshot(ONE)
        assert not report.proven
        assert any("_seen" in one for one in report.differing)
        log = log_of(runtime)
        (snapshot,) = await log.snapshots.list_snapshots(str(ONE))
        assert snapshot.status == FAILED
        await log.writer.flush()
        failures = [event async for event in log.tail(follow=False) if event.type is EventType.SNAPSHOT_FAILED]
        assert [(event.recipient, event.metadata["version"]) for event in failures] == [(str(ONE), snapshot.version)]
        assert (await runtime.restore(ONE, version=snapshot.version)).snapshot_version is None


@pytest.mark.parametrize(
    "damage",
    [
        "payload = ''",
        "payload = substring(payload FOR length(payload) - 5)",
        "payload = '{}'",
        "payload = '[]'",
        "payload = replace(encode(payload, 'escape'), '\"hoards\"', '\"hoarse\"')::bytea",
        "metadata = '{}'",
        "metadata = jsonb_set(metadata::jsonb, '{tick}', '\"x\"')::json",
    ],
)
async def test_a_damaged_snapshot_is_set_aside_for_an_older_one(
    dsn: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A12."""
    async with running(dsn) as runtime:
        await put(runtime, *range(25))
        await settled(runtime)
        live = capture(await runtime.try_get_underlying_agent_instance(ONE), log_of(runtime).codec).digest
        newest, older, *_ = await log_of(runtime).snapshots.list_snapshots(str(ONE))
    sql(dsn, f"UPDATE eventlog.snapshot SET {damage} WHERE version = {newest.version}")
    async with running(dsn) as runtime:
        head = await log_of(runtime).head(ONE)
        assert head is not None
        with caplog.at_level(logging.WARNING):
            report = await runtime.restore(ONE, version=head.version)
        assert report.snapshot_version == older.version
        assert f"version {newest.version}" in caplog.text
        assert capture(await runtime.try_get_underlying_agent_instance(ONE), log_of(runtime).codec).digest == live


async def test_a_class_that_stored_data_names_is_not_made(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    """G10: even if the digest is right."""
    async with running(dsn) as runtime:
        await put(runtime, *range(12))
        await settled(runtime)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "UPDATE eventlog.snapshot SET payload = replace(encode(payload, 'escape'), %s, %s)::bytea",
            (f"{__name__}:Node", "subprocess:Popen"),
        )
        connection.execute(
            "UPDATE eventlog.snapshot SET metadata = jsonb_set(metadata::jsonb, '{sum}',"
            " to_jsonb(encode(sha256(payload), 'hex')))::json"
        )
    async with running(dsn) as runtime:
        with caplog.at_level(logging.WARNING):
            assert (await runtime.send_message(Put(1), ONE)).value == sum(range(12))
        assert "subprocess:Popen" in caplog.text


# -- real agents --------------------------------------------------------------------------------------------------


class Helper(RoutedAgent):
    """Has an assistant of AgentChat's."""

    def __init__(self, assistant: AssistantAgent) -> None:
        super().__init__("helps")
        self._assistant = assistant

    @message_handler
    async def on_put(self, message: Put, ctx: MessageContext) -> Sum:
        text = TextMessage(content=str(message.value), source="user")
        response = await self._assistant.on_messages([text], CancellationToken())
        return Sum(len(response.chat_message.to_model_text()))


def helper(answers: int) -> Callable[[], Helper]:
    info = ModelInfo(vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False)

    def make() -> Helper:
        client = ReplayChatCompletionClient(["x" * (1 + n % 7) for n in range(answers)], info)
        context = BufferedChatCompletionContext(buffer_size=4)
        return Helper(AssistantAgent("assistant", client, model_context=context))

    return make


async def test_an_assistant_is_captured_with_its_context_and_asks_its_model_no_more_than_once(dsn: str) -> None:
    agent = AgentId("helper", "one")

    @asynccontextmanager
    async def helping(answers: int) -> AsyncIterator[EventSourcedAgentRuntime]:
        async with EventLog.open(dsn) as log:
            runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, snapshots=EVERY_TEN)])
            await Helper.register(runtime, "helper", helper(answers))
            runtime.start()
            yield runtime
            await runtime.stop_when_idle()

    async with helping(20) as runtime:
        await put(runtime, *range(10), agent=agent)
        await settled(runtime)
        assert (await runtime.snapshot(agent)).proven
        live = capture(await runtime.try_get_underlying_agent_instance(agent), log_of(runtime).codec)
    async with helping(0) as runtime:  # no model to be asked
        head = await log_of(runtime).head(agent)
        assert head is not None
        report = await runtime.restore(agent, version=head.version)
        assert report.snapshot_version is not None and report.events_replayed < 20
        recovered = await runtime.try_get_underlying_agent_instance(agent, Helper)
        assert capture(recovered, log_of(runtime).codec).digest == live.digest
        state = await recovered._assistant.save_state()
        assert len(state["llm_context"]["messages"]) == 20


# -- the loop is not held up --------------------------------------------------------------------------------------


async def test_a_large_state_is_read_while_others_are_served(dsn: str) -> None:
    class Large(Hoarder):
        def __init__(self) -> None:
            super().__init__()
            self._pages = [f"{number:>100}" for number in range(10_000)]

    async with running(dsn, Large, SnapshotPolicy(within=None)) as runtime:
        await put(runtime, 1)
        assert (await runtime.snapshot(ONE)).bytes > 1_000_000
        threads: set[int] = set()
        shell = runtime._agents.shells[ONE]
        snapshotting = shell._snapshotting
        original = snapshotting._captured

        async def seen(incarnation: Any, agent: Any) -> Any:
            answered = asyncio.create_task(put(runtime, 2, agent=AgentId("hoarder", "other")))
            state = await original(incarnation, agent)
            threads.add(threading.get_ident())
            await answered
            return state

        snapshotting._captured = seen  # type: ignore[method-assign]
        await put(runtime, 3)
        assert (await runtime.snapshot(ONE)).proven
        assert threads


def sql(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement)


# -- the commands -------------------------------------------------------------------------------------------------


async def register_hoarders(runtime: EventSourcedAgentRuntime) -> None:
    await Hoarder.register(runtime, "hoarder", Hoarder)


async def register_fickle(runtime: EventSourcedAgentRuntime) -> None:
    await Fickle.register(runtime, "hoarder", Fickle)


def eventlog(dsn: str, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["--dsn", dsn, "--json", *arguments])


def test_the_command_takes_snapshots_by_replay_and_another_proves_what_is_left(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")

    async def record() -> None:
        async with running(dsn, policy=None) as runtime:
            await put(runtime, *range(7))

    asyncio.run(record())
    taken = eventlog(dsn, "snapshot", str(ONE), "--app", f"{__name__}:register_hoarders")
    assert taken.exit_code == 0, taken.output
    said = json.loads(taken.stdout)
    assert (said["agent"], said["proven"], said["kind"]) == (str(ONE), True, "captured")
    again = eventlog(dsn, "verify", "--all", "--app", f"{__name__}:register_hoarders", "--again")
    assert again.exit_code == 0 and json.loads(again.stdout)["version"] == said["version"], again.output
    sql(
        dsn,
        "UPDATE eventlog.snapshot SET status = 'taken', payload = replace(encode(payload, 'escape'), '6', '5')::bytea",
    )
    failed = eventlog(dsn, "verify", "--type", "hoarder", "--app", f"{__name__}:register_hoarders")
    assert failed.exit_code == 1 and not json.loads(failed.stdout)["proven"], failed.output

    async def restored() -> None:
        async with running(dsn, policy=None) as runtime:
            assert (await runtime.restore(ONE, version=said["version"])).snapshot_version is None

    asyncio.run(restored())


async def test_every_agent_of_a_team_gets_its_snapshot(dsn: str) -> None:
    info = ModelInfo(vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False)
    async with EventLog.open(dsn) as log:
        handler = EventLogHandler(log, snapshots=SnapshotPolicy(within=None))
        runtime = EventSourcedAgentRuntime(intervention_handlers=[handler])
        runtime.start()
        members = [
            AssistantAgent(name, ReplayChatCompletionClient([f"{name} {n}" for n in range(9)], info)) for name in "ab"
        ]
        team = RoundRobinGroupChat(members, max_turns=4, runtime=runtime)
        await team.run(task="begin")
        await runtime.stop_when_idle()
        runtime.start()
        for head in await log.agents():
            if head.version and not head.stream.startswith("$") and "output" not in head.stream:
                report = await runtime.snapshot(AgentId.from_str(head.stream))
                assert report.proven, report
        result = await team.run(task="go on")
        assert [message.to_text() for message in result.messages[1:3]] == ["a 2", "b 2"]
        await runtime.stop_when_idle()


class Chair(RoutedAgent):
    """Has a team inside, which has a runtime of its own (A19)."""

    def __init__(self, answers: int) -> None:
        super().__init__("chair")
        info = ModelInfo(
            vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False
        )
        members = [
            AssistantAgent(name, ReplayChatCompletionClient([f"{name} {n}" for n in range(answers)], info))
            for name in "ab"
        ]
        self._team = RoundRobinGroupChat(members, max_turns=3)

    @message_handler
    async def on_put(self, message: Put, ctx: MessageContext) -> str:
        result = await self._team.run(task=str(message.value), cancellation_token=ctx.cancellation_token)
        return " ".join(one.source for one in result.messages)  # what they say is their models' business


async def test_a_team_with_a_runtime_of_its_own_inside_an_agent_comes_back_with_its_agents(dsn: str) -> None:
    chair = AgentId("chair", "one")

    async def said(name: str, dsn: str, *values: int, take: bool = False) -> list[str]:
        async with EventLog.open(dsn) as log:
            runtime = EventSourcedAgentRuntime(
                intervention_handlers=[EventLogHandler(log, snapshots=SnapshotPolicy(within=None))]
            )
            await Chair.register(runtime, "chair", lambda: Chair(50))
            runtime.start()
            answers = [await runtime.send_message(Put(value), AgentId("chair", name)) for value in values]
            if take:
                report = await runtime.snapshot(AgentId("chair", name))
                assert report.proven, report.differing
            await runtime.stop_when_idle()
            return answers

    undisturbed = await said("other", dsn, 1, 2, 3)
    first = await said("one", dsn, 1, 2, take=True)
    async with EventLog.open(dsn) as log:  # nothing but the snapshot is left to recover from
        (snapshot,) = await log.snapshots.list_snapshots(str(chair))
    assert first + await said("one", dsn, 3) == undisturbed
    assert snapshot.version > 0


async def test_the_state_of_a_team_inside_is_really_in_the_snapshot(dsn: str) -> None:
    async with EventLog.open(dsn) as log:
        handler = EventLogHandler(log, snapshots=SnapshotPolicy(within=None))
        runtime = EventSourcedAgentRuntime(intervention_handlers=[handler])
        await Chair.register(runtime, "chair", lambda: Chair(50))
        runtime.start()
        chair = AgentId("chair", "one")
        await runtime.send_message(Put(1), chair)
        before = await runtime.snapshot(chair)
        await runtime.send_message(Put(2), chair)
        after = await runtime.snapshot(chair)
        assert before.proven and after.proven
        first, second = sorted(await log.snapshots.list_snapshots(str(chair)), key=lambda one: one.version)
        places = [one.path for one in state_difference(first.payload, second.payload)]
        assert any("_instantiated_agents" in place for place in places), places
        await runtime.stop_when_idle()
