"""What an incarnation is made of and deals with: handler runs, calls, requests, and where its events and outputs go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID
from weakref import WeakSet

from autogen_core import AgentId, CancellationToken, TopicId

from autogen_eventlog.codec import Encoded
from autogen_eventlog.events import EventData, Outcome
from autogen_eventlog.replay.loop import outside_context

if TYPE_CHECKING:
    from autogen_eventlog.incarnation.incarnation import Incarnation


class _Done:
    """An awaitable that is done."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


DONE = _Done()


class Appender(Protocol):
    """Where a live incarnation's events go: one stream, under one epoch."""

    @property
    def version(self) -> int:
        """The stream's version after everything appended so far."""
        ...

    def append(self, event: EventData) -> Awaitable[Any]:
        """Put the next event in the writer's queue, without waiting; the ticket is done when it is committed."""
        ...


class World(Protocol):
    """Where a live incarnation's outputs go, once durable."""

    def ask(self, incarnation: Incarnation, call: Call) -> Coroutine[Any, Any, None]: ...

    def publish(
        self,
        incarnation: Incarnation,
        event: EventData,
        message: Encoded,
        original: Any,
        token: CancellationToken | None,
    ) -> Coroutine[Any, Any, None]: ...

    def fan_out(self, topic: TopicId, sender: AgentId | None) -> Coroutine[Any, Any, int | None]:
        """How many deliveries a publication leads to; None if that can't be known. It does not suspend."""
        ...


class UnknownPolicy(Protocol):
    """What becomes of an effect that was requested and whose outcome no log holds."""

    ask: Callable[[Any], Awaitable[Any]] | None
    """Asked where it is decided so."""

    def decide(self, kind: str) -> str:
        """Whether an effect of a kind is done again (`retry`), is an error (`fail`), or is asked about (`ask`)."""
        ...


class StandsFor(Protocol):
    """What stands, on an instance, for something outside the agent."""

    @property
    def to_start(self) -> WeakSet[Incarnation]:
        """Those for which it was started in a past that was not really lived through."""
        ...


class _Fail:
    ask: Callable[[Any], Awaitable[Any]] | None = None

    def decide(self, kind: str) -> str:
        return "fail"


FAIL = _Fail()


@dataclass(slots=True, eq=False)
class Delivery:
    """One handler run."""

    number: int
    """Version of its `MessageDelivered` (or `StateLoaded`)."""
    event_id: UUID
    correlation: UUID | None
    done: asyncio.Future[Completion]
    token: CancellationToken = field(default_factory=CancellationToken)
    task: asyncio.Task[Any] | None = None
    begun: bool = False
    cancelled_early: bool = False
    """Its task was cancelled before it ran: asyncio would then never enter the coroutine, nor record its end."""
    generator: Random | None = None
    """What its code draws from, once it draws."""
    came_with: CancellationToken | None = None
    """The token of who sent the message, which its own follows while it runs. Publications are sent on with it."""


@dataclass(slots=True)
class Completion:
    """How a handler run ended: durable once `ticket` is."""

    outcome: Outcome
    reply: Any
    error: BaseException | None
    ticket: Awaitable[Any]


@dataclass(slots=True, eq=False)
class Call:
    """One call of the agent to another, not yet answered."""

    event: EventData
    recipient: AgentId
    message: Encoded
    original: Any
    """The object that was sent, which may have changed since; `message` is what was sent."""
    future: asyncio.Future[Any]
    token: CancellationToken
    again: bool = False
    """Asked before, by an incarnation that is no more."""
    arrived: asyncio.Event | None = None
    """Of one that is asked again: set once the message has arrived, or can't."""

    def give_up(self) -> None:
        """Tell the world that nobody waits any more. What the world makes of it is not the agent's doing."""
        outside_context().run(self.token.cancel)


@dataclass(slots=True, eq=False)
class Effect:
    """One request to the world beside the runtime's messages, not yet answered."""

    number: int
    kind: str
    request: str
    ask: Callable[[], Awaitable[Any]] | None
    """Asks, where the result is all that is recorded. None: the request is an event of its own (`event`)."""
    future: asyncio.Future[Any]
    event: EventData | None = None
    resume: Callable[[], None] | None = None
    """Called as a recovered agent goes live without the result of a recorded request."""


@dataclass(slots=True)
class Envelope:
    """What comes with a message that is delivered live."""

    message: Encoded
    sender: AgentId | None
    topic: TopicId | None
    is_rpc: bool
    message_id: str
    cause: UUID | None
    correlation: UUID | None
