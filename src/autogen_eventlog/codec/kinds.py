"""Which plan a class gets. The order matters: an enum may be a str, a dataclass may be a list."""

from __future__ import annotations

import types
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from enum import Enum
from typing import Any, cast

from pydantic import BaseModel

from autogen_eventlog.codec import containers, primitives, scalars, times
from autogen_eventlog.codec.enums import enum_plan
from autogen_eventlog.codec.foreign import foreign_plan, well_known
from autogen_eventlog.codec.models import model_defaults, model_plan
from autogen_eventlog.codec.objects import dataclass_defaults, dataclass_plan, named_tuple_plan, subclass_plan
from autogen_eventlog.codec.plan import NotData, Plan
from autogen_eventlog.codec.upcasting import UPCASTING
from autogen_eventlog.codec.walk import Encode, Live, Walk
from autogen_eventlog.codec.wire import DATA, TAG, UPCAST, VERSION, Decode, Malformed, Node

BUILTIN_ENCODERS: dict[type, Encode] = {**scalars.ENCODERS, **times.ENCODERS, **containers.ENCODERS}
BUILTIN_DECODERS: dict[str, Decode] = {
    **primitives.DECODERS,
    **scalars.DECODERS,
    **times.DECODERS,
    **containers.DECODERS,
}
ALWAYS_ALLOWED: dict[str, type] = {f"{kind.__module__}:{kind.__qualname__}": kind for kind in (Counter, OrderedDict)}

_CODE = (
    *(type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, types.GenericAlias),
    *(types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, types.FrameType, types.TracebackType),
)


@dataclass(frozen=True)
class Custom:
    """Two functions that the program registered for a class that has no shape of its own."""

    to_data: Callable[[Any], object]
    from_data: Callable[[Any], object]


def allowed_always(name: str) -> type | None:
    """A class that needs no registering, if its module is loaded."""
    return ALWAYS_ALLOWED.get(name) or well_known(name)


def plan_for(cls: type, name: str, custom: Custom | None) -> Plan:
    """How instances of exactly `cls` are stored.

    Raises:
        NotData: they can't be, and why.
    """
    if custom is not None:
        return _custom_plan(cls, name, custom)
    plan, version = _shape_plan(cls, name), UPCASTING.version_of(cls)
    return plan if version == 1 else _versioned(plan, version, ordered=not issubclass(cls, Enum))


def _versioned(plan: Plan, version: int, *, ordered: bool) -> Plan:
    """The plan of a class that has had other shapes: what it writes says which this is.

    Args:
        ordered: Whether its instances have attributes, which upcasters leave in some order.
    """
    encode_shape, decode_shape = plan.encode, plan.decode

    def encode(value: Live, walk: Walk, depth: int) -> object:
        stored = encode_shape(value, walk, depth)
        if type(stored) is dict:
            form = cast(Node, stored)
            if form.get(TAG) == plan.name:
                form[VERSION] = version
        return cast(object, stored)

    def decode(node: Node) -> object:
        if not ordered:
            node.pop(UPCAST, None)
        return decode_shape(node)

    return Plan(plan.name, encode, decode)


def _shape_plan(cls: type, name: str) -> Plan:
    _require_data(cls)
    plan = _declared_plan(cls, name) or foreign_plan(cls, name) or _plain_plan(cls, name)
    if plan is None:
        raise NotData(
            "its class is no dataclass, pydantic model, enum, NamedTuple, protobuf message or subclass of a plain "
            "built-in type; give it two functions with registry.register_custom(cls, to_data, from_data)"
        )
    return plan


def plain_defaults(cls: type) -> dict[str, Callable[[], object]]:
    """What the fields of a dataclass or model get that an object did not have, because it was stored before they were."""
    if issubclass(cls, BaseModel):
        return dict(model_defaults(cls))
    return dict(dataclass_defaults(cast("type[Any]", cls))) if is_dataclass(cast("type[Any]", cls)) else {}


def is_message_like(cls: type) -> bool:
    """Whether instances of `cls` are data by the class's own declaration, so that a module's classes may be allowed."""
    try:
        plan_for(cls, cls.__name__, None)
    except NotData:
        return False
    return cls not in (Enum, BaseModel)


def _require_data(cls: type) -> None:
    if issubclass(cls, BaseException):
        raise NotData("it is an exception, which carries frames and code; store its type and text")
    if issubclass(cls, _CODE):
        raise NotData("it is code, not data")


def _declared_plan(cls: type, name: str) -> Plan | None:
    if issubclass(cls, Enum):
        return enum_plan(cls, name)
    if issubclass(cls, BaseModel):
        return model_plan(cls, name)
    return None


def _plain_plan(cls: type, name: str) -> Plan | None:
    if tuple in cls.__mro__ and hasattr(cls, "_fields"):
        return named_tuple_plan(cls, name)
    return subclass_plan(cls, name) or (dataclass_plan(cls, name) if is_dataclass(cls) else None)


def _custom_plan(cls: type, name: str, custom: Custom) -> Plan:
    def encode(value: Live, walk: Walk, depth: int) -> object:
        form: Node = {TAG: name}
        if walk.seen.setdefault(id(value), form) is not form:
            return walk.again(value)
        form[DATA] = walk.one(custom.to_data(value), depth + 1)
        return form

    def decode(node: Node) -> object:
        if list(node) != [DATA]:
            raise Malformed(f"expected {DATA!r} alone, found {list(node)}")
        value = custom.from_data(node[DATA])
        if type(value) is not cls:
            raise Malformed(f"from_data of {name!r} gave a {type(value).__name__}", "Correct the registered function")
        return value

    return Plan(name, encode, decode)
