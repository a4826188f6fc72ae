"""What a factory made, in short: the values of a fresh instance's attributes, to be told from what it makes later.

Numbers and flags are kept as they are. Of everything else there is a digest: parameters may be secrets, and the log keeps what
it is told.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final

PARAMETERS: Final = "parameters"
"""In an activation's producer: values by path."""

_LONGEST = 40
"""Paths that are kept one by one; the rest have one digest."""
_REST: Final = "others"
_NAMED = 3
_NOTHING: Final = "nothing"
"""No digest looks like it."""


def summary(values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The values of an instance's attributes, by path, as they are recorded."""
    kept: dict[str, Any] = {}
    rest: list[str] = []
    for path, value in values:
        if len(kept) < _LONGEST:
            kept[path] = _short(value)
        else:
            rest.append(f"{path}={_short(value)}")
    if rest:
        kept[_REST] = _digest("\n".join(rest))
    return kept


def remade(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Which values of a fresh instance differ between two summaries, in words; empty where one of them says nothing."""
    if not recorded or not now:
        return []
    paths = [*recorded, *(path for path in now if path not in recorded)]
    return [_words(path, recorded, now) for path in paths if recorded.get(path, _NOTHING) != now.get(path, _NOTHING)]


def in_words(differing: list[str]) -> str:
    """That a factory makes something else now."""
    more = f", and {len(differing) - _NAMED} more" if len(differing) > _NAMED else ""
    return f"its factory now makes it with other parameters ({', '.join(differing[:_NAMED])}{more})"


def _words(path: str, recorded: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    sides = [_side(one.get(path, _NOTHING)) for one in (recorded, now)]
    return path if None in sides else f"{path}: {sides[0]} and {sides[1]}"


def _side(value: Any) -> str | None:
    """A value in words; None where only its digest is known."""
    if value == _NOTHING:
        return _NOTHING
    return None if isinstance(value, str) else json.dumps(value)


def _short(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float)) else _digest(json.dumps(value))


def _digest(text: str) -> str:
    return f"#{sha256(text.encode()).hexdigest()[:8]}"
