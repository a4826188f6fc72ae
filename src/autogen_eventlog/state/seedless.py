"""Hashes that are the same in every process: of numbers, and of what is made of them. Those of texts follow a seed."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from dataclasses import Field
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from types import FunctionType
from typing import Any, Final, cast
from uuid import UUID

from autogen_eventlog.codec.bases import own
from autogen_eventlog.state.attributes import Attributes

_OF_NUMBERS: Final = frozenset(
    own(cls, "__hash__") for cls in (int, float, complex, Decimal, Fraction, UUID, timedelta)
)
_OF_TUPLE: Final = own(tuple, "__hash__")
_OF_FROZENSET: Final = own(frozenset, "__hash__")
_OF_NONE: Final = hash(None) if sys.version_info >= (3, 12) else None  # an address before
_WHOLE: Final = frozenset({int, bool, UUID})
_DEEPEST: Final = 10
_GENERATED: Final = "<string>"
"""The file of code that `dataclasses` writes."""


class Standin:
    """Hashes as it is told to, and is equal to nothing else: in a set it lies where what it stands for would lie."""

    __slots__ = ("_hash",)

    def __init__(self, hash_: int) -> None:
        self._hash = hash_

    def __hash__(self) -> int:
        return self._hash


def seedless_hashes(values: Collection[Any]) -> list[int] | None:
    """The hashes of values if none of them follows the seed, or an address; None otherwise. No code of the agent's runs."""
    if all(type(value) in _WHOLE for value in values):
        return list(map(hash, values))
    return _all(values, 0)


def _all(values: Iterable[Any], depth: int) -> list[int] | None:
    found: list[int] = []
    for value in values:
        one = _one(value, depth)
        if one is None:
            return None
        found.append(one)
    return found


def _one(value: Any, depth: int) -> int | None:
    cls = cast("type[Any]", type(value))
    by: Any = cls.__hash__
    if by in _OF_NUMBERS:
        return None if _is_nan(value) else by(value)
    if value is None:
        return _OF_NONE
    if depth > _DEEPEST:
        return None
    if by is _OF_TUPLE:
        return _joined(tuple, _all(own(tuple, "__iter__")(value), depth + 1))
    if by is _OF_FROZENSET:
        return _joined(frozenset, _all(own(frozenset, "__iter__")(value), depth + 1))
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.number):
        return hash(value) if value == value else None
    return _of_dataclass(value, cls, by, depth) if isinstance(by, FunctionType) else None


def _is_nan(value: Any) -> bool:
    if isinstance(value, Decimal):
        return own(Decimal, "is_nan")(value)
    return isinstance(value, (float, complex)) and complex(value) != complex(value)


def _joined(made: Any, hashes: list[int] | None) -> int | None:
    return None if hashes is None else hash(made(map(Standin, hashes)))


def _of_dataclass(value: Any, cls: type, by: FunctionType, depth: int) -> int | None:
    """That of a frozen dataclass is the hash of the tuple of its fields, if `dataclasses` wrote it."""
    owner = next(base for base in cls.__mro__ if "__hash__" in vars(base))
    if by.__code__.co_filename != _GENERATED or "__dataclass_params__" not in vars(owner):
        return None
    attributes = Attributes(cls).read(value)
    fields = cast("dict[str, Field[Any]]", vars(owner)["__dataclass_fields__"]).values()
    named = [one.name for one in fields if (one.compare if one.hash is None else one.hash)]
    values = [attributes[name] for name in named if name in attributes]
    return _joined(tuple, _all(values, depth + 1)) if len(values) == len(named) else None
