"""The statements behind a recorder of the eventsourcing library: notifications in global order, an application's events.

Blocking; see `blocking`. What the library calls an originator is a stream here; `projections` translates.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from threading import Event
from typing import Any
from uuid import uuid4

import psycopg

from autogen_eventlog.errors import AppendFailed, VersionConflict
from autogen_eventlog.events import EventType, RecordedEvent
from autogen_eventlog.postgres.blocking import BlockingPool, Connection
from autogen_eventlog.postgres.large import apart
from autogen_eventlog.postgres.records import recorded_event
from autogen_eventlog.postgres.sql import query

Row = tuple[Any, ...]

LARGEST = 2**63 - 1
_FARTHEST_VERSION = 2**62
_MAINTAIN_EVERY_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Page:
    """Settled events in global order."""

    events: list[RecordedEvent]
    looked_until: int
    """No other event of the asked topics can ever appear at or below this position."""


@dataclass(frozen=True, slots=True)
class Proposed:
    """An event that an application wants to append."""

    stream: str
    version: int
    """The application's number for it."""
    topic: str
    state: bytes


@dataclass(frozen=True, slots=True)
class _Head:
    epoch: int
    version: int
    distance: int | None
    """By how much the application's versions differ; None while the stream is empty."""


class RecorderStore:
    """Reads and appends for a recorder. Safe to share between threads.

    Raises (everywhere):
        DatabaseUnavailable: no answer within the pool's bound.
        SchemaError: the schema isn't there, or is closed to this role.
        LogClosed: the pool is closed.
        BlockingCall: called where an event loop runs.
    """

    def __init__(self, pool: BlockingPool) -> None:
        self._pool = pool
        self._maintained_at = -_MAINTAIN_EVERY_SECONDS

    def page(
        self,
        *,
        after: int,
        until: int = LARGEST,
        topics: Sequence[str] = (),
        limit: int,
        interrupted: Event | None = None,
    ) -> Page:
        """Events with after < position <= until, of the given topics or of all; none below a later one is skipped."""
        rows = self._fetch(
            "projection_notifications",
            {"after": after, "until": until, "topics": list(topics) or None, "limit": limit},
            interrupted=interrupted,
        )
        events = [recorded_event(row[1:]) for row in rows if row[1] is not None]
        if len(events) == limit and events:
            return Page(events, events[-1].position)
        return Page(events, max(after, min(rows[0][0] - 1, until)))

    def last_position(self, topics: Sequence[str] = ()) -> int | None:
        """The largest settled position of an event of the given topics, or of all; None: there is none."""
        rows = self._fetch("projection_last_position", {"topics": list(topics) or None})
        return rows[0][0] if rows else None

    def settle(self, timeout: float, *, position: int | None = None) -> bool:
        """Waits until everything committed at the call, or below and at `position`, is settled; False: it is not yet.

        A transaction under way that began before, anybody's in the same cluster, holds it up.
        """
        ends = time.monotonic() + timeout
        delay = 0.001
        while True:
            [(highest, horizon)] = self._fetch("projection_highest_position")
            position = highest if position is None else position
            if position < horizon:
                return True
            if time.monotonic() >= ends:
                return False
            time.sleep(delay)
            delay = min(2 * delay, 0.05)

    def events(self, stream: str, *, gt: int | None, lte: int | None, desc: bool, limit: int | None) -> list[Row]:
        """(version as the application numbers it, type, message_type, payload) with gt < version <= lte, in order."""
        name = "projection_events_backwards" if desc else "projection_events_forwards"
        bounds = {"gt": -_FARTHEST_VERSION if gt is None else gt, "lte": _FARTHEST_VERSION if lte is None else lte}
        return self._fetch(name, {"stream": stream, "limit": limit, **bounds})

    def insert(self, proposed: Sequence[Proposed]) -> list[int]:
        """Appends all or nothing, each stream under a claim of its own; returns the positions, in the order given.

        Claim and append are one transaction, so applications with the same stream wait for each other. A lost
        acknowledgement neither loses nor doubles an event, and is never taken for a conflict: claiming anew waits for
        the end of the transaction that may still be under way, and then the events are looked up by their ids.

        Raises:
            VersionConflict: the events of a stream do not follow its last one without a gap.
            AppendFailed: the database can't store it.
        """
        insertion = _Insertion(proposed)
        try:
            # Who waited for the second of its streams may be an older transaction than the one it waited for. Its
            # positions would go backwards there (EL003), and the pool tries again with a new transaction.
            return self._pool.run(lambda connection: self._attempt(connection, insertion))
        except psycopg.Error as error:
            raise AppendFailed(proposed[0].stream, error.sqlstate or "", str(error).splitlines()[0]) from error

    def close(self) -> None:
        """Closes the connections. Idempotent."""
        self._pool.close()

    def _attempt(self, connection: Connection, insertion: _Insertion) -> list[int]:
        if insertion.attempts or time.monotonic() - self._maintained_at > _MAINTAIN_EVERY_SECONDS:
            connection.execute(query("maintain"))
            self._maintained_at = time.monotonic()
        insertion.attempts += 1
        return insertion.run(connection)

    def _fetch(
        self, name: str, parameters: dict[str, Any] | None = None, interrupted: Event | None = None
    ) -> list[Row]:
        return self._pool.run(lambda connection: _rows(connection, name, parameters), interrupted=interrupted)


