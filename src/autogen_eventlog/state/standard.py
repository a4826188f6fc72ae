"""Objects of the standard library that are written in C: exceptions, buffers in memory, arrays, counters, patterns."""

from __future__ import annotations

import array
import ast
import functools
import gc
import io
import itertools
import operator
import re
import types
import warnings
import weakref
from collections.abc import Iterator
from typing import Any, Final, cast

from autogen_eventlog.codec.bases import own
from autogen_eventlog.codec.primitives import decode_base64, encode_bytes
from autogen_eventlog.state.attributes import Attributes
from autogen_eventlog.state.form import Malformed
from autogen_eventlog.state.kind import Kind
from autogen_eventlog.state.objects import Plain
from autogen_eventlog.state.parts import NotState, Parts

_LINKS: Final = ("__cause__", "__context__")
_SUPPRESS: Final = "__suppress_context__"


class Exceptional(Plain):
    """Exceptions: arguments, attributes, cause and context. The traceback is code and frames, and is left out."""

    def __init__(self, name: str, cls: type) -> None:
        super().__init__(name, cls)
        self._base: Any = built_in_base(cls)
        self._members = dict(_members(self._base))

    def take(self, value: Any) -> Parts:
        if any(base.__name__ == "BaseExceptionGroup" for base in self._base.__mro__):
            raise NotState("it is a group of exceptions, which can't be made without running its code")
        parts = Parts(self.attributes.read(value), items=[_part(BaseException, "args", value)])
        parts.items = [*(parts.items or ()), *(_part(BaseException, link, value) for link in _LINKS)]
        for descriptor in self._members.values():
            try:
                parts.items.append(descriptor.__get__(value))
            except (AttributeError, TypeError):
                parts.items.append(_UNSET)
        parts.data = [_part(BaseException, _SUPPRESS, value)]
        return parts

    def empty(self, data: Any) -> Any:
        return self._base.__new__(self.cls)

    def fill(self, instance: Any, parts: Parts) -> None:
        arguments, cause, context, *members = parts.items or []
        vars(BaseException)["args"].__set__(instance, arguments)
        for member, value in zip(self._members.values(), members, strict=True):
            if value is not _UNSET and value is not None:  # None is what one that was never set shows
                member.__set__(instance, value)
        for link, value in zip(_LINKS, (cause, context), strict=True):
            vars(BaseException)[link].__set__(instance, value)
        vars(BaseException)[_SUPPRESS].__set__(instance, parts.data[0])
        super().fill(instance, parts)


def built_in_base(cls: type) -> type:
    """The built-in exception after which a class of exceptions is laid out."""
    base: Any = cls
    while base.__module__ != "builtins":
        base = base.__base__
    return base


def _members(cls: type[Any]) -> Iterator[tuple[str, Any]]:
    """What a built-in exception keeps beside its arguments, such as the `errno` of an `OSError`."""
    for base in reversed(cls.__mro__):
        for name, member in vars(base).items():
            is_member = isinstance(member, (types.MemberDescriptorType, types.GetSetDescriptorType))
            if is_member and not name.startswith("__") and name != "args":
                yield name, member


_UNSET: Final = NotImplemented


def _part(base: type, name: str, value: Any) -> Any:
    return vars(base)[name].__get__(value)


class TextBuffer(Kind):
    """`io.StringIO`, and where it stands."""

    base: type = io.StringIO

    def __init__(self, name: str, cls: type) -> None:
        super().__init__(name, cls)
        self._attributes = Attributes(cls)

    def take(self, value: Any) -> Parts:
        try:
            *data, others = own(self.base, "__getstate__")(value)
        except ValueError:
            return Parts(self._attributes.read(value), data="closed")
        return Parts(self._attributes.read(value) or others, items=data)

    def empty(self, data: Any) -> Any:
        instance = own(self.base, "__new__")(self.cls)
        own(self.base, "__init__")(instance)
        return instance

    def fill(self, instance: Any, parts: Parts) -> None:
        others = parts.attributes or {}
        if parts.data == "closed":
            own(self.base, "close")(instance)
        else:
            own(self.base, "__setstate__")(instance, (*(parts.items or ()), others))
        if self._attributes.any:
            self._attributes.write(instance, others)

    in_place = False


