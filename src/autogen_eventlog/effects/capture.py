"""Putting stand-ins in the place of an instance's boundaries."""

from __future__ import annotations

import logging
import sys
import weakref
from collections import deque
from typing import Any, cast

from autogen_core import Agent

from autogen_eventlog.codec import TypeRegistry
from autogen_eventlog.effects.boundaries import RESULTS, TOOL, ToolText, family_of
from autogen_eventlog.effects.finding import Found, attributes, find, reached
from autogen_eventlog.effects.shared_state import watch_shared_state
from autogen_eventlog.effects.standins import cell_of, stand_in
from autogen_eventlog.incarnation.incarnation import Incarnation

logger = logging.getLogger(__name__)

_said: set[type] = set()
_registered: weakref.WeakKeyDictionary[TypeRegistry, set[Any]] = weakref.WeakKeyDictionary()


def capture(agent: Agent, incarnation: Incarnation) -> None:
    """Let what an instance asks of models, tools, workbenches, code executors and memories be recorded.

    Each of them that hangs on the instance gets a stand-in in its place; containers are replaced by changed copies, so
    that a list which other agents share stays as it is. What can't be replaced is named in a warning, once per class.
    """
    found = find(agent, incarnation.effects_own)
    stand_ins = _stand_ins(found, incarnation)
    for key, made in (*stand_ins.items(), *((id(one), one) for one in found.stand_ins)):
        cell_of(made).hangs_on(incarnation, found.places[key])
    if stand_ins:
        _Rewrite(found, stand_ins).run()
    _say_what_is_left(agent, found)
    watch_shared_state(agent, incarnation)


def boundaries_of(agent: Agent) -> dict[int, Any]:
    """The boundaries that hang on an instance, by id: a copy of it has the same ones (a `deepcopy` memo)."""
    return dict(find(agent).boundaries)


def _stand_ins(found: Found, incarnation: Incarnation) -> dict[int, Any]:
    made: dict[int, Any] = {}
    for key, boundary in found.boundaries.items():
        family = family_of(boundary)
        assert family is not None
        try:
            made[key] = stand_in(boundary, family, {"tool": boundary.name} if family is TOOL else {})
        except Exception as error:  # a metaclass or __init_subclass__ of the user's
            _say(cast("type[Any]", type(boundary)), f"it can't be captured, so replay would call it again: {error!r}")
        else:
            _allow_results_of(boundary, incarnation.codec.registry)
    return made


class _Rewrite:
    """Sets attributes, and copies containers, that hold a boundary."""

    def __init__(self, found: Found, stand_ins: dict[int, Any]) -> None:
        self._found = found
        self._new: dict[int, Any] = dict(stand_ins)
        self._changed = reached(found, stand_ins)

    def run(self) -> None:
        for holder in self._found.holders:
            for name, value in attributes(holder).items():
                new = self._in_place_of(value)
                if new is not value:
                    try:
                        _set(holder, name, new)
                    except (AttributeError, TypeError) as error:  # a class without a place for it on its instances
                        _say(
                            cast("type[Any]", type(holder)),
                            f"{name!r} can't be captured, so replay would call it again: {error}",
                        )

    def _in_place_of(self, value: Any) -> Any:
        if id(value) in self._new:
            return self._new[id(value)]
        if id(value) not in self._changed:
            return value
        if isinstance(value, dict):
            return self._dict(cast("dict[Any, Any]", value))
        if isinstance(value, list | deque):
            return self._list(cast("list[Any]", value))
        return self._tuple(value)

    def _dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        new: dict[Any, Any] = {}
        self._new[id(value)] = new  # before its items: it may hold itself
        new.update({key: self._in_place_of(item) for key, item in value.items()})
        return new

    def _list(self, value: list[Any]) -> Any:
        new: list[Any] | deque[Any] = [] if not isinstance(value, deque) else _empty(cast("deque[Any]", value))
        self._new[id(value)] = new
        new.extend([self._in_place_of(item) for item in value])
        return new

    def _tuple(self, value: Any) -> Any:
        items = [self._in_place_of(item) for item in value]
        make: Any = getattr(value, "_make", tuple)
        made: Any = make(items)
        self._new[id(value)] = made
        return made


def _empty(like: deque[Any]) -> deque[Any]:
    return deque(maxlen=like.maxlen)


def _set(holder: Any, name: str, value: Any) -> None:
    """Set an attribute past what the class says: of a frozen dataclass, or one that a property hides."""
    stored: dict[str, Any] = getattr(holder, "__dict__", {})
    if name in stored:
        stored[name] = value
    else:
        object.__setattr__(holder, name, value)


def _allow_results_of(boundary: Any, types: TypeRegistry) -> None:
    """Allow what it may answer with, once per class: AutoGen's results, and what its own module and types name."""
    known = _registered.setdefault(types, set())
    if not known:
        types.register(*RESULTS, ToolText)
    cls = cast("type[Any]", type(boundary))
    if cls not in known:
        known.add(cls)
        for base in cls.__mro__:
            module = sys.modules.get(base.__module__)
            if module is not None and base is not object:
                types.register_module(module)
    if family_of(boundary) is TOOL:
        result = boundary.return_type()
        if result not in known:
            known.add(result)
            _allow(types, result)


def _allow(types: TypeRegistry, result: Any) -> None:
    try:
        types.register(result)
    except TypeError:
        return  # str, Any, no annotation and the like


def _say_what_is_left(agent: Agent, found: Found) -> None:
    for tool in found.threaded:
        what = (
            f"the function of tool {tool.name!r} is {type(agent).__name__}'s own code, and AutoGen runs it in a thread"
        )
        _say(type(agent), f"{what}, which replay can't repeat. Make it an `async def`")
    if found.beside:
        what = "which is no attribute of the agent, so it is not recorded and replay would call it again"
        _say(type(agent), f"{'; '.join(found.beside)}, {what}. Keep it in an attribute")
    if not found.complete:
        _say(type(agent), "it holds so many objects that not all were searched for models and tools")


def _say(cls: type, what: str) -> None:
    if cls not in _said:
        _said.add(cls)
        logger.warning("%s.%s: %s", cls.__module__, cls.__qualname__, what)
