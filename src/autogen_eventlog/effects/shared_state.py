"""State that an agent keeps where all of its instances share it: in attributes of its class, in globals of its module.

No log holds it, and a fresh instance finds what others left there. So the first change that a handler makes is said, once
(G11), and what a view does to it is undone after each of its callbacks: else looking at the past would change the live agent.
"""

from __future__ import annotations

import dis
import functools
import inspect
import logging
import types
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from autogen_core import Agent

from autogen_eventlog.effects.finding import own_classes
from autogen_eventlog.incarnation.incarnation import Incarnation

logger = logging.getLogger(__name__)

_CONTAINERS: Final = (list, dict, set, bytearray, deque)
_VALUES: Final = (*_CONTAINERS, bool, int, float, complex, str, bytes, tuple, frozenset, type(None))
_OF_AUTOGEN: Final = "internal_"
_COPIED: Final = 1000
"""Larger ones are copied only once it is known that handlers change them."""


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """One name in a class or a module."""

    holder: Any
    name: str

    @property
    def value(self) -> Any:
        return self.namespace.get(self.name)

    @property
    def namespace(self) -> Any:
        return vars(self.holder) if isinstance(self.holder, type) else self.holder

    def put(self, value: Any) -> None:
        if isinstance(self.holder, type):
            setattr(self.holder, self.name, value)
        else:
            self.holder[self.name] = value

    def __str__(self) -> str:
        where = self.holder.__qualname__ if isinstance(self.holder, type) else self.holder.get("__name__")
        return f"{where}.{self.name}"


class SharedState:
    """Watches what the handlers of one class do to it."""

    def __init__(self, cls: type, places: list[_Place]) -> None:
        self._cls = cls
        self._places = places
        self._said: set[_Place] = set()
        self._before: list[tuple[Any, int]] = []
        self._copies: dict[_Place, tuple[Any, Any]] = {}

    def before(self, owner: object) -> None:
        """A callback of an instance is about to run."""
        self._before = self._look()
        self._copies = dict(self._copied()) if isinstance(owner, Incarnation) and not owner.continues else {}

    def after(self) -> None:
        """It has run."""
        for place, was, now in zip(self._places, self._before, self._look(), strict=True):
            if was[0] is not now[0] or was[1] != now[1]:
                self._say(place)
        for place, (value, content) in self._copies.items():
            _undo(place, value, content)
        self._before, self._copies = [], {}

    def _look(self) -> list[tuple[Any, int]]:
        return [(value, _size(value)) for value in (place.value for place in self._places)]

    def _copied(self) -> Iterator[tuple[_Place, tuple[Any, Any]]]:
        for place in self._places:
            value = place.value
            if not isinstance(value, _CONTAINERS):
                yield place, (value, None)
            elif _size(value) <= _COPIED or place in self._said:
                yield place, (value, _content(value))

    def _say(self, place: _Place) -> None:
        if place not in self._said:
            self._said.add(place)
            logger.warning(
                "%s.%s: a handler changes %s, which all instances share; no log holds it, so restored agents and views do not "
                "have it as it was. Keep it in an attribute that __init__ sets",
                self._cls.__module__,
                self._cls.__qualname__,
                place,
            )


def _size(value: Any) -> int:
    return len(value) if isinstance(value, _CONTAINERS) else 0  # pyright: ignore[reportUnknownArgumentType]


def _content(value: Any) -> list[Any]:
    return list(value.items()) if isinstance(value, dict) else list(value)  # pyright: ignore[reportUnknownArgumentType]


def _is_same(before: list[Any], now: list[Any]) -> bool:
    """By identity: objects of somebody's may act when they are compared. (The pairs of a dict are made anew.)"""
    return len(before) == len(now) and all(map(_is_one, before, now))


def _is_one(before: Any, now: Any) -> bool:
    return before is now or (
        type(before) is type(now) is tuple and len(before) == len(now) == 2 and _is_same([*before], [*now])
    )


def _undo(place: _Place, value: Any, content: list[Any] | None) -> None:
    if place.value is not value:
        place.put(value)
    if content is None or _is_same(content, _content(value)):
        return
    value.clear()
    fill = value.extend if hasattr(value, "extend") else value.update
    fill(content)


def watch_shared_state(agent: Agent, incarnation: Incarnation) -> None:
    """Let what an instance's handlers do to what its class shares be noticed."""
    incarnation.session.around = _of_class(type(agent))


@functools.lru_cache(maxsize=1024)
def _of_class(cls: type) -> SharedState | None:
    places = {(id(place.holder), place.name): place for place in _places(own_classes(cls))}
    return SharedState(cls, list(places.values())) if places else None


def _places(classes: list[type]) -> Iterator[_Place]:
    named = [(cls, name, value) for cls in classes for name, value in list(vars(cls).items())]
    functions = [inspect.unwrap(value) for _, _, value in named if isinstance(value, types.FunctionType)]
    set_somewhere: set[str] = set()
    for function in functions:
        stored = dict(_stored_by(function.__code__))
        set_somewhere |= {name for name, what in stored.items() if what == "STORE_ATTR"}
        yield from (_Place(function.__globals__, name) for name in _globals_of(function, stored))
    for cls, name, value in named:
        changes = isinstance(value, _CONTAINERS) or (isinstance(value, _VALUES) and name in set_somewhere)
        if changes and not name.startswith(("__", _OF_AUTOGEN)):
            yield _Place(cls, name)


def _globals_of(function: Any, stored: dict[str, str]) -> Iterator[str]:
    """Containers that a function names, and globals that it sets."""
    for code in codes(function.__code__):
        for name in code.co_names:
            if stored.get(name) == "STORE_GLOBAL" or isinstance(function.__globals__.get(name), _CONTAINERS):
                yield name


def _stored_by(code: types.CodeType) -> Iterator[tuple[str, str]]:
    for one in codes(code):
        for instruction in dis.get_instructions(one):
            if instruction.opname in ("STORE_ATTR", "STORE_GLOBAL"):
                yield instruction.argval, instruction.opname


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code, and that of the functions in it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from codes(one)
