"""Enum members, by name: a value may be anything, and the name is what code says."""

from __future__ import annotations

from enum import Enum, Flag
from typing import Any, cast

from autogen_eventlog.codec.plan import Plan
from autogen_eventlog.codec.walk import Live, Walk
from autogen_eventlog.codec.wire import TAG, Malformed, Node

_NAME = "name"
_NAMES = "names"
_BITS = "bits"


def enum_plan(cls: type[Enum], name: str) -> Plan:
    """Members by name. An unnamed combination of flags by the names of its bits, and the bits that have no name."""
    members = cls.__members__

    def encode(value: Live, walk: Walk, depth: int) -> Node:
        if value._name_ in members:
            return {TAG: name, _NAME: value._name_}
        return {TAG: name, **_combination(cls, value._value_)}

    def decode(node: Node) -> object:
        if list(node) == [_NAME]:
            return _member(cls, name, node[_NAME])
        if set(node) != {_NAMES, _BITS} or not issubclass(cls, Flag):
            raise Malformed(f"enum {name!r} is stored with {list(node)}")
        return _combined(cls, name, node)

    return Plan(name, encode, decode)


def _combination(cls: type[Enum], value: int) -> Node:
    if value < 0:  # IntFlag of Python 3.10 gives `~flag` a negative value
        return {_NAMES: [], _BITS: value}
    names: list[str] = []
    for member in cls:
        bit: int = member.value
        if bit > 0 and bit & (bit - 1) == 0 and value & bit:
            names.append(member.name)
            value &= ~bit
    return {_NAMES: names, _BITS: value}


def _member(cls: type[Enum], name: str, member: object) -> Enum:
    if type(member) is not str or member not in cls.__members__:
        raise Malformed(
            f"enum {name!r} has no member {member!r}", "The class lost a member since: restore it, or add an upcaster"
        )
    return cls.__members__[member]


def _combined(cls: type[Flag], name: str, node: Node) -> Flag:
    value = node[_BITS]
    if type(value) is not int or type(node[_NAMES]) is not list:
        raise Malformed(f"enum {name!r}: bits are not a number, or names not a list")
    for member in node[_NAMES]:
        value |= cast(Any, _member(cls, name, member)).value
    return cls(value)
