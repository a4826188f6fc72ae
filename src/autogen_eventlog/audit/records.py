"""What the audit gives back: one record a message, one a result from outside, one a sum."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from autogen_eventlog.codec import Codec, Opaque
from autogen_eventlog.errors import PayloadCorrupt
from autogen_eventlog.events import EventType, Outcome, RecordedEvent
from autogen_eventlog.ids import RUNTIME_STREAM_PREFIX
from autogen_eventlog.postgres.records import WorkerRecord

_DROPPED = EventType.MESSAGE_DROPPED.value


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRecord:
    """One message that an agent was given, and how its handler ended; or one that was dropped on the way.

    What is stored is shown as it is; `message` and `reply` are made from it when they are asked for.
    """

    id: UUID
    """Of the MessageDelivered or MessageDropped event; see `Audit.causes` and `Audit.effects`."""
    agent: str | None
    """`type/key` of the recipient; None: dropped while it was published, before it had one."""
    stream: str
    """Where the event stands: the agent's stream, or the runtime's for a dropped message."""
    version: int
    position: int
    """Order over the whole log, and the cursor: give it as `after` to go on behind this record."""
    delivered_at: datetime
    """When it was recorded, by the database's clock, UTC. For a dropped message: when it was dropped."""
    sender: str | None
    topic: str | None
    message_id: str | None
    """AutoGen's id, which may repeat."""
    message_type: str | None
    payload: bytes | None
    is_rpc: bool
    """The sender waits for the reply."""
    outcome: Outcome | None
    """None: the handler has not ended, or the branch was left before it did."""
    completed_at: datetime | None
    reply_type: str | None
    reply_payload: bytes | None
    error_type: str | None
    """`module:qualname` of the exception's class."""
    error_text: str | None
    """What went wrong; of a dropped message why it was, where that is known."""
    traceback: str | None
    dropped_by: str | None
    """Class of the intervention handler that dropped the message."""
    dropped_stage: str | None
    """Where: send, publish or response."""
    correlation: UUID | None
    cause: UUID | None
    """Id of the event that led to this delivery: a MessageSent, MessagePublished or MessageSubmitted."""
    epoch: int
    worker: str | None
    """Who ran the agent, as its AgentActivated says."""
    abandoned: bool
    """It lies on a branch that a restore left behind: the agent of today knows nothing of it."""
    codec: Codec = field(repr=False, compare=False)

    @property
    def message(self) -> object:
        """The message; an `Opaque` for what is not registered here, or is another class today than when it was written.

        Raises:
            PayloadCorrupt: The stored bytes are no JSON: the row was altered.
        """
        return decoded(self.codec, self.message_type, self.payload, self._where)

    @property
    def reply(self) -> object:
        """The reply, in the same way; None also where there is none (see `outcome`)."""
        return decoded(self.codec, self.reply_type, self.reply_payload, f"{self._where}, reply")

    @property
    def in_flight(self) -> bool:
        """Started, and not ended so far."""
        return self.outcome is None and not self.abandoned

    @property
    def _where(self) -> str:
        return f"stream {self.stream!r}, version {self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRecord:
    """One result from outside that an agent depended on: a model's, a tool's, the runtime's."""

    id: UUID
    agent: str
    version: int
    position: int
    recorded_at: datetime
    kind: str
    """What was asked."""
    request: str
    """With which arguments: as a digest where `asked` has them."""
    asked: object
    """The arguments as plain data, of a request to the outside; None of what agents ask of the runtime."""
    asked_version: int | None
    """Of the EffectRequested that asks for it; None where there is none."""
    outcome: Outcome | None
    result_type: str | None
    payload: bytes | None
    delivery: int | None
    """Version of the MessageDelivered whose handler asked, where that is recorded."""
    cause: UUID | None
    correlation: UUID | None
    codec: Codec = field(repr=False, compare=False)

    @property
    def result(self) -> object:
        """The result (or the error, as plain data); an `Opaque` for what is not registered here."""
        where = f"stream {self.agent!r}, version {self.version}"
        return decoded(self.codec, self.result_type, self.payload, where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """How many messages an agent was given, or of a type there were, and how they ended."""

    name: str
    """`type/key` of the agent, or `module:qualname` of the message's class."""
    deliveries: int
    replied: int
    raised: int
    cancelled: int
    running: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What a worker owns."""

    worker: WorkerRecord
    lag: float | None
    """Seconds since its last heartbeat, by the database's clock; None: it has stopped in good order."""
    agents: Mapping[str, int]
    """How many it owns, by type. Those of a worker that is gone are its own until another takes them."""
    epoch: int
    """The largest under which it owns one; 0: it owns none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The log as a whole."""

    agents: int
    events: int
    """Of all streams, runtimes' included; from the streams' heads, so what retention dropped counts too."""
    first_at: datetime | None
    last_at: datetime | None
    last_position: int
    workers_alive: int
    bytes: int
    """On disk, with indexes."""


def message_record(row: Sequence[Any], codec: Codec) -> MessageRecord:
    """A record from a row in the order of queries/audit_messages_newest."""
    dropped = row[6] == _DROPPED
    metadata: dict[str, Any] = row[16]
    outcome = Outcome.DROPPED if dropped else _outcome(row[17])
    replied = outcome is Outcome.REPLIED
    failed = outcome in (Outcome.RAISED, Outcome.CANCELLED)
    done: dict[str, Any] = row[21] or {}
    return MessageRecord(
        id=row[5],
        agent=row[9] if dropped else row[0],
        stream=row[0],
        version=row[1],
        position=row[2],
        delivered_at=row[4],
        sender=row[8],
        topic=row[10],
        message_id=row[11],
        message_type=row[12],
        payload=row[13],
        is_rpc=bool(metadata.get("is_rpc", row[10] is None)),
        outcome=outcome,
        completed_at=row[18],
        reply_type=row[19] if replied else None,
        reply_payload=row[20] if replied else None,
        error_type=row[19] if failed else None,
        error_text=_error_text(row[20]) if failed else metadata.get("error") if dropped else None,
        traceback=done.get("traceback"),
        dropped_by=metadata.get("by") if dropped else None,
        dropped_stage=metadata.get("stage") if dropped else None,
        correlation=row[15],
        cause=row[14],
        epoch=row[3],
        worker=row[0].removeprefix(RUNTIME_STREAM_PREFIX).partition("/")[0] if dropped else row[23],
        abandoned=row[22],
        codec=codec,
    )


def effect_record(event: RecordedEvent, request: RecordedEvent | None, codec: Codec) -> EffectRecord:
    """A record from an EffectRecorded event, and what was asked, if that is an event of its own."""
    return EffectRecord(
        id=event.id,
        agent=event.stream,
        version=event.version,
        position=event.position,
        recorded_at=event.recorded_at,
        kind=str(event.metadata.get("kind", "")),
        request=str(event.metadata.get("request", "")),
        asked=None if request is None else arguments(request),
        asked_version=None if request is None else request.version,
        outcome=event.outcome,
        result_type=event.message_type,
        payload=event.payload,
        delivery=event.delivery,
        cause=event.cause,
        correlation=event.correlation,
        codec=codec,
    )


def unanswered_record(request: RecordedEvent, codec: Codec) -> EffectRecord:
    """A record from an EffectRequested event whose result the log does not hold: it stands where the request does."""
    return replace(effect_record(request, request, codec), result_type=None, payload=None)


def arguments(request: RecordedEvent) -> object:
    """What an EffectRequested event asks for, as plain data; as text, where it is not of the form that requests have."""
    payload = request.payload or b""
    try:
        return json.loads(payload)["request"]
    except (ValueError, TypeError, KeyError):
        return payload.decode(errors="replace")


def decoded(codec: Codec, type_name: str | None, payload: bytes | None, where: str) -> object:
    """A stored value for people: whatever the class of today can't hold is left as it was stored.

    Raises:
        PayloadCorrupt: The bytes are no JSON.
    """
    if payload is None:
        return None
    try:
        return codec.decode(payload, where=where, opaque=True)
    except PayloadCorrupt:
        if _plain(payload) is None:
            raise
        return Opaque(type_name or "", payload)


def _outcome(stored: str | None) -> Outcome | None:
    return None if stored is None else Outcome(stored)


def _error_text(payload: bytes | None) -> str | None:
    plain = _plain(payload or b"")
    text = cast("dict[str, Any]", plain).get("text") if isinstance(plain, dict) else None
    return text if isinstance(text, str) else None


def _plain(payload: bytes) -> object:
    try:
        return json.loads(payload)
    except ValueError:
        return None
