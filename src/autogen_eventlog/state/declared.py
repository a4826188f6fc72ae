"""The attributes that a class of today knows of: whether one that is stored may have another name now.

Read from the class and from the code of its methods, which is not run. What other code sets on an object is not seen.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Final, cast

from pydantic import BaseModel

from autogen_eventlog.codec.kinds import plain_defaults
from autogen_eventlog.state.attributes import slots
from autogen_eventlog.state.callables import nested, unwrapped

_CONSTRUCTORS: Final = ("__init__", "__post_init__", "__attrs_post_init__")
_FIELDS: Final = "__dataclass_fields__"
_BETWEEN: Final = ("EXTENDED_ARG", "CACHE")
_COPIES: Final = ("COPY", "DUP_TOP")
"""`self.count += 1` takes `self` twice: to read, and to set."""
_OF_METACLASSES: Final = ("_abc_impl", "_is_protocol", "_is_runtime_protocol")
_METHODS: Final = (types.FunctionType, staticmethod, classmethod)


@dataclass(frozen=True, slots=True)
class Declared:
    """The names of the attributes that the instances of one class have, as its code says."""

    names: set[str]
    """Its fields; of a plain class what its constructor sets, its slots and its own defaults."""
    needed: set[str]
    """Fields that have no plain default."""
    stored: set[str]
    """What any of its methods sets."""
    shown: set[str]
    """What anything of it names."""


def declared(cls: type) -> Declared:
    """What a class says of its instances."""
    members: dict[str, Any] = {}
    for base in reversed(cls.__mro__[:-1]):
        members.update(vars(base))
    uses = set(_uses(member for base in cls.__mro__[:-1] for member in vars(base).values()))
    stored, used = {name for name, sets in uses if sets}, {name for name, _ in uses}
    properties = {name for name, member in members.items() if isinstance(member, property)}
    methods = {name for name, member in members.items() if isinstance(member, _METHODS)}
    own, kept, annotated = _fields(cls), set(slots(cls)), _annotated(cls)
    # a property or method of that name is what old code may still ask for, and not where the value is
    shown = (((used | members.keys()) - methods) | stored) - properties
    names = own if own is not None else _set_by_constructor(cls) | kept | annotated | _defaults(members, cls)
    return Declared(
        names=names - properties,
        needed=_without_default(cls),
        stored=stored,
        shown=shown | annotated | kept | (own or set()),
    )


def _fields(cls: Any) -> set[str] | None:
    if issubclass(cls, BaseModel):
        return set(cls.model_fields)
    return {field.name for field in fields(cls)} | _set_by_constructor(cls) if hasattr(cls, _FIELDS) else None


def _without_default(cls: Any) -> set[str]:
    if issubclass(cls, BaseModel):
        return set(cls.model_fields) - plain_defaults(cls).keys()
    if not hasattr(cls, _FIELDS):
        return set()
    return {field.name for field in fields(cls) if field.init} - plain_defaults(cast(type, cls)).keys()


def _annotated(cls: type) -> set[str]:
    """What annotations declare, but what they say is the class's own or a constant."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__[:-1]):
        found.update(vars(base).get("__annotations__", {}))
    return {name for name, one in found.items() if not any(word in str(one) for word in ("ClassVar", "Final"))}


def _defaults(members: dict[str, Any], cls: type) -> set[str]:
    """Data that a class has for those of its instances that have none."""
    constants = {name for base in cls.__mro__ for name in vars(base).get("__annotations__", {})} - _annotated(cls)
    return {
        name
        for name, member in members.items()
        if not (name.startswith("__") or name.isupper() or name in constants or name in _OF_METACLASSES)
        and not (callable(member) or hasattr(member, "__get__"))
    }


def _set_by_constructor(cls: type) -> set[str]:
    """What constructors set, and the methods that they call."""
    found: set[str] = set()
    pending: list[str] = [*_CONSTRUCTORS]
    met = set(pending)
    while pending:
        name = pending.pop()
        for used, sets in _uses(vars(base)[name] for base in cls.__mro__[:-1] if name in vars(base)):
            if sets:
                found.add(used)
            elif used not in met:
                met.add(used)
                pending.append(used)
    return found


def _uses(members: Iterable[Any]) -> Iterator[tuple[str, bool]]:
    """The names that methods ask of their first argument, and whether they set them."""
    for code, first in _codes(members):
        held = copied = False
        for instruction in dis.get_instructions(code):
            if instruction.opname in _BETWEEN:
                continue
            if held and instruction.opname in _COPIES:
                copied = True
                continue
            if held and _names_attribute(instruction):
                yield instruction.argval, copied or instruction.opname == "STORE_ATTR"
            held, copied = _loads(instruction, first), False


def _names_attribute(instruction: dis.Instruction) -> bool:
    """Such as `self.count`, and `object.__setattr__(self, "count", …)`."""
    name, value = instruction.opname, instruction.argval
    return name.endswith("_ATTR") or name == "LOAD_METHOD" or (name == "LOAD_CONST" and type(value) is str)


def _loads(instruction: dis.Instruction, first: str) -> bool:
    """Whether an instruction leaves an argument on top; some load two at once."""
    if "LOAD_FAST" not in instruction.opname and instruction.opname != "LOAD_DEREF":
        return False
    loaded = cast("str | tuple[str, ...]", instruction.argval)
    return first == (loaded[-1] if isinstance(loaded, tuple) else loaded)


def _codes(members: Iterable[Any]) -> Iterator[tuple[types.CodeType, str]]:
    """The code of methods and of what decorators have made of them, with the name of the first argument."""
    pending, met = list(members), set[int]()
    while pending:
        member = unwrapped(pending.pop())
        if id(member) in met:
            continue
        met.add(id(member))
        if isinstance(member, property):
            pending += [member.fget, member.fset, member.fdel]
        elif isinstance(member, functools.cached_property):
            pending.append(cast("functools.cached_property[Any]", member).func)
        elif isinstance(member, types.FunctionType):
            pending += [cell.cell_contents for cell in member.__closure__ or () if _is_function(cell)]
            if member.__code__.co_argcount:
                yield from ((code, member.__code__.co_varnames[0]) for code in nested(member.__code__))


def _is_function(cell: Any) -> bool:
    try:
        return isinstance(cell.cell_contents, types.FunctionType)
    except ValueError:  # not assigned yet
        return False
