"""Dataclasses, named tuples and subclasses of built-in types: what they hold, without running any of their code."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from typing import Any, cast

from autogen_eventlog.codec.attributes import Attributes, attribute_forms
from autogen_eventlog.codec.bases import BASES, Base, own
from autogen_eventlog.codec.containers import MAXLEN
from autogen_eventlog.codec.plan import NotData, Plan
from autogen_eventlog.codec.walk import Live, Walk
from autogen_eventlog.codec.wire import DATA, TAG, UNSET, Node, Refusal, ShapeMismatch


def dataclass_plan(cls: type, name: str) -> Plan:
    """Fields and whatever else the instance carries. A frozen one that compares by value has no identity to keep."""
    parameters = cast(Any, cls).__dataclass_params__
    named = tuple(field.name for field in fields(cls))
    tracked = not (parameters.frozen and parameters.eq)
    return attribute_plan(cls, name, named, tracked=tracked, defaults=dict(dataclass_defaults(cls)))


def dataclass_defaults(cls: type) -> Iterator[tuple[str, Callable[[], object]]]:
    """The fields with plain defaults, and what gives these."""
    for field in fields(cls):
        if field.default is not MISSING:
            yield field.name, constant(field.default)
        elif field.default_factory in PURE_FACTORIES:
            yield field.name, cast("Callable[[], object]", field.default_factory)


def constant(value: object) -> Callable[[], object]:
    """Gives a value: the same object each time, as a class's own default is."""
    return lambda: value


PURE_FACTORIES: tuple[object, ...] = (list, dict, set, frozenset, tuple, str, int, float, bool, bytes, bytearray)
"""Default factories that give the same whenever they are called. Others (a clock, an id) would give an old object something
that depends on when it is read."""


def attribute_plan(
    cls: type,
    name: str,
    named: tuple[str, ...],
    *,
    tracked: bool,
    defaults: Mapping[str, Callable[[], object]] | None = None,
) -> Plan:
    """A plan for a class whose instances are their attributes.

    Args:
        named: the attributes that every instance has; others are stored as extras.
        tracked: keep it one object where one message holds it twice.
        defaults: what attributes get that an object did not have because it was stored before they were.
    """
    require_constructible(cls, object)
    attributes = Attributes(cls, name, named, defaults=defaults)
    read, names_of, write = attributes.read, attributes.names, attributes.write
    known_keys, new_keys = attributes.known_keys, attributes.new_keys  # the hot path: one look-up, no call
    new = own(object, "__new__")

    def encode(value: Live, walk: Walk, depth: int) -> object:
        form: Node = {TAG: name}
        if tracked and walk.seen.setdefault(id(value), form) is not form:
            return walk.again(value)
        found = read(value)
        shape = tuple(found)
        keys, unset = known_keys.get(shape) or new_keys(shape)
        try:
            form.update(zip(keys, walk.fill([], found.values(), depth + 1)))  # noqa: B905  (strict costs 5 %)
        except Refusal as refusal:
            refusal.name_step([f".{attribute}" for attribute in shape])
            raise
        if unset:
            form[UNSET] = unset
        return form

    def decode(node: Node) -> object:
        names = names_of(node)
        instance: object = new(cls)
        write(instance, names, node.values())
        return instance

    return Plan(name, encode, decode)


def empty(cls: type) -> object:
    """An instance of which no code of its class has run."""
    return own(object, "__new__")(cls)


def require_constructible(cls: type, base: Any) -> None:
    """`base.__new__(cls)` has to give an empty instance, which is how CPython itself tells layouts apart.

    Raises:
        NotData: the class is abstract, or keeps data that only its own C code can reach.
    """
    if hasattr(cls, "__del__"):
        raise NotData("its class has a finaliser, so it owns something outside the program")
    try:
        base.__new__(cls)
    except TypeError as error:
        raise NotData(f"its class keeps data where Python can't see it ({error})") from None


def named_tuple_plan(cls: type, name: str) -> Plan:
    """Fields by name, as with a dataclass."""
    require_constructible(cls, tuple)
    named: tuple[str, ...] = cast(Any, cls)._fields
    attributes = Attributes(cls, name, ())
    new, iterate = own(tuple, "__new__"), own(tuple, "__iter__")

    def encode(value: Live, walk: Walk, depth: int) -> object:
        form: Node = {TAG: name}
        try:
            form.update(zip(named, walk.fill([], iterate(value), depth + 1), strict=True))
        except Refusal as refusal:
            refusal.name_step([f".{field}" for field in named])
            raise
        return form | attribute_forms(attributes, value, walk.fill, depth + 1)

    defaults: dict[str, object] = getattr(cls, "_field_defaults", {})

    def decode(node: Node) -> object:
        node.update((field, default) for field, default in defaults.items() if field not in node)
        if not set(named) <= set(node):
            raise ShapeMismatch(
                f"class {name!r} has the fields {list(named)}, stored are {list(node)}",
                "Add an upcaster (autogen_eventlog.upcaster), or give the fields defaults",
            )
        instance: object = new(cls, [node.pop(field) for field in named])
        attributes.write(instance, attributes.names(node), node.values())
        return instance

    return Plan(name, encode, decode)


def subclass_plan(cls: type, name: str) -> Plan | None:
    """A plan for a subclass of a built-in type: its data and its attributes. None if it isn't one."""
    base = next((base for base in BASES if issubclass(cls, base)), None)
    if base is None:
        return None
    require_constructible(cls, base)
    return _base_plan(cls, name, BASES[base])


def _base_plan(cls: type, name: str, base: Base) -> Plan:
    attributes = Attributes(cls, name, ())
    bounded = deque in cls.__mro__

    def encode(value: Live, walk: Walk, depth: int) -> object:
        form: Node = {TAG: name}
        if base.mutable and walk.seen.setdefault(id(value), form) is not form:
            return walk.again(value)
        form[DATA] = base.take(value, walk, depth + 1)
        if bounded:
            form[MAXLEN] = value.maxlen
        form.update(attribute_forms(attributes, value, walk.fill, depth + 1))
        return form

    def decode(node: Node) -> object:
        own = {key: node.pop(key) for key in (DATA, MAXLEN) if key in node}
        instance = base.make(cls, own)
        attributes.write(instance, attributes.names(node), node.values())
        return instance

    return Plan(name, encode, decode)
