"""The audit log of a real run: what the runtime records is what the questions look for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from autogen_core import (
    AgentId,
    DefaultInterventionHandler,
    DropMessage,
    MessageContext,
    RoutedAgent,
    TopicId,
    TypeSubscription,
    message_handler,
)

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.events import EventType, Outcome
from tests.integration.store import eventually


@dataclass
class Ask:
    number: int


@dataclass
class News:
    text: str


class Clerk(RoutedAgent):
    """Asks the next clerk, up to the third; waits while its gate is closed."""

    gate = asyncio.Event()

    def __init__(self) -> None:
        super().__init__("asks on")

    @message_handler
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Ask:
        if message.number < 0:
            raise ValueError("too small")
        if message.number == 0:
            await Clerk.gate.wait()
        if self.id.key in "12":
            await self.send_message(Ask(message.number), AgentId("clerk", str(int(self.id.key) + 1)))
        if self.id.key == "3":
            await self.publish_message(News("done"), TopicId("news", "x"))
        return Ask(message.number + 1)


class Reader(RoutedAgent):
    @message_handler
    async def on_news(self, message: News, ctx: MessageContext) -> None:
        pass


class EveryThird(DefaultInterventionHandler):
    """Drops every third message that is sent."""

    def __init__(self) -> None:
        self.seen = 0

    async def on_send(self, message: Any, *, message_context: MessageContext, recipient: AgentId) -> Any:
        self.seen += 1
        return DropMessage if self.seen % 3 == 0 else message


@asynccontextmanager
async def running(dsn: str, *handlers: DefaultInterventionHandler) -> AsyncIterator[tuple[EventLog, Any]]:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log), *handlers])
        await Clerk.register(runtime, "clerk", Clerk)
        await Reader.register(runtime, "reader", lambda: Reader("reads"))
        await runtime.add_subscription(TypeSubscription("news", "reader"))
        runtime.start()
        yield log, runtime
        await runtime.stop()


async def test_a_conversation_through_agents_and_a_topic_is_one_chain(dsn: str) -> None:
    async with running(dsn) as (log, runtime):
        assert await runtime.send_message(Ask(1), AgentId("clerk", "1")) == Ask(2)

        async def read() -> list[Any]:
            return await log.audit.messages(type=News, outcome="replied")

        [news] = await eventually(read, "the news is read")
        chain = await log.audit.causes(news.id)
        assert [(event.stream, event.type) for event in chain[-6:]] == [
            ("clerk/1", EventType.MESSAGE_SENT),
            ("clerk/2", EventType.MESSAGE_DELIVERED),
            ("clerk/2", EventType.MESSAGE_SENT),
            ("clerk/3", EventType.MESSAGE_DELIVERED),
            ("clerk/3", EventType.MESSAGE_PUBLISHED),
            ("reader/x", EventType.MESSAGE_DELIVERED),
        ]
        assert len({event.correlation for event in chain}) == 1
        conversation = await log.audit.conversation(news.correlation)
        assert {event.id for event in chain} <= {event.id for event in conversation}
        led = await log.audit.effects(chain[0].id, limit=100)
        assert news.id in {event.id for event in led}
        asked = await log.audit.messages(agent_type="clerk", newest_first=False)
        assert [(record.agent, record.message, record.reply) for record in asked] == [
            (f"clerk/{n}", Ask(1), Ask(2)) for n in (1, 2, 3)
        ]
        assert all(record.worker == str(log.ownership.worker_id) for record in asked)
        assert [record.is_rpc for record in (*asked, news)] == [True, True, True, False]
        assert await log.audit.undelivered() == await log.audit.in_flight() == []


async def test_what_a_handler_drops_is_told_with_its_name_and_never_delivered(dsn: str) -> None:
    async with running(dsn, EveryThird()) as (log, runtime):
        answers = await asyncio.gather(
            *(runtime.send_message(Ask(n), AgentId("clerk", "9")) for n in range(1, 7)), return_exceptions=True
        )
        assert sum(isinstance(answer, Ask) for answer in answers) == 4

        async def recorded() -> list[Any] | None:
            found = await log.audit.messages(outcome=Outcome.DROPPED)
            return found if len(found) == 2 else None

        dropped = await eventually(recorded, "both are recorded")
        assert [record.agent for record in dropped] == ["clerk/9", "clerk/9"]
        assert all("EveryThird" in (record.dropped_by or "") for record in dropped)
        assert {record.dropped_stage for record in dropped} == {"send"}
        delivered = await log.audit.messages(agent="clerk/9", outcome="replied")
        numbers = [record.message.number for record in (*delivered, *dropped)]  # type: ignore[attr-defined]
        assert sorted(numbers) == [1, 2, 3, 4, 5, 6]
        assert await log.audit.undelivered() == []


async def test_a_handler_that_hangs_shows_as_started_and_one_that_raised_as_raised(dsn: str) -> None:
    Clerk.gate = asyncio.Event()
    async with running(dsn) as (log, runtime):
        with pytest.raises(ValueError):
            await runtime.send_message(Ask(-1), AgentId("clerk", "9"))
        hanging = asyncio.create_task(runtime.send_message(Ask(0), AgentId("clerk", "9")))

        async def started() -> list[Any]:
            return await log.audit.in_flight()

        [record] = await eventually(started, "the delivery is recorded")
        assert (record.agent, record.message, record.in_flight) == ("clerk/9", Ask(0), True)
        [raised] = await log.audit.messages(outcome="raised")
        assert (raised.error_type, raised.error_text) == ("builtins:ValueError", "too small")
        assert "ValueError: too small" in (raised.traceback or "")
        Clerk.gate.set()
        assert await hanging == Ask(1)

        async def ended() -> bool:
            return not await log.audit.in_flight()

        await eventually(ended, "its end is recorded")
