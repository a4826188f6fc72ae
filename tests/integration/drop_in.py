"""What the tests of `EventSourcedAgentRuntime` as a drop-in share: the runtimes to compare, agents, a look into the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from autogen_core import (
    AgentId,
    DefaultTopicId,
    InterventionHandler,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    TopicId,
    event,
    message_handler,
    rpc,
)

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime, EventType, RecordedEvent

KINDS = ("autogen", "unrecorded", "recorded")
"""AutoGen's runtime, ours without an `EventLogHandler`, ours with one: what a test says of all three is the same on each."""

ONE, TWO, OTHER = AgentId("one", "k"), AgentId("two", "k"), AgentId("other", "k")
Make = Callable[..., SingleThreadedAgentRuntime]


@pytest.fixture
async def log(dsn: str) -> AsyncIterator[EventLog]:
    async with EventLog.open(dsn) as opened:
        yield opened


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, log: EventLog) -> Make:
    """Makes runtimes of one kind, with the given handlers and AutoGen's arguments."""

    def make(*handlers: InterventionHandler, **arguments: Any) -> SingleThreadedAgentRuntime:
        if request.param == "autogen":
            return SingleThreadedAgentRuntime(intervention_handlers=list(handlers) or None, **arguments)
        if request.param == "unrecorded":
            return EventSourcedAgentRuntime(intervention_handlers=list(handlers) or None, **arguments)
        return recorded(log, *handlers, **arguments)

    return make


def recorded(log: EventLog, *handlers: InterventionHandler, **arguments: Any) -> EventSourcedAgentRuntime:
    """Our runtime; the recorder comes last unless it is among the handlers."""
    chosen = list(handlers)
    if not any(isinstance(one, EventLogHandler) for one in chosen):
        chosen.append(EventLogHandler(log))
    return EventSourcedAgentRuntime(intervention_handlers=chosen, **arguments)


async def stream(log: EventLog, agent: AgentId, *types: EventType) -> list[RecordedEvent]:
    """An agent's events, of some types or all."""
    return [one async for one in log.read(agent) if not types or one.type in types]


async def everything(log: EventLog) -> list[RecordedEvent]:
    return [one async for one in log.tail(follow=False)]


def types_of(events: list[RecordedEvent]) -> list[EventType]:
    return [one.type for one in events]


@dataclass
class Add:
    number: int
    seen: list[int] = field(default_factory=list[int])


@dataclass
class Total:
    number: int


@dataclass
class Notice:
    text: str


@dataclass
class Work:
    """Tells the recipient to wait until the test or a cancellation says so."""

    name: str = ""


class Refused(Exception):
    """What a handler raises."""

    def __init__(self, reason: str, number: int) -> None:
        super().__init__(reason, number)


class Adder(RoutedAgent):
    """Answers with its running total, and remembers each message."""

    def __init__(self) -> None:
        super().__init__("adds up")
        self.total = 0
        self.notices: list[str] = []

    @rpc
    async def on_add(self, message: Add, ctx: MessageContext) -> Total:
        if message.number < 0:
            raise Refused("negative", message.number)
        message.seen.append(message.number)
        self.total += message.number
        return Total(self.total)

    @event
    async def on_notice(self, message: Notice, ctx: MessageContext) -> None:
        if message.text == "raise":
            raise Refused("notice", 0)
        self.notices.append(message.text)


class Crier(RoutedAgent):
    """Publishes on the default topic what it is told, and listens there."""

    def __init__(self) -> None:
        super().__init__("cries")
        self.heard: list[str] = []

    @rpc
    async def on_work(self, message: Work, ctx: MessageContext) -> None:
        await self.publish_message(Notice(message.name), DefaultTopicId())

    @event
    async def on_notice(self, message: Notice, ctx: MessageContext) -> None:
        self.heard.append(message.text)


class Waiter(RoutedAgent):
    """Handlers that stay until they are let go, by the test or by their token."""

    def __init__(self, begun: asyncio.Event) -> None:
        super().__init__("waits")
        self.begun = begun
        self.cancelled_before = False
        self.cancelled = False
        self.finished = 0

    @message_handler
    async def on_work(self, message: Work, ctx: MessageContext) -> Total:
        self.cancelled_before = ctx.cancellation_token.is_cancelled()
        if message.name == "quick":
            self.finished += 1
            self.begun.set()
            return Total(self.finished)
        released: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ctx.cancellation_token.link_future(released)
        self.begun.set()
        try:
            await released
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return Total(0)


async def register(runtime: SingleThreadedAgentRuntime, **factories: Callable[[], Any]) -> None:
    for name, factory in factories.items():
        await runtime.register_factory(name, factory)


async def instance(runtime: SingleThreadedAgentRuntime, agent: AgentId) -> Any:
    return await runtime.try_get_underlying_agent_instance(agent, RoutedAgent)


def topic(kind: str = "t", source: str = "k") -> TopicId:
    return TopicId(kind, source)