class _Insertion:
    """One batch on its way into the log, over as many attempts as it takes."""

    def __init__(self, proposed: Sequence[Proposed]) -> None:
        self._proposed = proposed
        self._ids = [uuid4() for _ in proposed]
        self._occurred_at = datetime.now(timezone.utc)
        self.attempts = 0

    def run(self, connection: Connection) -> list[int]:
        with connection.transaction():
            heads = self._claim(connection)
            if self.attempts > 1:
                found = {row[0]: row[1] for row in _rows(connection, "projection_find", {"ids": self._ids})}
                if found:
                    return [found[id] for id in self._ids]
            rows = _rows(connection, "projection_append", self._parameters(heads, self._versions(heads)))
            assert all(row[2] for row in rows), "a stream moved although its row was held"
        return [rows[0][5] + ordinal for ordinal in range(1, len(self._proposed) + 1)]

    def _claim(self, connection: Connection) -> dict[str, _Head]:
        streams = sorted({event.stream for event in self._proposed})
        claims = _rows(connection, "projection_claim", {"streams": streams})
        distances = {row[0]: row[1] for row in _rows(connection, "projection_origins", {"streams": streams})}
        return {stream: _Head(epoch, version, distances.get(stream)) for stream, epoch, version in claims}

    def _versions(self, heads: dict[str, _Head]) -> list[int]:
        """The version in its stream of each event: gapless, from the head on."""
        ends = {stream: head.version for stream, head in heads.items()}
        distances = {stream: head.distance for stream, head in heads.items() if head.distance is not None}
        versions: list[int] = []
        for event in self._proposed:
            version = event.version - distances.setdefault(event.stream, event.version - 1)
            if version != ends[event.stream] + 1:
                last = ends[event.stream] + distances[event.stream]
                raise VersionConflict(event.stream, event.version - 1, last)
            ends[event.stream] = version
            versions.append(version)
        return versions

    def _parameters(self, heads: dict[str, _Head], versions: list[int]) -> dict[str, Any]:
        states, payloads = apart([event.state for event in self._proposed])
        return {
            "occurred_at": self._occurred_at,
            "type": EventType.EFFECT_RECORDED.value,
            "streams": [event.stream for event in self._proposed],
            "versions": versions,
            "epochs": [heads[event.stream].epoch for event in self._proposed],
            "ids": self._ids,
            "topics": [event.topic for event in self._proposed],
            "metadata": [
                "{}" if event.version == version else json.dumps({"originator_version": event.version})
                for event, version in zip(self._proposed, versions, strict=True)
            ],
            "states": states,
            "payloads": payloads,
        }


def _rows(connection: Connection, name: str, parameters: dict[str, Any] | None = None) -> list[Row]:
    with connection.cursor(binary=True) as cursor:
        cursor.execute(query(name), parameters)
        return cursor.fetchall()
