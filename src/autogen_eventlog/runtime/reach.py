"""What hangs on an object, and what a factory leads to; read without running code of the classes met.

Four sorts are told apart. What is *held* has an identity and may change: two who have it see what each other does to it.
What *leads* (a tuple, a function, a frozen dataclass) does not change, but what it holds may: of a variable that a function
rebinds (`nonlocal`), the cell is held. Behind the others nothing is
looked for: what stands for the *outside*, as models and tools do, and *values*, among them what the whole process shares.
"""

from __future__ import annotations

import asyncio
import contextvars
import datetime
import decimal
import dis
import functools
import inspect
import logging
import pathlib
import re
import sys
import types
import uuid
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, is_dataclass
from enum import Enum
from gc import get_referents
from typing import Any, Final, cast

from autogen_core import AgentId, AgentRuntime, BaseAgent, TopicId

from autogen_eventlog.effects.boundaries import family_of, is_own_state
from autogen_eventlog.effects.finding import AUTOGEN, agents_behind, own_classes, package_of
from autogen_eventlog.effects.shared_state import codes
from autogen_eventlog.incarnation.boundary import Boundary
from autogen_eventlog.runtime.users import is_users
from autogen_eventlog.state.attributes import slots

LIMIT: Final = 100_000
"""Objects that one walk looks at, the nearest first. What lies beyond is not seen."""
_MOST_CODE: Final = 1_000
"""Functions that are looked at for what they name."""

HELD: Final = "held"
LEADS: Final = "leads"
VALUE: Final = "value"
OUTSIDE: Final = "outside"
NEITHER: Final = frozenset({VALUE, OUTSIDE})
_BOUNDARY: Final = "boundary"

_VALUES: Final = (
    *(str, bytes, int, float, complex, type(None), type, range, slice, Enum, uuid.UUID, decimal.Decimal, re.Pattern),
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, pathlib.PurePath, AgentId, TopicId),
    *(types.ModuleType, types.CodeType, types.MappingProxyType, types.GenericAlias, type(...), type(NotImplemented)),
    *(types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType),
    *(property, weakref.ref, logging.Logger, asyncio.AbstractEventLoop, contextvars.ContextVar),
    AgentRuntime,
)
_CODE: Final = (
    types.FunctionType,
    types.MethodType,
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    functools.partial,
)
_REBINDING: Final = ("STORE_DEREF", "DELETE_DEREF")
_CACHED: Final = type(functools.lru_cache(lambda: None))
_SEQUENCES: Final = (list, tuple, deque)
_CONSTRUCTION: Final = ("__new__", "__init__", "__post_init__")

_ATOMS: Final = frozenset({str, bytes, int, float, complex, bool, type(None), type})
_FLAT: Final = frozenset({list, tuple, set, frozenset, deque})
_MOST_CLASSES: Final = 4096
_sorts: dict[type[Any], str] = {}


def sort_of(value: Any, own: tuple[type, ...] = ()) -> str:
    """Which of the four sorts an object is of.

    Args:
        own: Classes of boundaries that are the agent's own state.
    """
    cls = cast("type[Any]", type(value))
    sort = _sorts.get(cls)
    if sort is None:
        if len(_sorts) > _MOST_CLASSES:  # those that nothing else knows any more must not stay
            _sorts.clear()
        sort = _sorts[cls] = _sorted(value, cls)
    if sort is _BOUNDARY:
        return HELD if isinstance(value, own) or any(True for _ in agents_behind(value)) else OUTSIDE
    return sort


def _sorted(value: Any, cls: type[Any]) -> str:
    """The sort of all instances of a class. (A plain `object()` can't change: it is only told from others.)"""
    if cls is object or cls.__module__ == "typing" or issubclass(cls, _VALUES):
        return VALUE
    if issubclass(cls, Boundary):
        return OUTSIDE
    frozen = is_dataclass(cls) and cast("Any", cls).__dataclass_params__.frozen
    if frozen or issubclass(cls, (tuple, frozenset, *_CODE)):
        return LEADS
    return _BOUNDARY if family_of(value) is not None and not is_own_state(value) else HELD


