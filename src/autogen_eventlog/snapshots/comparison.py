"""Whether two instances of an agent are in the same state, as far as their attributes tell."""

from __future__ import annotations

import asyncio
import logging
import threading
import types
from collections.abc import Iterator
from typing import Any, cast

from autogen_core import AgentRuntime, CancellationToken

from autogen_eventlog.codec import Codec
from autogen_eventlog.errors import NotEncodable
from autogen_eventlog.incarnation.boundary import Boundary

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
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    type,
)
"""What a fresh instance brings along by itself, and what is no state."""

_BOUND = 1000


def differences(codec: Codec, left: object, right: object) -> list[str]:
    """Paths of attributes that differ, up to a bound; empty if the two are in the same state.

    Data is compared exactly, by its stored form; other objects attribute by attribute; wiring not at all.
    """
    found: list[str] = []
    for path in _differing(codec, "self", left, right, set()):
        found.append(path)
        if len(found) == _BOUND:
            break
    return found


def _differing(codec: Codec, path: str, left: Any, right: Any, seen: set[tuple[int, int]]) -> Iterator[str]:
    if (id(left), id(right)) in seen:
        return
    seen.add((id(left), id(right)))
    if type(left) is not type(right):
        yield path
        return
    if left is right or isinstance(left, _WIRING):
        return
    stored = _stored(codec, left), _stored(codec, right)
    if stored[0] is not None or stored[1] is not None:
        if stored[0] != stored[1]:
            yield path
        return
    yield from _inside(codec, path, left, right, seen)


def _inside(codec: Codec, path: str, left: Any, right: Any, seen: set[tuple[int, int]]) -> Iterator[str]:
    if isinstance(left, dict):
        yield from _differing_items(codec, path, cast("dict[Any, Any]", left), right, seen)
    elif isinstance(left, (list, tuple)):
        numbered = dict(enumerate(cast("list[Any]", left))), dict(enumerate(cast("list[Any]", right)))
        yield from _differing_items(codec, path, *numbered, seen)
    else:
        attributes = _attributes(left), _attributes(right)
        if attributes[0] is None or attributes[1] is None:
            yield path  # nothing to compare it by, so it can't be said to be the same
        else:
            yield from _differing_items(codec, path, attributes[0], attributes[1], seen)


def _differing_items(
    codec: Codec, path: str, left: dict[Any, Any], right: dict[Any, Any], seen: set[tuple[int, int]]
) -> Iterator[str]:
    if list(left) != list(right):
        yield path
        return
    for key in left:
        yield from _differing(codec, f"{path}.{key}", left[key], right[key], seen)


def _stored(codec: Codec, value: object) -> bytes | None:
    try:
        return codec.encode(value).data
    except NotEncodable:
        return None


def _attributes(value: object) -> dict[str, Any] | None:
    found: dict[str, Any] = dict(getattr(value, "__dict__", {}))
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found[name] = getattr(value, name)
    return found if found or hasattr(value, "__dict__") else None
