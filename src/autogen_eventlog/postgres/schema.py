"""Creates and migrates the schema."""

from __future__ import annotations

from typing import Any, cast

import psycopg
from psycopg import sql as composing
from typing_extensions import LiteralString

from autogen_eventlog.errors import SchemaError
from autogen_eventlog.postgres import sql
from autogen_eventlog.postgres.session import EnsureServer, Patience, connect, patiently, schema_error

OLDEST_SERVER = 14


async def prepare(
    conninfo: str, schema: str, *, unavailable_after: float = 30.0, ensure_server: EnsureServer | None = None
) -> None:
    """Makes the schema usable by this version of the package: created, migrated, with partitions for the months ahead.

    Idempotent and safe to call from many processes at once (an advisory lock lets one of them work). Where nothing is
    to be done, a role that may only use the schema is enough. Positions are made sure to grow: after a dump was
    restored into another cluster, the base is raised (sql/functions/raise_position_base.sql).

    Raises:
        SchemaError: the server is older than Postgres 14, the schema is newer than this package, or the role may not.
        DatabaseUnavailable: no connection within `unavailable_after` seconds.
        DatabaseRefused: the server lets nobody in with this conninfo; at once.
    """
    if not schema or "\0" in schema or len(schema.encode()) > 63 or schema.startswith("pg_"):
        raise SchemaError(schema, "it is no name for a schema", "Use 1 to 63 bytes, not beginning with pg_")

    async def attempt() -> None:
        await _prepare(conninfo, schema)

    try:
        await patiently(Patience(conninfo, unavailable_after, ensure_server), attempt)
    except psycopg.Error as error:
        failure = schema_error(error, schema)
        if failure is None:
            raise
        raise failure from error


async def _prepare(conninfo: str, schema: str) -> None:
    connection = await connect(conninfo, schema)
    try:
        _check_server(connection, schema)
        if await _missing(connection, schema):
            async with connection.transaction():
                await connection.execute(sql.query("lock_schema"), {"schema": schema})
                await _bring_up_to_date(connection, schema)
        await connection.execute(sql.query("maintain"))
    finally:
        await connection.close()


def _check_server(connection: psycopg.AsyncConnection[Any], schema: str) -> None:
    version = connection.info.server_version // 10000
    if version < OLDEST_SERVER:
        raise SchemaError(schema, f"the server is Postgres {version}", f"Postgres {OLDEST_SERVER} or newer is needed")


async def _bring_up_to_date(connection: psycopg.AsyncConnection[Any], schema: str) -> None:
    missing = await _missing(connection, schema)  # again: another process may have done it while we waited
    if not missing:
        return
    everything = sql.migrations()
    if len(missing) == len(everything):
        statement = cast(LiteralString, sql.query("create_schema").decode())
        await connection.execute(composing.SQL(statement).format(schema=composing.Identifier(schema)))
        await connection.execute(sql.objects())
    else:
        await _act_as_owner(connection, schema)
        for number in missing:
            await connection.execute(everything[number][1])
    for number in missing:
        await connection.execute(sql.query("record_migration"), {"number": number, "name": everything[number][0]})


async def _act_as_owner(connection: psycopg.AsyncConnection[Any], schema: str) -> None:
    """Until the transaction ends: what is added to a schema belongs to whom the rest does, whoever adds it."""
    row = await (await connection.execute(sql.query("schema_owner"))).fetchone()
    assert row is not None
    owner, may = row
    if not may:
        raise SchemaError(
            schema,
            f"it has to be migrated, and belongs to the role {owner!r}",
            f"Open the log once as {owner!r} (eventlog init)",
        )
    await connection.execute(composing.SQL("SET LOCAL ROLE {}").format(composing.Identifier(owner)))


async def _missing(connection: psycopg.AsyncConnection[Any], schema: str) -> list[int]:
    """The migrations to be applied, ascending; all of them when there is no schema."""
    known = sql.migrations()
    row = await (await connection.execute(sql.query("schema_state"), {"schema": schema})).fetchone()
    if row is None or not row[0]:
        return list(known)
    applied = {row[0] for row in await (await connection.execute(sql.query("applied_migrations"))).fetchall()}
    newer = applied - known.keys()
    if newer:
        raise SchemaError(
            schema,
            f"it has migration {max(newer)}, this package knows up to {max(known)}",
            "Install the version of autogen-eventlog that made it, or a newer one",
        )
    return [number for number in known if number not in applied]
