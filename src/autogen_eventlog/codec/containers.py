"""The containers of the standard library, and what the containers of a class of one's own are made of."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Any, cast

from autogen_eventlog.codec.primitives import decode_base64, encode_bytes
from autogen_eventlog.codec.walk import Encode, Walk
from autogen_eventlog.codec.wire import DATA, TAG, Decode, Malformed, Node, Refusal, dumps, sole_list

_FACTORY = "factory"
MAXLEN = "maxlen"
_FACTORIES: dict[str, type] = {
    factory.__name__: factory
    for factory in (
        *(bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset),
        *(Counter, OrderedDict, deque),
    )
}


def encode_list(value: list[object], walk: Walk, depth: int) -> object:
    """A JSON array."""
    form: list[object] = []
    if walk.seen.setdefault(id(value), form) is not form:
        return walk.again(value)
    return walk.fill(form, value, depth + 1)


def encode_dict(value: dict[object, object], walk: Walk, depth: int) -> object:
    """A JSON object where every key is a plain string, else pairs; order is kept either way."""
    form: Node = {}
    if walk.seen.setdefault(id(value), form) is not form:
        return walk.again(value)
    if not _is_plain(value):
        form[TAG] = "dict"
        form[DATA] = pairs(value, walk, depth + 1)
        return form
    try:
        form.update(zip(cast("dict[str, object]", value), walk.fill([], value.values(), depth + 1), strict=True))
    except Refusal as refusal:
        refusal.name_step([f"[{key!r}]" for key in value])
        raise
    return form


def _is_plain(value: dict[object, object]) -> bool:
    """Whether JSON keeps the keys as they are; ASCII alone is asked for because surrogates would not survive."""
    for key in value:
        if type(key) is not str or not key.isascii():
            return all(type(key) is str and _has_no_surrogates(key) for key in value) and TAG not in value
    return TAG not in value


def _has_no_surrogates(key: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in key)


def pairs(value: Mapping[object, object], walk: Walk, depth: int) -> list[list[object]]:
    """`[[key, value], …]` at nesting level `depth`, read by the built-in's own methods, whatever the class overrides.

    An `OrderedDict` keeps an order of its own, which `dict`'s methods don't know after `move_to_end`.
    """
    kind: Any = OrderedDict if isinstance(value, OrderedDict) else dict
    names: list[object] = list(kind.keys(value))
    try:
        keys = walk.fill([], names, depth + 2)
        values = walk.fill([], kind.values(value), depth + 2)
    except Refusal as refusal:
        refusal.name_step([f"[{key!r}]" for key in names])
        raise
    return [[key, item] for key, item in zip(keys, values, strict=True)]


def decode_pairs(node: Node) -> list[tuple[object, object]]:
    """The pairs of a node; equal keys are corruption, since no dict could have had both."""
    found: list[list[object]] = sole_list(node, list)
    if any(len(pair) != 2 for pair in found):
        raise Malformed("expected pairs of key and value")
    if len({pair[0] for pair in found}) != len(found):
        raise Malformed("a key stands twice")
    return [(pair[0], pair[1]) for pair in found]


def canonical(values: Iterable[object], walk: Walk, depth: int) -> list[object]:
    """The forms of a set's elements, in an order that does not depend on hashes: equal sets give equal bytes."""
    forms = walk.fill([], values, depth)
    if len(set(map(type, forms))) == 1 and type(forms[0]) in (str, int):
        return cast("list[object]", sorted(cast("list[str]", forms)))
    try:
        return sorted(forms, key=dumps)
    except (ValueError, RecursionError):
        raise Refusal("set", "one of its elements contains itself") from None


def decode_elements(node: Node) -> list[object]:
    """The elements of a set; equal ones are corruption."""
    elements = sole_list(node, object)
    if len(set(elements)) != len(elements):
        raise Malformed("an element stands twice")
    return elements


def pop_maxlen(node: Node) -> int | None:
    """The bound of a deque, which takes no item away."""
    maxlen = node.pop(MAXLEN, None)
    if maxlen is not None and (type(maxlen) is not int or maxlen < len(sole_list(node, object))):
        raise Malformed(f"its items don't fit maxlen {maxlen!r}")
    return maxlen


def _encode_tuple(value: tuple[object, ...], walk: Walk, depth: int) -> Node:
    return {TAG: "tuple", DATA: walk.fill([], value, depth + 2)}


def _encode_frozenset(value: frozenset[object], walk: Walk, depth: int) -> Node:
    return {TAG: "frozenset", DATA: canonical(value, walk, depth + 2)}


def _encode_set(value: set[object], walk: Walk, depth: int) -> object:
    form: Node = {TAG: "set"}
    if walk.seen.setdefault(id(value), form) is not form:
        return walk.again(value)
    form[DATA] = canonical(value, walk, depth + 2)
    return form


def _encode_bytearray(value: bytearray, walk: Walk, depth: int) -> object:
    form: Node = {TAG: "bytearray"}
    if walk.seen.setdefault(id(value), form) is not form:
        return walk.again(value)
    form[DATA] = encode_bytes(value)
    return form


def _encode_deque(value: deque[object], walk: Walk, depth: int) -> object:
    form: Node = {TAG: "deque"}
    if walk.seen.setdefault(id(value), form) is not form:
        return walk.again(value)
    form[DATA] = walk.fill([], value, depth + 2)
    if value.maxlen is not None:
        form[MAXLEN] = value.maxlen
    return form


def _encode_defaultdict(value: defaultdict[object, object], walk: Walk, depth: int) -> object:
    form: Node = {TAG: "defaultdict"}
    if walk.seen.setdefault(id(value), form) is not form:
        return walk.again(value)
    factory = value.default_factory
    if factory is not None:
        name = getattr(factory, "__name__", "")
        if _FACTORIES.get(name) is not factory:
            raise Refusal("collections:defaultdict", f"its factory {factory!r} is code; use one of {list(_FACTORIES)}")
        form[_FACTORY] = name
    form[DATA] = pairs(value, walk, depth + 2)
    return form


def _decode_tuple(node: Node) -> tuple[object, ...]:
    return tuple(sole_list(node, object))


def _decode_frozenset(node: Node) -> frozenset[object]:
    return frozenset(decode_elements(node))


def _decode_set(node: Node) -> set[object]:
    return set(decode_elements(node))


def _decode_bytearray(node: Node) -> bytearray:
    return bytearray(decode_base64(node))


def _decode_deque(node: Node) -> deque[object]:
    maxlen = pop_maxlen(node)
    return deque(sole_list(node, object), maxlen)


def _decode_dict(node: Node) -> dict[object, object]:
    return dict(decode_pairs(node))


def _decode_defaultdict(node: Node) -> defaultdict[object, object]:
    name = node.pop(_FACTORY, None)
    if name is not None and name not in _FACTORIES:
        raise Malformed(f"{name!r} is not a known factory")
    return defaultdict(None if name is None else _FACTORIES[name], decode_pairs(node))


ENCODERS: dict[type, Encode] = {
    list: encode_list,
    dict: encode_dict,
    tuple: _encode_tuple,
    set: _encode_set,
    frozenset: _encode_frozenset,
    bytearray: _encode_bytearray,
    deque: _encode_deque,
    defaultdict: _encode_defaultdict,
}
DECODERS: dict[str, Decode] = {
    "dict": _decode_dict,
    "tuple": _decode_tuple,
    "set": _decode_set,
    "frozenset": _decode_frozenset,
    "bytearray": _decode_bytearray,
    "deque": _decode_deque,
    "defaultdict": _decode_defaultdict,
}
