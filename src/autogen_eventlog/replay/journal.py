"""The journal of one agent: its events and what the loop did between them, as entries in order.

A *tick* is the number of callbacks the event loop has run in the agent's context. Every entry carries the tick at which
it happened, counted before a callback that it causes runs. Timers that fired, readings of the loop's clock and starts of
handlers happen too often to be rows of their own: they travel as *observations* in the metadata of the next event, and
come back out of it here, in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from autogen_eventlog.events import EventType, RecordedEvent

TICK: Final = "tick"
OBSERVATIONS: Final = "observations"
MORE: Final = "more"
"""Marks an `EffectRecorded` after which others of the same request follow (an item of a stream)."""
READINGS: Final = "readings"
"""In an activation's producer: the families of readings (`time`, `uuid`) that are recorded from there on."""

_TIMER, _READING, _START, _FOREIGN = "t", "r", "s", "f"


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The `number`-th timer that the agent armed fired."""

    number: int
    tick: int

    def observation(self) -> list[Any]:
        return [_TIMER, self.number, self.tick]


@dataclass(frozen=True, slots=True)
class Reading:
    """The agent read something that is different each time: a clock, an id, a random number.

    `kind` names what (`loop.time`, `uuid.uuid4`); `value` is JSON-clean and survives JSON exactly.
    """

    kind: str
    value: Any
    tick: int

    def observation(self) -> list[Any]:
        return [_READING, [self.kind, self.value], self.tick]


@dataclass(frozen=True, slots=True)
class HandlerStarted:
    """The handler of the delivery recorded at version `delivery` began later than it was recorded (strict durability)."""

    delivery: int
    tick: int

    def observation(self) -> list[Any]:
        return [_START, self.delivery, self.tick]


@dataclass(frozen=True, slots=True)
class ForeignWakeup:
    """Something that is not recorded (a socket, a thread, another agent's object) woke the agent."""

    what: str
    tick: int

    def observation(self) -> list[Any]:
        return [_FOREIGN, self.what, self.tick]


@dataclass(frozen=True, slots=True)
class Happened:
    """A recorded event."""

    event: RecordedEvent
    tick: int


Entry = TimerFired | Reading | HandlerStarted | ForeignWakeup | Happened

INPUTS: Final = frozenset(
    {
        EventType.MESSAGE_DELIVERED,
        EventType.REPLY_RECEIVED,
        EventType.EFFECT_RECORDED,
        EventType.DELIVERY_CANCELLED,
        EventType.STATE_LOADED,
    }
)
"""What comes to the agent from outside: replay injects it at its tick."""

OUTPUTS: Final = frozenset(
    {
        EventType.MESSAGE_SENT,
        EventType.MESSAGE_PUBLISHED,
        EventType.EFFECT_REQUESTED,
        EventType.DELIVERY_COMPLETED,
    }
)
"""What the agent does: replay expects it at its tick, with the same content."""


def entries(event: RecordedEvent) -> Iterator[Entry]:
    """What happened from the event before this one up to this one, in order.

    Raises:
        ValueError: The metadata is not what this package writes.
    """
    for observation in event.metadata.get(OBSERVATIONS, ()):
        yield _entry(observation)
    yield Happened(event, event.metadata.get(TICK, 0))


def start_moved(observation: list[Any], numbers: dict[int, int]) -> list[Any]:
    """An observation in which a delivery has another number."""
    kind, what, tick = observation
    return [kind, numbers.get(what, what), tick] if kind == _START else observation


def _entry(observation: list[Any]) -> Entry:
    kind, what, tick = observation
    match kind:
        case "t":
            return TimerFired(what, tick)
        case "r":
            return Reading(what[0], what[1], tick)
        case "s":
            return HandlerStarted(what, tick)
        case "f":
            return ForeignWakeup(what, tick)
        case _:
            raise ValueError(f"unknown observation {kind!r}")
