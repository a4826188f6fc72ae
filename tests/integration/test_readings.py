"""Clocks, ids and random numbers that unmodified agents read: the same in replay, and only there (G3, G5)."""

# ruff: noqa: DTZ005
from __future__ import annotations

import asyncio
import datetime
import logging
import random
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from autogen_core import AgentId, MessageContext, RoutedAgent, message_handler
from autogen_core.tools import FunctionTool

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime, EventType
from autogen_eventlog.errors import Divergence
from autogen_eventlog.runtime import blueprint
from autogen_eventlog.snapshots import SnapshotPolicy
from autogen_eventlog.testing.equality import difference

from .reading_agent import Read, Reader

READER = AgentId("reader", "one")
KEPT = ("born", "name", "began", "lucky", "seen")


@dataclass
class Go:
    """Asks for whatever the agent does."""

    number: int = 0


@asynccontextmanager
async def running(
    dsn: str, factory: Callable[[], Any] = Reader, **settings: Any
) -> AsyncGenerator[EventSourcedAgentRuntime]:
    """A new runtime on the log, with agents of type `reader`."""
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, **settings)])
        await runtime.register_factory("reader", factory)
        runtime.start()
        try:
            yield runtime
        finally:
            await runtime.stop_when_idle()


async def events_of(dsn: str, agent: AgentId = READER) -> list[Any]:
    async with EventLog.open(dsn) as log:
        return [event async for event in log.read(agent)]


def readings_in(events: list[Any]) -> list[str]:
    """The kinds of what was read, but for the loop's own clock."""
    observed = [seen for event in events for seen in event.metadata.get("observations", ())]
    return [what[0] for kind, what, _ in observed if kind == "r" and what[0] != "loop.time"]


def kept(agent: Any) -> dict[str, Any]:
    return {name: vars(agent)[name] for name in KEPT}


def times_of(agent: Reader) -> list[float]:
    return [agent.began, *(seen["monotonic"][0] for seen in agent.seen if isinstance(seen, dict))]


async def test_whatever_an_agent_reads_is_the_same_in_a_view_and_when_recovered(dsn: str) -> None:
    async with running(dsn) as runtime:
        await asyncio.gather(*(runtime.send_message(Read(2, 0.001), READER) for _ in range(4)))
        live = await runtime.try_get_underlying_agent_instance(READER, Reader)
        view = await runtime.view(READER, type=Reader)
        assert difference(kept(live), kept(view)) is None
        assert live.rng.getstate() == view.rng.getstate()
    async with running(dsn) as runtime:
        recovered = await runtime.try_get_underlying_agent_instance(READER, Reader)
        assert difference(kept(live), kept(recovered)) is None
        await runtime.send_message(Read(), READER)
        assert times_of(recovered) == sorted(times_of(recovered))
        view = await runtime.view(READER, type=Reader)
        assert difference(kept(recovered), kept(view)) is None


async def test_every_version_is_seen_alike_twice(dsn: str) -> None:
    async with running(dsn) as runtime:
        await asyncio.gather(*(runtime.send_message(Read(2, 0.001), READER) for _ in range(3)))
        for version in range(1, len(await events_of(dsn)) + 1):
            first, second = [await runtime.view(READER, version=version, type=Reader) for _ in range(2)]
            assert difference(kept(first), kept(second)) is None


async def test_a_restored_agent_reads_on_from_where_it_was(dsn: str) -> None:
    async with running(dsn) as runtime:
        for _ in range(3):
            await runtime.send_message(Read(), READER)
        report = await runtime.restore(READER, version=4)
        assert report.exact
        await runtime.send_message(Read(), READER)
        live = await runtime.try_get_underlying_agent_instance(READER, Reader)
        assert times_of(live) == sorted(times_of(live))
        assert difference(kept(live), kept(await runtime.view(READER, type=Reader))) is None


