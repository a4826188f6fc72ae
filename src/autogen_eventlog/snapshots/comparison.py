"""Whether two instances of an agent are in the same state, as far as their attributes tell."""

from __future__ import annotations

import asyncio
import logging
import threading
import types
from collections.abc import Iterator
from itertools import islice
from typing import Any, cast

from autogen_core import AgentRuntime, CancellationToken

from autogen_eventlog.codec import Codec
from autogen_eventlog.errors import NotEncodable
from autogen_eventlog.incarnation.boundary import Boundary
from autogen_eventlog.state.layout import hides_data

_WIRING = (
    AgentRuntime,
    Boundary,
    CancellationToken,
    logging.Logger,
    logging.LoggerAdapter,
    asyncio.AbstractEventLoop,
    threading.Thread,
    type(threading.Lock()),
    type(threading.RLock()),
)
"""What a fresh instance brings along by itself, and what is no state."""
_CODE = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)
"""What is the same in two instances only if it is one object, or made by the same code."""
_WITHOUT_IDENTITY = (str, bytes, int, float, complex, tuple, frozenset, type(None), range)

_BOUND = 1000


def differences(codec: Codec, left: object, right: object) -> list[str]:
    """Paths of attributes that differ, up to a bound; empty if the two are in the same state.

    Data is compared exactly, by its stored form; functions and methods by their code and what they are bound to; other objects
    attribute by attribute; what is one object in two places must be one in the other too. Wiring is not compared, nor what is
    its own copy. What shows neither attributes nor an equality of its own can't be said to be the same, so it differs.
    """
    return list(islice(_Comparison(codec).of("self", left, right), _BOUND))


class _Comparison:
    """One walk through two objects side by side."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._pairs: dict[int, object] = {}
        self._taken: dict[int, object] = {}

    def of(self, path: str, left: Any, right: Any) -> Iterator[str]:
        if type(left) is not type(right):
            yield path
            return
        if isinstance(left, _WIRING) or _is_its_own_copy(left):
            return
        if not isinstance(left, _WITHOUT_IDENTITY):
            if id(left) in self._pairs or id(right) in self._taken:
                if self._pairs.get(id(left)) is not right:
                    yield path
                return
            self._pairs[id(left)], self._taken[id(right)] = right, left
        if left is not right:
            yield from self._two(path, left, right)

    def _two(self, path: str, left: Any, right: Any) -> Iterator[str]:
        if isinstance(left, types.MethodType):
            if left.__func__ is not right.__func__:
                yield path
            yield from self.of(f"{path}.__self__", left.__self__, right.__self__)
        elif isinstance(left, _CODE):
            if not _is_same_code(left, right):
                yield path
        elif not _is_plain(left):
            stored = _stored(self._codec, left), _stored(self._codec, right)
            if stored[0] is None and stored[1] is None:
                yield from self._inside(path, left, right)
            elif stored[0] != stored[1]:
                yield path
        else:
            yield from self._inside(path, left, right)

    def _inside(self, path: str, left: Any, right: Any) -> Iterator[str]:
        if isinstance(left, dict):
            yield from self._items(path, cast("dict[Any, Any]", left), right)
        elif isinstance(left, (list, tuple)):
            numbered = dict(enumerate(cast("list[Any]", left))), dict(enumerate(cast("list[Any]", right)))
            yield from self._items(path, *numbered)
        elif hides_data(cls := cast("type[object]", type(left))):
            if cls.__eq__ is object.__eq__ or left != right:
                yield path
        else:
            yield from self._items(path, _attributes(left), _attributes(right))

    def _items(self, path: str, left: dict[Any, Any], right: dict[Any, Any]) -> Iterator[str]:
        if list(left) != list(right):
            yield path
            return
        for key in left:
            yield from self.of(f"{path}.{key}", left[key], right[key])


def _is_its_own_copy(value: object) -> bool:
    """Whether its class says that a copy of it is itself, as one does that stands for something outside."""
    copied = getattr(type(value), "__deepcopy__", None)
    try:
        return copied is not None and copied(value, {}) is value
    except Exception:  # the class's own code: it is compared like all else
        return False


def _is_plain(value: object) -> bool:
    """Whether it is looked into at once: in what it holds, identity may matter."""
    return type(value) in (list, dict)


def _is_same_code(left: Any, right: Any) -> bool:
    """Of two objects: functions that were made by one piece of code, and hold nothing of their own."""
    code = getattr(left, "__code__", None)
    return code is not None and code is getattr(right, "__code__", None) and not left.__closure__


def _stored(codec: Codec, value: object) -> bytes | None:
    try:
        return codec.encode(value).data
    except NotEncodable:
        return None


def _attributes(value: object) -> dict[str, Any]:
    found: dict[str, Any] = dict(getattr(value, "__dict__", {}))
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found[name] = getattr(value, name)
    return found
