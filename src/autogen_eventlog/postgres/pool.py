"""Connections for reading: borrowed for one statement, which is tried again when the connection turns out dead."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from autogen_eventlog.errors import EventLogError, LogClosed
from autogen_eventlog.postgres.session import (
    EnsureServer,
    Patience,
    configure,
    is_transient,
    keep_alive,
    schema_error,
)
from autogen_eventlog.postgres.sql import query

Row = tuple[Any, ...]


class Pool:
    """Runs statements that may be repeated: reads, and writes that do no more when done twice."""

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
        self._pool: AsyncConnectionPool[psycopg.AsyncConnection[Row]] = AsyncConnectionPool(
            conninfo,
            kwargs={"autocommit": True, **keep_alive(conninfo)},
            min_size=0,
            max_size=max_size,
            timeout=1.0,
            open=False,
            configure=self._configure,
            name="eventlog-reader",
        )

    async def open(self) -> None:
        """Starts the pool; connections are made when needed."""
        await self._pool.open()

    async def close(self) -> None:
        """Closes every connection. Idempotent."""
        await self._pool.close()

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
        patience = Patience(self._conninfo, self._unavailable_after, self._ensure_server)
        while True:
            try:
                async with self._pool.connection() as connection, connection.cursor(binary=True) as cursor:
                    await cursor.execute(query(name), parameters, prepare=prepare)
                    return await cursor.fetchall() if cursor.description else []
            except PoolClosed as error:
                raise LogClosed("reader") from error
            except (psycopg.Error, OSError) as error:
                failure: EventLogError | None = schema_error(error, self._schema)
                if failure is not None:
                    raise failure from error
                if not is_transient(error) and not isinstance(error, PoolTimeout):
                    raise
                await patience.pause(error)

    async def _configure(self, connection: psycopg.AsyncConnection[Row]) -> None:
        await configure(connection, self._schema)
