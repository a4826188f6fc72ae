"""What is different between a recorded event and what the code made instead, field by field.

Payloads are compared as they are stored, as JSON, so that no class of the program is needed to say what differs. Numbers
are compared by how they are written: 1, 1.0 and true are three things.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, cast

from autogen_eventlog.errors import FieldDifference

LARGEST: Final = 1000
"""Differences that are listed, at most."""

_SHORT_TAG, _DATA = "$t", "v"
_NAME = re.compile(r"(\$\.)?[A-Za-z_]\w*\Z")
_MISSING: Final = object()


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


def bytes_differences(path: str, recorded: bytes | None, produced: bytes | None) -> tuple[FieldDifference, ...]:
    """Where two stored values differ, from `path` on; empty if they are the same bytes."""
    if recorded == produced:
        return ()
    forms = _parsed(recorded), _parsed(produced)
    if forms[0] is _MISSING or forms[1] is _MISSING:
        return (FieldDifference(path, _text_of(recorded), _text_of(produced)),)
    return _first(_differing(path, *forms)) or (FieldDifference(path, _text_of(recorded), _text_of(produced)),)


def form_differences(path: str, recorded: Any, produced: Any) -> tuple[FieldDifference, ...]:
    """Where two JSON values differ."""
    return bytes_differences(path, _dumped(recorded), _dumped(produced))


def named(path: str, recorded: object, produced: object) -> FieldDifference:
    """A difference in a plain field; None: it is not there."""
    return FieldDifference(
        path,
        None if recorded is None else json.dumps(recorded, ensure_ascii=False),
        None if produced is None else json.dumps(produced, ensure_ascii=False),
    )


def _dumped(form: Any) -> bytes:
    return json.dumps(form, separators=(",", ":")).encode()


def _parsed(data: bytes | None) -> Any:
    """The stored form; `_MISSING` where there is none, or it is no JSON."""
    if data is None:
        return _MISSING
    try:
        return json.loads(data, parse_int=_Number, parse_float=_Number, parse_constant=_Number)
    except (ValueError, RecursionError):
        return _MISSING


def _text_of(data: bytes | None) -> str | None:
    if data is None:
        return None
    form = _parsed(data)
    return json.dumps(data.decode("utf-8", "replace"), ensure_ascii=False) if form is _MISSING else _written(form)


def _first(differences: Iterator[FieldDifference]) -> tuple[FieldDifference, ...]:
    found: list[FieldDifference] = []
    for difference in differences:
        found.append(difference)
        if len(found) == LARGEST:
            break
    return tuple(found)


def _differing(path: str, recorded: Any, produced: Any) -> Iterator[FieldDifference]:
    recorded, produced = _unwrapped(recorded, produced)
    if type(recorded) is not type(produced):
        yield FieldDifference(path, _written(recorded), _written(produced))
    elif isinstance(recorded, dict):
        yield from _in_objects(path, cast("dict[str, Any]", recorded), produced)
    elif isinstance(recorded, list):
        yield from _in_lists(path, cast("list[Any]", recorded), produced)
    elif recorded != produced:
        yield FieldDifference(path, _written(recorded), _written(produced))


def _unwrapped(recorded: Any, produced: Any) -> tuple[Any, Any]:
    """What two tagged values of one kind (two tuples, two datetimes) hold: the tag is how it is stored, and no field."""
    while _is_tagged(recorded) and _is_tagged(produced) and recorded[_SHORT_TAG] == produced[_SHORT_TAG]:
        recorded, produced = recorded[_DATA], produced[_DATA]
    return recorded, produced


def _is_tagged(form: Any) -> bool:
    return isinstance(form, dict) and cast("dict[str, Any]", form).keys() == {_SHORT_TAG, _DATA}


def _in_objects(path: str, recorded: dict[str, Any], produced: dict[str, Any]) -> Iterator[FieldDifference]:
    keys = [*recorded, *(key for key in produced if key not in recorded)]
    for key in keys:
        yield from _at(_member(path, key), recorded.get(key, _MISSING), produced.get(key, _MISSING))
    if list(recorded) != list(produced) and recorded.keys() == produced.keys():
        yield FieldDifference(f"{path} (order)", _written(list(recorded)), _written(list(produced)))


def _in_lists(path: str, recorded: list[Any], produced: list[Any]) -> Iterator[FieldDifference]:
    for index in range(max(len(recorded), len(produced))):
        left = recorded[index] if index < len(recorded) else _MISSING
        right = produced[index] if index < len(produced) else _MISSING
        yield from _at(f"{path}[{index}]", left, right)


def _at(path: str, recorded: Any, produced: Any) -> Iterator[FieldDifference]:
    if recorded is _MISSING or produced is _MISSING:
        yield FieldDifference(
            path,
            None if recorded is _MISSING else _written(recorded),
            None if produced is _MISSING else _written(produced),
        )
    else:
        yield from _differing(path, recorded, produced)


def _member(path: str, key: str) -> str:
    if key == _SHORT_TAG:
        return f"{path} (type)"
    return f"{path}.{key}" if _NAME.match(key) else f"{path}[{json.dumps(key, ensure_ascii=False)}]"


def _written(form: Any) -> str:
    """A form as JSON text, its numbers as they were written."""
    if isinstance(form, _Number):
        return str(form)
    if isinstance(form, dict):
        members = cast("dict[str, Any]", form).items()
        return "{" + ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {_written(one)}" for key, one in members) + "}"
    if isinstance(form, list):
        return "[" + ", ".join(_written(one) for one in cast("list[Any]", form)) + "]"
    return json.dumps(form, ensure_ascii=False)