async def test_others_read_what_is_real_while_agents_live_and_are_replayed(dsn: str) -> None:
    """A task beside the agents, in their loop, sees time pass and ids differ; and what it draws changes nothing."""
    seen: list[tuple[float, datetime.datetime, uuid.UUID, float, float]] = []

    async def beside() -> None:
        while True:
            seen.append((time.time(), datetime.datetime.now(), uuid.uuid4(), random.random(), time.monotonic()))
            await asyncio.sleep(0)

    watching = asyncio.create_task(beside())
    try:
        async with running(dsn) as runtime:
            await asyncio.gather(*(runtime.send_message(Read(3), READER) for _ in range(5)))
            live = await runtime.try_get_underlying_agent_instance(READER, Reader)
            for _ in range(3):
                view = await runtime.view(READER, type=Reader)
                assert difference(kept(live), kept(view)) is None
    finally:
        watching.cancel()
    assert len(seen) > 100
    assert [one[0] for one in seen] == sorted(one[0] for one in seen)
    assert [one[4] for one in seen] == sorted(one[4] for one in seen)
    assert all(abs(stamp.timestamp() - at) < 1 for at, stamp, *_ in seen)
    for index in (2, 3):
        assert len({one[index] for one in seen}) == len(seen)
    recorded = {str(value) for agent in (live, view) for value in agent.seen if isinstance(value, tuple)}
    assert not recorded & {str(one[2]) for one in seen}


