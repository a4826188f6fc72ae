"""An event of a session, as it is recorded in another log.

A past becomes one stretch of a stream: what restores left behind is left out, and what a fork brought along is its own.
Versions, and the numbers of deliveries and calls, which are versions, move accordingly. Without restores and forks they stay
as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timezone
from typing import Any
from uuid import UUID

from autogen_eventlog.events import EventData, EventType, RecordedEvent
from autogen_eventlog.incarnation.making import PARAMETERS
from autogen_eventlog.replay.journal import OBSERVATIONS, start_moved
from autogen_eventlog.transfer.renaming import Renaming
from autogen_eventlog.transfer.session_file import Entry, SessionHeader

IMPORTED_FROM = "imported_from"
"""In the metadata of an imported event: the stream, version, position, time and id that it has where it comes from, and
whether it is a message that had not reached everybody it was for (`waits`)."""

_BRANCHES = (EventType.STREAM_RESTORED, EventType.STREAM_FORKED)


@dataclass(slots=True)
class _Past:
    """How far the copy of one agent's past has come."""

    version: int = 0
    deliveries: dict[int, int] = field(default_factory=dict[int, int])
    """The new number of each, by its old one."""
    calls: dict[int, int] = field(default_factory=dict[int, int])
    foreign: set[UUID] = field(default_factory=set[UUID])
    """Events that come from the past of another agent."""


class Copies:
    """Makes the events of one session, in their order.

    Raises:
        InvalidRenaming, NotEncodable: See `Renaming.over`.
    """

    def __init__(self, header: SessionHeader, renaming: Renaming) -> None:
        self._header = header
        self._renaming = renaming
        self.names = renaming.over(one.stream for one in header.lineages)
        """New ids of the agents, by their old ones."""
        self._pasts = {agent: _Past() for agent in self.names}

    def again(self) -> Copies:
        """The same, from the beginning."""
        copies = object.__new__(Copies)
        copies._header, copies._renaming, copies.names = self._header, self._renaming, self.names
        copies._pasts = {agent: _Past() for agent in self.names}
        return copies

    def copy(self, entry: Entry) -> EventData:
        """The next event."""
        past, event = self._pasts[entry.agent], entry.event
        past.version += 1
        for numbers, number in ((past.deliveries, event.delivery), (past.calls, event.call)):
            if number is not None and number == event.version:  # it begins here
                numbers[number] = past.version
        if event.stream != entry.agent:
            past.foreign.add(event.id)
        waits, renamed = event.id in self._header.waiting, self.names[entry.agent] != event.stream
        return EventData(
            id=self._id(entry, past, event.id),
            type=EventType.STREAM_RESTORED if event.type is EventType.STREAM_FORKED else event.type,
            occurred_at=event.occurred_at,
            delivery=_number(past.deliveries, event.delivery),
            call=_number(past.calls, event.call),
            sender=None if event.sender is None else self._agent(event.sender),
            recipient=None if event.recipient is None else self._agent(event.recipient),
            topic=None if event.topic is None else self._renaming.topic(event.topic),
            message_id=event.message_id,
            message_type=event.message_type,
            payload=event.payload,
            outcome=event.outcome,
            cause=None if event.cause is None else self._id(entry, past, event.cause),
            correlation=None if event.correlation is None else self._renaming.id(event.correlation),
            metadata=_metadata(past, event, waits=waits, renamed=renamed),
        )

    def _id(self, entry: Entry, past: _Past, old: UUID) -> UUID:
        return self._renaming.id(old, entry.agent if old in past.foreign else "")

    def _agent(self, name: str) -> str:
        """Agents that are not in the session keep their names."""
        return self.names.get(name, name)


def _number(numbers: dict[int, int], old: int | None) -> int | None:
    return None if old is None else numbers.get(old, old)


def _metadata(past: _Past, event: RecordedEvent, *, waits: bool, renamed: bool) -> dict[str, Any]:
    metadata = dict(event.metadata)
    if renamed and event.type is EventType.AGENT_ACTIVATED:  # under another id its factory may make something else
        producer: dict[str, Any] = metadata.get("producer") or {}
        metadata["producer"] = {name: value for name, value in producer.items() if name != PARAMETERS}
    if OBSERVATIONS in metadata:
        metadata[OBSERVATIONS] = [start_moved(one, past.deliveries) for one in metadata[OBSERVATIONS]]
    if event.type in _BRANCHES:
        for name in ("from_stream", "from_version", "whole"):
            metadata.pop(name, None)
        metadata["to_version"] = past.version - 1
    origin: dict[str, Any] = {
        "stream": event.stream,
        "version": event.version,
        "position": event.position,
        "recorded_at": event.recorded_at.astimezone(timezone.utc).isoformat(),
        "id": str(event.id),
    }
    if waits:
        origin["waits"] = True
    if IMPORTED_FROM in metadata:
        origin[IMPORTED_FROM] = metadata[IMPORTED_FROM]
    metadata[IMPORTED_FROM] = origin
    return metadata
