"""Points in time that a caller gives."""

from __future__ import annotations

from datetime import datetime

from autogen_eventlog.errors import InvalidPoint

_REMEDY = "Give a zone, e.g. datetime.now(timezone.utc), or 2026-01-31T14:32:00+00:00"


def check_times(*times: datetime | None) -> None:
    """Refuse what says no instant. None: no time was given.

    Raises:
        InvalidPoint: One is no datetime, or has no zone.
    """
    for time in times:
        if time is None:
            continue
        if not isinstance(time, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidPoint(repr(time), f"it is a {type(time).__name__}", "Give a datetime with a zone")
        if time.tzinfo is None:
            raise InvalidPoint(time.isoformat(), "it has no time zone", _REMEDY)