class BytesBuffer(TextBuffer):
    """`io.BytesIO`, and where it stands."""

    base = io.BytesIO


class Array(Plain):
    """`array.array`."""

    def data(self, value: Any) -> Any:
        code = vars(array.array)["typecode"].__get__(value)
        return [code, encode_bytes(own(array.array, "tobytes")(value))]

    def empty(self, data: Any) -> Any:
        return own(array.array, "__new__")(self.cls, data[0])

    def fill(self, instance: Any, parts: Parts) -> None:
        del instance[:]
        own(array.array, "frombytes")(instance, decode_base64({"v": parts.data[1]}))
        super().fill(instance, parts)

    in_place = False


class Count(Kind):
    """`itertools.count`, where it stands."""

    in_place = False

    def take(self, value: Any) -> Parts:
        try:
            arguments = ast.literal_eval(repr(value).removeprefix("count"))
        except (ValueError, SyntaxError):
            raise NotState("it counts in numbers that are neither int nor float") from None
        return Parts(data=list(cast("tuple[Any, ...]", arguments) if isinstance(arguments, tuple) else (arguments,)))

    def empty(self, data: Any) -> Any:
        return itertools.count(*data)

    def fill(self, instance: Any, parts: Parts) -> None:
        return


class ListIterator(Kind):
    """What `iter(list)` gives, where it stands."""

    in_place = False
    composed = True

    def take(self, value: Any) -> Parts:
        _, arguments, *position = value.__reduce__()
        return Parts(items=list(arguments), data=position)

    def make(self, parts: Parts) -> Any:
        (items,) = parts.items or ((),)
        if type(items) not in (list, tuple):
            raise Malformed("what it goes through is no list")
        iterator: Any = iter(items)
        for position in parts.data:
            iterator.__setstate__(position)
            if iterator.__reduce__()[-1] != position:
                raise Malformed("it goes through a list that holds it, so it can't be put where it stood")
        return iterator