def attributes(value: Any) -> dict[str, Any]:
    """What hangs on an object by name: its attributes, or what a function, a method or a partial is bound to."""
    if isinstance(value, types.FunctionType):
        return _bound_to_function(value)
    if isinstance(value, types.CellType):
        return _in_cell(value)
    if isinstance(value, (types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType)):
        return {"__self__": value.__self__}
    if isinstance(value, functools.partial):
        return {"func": value.func, "args": value.args, "keywords": value.keywords}
    found: dict[str, Any] = {}
    for name, slot in slots_of(cast("type[Any]", type(value))).items():
        try:
            found[name] = slot.__get__(value)
        except AttributeError:  # not set
            continue
    return {**found, **own_dict(value)}


def own_dict(value: Any) -> dict[str, Any]:
    """The `__dict__` of an object, live; an empty one if it has none."""
    try:
        found: Any = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return cast("dict[str, Any]", found) if type(found) is dict else {}


@functools.lru_cache(maxsize=4096)
def _is_agent(cls: type[Any]) -> bool:
    return issubclass(cls, BaseAgent)


slots_of = functools.lru_cache(maxsize=4096)(slots)


def _bound_to_function(function: types.FunctionType) -> dict[str, Any]:
    found: dict[str, Any] = {"__defaults__": function.__defaults__, "__kwdefaults__": function.__kwdefaults__}
    rebound = rebinds(function.__code__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        for content in [cell] if name in rebound else _in_cell(cell).values():
            found[name] = content
    return {**function.__dict__, **found}


def _in_cell(cell: types.CellType) -> dict[str, Any]:
    try:
        return {"cell_contents": cell.cell_contents}
    except ValueError:  # a name that is not assigned yet
        return {}


@functools.lru_cache(maxsize=4096)
def rebinds(code: types.CodeType) -> frozenset[str]:
    """The variables from outside that a function, or one within it, gives other values."""
    return frozenset(
        instruction.argval
        for one in codes(code)
        for instruction in dis.get_instructions(one)
        if instruction.opname in _REBINDING and instruction.argval in code.co_freevars
    )


def items(value: Any) -> Iterable[tuple[Any, Any]]:
    """What lies in a container, with its place there."""
    if isinstance(value, dict):
        return cast("dict[Any, Any]", value).items()
    if isinstance(value, _SEQUENCES):
        return enumerate(cast("list[Any]", value))
    return ((None, one) for one in cast("set[Any]", value)) if isinstance(value, (set, frozenset)) else ()


def parts(value: Any) -> Iterable[Any]:
    """All that hangs on an object or lies in it, keys too."""
    cls = cast("type[Any]", type(value))
    if cls in _FLAT:
        return value
    if cls is dict:
        return (*value, *value.values())
    keys: Iterable[Any] = cast("dict[Any, Any]", value) if isinstance(value, dict) else ()
    return (*attributes(value).values(), *keys, *(one for _, one in items(value)))


def named_parts(holder: Any) -> Iterator[tuple[str, Any]]:
    """All that hangs on an object or lies in it, with the step to it."""
    for name, value in attributes(holder).items():
        yield f".{name}", value
    for key, value in items(holder):
        yield ("[…]" if key is None else f"[{key!r}]" if type(key) in (str, int) else f"[{type(key).__name__}]"), value
    if isinstance(holder, dict):
        for key in cast("dict[Any, Any]", holder):
            yield ".keys()", key


@dataclass(frozen=True, slots=True)
class Behind:
    """What hangs on some objects, however deep, by id; the nearest first, up to `LIMIT`."""

    held: dict[int, Any]
    """What may change."""
    outside: dict[int, Any]
    """What stands for the outside."""


def behind(roots: Iterable[Any], *, but: Any, own: tuple[type, ...] = ()) -> Behind:
    """What hangs on these, themselves among it.

    Args:
        but: An instance that is not entered. No more are agents that are met: what hangs on those that live is theirs.
        own: Classes of boundaries that are the agent's own state.
    """
    pending = deque(roots)
    entered = {id(root): root for root in pending}
    found, seen = Behind({}, {}), {id(one): one for one in (but, sys.stdin, sys.stdout, sys.stderr)}
    while pending and len(seen) <= LIMIT:
        value = pending.popleft()
        if id(value) in seen or (sort := sort_of(value, own)) is VALUE:
            continue
        seen[id(value)] = value  # kept, so that no other gets its id
        if sort is OUTSIDE:
            found.outside[id(value)] = value
            continue
        if sort is HELD:
            found.held[id(value)] = value
        if not _is_agent(cast("type[Any]", type(value))) or id(value) in entered:
            pending.extend(part for part in parts(value) if type(part) not in _ATOMS)
    return found


def led_to(factory: Any, made: type[Any]) -> list[Any]:
    """What a factory has at hand when it is called: what it is bound to, and what it and the constructors name.

    Functions and classes that it names are followed if they are the user's, or of the package of the factory or of the
    class it makes.
    """
    return _Code(factory, made).run()


class _Code:
    def __init__(self, factory: Any, made: type[Any]) -> None:
        module = str(getattr(_code_of(factory), "__module__", ""))
        self._packages = {module.partition(".")[0], *map(package_of, own_classes(made))} - AUTOGEN
        self._found: list[Any] = []
        self._seen: dict[tuple[int, type | None], Any] = {}
        self._pending: deque[tuple[Any, type | None]] = deque()
        self._pending.extend(((factory, None), (made, None)))
        if not isinstance(factory, (type, *_CODE)):  # an object that can be called
            cls = cast("type[Any]", type(factory))
            self._pending.extend((call, cls) for call in _in_class(cls, "__call__"))

    def run(self) -> list[Any]:
        while self._pending and len(self._seen) < _MOST_CODE:
            value, owner = self._pending.popleft()
            if (id(value), owner) not in self._seen:
                self._seen[id(value), owner] = value
                self._look_at(value, owner)
        return self._found

    def _look_at(self, value: Any, owner: type | None) -> None:
        if isinstance(value, type):
            self._pending.extend((code, value) for name in _CONSTRUCTION for code in _in_class(value, name))
            if type(value) is not type:  # a metaclass may give out what it has
                self._pending.extend((code, type(value)) for code in _in_class(type(value), "__call__"))
        elif isinstance(value, types.FunctionType):
            self._look_at_function(value, owner)
        elif isinstance(value, (types.MethodType, functools.partial)):
            self._pending.extend((part, None) for part in (*attributes(value).values(), _function_of(value)))
        elif isinstance(value, _CACHED):
            self._pending.extend((part, None) for part in get_referents(value) if not isinstance(part, type))
        elif isinstance(value, (tuple, types.BuiltinFunctionType)) or sort_of(value) not in NEITHER:
            self._found.append(value)

    def _look_at_function(self, function: types.FunctionType, owner: type | None) -> None:
        self._pending.extend((part, None) for part in attributes(function).values())
        names = [name for code in codes(function.__code__) for name in code.co_names]
        for name in names:
            if owner is not None:
                self._pending.extend((value, owner) for value in _in_class(owner, name))
            if name in function.__globals__:
                self._name(function.__globals__[name], names)
            elif name in sys.modules and is_users(name):  # imported in the function
                self._name(sys.modules[name], names)

    def _is_followed(self, module: str) -> bool:
        return module.partition(".")[0] in self._packages or is_users(module)

    def _name(self, value: Any, names: list[str]) -> None:
        """A global that code names, which may name what lies in it too: `settings.STORE`."""
        if isinstance(value, types.ModuleType):
            if self._is_followed(value.__name__):
                for name in set(names) & vars(value).keys():
                    self._name(vars(value)[name], [])
        elif isinstance(value, (type, types.FunctionType, _CACHED)):
            if self._is_followed(str(value.__module__)):
                self._pending.append((cast("Any", value), None))
                self._pending.extend(
                    (one, value) for name in names if isinstance(value, type) for one in _in_class(value, name)
                )
        else:
            self._pending.append((value, None))


def _code_of(factory: Any) -> Any:
    return cast("Any", factory).func if isinstance(factory, functools.partial) else factory


def _function_of(value: Any) -> Any:
    return getattr(value, "__func__", None)


def _in_class(cls: type, name: str) -> Iterator[Any]:
    """What a class and its bases, as far as they are nobody else's, have under a name; of a property, its function."""
    for base in own_classes(cls):
        value = vars(base).get(name)
        if isinstance(value, property):
            value = value.fget
        elif isinstance(value, functools.cached_property):
            value = cast("Any", value).func
        elif isinstance(value, (classmethod, staticmethod)):
            value = cast("Any", value).__func__
        if value is not None:
            yield inspect.unwrap(value) if isinstance(value, types.FunctionType) else value
