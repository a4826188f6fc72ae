"""Connections for code that blocks its thread, as the eventsourcing library does: the twin of `pool` without a loop."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from threading import BoundedSemaphore, Event, Lock
from typing import Any, TypeVar

import psycopg
from psycopg import pq

from autogen_eventlog.errors import EventLogError, LogClosed
from autogen_eventlog.postgres.session import EnsureServer, is_transient, keep_alive, schema_error, unavailable
from autogen_eventlog.postgres.sql import query

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]

_FIRST_DELAY_SECONDS = 0.02
_LONGEST_DELAY_SECONDS = 1.0


class BlockingCall(EventLogError):
    """A call that waits for the database was made where an event loop runs, which it would stop. Nothing was done."""

    def __str__(self) -> str:
        return (
            "this call waits for the database and would stop the running event loop. Make it in a thread: "
            "`await asyncio.to_thread(...)`"
        )


class BlockingPool:
    """Runs attempts that may be repeated, each on a connection of its own, from any number of threads.

    Connections are made when needed, at most `max_size` at once; a broken one is dropped with all that lie idle,
    because they have died of the same cause.
    """

    def __init__(
        self,
        conninfo: str,
        schema: str,
        *,
        max_size: int = 8,
        unavailable_after: float = 30.0,
        ensure_server: EnsureServer | None = None,
    ) -> None:
        self._conninfo = conninfo
        self._schema = schema
        self._unavailable_after = unavailable_after
        self._ensure_server = ensure_server
        self._slots = BoundedSemaphore(max_size)
        self._lock = Lock()
        self._idle: list[Connection] = []
        self._closed = False

    def close(self) -> None:
        """Closes every connection; one that is in use when it is given back. Idempotent."""
        self._closed = True
        self._drop_idle()

    def run(self, attempt: Callable[[Connection], T], *, interrupted: Event | None = None) -> T:
        """What `attempt` returns; it is called again on a new connection when the one it had turns out dead.

        Args:
            interrupted: when set, a failed attempt is not made again.

        Raises:
            DatabaseUnavailable: no attempt came through within the bound, or before `interrupted` was set.
            SchemaError: the schema isn't there, or is closed to this role.
            LogClosed: the pool is closed.
            BlockingCall: called on the thread of a running event loop.
        """
        _refuse_on_an_event_loop()
        ends = time.monotonic() + self._unavailable_after
        delay = _FIRST_DELAY_SECONDS
        wait = (interrupted or Event()).wait
        while True:
            try:
                return self._once(attempt)
            except (psycopg.Error, OSError) as error:
                failure = schema_error(error, self._schema)
                if failure is not None:
                    raise failure from error
                if not is_transient(error):
                    raise
                remaining = ends - time.monotonic()
                if remaining <= 0 or wait(max(0.0, min(delay * random.uniform(0.5, 1.0), remaining))):
                    raise unavailable(self._conninfo, self._unavailable_after, error) from error
            delay = min(2 * delay, _LONGEST_DELAY_SECONDS)
            if self._ensure_server is not None:
                self._ensure_server()

    def _once(self, attempt: Callable[[Connection], T]) -> T:
        with self._slots:
            connection = self._take()
            try:
                return attempt(connection)
            finally:
                self._give_back(connection)

    def _take(self) -> Connection:
        with self._lock:
            if self._closed:
                raise LogClosed("recorder")
            if self._idle:
                return self._idle.pop()
        connection = psycopg.Connection[tuple[Any, ...]].connect(
            self._conninfo, autocommit=True, **keep_alive(self._conninfo)
        )
        try:
            connection.execute(query("session"), {"schema": self._schema})
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_back(self, connection: Connection) -> None:
        at_rest = connection.pgconn.transaction_status == pq.TransactionStatus.IDLE
        with self._lock:
            if at_rest and not self._closed:
                self._idle.append(connection)
                return
        connection.close()
        self._drop_idle()

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def _refuse_on_an_event_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise BlockingCall
