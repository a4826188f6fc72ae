"""Dataclasses, named tuples and subclasses of built-in types: what they hold, without running any of their code."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, cast

from autogen_eventlog.codec.attributes import Attributes, attribute_forms
from autogen_eventlog.codec.containers import canonical, decode_elements, decode_pairs, pairs
from autogen_eventlog.codec.plan import NotData, Plan
from autogen_eventlog.codec.primitives import decode_base64, encode_bytes
from autogen_eventlog.codec.walk import Live, Walk
from autogen_eventlog.codec.wire import DATA, TAG, UNSET, Malformed, Node, Refusal, sole, sole_list

_MAXLEN = "maxlen"


def dataclass_plan(cls: type, name: str) -> Plan:
    """Fields and whatever else the instance carries. A frozen one that compares by value has no identity worth keeping."""
    parameters = cast(Any, cls).__dataclass_params__
    named = tuple(field.name for field in fields(cls))
    return attribute_plan(cls, name, named, tracked=not (parameters.frozen and parameters.eq))


def attribute_plan(cls: type, name: str, named: tuple[str, ...], *, tracked: bool) -> Plan:
    """A plan for a class whose instances are their attributes.

    Args:
        named: the attributes that every instance has; others are stored as extras.
        tracked: keep it one object where one message holds it twice.
    """
    require_constructible(cls, object)
    attributes = Attributes(cls, name, named)
    read, names_of, write = attributes.read, attributes.names, attributes.write
    known_keys, new_keys = attributes.known_keys, attributes.new_keys  # the hot path: one look-up, no call
    new = object.__new__

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
        instance = new(cls)
        write(instance, names, node.values())
        return instance

    return Plan(name, encode, decode)


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

    def encode(value: Live, walk: Walk, depth: int) -> object:
        form: Node = {TAG: name}
        try:
            form.update(zip(named, walk.fill([], tuple.__iter__(value), depth + 1), strict=True))
        except Refusal as refusal:
            refusal.name_step([f".{field}" for field in named])
            raise
        return form | attribute_forms(attributes, value, walk.fill, depth + 1)

    def decode(node: Node) -> object:
        if not set(named) <= set(node):
            raise Malformed(f"class {name!r} has the fields {list(named)}, stored are {list(node)}")
        instance = tuple.__new__(cls, [node.pop(field) for field in named])
        attributes.write(instance, attributes.names(node), node.values())
        return instance

    return Plan(name, encode, decode)


@dataclass(frozen=True)
class _Base:
    """How the data of a built-in type is taken out of, and put into, an instance of a subclass, by its own methods only."""

    take: Callable[[Live, Walk, int], object]
    make: Callable[[Any, Node], object]
    mutable: bool = False


def subclass_plan(cls: type, name: str) -> Plan | None:
    """A plan for a subclass of a built-in type: its data and its attributes. None if it isn't one."""
    base = next((base for base in _BASES if issubclass(cls, base)), None)
    if base is None:
        return None
    require_constructible(cls, base)
    return _base_plan(cls, name, _BASES[base])


def _base_plan(cls: type, name: str, base: _Base) -> Plan:
    attributes = Attributes(cls, name, ())

    def encode(value: Live, walk: Walk, depth: int) -> object:
        form: Node = {TAG: name}
        if base.mutable and walk.seen.setdefault(id(value), form) is not form:
            return walk.again(value)
        form[DATA] = base.take(value, walk, depth + 1)
        if base.mutable and isinstance(value, deque):
            form[_MAXLEN] = cast("deque[object]", value).maxlen
        form.update(attribute_forms(attributes, value, walk.fill, depth + 1))
        return form

    def decode(node: Node) -> object:
        own = {key: node.pop(key) for key in (DATA, _MAXLEN) if key in node}
        instance = base.make(cls, own)
        attributes.write(instance, attributes.names(node), node.values())
        return instance

    return Plan(name, encode, decode)


def _make_list(cls: Any, node: Node) -> object:
    instance = list.__new__(cls)
    list.extend(instance, sole_list(node, object))
    return instance


def _make_set(cls: Any, node: Node) -> object:
    instance = set.__new__(cls)
    set.update(instance, decode_elements(node))
    return instance


def _make_dict(cls: Any, node: Node) -> object:
    instance = dict.__new__(cls)
    dict.update(instance, decode_pairs(node))
    return instance


def _make_ordered(cls: Any, node: Node) -> object:
    instance = OrderedDict.__new__(cls)
    for key, value in decode_pairs(node):
        OrderedDict.__setitem__(instance, key, value)
    return instance


def _make_deque(cls: Any, node: Node) -> object:
    maxlen = node.pop(_MAXLEN, None)
    values = sole_list(node, object)
    if maxlen is not None and (type(maxlen) is not int or maxlen < len(values)):
        raise Malformed(f"{len(values)} items don't fit maxlen {maxlen!r}")
    instance = deque.__new__(cls)
    deque.__init__(instance, values, maxlen)
    return instance


def _make_bytearray(cls: Any, node: Node) -> object:
    instance = bytearray.__new__(cls)
    bytearray.extend(instance, decode_base64(node))
    return instance


_BASES: dict[type, _Base] = {
    str: _Base(
        lambda value, walk, depth: walk.one(str.__str__(value), depth),
        lambda cls, node: str.__new__(cls, sole(node, str)),
    ),
    int: _Base(
        lambda value, walk, depth: walk.one(int.__int__(value), depth),
        lambda cls, node: int.__new__(cls, sole(node, int)),
    ),
    float: _Base(
        lambda value, walk, depth: walk.one(float.__float__(value), depth),
        lambda cls, node: float.__new__(cls, sole(node, float)),
    ),
    bytes: _Base(
        lambda value, walk, depth: encode_bytes(value), lambda cls, node: bytes.__new__(cls, decode_base64(node))
    ),
    tuple: _Base(
        lambda value, walk, depth: walk.fill([], tuple.__iter__(value), depth + 1),
        lambda cls, node: tuple.__new__(cls, sole_list(node, object)),
    ),
    frozenset: _Base(
        lambda value, walk, depth: canonical(frozenset.__iter__(value), walk, depth + 1),
        lambda cls, node: frozenset.__new__(cls, decode_elements(node)),
    ),
    bytearray: _Base(lambda value, walk, depth: encode_bytes(value), _make_bytearray, mutable=True),
    list: _Base(lambda value, walk, depth: walk.fill([], list.__iter__(value), depth + 1), _make_list, mutable=True),
    set: _Base(lambda value, walk, depth: canonical(set.__iter__(value), walk, depth + 1), _make_set, mutable=True),
    OrderedDict: _Base(pairs, _make_ordered, mutable=True),
    dict: _Base(pairs, _make_dict, mutable=True),
    deque: _Base(
        lambda value, walk, depth: walk.fill([], deque.__iter__(value), depth + 1), _make_deque, mutable=True
    ),
}
