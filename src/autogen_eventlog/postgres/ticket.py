"""What a submit gives back: a promise that is kept when the events are durable, or broken with the reason."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from autogen_eventlog.errors import EventLogError


@dataclass(frozen=True, slots=True)
class Committed:
    """Where an append went; durable."""

    stream: str
    version: int
    """Of the last event of that append."""
    position: int
    """Of the last event of that append."""
    recorded_at: datetime


class Ticket:
    """Awaitable any number of times by any number of tasks of one loop: `Committed`, or the error.

    A waiter that is cancelled takes nothing from the others, nor from the append. A failed ticket that nobody awaits
    makes no noise.

    Raises (when awaited):
        StreamFenced, VersionConflict, DatabaseUnavailable, LogClosed, EventTooLarge, NotEncodable, AppendFailed,
        SchemaError: nothing of the append is stored, save after DatabaseUnavailable or LogClosed, where it may be.
    """

    __slots__ = (
        "_called_for",
        "_error",
        "_position",
        "_recorded_at",
        "_waiters",
        "_wanted",
        "epoch",
        "events",
        "expected_version",
        "large",
        "last_id",
        "pieces",
        "size",
        "stream",
        "taken",
        "version",
    )

    def __init__(
        self,
        stream: str,
        epoch: int,
        expected_version: int,
        events: int,
        last_id: UUID,
        wanted: Callable[[], None] = lambda: None,
    ) -> None:
        self.stream = stream
        self.epoch = epoch
        self.expected_version = expected_version
        self.version = expected_version + events
        self.events = events
        self.last_id = last_id
        self.pieces: Sequence[bytes] = ()
        self.large: Sequence[tuple[bytes, bytes]] = ()
        """References in the pieces, and the payloads they stand for."""
        self.size = 0
        self._position = 0
        self._recorded_at: datetime | None = None
        self._error: EventLogError | None = None
        self._waiters: list[asyncio.Future[None]] | None = None
        self._wanted = wanted
        self._called_for = False
        self.taken = False
        """Whether it is on its way to the database."""

    @property
    def done(self) -> bool:
        """Whether awaiting returns or raises at once."""
        return self._recorded_at is not None or self._error is not None

    @property
    def committed(self) -> bool:
        """Whether the events are durable."""
        return self._recorded_at is not None

    @property
    def error(self) -> EventLogError | None:
        """Why it failed, if it did."""
        return self._error

    def __await__(self) -> Generator[Any, None, Committed]:
        if self._recorded_at is None and self._error is None:
            yield from self._wait()
        if self._error is not None:
            raise copy.copy(self._error)  # each waiter its own: tracebacks grow where one object is raised twice
        assert self._recorded_at is not None
        return Committed(self.stream, self.version, self._position, self._recorded_at)

    async def settled(self) -> None:
        """Returns when it is done, one way or the other."""
        if not self.done:
            await self._wait()

    def hurry(self) -> None:
        """Say that somebody waits for it, or is about to: its commit need not be held back for more to join."""
        if not (self._called_for or self.taken):
            self._called_for = True
            self._wanted()

    def commit(self, position: int, recorded_at: datetime) -> None:
        """Keeps the promise (the writer's side), and leaves it to `wake` to tell. The position is that of the last event."""
        self._position = position
        self._recorded_at = recorded_at
        self.pieces = self.large = ()

    def fail(self, error: EventLogError) -> None:
        """Breaks the promise (the writer's side)."""
        self._error = error
        self.pieces = self.large = ()
        self.wake()

    def wake(self) -> None:
        """Resumes who waits."""
        waiters, self._waiters = self._waiters, None
        for waiter in waiters or ():
            if not waiter.done():
                waiter.set_result(None)

    def _wait(self) -> asyncio.Future[None]:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._waiters is None:
            self._waiters = []
        self._waiters.append(waiter)
        self.hurry()
        return waiter
