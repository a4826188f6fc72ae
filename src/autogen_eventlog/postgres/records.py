"""What reading gives back, frozen and typed, and how a row becomes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from autogen_eventlog.errors import PayloadCorrupt
from autogen_eventlog.events import EventType, Outcome, RecordedEvent, new_recorded_event
from autogen_eventlog.postgres.large import is_lost


@dataclass(frozen=True, slots=True)
class StreamHead:
    """Where a stream stands."""

    stream: str
    version: int
    """Of the last event; 0: claimed, but nothing appended yet."""
    epoch: int
    owner: UUID | None
    """Worker that claimed it last; None: released."""
    position: int
    """Of the last event; 0: none."""
    recorded_at: datetime | None
    """Of the last event; None: none."""
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Claim:
    """A stream is ours under this epoch, until another claims it."""

    stream: str
    epoch: int
    version: int
    """Of the last event: final for all earlier epochs."""
    created: bool
    """The stream was unknown before. (False also where the first answer was lost and the claim repeated.)"""


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """A process that has opened the log for writing."""

    id: UUID
    host: str
    process: int
    identity: str
    started_at: datetime
    heartbeat_at: datetime
    stopped_at: datetime | None
    """When it closed in good order, if it did."""
    alive: bool
    """Its session holds its lock and its heartbeat is within its lease."""


@dataclass(frozen=True, slots=True)
class GoneWorker:
    """A worker that is gone and may have left something behind."""

    id: UUID
    started_at: datetime
    in_good_order: bool
    """It closed, so whoever waited for its messages was told."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one delivery of a message has come."""

    cause: UUID
    """The event that says that the message was sent, published or submitted."""
    stream: str
    version: int
    """Of its MessageDelivered."""
    completed: bool
    alive: bool
    """The worker that has the stream is there."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An agent's state at a version: a cache, never the only copy."""

    stream: str
    version: int
    position: int
    taken_at: datetime | None
    """Set by the database when None is put."""
    kind: str
    code_hash: str
    payload: bytes
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    status: str = "taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """Which events an audit page shows; None: no such filter."""

    stream: str | None = None
    agent_type: str | None = None
    event_types: Sequence[EventType] | None = None
    message_type: str | None = None
    sender: str | None = None
    recipient: str | None = None
    topic: str | None = None
    since: datetime | None = None
    """Recorded at or after."""
    until: datetime | None = None
    """Recorded before."""
    outcome: Outcome | None = None
    correlation: UUID | None = None
    cause: UUID | None = None
    delivery: int | None = None
    newest_first: bool = True
    after: int | None = None
    """Cursor: the position of the last event of the page before."""
    limit: int = 100


_TYPES = {member.value: member for member in EventType}
_OUTCOMES: dict[str | None, Outcome | None] = {None: None} | {member.value: member for member in Outcome}

EVENT_COLUMNS = (
    "stream", "version", "position", "epoch", "recorded_at", "id", "type", "occurred_at", "delivery", "call",
    "sender", "recipient", "topic", "message_id", "message_type", "payload", "outcome", "cause", "correlation",
    "metadata",
)  # fmt: skip
"""Order in which every query selects the columns of an event (a test compares)."""


PAGE_BYTES: Final = 16_000_000
"""Bytes of payload after which a page of events ends, so that memory is bounded whatever was recorded."""


def is_full(page: Sequence[Sequence[Any]], limit: int) -> bool:
    """Whether more may follow a page of events that was bounded by `limit` and PAGE_BYTES."""
    return len(page) >= limit or sum(len(row[15] or b"") for row in page) >= PAGE_BYTES


def whole(event: RecordedEvent) -> RecordedEvent:
    """The event, where its payload is what was recorded: what is written elsewhere must not hold a mark as its content.

    Raises:
        PayloadCorrupt: its large payload is gone or altered.
    """
    if is_lost(event.payload):
        where = f"stream {event.stream!r}, version {event.version}"
        problem = "the large payload that it refers to is gone, or is not what its hash says"
        raise PayloadCorrupt(where, problem, "A backup of the database has it (table large_payload)")
    return event


def recorded_event(row: Sequence[Any]) -> RecordedEvent:
    """An event from a row in the order of EVENT_COLUMNS.

    Raises:
        PayloadCorrupt: the type or outcome is none that this version knows.
    """
    try:
        kind, outcome = _TYPES[row[6]], _OUTCOMES[row[16]]
    except KeyError as error:
        where = f"stream {row[0]!r}, version {row[1]}"
        raise PayloadCorrupt(where, f"unknown event type or outcome {error.args[0]!r}") from None
    return new_recorded_event(
        stream=row[0],
        version=row[1],
        position=row[2],
        epoch=row[3],
        recorded_at=row[4],
        id=row[5],
        type=kind,
        occurred_at=row[7],
        delivery=row[8],
        call=row[9],
        sender=row[10],
        recipient=row[11],
        topic=row[12],
        message_id=row[13],
        message_type=row[14],
        payload=row[15],
        outcome=outcome,
        cause=row[17],
        correlation=row[18],
        metadata=row[19],
    )
