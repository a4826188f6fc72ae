"""The log's partitions by month: which there are, what is in them, and their removal."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime
from typing import cast

import psycopg
from psycopg import sql
from typing_extensions import LiteralString

from autogen_eventlog.errors import PayloadCorrupt, RetentionRefused
from autogen_eventlog.events import RecordedEvent
from autogen_eventlog.postgres.large import is_lost
from autogen_eventlog.postgres.pool import Connection, Pool, fetch
from autogen_eventlog.postgres.records import PAGE_BYTES, is_full, recorded_event
from autogen_eventlog.postgres.sql import query

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Partition:
    """A month of events."""

    name: str
    starts: datetime
    ends: datetime
    """Excluded."""
    bytes: int
    """On disk, with indexes and the large payloads of that month."""

    @property
    def payloads(self) -> str:
        """The table of the large payloads that its events refer to."""
        return f"large_payload_{self.name[len('event_') :]}"


@dataclass(frozen=True, slots=True)
class Sums:
    """What lies in a partition."""

    events: int
    streams: int
    first_position: int
    last_position: int


@dataclass(frozen=True, slots=True)
class HeldStream:
    """A stream that has events in a partition."""

    stream: str
    first: int
    last: int
    """Its last version there."""
    snapshot: int | None
    """The oldest proven snapshot at or after that version."""
    waiting: int | None
    """Its first version there that is a message which was accepted, for somebody, and has not reached everybody."""


@dataclass(frozen=True, slots=True)
class DroppedPartition:
    """A partition that retention has removed."""

    name: str
    starts: datetime
    ends: datetime
    events: int
    first_position: int
    last_position: int
    archive: str | None
    dropped_at: datetime
    dropped_by: str


class Partitions:
    """Partitions in the database; uses a reader's pool. Raises what `Pool.fetch` raises."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def before(self, before: datetime) -> list[Partition]:
        """Those that end at or before a zone-aware time, oldest first."""
        return [Partition(*row) for row in await self._pool.fetch("partitions", {"before": before}, prepare=False)]

    async def sums(self, partition: Partition) -> Sums:
        """What lies in one."""
        rows = await self._pool.fetch("partition_sums", _span(partition), prepare=False)
        return Sums(*rows[0])

    async def streams(self, partition: Partition) -> AsyncGenerator[HeldStream, None]:
        """The streams that have events in one, by id."""
        after = ""
        while True:
            parameters = {**_span(partition), "after": after, "limit": _PAGE}
            rows = await self._pool.fetch("partition_streams", parameters, prepare=False)
            for row in rows:
                yield HeldStream(*row)
            if len(rows) < _PAGE:
                return
            after = rows[-1][0]

    async def events(self, partition: Partition) -> AsyncGenerator[RecordedEvent, None]:
        """All events in one, in global order.

        Raises:
            PayloadCorrupt: The large payload of one is gone, or is another: in an archive it would be taken for its content.
        """
        after = 0
        while True:
            parameters = {**_span(partition), "after": after, "limit": _PAGE, "bytes": PAGE_BYTES}
            rows = await self._pool.fetch("partition_events", parameters, prepare=False)
            for row in rows:
                yield _whole(recorded_event(row))
            if not is_full(rows, _PAGE):
                return
            after = rows[-1][2]

    async def branched_streams(self) -> list[str]:
        """Streams that were restored or forked."""
        return [row[0] for row in await self._pool.fetch("streams_restored")]

    async def dropped(self) -> list[DroppedPartition]:
        """What was removed, oldest first."""
        return [DroppedPartition(*row) for row in await self._pool.fetch("dropped_partitions")]

    async def drop(self, partition: Partition, sums: Sums, archive: str | None) -> None:
        """Remove one and write that down, in one transaction.

        Args:
            sums: What it is known to hold: nothing is removed if it holds anything else by then.

        Raises:
            RetentionRefused: It does, somebody uses it, or the role may not.
        """
        await self._pool.run(lambda connection: _drop(connection, partition, sums, archive))


async def _drop(connection: Connection, partition: Partition, sums: Sums, archive: str | None) -> None:
    try:
        async with connection.transaction():
            await connection.execute(b"SET LOCAL lock_timeout = '5s'")
            await connection.execute(_statement("detach_partition", partition=partition.name))
            await _check(connection, partition, sums)
            await connection.execute(_statement("drop_partition", partition=partition.name))
            await connection.execute(_statement("drop_large_payloads", payloads=partition.payloads))
            await fetch(
                connection,
                "record_dropped_partition",
                {
                    "name": partition.name,
                    "starts": partition.starts,
                    "ends": partition.ends,
                    "events": sums.events,
                    "first_position": sums.first_position,
                    "last_position": sums.last_position,
                    "archive": archive,
                },
            )
    except psycopg.errors.LockNotAvailable:
        raise RetentionRefused(
            partition.name, "it was in use for 5 s", "Try again, or end the transaction that uses it"
        ) from None
    except psycopg.errors.InsufficientPrivilege as error:
        remedy = "Do it as the role that owns the schema"
        raise RetentionRefused(partition.name, str(error).strip(), remedy) from None


def _statement(name: str, **tables: str) -> sql.Composed:
    statement = sql.SQL(cast(LiteralString, query(name).decode()))
    return statement.format(**{placeholder: sql.Identifier(table) for placeholder, table in tables.items()})


async def _check(connection: Connection, partition: Partition, sums: Sums) -> None:
    """Out of the log, nothing can be added to it any more."""
    statement = sql.SQL("SELECT count(*), coalesce(max(position), 0) FROM {}").format(sql.Identifier(partition.name))
    row = await (await connection.execute(statement)).fetchone()
    if row is None or (row[0], row[1]) != (sums.events, sums.last_position):
        raise RetentionRefused(partition.name, "events were added meanwhile", "Look again: plan anew")


def _whole(event: RecordedEvent) -> RecordedEvent:
    if is_lost(event.payload):
        where = f"stream {event.stream!r}, version {event.version}"
        raise PayloadCorrupt(where, "the large payload that it refers to is gone, or is not what its hash says")
    return event


def _span(partition: Partition) -> dict[str, datetime]:
    return {"starts": partition.starts, "ends": partition.ends}
