"""Points in time as people write them: ISO 8601 with a zone, or how long ago."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import typer

from autogen_eventlog.moments import check_times

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")


def parse_time(text: str, now: datetime | None = None) -> datetime:
    """A zone-aware time.

    Args:
        text: ISO 8601 with a zone (`2026-01-31T14:32:00Z`), or a duration: so long ago (`10m`, `1h30m`, `2d`).
        now: What durations count back from; the clock by default.

    Raises:
        InvalidPoint: It has no zone.
        typer.BadParameter: It is neither.
    """
    text = text.strip()
    if _DURATION.fullmatch(text):
        parts = {_UNITS[unit]: float(number) for number, unit in _PART.findall(text)}
        try:
            return (now or datetime.now(timezone.utc)) - timedelta(**parts)
        except OverflowError as error:
            raise typer.BadParameter(f"{text!r}: so long ago there was no time") from error
    try:  # Python 3.10 doesn't know the Z
        found = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text))
    except ValueError as error:
        example = "2026-01-31T14:32:00+00:00, or how long ago: 10m, 2h, 1d12h"
        raise typer.BadParameter(f"{text!r} is not a time. Give one as {example}") from error
    check_times(found)
    return found


def optional_time(text: str | None) -> datetime | None:
    """`parse_time`, where something was given."""
    return None if text is None else parse_time(text)


def iso(time: datetime | None) -> str | None:
    """For programs: ISO 8601 in UTC."""
    return None if time is None else time.astimezone(timezone.utc).isoformat()


def shown(time: datetime | None) -> str:
    """For people: to the millisecond, in UTC, with the zone."""
    if time is None:
        return ""
    return time.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S.") + f"{time.microsecond // 1000:03d}Z"


def brief(text: str, now: datetime | None = None) -> str:
    """What `shown` gives, where there is little room: to the second, and the date only where it is not today's."""
    if not text:
        return ""
    today = (now or datetime.now(timezone.utc)).astimezone(timezone.utc).strftime("%Y-%m-%d")
    day, clock = text[:10], text[11:19]
    if day == today:
        return f"{clock}Z"
    return f"{day[5:]} {clock}Z" if day[:4] == today[:4] else f"{day} {clock[:5]}Z"