class Threaded(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("asks a tool")
        self.tool = FunctionTool(look, description="looks at the clock", name="look")
        self.seen: list[Any] = []

    @message_handler
    async def on_go(self, message: Go, ctx: MessageContext) -> int:
        self.seen.append(await self.tool.run_json({}, ctx.cancellation_token))
        return len(self.seen)


def look() -> str:
    return f"{time.time()} {uuid.uuid4()} {random.random()}"


async def test_what_a_tool_reads_is_in_its_answer_and_nowhere_else(dsn: str) -> None:
    async with running(dsn, Threaded) as runtime:
        for number in range(3):
            await runtime.send_message(Go(number), READER)
        live = await runtime.try_get_underlying_agent_instance(READER, Threaded)
        assert live.seen == (await runtime.view(READER, type=Threaded)).seen
    assert readings_in(await events_of(dsn)) == []


class Shouting(logging.Handler):
    """A handler of the user's, which dates and numbers what it is told in its own way."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append((time.time(), datetime.datetime.now(), uuid.uuid4(), random.random(), record.getMessage()))


class Logging(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("logs")
        self.seen: list[Any] = []

    @message_handler
    async def on_go(self, message: Go, ctx: MessageContext) -> None:
        self.seen.append(time.time())
        logging.getLogger("reader").debug("read %r", self.seen[-1])
        self.seen.append(random.random())


@pytest.mark.parametrize("levels", [(logging.DEBUG, logging.ERROR), (logging.ERROR, logging.DEBUG)])
async def test_the_log_level_changes_no_replay(dsn: str, levels: tuple[int, int]) -> None:
    shouting, logger = Shouting(), logging.getLogger("reader")
    logger.addHandler(shouting)
    try:
        async with running(dsn, Logging) as runtime:
            logger.setLevel(levels[0])
            for _ in range(2):
                await runtime.send_message(Go(), READER)
            live = await runtime.try_get_underlying_agent_instance(READER, Logging)
            logger.setLevel(levels[1])
            assert (await runtime.view(READER, type=Logging)).seen == live.seen
        assert len(shouting.told) == 2
    finally:
        logger.removeHandler(shouting)
        logger.setLevel(logging.NOTSET)
    assert readings_in(await events_of(dsn)) == ["time.time", "random.seed"] * 2


class Busy(RoutedAgent):
    """Looks at the clock more often than one event could hold."""

    def __init__(self) -> None:
        super().__init__("waits by looking")
        self.seen: list[float] = []

    @message_handler
    async def on_go(self, message: Go, ctx: MessageContext) -> int:
        self.seen.extend(time.perf_counter() for _ in range(5000))
        self.seen.extend(random.random() for _ in range(5000))
        return len(self.seen)


async def test_many_readings_in_one_callback_are_spread_over_events(dsn: str) -> None:
    async with running(dsn, Busy) as runtime:
        await runtime.send_message(Go(), READER)
        live = await runtime.try_get_underlying_agent_instance(READER, Busy)
        assert (await runtime.view(READER, type=Busy)).seen == live.seen
    events = await events_of(dsn)
    assert sum(event.type is EventType.SCHEDULE_RECORDED for event in events) == 5
    assert max(len(event.metadata.get("observations", ())) for event in events) <= 1000
    async with running(dsn, Busy) as runtime:
        assert (await runtime.try_get_underlying_agent_instance(READER, Busy)).seen == live.seen


class Trailing(RoutedAgent):
    """Leaves tasks and generators behind, which read after the last answer."""

    def __init__(self) -> None:
        super().__init__("leaves something behind")
        self.seen: list[Any] = []
        self.tasks: list[asyncio.Task[None]] = []

    @message_handler
    async def on_go(self, message: Go, ctx: MessageContext) -> None:
        self.tasks.append(asyncio.create_task(self.later()))
        async for number in self.numbers():
            self.seen.append((number, time.time()))
            break

    async def later(self) -> None:
        await asyncio.sleep(0.001)
        self.seen.append(("later", uuid.uuid4(), random.random()))

    async def numbers(self) -> AsyncGenerator[int]:
        try:
            yield 1
        finally:
            self.seen.append(("closed", time.time()))


async def test_what_is_read_after_the_last_answer_is_recorded_as_the_agent_comes_to_rest(dsn: str) -> None:
    async with running(dsn, Trailing) as runtime:
        await asyncio.gather(*(runtime.send_message(Go(), READER) for _ in range(3)))
        live = await runtime.try_get_underlying_agent_instance(READER, Trailing)
        await asyncio.wait(live.tasks)
        await asyncio.sleep(0)  # the loop runs their last callbacks
        assert (await runtime.view(READER, type=Trailing)).seen == live.seen
    async with running(dsn, Trailing) as runtime:
        assert (await runtime.try_get_underlying_agent_instance(READER, Trailing)).seen == live.seen
    assert (await events_of(dsn))[-2].type is EventType.SCHEDULE_RECORDED


class Saving(RoutedAgent):
    """Has a state of its own, of which times are a part."""

    def __init__(self) -> None:
        super().__init__("saves")
        self.name = uuid.uuid4().hex
        self.seen: list[float] = []
        self.drawn: list[float] = []

    @message_handler
    async def on_go(self, message: Go, ctx: MessageContext) -> None:
        self.seen.append(time.monotonic())
        self.drawn.append(random.random())

    async def save_state(self) -> dict[str, Any]:
        return {"seen": self.seen, "drawn": self.drawn}

    async def load_state(self, state: Any) -> None:
        self.seen, self.drawn = list(state["seen"]), list(state["drawn"])


async def test_a_snapshot_of_an_agent_that_draws_in_its_constructor_is_believed(dsn: str) -> None:
    async with running(dsn, Saving, snapshots=SnapshotPolicy(every=3, within=None, kind="save_state")) as runtime:
        for _ in range(6):
            await runtime.send_message(Go(), READER)
        live = await runtime.try_get_underlying_agent_instance(READER, Saving)
    async with running(dsn, Saving, snapshots=SnapshotPolicy(every=3, within=None, kind="save_state")) as runtime:
        report = await runtime.restore(READER, version=len(await events_of(dsn)))
        assert report.snapshot_version is not None
        recovered = await runtime.try_get_underlying_agent_instance(READER, Saving)
        assert (recovered.name, recovered.seen, recovered.drawn) == (live.name, live.seen, live.drawn)
        await runtime.send_message(Go(), READER)
        assert recovered.seen == sorted(recovered.seen)
        view = await runtime.view(READER, type=Saving)
        assert (view.name, view.seen, view.drawn) == (recovered.name, recovered.seen, recovered.drawn)


# -- streams that were recorded before readings were ------------------------------------------------------------------


@pytest.fixture
def older_release(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A release that records no readings, until what it returns is called."""
    monkeypatch.setattr(blueprint, "install", frozenset)
    return monkeypatch.undo


class Unsettled(RoutedAgent):
    """Keeps what it reads beside what it counts."""

    def __init__(self) -> None:
        super().__init__("counts")
        self.name = uuid.uuid4().hex
        self.count = 0
        self.seen: list[float] = []

    @message_handler
    async def on_go(self, message: Go, ctx: MessageContext) -> int:
        self.seen.append(time.time())
        self.count += 1
        await asyncio.sleep(0.001 * random.random())
        return self.count


async def test_a_stream_of_an_older_release_replays_as_before_and_goes_on_with_readings(
    dsn: str, older_release: Callable[[], None]
) -> None:
    async with running(dsn, Unsettled) as runtime:
        for number in range(3):
            await runtime.send_message(Go(number), READER)
    old = await events_of(dsn)
    assert readings_in(old) == []
    older_release()
    async with running(dsn, Unsettled) as runtime:
        recovered = await runtime.try_get_underlying_agent_instance(READER, Unsettled)
        assert recovered.count == 3
        for number in range(3):
            assert await runtime.send_message(Go(number), READER) == 4 + number
        view = await runtime.view(READER, type=Unsettled)
        assert (view.count, view.seen[3:]) == (6, recovered.seen[3:])
        for version in range(1, len(await events_of(dsn)) + 1):
            await runtime.view(READER, version=version)
    async with running(dsn, Unsettled) as runtime:
        again = await runtime.try_get_underlying_agent_instance(READER, Unsettled)
        assert (again.count, again.seen[3:]) == (6, recovered.seen[3:])


# -- what does not fit -------------------------------------------------------------------------------------------------


async def test_the_same_code_that_draws_otherwise_for_an_instance_diverges(dsn: str) -> None:
    drawing = True

    class Fickle(RoutedAgent):
        def __init__(self) -> None:
            super().__init__("draws when it is told to")
            self.name = uuid.uuid4().hex if drawing else ""

        @message_handler
        async def on_go(self, message: Go, ctx: MessageContext) -> None: ...

    async with running(dsn, Fickle) as runtime:
        await runtime.send_message(Go(), READER)
        drawing = False
        with pytest.raises(Divergence) as raised:
            await runtime.view(READER)
        assert (raised.value.version, raised.value.delivery) == (1, None)
        assert "the making of the instance reads uuid.uuid4" in raised.value.recorded
        assert raised.value.produced == "readings of nothing"


class Remote(FunctionTool):
    """Something outside with a name of its own, which it draws as AutoGen's executor for Docker does."""

    def __init__(self) -> None:
        super().__init__(look, description="looks at the clock", name="look")
        self.session = f"session-{uuid.uuid4()}"


class Holding(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("has something outside")
        self.before = uuid.uuid4()
        self.remote = Remote()
        self.after = uuid.uuid4()

    @message_handler
    async def on_go(self, message: Go, ctx: MessageContext) -> None: ...


async def test_what_is_outside_is_made_anew_under_another_name(dsn: str) -> None:
    """What a dead process left behind may be there still."""
    async with running(dsn, Holding) as runtime:
        await runtime.send_message(Go(), READER)
        live = await runtime.try_get_underlying_agent_instance(READER, Holding)
    async with running(dsn, Holding) as runtime:
        recovered = await runtime.try_get_underlying_agent_instance(READER, Holding)
    assert (recovered.before, recovered.after) == (live.before, live.after)
    assert recovered.remote.session != live.remote.session


async def test_new_code_may_draw_other_things_for_its_instances(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    class First(RoutedAgent):
        def __init__(self) -> None:
            super().__init__("has a name")
            self.name = uuid.uuid4().hex

        @message_handler
        async def on_go(self, message: Go, ctx: MessageContext) -> None: ...

    class Second(First):
        def __init__(self) -> None:
            super().__init__()
            self.born = time.time()

    async with running(dsn, First) as runtime:
        await runtime.send_message(Go(), READER)
        live = await runtime.try_get_underlying_agent_instance(READER, First)
    async with running(dsn, Second) as runtime:
        assert (await runtime.view(READER, type=Second)).name == live.name
    assert "its code now reads uuid.uuid4, time.time, and read uuid.uuid4" in caplog.text


async def test_a_reading_more_or_less_is_a_divergence_that_names_it(dsn: str) -> None:
    reads = True

    class Fickle(RoutedAgent):
        def __init__(self) -> None:
            super().__init__("reads when it is told to")

        @message_handler
        async def on_go(self, message: Go, ctx: MessageContext) -> None:
            self.at = time.time() if reads else 0.0

    async with running(dsn, Fickle) as runtime:
        await runtime.send_message(Go(), READER)
        reads = False
        with pytest.raises(Divergence) as less:
            await runtime.view(READER)
        assert "a reading of time.time" in less.value.recorded
        await runtime.send_message(Go(), AgentId("reader", "two"))
        reads = True
        with pytest.raises(Divergence) as more:
            await runtime.view(AgentId("reader", "two"))
        assert "a reading of time.time" in more.value.produced
