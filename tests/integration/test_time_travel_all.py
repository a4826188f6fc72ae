"""Restoring all agents to one point is a consistent cut, from which they go on (G7)."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import pytest
from autogen_core import AgentId, MessageContext, RoutedAgent, message_handler

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.errors import InvalidPoint
from autogen_eventlog.events import EventType, RecordedEvent
from autogen_eventlog.lineage import events_of, lineage
from autogen_eventlog.runtime.reports import RestoreReport
from tests.acceptance.asking import until
from tests.acceptance.checking import at_rest, check_every_version, twice
from tests.acceptance.programs.town import Order, Roll, amount, found

CUTS = int(os.environ.get("EVENTLOG_TEST_CUTS", "4"))


@asynccontextmanager
async def town(log: EventLog) -> AsyncIterator[EventSourcedAgentRuntime]:
    runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
    await found(runtime)
    runtime.start()
    yield runtime
    await runtime.stop_when_idle()


async def orders(runtime: EventSourcedAgentRuntime, first: int, count: int) -> None:
    numbers = range(first, first + count)
    await asyncio.gather(*(runtime.send_message(Order(n), AgentId("clerk", str(n % 2))) for n in numbers))


async def pasts(log: EventLog) -> list[RecordedEvent]:
    """What is the present past of all agents."""
    events: list[RecordedEvent] = []
    for head in await log.agents():
        if not head.stream.startswith("$"):
            past = await lineage(log.reader, head.stream, head.version)
            events += [event async for event in events_of(log.reader, past.segments)]
    return events


def check_consistent(events: list[RecordedEvent]) -> None:
    """No message is received that was not sent, and no answer without the delivery that gave it."""
    by_id = {event.id: event for event in events}
    ended = {event.cause for event in events if event.type is EventType.DELIVERY_COMPLETED}
    answered: set[UUID | None] = {
        event.cause for event in events if event.type is EventType.MESSAGE_DELIVERED and event.id in ended
    }
    received = 0
    for event in events:
        if event.type is EventType.MESSAGE_DELIVERED and event.sender is not None:
            received += 1
            assert event.cause in by_id, f"{event.stream} received at {event.version} what nobody sent"
        if event.type is EventType.REPLY_RECEIVED:
            assert event.cause in by_id
            assert event.cause in answered, f"{event.stream} has at {event.version} an answer that nobody gave"
    assert received > 0


async def check_totals(runtime: EventSourcedAgentRuntime, log: EventLog) -> None:
    states = await at_rest(runtime, log)
    done = [number for name, state in states.items() if name.startswith("clerk") for number in state.values["begun"]]
    assert twice(done) == []
    ledger = states["ledger/main"]
    assert sorted(ledger.values["booked"]) == sorted(done)
    assert ledger.total == sum(map(amount, done))
    for key in "01":
        if f"clerk/{key}" in states:
            mine = sorted(states[f"clerk/{key}"].values["begun"])
            assert sorted(states[f"counter/{key}"].values["booked"]) == mine
            assert sorted(states[f"counter/files-{key}"].values["booked"]) == mine


async def test_all_agents_brought_to_one_point_agree_and_go_on_together(dsn: str) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rnd = random.Random(seed)
    async with EventLog.open(dsn) as log, town(log) as runtime:
        first = 1
        for _ in range(CUTS):
            await orders(runtime, first, 12)
            first += 12
            await at_rest(runtime, log)
            events = sorted(await pasts(log), key=lambda event: event.position)
            cut = rnd.choice(events[len(events) // 4 :])
            point = rnd.choice([{"position": cut.position}, {"at": cut.recorded_at}])
            reports = await runtime.restore_all(**point)  # type: ignore[arg-type]
            assert {report.agent for report in reports} == {
                AgentId.from_str(head.stream) for head in await log.agents() if not head.stream.startswith("$")
            }
            check_consistent(await pasts(log))
            await check_totals(runtime, log)
            check_consistent(await pasts(log))
        await orders(runtime, first, 6)
        await check_totals(runtime, log)
        await check_every_version(runtime, log, rnd)


@dataclass
class Visit:
    seconds: float = 0.0


class Boss(RoutedAgent):
    """Sleeps, and then calls one who has never been called."""

    def __init__(self) -> None:
        super().__init__("boss")

    @message_handler
    async def on_visit(self, message: Visit, ctx: MessageContext) -> None:
        await asyncio.sleep(message.seconds)
        await self.send_message(Visit(), AgentId("late", "k"))


class Late(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("late")
        self.visits = 0

    @message_handler
    async def on_visit(self, message: Visit, ctx: MessageContext) -> None:
        self.visits += 1


async def test_an_agent_that_is_made_while_deliveries_are_waited_for_is_in_the_cut_as_well(dsn: str) -> None:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await Boss.register(runtime, "boss", Boss)
        await Late.register(runtime, "late", Late)
        runtime.start()
        boss, late = AgentId("boss", "k"), AgentId("late", "k")
        asked = asyncio.create_task(runtime.send_message(Visit(0.5), boss))

        async def begun() -> bool:
            return bool(await log.audit.in_flight(agent=boss))

        await until(begun, "the boss is at work")
        [delivered] = [event async for event in log.read(boss) if event.type is EventType.MESSAGE_DELIVERED]
        reports = await runtime.restore_all(position=delivered.position)
        assert [(report.agent, report.version) for report in reports] == [(boss, 2), (late, 0)]
        await asked

        async def visited() -> bool:
            return not await log.audit.in_flight() and (await runtime.view(late, type=Late)).visits == 1

        await until(visited, "the boss has gone on, and has called once")
        await runtime.stop_when_idle()


async def notes(log: EventLog, reports: list[RestoreReport]) -> list[RecordedEvent]:
    """The events that say that all were restored."""
    return [
        event
        for report in reports
        async for event in log.read(
            report.agent, after_version=report.continues_from - 1, until_version=report.continues_from
        )
    ]


async def test_agents_that_had_not_lived_at_the_point_are_new_again(dsn: str) -> None:
    async with EventLog.open(dsn) as log, town(log) as runtime:
        await runtime.send_message(Roll(), AgentId("counter", "early"))
        head = await log.head("counter/early")
        assert head is not None
        await orders(runtime, 1, 3)
        reports = await runtime.restore_all(position=head.position)
        versions = {str(report.agent): report.version for report in reports}
        assert versions.pop("counter/early") == head.version
        assert set(versions.values()) == {0}
        assert (await runtime.send_message(Roll(), AgentId("ledger", "main"))).values == {"booked": []}
        await orders(runtime, 10, 2)
        await check_totals(runtime, log)


async def test_before_everything_there_is_nothing_to_restore_to(dsn: str) -> None:
    async with EventLog.open(dsn) as log, town(log) as runtime:
        await orders(runtime, 1, 1)
        await at_rest(runtime, log)
        events = await pasts(log)
        first = min(event.recorded_at for event in events)
        heads = await log.agents()
        with pytest.raises(InvalidPoint):
            await runtime.restore_all(at=first.replace(year=2020))
        assert await log.agents() == heads


async def test_the_log_of_a_restored_whole_is_the_same_for_the_next_process(dsn: str) -> None:
    async with EventLog.open(dsn) as log:
        async with town(log) as runtime:
            await orders(runtime, 1, 8)
            await at_rest(runtime, log)
            events = sorted(await pasts(log), key=lambda event: event.position)
            await runtime.restore_all(position=events[len(events) // 2].position)
            await check_totals(runtime, log)
        async with town(log) as runtime:
            await check_totals(runtime, log)

            async def quiet() -> bool:
                return not await log.audit.in_flight()

            await until(quiet, "nothing is in flight")


async def test_a_whole_is_restored_between_the_messages_that_come_meanwhile(dsn: str) -> None:
    async with EventLog.open(dsn) as log, town(log) as runtime:
        await orders(runtime, 1, 6)
        await at_rest(runtime, log)
        events = sorted(await pasts(log), key=lambda event: event.position)
        under_way = asyncio.create_task(orders(runtime, 100, 10))
        reports = await runtime.restore_all(position=events[len(events) // 2].position)
        assert reports
        await orders(runtime, 200, 4)
        await under_way
        await check_totals(runtime, log)
        check_consistent(await pasts(log))


async def test_a_point_amid_an_earlier_restore_of_all_agents_is_a_consistent_cut_too(dsn: str) -> None:
    """There, some agents were in the new past already and the others in the one that was left."""
    async with EventLog.open(dsn) as log, town(log) as runtime:
        await orders(runtime, 1, 4)
        await at_rest(runtime, log)
        start = max(event.position for event in await pasts(log))
        await orders(runtime, 10, 4)
        await at_rest(runtime, log)
        restored = sorted(await notes(log, await runtime.restore_all(position=start)), key=lambda note: note.position)
        await runtime.restore_all(position=restored[len(restored) // 2].position)
        check_consistent(await pasts(log))
        await check_totals(runtime, log)
