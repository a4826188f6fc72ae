"""The log's partitions by month: which there are, what is in them, and their removal."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final, cast

import psycopg
from psycopg import sql
from typing_extensions import LiteralString

from autogen_eventlog.errors import RetentionRefused
from autogen_eventlog.events import RecordedEvent
from autogen_eventlog.postgres.pool import Connection, Pool, fetch
from autogen_eventlog.postgres.records import PAGE_BYTES, is_full, recorded_event, whole
from autogen_eventlog.postgres.session import Patience, connect, patiently
from autogen_eventlog.postgres.sql import query

_PAGE: Final = 1000
_PATIENCE: Final = 30.0
"""Seconds to try for a connection."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A month of events."""

    name: str
    starts: datetime
    ends: datetime
    """Excluded."""
    bytes: int
    """On disk, with indexes and the large payloads of that month."""


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
class Support:
    """Once a month is gone, a stream needs a proven snapshot at a version between these, both included."""

    stream: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Ground:
    """What the plan to remove a partition stands on."""

    sums: Sums
    branches: int
    """How many restores and forks lay outside of it when the plan began."""
    supports: tuple[Support, ...]


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
                yield whole(recorded_event(row))
            if not is_full(rows, _PAGE):
                return
            after = rows[-1][2]

    async def branched_streams(self) -> list[str]:
        """Streams that were restored or forked."""
        return [row[0] for row in await self._pool.fetch("streams_restored")]

    async def dropped(self) -> list[DroppedPartition]:
        """What was removed, oldest first."""
        return [DroppedPartition(*row) for row in await self._pool.fetch("dropped_partitions")]

    async def branches(self, partition: Partition) -> int:
        """How many restores and forks the log holds outside of one."""
        return (await self._pool.fetch("partition_branches", _span(partition), prepare=False))[0][0]

    async def drop(self, partition: Partition, ground: Ground, archive: str | None) -> bool:
        """Remove one and write that down, in one transaction; its large payloads stay (`left_payloads`).

        The partition is out of the log first, and appends wait; so what the plan stands on is looked at when nothing can
        change it any more. That takes a count of the month and a look for a snapshot of each of its streams.

        Returns:
            Whether it was removed. If not, an agent was restored or forked, or a snapshot went, since the plan began.

        Raises:
            RetentionRefused: It holds other events than planned, somebody uses it or has removed it, or the role may not.
        """
        return await self._pool.run(lambda connection: _drop(connection, partition, ground, archive))

    async def left_payloads(self) -> list[str]:
        """The partitions of large payloads whose month of events was removed, oldest first."""
        return [row[0] for row in await self._pool.fetch("left_payloads")]

    async def drop_payloads(self, name: str) -> None:
        """Remove one of those.

        Not in the transaction that removes the events: readers lock events before payloads and appends payloads before
        events, so whoever waits for one while it holds the other would come to a deadlock with some of them.

        Raises:
            RetentionRefused: Somebody uses it, or the role may not.
        """
        await self._pool.run(lambda connection: _drop_payloads(connection, name))


@asynccontextmanager
async def alone(conninfo: str, schema: str, partition: str) -> AsyncGenerator[None]:
    """Keeps every other retention of the log away, until it ends or the process does.

    Args:
        partition: The one to name where another is under way.

    Raises:
        RetentionRefused: One is.
        DatabaseUnavailable: No connection within the bound.
    """
    connection = await patiently(Patience(conninfo, _PATIENCE), lambda: connect(conninfo, schema))
    try:
        [(held,)] = await fetch(connection, "lock_retention", {"schema": schema})
        if not held:
            raise RetentionRefused(partition, "another retention of this log is under way", "Wait until it has ended")
        yield
    finally:
        await connection.close()


async def _drop(connection: Connection, partition: Partition, ground: Ground, archive: str | None) -> bool:
    removed = False
    with _refusing(partition.name):
        async with connection.transaction():
            await connection.execute(query("removal"))
            await connection.execute(query("lock_snapshots"))
            await connection.execute(_statement("detach_partition", partition=partition.name))
            await _check(connection, partition, ground.sums)
            if not await _stands(connection, partition, ground):
                raise psycopg.Rollback
            await connection.execute(_statement("drop_partition", partition=partition.name))
            await _record(connection, partition, ground.sums, archive)
            removed = True
    return removed


async def _record(connection: Connection, partition: Partition, sums: Sums, archive: str | None) -> None:
    parameters = {
        "name": partition.name,
        "starts": partition.starts,
        "ends": partition.ends,
        "events": sums.events,
        "first_position": sums.first_position,
        "last_position": sums.last_position,
        "archive": archive,
    }
    await fetch(connection, "record_dropped_partition", parameters)


async def _drop_payloads(connection: Connection, payloads: str) -> None:
    with _refusing(payloads):
        async with connection.transaction():
            await connection.execute(query("removal"))
            await connection.execute(_statement("drop_large_payloads", payloads=payloads))


@contextmanager
def _refusing(name: str) -> Generator[None]:
    """What the database says of the removal of a table, as `RetentionRefused`. A deadlock is tried again by the pool."""
    try:
        yield
    except psycopg.errors.LockNotAvailable:
        remedy = "Try again, or end the transaction that uses it"
        raise RetentionRefused(name, "it was in use for 5 s", remedy) from None
    except psycopg.errors.InsufficientPrivilege as error:
        remedy = "Do it as the role that owns the schema"
        raise RetentionRefused(name, str(error).strip(), remedy) from None
    except psycopg.errors.UndefinedTable:
        remedy = "See what retention has removed, and when: Retention(log).dropped()"
        raise RetentionRefused(name, "it is not in the log any more: it was removed meanwhile", remedy) from None


def _statement(name: str, **tables: str) -> sql.Composed:
    statement = sql.SQL(cast(LiteralString, query(name).decode()))
    return statement.format(**{placeholder: sql.Identifier(table) for placeholder, table in tables.items()})


async def _check(connection: Connection, partition: Partition, sums: Sums) -> None:
    """Out of the log, nothing can be added to it any more."""
    cursor = await connection.execute(_statement("partition_count", partition=partition.name))
    if await cursor.fetchone() != (sums.events, sums.last_position):
        raise RetentionRefused(partition.name, "events were added meanwhile", "Look again: plan anew")


async def _stands(connection: Connection, partition: Partition, ground: Ground) -> bool:
    """Whether what could make the month needed again is as it was. What waits for delivery only ever becomes less."""
    [(branches,)] = await fetch(connection, "partition_branches", _span(partition), prepare=False)
    supports = {
        "streams": [one.stream for one in ground.supports],
        "firsts": [one.first for one in ground.supports],
        "lasts": [one.last for one in ground.supports],
    }
    return branches == ground.branches and not await fetch(connection, "partition_unsupported", supports, prepare=False)


def _span(partition: Partition) -> dict[str, datetime]:
    return {"starts": partition.starts, "ends": partition.ends}
