"""What stored names may stand for, on loading: what the fresh instance and the agent's own code show (G10).

Nothing is imported. A class may be made if the fresh instance holds an object of it, if the codec may decode it, if it
is of a package of the agent's classes or of AutoGen, or on a fixed list of the standard library's; always only if its module
is loaded. A function, or a class that is not made but referred to, has to be one that the fresh instance holds or that the
agent's code names itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, cast

from autogen_core.code_executor import CodeExecutor
from autogen_core.models import ChatCompletionClient

from autogen_eventlog.codec import Codec
from autogen_eventlog.codec.names import split_arguments, type_name
from autogen_eventlog.codec.upcasting import UPCASTING
from autogen_eventlog.state.arrays import numpy_kind
from autogen_eventlog.state.callables import LOCALS, code_hash, nested, static, unwrapped
from autogen_eventlog.state.form import Malformed
from autogen_eventlog.state.kind import Kind
from autogen_eventlog.state.kinds import Kinds, two_of
from autogen_eventlog.state.objects import Plain
from autogen_eventlog.state.walk import Walk

AUTOGEN: Final = frozenset({"autogen_core", "autogen_agentchat", "autogen_ext"})
STANDARD: Final = frozenset(
    {
        *("asyncio.locks", "asyncio.queues", "asyncio.mixins", "collections", "concurrent.futures._base", "contextlib"),
        *("dataclasses", "ipaddress", "queue", "random", "string", "threading", "types", "weakref"),
    }
)
"""Modules of the standard library whose classes hold data and do nothing by being made."""
_DATA: Final = frozenset(
    {
        *(bool, bytearray, bytes, complex, dict, float, frozenset, int, list, memoryview, object, range, set, slice),
        *(str, tuple, type(None)),
    }
)
_REACHES_OUT: Final = (ChatCompletionClient, CodeExecutor)
"""Of these a state has an object only if the fresh instance has one."""
_CODE: Final = (FunctionType, BuiltinFunctionType, MethodType, type)
_LOOKED_AT: Final = 20_000


class Shown:
    """The classes, functions and code that a state may name when it is loaded into one instance."""

    def __init__(self, agent: object, walk: Walk, kinds: Kinds, codec: Codec) -> None:
        self._objects = objects = [*walk.objects, *walk.referred]
        self._kinds = kinds
        self._codec = codec
        self._own = type(agent)
        own = {cls.__module__.partition(".")[0] for cls in type(agent).__mro__}
        self._packages = (own - sys.stdlib_module_names) | AUTOGEN | ({"__main__"} & own)
        self._made: set[type] = set()
        self._held = {type_name(cls): cls for cls in map(_class_of, objects)}

    def made(self, name: str) -> type | None:
        """The class of which a state may have objects; None if it may not.

        Raises:
            Malformed: two classes have that name.
        """
        name = UPCASTING.today(name)
        found = self._held.get(name) or self._codec.registry.resolve(name) or self._loaded(name)
        found = found or self._kinds.owners.get(name) or self._named_class(name) or self._parametrised(name)
        if found is not None:
            self._check_only(name, found)
            self._made.add(found)
        return found

    def referred(self, name: str) -> Any:
        """The class or function that a state may refer to; None if there is none.

        Raises:
            Malformed: two classes have that name.
        """
        name = UPCASTING.today(name)
        found = self._named.get(name)
        if isinstance(found, type):
            self._check_only(name, found)
        if found is not None:
            return found
        plain = self.made(name) or next((cls for cls in _DATA if type_name(cls) == name), None)
        owner, _, method = name.rpartition(".")
        if plain is not None or ":" not in owner:
            return plain
        cls = self.referred(owner)
        return unwrapped(vars(cls).get(method)) if isinstance(cls, type) else None

    def constant(self, name: Any) -> Any:
        """The object without data that a loaded module or class shows under a name; None if there is none.

        Its class has to be one of which a state may have objects, or `object`.
        """
        module, _, qualname = name.partition(":") if isinstance(name, str) else ("", "", "")
        found = static(module, qualname)
        cls = _class_of(found)
        if cls is object:
            return found
        kind = self._kinds[cls]
        plain = isinstance(kind, Plain) and not kind.take(found).attributes
        return found if plain and self.made(type_name(cls)) is cls else None

    def code(self, module: Any, qualname: Any, digest: Any) -> tuple[CodeType, dict[str, Any]] | None:
        """Code within the agent's own, with the names that it sees; None if there is none like it."""
        return self._code.get((module, digest)) or _codes(self._walked(self._made)).get((module, digest))

    def others(self, name: str, cls: type) -> set[type]:
        """Classes that have the name of this one, among those that the instance, its code and the codec lead to.

        Where a module shows the class under its name, the code is not looked through: it would lead to that one.
        """
        found = set(self._classes_held.get(name, ()))
        found.update(filter(None, (self._codec.registry.registered(name), self._kinds.owners.get(name))))
        if static(cls.__module__, cls.__qualname__) is not cls:
            found.update(self._classes_reached.get(name, ()))
        return found - {cls}

    # -- classes --------------------------------------------------------------------------------------------------

    def _check_only(self, name: str, found: type) -> None:
        if found is not self._own and self.others(name, found):
            raise Malformed(*two_of(name))

    @cached_property
    def _classes_held(self) -> dict[str, set[type]]:
        referred = [value for value in self._objects if isinstance(value, type)]
        return _by_name({*map(_class_of, self._objects), *referred})

    @cached_property
    def _classes_reached(self) -> dict[str, set[type]]:
        return _by_name(value for value in self._reached if isinstance(value, type))

    def _loaded(self, name: str) -> type | None:
        module, _, qualname = name.partition(":")
        found = static(module, qualname)
        if not isinstance(found, type) or type_name(found) != name:
            return None
        allowed = module.partition(".")[0] in self._packages and not issubclass(found, _REACHES_OUT)
        allowed = allowed or (module in STANDARD and isinstance(self._kinds[found], Kind))
        known = (module == "builtins" and issubclass(found, BaseException)) or numpy_kind(found) is not None
        return found if allowed or known else None

    def _named_class(self, name: str) -> type | None:
        found = self._named.get(name)
        return found if isinstance(found, type) and self._is_own(found.__module__) else None

    def _parametrised(self, name: str) -> type | None:
        """A parametrised pydantic model: one that was made already, or the origin with arguments that may be made."""
        split = split_arguments(name)
        origin = None if split is None else self.made(split[0])
        if split is None or origin is None or not hasattr(origin, "__pydantic_generic_metadata__"):
            return None
        for cls in type.__subclasses__(origin):
            if type_name(cls) == name:
                return cls
        arguments = [self.made(part) or self.referred(part) for part in split[1]]
        if any(argument is None for argument in arguments):
            return None
        try:
            made: Any = cast(Any, origin)[tuple(arguments)]
        except TypeError:  # the bound of a type variable
            return None
        return made if type_name(made) == name else None

    # -- code -----------------------------------------------------------------------------------------------------

    def _is_own(self, module: Any) -> bool:
        return isinstance(module, str) and module.partition(".")[0] in self._packages

    @cached_property
    def _named(self) -> dict[str, Any]:
        """Functions and classes that the fresh instance holds, or that the agent's code names."""
        found: dict[str, Any] = {}
        for value in self._reached:
            if (name := self._name(value)) is not None:
                found.setdefault(name, value)
        return found

    def _name(self, value: Any) -> str | None:
        shown = None if isinstance(value, (FunctionType, type)) else self._kinds.constants.method(value)
        return shown if shown or isinstance(value, MethodType) else f"{value.__module__}:{value.__qualname__}"

    @cached_property
    def _code(self) -> _Codes:
        return _codes(self._reached)

    @cached_property
    def _reached(self) -> list[Any]:
        return self._walked([*map(_class_of, self._objects), *self._objects])

    def _walked(self, start: Iterable[Any]) -> list[Any]:
        """Functions and classes that these lead to, through the code of the agent's own packages."""
        seen: dict[int, Any] = {}
        pending: list[Any] = list(start)
        while pending and len(seen) < _LOOKED_AT:
            value = pending.pop()
            if not isinstance(value, _CODE) or id(value) in seen:
                continue
            seen[id(value)] = value
            if self._is_own(value.__module__):
                pending.extend(_of_class(value) if isinstance(value, type) else _of_function(value))
        return list(seen.values())


