"""A real Postgres for the whole session, and a database of its own for each test that asks."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from autogen_eventlog.postgres.embedded import open_embedded
from autogen_eventlog.postgres.schema import prepare

SCHEMA = "eventlog"
MEMORY = Path("/dev/shm")
MEMORY_OF_A_SERVER = 2 << 30
"""Twice its write-ahead log and what else the largest tests write."""
FreshLogs = Callable[[], AbstractContextManager[str]]
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server on which the tests may make databases: $EVENTLOG_TEST_DSN, else the embedded one."""
    given = os.environ.get("EVENTLOG_TEST_DSN")
    if given:
        yield given
        return
    with contextlib.ExitStack() as stack:
        home = tmp_path_factory.mktemp("postgres")
        if _memory_suffices():
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=MEMORY, prefix="eventlog-tests-")))
        yield stack.enter_context(open_embedded(home / "data")).dsn


def _memory_suffices() -> bool:
    """Whether each test process can have its server in memory.

    A database has some 500 files, and each test makes one and drops it: that takes 40 ms in memory and can take 300 on disk.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    try:
        return shutil.disk_usage(MEMORY).free > workers * MEMORY_OF_A_SERVER and os.access(MEMORY, os.W_OK)
    except OSError:
        return False


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
