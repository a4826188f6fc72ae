"""Objects of classes, with or without a built-in type below: data of the built-in, and attributes.

The data is taken and put by the built-in's own methods only, whatever a subclass overrides. `__init__`, `__new__`,
`__setattr__` and `__setstate__` of a class are never run.
"""

from __future__ import annotations

import random
import types
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any, Final, cast

from autogen_eventlog.codec.bases import own
from autogen_eventlog.codec.primitives import (
    DECODERS,
    decode_base64,
    encode_bytes,
    encode_float,
    encode_int,
    encode_text,
)
from autogen_eventlog.state.attributes import Attributes
from autogen_eventlog.state.form import DATA, Malformed
from autogen_eventlog.state.kind import Kind
from autogen_eventlog.state.orders import arrange, frozen_source, room
from autogen_eventlog.state.parts import NotState, Parts

_FACTORY: Final = "default_factory"
_NO_ORDER: Final = "its elements can't be had in the order in which they came"
_OF_LIST: Final = own(list, "__iter__")
_OF_TUPLE: Final = own(tuple, "__iter__")


class Plain(Kind):
    """Objects that are their attributes. Base of the kinds that have data beside them."""

    def __init__(self, name: str, cls: type) -> None:
        super().__init__(name, cls)
        self.attributes = Attributes(cls)

    def take(self, value: Any) -> Parts:
        parts = Parts(data=self.data(value))
        if self.attributes.any:
            parts.attributes = self.attributes.read(value)
        return parts

    def data(self, value: Any) -> Any:
        """JSON that `empty` needs."""
        return None

    def empty(self, data: Any) -> Any:
        return cast(Any, object.__new__(self.cls))

    def fill(self, instance: Any, parts: Parts) -> None:
        if self.attributes.any:
            self.attributes.write(instance, parts.attributes or {})


class Whole(Plain):
    """Objects that have no identity, because their class is frozen and compares by content."""

    shared = False


class Namespace(Plain):
    """`types.SimpleNamespace`."""

    def empty(self, data: Any) -> Any:
        return own(types.SimpleNamespace, "__new__")(self.cls)


class List(Plain):
    """Lists and their subclasses."""

    def take(self, value: Any) -> Parts:
        parts = super().take(value)
        parts.items = list(_OF_LIST(value))
        return parts

    def empty(self, data: Any) -> Any:
        return own(list, "__new__")(self.cls)

    def fill(self, instance: Any, parts: Parts) -> None:
        own(list, "__setitem__")(instance, slice(None), parts.items or [])
        super().fill(instance, parts)


class Deque(Plain):
    """Deques, with their bound."""

    fixed = True

    def data(self, value: Any) -> Any:
        return vars(deque)["maxlen"].__get__(value)

    def take(self, value: Any) -> Parts:
        parts = super().take(value)
        parts.items = list(own(deque, "__iter__")(value))
        return parts

    def empty(self, data: Any) -> Any:
        instance = own(deque, "__new__")(self.cls)
        own(deque, "__init__")(instance, (), data)
        return instance

    def fill(self, instance: Any, parts: Parts) -> None:
        own(deque, "clear")(instance)
        own(deque, "extend")(instance, parts.items or [])
        super().fill(instance, parts)


class Dict(Plain):
    """Dicts and their subclasses; the order of the keys is kept."""

    hashes = True
    base: Any = dict

    def take(self, value: Any) -> Parts:
        parts = super().take(value)
        parts.keys, parts.values = list(self.base.keys(value)), list(self.base.values(value))
        return parts

    def empty(self, data: Any) -> Any:
        return own(self.base, "__new__")(self.cls)

    def fill(self, instance: Any, parts: Parts) -> None:
        self.base.clear(instance)
        put = self.base.__setitem__
        keys = parts.keys or []
        for key, value in zip(keys, parts.values or [], strict=True):
            put(instance, key, value)
        if own(dict, "__len__")(instance) != len(keys):
            raise Malformed("a key stands twice")
        super().fill(instance, parts)


class Ordered(Dict):
    """`OrderedDict`, whose order is its own after `move_to_end`."""

    base = OrderedDict

    def take(self, value: Any) -> Parts:
        parts = super(Dict, self).take(value)
        parts.keys = list(own(OrderedDict, "__iter__")(value))
        parts.values = [own(dict, "__getitem__")(value, key) for key in parts.keys]
        return parts


class Default(Dict):
    """`defaultdict`, whose factory is a part of it."""

    base = defaultdict

    def take(self, value: Any) -> Parts:
        parts = super().take(value)
        parts.attributes = {_FACTORY: vars(defaultdict)[_FACTORY].__get__(value), **(parts.attributes or {})}
        return parts

    def fill(self, instance: Any, parts: Parts) -> None:
        attributes = dict(parts.attributes or {})
        vars(defaultdict)[_FACTORY].__set__(instance, attributes.pop(_FACTORY))
        super().fill(instance, Parts(attributes, keys=parts.keys, values=parts.values))