def _by_name(classes: Iterable[type]) -> dict[str, set[type]]:
    found: dict[str, set[type]] = {}
    for cls in classes:
        found.setdefault(type_name(cls), set()).add(cls)
    return found


_Codes = dict[tuple[str, str], tuple[CodeType, dict[str, Any]]]


def _codes(reached: list[Any]) -> _Codes:
    """The code of functions, and what is written within it, by module and hash."""
    found: _Codes = {}
    for value in reached:
        if isinstance(value, FunctionType):
            for code in nested(value.__code__):
                found.setdefault((value.__module__, code_hash(code)), (code, value.__globals__))
    return found


def _class_of(value: Any) -> type:
    return cast("type[Any]", type(value))


def _of_class(cls: type) -> Iterator[Any]:
    yield from cls.__mro__
    for member in vars(cls).values():
        if isinstance(member, property):
            yield from (member.fget, member.fset)
        else:
            yield unwrapped(member)
            yield getattr(member, "func", None) if type(member).__name__ == "cached_property" else None


def _of_function(function: Any) -> Iterator[Any]:
    """What a function names: in its module, in modules that it names, and in its closure."""
    function = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(function, FunctionType):
        return
    yield getattr(function, "__wrapped__", None)
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue
    enclosing = static(function.__module__, function.__qualname__.partition(LOCALS)[0])
    names = {name for code in nested(function.__code__) for name in code.co_names}
    yield enclosing
    for name in names:
        value = function.__globals__.get(name)
        yield value
        if isinstance(value, ModuleType):
            yield from (vars(value).get(other) for other in names)
