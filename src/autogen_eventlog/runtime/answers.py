"""What became of a message that was sent from outside any agent: asked by its id, by whoever sent it, in any process."""

from __future__ import annotations

from typing import Any

from autogen_core import AgentId
from autogen_core.exceptions import MessageDroppedException

from autogen_eventlog.audit import MessageRecord
from autogen_eventlog.errors import MessageAbandoned, UnknownMessage
from autogen_eventlog.events import EventType, Outcome, RecordedEvent
from autogen_eventlog.incarnation.parts import Completion
from autogen_eventlog.log import EventLog
from autogen_eventlog.runtime.shell import recorded_completion


async def reply_to(log: EventLog, message_id: str, recipient: AgentId) -> Any:
    """See `EventSourcedAgentRuntime.reply_to`."""
    record = await _latest(log, message_id, recipient)
    if record is None:
        waiting = await _accepted(log, message_id, recipient)
        if waiting is None:
            left = await log.audit.messages(agent=recipient, message_id=message_id, limit=1)
            if not left:
                raise UnknownMessage(message_id, str(recipient))
            if left[0].outcome is not Outcome.DROPPED:  # that it was may just have come
                raise MessageAbandoned(message_id, str(recipient), left[0].version)
            record = left[0]
        else:
            record = await _delivered(log, waiting, message_id, recipient)
    if record.outcome is Outcome.DROPPED:
        raise MessageDroppedException(f"it reached nobody: {record.dropped_by} {record.error_text or ''}".rstrip())
    return _given(recorded_completion(log.codec, await _ended(log, record)))


async def _latest(log: EventLog, message_id: str, recipient: AgentId) -> MessageRecord | None:
    found = await log.audit.messages(agent=recipient, message_id=message_id, branch="current", limit=1)
    return found[0] if found else None


async def _accepted(log: EventLog, message_id: str, recipient: AgentId) -> RecordedEvent | None:
    """That it was submitted, where it has not been delivered so far."""
    after: int | None = None
    found: RecordedEvent | None = None
    while page := await log.audit.undelivered(recipient=recipient, after=after):
        found = next((event for event in page if event.message_id == message_id), found)
        after = page[-1].position
    return found


async def _delivered(log: EventLog, waiting: RecordedEvent, message_id: str, recipient: AgentId) -> MessageRecord:
    """Wait until it is delivered, or dropped."""
    arrivals = (EventType.MESSAGE_DELIVERED, EventType.MESSAGE_DROPPED)
    async for event in log.tail(after_position=waiting.position):
        if event.cause == waiting.id and event.type in arrivals:
            record = await _latest(log, message_id, recipient)
            if record is not None:
                return record
    raise UnknownMessage(message_id, str(recipient))


async def _ended(log: EventLog, record: MessageRecord) -> RecordedEvent:
    """How the handler run ended, waited for if it runs still."""
    async for event in log.read(record.stream, after_version=record.version):
        if _ends(event, record):
            return event
    async for event in log.tail(after_position=record.position):
        if event.stream == record.stream and _ends(event, record):
            return event
    raise AssertionError("a tail that follows has no end")


def _ends(event: RecordedEvent, record: MessageRecord) -> bool:
    return event.type is EventType.DELIVERY_COMPLETED and event.delivery == record.version


def _given(completion: Completion) -> Any:
    if completion.error is not None:
        raise completion.error
    return completion.reply
