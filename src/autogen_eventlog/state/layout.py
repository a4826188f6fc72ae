"""Whether Python sees all that an instance of a class is made of, by what CPython says of its memory.

A class that a `class` statement makes adds a `__dict__`, a list of weak references and its slots to what it inherits. Whatever
memory is left over belongs to code in C, which alone knows what it means.
"""

from __future__ import annotations

import struct
from types import BuiltinFunctionType, MemberDescriptorType
from typing import Any, Final, cast

_POINTER: Final = struct.calcsize("P")
_BEFORE_LAST: Final = -_POINTER
"""The `__dictoffset__` by which what has items of any number has its dict behind them."""


def hides_data(cls: type, known: type = object) -> bool:
    """Whether instances have memory that neither their attributes nor what is known of a base of theirs account for.

    Args:
        known: what is behind this base of `cls` is somebody else's business.
    """
    current = cls
    while current not in (known, object):
        base = cast("type[Any] | None", current.__base__)
        if base is None or not _accounted_for(current, base):
            return True
        current = base
    return known is object and any(map(_is_made_by_c, cls.__mro__[:-1]))


def _accounted_for(cls: type, base: type) -> bool:
    added = _slots(cls) + _has_own_dict(cls, base) + _has_own_weak_references(cls, base)
    return cls.__itemsize__ == base.__itemsize__ and cls.__basicsize__ == base.__basicsize__ + added * _POINTER


def _slots(cls: type) -> int:
    if "__slots__" not in vars(cls):  # a class written in C has members too, of any size
        return 0
    return sum(isinstance(member, MemberDescriptorType) for member in vars(cls).values())


def _has_own_dict(cls: type, base: type) -> bool:
    """CPython 3.11 and later keep most of them in front of the object, at a negative offset, where they add nothing."""
    behind_items = cls.__itemsize__ > 0 and cls.__dictoffset__ == _BEFORE_LAST
    return not base.__dictoffset__ and (cls.__dictoffset__ > 0 or behind_items)


def _has_own_weak_references(cls: type, base: type) -> bool:
    return not base.__weakrefoffset__ and cls.__weakrefoffset__ > 0


def _is_made_by_c(cls: type) -> bool:
    """Whether a constructor in C makes its instances: there is no other way to make one."""
    return isinstance(vars(cls).get("__new__"), BuiltinFunctionType)
