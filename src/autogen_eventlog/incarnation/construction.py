"""The making of an instance: what its constructor draws is recorded, and drawn again by each instance with its past.

A constructor is no delivery, and its instance is not live yet. What it read of clocks, ids and randomness goes into the
first activation of the stream, and comes out of it for every fresh instance (a view, a recovered agent).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from datetime import datetime
from random import Random
from typing import Any, TypeVar, cast

from autogen_eventlog.events import RecordedEvent
from autogen_eventlog.replay.journal import READINGS
from autogen_eventlog.replay.reading import READER
from autogen_eventlog.replay.session import Mode, Session

CONSTRUCTION = "construction"
"""In the metadata of an activation: readings as pairs of kind and value."""

T = TypeVar("T")


class Construction:
    """What the making of one instance reads (a `Reader`)."""

    def __init__(self, session: Session) -> None:
        self.generator: Random | None = None
        self.families: frozenset[str] = frozenset()
        """Those that are recorded."""
        self.own: tuple[type, ...] = ()
        """Classes of models, tools … that are the agent's own state."""
        self.readings: list[list[Any]] = []
        """What was read, as pairs of kind and value."""
        self.recorded = False
        """Whether these come from a record."""
        self.differs = False
        """Whether something else was asked for than was recorded."""
        self._session = session
        self._limit: frozenset[str] | None = None
        self._to_come: list[list[Any]] = []
        self._running = False

    def follow(self, activation: RecordedEvent | None) -> None:
        """Say what instances with this past were made by: the first activation of it, if it has one."""
        if activation is not None:
            producer: dict[str, Any] = activation.metadata.get("producer") or {}
            self._limit = frozenset(producer.get(READINGS) or ())
            self._answer_with(activation.metadata.get(CONSTRUCTION) or [])

    def follow_record(self, readings: list[list[Any]], families: frozenset[str]) -> None:
        """Say the same from a snapshot, which holds it."""
        self._limit = families
        self._answer_with(readings)

    def repeat(self, other: Construction) -> None:
        """Make an instance as another was made."""
        self._answer_with(other.readings)

    def _answer_with(self, readings: list[list[Any]]) -> None:
        self.recorded, self._to_come = True, list(readings)

    async def run(self, factory: Callable[[], T | Awaitable[T]]) -> T:
        """Make the instance."""
        token = READER.set(self)
        self._running = True
        try:
            made = factory()
            return cast("T", await made if inspect.isawaitable(made) else made)
        finally:
            self._running = False
            READER.reset(token)
            self.differs |= bool(self._to_come)

    # -- reading --------------------------------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The session of the instance."""
        return self._session

    @property
    def running(self) -> bool:
        return self._running and self._session.in_thread

    @property
    def replays(self) -> bool:
        return False  # it is run each time, delays too

    def records(self, family: str) -> bool:
        return family in self.families and (self._limit is None or family in self._limit)

    @property
    def asked(self) -> str:
        """What was read, in words."""
        return ", ".join(kind for kind, _ in self.readings) or "nothing"

    def reading(self, kind: str, read: Callable[[], Any], otherwise: Any) -> Any:
        """The recorded value; one that is read now where there is no record, or it has another reading here."""
        if self._to_come and self._to_come[0][0] == kind:
            value = self._to_come.pop(0)[1]
        else:
            self.differs |= self.recorded
            value = read()
        self.readings.append([kind, value])
        return value

    def seen(self, clock: str, nanoseconds: int) -> None:
        self._session.seen(clock, nanoseconds)

    def offset(self, clock: str, now: int) -> int:
        return self._session.offset(clock, now) if self._session.mode is Mode.LIVE else 0

    def last_seen(self, clock: str) -> int:
        return self._session.last_seen(clock)

    @property
    def moment(self) -> datetime:
        return self._session.moment

    def filler(self, size: int) -> bytes:
        return self._session.filler(size)

    @property
    def scope(self) -> Construction:
        return self
