"""The rules of replay, without I/O: journal entries in, inputs to inject and outputs to expect out.

The machine knows the agent's clock (`tick`) and the journal. Its driver asks before each callback what is due, and tells
it each output the code makes. It never guesses: whatever does not fit is a `Mismatch`, which the driver turns into a
`Divergence` with the likely cause (G5). No asyncio here, so that the rules can be tested as rules.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from autogen_eventlog.errors import FieldDifference
from autogen_eventlog.events import EventData, EventType, Outcome, RecordedEvent
from autogen_eventlog.replay.differing import bytes_differences, named
from autogen_eventlog.replay.journal import (
    INPUTS,
    MORE,
    OUTPUTS,
    READINGS,
    Entry,
    ForeignWakeup,
    HandlerStarted,
    Happened,
    Reading,
    TimerFired,
    entries,
)

Input: TypeAlias = TimerFired | HandlerStarted | Happened

_TEXT_BOUND = 400
_ADDRESS = re.compile(rb" at 0x[0-9a-fA-F]+")
"""As `object.__repr__` writes it."""


class Mismatch(Exception):
    """Code and journal disagree. `version` is the event's version that the journal was on the way to."""

    def __init__(
        self,
        version: int,
        recorded: str,
        produced: str,
        foreign: bool = False,
        differences: tuple[FieldDifference, ...] = (),
        delivery: int | None = None,
    ) -> None:
        super().__init__(f"version {version}: recorded {recorded}, produced {produced}")
        self.version = version
        self.recorded = recorded
        self.produced = produced
        self.foreign = foreign
        self.differences = differences
        """Field by field, where one thing stands against another."""
        self.delivery = delivery
        """Whose output it is, where it is one's."""
        self.error: Exception | None = None
        """What is raised in its place, where more is known than that nothing answers."""


@dataclass(frozen=True, slots=True)
class Production:
    """An output as the code makes it: the part of an event that replay compares."""

    type: EventType
    recipient: str | None = None
    topic: str | None = None
    message_type: str | None = None
    payload: bytes | None = None
    outcome: Outcome | None = None
    delivery: int | None = None

    def matches(self, event: EventData) -> bool:
        return (
            self.type is event.type
            and (self.payload == event.payload or self._is_same_error(event.payload))
            and self.message_type == event.message_type
            and self.recipient == event.recipient
            and self.topic == event.topic
            and self.outcome == event.outcome
            and self.delivery == event.delivery
        )

    def _is_same_error(self, recorded: bytes | None) -> bool:
        """Whether both are errors whose texts differ in the addresses of objects only (`<Order object at 0x7f…>`)."""
        if self.outcome is not Outcome.RAISED or self.payload is None or recorded is None:
            return False
        return _ADDRESS.sub(b"", self.payload) == _ADDRESS.sub(b"", recorded)

    def stands_for(self, event: EventData) -> bool:
        """Whether it does the same with another content: replay can go on with what was recorded in its place."""
        return (
            self.type is event.type
            and self.recipient == event.recipient
            and self.topic == event.topic
            and self.outcome == event.outcome
            and self.delivery == event.delivery
        )


