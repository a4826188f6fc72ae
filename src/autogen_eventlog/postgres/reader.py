"""Reading the log: streams, global order, audit pages, and what a point in time is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any
from uuid import UUID

from autogen_eventlog.events import RecordedEvent
from autogen_eventlog.moments import check_times
from autogen_eventlog.postgres.pool import Pool
from autogen_eventlog.postgres.records import PAGE_BYTES, MessageFilter, Progress, StreamHead, is_full, recorded_event
from autogen_eventlog.postgres.session import EnsureServer

_LARGEST = 2**63 - 1
_SHORTEST_POLL = 0.01


class Reader:
    """Reads; owns nothing but its pool. Every read is one statement, tried again on a lost connection.

    Raises (everywhere):
        DatabaseUnavailable: no answer within `unavailable_after` seconds.
        SchemaError: the schema isn't there, or is closed to this role.
        LogClosed: the reader is closed.
    """

    def __init__(
        self,
        conninfo: str,
        schema: str,
        *,
        max_connections: int = 4,
        unavailable_after: float = 30.0,
        ensure_server: EnsureServer | None = None,
    ) -> None:
        self.pool = Pool(
            conninfo,
            schema,
            max_size=max_connections,
            unavailable_after=unavailable_after,
            ensure_server=ensure_server,
        )

    async def open(self) -> None:
        """Starts the pool."""
        await self.pool.open()

    async def close(self) -> None:
        """Closes the pool. Idempotent."""
        await self.pool.close()

    async def __aenter__(self) -> Reader:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def read(
        self,
        stream: str,
        *,
        after_version: int = 0,
        until_version: int | None = None,
        until_position: int | None = None,
        backwards: bool = False,
        batch: int = 1000,
    ) -> AsyncGenerator[RecordedEvent, None]:
        """A stream's events with after_version < version <= until_version and position <= until_position, in order.

        Holds one page of `batch` events in memory, or of fewer that are large, and no connection between pages. Without
        bounds, events appended while it reads are read too.
        """
        low, high = after_version, _LARGEST if until_version is None else until_version
        if until_position is not None:
            high = min(high, await self.version_at(stream, position=until_position))
        name = "read_backwards" if backwards else "read_forwards"
        while low < high:
            bounds = {"after_version": low, "until_version": high, "limit": batch, "bytes": PAGE_BYTES}
            page = await self.pool.fetch(name, {"stream": stream, **bounds})
            for row in page:
                yield recorded_event(row)
            if not is_full(page, batch):
                return
            if backwards:
                high = page[-1][1] - 1
            else:
                low = page[-1][1]

    async def head(self, stream: str) -> StreamHead | None:
        """Where a stream stands; None if nobody ever claimed it."""
        rows = await self.pool.fetch("head", {"stream": stream})
        return StreamHead(*rows[0]) if rows else None

    async def heads(self, *, type: str | None = None, after: str | None = None, limit: int = 1000) -> list[StreamHead]:
        """A page of heads in order of id (by code point), of one agent type or of all, past the id `after`."""
        first = "" if type is None else f"{type}/"
        before = None if type is None else f"{type}0"  # '0' follows '/'
        rows = await self.pool.fetch(
            "heads", {"after": max(first, after or ""), "before": before, "limit": limit}, prepare=False
        )
        return [StreamHead(*row) for row in rows]

    async def restorations(self, stream: str) -> list[tuple[int, int]]:
        """(version of the StreamRestored event, version it went back to), ascending."""
        rows = await self.pool.fetch("restorations", {"stream": stream})
        return [(version, to_version) for version, to_version in rows]

    async def version_at(self, stream: str, *, position: int | None = None, time: datetime | None = None) -> int:
        """The last version with position <= `position` and recorded_at <= `time`; 0 if none.

        For a time that has just passed, `settle` first: an append under way may still be recorded before it.

        Raises:
            InvalidPoint: a time without a zone.
        """
        check_times(time)
        rows = await self.pool.fetch("version_at", {"stream": stream, "position": position, "time": time})
        return rows[0][0]

    async def position_at(self, time: datetime) -> int:
        """The largest position recorded at or before `time`, among settled ones; 0 if none.

        Raises:
            InvalidPoint: a time without a zone.
        """
        check_times(time)
        rows = await self.pool.fetch("position_at", {"time": time})
        return rows[0][0]

    async def whole_restored(self, position: int) -> int:
        """The first position from `position` on at which no restore of all agents has reached only some of them."""
        rows = await self.pool.fetch("whole_restored", {"position": position})
        return max(position, rows[0][0] or 0)

    async def settle(self, timeout: float) -> int:
        """Waits until every transaction that ran at the call has ended; returns the horizon then.

        Below the horizon nothing more appears, and nothing more is recorded at any time before the call: what is
        asked about such a position or time has one answer for ever (G7).

        Raises:
            TimeoutError: a transaction still runs after `timeout` seconds. It may be anybody's in the same cluster.
        """
        ends = asyncio.get_running_loop().time() + timeout
        [(transaction,)] = await self.pool.fetch("next_transaction")
        delay = 0.001
        while True:
            [(settled, horizon)] = await self.pool.fetch("settled", {"transaction": transaction})
            if settled:
                return horizon
            if asyncio.get_running_loop().time() >= ends:
                raise TimeoutError(f"a transaction that began before the call still runs after {timeout:g} s")
            await asyncio.sleep(delay)
            delay = min(2 * delay, 0.1)

    async def first_version(self, stream: str) -> int:
        """The first version of a stream that the log still holds; 1 if it holds none."""
        return int((await self.pool.fetch("first_version", {"stream": stream}))[0][0])

    async def tail(
        self, *, after_position: int = 0, batch: int = 1000, poll: float = 0.25, follow: bool = True
    ) -> AsyncGenerator[RecordedEvent, None]:
        """All events after a position in global order, each once, none skipped; then those to come.

        An event shows up when every transaction with a lower number has ended. Polls (a NOTIFY a commit would more
        than halve what the server commits): at once after a full page, then ever more rarely, up to every `poll`
        seconds. A lost connection is made again.

        Args:
            follow: False ends the iteration when all that was committed at the call has been read.
        """
        until = _LARGEST if follow else await self.settle(30.0)
        delay = _SHORTEST_POLL
        while True:
            bounds = {"after": after_position, "until": until, "limit": batch, "bytes": PAGE_BYTES}
            page = await self.pool.fetch("tail", bounds)
            for row in page:
                after_position = row[2]
                yield recorded_event(row)
            if is_full(page, batch):
                continue
            if not follow:
                return
            delay = _SHORTEST_POLL if page else min(2 * delay, poll)
            await asyncio.sleep(delay)

    async def messages(self, filter: MessageFilter) -> list[RecordedEvent]:
        """One page of the audit log; the position of its last event is the cursor of the next.

        Raises:
            InvalidPoint: a time without a zone.
        """
        check_times(filter.since, filter.until)
        order = "newest" if filter.newest_first else "oldest"
        if filter.stream is not None:
            parameters = _conditions(filter) | await self._versions(filter.stream, filter)
            rows = await self.pool.fetch(f"stream_messages_{order}", parameters, prepare=False)
        else:
            rows = await self.pool.fetch(f"messages_{order}", _conditions(filter), prepare=False)
        return [recorded_event(row) for row in rows]

    async def place(self, event_id: UUID) -> tuple[str, int, int] | None:
        """Stream, version and position of an event; None: the log has none of this id."""
        rows = await self.pool.fetch("event_place", {"id": event_id})
        return (rows[0][0], rows[0][1], rows[0][2]) if rows else None

    async def progress(self, causes: Sequence[UUID]) -> list[Progress]:
        """The deliveries that messages have led to so far, abandoned branches included; none for a message: none yet."""
        rows = await self.pool.fetch("delivery_progress", {"causes": list(causes)})
        return [Progress(*row) for row in rows]

    async def _versions(self, stream: str, filter: MessageFilter) -> dict[str, Any]:
        """The filter's bounds in time and position as bounds in version: after_version < version <= until_version."""
        rows = await self.pool.fetch(
            "version_bounds",
            {
                "stream": stream,
                "since": filter.since,
                "until": filter.until,
                "cursor": filter.after,
                "newest_first": filter.newest_first,
            },
            prepare=False,
        )
        return {"stream": stream, "after_version": rows[0][0], "until_version": rows[0][1]}


def _conditions(filter: MessageFilter) -> dict[str, Any]:
    start = _LARGEST if filter.newest_first else 0
    return {
        "first_stream": None if filter.agent_type is None else f"{filter.agent_type}/",
        "last_stream": None if filter.agent_type is None else f"{filter.agent_type}0",
        "event_types": None if filter.event_types is None else [kind.value for kind in filter.event_types],
        "message_type": filter.message_type,
        "sender": filter.sender,
        "recipient": filter.recipient,
        "topic": filter.topic,
        "since": filter.since,
        "until": filter.until,
        "outcome": None if filter.outcome is None else filter.outcome.value,
        "correlation": filter.correlation,
        "cause": filter.cause,
        "delivery": filter.delivery,
        "after": start if filter.after is None else filter.after,
        "limit": filter.limit,
    }
