"""The data inside instances of a subclass of a built-in type, taken and put by the built-in's own methods only.

A subclass may override any of them; what it overrides is never asked.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autogen_eventlog.codec.containers import canonical, decode_elements, decode_pairs, pairs, pop_maxlen
from autogen_eventlog.codec.primitives import decode_base64, encode_bytes
from autogen_eventlog.codec.walk import Live, Walk
from autogen_eventlog.codec.wire import Node, sole, sole_list


@dataclass(frozen=True, slots=True)
class Base:
    """One built-in type.

    Attributes:
        take: the stored data of an instance of a subclass: value, walk, nesting level of the data.
        make: a new instance of the subclass with the data of a node.
        mutable: its instances have an identity.
    """

    take: Callable[[Live, Walk, int], object]
    make: Callable[[Any, Node], object]
    mutable: bool = False


def own(kind: type, method: str) -> Callable[..., Any]:
    """A method of exactly this class, to be called on instances of its subclasses."""
    return getattr(kind, method)


def _scalar(kind: type, exact: str) -> Base:
    def make(cls: type, node: Node) -> object:
        return own(kind, "__new__")(cls, sole(node, kind))

    return Base(lambda value, walk, depth: walk.one(own(kind, exact)(value), depth), make)


def _bytes(value: Live, walk: Walk, depth: int) -> object:
    return encode_bytes(value)


def _ordered(kind: type) -> Callable[[Live, Walk, int], object]:
    iterate = own(kind, "__iter__")
    return lambda value, walk, depth: walk.fill([], iterate(value), depth + 1)


def _unordered(kind: type) -> Callable[[Live, Walk, int], object]:
    iterate = own(kind, "__iter__")
    return lambda value, walk, depth: canonical(iterate(value), walk, depth + 1)


def _immutable(kind: type, read: Callable[[Node], object]) -> Callable[[type, Node], object]:
    return lambda cls, node: own(kind, "__new__")(cls, read(node))


def _filled(kind: type, fill: str, read: Callable[[Node], object]) -> Callable[[type, Node], object]:
    def make(cls: type, node: Node) -> object:
        data = read(node)
        instance = own(kind, "__new__")(cls)
        own(kind, fill)(instance, data)
        return instance

    return make


def _make_ordered_dict(cls: type, node: Node) -> object:
    instance = own(OrderedDict, "__new__")(cls)
    for key, value in decode_pairs(node):
        own(OrderedDict, "__setitem__")(instance, key, value)
    return instance


def _make_deque(cls: type, node: Node) -> object:
    instance = own(deque, "__new__")(cls)
    maxlen = pop_maxlen(node)
    own(deque, "__init__")(instance, sole_list(node, object), maxlen)
    return instance


def _list(node: Node) -> list[object]:
    return sole_list(node, object)


BASES: dict[type, Base] = {
    str: _scalar(str, "__str__"),
    int: _scalar(int, "__int__"),
    float: _scalar(float, "__float__"),
    bytes: Base(_bytes, _immutable(bytes, decode_base64)),
    tuple: Base(_ordered(tuple), _immutable(tuple, _list)),
    frozenset: Base(_unordered(frozenset), _immutable(frozenset, decode_elements)),
    bytearray: Base(_bytes, _filled(bytearray, "extend", decode_base64), mutable=True),
    list: Base(_ordered(list), _filled(list, "extend", _list), mutable=True),
    set: Base(_unordered(set), _filled(set, "update", decode_elements), mutable=True),
    OrderedDict: Base(pairs, _make_ordered_dict, mutable=True),  # before dict, whose subclass it is
    dict: Base(pairs, _filled(dict, "update", decode_pairs), mutable=True),
    deque: Base(_ordered(deque), _make_deque, mutable=True),
}
