"""Connections for reading: borrowed for one statement, which is tried again when the connection turns out dead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, TypeVar

import psycopg

from autogen_eventlog.errors import LogClosed
from autogen_eventlog.postgres.session import EnsureServer, Patience, connect, is_transient, schema_error
from autogen_eventlog.postgres.sql import query

T = TypeVar("T")
Row = tuple[Any, ...]
Connection = psycopg.AsyncConnection[Row]


class Pool:
    """Runs statements that may be repeated: reads, and writes that do no more when done twice.

    Not psycopg's pool: that one reconnects in the background on a schedule of its own (minutes apart after a while),
    where we want to try now, within our bound, and after the embedded server was started again.
    """

    def __init__(
        self,
        conninfo: str,
        schema: str,
        *,
        max_size: int = 4,
        unavailable_after: float = 30.0,
        ensure_server: EnsureServer | None = None,
    ) -> None:
        self._conninfo = conninfo
        self._schema = schema
        self._unavailable_after = unavailable_after
        self._ensure_server = ensure_server
        self._slots = asyncio.Semaphore(max_size)
        self._idle: list[Connection] = []
        self._open = False

    async def open(self) -> None:
        """Connections are made when needed, at most `max_size` at once."""
        self._open = True

    async def close(self) -> None:
        """Closes every connection; a running statement's when it ends. Idempotent."""
        self._open = False
        await self._drop_idle()

    async def __aenter__(self) -> Pool:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def fetch(
        self, name: str, parameters: Mapping[str, Any] | None = None, *, prepare: bool | None = None
    ) -> list[Row]:
        """The rows of `sql/queries/<name>.sql`.

        Args:
            prepare: False gives each call a plan of its own, for statements whose NULL parameters switch filters off.

        Raises:
            DatabaseUnavailable: no answer within the bound.
            SchemaError: the schema isn't there, or is closed to this role.
            LogClosed: the pool is closed.
        """
        return await self.run(lambda connection: fetch(connection, name, parameters, prepare=prepare))

    async def run(self, attempt: Callable[[Connection], Awaitable[T]]) -> T:
        """What `attempt` gives; it is made again, on a new connection, when the one it had turns out dead.

        Raises:
            DatabaseUnavailable: no attempt came through within the bound.
            SchemaError: the schema isn't there, or is closed to this role.
            LogClosed: the pool is closed.
        """
        patience = Patience(self._conninfo, self._unavailable_after, self._ensure_server)
        async with self._slots:
            while True:
                if not self._open:
                    raise LogClosed("reader")
                try:
                    return await self._once(attempt)
                except (psycopg.Error, OSError) as error:
                    failure = schema_error(error, self._schema)
                    if failure is not None:
                        raise failure from error
                    if not is_transient(error):
                        raise
                    await self._drop_idle()  # they have died of the same cause
                    await patience.pause(error)

    async def _once(self, attempt: Callable[[Connection], Awaitable[T]]) -> T:
        connection = self._idle.pop() if self._idle else await connect(self._conninfo, self._schema)
        healthy = False
        try:
            result = await attempt(connection)
            healthy = True
        finally:
            if healthy and self._open:
                self._idle.append(connection)
            else:
                await connection.close()
        return result

    async def _drop_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()


async def fetch(
    connection: Connection, name: str, parameters: Mapping[str, Any] | None = None, *, prepare: bool | None = None
) -> list[Row]:
    """The rows of `sql/queries/<name>.sql` on a connection."""
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(query(name), parameters, prepare=prepare)
        return await cursor.fetchall() if cursor.description else []
