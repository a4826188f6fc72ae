"""Points of the past: what each means, what is refused and how, and what restoring does to what is under way (G5, G7, G9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from autogen_core import AgentId, MessageContext, RoutedAgent, message_handler

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.errors import AgentBusy, InvalidPoint, NotEncodable, RecordingIncomplete, UnknownStream
from autogen_eventlog.events import EventType
from tests.acceptance.asking import until

ALICE, BOB, NOBODY = AgentId("teller", "alice"), AgentId("teller", "bob"), AgentId("teller", "nobody")


@dataclass
class Add:
    value: int


@dataclass
class Hold:
    """Adds once the gate agent has answered, which it does when it is opened."""

    value: int


@dataclass
class Fail:
    """Raises once the gate agent has answered."""


@dataclass
class Total:
    value: int


@dataclass
class Pass:
    pass


class Teller(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("teller")
        self.values: list[int] = []
        self._private = {"total": 0}

    def _add(self, value: int) -> Total:
        self.values.append(value)
        self._private["total"] += value
        return Total(self._private["total"])

    @message_handler
    async def on_add(self, message: Add, ctx: MessageContext) -> Total:
        return self._add(message.value)

    @message_handler
    async def on_hold(self, message: Hold, ctx: MessageContext) -> Total:
        await self.send_message(Pass(), AgentId("gate", "main"))
        return self._add(message.value)

    @message_handler
    async def on_fail(self, message: Fail, ctx: MessageContext) -> None:
        await self.send_message(Pass(), AgentId("gate", "main"))
        raise ValueError("no money")


class Gate(RoutedAgent):
    """Lets nobody pass before it is opened: a stand-in for a person, in memory only."""

    opened = asyncio.Event()

    def __init__(self) -> None:
        super().__init__("gate")

    @message_handler
    async def on_pass(self, message: Pass, ctx: MessageContext) -> Total:
        await Gate.opened.wait()
        return Total(0)


@pytest.fixture(autouse=True)
def closed_gate() -> None:
    Gate.opened = asyncio.Event()


@pytest.fixture
async def log(dsn: str) -> AsyncIterator[EventLog]:
    async with EventLog.open(dsn) as opened:
        yield opened


@asynccontextmanager
async def started(log: EventLog, **settings: Any) -> AsyncIterator[EventSourcedAgentRuntime]:
    runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, **settings)])
    await Teller.register(runtime, "teller", Teller)
    await Gate.register(runtime, "gate", Gate)
    runtime.start()
    yield runtime
    await runtime.stop()


@pytest.fixture
async def runtime(log: EventLog) -> AsyncIterator[EventSourcedAgentRuntime]:
    async with started(log) as runtime:
        yield runtime


async def heads(log: EventLog) -> list[Any]:
    return [head for head in await log.agents() if not head.stream.startswith("$")]


async def lived(runtime: EventSourcedAgentRuntime, *values: int) -> None:
    for value in values:
        await runtime.send_message(Add(value), ALICE)


# -- what a point means -------------------------------------------------------------------------------------------


async def test_a_time_between_two_events_means_the_state_after_the_first(
    log: EventLog, runtime: EventSourcedAgentRuntime
) -> None:
    await lived(runtime, 1, 2, 3)
    events = [event async for event in log.read(ALICE)]
    done = [event for event in events if event.type is EventType.DELIVERY_COMPLETED]
    for number, event in enumerate(done, start=1):
        view = await runtime.view(ALICE, at=event.recorded_at, type=Teller)
        assert view.values == [1, 2, 3][:number]
        at_position = await runtime.view(ALICE, position=event.position, type=Teller)
        assert at_position.values == [1, 2, 3][:number]
        assert at_position._private == view._private == {"total": sum(view.values)}


async def test_now_and_the_last_version_and_a_time_just_passed_are_the_same(
    log: EventLog, runtime: EventSourcedAgentRuntime
) -> None:
    await lived(runtime, 1, 2)
    head = await log.head(ALICE)
    assert head is not None
    for point in ({}, {"version": head.version}, {"at": datetime.now(timezone.utc)}, {"position": head.position}):
        assert (await runtime.view(ALICE, type=Teller, **point)).values == [1, 2]  # type: ignore[arg-type]


async def test_a_time_in_another_zone_is_the_same_instant(runtime: EventSourcedAgentRuntime) -> None:
    await lived(runtime, 1)
    then = datetime.now(timezone.utc)
    await lived(runtime, 2)
    elsewhere = then.astimezone(timezone(timedelta(hours=-9, minutes=-30)))
    assert (await runtime.view(ALICE, at=elsewhere, type=Teller)).values == [1]


# -- points that make no sense ------------------------------------------------------------------------------------


async def the_log_is_untouched_by(log: EventLog, action: Any) -> None:
    before = await heads(log)
    await action()
    assert await heads(log) == before


@pytest.mark.parametrize("operation", ["view", "restore"])
async def test_points_that_cannot_be_are_refused_by_name_and_nothing_is_made(
    log: EventLog, runtime: EventSourcedAgentRuntime, operation: str
) -> None:
    await lived(runtime, 1, 2)
    asked = getattr(runtime, operation)
    now = datetime.now(timezone.utc)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"version": 0}, "the first is 1"),
        ({"version": -3}, "the first is 1"),
        ({"version": 10_000}, "ends at version"),
        ({"position": 0}, "the first is 1"),
        ({"position": -1}, "the first is 1"),
        ({"at": now + timedelta(hours=1)}, "in the future"),
        ({"at": now.replace(tzinfo=None)}, "no time zone"),
        ({"at": now, "version": 1}, "more than one was given"),
        ({"version": 1, "position": 1}, "more than one was given"),
        ({"version": "1"}, "it is a str"),
        ({"position": 1.5}, "it is a float"),
        ({"at": "1m"}, "it is a str"),
        ({"at": now, "version": 1, "position": 1}, "more than one was given"),
    ]
    before = await heads(log)
    for point, problem in wrong:
        with pytest.raises(InvalidPoint) as refused:
            await asked(ALICE, **point)
        assert problem in refused.value.problem, point
        assert refused.value.remedy
    assert await heads(log) == before
    assert (await runtime.view(ALICE, type=Teller)).values == [1, 2]


@pytest.mark.parametrize("operation", ["view", "restore"])
async def test_before_the_first_event_there_is_no_agent(
    log: EventLog, runtime: EventSourcedAgentRuntime, operation: str
) -> None:
    long_ago = datetime(2020, 1, 1, tzinfo=timezone.utc)
    await lived(runtime, 1)
    before = await heads(log)
    for point in ({"at": long_ago}, {"position": 1}):
        with pytest.raises(UnknownStream) as refused:
            await getattr(runtime, operation)(ALICE, **point)
        assert refused.value.stream == "teller/alice"
    assert await heads(log) == before


@pytest.mark.parametrize("operation", ["view", "restore"])
async def test_an_agent_that_never_lived_is_not_brought_to_life_by_looking(
    log: EventLog, runtime: EventSourcedAgentRuntime, operation: str
) -> None:
    await lived(runtime, 1)
    before = await heads(log)
    for point in ({"version": 1}, {"at": datetime.now(timezone.utc)}):
        with pytest.raises(UnknownStream):
            await getattr(runtime, operation)(NOBODY, **point)
    with pytest.raises(UnknownStream):
        await runtime.view(NOBODY)
    assert await heads(log) == before


@pytest.mark.parametrize("operation", ["view", "restore"])
async def test_an_unknown_type_is_refused_as_autogen_refuses_it(
    runtime: EventSourcedAgentRuntime, operation: str
) -> None:
    with pytest.raises(LookupError, match="stranger"):
        await getattr(runtime, operation)(AgentId("stranger", "1"), version=1)


async def test_an_agent_is_named_by_its_id_or_in_words(runtime: EventSourcedAgentRuntime) -> None:
    await lived(runtime, 1, 2)
    assert (await runtime.view("teller/alice", type=Teller)).values == [1, 2]
    assert (await runtime.restore("teller/alice", version=3)).agent == ALICE
    assert (await runtime.snapshot("teller/alice")).agent == ALICE
    for operation in (runtime.view, runtime.restore):
        with pytest.raises(ValueError, match="'teller' is no agent's id"):
            await operation("teller", version=1)
        with pytest.raises(TypeError, match="not by a int: 7"):
            await operation(7, version=1)  # type: ignore[arg-type]
        for key in ("\0", "\ud800", "x" * 2000):
            with pytest.raises(NotEncodable, match="agent id"):
                await operation(AgentId("teller", key), version=1)
    await runtime.save_state()  # nothing of them is left


async def test_a_restore_without_a_point_is_refused(runtime: EventSourcedAgentRuntime) -> None:
    await lived(runtime, 1)
    with pytest.raises(InvalidPoint):
        await runtime.restore(ALICE)
    with pytest.raises(InvalidPoint):
        await runtime.restore_all()


async def test_a_view_of_another_class_is_a_type_error(runtime: EventSourcedAgentRuntime) -> None:
    await lived(runtime, 1)
    with pytest.raises(TypeError, match="Teller"):
        await runtime.view(ALICE, type=Gate)


async def test_a_runtime_that_records_nothing_says_so(caplog: pytest.LogCaptureFixture) -> None:
    runtime = EventSourcedAgentRuntime()
    runtime.start()
    await runtime.stop()
    assert "no EventLogHandler among the intervention handlers: nothing is recorded" in caplog.text
    for asked in (runtime.view(ALICE), runtime.restore(ALICE, version=1), runtime.restore_all(position=1)):
        with pytest.raises(RecordingIncomplete) as refused:
            await asked
        assert "EventLogHandler" in refused.value.runtime


async def test_a_handler_that_is_given_no_open_log_says_so(dsn: str) -> None:
    with pytest.raises(TypeError, match=r"async with EventLog\.open"):
        EventLogHandler(EventLog.open(dsn))  # type: ignore[arg-type]


# -- branches ------------------------------------------------------------------------------------------------


async def test_an_abandoned_branch_stays_readable_and_can_be_returned_to(
    log: EventLog, runtime: EventSourcedAgentRuntime
) -> None:
    async def version() -> int:
        head = await log.head(ALICE)
        assert head is not None
        return head.version

    await lived(runtime, 1, 2)
    first = await version()
    await lived(runtime, 3)
    abandoned = await version()
    report = await runtime.restore(ALICE, version=first)
    assert (report.version, report.abandoned_events, report.continues_from) == (
        first,
        abandoned - first,
        abandoned + 1,
    )
    await lived(runtime, 4)
    second = await version()
    assert (await runtime.view(ALICE, type=Teller)).values == [1, 2, 4]
    await runtime.restore(ALICE, version=abandoned)
    await lived(runtime, 5)
    third = await version()
    assert (await runtime.view(ALICE, type=Teller)).values == [1, 2, 3, 5]
    await runtime.restore(ALICE, version=second)
    for point, values in ((first, [1, 2]), (abandoned, [1, 2, 3]), (second, [1, 2, 4]), (third, [1, 2, 3, 5])):
        assert (await runtime.view(ALICE, version=point, type=Teller)).values == values
    live = await runtime.try_get_underlying_agent_instance(ALICE, Teller)
    assert live.values == [1, 2, 4]
    versions = [event.version async for event in log.read(ALICE)]
    assert versions == list(range(1, len(versions) + 1))


async def test_a_restore_does_not_touch_what_a_view_holds(runtime: EventSourcedAgentRuntime) -> None:
    await lived(runtime, 1, 2)
    view = await runtime.view(ALICE, type=Teller)
    view.values.append(99)
    await lived(runtime, 3)
    assert view.values == [1, 2, 99]
    assert (await runtime.view(ALICE, type=Teller)).values == [1, 2, 3]


async def test_a_restored_agent_survives_the_process(log: EventLog, dsn: str) -> None:
    async with started(log) as runtime:
        await lived(runtime, 1, 2)
        done = [event.version async for event in log.read(ALICE) if event.type is EventType.DELIVERY_COMPLETED]
        await runtime.restore(ALICE, version=done[0])
    async with started(log) as runtime:
        assert await runtime.send_message(Add(10), ALICE) == Total(11)


# -- what is under way --------------------------------------------------------------------------------------------


async def until_delivered(log: EventLog, agent: AgentId, count: int = 1) -> None:
    async def delivered() -> bool:
        return len(await log.audit.in_flight(str(agent))) >= count

    await until(delivered, f"{count} deliveries of {agent} are under way")


async def is_restoring(runtime: EventSourcedAgentRuntime, agent: AgentId) -> bool:
    return runtime._agents.shells[agent]._gate.locked()  # pyright: ignore[reportPrivateUsage] - nothing public shows it


async def test_a_restore_waits_for_running_deliveries_but_not_for_ever(
    log: EventLog, runtime: EventSourcedAgentRuntime
) -> None:
    await lived(runtime, 1)
    held = asyncio.create_task(runtime.send_message(Hold(2), ALICE))
    await until_delivered(log, ALICE)
    before = await log.head(ALICE)
    with pytest.raises(AgentBusy) as busy:
        await runtime.restore(ALICE, version=2, timeout=0.05)
    assert (busy.value.stream, busy.value.running, busy.value.waited_seconds) == ("teller/alice", 1, 0.05)
    assert await log.head(ALICE) == before
    Gate.opened.set()
    assert await held == Total(3)
    assert await runtime.send_message(Add(3), ALICE) == Total(6)


async def test_deliveries_that_come_during_a_restore_wait_and_run_after_it(
    log: EventLog, runtime: EventSourcedAgentRuntime
) -> None:
    await lived(runtime, 1)
    head = await log.head(ALICE)
    assert head is not None
    held = asyncio.create_task(runtime.send_message(Hold(2), ALICE))
    await until_delivered(log, ALICE)
    restoring = asyncio.create_task(runtime.restore(ALICE, version=head.version, timeout=30))
    await until(lambda: is_restoring(runtime, ALICE), "the restore waits for the delivery")
    late = [asyncio.create_task(runtime.send_message(Add(value), ALICE)) for value in (10, 20)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert not any(task.done() for task in late)
    Gate.opened.set()
    assert await held == Total(3)
    report = await restoring
    assert [await task for task in late] == [Total(11), Total(31)]
    assert (await runtime.view(ALICE, type=Teller)).values == [1, 10, 20]
    assert report.version == head.version


async def test_a_restore_amid_a_delivery_lets_it_go_on_from_there(
    log: EventLog, runtime: EventSourcedAgentRuntime
) -> None:
    await lived(runtime, 1)
    held = asyncio.create_task(runtime.send_message(Hold(2), ALICE))
    await until_delivered(log, ALICE)
    Gate.opened.set()
    assert await held == Total(3)
    await lived(runtime, 5)
    [sent] = [event async for event in log.read(ALICE) if event.type is EventType.MESSAGE_SENT]
    report = await runtime.restore(ALICE, version=sent.version)
    assert report.in_flight == (sent.delivery,)

    async def finished() -> bool:
        return (await runtime.view(ALICE, type=Teller)).values == [1, 2]

    await until(finished, "the delivery that was under way then has run to its end")
    assert await runtime.send_message(Add(7), ALICE) == Total(10)


async def test_a_handler_that_goes_on_and_fails_is_told_of_whoever_waits(
    log: EventLog, runtime: EventSourcedAgentRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    Gate.opened.set()
    with pytest.raises(ValueError, match="no money"):
        await runtime.send_message(Fail(), ALICE)
    [sent] = [event async for event in log.read(ALICE) if event.type is EventType.MESSAGE_SENT]
    assert "went on" not in caplog.text
    await runtime.restore(ALICE, version=sent.version)

    async def ended() -> bool:
        return not await log.audit.in_flight(ALICE)

    await until(ended, "the handler has gone on to its end")
    told = f"teller/alice: the handler run that began at version {sent.delivery} went on, and raised: ValueError('no money')"
    assert told in caplog.text


async def test_a_view_amid_a_delivery_stands_still_there(log: EventLog, runtime: EventSourcedAgentRuntime) -> None:
    held = asyncio.create_task(runtime.send_message(Hold(2), ALICE))
    await until_delivered(log, ALICE)
    view = await runtime.view(ALICE, type=Teller)
    assert view.values == []
    Gate.opened.set()
    await held
    assert view.values == []
    assert (await runtime.view(ALICE, type=Teller)).values == [2]
    gates = [event async for event in log.read("gate/main") if event.type is EventType.MESSAGE_DELIVERED]
    assert len(gates) == 1


async def test_two_restores_at_once_come_one_after_the_other(log: EventLog, runtime: EventSourcedAgentRuntime) -> None:
    await lived(runtime, 1, 2, 3)
    done = [event.version async for event in log.read(ALICE) if event.type is EventType.DELIVERY_COMPLETED]
    reports = await asyncio.gather(*(runtime.restore(ALICE, version=version) for version in done))
    assert [report.version for report in reports] == done
    assert len({report.continues_from for report in reports}) == 3
    last = max(reports, key=lambda report: report.continues_from)
    assert await runtime.send_message(Add(0), ALICE) == Total([1, 3, 6][done.index(last.version)])


async def test_an_instance_that_was_replaced_can_do_nothing(log: EventLog, runtime: EventSourcedAgentRuntime) -> None:
    await lived(runtime, 1, 2)
    old = await runtime.try_get_underlying_agent_instance(ALICE, Teller)
    done = [event.version async for event in log.read(ALICE) if event.type is EventType.DELIVERY_COMPLETED]
    await runtime.restore(ALICE, version=done[0])
    new = await runtime.try_get_underlying_agent_instance(ALICE, Teller)
    assert new is not old
    assert (old.values, new.values) == ([1, 2], [1])
