"""Sameness, stricter than `==`: same concrete types, order, identity within, down to the sign of a zero.

What the tests of exactness measure with. It knows nothing of the codec, and looks at objects from outside, as `vars()`
and slots show them.
"""

from __future__ import annotations

import struct
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from datetime import datetime, time, timezone, tzinfo
from decimal import Decimal
from enum import Enum
from typing import Any, cast
from zoneinfo import ZoneInfo

_IMMUTABLES = ("builtins", "datetime", "decimal", "fractions", "uuid", "pathlib", "pathlib._local", "zoneinfo")
Differ = Callable[[Any, Any, str], "str | None"]


def same(left: object, right: object) -> bool:
    """Whether `right` could stand for `left` without any program noticing, but for identity with objects outside."""
    return difference(left, right) is None


def difference(left: object, right: object) -> str | None:
    """The first place in which two values are not the same, and how; None if they are."""
    return _Comparison().compare(left, right, "value")


class _Comparison:
    """One comparison: pairs up the objects of both sides as it meets them."""

    def __init__(self) -> None:
        self._partners: dict[int, int] = {}
        self._kept: list[object] = []

    def compare(self, left: Any, right: Any, at: str) -> str | None:
        if type(left) is not type(right):
            return f"{at}: {_kind(left)} is not {_kind(right)}"
        if left is None or isinstance(left, (Enum, type)):
            return None if left is right else f"{at}: {left!r} is not {right!r}"
        if not _is_value(left):
            known = self._meet(left, right)
            if known is not None:
                return None if known else f"{at}: shared on one side, separate on the other"
        return self._content(left, right, at)

    def _meet(self, left: object, right: object) -> bool | None:
        """None if neither was met before; else whether they were met together."""
        self._kept += (left, right)
        pair = (self._partners.get(id(left)), self._partners.get(~id(right)))
        if pair == (None, None):
            self._partners[id(left)] = id(right)
            self._partners[~id(right)] = id(left)
            return None
        return pair == (id(right), id(left))

    def _content(self, left: Any, right: Any, at: str) -> str | None:
        seen_whole = _WHOLES.get(type(left).__module__, _protobuf if hasattr(left, _SERIALIZE) else None)
        if seen_whole is not None:
            return None if seen_whole(left) == seen_whole(right) else f"{at}: {left!r} is not {right!r}"
        for kind, of_kind in self._differs():
            if isinstance(left, kind):
                return of_kind(left, right, at) or self._attributes(left, right, at)
        if not _has_attributes(left):
            return None if left == right else f"{at}: {left!r} != {right!r}"
        return self._attributes(left, right, at)

    def _differs(self) -> Iterator[tuple[Any, Differ]]:
        yield float, _float
        yield complex, self._complex
        yield (str, int, bytes, bytearray), _builtin
        yield (datetime, time), self._moment
        yield tzinfo, _zone
        yield Decimal, _decimal
        yield (list, tuple), self._sequence
        yield deque, self._deque
        yield dict, self._dict
        yield (set, frozenset), self._set
        yield slice, self._slice

    def _complex(self, left: complex, right: complex, at: str) -> str | None:
        return _float(left.real, right.real, f"{at}.real") or _float(left.imag, right.imag, f"{at}.imag")

    def _slice(self, left: slice, right: slice, at: str) -> str | None:
        return self._all(_ends(left), _ends(right), at)

    def _sequence(self, left: object, right: object, at: str) -> str | None:
        own: Any = list if isinstance(left, list) else tuple
        return self._all(list(own.__iter__(left)), list(own.__iter__(right)), at)

    def _all(self, left: list[object], right: list[object], at: str) -> str | None:
        if len(left) != len(right):
            return f"{at}: {len(left)} items, not {len(right)}"
        found = (self.compare(a, b, f"{at}[{i}]") for i, (a, b) in enumerate(zip(left, right, strict=True)))
        return next((problem for problem in found if problem), None)

    def _deque(self, left: deque[object], right: deque[object], at: str) -> str | None:
        if left.maxlen != right.maxlen:
            return f"{at}: maxlen {left.maxlen} is not {right.maxlen}"
        return self._all(list(left), list(right), at)

    def _dict(self, left: dict[object, object], right: dict[object, object], at: str) -> str | None:
        if isinstance(left, defaultdict) and left.default_factory is not cast(Any, right).default_factory:
            return f"{at}: another default_factory"
        own: Any = OrderedDict if isinstance(left, OrderedDict) else dict
        keys, others = list(own.keys(left)), list(own.keys(right))
        return self._all(keys, others, f"{at}.keys") or self._all(list(own.values(left)), list(own.values(right)), at)

    def _set(self, left: set[object], right: set[object], at: str) -> str | None:
        remaining = list(right)
        for element in left:
            partner = next((i for i, other in enumerate(remaining) if self._trial(element, other)), None)
            if partner is None:
                return f"{at}: {element!r} has no partner"
            self.compare(element, remaining.pop(partner), at)
        return f"{at}: {remaining!r} left over" if remaining else None

    def _trial(self, left: object, right: object) -> bool:
        attempt = _Comparison()
        attempt._partners = dict(self._partners)
        return attempt.compare(left, right, "") is None

    def _moment(self, left: datetime | time, right: datetime | time, at: str) -> str | None:
        if left.replace(tzinfo=None, fold=0) != right.replace(tzinfo=None, fold=0) or left.fold != right.fold:
            return f"{at}: {left!r} is not {right!r}"
        return self.compare(left.tzinfo, right.tzinfo, f"{at}.tzinfo")

    def _attributes(self, left: object, right: object, at: str) -> str | None:
        mine, others = _attributes(left), _attributes(right)
        if list(mine) != list(others):
            return f"{at}: attributes {list(mine)} are not {list(others)}"
        found = (self.compare(mine[name], others[name], f"{at}.{name}") for name in mine)
        return next((problem for problem in found if problem), None)


