"""Messages that dead processes had accepted and not delivered, delivered on request."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Set
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from autogen_core import AgentId, CancellationToken, DropMessage, InterventionHandler, MessageContext, TopicId

from autogen_eventlog.errors import NotRestorable
from autogen_eventlog.events import EventType, RecordedEvent
from autogen_eventlog.ids import parse_topic
from autogen_eventlog.log import EventLog
from autogen_eventlog.postgres.records import MessageFilter
from autogen_eventlog.runtime.identity import Identity, TracedId
from autogen_eventlog.runtime.shell import JournaledAgent
from autogen_eventlog.runtime.submissions import WITHHELD

_PAGE = 100


@dataclass(frozen=True, slots=True)
class Redelivery:
    """What was done with one message."""

    event: RecordedEvent
    """That it was sent, published or submitted."""
    delivered_to: tuple[AgentId, ...]
    """Agents whose handler ran for it now. For a call between agents: the caller, which has asked again, or had given up."""
    failed: tuple[tuple[AgentId, BaseException], ...]
    """Agents that could not be had, or whose handler raised."""


class _Way:
    """One delivery on its way: recorded, or given up, once `recorded` is set; ended once `task` is done."""

    def __init__(self, run: Callable[[Callable[[], None]], Coroutine[Any, Any, None]]) -> None:
        self.recorded = asyncio.Event()
        self.task = asyncio.create_task(run(self.recorded.set))
        self.task.add_done_callback(lambda _: self.recorded.set())


@dataclass(frozen=True, slots=True)
class Begun:
    """A message whose deliveries are on their way."""

    event: RecordedEvent
    ways: tuple[tuple[AgentId, _Way], ...]
    lacks: bool
    """Whether today fewer are subscribed to its topic than it was for."""

    async def recorded(self) -> None:
        """Return once every delivery is recorded, or has failed."""
        for _, way in self.ways:
            await way.recorded.wait()

    async def report(self) -> Redelivery:
        """What was done, once it has ended."""
        outcomes = await asyncio.gather(*(way.task for _, way in self.ways), return_exceptions=True)
        pairs = [(agent, outcome) for (agent, _), outcome in zip(self.ways, outcomes, strict=True)]
        return Redelivery(
            self.event,
            tuple(agent for agent, outcome in pairs if not isinstance(outcome, BaseException)),
            tuple((agent, outcome) for agent, outcome in pairs if isinstance(outcome, BaseException)),
        )


class Redelivering:
    """One run over what was left undelivered."""

    def __init__(
        self,
        log: EventLog,
        shell_for: Callable[[AgentId], JournaledAgent],
        subscribers: Callable[[TopicId], Awaitable[list[AgentId]]],
        interventions: InterventionHandler | None,
        left: Set[UUID],
        one_at_a_time: asyncio.Lock,
    ) -> None:
        """
        Args:
            one_at_a_time: Held from the look at what is left until it is recorded as delivered: two runs that looked at the
                same time would deliver it twice.
            left: What this process accepted, and will not deliver by itself: it was stopped before.
        """
        self._log = log
        self._shell_for = shell_for
        self._subscribers = subscribers
        self._interventions = interventions
        self._left_behind = left
        self._one_at_a_time = one_at_a_time
        self._latest: dict[AgentId, _Way] = {}

    async def all(self, since: datetime | None) -> list[Redelivery]:
        """See `EventSourcedAgentRuntime.redeliver`. Deliveries begin in order, and run beside each other."""
        return [await begun.report() for begun in await self.begin(since)]

    async def begin(
        self, since: datetime | None, wanted: Callable[[RecordedEvent], bool] = lambda event: True
    ) -> list[Begun]:
        """Begin the deliveries of what is left; they are recorded, or have failed, when it returns."""
        async with self._one_at_a_time:
            all_begun = [await self._begin(event) async for event in self._left(since) if wanted(event)]
            for begun in all_begun:
                await begun.recorded()
            if all_begun:
                await self._log.writer.flush()  # the next look sees it
        return all_begun

    async def _left(self, since: datetime | None) -> AsyncIterator[RecordedEvent]:
        """What was undelivered at the call, of owners that are no more."""
        alive = {worker.id for worker in await self._log.audit.workers() if worker.alive}
        found: list[RecordedEvent] = []
        after: int | None = None
        while page := await self._log.audit.undelivered(since=since, after=after, limit=_PAGE):
            found += page
            after = page[-1].position
        for event in found:
            if not await self._under_way(event, alive):
                yield event

    async def _under_way(self, event: RecordedEvent, alive: set[UUID]) -> bool:
        """Whether the process that recorded it lives still, and may yet deliver it."""
        if event.id in self._left_behind:
            return False
        head = await self._log.head(event.stream)
        return head is not None and head.epoch == event.epoch and head.owner in alive

    async def _begin(self, event: RecordedEvent) -> Begun:
        if event.type is EventType.MESSAGE_SENT:
            caller = AgentId.from_str(event.stream)
            return Begun(event, ((caller, _Way(partial(self._ask_again, event, caller))),), lacks=False)
        had = await self._deliveries(event)
        ways = [(agent, self._way(event, agent)) for agent in await self._lacking(event, had)]
        fan_out = int(event.metadata.get("fan_out") or 1)
        return Begun(event, tuple(ways), lacks=len(had) + len(ways) < fan_out)

    def _way(self, event: RecordedEvent, agent: AgentId) -> _Way:
        """Behind the one before it to the same agent, so that they are recorded in order."""
        before = self._latest.get(agent)
        self._latest[agent] = way = _Way(partial(self._deliver, event, agent, before))
        return way

    async def _ask_again(self, event: RecordedEvent, caller: AgentId, recorded: Callable[[], None]) -> None:
        """The caller asks again what it waits for still. What it has given up arrives as it would have: cancelled."""
        incarnation = await self._shell_for(caller).live()
        if incarnation.waits_for(event.id):
            return
        given_up = CancellationToken()
        given_up.cancel()
        with suppress(asyncio.CancelledError):  # its handler's, which nobody waits for
            await self._deliver(event, AgentId.from_str(event.recipient or ""), None, recorded, given_up)

    async def _lacking(self, event: RecordedEvent, deliveries: list[RecordedEvent]) -> list[AgentId]:
        """For whom it was, without those that have it. Two subscriptions of one agent make two deliveries."""
        if event.topic is None:
            return [AgentId.from_str(event.recipient or "")]
        sender = _sender(event)
        had = Counter(delivered.stream for delivered in deliveries)
        lacking: list[AgentId] = []
        for recipient in await self._subscribers(parse_topic(event.topic)):
            if recipient == sender:
                continue
            if had[str(recipient)] > 0:
                had[str(recipient)] -= 1
            else:
                lacking.append(recipient)
        return lacking

    async def _deliveries(self, event: RecordedEvent) -> list[RecordedEvent]:
        filter_ = MessageFilter(cause=event.id, event_types=(EventType.MESSAGE_DELIVERED,), limit=1_000_000)
        return await self._log.reader.messages(filter_)

    async def _deliver(
        self,
        event: RecordedEvent,
        recipient: AgentId,
        before: _Way | None,
        recorded: Callable[[], None],
        token: CancellationToken | None = None,
    ) -> None:
        if before is not None:
            await before.recorded.wait()
        context = MessageContext(
            sender=_sender(event),
            topic_id=None if event.topic is None else parse_topic(event.topic),
            is_rpc=event.topic is None,
            cancellation_token=token or CancellationToken(),
            message_id=TracedId(event.message_id or str(event.id), Identity(event.id, event.correlation, again=True)),
        )
        if event.metadata.get(WITHHELD):
            problem = "its content was not recorded, because another intervention handler might have redacted it"
            raise NotRestorable(event.stream, f"version {event.version}", problem, "Send the message again")
        shell = self._shell_for(recipient)
        await shell.live()
        message = self._log.codec.decode(
            event.payload or b"", where=f"stream {event.stream!r}, version {event.version}"
        )
        message = await self._intervene(message, context, recipient)
        if message is not DropMessage:
            await shell.deliver(message, context, recorded)

    async def _intervene(self, message: Any, context: MessageContext, recipient: AgentId) -> Any:
        if self._interventions is None:
            return message
        if context.topic_id is None:
            return await self._interventions.on_send(message, message_context=context, recipient=recipient)
        return await self._interventions.on_publish(message, message_context=context)


def _sender(event: RecordedEvent) -> AgentId | None:
    if event.type in (EventType.MESSAGE_PUBLISHED, EventType.MESSAGE_SENT):
        return AgentId.from_str(event.stream)
    return None if event.sender is None else AgentId.from_str(event.sender)
