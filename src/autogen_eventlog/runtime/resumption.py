"""What processes that are gone left behind, taken up as a runtime starts: handlers go on, waiting messages are delivered.

New messages wait until the older ones are on their way, so that none overtakes them. What a process left that was stopped in
good order is not delivered unasked: who waited for it was told (`redeliver`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone

from autogen_core import AgentId

from autogen_eventlog.audit import MessageRecord
from autogen_eventlog.errors import EventLogError, LogClosed
from autogen_eventlog.events import EventType, RecordedEvent
from autogen_eventlog.ids import RUNTIME_STREAM_PREFIX
from autogen_eventlog.incarnation.incarnation import Incarnation
from autogen_eventlog.postgres.records import GoneWorker, MessageFilter, StreamHead
from autogen_eventlog.runtime.agents import RecordedAgents
from autogen_eventlog.runtime.given_up import cancel_given_up
from autogen_eventlog.runtime.redelivery import Begun, Redelivering

logger = logging.getLogger(__name__)

_AT_ONCE = 8
"""Agents that are brought up at the same time."""
_PAGE = 200
_ATTEMPTS = 5
_ATTEMPTS_WITHIN = timedelta(minutes=10)
"""Where so many processes died in so short a time, a handler run that each of them went on with is not taken up again."""


class Resumption:
    """Takes up, once for each start of a runtime.

    Args:
        agents: The recorded agents; what is of other types stays as it is.
        redelivering: Makes a run over what was left undelivered.
    """

    def __init__(self, agents: RecordedAgents, redelivering: Callable[[], Redelivering]) -> None:
        self._agents = agents
        self._log = agents.log
        self._redelivering = redelivering
        self._on_their_way = asyncio.Event()
        self._registered = asyncio.Event()
        self._warned: set[str] = set()
        self._ends: asyncio.Task[None] | None = None
        self._task = asyncio.create_task(self._run(), name="eventlog-resumption")

    async def older_messages_begun(self) -> None:
        """Return once new messages can't overtake older ones."""
        if not self._on_their_way.is_set():
            await self._on_their_way.wait()

    def registered(self) -> None:
        """Types or subscriptions were added: what waited for them can be taken up."""
        self._registered.set()

    def release(self) -> None:
        """Let new messages through, and take up nothing more; what has begun goes on."""
        self._on_their_way.set()
        self._task.cancel()
        if self._ends is not None:
            self._ends.cancel()

    async def ended(self) -> None:
        """Return once nothing of it runs any more, after `release`: the log may be closed then, amid no query of it."""
        await asyncio.wait([task for task in (self._task, self._ends) if task is not None])

    # -- inside ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while await self._take_up():
                self._on_their_way.set()
                await self._registered.wait()
        except LogClosed:
            return  # the program ends
        except EventLogError as error:
            logger.warning("what earlier processes left behind is not taken up: %s", error)
        finally:
            self._on_their_way.set()

    async def _take_up(self) -> bool:
        """Whether something is left that waits for a type or a subscription."""
        self._registered.clear()
        gone = await self._log.unsettled_workers()
        if not gone:
            return False
        with self._agents.around.delivering:  # the runtime is not idle
            resumed, unknown = await self._resume(gone)
            begun, undelivered = await self._redeliver(gone)
            self._on_their_way.set()
            left = unknown or undelivered
            self._ends = asyncio.create_task(self._settle(gone, resumed, begun, nothing_left=not left))
            self._ends.add_done_callback(_told)
            await asyncio.sleep(0)  # it keeps the runtime from being idle from here on
        return left

    async def _resume(self, gone: Sequence[GoneWorker]) -> tuple[list[AgentId], bool]:
        """Bring up the agents that were left in the middle of a handler, those whose messages wait longest first.

        Returns:
            Those that came up, and whether others could not.
        """
        records, left = await self._left_in_flight(min(worker.started_at for worker in gone))
        some = asyncio.Semaphore(_AT_ONCE)

        async def one(record: MessageRecord, head: StreamHead) -> AgentId | None:
            agent = AgentId.from_str(head.stream)
            if not self._agents.knows(agent) or self._in_vain(record, head, gone):
                return None
            async with some:
                return await self._bring_up(agent)

        came_up = await asyncio.gather(*(one(record, head) for record, head in left))
        resumed = [agent for agent in came_up if agent is not None]
        await cancel_given_up(
            self._agents, [record for record in records if AgentId.from_str(record.stream) in resumed]
        )
        return resumed, len(resumed) < len(left)

    async def _left_in_flight(
        self, since: datetime
    ) -> tuple[list[MessageRecord], list[tuple[MessageRecord, StreamHead]]]:
        """All deliveries in flight, and the oldest of each agent that has one and that no living process owns."""
        records: list[MessageRecord] = []
        while page := await self._log.audit.in_flight(
            since=since, after=records[-1].position if records else None, limit=_PAGE
        ):
            records += page
        found: dict[str, MessageRecord] = {}
        for record in records:
            found.setdefault(record.stream, record)
        alive = {worker.id for worker in await self._log.audit.workers() if worker.alive}
        heads = [(record, await self._log.head(stream)) for stream, record in found.items()]
        return records, [(record, head) for record, head in heads if head is not None and head.owner not in alive]

    async def _bring_up(self, agent: AgentId) -> AgentId | None:
        try:
            await self._agents.shell_for(agent).live()
        except Exception as error:  # its factory's own too; the next message for it says so to its sender
            logger.warning("%s was left in the middle of a handler and can't go on: %s", agent, error)
            return None
        logger.info("%s was left in the middle of a handler, which goes on", agent)
        return agent

    def _in_vain(self, record: MessageRecord, head: StreamHead, gone: Sequence[GoneWorker]) -> bool:
        """Whether this handler run seems to end each process that goes on with it.

        Each that tried took an epoch of the agent, which is all that is left of one that died at once.
        """
        lately = datetime.now(timezone.utc) - _ATTEMPTS_WITHIN
        died = sum(not worker.in_good_order and worker.started_at > lately for worker in gone)
        attempts = min(head.epoch - record.epoch, died)
        if attempts < _ATTEMPTS:
            return False
        if head.stream not in self._warned:
            self._warned.add(head.stream)
            logger.warning(
                "%s was brought up %d times with the handler run that began at version %d, and each time the process "
                "died: it is left alone now, and goes on when the agent is sent a message",
                head.stream,
                attempts,
                record.version,
            )
        return True

    async def _redeliver(self, gone: Sequence[GoneWorker]) -> tuple[list[Begun], bool]:
        """Begin the deliveries that processes left which did not close in good order.

        Returns:
            What was begun, and whether something waits for a type or a subscription.
        """
        crashed = [worker for worker in gone if not worker.in_good_order]
        if not crashed:
            return [], False
        told = {str(worker.id) for worker in gone if worker.in_good_order}
        waits = False

        def wanted(event: RecordedEvent) -> bool:
            nonlocal waits
            if event.stream.startswith(RUNTIME_STREAM_PREFIX):
                if event.stream[len(RUNTIME_STREAM_PREFIX) :].partition("/")[0] in told:
                    return False
            elif not self._agents.knows(AgentId.from_str(event.stream)):
                return False
            known = event.recipient is None or self._agents.knows(AgentId.from_str(event.recipient))
            waits |= not known
            return known

        redelivering = self._redelivering()
        begun = await redelivering.begin(min(worker.started_at for worker in crashed), wanted)
        return begun, waits or any(one.lacks for one in begun)

    async def _ended(self, agent: AgentId) -> bool:
        """Wait for its handlers; whether the log has the end of each. Before that, the next process must find them."""
        incarnation = self._agents.shell_for(agent).incarnation
        if incarnation is None:  # dropped meanwhile
            return False
        running = [delivery.done for delivery in incarnation.deliveries.values()]
        if running:
            await asyncio.wait(running)
        if any(done.cancelled() or done.exception() is not None for done in running):
            return False
        return await _is_durable(incarnation)

    async def _answered(self, event: RecordedEvent) -> bool:
        """Wait for the answer to a call that was asked again, or, where nobody waits for that any more, until it arrives.

        Returns:
            Whether the log has it.
        """
        caller = self._agents.shell_for(AgentId.from_str(event.stream)).incarnation
        if caller is None:
            return False
        call = caller.asked_again.get(event.id)
        if call is not None and call.arrived is not None:
            await asyncio.wait([call.future])
            if call.future.cancelled():
                await call.arrived.wait()
                recipient = self._agents.shell_for(call.recipient).incarnation
                if recipient is None or not await _is_durable(recipient):
                    return False
        return await _is_durable(caller) and await self._has_arrived(event)

    async def _has_arrived(self, event: RecordedEvent) -> bool:
        became = (EventType.MESSAGE_DELIVERED, EventType.MESSAGE_DROPPED, EventType.REPLY_RECEIVED)
        return bool(await self._log.reader.messages(MessageFilter(cause=event.id, event_types=became, limit=1)))

    async def _settle(
        self, gone: Sequence[GoneWorker], resumed: Sequence[AgentId], begun: Sequence[Begun], *, nothing_left: bool
    ) -> None:
        """Say that nobody need look again, once all that was taken up has ended."""
        with self._agents.around.delivering:  # a runtime that stops when it is idle has settled
            for agent in resumed:
                nothing_left &= await self._ended(agent)
            reports = [await one.report() for one in begun]
            for report in reports:
                for agent, error in report.failed:
                    logger.warning("a message that was left undelivered, redelivered to %s: %r", agent, error)
            for one in begun:
                if one.event.type is EventType.MESSAGE_SENT:  # its caller has asked again: it has not arrived by that
                    nothing_left &= await self._answered(one.event)
            if nothing_left and self._log.writes:
                await self._log.ownership.settle([worker.id for worker in gone])
                return
        if nothing_left:
            await self._log.writing()  # who only reads changes nothing
            await self._log.ownership.settle([worker.id for worker in gone])


async def _is_durable(incarnation: Incarnation) -> bool:
    try:
        await incarnation.durable
    except EventLogError:
        return False
    return True


def _told(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None and not isinstance(task.exception(), LogClosed):
        logger.warning("what earlier processes left behind will be looked for again: %s", task.exception())
