"""Points of the past: a version, a position, or a wall-clock time (G7)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from autogen_eventlog.errors import EventsMissing, InvalidPoint, UnknownStream
from autogen_eventlog.moments import check_times
from autogen_eventlog.postgres.reader import Reader

SETTLE_SECONDS = 10.0
"""How long a question about the present waits for transactions that are under way."""

_CLOCK_TOLERANCE = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Point:
    """Exactly one of the three, or none: now."""

    at: datetime | None = None
    version: int | None = None
    position: int | None = None

    def __str__(self) -> str:
        if self.at is not None:
            return self.at.isoformat()
        if self.version is not None:
            return f"version {self.version}"
        return "now" if self.position is None else f"position {self.position}"

    @property
    def is_now(self) -> bool:
        return self.at is None and self.version is None and self.position is None

    async def version_in(self, reader: Reader, stream: str) -> int:
        """The version of a stream at this point, the same however often it is asked.

        Raises:
            InvalidPoint: The point lies ahead: a time in the future, a version or position past the end.
            UnknownStream: The stream has no event at this point.
            EventsMissing: What it had at this point is not kept any more.
        """
        head = await reader.head(stream)
        if head is None or head.version == 0:
            raise UnknownStream(stream, str(self))
        if self.version is not None:
            return self._checked_version(head.version, stream)
        if self.is_now:
            return head.version
        await self.settle(reader)
        found = await reader.version_at(stream, position=self.position, time=self.at)
        if found == 0:
            first = await reader.first_version(stream)
            if first > 1:
                raise EventsMissing.gone(stream, 1, first - 1, first - 1)
            raise UnknownStream(stream, str(self))
        return found

    def _checked_version(self, last: int, stream: str) -> int:
        assert self.version is not None
        if self.version > last:
            remedy = f"Give a version from 1 to {last}"
            raise InvalidPoint(str(self), f"stream {stream!r} ends at version {last}", remedy)
        return self.version

    async def settle(self, reader: Reader) -> None:
        """Wait until nothing more can be recorded at or before this time or position.

        Raises:
            InvalidPoint: It lies in the future, or a transaction under way keeps it open for too long.
        """
        if self.at is not None:
            await self._passed(self.at)
        try:
            horizon = await reader.settle(SETTLE_SECONDS)
        except TimeoutError as error:
            remedy = "End that transaction (see pg_stat_activity), or give a version"
            raise InvalidPoint(str(self), str(error), remedy) from error
        if self.position is not None and self.position >= horizon:
            raise InvalidPoint(
                str(self), f"the log has not got there (it is below {horizon})", "Give a smaller position"
            )

    async def _passed(self, at: datetime) -> None:
        """Wait until a time has passed, if it is about to."""
        now = datetime.now(timezone.utc)
        if at > now + _CLOCK_TOLERANCE:
            raise InvalidPoint(str(self), f"it lies in the future (now: {now.isoformat()})", "Give a past time")
        if at > now:
            await asyncio.sleep((at - now).total_seconds())


def point(*, at: datetime | None = None, version: int | None = None, position: int | None = None) -> Point:
    """A point from what a caller gave.

    Raises:
        InvalidPoint: More than one was given, what is no time with a zone, or no number from 1 on.
    """
    given = [name for name, value in (("at", at), ("version", version), ("position", position)) if value is not None]
    if len(given) > 1:
        raise InvalidPoint(", ".join(given), "more than one was given", "Give one of at, version and position")
    check_times(at)
    for name, number in (("version", version), ("position", position)):
        if number is None:
            continue
        if not isinstance(number, int) or isinstance(number, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidPoint(f"{name} {number!r}", f"it is a {type(number).__name__}", "Give a whole number")
        if number < 1:
            raise InvalidPoint(f"{name} {number}", "the first is 1", f"Give a {name} from 1 on")
    return Point(at, version, position)