class Machine:
    """Follows one journal from `tick` on."""

    def __init__(
        self,
        *,
        tick: int = 0,
        by_order: Callable[[dict[str, Any]], bool] | None = None,
        on_difference: Callable[[Mismatch], None] | None = None,
        today: Callable[[RecordedEvent], RecordedEvent] = lambda event: event,
    ) -> None:
        """
        Args:
            tick: Where the agent's clock stands.
            by_order: Asked with the producer of each activation: whether what it recorded is followed by order, not by
                tick. Default: never.
            on_difference: Told outputs of which only the content is another than recorded; the code then goes on with what
                was recorded. Default: such an output is a mismatch like any other.
            today: Gives a recorded event in the shape that its message's class has today.
        """
        self.tick = tick
        self.producer: dict[str, Any] | None = None
        """Who recorded the part that is being followed."""
        self.activation: int | None = None
        """Version of the activation that says so."""
        self.followed_by_order = False
        """Whether any part was."""
        self.readings: frozenset[str] = frozenset()
        """The families of readings that are recorded in the part that is being followed (see `recorded_by`)."""
        self._by_order = by_order
        self._on_difference = on_difference
        self._today = today
        self._order: _Order | None = None
        self.version = 0
        """Version of the last event that was passed."""
        self.last: RecordedEvent | None = None
        self._entries: deque[Entry] = deque()
        self._complete = False

    # -- feeding --------------------------------------------------------------------------------------------------

    def feed(self, event: RecordedEvent) -> None:
        """Add the next event of the lineage."""
        self._entries.extend(entries(event))

    def finish(self) -> None:
        """No event will follow."""
        self._complete = True

    @property
    def hungry(self) -> bool:
        """Whether more must be fed before the next callback may run: it may make every output of the next tick."""
        return not self._complete and (not self._entries or self._entries[-1].tick <= self.tick + 1)

    @property
    def exhausted(self) -> bool:
        """Whether the journal is at its end."""
        self._pass_notes()
        return self._complete and not self._entries

    # -- following ------------------------------------------------------------------------------------------------

    def recorded_by(self, producer: dict[str, Any], activation: int | None = None) -> None:
        """Say who recorded what comes next. An activation says so itself; before a first one, nobody is known."""
        self.producer, self.activation = producer or None, activation
        ordered = self._by_order is not None and self._by_order(producer)
        self._order = _Order() if ordered else None
        self.followed_by_order |= ordered
        # A release that recorded fewer of them left the rest to the moment: so does its replay.
        self.readings = frozenset(producer.get(READINGS) or ())

    def due(self, *, idle: bool) -> Input | None:
        """Take the next input, if it is due now. Notes, which concern no code, are passed on the way.

        Args:
            idle: Whether no callback of the agent is ready.

        Raises:
            Mismatch: The input's tick is over, or something unrecorded woke the agent here.
        """
        self._pass_notes()
        entry = self._entries[0] if self._entries else None
        if isinstance(entry, ForeignWakeup):
            raise self._foreign(entry)
        if entry is None or not _is_input(entry) or not self._reached(entry, idle):
            return None
        self._pass(entry)
        return entry  # type: ignore[return-value]

    def _reached(self, entry: Entry, idle: bool) -> bool:
        if self._order is not None:
            if idle:
                self.tick = entry.tick
            return idle
        if entry.tick < self.tick:
            produced = f"the code has run {self.tick - entry.tick} callbacks more by then"
            raise self._mismatch(produced, named("tick", entry.tick, self.tick))
        return entry.tick == self.tick

    def produce(self, made: Production) -> RecordedEvent:
        """Hold an output of the code against the journal and pass it.

        Raises:
            Mismatch: The journal has something else here.
        """
        self._pass_notes()
        entry = self._entries[0] if self._entries else None
        if not isinstance(entry, Happened):
            raise self._mismatch(describe(made), named("event", _kind(entry), made.type.value))
        if not made.matches(entry.event):
            in_todays_shape = self._today(entry.event)
            if not made.matches(in_todays_shape):
                self._differs(in_todays_shape, entry.tick, made)
        if entry.tick != self.tick:
            if self._order is None:
                produced = f"{describe(made)} at tick {self.tick} instead of tick {entry.tick}"
                raise self._mismatch(produced, named("tick", entry.tick, self.tick))
            self.tick = entry.tick
        self._pass(entry)
        return entry.event

    def _differs(self, event: RecordedEvent, tick: int, made: Production) -> None:
        """Tell what is different, and go on, if that is wanted and only the content is.

        Raises:
            Mismatch: It is not.
        """
        recorded, produced = describe_both(event, made)
        mismatch = Mismatch(
            event.version,
            f"{recorded} at tick {tick}",
            produced,
            differences=output_differences(event, made),
            delivery=made.delivery,
        )
        in_place = self._order is not None or tick == self.tick
        if self._on_difference is None or not in_place or not made.stands_for(event):
            raise mismatch
        self._on_difference(mismatch)

    def read(self, kind: str) -> Any:
        """The recorded value of a reading.

        Raises:
            Mismatch: The journal has no such reading here.
        """
        self._pass_notes()
        entry = self._entries[0] if self._entries else None
        produced = f"a reading of {kind} at tick {self.tick}"
        if not isinstance(entry, Reading) or entry.kind != kind:
            raise self._mismatch(produced, named("event", _kind(entry), f"reading of {kind}"))
        if entry.tick != self.tick and self._order is None:
            raise self._mismatch(produced, named("tick", entry.tick, self.tick))
        self._entries.popleft()
        return entry.value

    def stuck(self) -> Mismatch:
        """The code waits with nothing to run, but the journal goes on."""
        entry = self._entries[0] if self._entries else None
        return self._mismatch(f"nothing: the code waits, at tick {self.tick}", named("event", _kind(entry), None))

    def unanswerable(self, what: str) -> Mismatch:
        """The code does something that the log can't answer."""
        return Mismatch(self._next_version(), "nothing that answers it", what, foreign=True)

    def first_tick_free(self, event: RecordedEvent | None) -> int | None:
        """The last tick that may run before `event`, the first one after the journal, happens (None: no bound)."""
        if event is None:
            return None
        first = next(entries(event))
        return first.tick if _is_input(first) else first.tick - 1

    # -- inside ---------------------------------------------------------------------------------------------------

    def _pass_notes(self) -> None:
        """Pass what concerns no code, also amid a callback: an agent that was brought here went on from amid one.

        What says how far the agent went is passed when it has gone so far.
        """
        while self._entries:
            entry = self._entries[0]
            if not (isinstance(entry, Happened) and _is_note(entry.event)) or self._lies_ahead(entry):
                return
            self._pass(entry)

    def _lies_ahead(self, note: Happened) -> bool:
        return note.event.type is EventType.SCHEDULE_RECORDED and self._order is None and self.tick < note.tick

    def _pass(self, entry: Entry) -> None:
        self._entries.popleft()
        if self._order is not None and not self._order.admits(entry):
            raise self._mismatch("what order alone does not settle: deliveries, calls or timers that overlap")
        if isinstance(entry, Happened):
            self.version = entry.event.version
            self.last = entry.event
            if entry.event.type is EventType.AGENT_ACTIVATED:
                self._activated(entry)

    def _activated(self, entry: Happened) -> None:
        """From here on, another process recorded, perhaps with other code or another Python."""
        if self._order is not None:
            self.tick = entry.tick
        self.recorded_by(entry.event.metadata.get("producer") or {}, entry.event.version)

    def _mismatch(self, produced: str, *differences: FieldDifference) -> Mismatch:
        entry = self._entries[0] if self._entries else None
        recorded = "nothing more" if entry is None else _describe_entry(entry)
        return Mismatch(self._next_version(), recorded, produced, differences=differences)

    def _foreign(self, entry: ForeignWakeup) -> Mismatch:
        return Mismatch(self._next_version(), f"a wake-up from outside the log: {entry.what}", "nothing", foreign=True)

    def _next_version(self) -> int:
        """Versions of a lineage jump where it crosses a branch, so the next event is asked, not counted."""
        for entry in self._entries:
            if isinstance(entry, Happened):
                return entry.event.version
        return self.version


