"""What the tests of the store share: events, a stream to append to, a look behind the scenes, waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timezone
from typing import Any, TypeVar
from uuid import uuid4

import psycopg

from autogen_eventlog.events import EventData, EventType, RecordedEvent
from autogen_eventlog.postgres.ownership import Ownership
from autogen_eventlog.postgres.reader import Reader
from autogen_eventlog.postgres.session import connect
from autogen_eventlog.postgres.ticket import Ticket
from autogen_eventlog.postgres.writer import Writer

SCHEMA = "eventlog"
T = TypeVar("T")


def an_event(number: int = 1, type: EventType = EventType.MESSAGE_DELIVERED, **fields: Any) -> EventData:
    return EventData(id=uuid4(), type=type, occurred_at=datetime.now(timezone.utc), delivery=number, **fields)


def events(count: int) -> list[EventData]:
    return [an_event(number + 1) for number in range(count)]


class Store:
    """Everything of one log, open."""

    def __init__(self, dsn: str, writer: Writer, reader: Reader, ownership: Ownership) -> None:
        self.dsn = dsn
        self.writer = writer
        self.reader = reader
        self.ownership = ownership

    async def stored(self, stream: str) -> list[RecordedEvent]:
        return [event async for event in self.reader.read(stream)]

    async def fetch(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        return await fetch(self.dsn, statement, *parameters)

    async def claimed(self, stream: str) -> Producer:
        claim = await self.ownership.claim(stream)
        return Producer(self.writer, stream, claim.epoch, claim.version)


class Producer:
    """Appends one event after the other, without waiting, as a runtime does."""

    def __init__(self, writer: Writer, stream: str, epoch: int, version: int = 0) -> None:
        self._writer = writer
        self.stream = stream
        self.epoch = epoch
        self.version = version
        self.submitted: list[EventData] = []

    def submit(self, *proposed: EventData) -> Ticket:
        chosen: Sequence[EventData] = proposed or [an_event(self.version + 1)]
        ticket = self._writer.submit(self.stream, self.epoch, self.version, chosen)
        self.version += len(chosen)
        self.submitted += chosen
        return ticket


@asynccontextmanager
async def open_store(
    dsn: str, *, unavailable_after: float = 30.0, ensure_server: Callable[[], None] | None = None, **options: Any
) -> AsyncGenerator[Store, None]:
    common: dict[str, Any] = {"unavailable_after": unavailable_after, "ensure_server": ensure_server}
    async with (
        Ownership(dsn, SCHEMA, **common) as ownership,
        Reader(dsn, SCHEMA, **common) as reader,
        Writer(dsn, SCHEMA, **common, **options) as writer,
    ):
        yield Store(dsn, writer, reader, ownership)


async def fetch(dsn: str, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
    connection = await connect(dsn, SCHEMA)
    try:
        cursor = await connection.execute(statement.encode(), parameters or None)
        return await cursor.fetchall() if cursor.description else []
    finally:
        await connection.close()


@asynccontextmanager
async def holding_the_head(dsn: str, stream: str) -> AsyncGenerator[psycopg.AsyncConnection[Any], None]:
    """Locks a stream's row, so that an append to it must wait until the end of the block."""
    connection = await connect(dsn, SCHEMA)
    try:
        await connection.execute(b"BEGIN")
        await connection.execute(b"SELECT 1 FROM stream WHERE id = %s FOR UPDATE", (stream,))
        yield connection
        await connection.execute(b"COMMIT")
    finally:
        await connection.close()


APPENDING = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND query LIKE '%%FROM append%%(%%' AND pid <> pg_backend_pid()
"""


async def a_waiting_append(dsn: str) -> list[int]:
    """The backends whose append waits for a lock, once there is one."""

    async def waiting() -> list[int]:
        return [row[0] for row in await fetch(dsn, APPENDING + " AND wait_event_type = 'Lock' AND state = 'active'")]

    return await eventually(waiting, "an append waits for a lock")


async def eventually(condition: Callable[[], Awaitable[T]], what: str, *, timeout: float = 20.0) -> T:
    """Asks until the answer is true."""
    ends = asyncio.get_running_loop().time() + timeout
    while True:
        value = await condition()
        if value:
            return value
        if asyncio.get_running_loop().time() > ends:
            raise TimeoutError(f"waited {timeout:g} s until {what}; still {value!r}")
        await asyncio.sleep(0.005)


async def kill_backends(dsn: str, condition: str) -> int:
    """pg_terminate_backend; how many."""
    rows = await fetch(
        dsn,
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        f"WHERE datname = current_database() AND pid <> pg_backend_pid() AND {condition}",
    )
    return len(rows)


def check_whole(stored: Sequence[RecordedEvent], submitted: Sequence[EventData]) -> None:
    """Exactly one row each, gapless, in the order of submission, positions and times growing."""
    assert [event.id for event in stored] == [event.id for event in submitted]
    assert [event.version for event in stored] == list(range(1, len(stored) + 1))
    positions = [event.position for event in stored]
    assert positions == sorted(set(positions))
    times = [event.recorded_at for event in stored]
    assert times == sorted(times)
