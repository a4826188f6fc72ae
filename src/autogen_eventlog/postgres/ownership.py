"""Who may append to what: epochs decide safety, locks and heartbeats only politeness."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any
from uuid import UUID, uuid4

import psycopg

from autogen_eventlog.errors import LogClosed, StreamOwned
from autogen_eventlog.postgres.records import Claim, WorkerRecord
from autogen_eventlog.postgres.session import (
    EnsureServer,
    Patience,
    connect,
    is_transient,
    schema_error,
)
from autogen_eventlog.postgres.sql import query

_OWNED = "EL001"
Connection = psycopg.AsyncConnection[tuple[Any, ...]]


class Ownership:
    """This process as a worker: registered, alive by lock and heartbeat, and the streams it claims.

    One connection holds the session lock and beats; another claims, so that a claim that waits for a running append
    doesn't stop the heart. A lost connection is made again at once, and the lock taken back; in that gap another
    worker may take a stream over, which its epoch makes safe.
    """

    def __init__(
        self,
        conninfo: str,
        schema: str,
        *,
        lease: float = 10.0,
        heartbeat: float | None = None,
        unavailable_after: float = 30.0,
        ensure_server: EnsureServer | None = None,
        worker_id: UUID | None = None,
        identity: str = "",
    ) -> None:
        """
        Args:
            lease: seconds after its last heartbeat in which this worker still counts as alive.
            heartbeat: seconds between heartbeats; a third of the lease by default.
            identity: what else tells this process from others (boot, container), for people.
        """
        if lease <= 0:
            raise ValueError(
                f"lease must be more than 0 seconds, not {lease:g}: others would take the streams of a live worker"
            )
        self.worker_id = worker_id or uuid4()
        self._conninfo = conninfo
        self._schema = schema
        self._lease = lease
        self._heartbeat = lease / 3 if heartbeat is None else heartbeat
        self._unavailable_after = unavailable_after
        self._ensure_server = ensure_server
        self._identity = identity
        self._session: Connection | None = None
        self._lock_held = False
        self._heard_at = 0.0
        self._claims: Connection | None = None
        self._claiming = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.leaves_nothing: list[Callable[[], bool]] = []
        """Asked at the end: whether no handler is left in the middle of its work, for another worker to go on with."""

    async def open(self) -> None:
        """Registers this worker and takes its lock.

        Raises:
            DatabaseUnavailable: no connection within `unavailable_after`.
            SchemaError: the schema isn't there, or is closed to this role.
        """
        patience = self._patience()
        try:
            while not self._lock_held:
                try:
                    await self._beat()
                except (psycopg.Error, OSError) as error:
                    await self._recover(error, patience)
        except BaseException:  # cancelled half way: nobody would close it
            await self._drop_session()
            raise
        self._task = asyncio.get_running_loop().create_task(self._keep_alive(), name="eventlog-heartbeat")

    async def close(self, *, timeout: float = 5.0) -> None:
        """Gives everything back and ends, within the bound in seconds. Idempotent.

        What can't be given back (no database, an append of a lost connection still running) is free anyway as soon
        as the lock is.
        """
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait([task])
        try:
            if self._session is not None:
                with contextlib.suppress(psycopg.Error, OSError, asyncio.TimeoutError):
                    await asyncio.wait_for(self._say_goodbye(self._session), timeout)
        finally:
            await self._drop_session()
            await self._drop_claims()

    async def __aenter__(self) -> Ownership:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def is_alive(self) -> bool:
        """Whether the database counts this worker as alive, as far as this process knows: it was heard within its lease."""
        return self._lock_held and asyncio.get_running_loop().time() - self._heard_at < self._lease

    async def claim(self, stream: str, *, takeover: bool = False) -> Claim:
        """Takes the stream's next epoch for this worker, in one round trip; makes the stream when it is new.

        Every earlier epoch is stale from then on, our own earlier ones included (that is how a rebuilt instance
        fences the one before). The version in the answer is final for them.

        Args:
            takeover: take it even from a live worker.

        Raises:
            StreamOwned: another worker that is alive owns it.
            DatabaseUnavailable, SchemaError, LogClosed.
        """
        try:
            rows = await self._run("claim", {"stream": stream, "worker": self.worker_id, "takeover": takeover})
        except psycopg.Error as error:
            if error.sqlstate == _OWNED:
                raise _owned(stream, error) from None
            raise
        epoch, version, created = rows[0]
        return Claim(stream, epoch, version, created)

    async def release(self, stream: str, epoch: int) -> None:
        """Gives a stream back, if it is still ours under that epoch: the next claimer need not wait or ask."""
        await self._run("release", {"stream": stream, "epoch": epoch, "worker": self.worker_id})

    async def release_all(self) -> None:
        """Gives back every stream this worker owns."""
        await self._run("release_all", {"worker": self.worker_id})

    async def workers(self) -> list[WorkerRecord]:
        """Every worker of the last 30 days, oldest first."""
        return [WorkerRecord(*row) for row in await self._run("workers", {})]

    async def settle(self, workers: Sequence[UUID]) -> None:
        """Say that what these workers left behind has ended: nobody looks for it again."""
        await self._run("settle_workers", {"workers": list(workers)})

    async def _run(self, name: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Everything run here may be repeated: a second claim takes one more epoch."""
        patience = self._patience()
        async with self._claiming:
            while True:
                if self._task is None:  # asked each time: it may be closed while we wait for the database
                    raise LogClosed("ownership")
                try:
                    if self._claims is None:
                        self._claims = await connect(self._conninfo, self._schema)
                    cursor = await self._claims.execute(query(name), parameters)
                    return await cursor.fetchall() if cursor.description else []
                except (psycopg.Error, OSError) as error:
                    failure = schema_error(error, self._schema)
                    if failure is not None:
                        raise failure from error
                    if not is_transient(error):
                        raise
                    await self._drop_claims()
                    await patience.pause(error)

    async def _keep_alive(self) -> None:
        while True:
            if self._session is not None and self._lock_held:
                await self._pause(self._session)
            else:
                await asyncio.sleep(min(0.2, self._heartbeat))
            try:
                await self._beat()
            except (psycopg.Error, OSError):
                # For as long as it takes: without the database nobody else can claim our streams either.
                await self._drop_session()
                if self._ensure_server is not None:
                    with contextlib.suppress(Exception):
                        await asyncio.to_thread(self._ensure_server)

    async def _say_goodbye(self, session: Connection) -> None:
        settled = all(leaves_nothing() for leaves_nothing in self.leaves_nothing)
        await session.execute(query("stop_worker"), {"worker": self.worker_id, "settled": settled})
        await session.execute(query("release_all"), {"worker": self.worker_id})

    async def _pause(self, session: Connection) -> None:
        """Waits until the next beat is due, or until the session is heard from: that is how its end shows."""
        loop = asyncio.get_running_loop()
        heard: asyncio.Future[None] = loop.create_future()
        descriptor = session.fileno()
        loop.add_reader(descriptor, lambda: heard.done() or heard.set_result(None))
        try:
            await asyncio.wait([heard], timeout=self._heartbeat)
        finally:
            loop.remove_reader(descriptor)

    async def _beat(self) -> None:
        if self._session is None:
            self._session = await connect(self._conninfo, self._schema)
            self._lock_held = False
        if self._lock_held:
            cursor = await self._session.execute(query("heartbeat"), {"worker": self.worker_id})
            if cursor.rowcount == 1:
                self._heard_at = asyncio.get_running_loop().time()
                return
        cursor = await self._session.execute(
            query("register_worker"),
            {
                "worker": self.worker_id,
                "host": socket.gethostname(),
                "process": os.getpid(),
                "identity": self._identity,
                "lease": self._lease,
            },
        )
        row = await cursor.fetchone()
        self._lock_held = row is not None and bool(row[0])
        self._heard_at = asyncio.get_running_loop().time()

    async def _recover(self, error: BaseException, patience: Patience) -> None:
        await self._drop_session()
        failure = schema_error(error, self._schema)
        if failure is not None:
            raise failure from error
        if not is_transient(error):
            raise error
        await patience.pause(error)

    async def _drop_session(self) -> None:
        session, self._session, self._lock_held = self._session, None, False
        if session is not None:
            await session.close()

    async def _drop_claims(self) -> None:
        claims, self._claims = self._claims, None
        if claims is not None:
            await claims.close()

    def _patience(self) -> Patience:
        return Patience(self._conninfo, self._unavailable_after, self._ensure_server)


def _owned(stream: str, error: psycopg.Error) -> StreamOwned:
    detail = json.loads(error.diag.message_detail or "{}")
    return StreamOwned(
        stream=stream,
        owner=detail["owner"],
        host=detail["host"],
        process=detail["process"],
        epoch=detail["epoch"],
        heartbeat_at=datetime.fromisoformat(detail["heartbeat_at"]),
    )
