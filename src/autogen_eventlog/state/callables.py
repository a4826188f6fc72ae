"""Functions, methods and partials: their code comes from what is loaded here, what they hold is state (G10).

A function is stored by where its code stands in the agent's source, and by a hash of it; never the code itself. Its closure's
variables, defaults and attributes are stored as any other state.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import types
from collections.abc import Iterator
from typing import Any, Final, cast

from autogen_eventlog.codec.bases import own
from autogen_eventlog.state.attributes import Attributes
from autogen_eventlog.state.form import Malformed
from autogen_eventlog.state.kind import Kind
from autogen_eventlog.state.parts import NotState, Parts

LOCALS: Final = ".<locals>"


class Function(Kind):
    """Functions that no module shows: lambdas, and functions that a function made."""

    def take(self, value: Any) -> Parts:
        own: dict[str, Any] = value.__dict__
        attributes = {"__defaults__": value.__defaults__, "__kwdefaults__": value.__kwdefaults__, **own}
        return Parts(attributes, items=list(value.__closure__ or ()), data=description(value))

    def empty(self, data: Any) -> Any:
        raise Malformed("a function is not made without its code")

    def fill(self, instance: Any, parts: Parts) -> None:
        attributes = dict(parts.attributes or {})
        instance.__defaults__ = attributes.pop("__defaults__")
        instance.__kwdefaults__ = attributes.pop("__kwdefaults__")
        own: dict[str, Any] = instance.__dict__
        own.clear()
        own.update(attributes)


def description(function: types.FunctionType) -> dict[str, str]:
    """What tells a function's code from others'."""
    return {
        "module": function.__module__ or "",
        "name": function.__name__,
        "qualname": function.__qualname__,
        "code": code_hash(function.__code__),
    }


@functools.lru_cache(maxsize=4096)
def code_hash(code: types.CodeType) -> str:
    """Of what the code does, wherever its file lies and on whatever line it begins."""
    digest = hashlib.sha256(code.co_code)
    names = (code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    digest.update(repr((names, code.co_flags, code.co_argcount, code.co_posonlyargcount)).encode("utf-8", "replace"))
    for constant in code.co_consts:
        digest.update(_constant(constant).encode("utf-8", "replace"))
    return digest.hexdigest()[:16]


def _constant(constant: Any) -> str:
    if isinstance(constant, types.CodeType):
        return code_hash(constant)
    if isinstance(constant, frozenset):  # its repr follows the seed of hashes
        return repr(sorted(map(repr, cast("frozenset[object]", constant))))
    return f"{type(constant).__name__} {constant!r}"


def made(code: types.CodeType, namespace: dict[str, Any], data: dict[str, str], cells: list[Any]) -> Any:
    """A new function of code that is loaded here."""
    function = types.FunctionType(code, namespace, data["name"], None, tuple(cells))
    function.__qualname__ = data["qualname"]
    function.__module__ = data["module"]
    return function


def shown_by_module(value: Any) -> bool:
    """Whether a loaded module shows this very function or class under its name."""
    return static(getattr(value, "__module__", None), getattr(value, "__qualname__", "")) is value


def static(module: Any, qualname: Any) -> Any:
    """What a loaded module shows under a dotted name, without running code; None if nothing."""
    found: Any = sys.modules.get(module) if isinstance(module, str) else None
    for name in qualname.split(".") if isinstance(qualname, str) else ():
        if not isinstance(found, (type, types.ModuleType)):
            return None
        found = unwrapped(vars(found).get(name))
    return found


def unwrapped(member: Any) -> Any:
    """What a class's namespace holds under a name, out of a static or class method."""
    return cast(Any, member).__func__ if isinstance(member, (staticmethod, classmethod)) else member


def nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and those that are written within it."""
    pending = [code]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(constant for constant in current.co_consts if isinstance(constant, types.CodeType))


class Cell(Kind):
    """A variable that functions share."""

    def take(self, value: Any) -> Parts:
        try:
            return Parts(items=[value.cell_contents])
        except ValueError:  # not assigned yet
            return Parts(items=[])

    def empty(self, data: Any) -> Any:
        return types.CellType()

    def fill(self, instance: Any, parts: Parts) -> None:
        if parts.items:
            (instance.cell_contents,) = parts.items
        else:
            del instance.cell_contents


class Method(Kind):
    """Methods bound to an object. They are put together again from the object's class."""

    shared = False

    def take(self, value: Any) -> Parts:
        name = value.__name__
        if not _is_method(value, name):
            raise NotState("it is a method that the class of its object does not show under its name")
        return Parts(items=[value.__self__], data=name)

    def make(self, parts: Parts) -> Any:
        (instance,) = parts.items or (None,)
        found: Any = _of_class(instance, parts.data)
        if not isinstance(found, _METHODS):
            raise Malformed(f"an object of class {type(instance).__qualname__!r} has no method {parts.data!r}")
        bind = cast(Any, found).__get__
        return bind(None, instance) if isinstance(instance, type) else bind(instance)


_METHODS: Final = (types.FunctionType, types.MethodDescriptorType, classmethod)


def _of_class(instance: Any, name: Any) -> Any:
    classes = cast("type[Any]", instance if isinstance(instance, type) else type(instance)).__mro__
    return next((vars(cls)[name] for cls in classes if name in vars(cls)), None)


def _is_method(value: Any, name: str) -> bool:
    found = _of_class(value.__self__, name)
    if isinstance(value, types.MethodType):
        return value.__func__ is (cast(Any, found).__func__ if isinstance(found, classmethod) else found)
    return isinstance(found, types.MethodDescriptorType)


class Partial(Kind):
    """`functools.partial`."""

    def __init__(self, name: str, cls: type) -> None:
        super().__init__(name, cls)
        self._attributes = Attributes(cls)

    def take(self, value: Any) -> Parts:
        function, arguments, keywords = (vars(functools.partial)[name].__get__(value) for name in _PARTIAL)
        return Parts(self._attributes.read(value), items=[function, arguments, keywords])

    def empty(self, data: Any) -> Any:
        return own(functools.partial, "__new__")(self.cls, len)

    def fill(self, instance: Any, parts: Parts) -> None:
        own(functools.partial, "__setstate__")(instance, (*(parts.items or ()), None))
        self._attributes.write(instance, parts.attributes or {})


_PARTIAL: Final = ("func", "args", "keywords")
