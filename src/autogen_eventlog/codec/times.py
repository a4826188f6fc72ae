"""Dates, times and their zones. The text is ISO 8601, so that SQL can cast it; what ISO can't say stands beside it."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone, tzinfo
from typing import Any, cast
from zoneinfo import ZoneInfo

from pydantic_core import TzInfo

from autogen_eventlog.codec.walk import Encode, Walk
from autogen_eventlog.codec.wire import DATA, TAG, Decode, Malformed, Node, Refusal, sole, sole_list

_ZONE = "tz"
_FOLD = "fold"
_NAME = "name"


def encode_datetime(value: datetime, walk: Walk, depth: int) -> Node:
    """Keeps microseconds, fold and the concrete kind of zone."""
    return _encode_moment("datetime", value)


def encode_time(value: time, walk: Walk, depth: int) -> Node:
    """As `encode_datetime`."""
    return _encode_moment("time", value)


def _encode_moment(tag: str, value: datetime | time) -> Node:
    form: Node = {TAG: tag, DATA: value.isoformat()}
    zone = value.tzinfo
    if zone is not None and zone is not timezone.utc:
        _add_zone(form, zone)
    if value.fold:
        form[_FOLD] = 1
    return form


def _add_zone(form: Node, zone: tzinfo) -> None:
    # The offset at the end of the ISO text is read back as a plain `timezone`, which then needs nothing beside it.
    if type(zone) is not timezone or len(_arguments(zone)) == 2:
        form[_ZONE] = encode_zone(zone)


def _arguments(zone: timezone) -> tuple[object, ...]:
    # What pickle uses: the only way to tell a zone that was given a name from one that made its own.
    return cast(Any, zone).__getinitargs__()


def encode_zone(zone: tzinfo, walk: Walk | None = None, depth: int = 0) -> Node:
    """A zone by itself.

    Raises:
        Refusal: the zone's class is none of `timezone`, `ZoneInfo` (with a key) and pydantic's `TzInfo`.
    """
    if type(zone) is ZoneInfo and zone.key:
        return {TAG: "zone", DATA: zone.key}
    if type(zone) is timezone:
        offset, *name = _arguments(zone)
        return {TAG: "timezone", DATA: _parts(offset), **({_NAME: name[0]} if name else {})}
    if type(zone) is TzInfo:
        return {TAG: "TzInfo", DATA: _parts(zone.utcoffset(None))}
    name = f"{type(zone).__module__}:{type(zone).__qualname__}"
    raise Refusal(name, "its time zone can't be named; use datetime.timezone or a zoneinfo.ZoneInfo with a key")


def _parts(value: object) -> list[int]:
    if not isinstance(value, timedelta):
        raise Refusal("datetime:timezone", "its time zone has no fixed offset")
    return [value.days, value.seconds, value.microseconds]


def encode_date(value: date, walk: Walk, depth: int) -> Node:
    """ISO text."""
    return {TAG: "date", DATA: value.isoformat()}


def encode_timedelta(value: timedelta, walk: Walk, depth: int) -> Node:
    """Days, seconds, microseconds, as `timedelta` keeps them."""
    return {TAG: "timedelta", DATA: _parts(value)}


def _decode_datetime(node: Node) -> datetime:
    zone, fold = _pop_zone(node), _pop_fold(node)
    value = datetime.fromisoformat(sole(node, str))
    return value.replace(fold=fold) if zone is None else value.replace(tzinfo=zone, fold=fold)


def _decode_time(node: Node) -> time:
    zone, fold = _pop_zone(node), _pop_fold(node)
    value = time.fromisoformat(sole(node, str))
    return value.replace(fold=fold) if zone is None else value.replace(tzinfo=zone, fold=fold)


def _pop_fold(node: Node) -> int:
    fold = node.pop(_FOLD, 0)
    if type(fold) is not int:
        raise Malformed("fold is not a number")
    return fold


def _pop_zone(node: Node) -> tzinfo | None:
    zone = node.pop(_ZONE, None)
    if zone is not None and not isinstance(zone, tzinfo):
        raise Malformed("tz is not a time zone")
    return zone


def _decode_date(node: Node) -> date:
    return date.fromisoformat(sole(node, str))


def _decode_timedelta(node: Node) -> timedelta:
    days, seconds, microseconds = sole_list(node, int, length=3)
    return timedelta(days=days, seconds=seconds, microseconds=microseconds)


def _decode_timezone(node: Node) -> timezone:
    name = node.pop(_NAME, None)
    offset = _decode_timedelta(node)
    if name is None:
        return timezone(offset)
    return timezone(offset, name)


def _decode_tzinfo(node: Node) -> tzinfo:
    return TzInfo(_decode_timedelta(node).total_seconds())


def _decode_zone(node: Node) -> ZoneInfo:
    key = sole(node, str)
    try:
        return ZoneInfo(key)
    except (LookupError, ValueError, OSError) as error:
        raise Malformed(f"this machine has no time zone {key!r}", "Install the tzdata package") from error


DECODERS: dict[str, Decode] = {
    "date": _decode_date,
    "datetime": _decode_datetime,
    "time": _decode_time,
    "timedelta": _decode_timedelta,
    "timezone": _decode_timezone,
    "TzInfo": _decode_tzinfo,
    "zone": _decode_zone,
}
ENCODERS: dict[type, Encode] = {
    datetime: encode_datetime,
    time: encode_time,
    date: encode_date,
    timedelta: encode_timedelta,
    timezone: encode_zone,
    TzInfo: encode_zone,
    ZoneInfo: encode_zone,
}
