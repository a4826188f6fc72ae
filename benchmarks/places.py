"""A schema of a benchmark's own, and what the benchmark asks of the server beside the log."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from autogen_eventlog import EventLog
from autogen_eventlog.postgres.session import connect

Connection = psycopg.AsyncConnection[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a benchmark keeps its log."""

    dsn: str
    schema: str

    def recreate(self) -> None:
        """Drop what a run before left."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(self.schema)))

    @asynccontextmanager
    async def log(self) -> AsyncGenerator[EventLog]:
        async with EventLog.open(self.dsn, schema=self.schema) as log:
            yield log

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Connection]:
        """One with the settings of the log's own connections."""
        connection = await connect(self.dsn, self.schema)
        try:
            yield connection
        finally:
            await connection.close()


def fresh(dsn: str, name: str) -> Place:
    """An empty place for one benchmark."""
    place = Place(dsn, f"eventlog_benchmark_{name}")
    place.recreate()
    return place


async def value(connection: Connection, statement: str, *parameters: Any) -> Any:
    """The one value of one row."""
    row = await (await connection.execute(statement.encode(), parameters or None)).fetchone()
    assert row is not None
    return row[0]
