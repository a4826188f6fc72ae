"""The facts of a stream: what is proposed to the log, and what the log has recorded.

One flat shape serves every event type, because the table has one shape and the hot path builds one object an event.
Which fields a type uses is said in `EventType`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, make_dataclass
from datetime import datetime
from enum import Enum
from typing import Any, TypeVar, cast
from uuid import UUID

T = TypeVar("T")

LARGEST_PAYLOAD = 32 * 1024 * 1024
"""Bytes of an encoded message, reply or state. The same everywhere, because replay must refuse what was refused live."""


class EventType(str, Enum):
    """Past tense, one per kind of fact."""

    AGENT_ACTIVATED = "AgentActivated"
    """An instance was built on a worker: `metadata["producer"]` names worker, class, code hash and Python."""
    MESSAGE_DELIVERED = "MessageDelivered"
    """A handler run began: `delivery`, `sender`, `topic`, `message_id`, `message_type`, `payload`."""
    MESSAGE_SENT = "MessageSent"
    """The handler called another agent: `delivery`, `call`, `recipient`, `message_type`, `payload`."""
    REPLY_RECEIVED = "ReplyReceived"
    """The answer to `call`: `outcome` replied, raised or cancelled; `message_type` and `payload`."""
    MESSAGE_PUBLISHED = "MessagePublished"
    """The handler published: `delivery`, `topic`, `message_type`, `payload`."""
    EFFECT_REQUESTED = "EffectRequested"
    """The handler asked a model, a tool, … : `delivery`, the request in `payload`, `metadata["effect"]`, `["kind"]` and
    `["request"]` (its digest). It is asked only once this is durable."""
    EFFECT_RECORDED = "EffectRecorded"
    """A result from outside that the handler depends on: `metadata["effect"]`, `["kind"]`, `["request"]`; `outcome`
    replied, raised or cancelled; `message_type` and `payload`. A stream has one for each item, and one for its end."""
    DELIVERY_COMPLETED = "DeliveryCompleted"
    """The handler run `delivery` ended: `outcome` replied, raised or cancelled; the reply in `payload`."""
    DELIVERY_CANCELLED = "DeliveryCancelled"
    """The outside asked the handler run `delivery` to stop; it ends with its own `DeliveryCompleted`."""
    MESSAGE_DROPPED = "MessageDropped"
    """An intervention handler refused a message: `metadata["by"]` names it. Not in any agent's replay."""
    MESSAGE_SUBMITTED = "MessageSubmitted"
    """A message entered the runtime from outside any agent, or on a runtime that shows no more than that."""
    SCHEDULE_RECORDED = "ScheduleRecorded"
    """Only what the loop did (timers, clock): so much happened since the last event that it is written down by itself, or an
    agent came to rest after its handlers' end."""
    STATE_LOADED = "StateLoaded"
    """A saved state was put into the agent: the state in `payload`."""
    STREAM_RESTORED = "StreamRestored"
    """What follows continues from version `metadata["to_version"]`; what lies between is an abandoned branch."""
    STREAM_FORKED = "StreamForked"
    """The stream begins with another's past: `metadata["from_stream"]`, `metadata["from_version"]`."""
    WRITES_REFUSED = "WritesRefused"
    """An instance that was no longer the agent tried to go on (G6): in its runtime's stream, what it would have recorded.
    `recipient` is the agent, `metadata` says what was expected and found, `payload` has the events."""
    SNAPSHOT_FAILED = "SnapshotFailed"
    """The proof of a snapshot came to another state: in a runtime's stream. `recipient` is the agent, `metadata` has the
    snapshot's `version` and `kind`, and where they differ. It is never restored from."""
    AGENT_STATE_SAVED = "AgentStateSaved"
    """A state was saved in the state service: the state in `payload`, in the stream `$state/…` of the agent."""


class Outcome(str, Enum):
    """How a delivery or a call ended."""

    REPLIED = "replied"
    RAISED = "raised"
    CANCELLED = "cancelled"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventData:
    """An event as proposed to the log; its stream, version and epoch are said to `append`."""

    id: UUID
    type: EventType
    occurred_at: datetime
    """The producer's clock, zone-aware. For people; nothing is ordered by it."""
    delivery: int | None = None
    """1-based number of the handler run within its stream."""
    call: int | None = None
    """1-based number of the outgoing call within its stream."""
    sender: str | None = None
    recipient: str | None = None
    topic: str | None = None
    """`type/source` of AutoGen's TopicId."""
    message_id: str | None = None
    """AutoGen's message id, as found. It may repeat and identifies nothing."""
    message_type: str | None = None
    """`module:qualname` of the message's class."""
    payload: bytes | None = None
    """The exact encoded value (see `codec`): UTF-8 JSON, never containing U+0000 unescaped."""
    outcome: Outcome | None = None
    cause: UUID | None = None
    """Id of the event that directly led to this one."""
    correlation: UUID | None = None
    """Id shared by all events of one conversation."""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    """JSON-clean; what replay and people need beside the columns (tick, timers, clock readings, error, producer)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEvent(EventData):
    """An event as the log holds it."""

    stream: str
    version: int
    """1-based, gapless within the stream."""
    position: int
    """Grows across streams; gaps are normal."""
    epoch: int
    recorded_at: datetime
    """The database's clock, zone-aware UTC, never decreasing within a stream."""


def _quick(frozen: type[T]) -> type[T]:
    """What makes objects of a frozen dataclass in a third of the time, for the places that make one an event.

    The `__init__` of a frozen class sets each field through `object.__setattr__`. This class differs in nothing but that
    it may be changed, and the last that its `__init__` does is to turn the new object into one of the frozen class.
    """

    def freeze(self: object) -> None:
        self.__class__ = frozen

    columns = [
        (each.name, each.type, field(default=each.default, default_factory=each.default_factory))  # type: ignore
        for each in fields(frozen)  # type: ignore[arg-type]
    ]
    plain = make_dataclass(frozen.__name__, columns, kw_only=True, namespace={"__post_init__": freeze})
    members = {
        "__slots__": (),
        "__setattr__": object.__setattr__,
        "__delattr__": object.__delattr__,
        "__init__": plain.__init__,
        "__post_init__": freeze,
    }
    return cast("type[T]", type(frozen.__name__, (frozen,), members))


new_event = _quick(EventData)
new_recorded_event = _quick(RecordedEvent)
