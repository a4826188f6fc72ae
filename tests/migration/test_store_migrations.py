"""Applying every migration gives the schema that the object files describe."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql as composing
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from autogen_eventlog.errors import SchemaError
from autogen_eventlog.postgres import schema, sql
from autogen_eventlog.postgres.session import connect
from tests.integration.store import an_event, open_store

CATALOG = (Path(__file__).parent / "catalog.sql").read_bytes()


async def catalog(dsn: str, script: bytes, name: str) -> list[tuple[Any, ...]]:
    """Everything the script makes in a schema of that name, as text."""
    connection = await connect(dsn, name)
    try:
        async with connection.transaction(force_rollback=True):
            await connection.execute(composing.SQL("CREATE SCHEMA {}").format(composing.Identifier(name)))
            await connection.execute(script)
            await connection.execute(b"SELECT ensure_partitions()")
            return await (await connection.execute(CATALOG, {"schema": name})).fetchall()
    finally:
        await connection.close()


async def test_the_migrations_give_the_schema_of_the_object_files(empty_dsn: str) -> None:
    described = await catalog(empty_dsn, sql.objects(), "eventlog")
    migrated = await catalog(empty_dsn, b"\n".join(script for _, script in sql.migrations().values()), "eventlog")
    assert migrated == described
    kinds = {row[0] for row in described}
    assert kinds == {"relation", "column", "constraint", "index", "trigger", "function", "row"}


async def test_prepare_gives_that_schema_too(empty_dsn: str) -> None:
    described = await catalog(empty_dsn, sql.objects(), "eventlog")
    await schema.prepare(empty_dsn, "eventlog")
    connection = await connect(empty_dsn, "eventlog")
    prepared = await (await connection.execute(CATALOG, {"schema": "eventlog"})).fetchall()
    await connection.close()
    assert prepared == described


def test_migrations_are_numbered_without_gaps() -> None:
    assert list(sql.migrations()) == list(range(1, len(sql.migrations()) + 1))


async def test_an_older_schema_gets_the_migrations_it_lacks(empty_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await schema.prepare(empty_dsn, "eventlog")
    later = sql.migrations() | {
        1001: ("one", b"CREATE TABLE one (a integer)"),
        1002: ("two", b"CREATE TABLE two (a integer); INSERT INTO two VALUES (2)"),
    }
    monkeypatch.setattr(sql, "migrations", lambda: later)
    await asyncio.gather(*(schema.prepare(empty_dsn, "eventlog") for _ in range(4)))
    connection = await connect(empty_dsn, "eventlog")
    rows = await (await connection.execute(b"SELECT number, name FROM migration ORDER BY number")).fetchall()
    two = await (await connection.execute(b"SELECT a FROM two")).fetchall()
    await connection.close()
    assert rows == [(number, name) for number, (name, _) in later.items()]
    assert two == [(2,)]


async def test_a_migration_that_fails_leaves_nothing_behind(empty_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await schema.prepare(empty_dsn, "eventlog")
    broken = sql.migrations() | {1001: ("broken", b"CREATE TABLE one (a integer); SELECT 1 / 0")}
    monkeypatch.setattr(sql, "migrations", lambda: broken)
    with pytest.raises(psycopg.errors.DivisionByZero):
        await schema.prepare(empty_dsn, "eventlog")
    monkeypatch.undo()
    await schema.prepare(empty_dsn, "eventlog")
    connection = await connect(empty_dsn, "eventlog")
    assert (await (await connection.execute(b"SELECT to_regclass('one')")).fetchall()) == [(None,)]
    await connection.close()


async def test_a_schema_newer_than_the_package_is_refused(empty_dsn: str) -> None:
    await schema.prepare(empty_dsn, "eventlog")
    connection = await connect(empty_dsn, "eventlog")
    await connection.execute(b"INSERT INTO migration (number, name) VALUES (1001, 'later')")
    await connection.close()
    with pytest.raises(SchemaError) as caught:
        await schema.prepare(empty_dsn, "eventlog")
    assert caught.value.schema == "eventlog"
    assert "migration 1001" in caught.value.problem


async def test_many_openers_at_once_make_one_schema(empty_dsn: str) -> None:
    await asyncio.gather(*(schema.prepare(empty_dsn, name) for name in ["eventlog", 'odd "Name"'] * 6))
    for name in ("eventlog", 'odd "Name"'):
        connection = await connect(empty_dsn, name)
        rows = await (await connection.execute(b"SELECT count(*) FROM migration")).fetchall()
        await connection.close()
        assert rows == [(len(sql.migrations()),)]


@pytest.mark.parametrize("name", ["", "pg_mine", "x" * 64, "nul\0"])
async def test_what_is_no_name_for_a_schema_is_refused(empty_dsn: str, name: str) -> None:
    with pytest.raises(SchemaError) as caught:
        await schema.prepare(empty_dsn, name)
    assert caught.value.schema == name


async def test_a_server_that_is_too_old_is_refused(empty_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psycopg.ConnectionInfo, "server_version", 130012)
    with pytest.raises(SchemaError) as caught:
        await schema.prepare(empty_dsn, "eventlog")
    assert "Postgres 13" in caught.value.problem


@pytest.fixture
def limited(empty_dsn: str) -> Iterator[str]:
    """A role that may connect and nothing else."""
    role = f"eventlog_limited_{conninfo_to_dict(empty_dsn)['dbname']}"
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(composing.SQL("CREATE ROLE {} LOGIN").format(composing.Identifier(role)))
        yield make_conninfo(empty_dsn, options=f"-c role={role}")
        connection.execute(composing.SQL("DROP OWNED BY {}").format(composing.Identifier(role)))
        connection.execute(composing.SQL("DROP ROLE {}").format(composing.Identifier(role)))


async def test_a_role_that_may_not_create_is_told_so(limited: str) -> None:
    with pytest.raises(SchemaError) as caught:
        await schema.prepare(limited, "eventlog")
    assert "permission denied" in caught.value.problem


async def test_a_role_that_may_only_use_a_finished_schema_can_open_it(empty_dsn: str, limited: str) -> None:
    await schema.prepare(empty_dsn, "eventlog")
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute("GRANT USAGE ON SCHEMA eventlog TO PUBLIC")
        connection.execute("GRANT SELECT ON eventlog.migration TO PUBLIC")
        connection.execute(b"DROP TABLE eventlog.event_default CASCADE")
        connection.execute(b"CREATE TABLE eventlog.event_default PARTITION OF eventlog.event DEFAULT")
    await schema.prepare(limited, "eventlog")


@pytest.fixture
def before_large_payloads(empty_dsn: str) -> None:
    """A log that the code of then has made."""
    then = {number: one for number, one in sql.migrations().items() if number < 4}
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA eventlog")
        connection.execute("SET search_path TO eventlog")
        for number, (name, script) in then.items():
            connection.execute(script)
            connection.execute("INSERT INTO migration (number, name) VALUES (%s, %s)", (number, name))


def test_who_may_use_the_log_may_use_what_a_migration_adds(
    empty_dsn: str, limited: str, before_large_payloads: None
) -> None:
    role = conninfo_to_dict(limited)["options"].partition("role=")[2]
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        for what in (
            "USAGE ON SCHEMA eventlog",
            "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA eventlog",
            "EXECUTE ON ALL FUNCTIONS IN SCHEMA eventlog",
        ):
            connection.execute(f"GRANT {what} TO {role}")
    asyncio.run(schema.prepare(empty_dsn, "eventlog"))

    async def use() -> list[Any]:
        async with open_store(limited) as store:
            agent = await store.claimed("agent/1")
            await agent.submit(an_event(payload=b"x" * 20_000))
            return [event.payload for event in await store.stored("agent/1")]

    assert asyncio.run(use()) == [b"x" * 20_000]


async def test_a_migration_by_another_role_leaves_the_log_to_its_owner(
    empty_dsn: str, limited: str, before_large_payloads: None
) -> None:
    role = conninfo_to_dict(limited)["options"].partition("role=")[2]
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(f"ALTER SCHEMA eventlog OWNER TO {role}")
        tables = "FROM pg_class WHERE relnamespace = 'eventlog'::regnamespace AND relkind IN ('r', 'p', 'v')"
        names = connection.execute(f"SELECT oid::regclass::text {tables}").fetchall()
        for (name,) in names:
            connection.execute(f"ALTER TABLE {name} OWNER TO {role}")
        functions = connection.execute(
            "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'eventlog'::regnamespace"
        ).fetchall()
        for (name,) in functions:
            connection.execute(f"ALTER FUNCTION {name} OWNER TO {role}")
    await schema.prepare(empty_dsn, "eventlog")  # a superuser
    for dsn in (empty_dsn, limited):
        async with open_store(dsn) as store:
            agent = await store.claimed("agent/1")
            await agent.submit(an_event(payload=b"x" * 20_000))
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        owners = connection.execute(f"SELECT DISTINCT relowner::regrole::text {tables}").fetchall()
        connection.execute("DROP SCHEMA eventlog CASCADE")  # or the role can't be dropped
    assert owners == [(role,)]


async def test_a_role_that_may_not_act_as_the_owner_is_told_who_that_is(
    empty_dsn: str, limited: str, before_large_payloads: None
) -> None:
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute("GRANT ALL ON SCHEMA eventlog TO PUBLIC")
        connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA eventlog TO PUBLIC")
    with pytest.raises(SchemaError, match="belongs to the role") as caught:
        await schema.prepare(limited, "eventlog")
    assert "eventlog init" in caught.value.remedy
