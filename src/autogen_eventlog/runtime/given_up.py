"""Handlers that a dead process left in the middle of a call that its caller had given up: they are told again.

That a caller cancels a call travels in memory. Where the process died before the handler's log had it, the recovered caller
waits for no answer and asks nothing again, and the recovered handler would run on as if somebody did.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from uuid import UUID

from autogen_core import AgentId

from autogen_eventlog.audit import MessageRecord
from autogen_eventlog.errors import EventLogError
from autogen_eventlog.events import EventType
from autogen_eventlog.lineage import lineage
from autogen_eventlog.postgres.records import MessageFilter
from autogen_eventlog.runtime.agents import RecordedAgents

logger = logging.getLogger(__name__)


async def cancel_given_up(agents: RecordedAgents, deliveries: Iterable[MessageRecord]) -> None:
    """Cancel, by their tokens, those of these recovered deliveries that answer a call which its caller has given up.

    The callers are brought up for it, where this process may have them. What a caller was told of a call that failed is an
    answer: its handler goes on, as it does without a crash.
    """
    for record in deliveries:
        running = agents.shell_for(AgentId.from_str(record.stream)).incarnation
        delivery = None if running is None else running.deliveries.get(record.version)
        if running is not None and delivery is not None and await _was_given_up(agents, record):
            logger.info("%s: the caller of the handler run at version %d has given up", record.stream, record.version)
            running.cancel(delivery, by="token")


async def _was_given_up(agents: RecordedAgents, record: MessageRecord) -> bool:
    if record.sender is None or record.cause is None or record.topic is not None:
        return False
    caller = AgentId.from_str(record.sender)
    if not agents.knows(caller) or await _is_answered(agents, record):
        return False
    try:
        incarnation = await agents.shell_for(caller).live()
    except EventLogError as error:
        logger.info("whether %s waits for %s still can't be known here: %s", caller, record.stream, error)
        return False
    return await _sent(agents, record.sender, record.cause) and not incarnation.waits_for(record.cause)


async def _sent(agents: RecordedAgents, caller: str, sent: UUID) -> bool:
    """Whether it is a call in the caller's past; what came from outside may name any sender."""
    place, head = await agents.log.reader.place(sent), await agents.log.head(caller)
    if place is None or head is None or place[0] != caller:
        return False
    return (await lineage(agents.log.reader, caller, head.version)).holds(*place[:2])


async def _is_answered(agents: RecordedAgents, record: MessageRecord) -> bool:
    answers = MessageFilter(cause=record.cause, event_types=(EventType.REPLY_RECEIVED,), limit=1)
    return bool(await agents.log.reader.messages(answers))
