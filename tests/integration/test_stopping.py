"""`stop()` loses nothing, leaves nobody waiting, and the next run knows nothing of it (T6; D1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from autogen_core import (
    AgentId,
    DefaultInterventionHandler,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    TopicId,
    message_handler,
)
from autogen_core import TypeSubscription as Subscribed

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.errors import MessageNotDelivered
from tests.acceptance.asking import until

ONE, OTHER = AgentId("slow", "one"), AgentId("slow", "other")
NEWS = TopicId("news", "one")
SECONDS = 0.3


@dataclass
class Do:
    number: int


@dataclass
class Pass:
    number: int


class Slow(RoutedAgent):
    """Takes its time."""

    def __init__(self) -> None:
        super().__init__("slow")
        self.done: list[int] = []

    @message_handler
    async def do(self, message: Do, ctx: MessageContext) -> int:
        if message.number == 0:
            await asyncio.sleep(SECONDS)
        self.done.append(message.number)
        return message.number

    @message_handler
    async def pass_on(self, message: Pass, ctx: MessageContext) -> int:
        await asyncio.sleep(SECONDS)
        answer: int = await self.send_message(Do(message.number), OTHER)
        self.done.append(answer)
        return answer


@asynccontextmanager
async def running(dsn: str) -> AsyncIterator[tuple[EventSourcedAgentRuntime, EventLog]]:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await settle_in(runtime)
        runtime.start()
        yield runtime, log


async def settle_in(runtime: SingleThreadedAgentRuntime) -> None:
    await Slow.register(runtime, "slow", Slow)
    await runtime.add_subscription(Subscribed("news", "slow"))


def waiting(runtime: EventSourcedAgentRuntime) -> Callable[[], Awaitable[bool]]:
    async def something() -> bool:
        return runtime.unprocessed_messages_count > 0

    return something


async def test_callers_of_what_was_not_delivered_are_told_and_the_log_has_it(dsn: str) -> None:
    async with running(dsn) as (runtime, log):
        await runtime.stop()
        calls = [asyncio.create_task(runtime.send_message(Do(number), ONE)) for number in (1, 2, 3)]
        publishing = asyncio.create_task(runtime.publish_message(Do(4), NEWS))
        await publishing
        runtime.start()
        await runtime.stop()
        for call in calls:
            with pytest.raises(MessageNotDelivered) as told:
                await call
            assert told.value.recipient == "slow/one"
        numbers = sorted(log.message(event).number for event in await log.audit.undelivered())  # type: ignore[attr-defined]
        assert numbers == [1, 2, 3, 4]
        runtime.start()
        done = await runtime.redeliver()
        assert [one.delivered_to for one in done] == [(ONE,)] * 4
        await runtime.stop_when_idle()
        assert sorted((await runtime.view(ONE, type=Slow)).done) == [1, 2, 3, 4]
        assert await log.audit.undelivered() == []


async def test_a_handler_that_ends_after_the_stop_answers_its_caller_and_not_the_next_run(dsn: str) -> None:
    async with running(dsn) as (runtime, log):
        call = asyncio.create_task(runtime.send_message(Do(0), ONE))
        await until(lambda: log.audit.in_flight(agent=ONE), "the handler runs")
        await runtime.stop()
        runtime.start()
        assert await call == 0
        assert await runtime.send_message(Do(5), ONE) == 5
        await runtime.stop_when_idle()
        assert (await runtime.view(ONE, type=Slow)).done == [0, 5]


async def test_a_handler_that_waits_for_an_undelivered_message_goes_on_in_the_next_run(dsn: str) -> None:
    async with running(dsn) as (runtime, log):
        call = asyncio.create_task(runtime.send_message(Pass(7), ONE))
        await until(lambda: log.audit.in_flight(agent=ONE), "the handler runs")
        await runtime.stop()
        await until(waiting(runtime), "its message waits in the queue")
        runtime.start()
        await runtime.stop()
        with pytest.raises(MessageNotDelivered) as told:
            await call
        assert told.value.recipient == "slow/other"
        runtime.start()
        assert await runtime.send_message(Do(8), ONE) == 8
        await runtime.stop_when_idle()
        assert sorted((await runtime.view(ONE, type=Slow)).done) == [7, 8]
        assert (await runtime.view(OTHER, type=Slow)).done == [7]


class Holding(DefaultInterventionHandler):
    """Keeps the queue's run amid a message, as a slow handler of a user's does."""

    def __init__(self) -> None:
        self.reached, self.release = asyncio.Event(), asyncio.Event()

    async def on_send(self, message: Any, *, message_context: MessageContext, recipient: AgentId) -> Any:
        if message == Do(9):
            self.reached.set()
            await self.release.wait()
        return message


async def test_what_comes_while_the_run_ends_is_answered_or_told(dsn: str) -> None:
    """AutoGen has shut the queue down by then, and has no other yet."""
    holding = Holding()
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[holding, EventLogHandler(log)])
        await settle_in(runtime)
        runtime.start()
        ending = asyncio.create_task(runtime.send_message(Do(0), ONE))
        await until(lambda: log.audit.in_flight(agent=ONE), "the handler runs")
        held = asyncio.create_task(runtime.send_message(Do(9), ONE))
        await holding.reached.wait()
        stopping = asyncio.create_task(runtime.stop())
        await asyncio.sleep(0)
        with pytest.raises(MessageNotDelivered) as told:
            await runtime.send_message(Do(1), ONE)
        assert told.value.recipient == "slow/one"
        await runtime.publish_message(Do(2), NEWS)
        assert await ending == 0
        holding.release.set()
        await stopping
        assert await held == 9
        assert len(await log.audit.undelivered()) == 2


async def test_a_runtime_that_does_not_run_can_not_be_stopped_and_keeps_what_waits(dsn: str) -> None:
    async with running(dsn) as (runtime, _):
        await runtime.stop()
        call = asyncio.create_task(runtime.send_message(Do(1), ONE))
        with pytest.raises(RuntimeError, match="not started"):
            await runtime.stop()
        runtime.start()
        assert await call == 1
        await runtime.stop_when_idle()


class Leaves(RoutedAgent):
    """Raises what ends generators."""

    @message_handler
    async def on_do(self, message: Do, ctx: MessageContext) -> None:
        raise GeneratorExit("left")


async def test_a_handler_that_raises_generator_exit_answers_its_caller(dsn: str) -> None:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await Leaves.register(runtime, "leaves", lambda: Leaves("leaves"))
        runtime.start()
        with pytest.raises(BaseException, match="left"):
            await asyncio.wait_for(runtime.send_message(Do(1), AgentId("leaves", "one")), 10)
        await runtime.stop_when_idle()
        await runtime.view(AgentId("leaves", "one"))
        assert await log.audit.in_flight() == []


async def test_two_stops_at_once_are_one(dsn: str) -> None:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        runtime.start()
        outcomes = await asyncio.gather(runtime.stop(), runtime.stop(), return_exceptions=True)
        assert not [one for one in outcomes if one is not None and not isinstance(one, RuntimeError)]
        runtime.start()
        await runtime.stop_when_idle()
