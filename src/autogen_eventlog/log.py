"""The event log: one object that opens the store and gives every way to read it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from autogen_core import AgentId

from autogen_eventlog.audit import Audit
from autogen_eventlog.codec import Codec, TypeRegistry
from autogen_eventlog.errors import CodeComparison, FieldDifference, LogClosed
from autogen_eventlog.events import RecordedEvent
from autogen_eventlog.points import Point, point
from autogen_eventlog.postgres.embedded import EmbeddedServer, open_embedded
from autogen_eventlog.postgres.ownership import Ownership
from autogen_eventlog.postgres.reader import Reader
from autogen_eventlog.postgres.records import GoneWorker, StreamHead, WorkerRecord
from autogen_eventlog.postgres.schema import prepare
from autogen_eventlog.postgres.session import DSN_VARIABLE, EnsureServer, check_conninfo
from autogen_eventlog.postgres.snapshots import Snapshots
from autogen_eventlog.postgres.states import States
from autogen_eventlog.postgres.subscriptions import Subscriptions
from autogen_eventlog.postgres.writer import Writer, WriterStatistics


class EventLog:
    """An open log. Make one with `EventLog.open`; close it by leaving the `async with`.

    Reading needs no ownership and takes none; what writes (a runtime) opens the writing side when it first needs it.
    """

    def __init__(
        self,
        dsn: str,
        schema: str,
        *,
        lease: float,
        unavailable_after: float,
        max_pending_bytes: int,
        ensure_server: EnsureServer | None,
    ) -> None:
        self.dsn = dsn
        """Connects another process to the same log: `EventLog.open(dsn)`, `eventlog --dsn`, `$EVENTLOG_DSN`."""
        self.schema = schema
        self.types = TypeRegistry()
        """The classes that stored data may become (G10). Agents' message types are registered by themselves."""
        # In our own errors, which one agent raises and another records.
        self.types.register(FieldDifference, CodeComparison)
        self.codec = Codec(self.types)
        store: dict[str, Any] = {"unavailable_after": unavailable_after, "ensure_server": ensure_server}
        self.reader = Reader(dsn, schema, **store)
        self.snapshots = Snapshots(self.reader.pool)
        self.subscriptions = Subscriptions(self.reader.pool)
        self.audit = Audit(self.reader.pool, self.codec)
        """Questions to the log: messages, deliveries in flight, what was sent and reached nobody."""
        self.states = States(dsn, schema, **store)
        """What the state service keeps; see `autogen_eventlog.distributed`."""
        self._writer = Writer(dsn, schema, max_pending_bytes=max_pending_bytes, **store)
        self._ownership = Ownership(dsn, schema, lease=lease, **store)
        self._closed = False
        self._opening = asyncio.Lock()
        self._writes = asyncio.Event()
        self._stack = AsyncExitStack()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        dsn: str | None = None,
        *,
        data_dir: str | Path | None = None,
        schema: str = "eventlog",
        lease: float = 10.0,
        unavailable_after: float = 30.0,
        max_pending_bytes: int = 64 * 1024 * 1024,
    ) -> AsyncGenerator[EventLog]:
        """Open the log, making or migrating its schema where needed.

        Args:
            dsn: A Postgres 14 to 18 of yours, as libpq takes it (`postgresql://…` or `host=… dbname=…`, TLS and all
                other settings included). Default: `$EVENTLOG_DSN`; without it, an embedded Postgres.
            data_dir: Where the embedded Postgres keeps its data, made if missing. Processes that name the same
                directory share one server. Default: a directory of the user's.
            schema: Schema in the database; several logs can live in one database.
            lease: Seconds without a heartbeat after which another process may take this one's agents.
            unavailable_after: Seconds to wait for a database that does not answer before failing.
            max_pending_bytes: Bound of events in memory that are not committed yet; deliveries wait above it.

        Raises:
            ValueError: The dsn is none that libpq takes, or a number is out of its range.
            EmbeddedPostgresError: The embedded server can't be had; the message says what to do.
            DatabaseUnavailable: No connection within `unavailable_after`.
            DatabaseRefused: The server lets nobody in with this dsn; it is not tried again.
            SchemaError: The schema is newer than this package, or the role may not make it.
        """
        async with AsyncExitStack() as stack:
            ensure_server: EnsureServer | None = None
            if data_dir is not None and not str(data_dir):
                raise ValueError("data_dir is empty: name a directory, or leave it out for the user's own")
            dsn = dsn or (None if data_dir is not None else os.environ.get(DSN_VARIABLE))
            if dsn is None:
                server = await _embedded(data_dir)
                stack.push_async_callback(asyncio.to_thread, server.close)
                dsn, ensure_server = server.dsn, server.ensure_running
            check_conninfo(dsn)
            await prepare(dsn, schema, unavailable_after=unavailable_after, ensure_server=ensure_server)
            log = cls(
                dsn,
                schema,
                lease=lease,
                unavailable_after=unavailable_after,
                max_pending_bytes=max_pending_bytes,
                ensure_server=ensure_server,
            )
            await stack.enter_async_context(log._opened())
            yield log

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[None]:
        async with self._stack:
            await self._stack.enter_async_context(self.reader)
            await self._stack.enter_async_context(self.states)
            try:
                yield
            finally:
                self._closed = True

    # -- types ----------------------------------------------------------------------------------------------------

    def register_types(self, *types: type) -> None:
        """Allow stored data to become these classes, and those that their fields name (G10)."""
        self.types.register(*types)

    def message(self, event: RecordedEvent) -> object:
        """The message, reply or state in an event; an `Opaque` in place of what is not registered here."""
        if event.payload is None:
            return None
        where = f"stream {event.stream!r}, version {event.version}"
        return self.codec.decode(event.payload, where=where, opaque=True)

    # -- reading --------------------------------------------------------------------------------------------------

    async def read(
        self,
        agent: AgentId | str,
        *,
        after_version: int = 0,
        until_version: int | None = None,
        until_position: int | None = None,
        backwards: bool = False,
    ) -> AsyncIterator[RecordedEvent]:
        """The events of an agent's stream with after_version < version <= until_version, in order, all branches."""
        async for event in self.reader.read(
            str(agent),
            after_version=after_version,
            until_version=until_version,
            until_position=until_position,
            backwards=backwards,
        ):
            yield event

    async def tail(self, *, after_position: int = 0, follow: bool = True) -> AsyncIterator[RecordedEvent]:
        """All events in global order, none skipped; with `follow`, those to come as well.

        Args:
            after_position: The position of the last event that you have (0: from the beginning).
        """
        async for event in self.reader.tail(after_position=after_position, follow=follow):
            yield event

    async def head(self, agent: AgentId | str) -> StreamHead | None:
        """Where an agent's stream stands; None if the log does not know the agent."""
        return await self.reader.head(str(agent))

    async def agents(self, *, type: str | None = None, after: str | None = None, limit: int = 1000) -> list[StreamHead]:
        """A page of the agents that the log knows, in order of id; `after` is the last id of the page before."""
        return await self.reader.heads(type=type, after=after, limit=limit)

    async def workers(self) -> list[WorkerRecord]:
        """The processes that opened the log for writing."""
        await self.start_writing()
        return await self._ownership.workers()

    async def unsettled_workers(self) -> list[GoneWorker]:
        """Workers that are gone and may have left something behind, oldest first.

        Raises:
            DatabaseUnavailable: The database did not answer within the bound.
        """
        return [GoneWorker(*row) for row in await self.reader.pool.fetch("unsettled_workers")]

    async def version_at(
        self,
        agent: AgentId | str,
        *,
        at: datetime | None = None,
        version: int | None = None,
        position: int | None = None,
    ) -> int:
        """The version that a point in time, a version or a position means for an agent; see `points`."""
        return await self.resolve(str(agent), point(at=at, version=version, position=position))

    async def resolve(self, stream: str, where: Point) -> int:
        """The version of `stream` at a point.

        Raises:
            InvalidPoint: The point can't be (a time in the future, a version past the end).
            UnknownStream: The log holds no event of the agent at the point.
        """
        return await where.version_in(self.reader, stream)

    # -- writing --------------------------------------------------------------------------------------------------

    async def start_writing(self) -> None:
        """Open the writing side: registers this process as a worker. Idempotent."""
        async with self._opening:
            if self._closed:
                raise LogClosed("start_writing")
            if not self._writes.is_set():
                await self._stack.enter_async_context(self._ownership)
                await self._stack.enter_async_context(self._writer)
                self._writes.set()

    @property
    def writes(self) -> bool:
        """Whether the writing side is open."""
        return self._writes.is_set()

    async def writing(self) -> None:
        """Return once the writing side is open."""
        await self._writes.wait()

    @property
    def writer(self) -> Writer:
        """The group-commit writer."""
        return self._writer

    @property
    def ownership(self) -> Ownership:
        """This process as a worker."""
        return self._ownership

    def statistics(self) -> WriterStatistics:
        """Counts of the writing side, now."""
        return self._writer.statistics()


async def _embedded(data_dir: str | Path | None) -> EmbeddedServer:
    return await asyncio.to_thread(open_embedded, None if data_dir is None else Path(data_dir))
