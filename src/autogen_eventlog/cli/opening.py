"""A log opened for reading only: nothing is created, migrated or registered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import typer

from autogen_eventlog.audit import Audit
from autogen_eventlog.checking.read_only import ReadOnlyLog
from autogen_eventlog.cli.settings import Settings
from autogen_eventlog.codec import Codec
from autogen_eventlog.errors import SchemaError
from autogen_eventlog.log import EventLog
from autogen_eventlog.postgres.embedded import open_embedded
from autogen_eventlog.postgres.embedded.home import locate
from autogen_eventlog.postgres.reader import Reader
from autogen_eventlog.postgres.session import EnsureServer, Patience, connect, patiently, server_of
from autogen_eventlog.postgres.sql import query

UNAVAILABLE_AFTER = 5.0
"""Seconds to wait for a database: a person is waiting."""


@dataclass(frozen=True, slots=True)
class ReadLog:
    """What the reading commands need."""

    reader: Reader
    audit: Audit


@asynccontextmanager
async def reading(settings: Settings) -> AsyncGenerator[ReadLog]:
    """The log that the settings name.

    Raises:
        EmbeddedPostgresError: There is no embedded log in the directory, or its server can't be had.
        DatabaseUnavailable: No connection within `UNAVAILABLE_AFTER`.
        SchemaError: There is no log in the schema.
        typer.BadParameter: The DSN can't be read.
    """
    async with AsyncExitStack() as stack:
        dsn, ensure_server = settings.dsn, None
        if dsn is None:
            server = await asyncio.to_thread(open_embedded, existing(settings.data_dir))
            stack.push_async_callback(asyncio.to_thread, server.close)
            dsn, ensure_server = server.dsn, server.ensure_running
        check_dsn(dsn)
        await _check_schema(dsn, settings.schema, ensure_server)
        reader = Reader(dsn, settings.schema, unavailable_after=UNAVAILABLE_AFTER, ensure_server=ensure_server)
        await stack.enter_async_context(reader)
        yield ReadLog(reader, Audit(reader.pool, Codec()))


@asynccontextmanager
async def looking(settings: Settings) -> AsyncGenerator[ReadOnlyLog]:
    """The log that the settings name, for a runtime that only looks at it.

    Raises:
        As `reading`.
    """
    async with AsyncExitStack() as stack:
        dsn, ensure_server = settings.dsn, None
        if dsn is None:
            server = await asyncio.to_thread(open_embedded, existing(settings.data_dir))
            stack.push_async_callback(asyncio.to_thread, server.close)
            dsn, ensure_server = server.dsn, server.ensure_running
        check_dsn(dsn)
        await _check_schema(dsn, settings.schema, ensure_server)
        opened = ReadOnlyLog.over(
            dsn, schema=settings.schema, unavailable_after=UNAVAILABLE_AFTER, ensure_server=ensure_server
        )
        yield await stack.enter_async_context(opened)


@asynccontextmanager
async def acting(settings: Settings) -> AsyncGenerator[EventLog]:
    """The log that the settings name, to be written into.

    Raises:
        As `reading`.
    """
    dsn, data_dir = settings.dsn, None
    if dsn is None:
        data_dir = existing(settings.data_dir)
    else:
        check_dsn(dsn)
    opened = EventLog.open(dsn, data_dir=data_dir, schema=settings.schema, unavailable_after=UNAVAILABLE_AFTER)
    async with opened as log:
        yield log


def existing(data_dir: Path | None) -> Path:
    """The directory of the embedded server, if there is one: reading must not make it.

    Raises:
        EmbeddedPostgresError: There is none.
    """
    home = locate(data_dir)
    if not home.server.exists():
        remedy = "Make one with `eventlog init`, or name yours with --dsn, --data-dir or $EVENTLOG_DSN"
        raise home.error("there is no event log in it", remedy)
    return home.data_dir


def check_dsn(dsn: str) -> str:
    """The server and database a DSN names, without user and password.

    Raises:
        typer.BadParameter: libpq can't read it. The text is not repeated: it may hold a password.
    """
    try:
        return server_of(dsn)
    except Exception as error:
        given = "the DSN is none that libpq takes: give postgresql://user@host/database, or host=… dbname=…"
        raise typer.BadParameter(given) from error


async def _check_schema(dsn: str, schema: str, ensure_server: EnsureServer | None) -> None:
    async def attempt() -> bool:
        connection = await connect(dsn, schema)
        try:
            row = await (await connection.execute(query("schema_state"), {"schema": schema})).fetchone()
            return bool(row and row[0])
        finally:
            await connection.close()

    if not await patiently(Patience(dsn, UNAVAILABLE_AFTER, ensure_server), attempt):
        raise SchemaError(schema, f"there is no event log in {server_of(dsn)}", "Make one with `eventlog init`")
