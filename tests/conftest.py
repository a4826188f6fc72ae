"""A real Postgres for the whole session, and a database of its own for each test that asks."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from autogen_eventlog.postgres.embedded import open_embedded
from autogen_eventlog.postgres.schema import prepare

SCHEMA = "eventlog"
FreshLogs = Callable[[], AbstractContextManager[str]]
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server on which the tests may make databases: $EVENTLOG_TEST_DSN, else the embedded one."""
    given = os.environ.get("EVENTLOG_TEST_DSN")
    if given:
        yield given
        return
    with open_embedded(tmp_path_factory.mktemp("postgres") / "data") as embedded:
        yield embedded.dsn


@pytest.fixture(scope="session")
def template(server: str) -> Iterator[str]:
    """A database with the schema in it, to be copied."""
    name = f"eventlog_template_{os.getpid()}"
    with _database(server, name) as dsn:
        asyncio.run(prepare(dsn, SCHEMA))
        yield name


@pytest.fixture
def dsn(server: str, template: str) -> Iterator[str]:
    """A fresh database with an empty log in schema `eventlog`."""
    with _database(server, f"eventlog_test_{os.getpid()}_{next(_numbers)}", template=template) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def fresh_logs(server: str, template: str) -> FreshLogs:
    """Makes databases with an empty log in schema `eventlog`, each gone when it is left: for tests that need many."""
    return lambda: _database(server, f"eventlog_test_{os.getpid()}_{next(_numbers)}", template=template)


@pytest.fixture
def empty_dsn(server: str) -> Iterator[str]:
    """A fresh database without any log."""
    with _database(server, f"eventlog_test_{os.getpid()}_{next(_numbers)}") as dsn:
        yield dsn


class _database(AbstractContextManager[str]):
    """Makes a database and drops it, whoever is still connected."""

    def __init__(self, server: str, name: str, template: str = "template1") -> None:
        self._server = server
        self._name = sql.Identifier(name)
        self._template = sql.Identifier(template)
        self._dsn = make_conninfo(server, dbname=name)

    def __enter__(self) -> str:
        self._run(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(self._name, self._template))
        return self._dsn

    def __exit__(self, *exc_info: object) -> None:
        self._run(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(self._name))

    def _run(self, statement: sql.Composed) -> None:
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(statement)