class _Order:
    """Whether the order of entries alone says how the code ran: one delivery at a time, and one call at a time in it.

    What overlaps could run in another interleaving with the same outputs, and end in another state without a word.
    """

    def __init__(self) -> None:
        self._deliveries = 0
        self._asked = 0

    def admits(self, entry: Entry) -> bool:
        if isinstance(entry, TimerFired):
            return self._deliveries == 1
        if not isinstance(entry, Happened):
            return True
        match entry.event.type:
            case EventType.MESSAGE_DELIVERED | EventType.STATE_LOADED:
                self._deliveries += 1
            case EventType.DELIVERY_COMPLETED:
                self._deliveries, self._asked = self._deliveries - 1, 0
            case EventType.MESSAGE_SENT | EventType.EFFECT_REQUESTED:
                self._asked += 1
            case EventType.REPLY_RECEIVED | EventType.EFFECT_RECORDED if MORE not in entry.event.metadata:
                self._asked = max(0, self._asked - 1)
            case _:
                pass
        return self._deliveries <= 1 and self._asked <= 1


def _is_note(event: RecordedEvent) -> bool:
    return event.type not in INPUTS and event.type not in OUTPUTS


def _is_input(entry: Entry) -> bool:
    return isinstance(entry, TimerFired | HandlerStarted) or (
        isinstance(entry, Happened) and entry.event.type in INPUTS
    )


