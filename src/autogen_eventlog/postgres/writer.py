"""Group commit: whatever is submitted while one commit is under way is the next one.

One connection, one transaction at a time, in the order of submission. The size of a batch follows from the load: a
single producer gets a commit for each append, many producers share one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from autogen_eventlog.errors import AppendFailed, EventLogError, EventTooLarge, LogClosed, NotEncodable
from autogen_eventlog.events import EventData
from autogen_eventlog.postgres.alarm import Alarm
from autogen_eventlog.postgres.backlog import Backlog
from autogen_eventlog.postgres.committer import Committer
from autogen_eventlog.postgres.large import References, is_kept_apart
from autogen_eventlog.postgres.packing import Packer
from autogen_eventlog.postgres.session import EnsureServer
from autogen_eventlog.postgres.ticket import Committed, Ticket

__all__ = ["Committed", "Ticket", "Writer", "WriterStatistics"]

MIB = 1024 * 1024
_LARGEST_APPEND = 256 * MIB
"""Postgres takes a value and a whole message of up to 1 GB; nobody should come near."""
_OVERHEAD = 256
"""What a pending event costs in memory besides its bytes, about."""


_WORTHWHILE_BATCH = 128
"""Events after which a commit no longer waits for more: the server then works while the next ones are made."""

_IDLE_TURNS = 3
"""Turns of the loop that brought nothing more, after which a commit that several wait for starts."""

_LONGEST_GATHER_SECONDS = 0.01
"""How long an event that nobody waits for stays in memory at most before its commit starts."""


@dataclass(frozen=True, slots=True)
class WriterStatistics:
    """Counts since open; pending is now."""

    pending_appends: int = 0
    pending_events: int = 0
    pending_bytes: int = 0
    commits: int = 0
    events: int = 0
    refused_appends: int = 0
    reconnects: int = 0
    unknown_outcomes: int = 0
    """Batches whose acknowledgement was lost."""
    unknown_outcomes_committed: int = 0
    """Appends of those that were found stored."""


class Writer:
    """Appends events; see `submit`.

    Guarantees: an append is stored whole or not at all; versions are gapless; of one stream and epoch nothing is
    stored after a refused append; a lost acknowledgement neither loses nor doubles an event (the batch is looked up
    by its event ids before anything is sent again).
    """

    def __init__(
        self,
        conninfo: str,
        schema: str,
        *,
        max_pending_bytes: int = 64 * MIB,
        max_batch_events: int = 1000,
        max_batch_bytes: int = 4 * MIB,
        unavailable_after: float = 30.0,
        ensure_server: EnsureServer | None = None,
    ) -> None:
        if max_pending_bytes < 1:
            raise ValueError(
                f"max_pending_bytes must be at least 1, not {max_pending_bytes}: nothing could ever be appended"
            )
        self._committer = Committer(conninfo, schema, unavailable_after=unavailable_after, ensure_server=ensure_server)
        self._max_pending_bytes = max_pending_bytes
        self._max_batch_events = max_batch_events
        self._max_batch_bytes = max_batch_bytes
        self._packer = Packer()
        self._references = References()
        self._backlog = Backlog()
        self._in_flight: list[Ticket] = []
        self._in_flight_bytes = 0
        self._sleeping: asyncio.Future[None] | None = None
        self._gathering: asyncio.Future[None] | None = None
        self._late = Alarm(self._gathered)
        self._wants = self._want  # one object for all tickets
        self._wanted = 0
        """Pending appends that somebody waits for."""
        self._wanted_before = 0
        """Those of the batch before."""
        self._room_waiters: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        self._stopped: EventLogError | None = LogClosed("writer")

    async def open(self) -> None:
        """Connects and starts the writing task.

        Raises:
            DatabaseUnavailable: no connection within `unavailable_after`.
            SchemaError: the schema isn't there; call `schema.prepare` first.
        """
        await self._committer.open()
        self._stopped = None
        self._task = asyncio.get_running_loop().create_task(self._run(), name="eventlog-writer")

    async def close(self, *, timeout: float = 10.0) -> None:
        """Commits what is pending, within the bound in seconds; what is left then fails with LogClosed.

        Idempotent. A `submit` after it gets a ticket that failed with LogClosed.
        """
        task, self._task = self._task, None
        if task is None:
            return
        self._stopped = LogClosed("writer")
        try:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.flush(), timeout)
        finally:
            task.cancel()
            await asyncio.wait([task])
            self._late.stop()
            self._fail(LogClosed("writer"))
            await self._committer.close()

    async def __aenter__(self) -> Writer:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def submit(self, stream: str, epoch: int, expected_version: int, events: Sequence[EventData]) -> Ticket:
        """Queues one append; never blocks, never raises for the state of the log: the ticket tells.

        The events get the versions `expected_version + 1` and so on. Many appends of a stream may be pending, each
        expecting the version that the one before leaves; when one is refused, those behind it under the same epoch
        fail with the same error.

        Raises:
            ValueError: no events.
        """
        if not events:
            raise ValueError("an append needs at least one event")
        ticket = Ticket(stream, epoch, expected_version, len(events), events[-1].id, self._wants)
        failure = self._stopped or self._pack(ticket, events)
        if failure is not None:
            ticket.fail(failure)
            return ticket
        self._backlog.add(ticket)
        if self._sleeping is not None and not self._sleeping.done():
            self._sleeping.set_result(None)
        if self._backlog.events >= _WORTHWHILE_BATCH:
            self._gathered()
        return ticket

    async def append(self, stream: str, epoch: int, expected_version: int, events: Sequence[EventData]) -> Committed:
        """`submit` and wait. Cancelling the wait leaves the append to be stored or refused whole."""
        return await self.submit(stream, epoch, expected_version, events)

    @property
    def full(self) -> bool:
        """Whether the pending bytes are at the bound."""
        return self._stopped is None and self._in_flight_bytes + self._backlog.size >= self._max_pending_bytes

    async def room(self) -> None:
        """Back-pressure: returns when the pending bytes are under the bound. Await it before taking new work."""
        while self.full:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room_waiters.append(waiter)
            await waiter

    async def flush(self) -> None:
        """Returns when everything submitted before the call is durable or has failed."""
        for ticket in [*self._in_flight, *self._backlog.tickets()]:
            await ticket.settled()

    def statistics(self) -> WriterStatistics:
        """Counts, now."""
        counts = self._committer.counts
        return WriterStatistics(
            pending_appends=len(self._in_flight) + len(self._backlog),
            pending_events=sum(ticket.events for ticket in self._in_flight) + self._backlog.events,
            pending_bytes=self._in_flight_bytes + self._backlog.size,
            commits=counts.commits,
            events=counts.events,
            refused_appends=counts.refused_appends,
            reconnects=counts.reconnects,
            unknown_outcomes=counts.unknown_outcomes,
            unknown_outcomes_committed=counts.unknown_outcomes_committed,
        )

    def _pack(self, ticket: Ticket, events: Sequence[EventData]) -> EventLogError | None:
        """Packs now, on the caller's turn: so the size is known, and the caller may forget the events."""
        pack, stream, epoch, version = self._packer.pack, ticket.stream, ticket.epoch, ticket.expected_version
        pieces: list[bytes] = []
        large: list[tuple[bytes, bytes]] = []
        try:
            for event in events:
                version += 1
                payload = event.payload
                if payload is not None and is_kept_apart(payload):
                    large.append((self._references.to(payload), payload))
                    payload = large[-1][0]
                pieces += pack(stream, epoch, version, event, payload)
        except NotEncodable as error:
            return error
        ticket.pieces = tuple(pieces)  # what holds no other containers costs the garbage collector nothing
        ticket.large = tuple(large)
        ticket.size = size = sum(map(len, pieces)) + sum(len(one) for _, one in large) + len(events) * _OVERHEAD
        limit = min(self._max_pending_bytes, _LARGEST_APPEND)
        return None if size <= limit else EventTooLarge(stream, size, limit)

    async def _run(self) -> None:
        try:
            while True:
                if not self._backlog:
                    await self._sleep()
                await self._gather()
                batch = self._backlog.take(self._max_batch_events, self._max_batch_bytes)
                self._wanted, self._wanted_before = len(self._backlog), self._wanted
                await self._commit(batch)
        except Exception as error:
            # A defect of ours. Nobody may wait for ever because of it.
            self._stopped = AppendFailed("", "", f"the writer stopped: {error!r}")
            self._fail(self._stopped)
            raise

    async def _sleep(self) -> None:
        self._sleeping = asyncio.get_running_loop().create_future()
        await self._sleeping

    async def _gather(self) -> None:
        """Lets more join the batch until somebody waits for it: a commit costs as much as many events.

        Nobody waits for a message that came in until its answer is to go out, and both then share a commit.
        """
        if not self._wanted and self._backlog.events < _WORTHWHILE_BATCH:
            self._gathering = asyncio.get_running_loop().create_future()
            self._late.set(_LONGEST_GATHER_SECONDS)
            await self._gathering
            self._late.clear()
        seen, idle_turns = 0, 0
        alone = self._wanted <= 1 and self._wanted_before <= 1
        while not alone and self._backlog.events < _WORTHWHILE_BATCH and idle_turns < _IDLE_TURNS:
            idle_turns = idle_turns + 1 if seen == self._backlog.events else 0
            seen = self._backlog.events
            await asyncio.sleep(0)

    def _want(self) -> None:
        self._wanted += 1
        self._gathered()

    def _gathered(self) -> None:
        if self._gathering is not None and not self._gathering.done():
            self._gathering.set_result(None)

    async def _commit(self, batch: list[Ticket]) -> None:
        self._in_flight = batch
        self._in_flight_bytes = sum(ticket.size for ticket in batch)
        try:
            refusals = await self._committer.commit(batch)
        except EventLogError as error:
            self._fail(error)
        else:
            if refusals:
                self._backlog.refuse(refusals)
        self._in_flight = []
        self._in_flight_bytes = 0
        self._make_room()

    def _make_room(self) -> None:
        if self._room_waiters and (self._stopped or self._backlog.size < self._max_pending_bytes):
            waiters, self._room_waiters = self._room_waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def _fail(self, error: EventLogError) -> None:
        for ticket in self._in_flight:
            if not ticket.done:
                ticket.fail(error)
        self._in_flight = []
        self._in_flight_bytes = 0
        self._backlog.fail(error)
        self._make_room()
