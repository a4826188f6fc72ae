"""The past of one version of an agent: its events in order, and what replay asks about them.

Where a past comes from is no matter to replay: `LogPast` reads it from the log, `checking.history` from a file.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Protocol

from autogen_eventlog.events import EventType, RecordedEvent
from autogen_eventlog.lineage import Lineage, events_of, lineage
from autogen_eventlog.postgres.reader import Reader
from autogen_eventlog.replay.journal import INPUTS

Place = tuple[str, int]
"""A stream and a version of it."""


@dataclass(frozen=True, slots=True)
class Activation:
    """What an `AgentActivated` says of the code that recorded what follows it."""

    version: int
    producer: dict[str, Any]


class Past(Protocol):
    """Everything that led to one version."""

    @property
    def lineage(self) -> Lineage:
        """Which events it is made of."""
        ...

    def events(self, after: Place | None = None) -> AsyncGenerator[RecordedEvent, None]:
        """Its events in order, or those after a version of it."""
        ...

    async def first_activation(self) -> RecordedEvent | None:
        """What says how the first instance with this past was made. None: it was not made yet."""
        ...

    async def last_activation(self, until: Place | None = None) -> Activation | None:
        """Who recorded its last event, or the event at a version of it. None: it does not say."""
        ...

    async def next_event(self) -> RecordedEvent | None:
        """The event that followed its last one, where that is known; None if it did not go on from there."""
        ...


def makes_first(event: RecordedEvent) -> bool:
    """Whether an event says how the first instance was made: an activation, or an input, before which there was none."""
    return event.type is EventType.AGENT_ACTIVATED or event.type in INPUTS


def goes_on(event: RecordedEvent) -> bool:
    """Whether an event follows the one before it in its stream, and does not continue from elsewhere."""
    return event.type not in (EventType.STREAM_RESTORED, EventType.STREAM_FORKED)


class LogPast:
    """A past as it stands in the log."""

    def __init__(self, reader: Reader, past: Lineage) -> None:
        self._reader = reader
        self._past = past

    @classmethod
    async def of(cls, reader: Reader, stream: str, version: int) -> LogPast:
        """The past of a version of a stream."""
        return cls(reader, await lineage(reader, stream, version))

    @property
    def lineage(self) -> Lineage:
        return self._past

    def events(self, after: Place | None = None) -> AsyncGenerator[RecordedEvent, None]:
        return events_of(self._reader, self._past.segments if after is None else self._past.after(*after))

    async def first_activation(self) -> RecordedEvent | None:
        async with contextlib.aclosing(events_of(self._reader, self._past.segments, batch=4)) as events:
            async for event in events:
                if makes_first(event):
                    return event
        return None

    async def last_activation(self, until: Place | None = None) -> Activation | None:
        for segment in reversed(self._past.until(*until) if until is not None else self._past.segments):
            place = {"stream": segment.stream, "version": segment.until_version}
            rows = await self._reader.pool.fetch("last_producer", place)
            if rows and rows[0][1] > segment.after_version:
                return Activation(rows[0][1], rows[0][0] or {})
        return None

    async def next_event(self) -> RecordedEvent | None:
        past = self._past
        async with contextlib.aclosing(self._reader.read(past.stream, after_version=past.version, batch=1)) as events:
            async for event in events:
                return event if goes_on(event) else None
        return None
