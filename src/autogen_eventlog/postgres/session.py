"""Connections of the package: how one is opened, when it is worth trying again, and how its errors are told."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import set_json_loads
from pydantic_core import from_json

from autogen_eventlog.errors import DatabaseRefused, DatabaseUnavailable, EventLogError, SchemaError
from autogen_eventlog.postgres.sql import query

_T = TypeVar("_T")

DSN_VARIABLE = "EVENTLOG_DSN"

_TRANSIENT_CLASSES = ("08", "40", "53", "57")
"""Connection lost, serialization and deadlock, out of resources, shutdown and cancellation by the operator."""
_TRANSIENT_STATES = ("25006", "55P03", "0A000", "EL003")
"""Read-only (a fail-over under way), lock not available, plan of a migrated table, position base to be raised."""
_SCHEMA_CLASSES = ("42", "3F")
_REFUSALS = re.compile(
    "authentication failed|no password supplied|(database|role) .* does not exist|is not permitted to log in"
    "|no pg_hba.conf entry|pg_hba.conf rejects|permission denied for database"
    "|certificate verify failed|server certificate for .* does not match|root certificate file .* does not exist"
    "|does not support SSL, but SSL was required"
)
"""libpq gives no SQLSTATE for a connection that failed, so its words must do. A server may say them in another language."""

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


def check_conninfo(conninfo: object) -> None:
    """Whether libpq can read it at all.

    Raises:
        ValueError: It can't. Its text is not repeated, since it may hold a password.
    """
    try:
        if isinstance(conninfo, str):
            conninfo_to_dict(conninfo)
            return
    except psycopg.ProgrammingError:
        pass
    given = "" if isinstance(conninfo, str) else f" (it is a {type(conninfo).__name__})"
    raise ValueError(
        f"the dsn is none that libpq takes{given}: give postgresql://user@host/database, or host=… dbname=…"
    ) from None


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


def is_refusal(error: BaseException) -> bool:
    """Whether a server was reached and would not let us in, for a reason that time does not mend.

    A server that is starting, stopping, full or not yet the primary is none. Of several hosts, one that refuses is enough.
    """
    if not isinstance(error, psycopg.OperationalError) or error.sqlstate is not None:
        return False
    return bool(error.pgconn and error.pgconn.needs_password) or _REFUSALS.search(str(error)) is not None


def unavailable(conninfo: str, waited: float, error: BaseException) -> DatabaseUnavailable:
    """What is told of an attempt that failed and will not be made again. `waited` is in seconds."""
    kind = DatabaseRefused if is_refusal(error) else DatabaseUnavailable
    return kind(server_of(conninfo), waited, str(error).strip() or type(error).__name__)


def schema_error(error: BaseException, schema: str) -> EventLogError | None:
    """The schema is missing, of another version, or closed to this role; None for any other error."""
    if not isinstance(error, psycopg.Error) or error.sqlstate is None or error.sqlstate[:2] not in _SCHEMA_CLASSES:
        return None
    remedy = "Open the log with a role that may make or migrate it"
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        remedy += ", or grant this one what it lacks (docs/how-to/use-your-own-postgres.md)"
    return SchemaError(schema, str(error).splitlines()[0], remedy)


def dsn_source(conninfo: str, *, embedded: bool) -> str:
    """Where the dsn of a log comes from, for a person who has to mend it."""
    if embedded:
        return "that of the embedded Postgres"
    return f"that of ${DSN_VARIABLE}" if conninfo == os.environ.get(DSN_VARIABLE) else "the one given"


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

    def given_up(self, error: BaseException) -> DatabaseUnavailable:
        """What is told where no further attempt is made."""
        return unavailable(self._conninfo, self._bound - max(0.0, self.remaining()), error)

    def not_opened(self, error: BaseException) -> DatabaseUnavailable:
        """What is told where this was to be the first connection, and no further attempt is made."""
        source = dsn_source(self._conninfo, embedded=self._ensure_server is not None)
        return replace(self.given_up(error), dsn_source=source)

    async def pause(self, error: BaseException) -> None:
        """Waits before the next attempt; lets an embedded server be started again.

        Raises:
            DatabaseUnavailable: the bound is over.
        """
        if self.remaining() <= 0:
            raise unavailable(self._conninfo, self._bound, error) from error
        await asyncio.sleep(max(0.0, min(self._delay * random.uniform(0.5, 1.0), self.remaining())))
        self._delay = min(self._delay * 2, self._longest_delay)
        if self._ensure_server is not None:
            await asyncio.to_thread(self._ensure_server)


async def patiently(patience: Patience, attempt: Callable[[], Awaitable[_T]]) -> _T:
    """Runs an idempotent attempt until it succeeds, fails for good, or the bound is over.

    For a first connection: what the server refuses is not tried again. One that worked before may be refused for a while by
    a server that is being replaced, so those who reconnect try for as long as they have patience.

    Raises:
        DatabaseRefused: the server lets nobody in with this conninfo.
        DatabaseUnavailable: the bound is over.
    """
    while True:
        try:
            return await attempt()
        except (psycopg.Error, OSError) as error:
            if not is_transient(error):
                raise
            if is_refusal(error) or patience.remaining() <= 0:
                raise patience.not_opened(error) from error
            await patience.pause(error)


def keep_alive(conninfo: str) -> dict[str, Any]:
    """Settings that make a vanished server noticed within about 30 seconds, where the conninfo doesn't set them."""
    given = conninfo_to_dict(conninfo)
    wanted = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4, "connect_timeout": 10}
    return {name: value for name, value in wanted.items() if name not in given}