class Set(Plain):
    """Sets and their subclasses. Their elements stand in an order that does not depend on hashes."""

    late = True
    hashes = True

    def take(self, value: Any) -> Parts:
        parts = super().take(value)
        parts.elements = list(own(set, "__iter__")(value))
        parts.room = room(value)
        return parts

    def empty(self, data: Any) -> Any:
        return own(set, "__new__")(self.cls)

    def fill(self, instance: Any, parts: Parts) -> None:
        elements = parts.elements or []
        _put(instance, elements, parts)
        if own(set, "__len__")(instance) != len(elements):
            raise Malformed("an element stands twice")
        super().fill(instance, parts)


def _put(instance: Any, elements: list[Any], parts: Parts) -> None:
    """Fill a set, in the order in which its elements came if that is known.

    Raises:
        Malformed: they can't be had in that order.
    """
    if parts.order is None:
        own(set, "clear")(instance)
        own(set, "update")(instance, elements)
        return
    came = [elements[position] for position in parts.order]
    if not arrange(instance, came, list(map(hash, came)), parts.room):
        raise Malformed(_NO_ORDER)


class Frozenset(Plain):
    """As `Set`, without an identity."""

    shared = False
    hashes = True

    def take(self, value: Any) -> Parts:
        parts = super().take(value)
        parts.elements = list(own(frozenset, "__iter__")(value))
        return parts

    def make(self, parts: Parts) -> Any:
        instance = own(frozenset, "__new__")(self.cls, _source(parts))
        if own(frozenset, "__len__")(instance) != len(parts.elements or []):
            raise Malformed("an element stands twice")
        self.fill(instance, parts)
        return instance


def _source(parts: Parts) -> Any:
    elements = parts.elements or []
    if parts.order is None:
        return elements
    came = [elements[position] for position in parts.order]
    source = frozen_source(came, list(map(hash, came)))
    if source is None:
        raise Malformed(_NO_ORDER)
    return source


class Tuple(Plain):
    """Tuples, named or not, and other subclasses."""

    shared = False

    def take(self, value: Any) -> Parts:
        parts = super().take(value)
        parts.items = list(_OF_TUPLE(value))
        return parts

    def make(self, parts: Parts) -> Any:
        instance = own(tuple, "__new__")(self.cls, parts.items or [])
        self.fill(instance, parts)
        return instance


class Scalar(Plain):
    """Subclasses of `str`, `int`, `float` and `bytes`."""

    shared = False

    def __init__(self, name: str, cls: type, base: type) -> None:
        super().__init__(name, cls)
        self._base = base

    def data(self, value: Any) -> Any:
        if self._base is str:
            return encode_text(own(str, "__str__")(value))
        if self._base is int:
            return encode_int(own(int, "__int__")(value))
        if self._base is float:
            return encode_float(own(float, "__float__")(value))
        return encode_bytes(own(bytes, "__getitem__")(value, slice(None)))

    def empty(self, data: Any) -> Any:
        return own(self._base, "__new__")(self.cls, scalar(data, self._base))


def scalar(data: Any, base: type) -> Any:
    """The exact value of a built-in type that JSON data stands for."""
    if base is bytes:
        return decode_base64({"v": data})
    if isinstance(data, dict):
        node = dict(cast("dict[str, Any]", data))
        data = DECODERS[node.pop("$t")](node)
    if type(data) is not base:
        raise Malformed(f"expected {base.__name__} in {DATA!r}, found {type(data).__name__}")
    return data


class Bytes(Plain):
    """`bytearray`."""

    def data(self, value: Any) -> Any:
        return encode_bytes(value)

    def empty(self, data: Any) -> Any:
        instance = own(bytearray, "__new__")(self.cls)
        own(bytearray, "extend")(instance, decode_base64({"v": data}))
        return instance

    def fill(self, instance: Any, parts: Parts) -> None:
        if encode_bytes(instance) != parts.data:  # while a memoryview shows it, its size can't change
            own(bytearray, "__setitem__")(instance, slice(None), decode_base64({"v": parts.data}))
        super().fill(instance, parts)


class Generator(Plain):
    """`random.Random`, where it stands in its sequence."""

    def data(self, value: Any) -> Any:
        if isinstance(value, random.SystemRandom):
            raise NotState("it draws from the operating system", "Use random.Random, or draw in the handler")
        if value is getattr(random, "_inst", None):
            raise NotState(
                "it is the generator that the whole process shares", "Use a random.Random of the agent's own"
            )
        return list(own(random.Random.__base__ or object, "getstate")(value))

    def empty(self, data: Any) -> Any:
        return own(random.Random.__base__ or object, "__new__")(self.cls)

    def fill(self, instance: Any, parts: Parts) -> None:
        own(random.Random.__base__ or object, "setstate")(instance, tuple(parts.data))
        super().fill(instance, parts)


BASES: Final[dict[type, type[Plain]]] = {
    OrderedDict: Ordered,
    defaultdict: Default,
    dict: Dict,
    list: List,
    tuple: Tuple,
    set: Set,
    frozenset: Frozenset,
    deque: Deque,
    bytearray: Bytes,
    types.SimpleNamespace: Namespace,
    random.Random: Generator,
}
"""By the built-in type that an object's class inherits from; the first that fits."""
SCALARS: Final = (str, int, float, bytes)
PLAIN_NAMES: Final[dict[str, type]] = {
    cls.__name__: cls for cls in (*(cls for cls in BASES if cls is not random.Random), Counter)
}
"""Built-in types that stand in the stored form by a short word."""