class Cycle(Kind):
    """`itertools.cycle` over a list or tuple, where it stands."""

    in_place = False
    composed = True

    def take(self, value: Any) -> Parts:
        with warnings.catch_warnings():  # Python 3.14 takes it away
            warnings.simplefilter("ignore", DeprecationWarning)
            _, (iterator,), (saved, first) = value.__reduce__()
        return Parts(items=[iterator, list(saved)], data=int(first))

    def make(self, parts: Parts) -> Any:
        iterator, saved = parts.items or [iter(()), []]
        made: Any = itertools.cycle(iterator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            made.__setstate__((saved, parts.data))
        return made


class Pattern(Kind):
    """A compiled regular expression."""

    shared = False

    def take(self, value: Any) -> Parts:
        return Parts(items=[value.pattern], data=int(value.flags))

    def make(self, parts: Parts) -> Any:
        (pattern,) = parts.items or ("",)
        if type(pattern) not in (str, bytes) or type(parts.data) is not int:
            raise Malformed("it is no regular expression")
        return re.compile(pattern, parts.data & ~re.DEBUG & ~(re.UNICODE if isinstance(pattern, bytes) else 0))


class Proxy(Kind):
    """`types.MappingProxyType` of a mapping that is state itself."""

    shared = False

    def take(self, value: Any) -> Parts:
        return Parts(items=gc.get_referents(value))

    def make(self, parts: Parts) -> Any:
        mapping: Any = (parts.items or [{}])[0]
        return cast(Any, types.MappingProxyType(mapping))


class View(Kind):
    """`memoryview` of the whole of a bytes or bytearray."""

    shared = False

    def take(self, value: Any) -> Parts:
        whole = value.contiguous and value.ndim == 1 and value.format == "B"
        if not whole or type(value.obj) not in (bytes, bytearray) or value.nbytes != len(value.obj):
            raise NotState("it is a view of a part of something's memory")
        guarded = value.readonly and type(value.obj) is bytearray
        return Parts(items=[value.obj], data="readonly" if guarded else None)

    def make(self, parts: Parts) -> Any:
        view = memoryview(*(parts.items or ()))
        return view.toreadonly() if parts.data == "readonly" else view


class Getter(Kind):
    """`operator.attrgetter`, `itemgetter` and `methodcaller`."""

    shared = False

    def take(self, value: Any) -> Parts:
        maker, arguments = value.__reduce__()
        if not isinstance(maker, functools.partial):
            return Parts(items=list(arguments))
        named = cast("functools.partial[Any]", maker)
        return Parts(items=[*named.args, *arguments, *named.keywords.values()], data=list(named.keywords))

    def make(self, parts: Parts) -> Any:
        """The names of keywords are data, so that none of its arguments is taken for them."""
        items, names = list(parts.items or ()), list(parts.data or ())
        if not names:
            return self.cls(*items)
        if len(names) >= len(items) or self.cls is not operator.methodcaller:
            raise Malformed("it has more names than arguments")
        first = len(items) - len(names)
        return operator.methodcaller(*items[:first], **dict(zip(names, items[first:], strict=True)))


class Alias(Kind):
    """A parametrised type, such as `list[int]`."""

    shared = False

    def take(self, value: Any) -> Parts:
        return Parts(items=[value.__origin__, *value.__args__])

    def make(self, parts: Parts) -> Any:
        origin, *arguments = parts.items or (None,)
        if not isinstance(origin, type):
            raise Malformed("what is parametrised is no class")
        return types.GenericAlias(origin, tuple(arguments))


class Reference(Kind):
    """`weakref.ref`."""

    composed = True
    late = True
    in_place = False

    def take(self, value: Any) -> Parts:
        if value.__callback__ is not None:
            raise NotState("it is a weak reference that calls back")
        return Parts(weak=[] if value() is None else [value()])

    def make(self, parts: Parts) -> Any:
        target = (parts.weak or [_Dead()])[0]
        return weakref.ref(target)


class _Dead:
    """Gone as soon as it is made."""


class WeakKeys(Kind):
    """`WeakKeyDictionary`: what still lives of it. The keys have to be held by something else in the state."""

    late = True
    hashes = True

    def take(self, value: Any) -> Parts:
        held: dict[Any, Any] = value.__dict__["data"]
        living = [(key(), item) for key, item in held.items() if key() is not None]
        return Parts(weak=[key for key, _ in living], items=[item for _, item in living])

    def empty(self, data: Any) -> Any:
        return self.cls()

    def fill(self, instance: Any, parts: Parts) -> None:
        instance.clear()
        instance.update(zip(parts.weak or (), parts.items or (), strict=True))


class WeakValues(WeakKeys):
    """`WeakValueDictionary`, in the same way."""

    def take(self, value: Any) -> Parts:
        held: dict[Any, Any] = value.__dict__["data"]
        living = [(key, item()) for key, item in held.items() if item() is not None]
        return Parts(weak=[item for _, item in living], items=[key for key, _ in living])

    def fill(self, instance: Any, parts: Parts) -> None:
        instance.clear()
        instance.update(zip(parts.items or (), parts.weak or (), strict=True))


class WeakElements(WeakKeys):
    """`WeakSet`, in the same way."""

    def take(self, value: Any) -> Parts:
        held: set[Any] = value.__dict__["data"]
        return Parts(weak=[one() for one in held if one() is not None], unordered=True)

    def fill(self, instance: Any, parts: Parts) -> None:
        instance.clear()
        instance.update(parts.weak or ())


def position_of(file: Any) -> Any:
    """What tells where an open file stands. Raises NotState if it can't be told."""
    if file.closed:
        return ["closed"]
    try:
        return [str(file.name), str(getattr(file, "mode", "")), file.tell() if file.seekable() else None]
    except (OSError, ValueError, AttributeError) as error:
        raise NotState(f"it is an open file, and it can't be told where it stands ({error})") from None


STANDARD: Final[dict[type, type[Kind]]] = {
    io.StringIO: TextBuffer,
    io.BytesIO: BytesBuffer,
    itertools.count: Count,
    itertools.cycle: Cycle,
    type(iter(())): ListIterator,
    re.Pattern: Pattern,
    types.MappingProxyType: Proxy,
    memoryview: View,
    operator.attrgetter: Getter,
    operator.itemgetter: Getter,
    operator.methodcaller: Getter,
    types.GenericAlias: Alias,
    weakref.ref: Reference,
    type(iter(cast("list[Any]", []))): ListIterator,
    weakref.WeakKeyDictionary: WeakKeys,
    weakref.WeakValueDictionary: WeakValues,
    weakref.WeakSet: WeakElements,
}
"""Exactly these classes, by a short word."""
