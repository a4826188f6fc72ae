"""Connections of the package: how one is opened, when it is worth trying again, and how its errors are told."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import set_json_loads
from pydantic_core import from_json

from autogen_eventlog.errors import DatabaseUnavailable, EventLogError, SchemaError
from autogen_eventlog.postgres.sql import query

_T = TypeVar("_T")

_TRANSIENT_CLASSES = ("08", "40", "53", "57")
"""Connection lost, serialization and deadlock, out of resources, shutdown and cancellation by the operator."""
_TRANSIENT_STATES = ("25006", "55P03", "0A000", "EL003")
"""Read-only (a fail-over under way), lock not available, plan of a migrated table, position base to be raised."""
_SCHEMA_CLASSES = ("42", "3F")

EnsureServer = Callable[[], None]
"""Called in a thread before a reconnect, so that an embedded server can be started again."""


async def connect(conninfo: str, schema: str) -> psycopg.AsyncConnection[tuple[Any, ...]]:
    """Opens an autocommit connection whose search path is the schema and whose times are UTC.

    Keep-alives make a vanished server noticed within about 30 seconds unless the conninfo says otherwise.
    """
    connection = await psycopg.AsyncConnection.connect(conninfo, autocommit=True, **keep_alive(conninfo))
    try:
        await configure(connection, schema)
    except BaseException:
        await connection.close()
        raise
    return connection


async def configure(connection: psycopg.AsyncConnection[Any], schema: str) -> None:
    """Sets search path and time zone of a new connection, and how JSON is read."""
    set_json_loads(_loads, connection)
    await connection.execute(query("session"), {"schema": schema})


def _loads(data: str | bytes) -> Any:
    """pydantic's parser takes a sixth of the time of the standard one, but refuses lone surrogates and deep nesting."""
    try:
        return from_json(data)
    except ValueError:
        return json.loads(data)


def server_of(conninfo: str) -> str:
    """The server and database a conninfo names, without user and password."""
    parts = conninfo_to_dict(conninfo)
    host = parts.get("host") or parts.get("hostaddr") or "local socket"
    port = parts.get("port")
    return f"{host}{f':{port}' if port else ''}/{parts.get('dbname') or 'default database'}"


def is_transient(error: BaseException) -> bool:
    """Whether the same statement may succeed on a new connection."""
    if isinstance(error, (OSError, asyncio.TimeoutError)):
        return True
    if not isinstance(error, psycopg.Error):
        return False
    state = error.sqlstate
    if state is None:
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return state[:2] in _TRANSIENT_CLASSES or state in _TRANSIENT_STATES


def schema_error(error: BaseException, schema: str) -> EventLogError | None:
    """The schema is missing, of another version, or closed to this role; None for any other error."""
    if not isinstance(error, psycopg.Error) or error.sqlstate is None or error.sqlstate[:2] not in _SCHEMA_CLASSES:
        return None
    return SchemaError(schema, str(error).splitlines()[0], "Open the log with a role that may make or migrate it")


class Patience:
    """How long and how often to try: exponential backoff with jitter, until a bound in seconds since it was made."""

    def __init__(
        self,
        conninfo: str,
        bound: float,
        ensure_server: EnsureServer | None = None,
        *,
        first_delay: float = 0.02,
        longest_delay: float = 1.0,
    ) -> None:
        self._conninfo = conninfo
        self._bound = bound
        self._ensure_server = ensure_server
        self._delay = first_delay
        self._longest_delay = longest_delay
        self._ends = asyncio.get_running_loop().time() + bound

    def remaining(self) -> float:
        """Seconds left."""
        return self._ends - asyncio.get_running_loop().time()

    async def pause(self, error: BaseException) -> None:
        """Waits before the next attempt; lets an embedded server be started again.

        Raises:
            DatabaseUnavailable: the bound is over.
        """
        if self.remaining() <= 0:
            problem = str(error).strip() or type(error).__name__
            raise DatabaseUnavailable(server_of(self._conninfo), self._bound, problem) from error
        await asyncio.sleep(max(0.0, min(self._delay * random.uniform(0.5, 1.0), self.remaining())))
        self._delay = min(self._delay * 2, self._longest_delay)
        if self._ensure_server is not None:
            await asyncio.to_thread(self._ensure_server)


async def patiently(patience: Patience, attempt: Callable[[], Awaitable[_T]]) -> _T:
    """Runs an idempotent attempt until it succeeds, fails for good, or the bound is over."""
    while True:
        try:
            return await attempt()
        except (psycopg.Error, OSError) as error:
            if not is_transient(error):
                raise
            await patience.pause(error)


def keep_alive(conninfo: str) -> dict[str, Any]:
    """Settings that make a vanished server noticed within about 30 seconds, where the conninfo doesn't set them."""
    given = conninfo_to_dict(conninfo)
    wanted = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4, "connect_timeout": 10}
    return {name: value for name, value in wanted.items() if name not in given}