def _kind(entry: Entry | None) -> str | None:
    """What an entry is, in a word or two."""
    match entry:
        case None:
            return None
        case Happened(event=event):
            return event.type.value
        case Reading(kind=kind):
            return f"reading of {kind}"
        case TimerFired():
            return "timer"
        case HandlerStarted():
            return "start of a handler"
        case ForeignWakeup():
            return "wake-up from outside the log"


def _describe_entry(entry: Entry) -> str:
    match entry:
        case Happened():
            return f"{describe(entry.event)} at tick {entry.tick}"
        case TimerFired():
            return f"timer {entry.number} firing at tick {entry.tick}"
        case Reading():
            return f"a reading of {entry.kind} at tick {entry.tick}"
        case HandlerStarted():
            return f"the start of delivery {entry.delivery} at tick {entry.tick}"
        case ForeignWakeup():
            return f"a wake-up from outside the log at tick {entry.tick}"


_PAYLOADS = {EventType.DELIVERY_COMPLETED: "reply", EventType.EFFECT_REQUESTED: "request"}
"""What a payload is called, by the type of its event; of others it is the `message`."""


def output_differences(recorded: EventData, made: Production) -> tuple[FieldDifference, ...]:
    """Field by field, the payload as it is stored; that of another type of event is another altogether."""
    columns = (
        ("type", recorded.type.value, made.type.value),
        ("outcome", _value(recorded.outcome), _value(made.outcome)),
        ("delivery", recorded.delivery, made.delivery),
        ("recipient", recorded.recipient, made.recipient),
        ("topic", recorded.topic, made.topic),
        ("message_type", recorded.message_type, made.message_type),
    )
    different = tuple(named(name, left, right) for name, left, right in columns if left != right)
    if recorded.type is not made.type:
        return different
    payload = _PAYLOADS.get(recorded.type, "message")
    return different + bytes_differences(payload, recorded.payload, made.payload)


def _value(outcome: Outcome | None) -> str | None:
    return None if outcome is None else outcome.value


def describe_both(recorded: EventData, made: Production) -> tuple[str, str]:
    """Two events in a few words, with their payloads from shortly before the first place where they differ."""
    pairs = enumerate(zip(recorded.payload or b"", made.payload or b"", strict=False))
    differs = next((index for index, (left, right) in pairs if left != right), 0)
    start = 0 if differs < _TEXT_BOUND // 2 else differs - _TEXT_BOUND // 4
    return describe(recorded, start), describe(made, start)


def describe(event: EventData | Production, start: int = 0) -> str:
    """An event in a few words, for errors; its payload from the byte `start` on."""
    parts = [event.type.value]
    if event.outcome is not None:
        parts.append(event.outcome.value)
    if event.recipient is not None:
        parts.append(f"to {event.recipient}")
    if event.topic is not None:
        parts.append(f"on topic {event.topic}")
    if event.message_type is not None:
        parts.append(event.message_type)
    if event.payload is not None:
        text = ("…" if start else "") + event.payload[start:].decode("utf-8", "replace")
        parts.append(text if len(text) <= _TEXT_BOUND else text[:_TEXT_BOUND] + "…")
    return " ".join(parts)
