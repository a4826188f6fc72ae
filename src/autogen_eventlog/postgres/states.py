"""States of agents that keep none themselves: each save is an event in a stream that no worker owns."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from types import TracebackType
from typing import Any, TypeVar
from uuid import UUID

import psycopg

from autogen_eventlog.errors import AppendFailed, DatabaseUnavailable
from autogen_eventlog.events import EventType, RecordedEvent
from autogen_eventlog.postgres.large import apart
from autogen_eventlog.postgres.pool import Connection, Pool, fetch
from autogen_eventlog.postgres.records import recorded_event
from autogen_eventlog.postgres.session import EnsureServer, server_of

T = TypeVar("T")

_MAX_CONNECTIONS = 8
_GRACE_SECONDS = 1.0
"""After the bound, for the pool to say itself why it gave up."""
_MAINTAIN_EVERY_SECONDS = 3600.0
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SavedAs:
    """Which event of a stream holds a state."""

    version: int
    id: UUID


@dataclass(frozen=True, slots=True)
class StateToSave:
    """A state on its way into the log."""

    id: UUID
    """Of the event to be. A save that is repeated under the same id is done once."""
    message_type: str | None
    payload: bytes | None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was changed: this is what is stored."""

    stored: SavedAs


class States:
    """Reads and saves states. Guarantees: of saves that admit the same stored state, one is done; a save is done when it
    returns; a lost acknowledgement neither loses nor doubles one.

    Every call ends within the bound, whatever the server does.

    Raises (everywhere):
        DatabaseUnavailable: no answer within `unavailable_after` seconds. A save may still be done.
        SchemaError: the schema isn't there, or is closed to this role.
        LogClosed: it is closed.
    """

    def __init__(
        self,
        conninfo: str,
        schema: str,
        *,
        unavailable_after: float = 30.0,
        ensure_server: EnsureServer | None = None,
    ) -> None:
        self._conninfo = conninfo
        self._bound = unavailable_after
        self._pool = Pool(
            conninfo,
            schema,
            max_size=_MAX_CONNECTIONS,
            unavailable_after=unavailable_after,
            ensure_server=ensure_server,
        )
        self._running: set[asyncio.Task[Any]] = set()
        self._maintained_at = -_MAINTAIN_EVERY_SECONDS

    async def __aenter__(self) -> States:
        await self._pool.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=_GRACE_SECONDS)
        await self._pool.close()

    async def last(self, stream: str) -> RecordedEvent | None:
        """The event that holds the state; None: none was ever saved."""
        bounds = {"stream": stream, "after_version": 0, "until_version": _LARGEST, "limit": 1, "bytes": 1}
        rows = await self._within_bound(self._pool.fetch("read_backwards", bounds))
        return recorded_event(rows[0]) if rows else None

    async def save(self, stream: str, state: StateToSave, *, admits: Callable[[SavedAs], bool]) -> SavedAs | Refused:
        """Appends a state.

        Claim, check and append are one transaction, so saves of one agent wait for each other.

        Args:
            admits: whether what is stored may be replaced. It is not asked when nothing is stored.

        Raises:
            AppendFailed: the database can't store it.
        """
        saving = _Saving(stream, state, admits)

        async def attempt(connection: Connection) -> SavedAs | Refused:
            await self._maintain(connection, again=saving.attempts > 0)
            return await saving.attempt(connection)

        try:
            return await self._within_bound(self._pool.run(attempt))
        except psycopg.Error as error:
            raise AppendFailed(stream, error.sqlstate or "", str(error).splitlines()[0]) from error

    async def _maintain(self, connection: Connection, *, again: bool) -> None:
        """What a writer makes sure of: a process may serve states for months and have none. And a restored dump refuses
        every append until its positions are raised."""
        now = time.monotonic()
        if again or now - self._maintained_at > _MAINTAIN_EVERY_SECONDS:
            await fetch(connection, "maintain")
            self._maintained_at = now

    async def _within_bound(self, work: Awaitable[T]) -> T:
        """Not `wait_for`, which waits for the work to end: a server that is stopped does not answer to a cancellation."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        try:
            await asyncio.wait({task}, timeout=self._bound + _GRACE_SECONDS)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.done():
            return task.result()
        task.cancel()
        raise DatabaseUnavailable(server_of(self._conninfo), self._bound, "no answer")

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # of one that nobody waits for any more


class _Saving:
    """One save, over as many attempts as it takes."""

    def __init__(self, stream: str, state: StateToSave, admits: Callable[[SavedAs], bool]) -> None:
        self._stream = stream
        self._state = state
        self._admits = admits
        self._occurred_at = datetime.now(timezone.utc)
        self.attempts = 0

    async def attempt(self, connection: Connection) -> SavedAs | Refused:
        self.attempts += 1
        async with connection.transaction() as transaction:
            outcome = await self._save(connection)
            if isinstance(outcome, Refused):
                raise psycopg.Rollback(transaction)  # the claim with it
        return outcome

    async def _save(self, connection: Connection) -> SavedAs | Refused:
        # The claim waits for the end of any other save, one of an attempt of ours whose connection was lost included.
        claim = {"stream": self._stream, "worker": None, "takeover": False}
        [(epoch, version, _)] = await fetch(connection, "claim", claim)
        found = await fetch(connection, "state_before", {"stream": self._stream, "id": self._state.id})
        before = [SavedAs(*row) for row in found]
        repeated = next((one for one in before if one.id == self._state.id), None)
        if repeated is not None:
            return repeated
        if before and not self._admits(before[0]):
            return Refused(before[0])
        rows = await fetch(connection, "projection_append", self._parameters(epoch, version + 1))
        assert all(row[2] for row in rows), "a stream moved although its row was held"
        return SavedAs(version + 1, self._state.id)

    def _parameters(self, epoch: int, version: int) -> dict[str, Any]:
        states, payloads = apart([self._state.payload])
        return {
            "occurred_at": self._occurred_at,
            "type": EventType.AGENT_STATE_SAVED.value,
            "streams": [self._stream],
            "versions": [version],
            "epochs": [epoch],
            "ids": [self._state.id],
            "topics": [self._state.message_type],
            "metadata": [json.dumps(dict(self._state.metadata))],
            "states": states,
            "payloads": payloads,
        }
