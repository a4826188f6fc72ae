"""What eventsourcing is given of an event, and the event that is in it."""

from __future__ import annotations

from dataclasses import dataclass

from eventsourcing.persistence import Notification, ProgrammingError, StoredEvent

from autogen_eventlog.events import RecordedEvent
from autogen_eventlog.projections.originators import is_application, originator_of


@dataclass(frozen=True)
class EventNotification(Notification):
    """A notification of eventsourcing's that has the whole event with it.

    `id` is the event's position, `originator_id` its stream, `originator_version` its version, `state` its payload (no
    bytes for none), and `topic` its type (`MessageDelivered`), so never a name of code (G10). Of what an application has
    recorded through `insert_events`, topic, originator and version are the application's.
    """

    event: RecordedEvent


def notification(event: RecordedEvent) -> EventNotification:
    """The notification of an event."""
    return EventNotification(
        originator_id=originator_of(event.stream),
        originator_version=event.metadata.get("originator_version", event.version),
        topic=topic_of(event.stream, event.type.value, event.message_type),
        state=event.payload or b"",
        id=event.position,
        event=event,
    )


def recorded_event(stored: StoredEvent) -> RecordedEvent:
    """The event in a notification of the log's: no mapper, nothing decoded, nothing imported.

    Raises:
        eventsourcing.persistence.ProgrammingError: the notification is another recorder's.
    """
    if isinstance(stored, EventNotification):
        return stored.event
    raise ProgrammingError(f"a {type(stored).__name__} of {stored.originator_id!r} is no notification of an event log")


def topic_of(stream: str, type: str, message_type: str | None) -> str:
    """An event's type; of an application's own events, the topic that it gave."""
    return (message_type or "") if is_application(stream) else type