def _kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__} {value!r}"


def _is_value(value: object) -> bool:
    """Whether identity is no part of what it is: immutable by its type, or a frozen class that compares by content."""
    if isinstance(value, (list, dict, set, bytearray, deque)):
        return False
    if type(value).__module__ in _IMMUTABLES:
        return True
    if type(value).__eq__ is object.__eq__:
        return False
    parameters: Any = getattr(type(value), "__dataclass_params__", None)
    if parameters is not None:
        return bool(parameters.frozen)
    return not hasattr(value, "model_fields_set") and not hasattr(value, _SERIALIZE)


def _float(left: float, right: float, at: str) -> str | None:
    if left != left and right != right:
        return None if _sign(left) == _sign(right) else f"{at}: NaN of another sign"
    mine, others = struct.pack("d", left), struct.pack("d", right)
    return None if mine == others else f"{at}: {left!r} is not {right!r}"


def _sign(value: float) -> int:
    return struct.pack(">d", value)[0] & 0x80


def _builtin(left: Any, right: Any, at: str) -> str | None:
    own: Any = next(base for base in (str, int, bytes, bytearray) if isinstance(left, base))
    return None if own.__eq__(left, right) else f"{at}: {left!r} is not {right!r}"


def _decimal(left: Decimal, right: Decimal, at: str) -> str | None:
    return None if left.as_tuple() == right.as_tuple() else f"{at}: {left!r} is not {right!r}"


def _zone(left: tzinfo, right: tzinfo, at: str) -> str | None:
    if isinstance(left, ZoneInfo):
        same_zone = left.key == cast(ZoneInfo, right).key
    elif isinstance(left, timezone):
        same_zone = repr(left) == repr(right) and left.tzname(None) == right.tzname(None)
    else:
        same_zone = repr(left) == repr(right)
    return None if same_zone else f"{at}: {left!r} is not {right!r}"


def _ends(value: slice) -> list[object]:
    return [value.start, value.stop, value.step]


def _attributes(value: object) -> dict[str, object]:
    slots = {
        name: getattr(value, name)
        for base in reversed(type(value).__mro__)
        for name in _slot_names(base)
        if hasattr(value, name)
    }
    return {**slots, **getattr(value, "__dict__", {})}


def _slot_names(base: type) -> Iterator[str]:
    slots: Any = base.__dict__.get("__slots__", ())
    for name in (slots,) if isinstance(slots, str) else slots:
        if name not in ("__dict__", "__weakref__"):
            hidden = name.startswith("__") and not name.endswith("__")
            yield f"_{base.__name__.lstrip('_')}{name}" if hidden else name


def _has_attributes(value: object) -> bool:
    return bool(_attributes(value))


def _protobuf(value: Any) -> object:
    return value.SerializePartialToString(deterministic=True)


def _picture(value: Any) -> object:
    return value.mode, value.size, value.tobytes(), value.info


_SERIALIZE = "SerializePartialToString"
_WHOLES: dict[str, Callable[[Any], object]] = {
    "pathlib": str,
    "pathlib._local": str,
    "PIL.Image": _picture,
    "pydantic_core._pydantic_core": repr,
}
"""Classes whose attributes are caches or hidden: what else says all about them."""
