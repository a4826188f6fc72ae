"""What an intervention handler refused, in the log."""

from __future__ import annotations

from typing import Any

from autogen_core import AgentId, MessageContext, TopicId

from autogen_eventlog.errors import NotEncodable
from autogen_eventlog.events import EventType
from autogen_eventlog.runtime.handler import EventLogHandler
from autogen_eventlog.runtime.identity import identity_of


async def record_dropped(
    handler: EventLogHandler,
    *,
    stage: str,
    by: str,
    message: Any,
    context: MessageContext | None = None,
    sender: AgentId | None = None,
    recipient: AgentId | None = None,
    topic: TopicId | None = None,
) -> None:
    """Append that a message, publication or response goes no further.

    Args:
        stage: `send`, `publish` or `response`.
        by: The class of the intervention handler that dropped it.
        context: Of a message or publication; a response has none.

    Raises:
        DatabaseUnavailable: The runtime's stream could not be claimed within the bound.
    """
    identity = identity_of("" if context is None else context.message_id)
    sender = sender if context is None else context.sender
    await handler.submissions.open()
    try:
        encoded = handler.log.codec.encode(message)
    except NotEncodable as refused:
        encoded = handler.log.codec.encode(str(refused))
    handler.submissions.record(
        EventType.MESSAGE_DROPPED,
        message=encoded,
        metadata={"by": by, "stage": stage},
        sender=None if sender is None else str(sender),
        recipient=None if recipient is None else str(recipient),
        topic=None if topic is None else str(topic),
        message_id=None if context is None else str(context.message_id),
        cause=identity.origin(),
        correlation=identity.correlation,
    )
