"""Which kind a class gets: the first that fits, from the most particular to plain objects."""

from __future__ import annotations

import array
import asyncio
import concurrent.futures
import contextvars
import functools
import io
import json
import logging
import socket
import sys
import threading
import types
import typing
import weakref
from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, Final, cast

from autogen_core import AgentId
from pydantic import SecretBytes, SecretStr

from autogen_eventlog.codec import Codec, scalars, times
from autogen_eventlog.codec.enums import enum_plan
from autogen_eventlog.codec.foreign import foreign_plan
from autogen_eventlog.codec.names import type_name
from autogen_eventlog.codec.primitives import encode_float, encode_int, encode_text
from autogen_eventlog.codec.walk import Walk
from autogen_eventlog.codec.wire import DATA, TAG, Refusal, dumps
from autogen_eventlog.errors import NotEncodable
from autogen_eventlog.incarnation.boundary import Boundary, place_of
from autogen_eventlog.incarnation.facade import RuntimeFacade
from autogen_eventlog.state import idle
from autogen_eventlog.state.arrays import numpy_kind
from autogen_eventlog.state.callables import LOCALS, Cell, Function, Method, Partial, shown_by_module, static, unwrapped
from autogen_eventlog.state.constants import Constants, only_instances
from autogen_eventlog.state.form import Form, Malformed
from autogen_eventlog.state.kind import AnyKind, Kind, Leaf, Outside, Refused
from autogen_eventlog.state.layout import hides_data
from autogen_eventlog.state.matching import MADE_AS
from autogen_eventlog.state.objects import BASES, PLAIN_NAMES, SCALARS, Plain, Scalar, Whole
from autogen_eventlog.state.parts import NotState, Parts
from autogen_eventlog.state.standard import (
    STANDARD,
    Array,
    BytesBuffer,
    Exceptional,
    TextBuffer,
    built_in_base,
    position_of,
)

CONSTANTS: Final[dict[str, Any]] = {"Ellipsis": ..., "NotImplemented": NotImplemented}
_VALUES: Final = (AgentId, SecretStr, SecretBytes)
"""They compare by content, and nobody changes them."""
_REST: Final = "Ask for a snapshot when the agent is at rest, or keep it out of the agent's attributes"


def _words(classes: Iterable[type]) -> dict[str, type]:
    return {cls.__name__: cls for cls in classes}


def _reference(value: Any) -> Form:
    if isinstance(value, types.BuiltinFunctionType) and not shown_by_module(value):
        raise NotState("no module shows it under its name")
    return _function(f"{value.__module__}:{value.__qualname__}")


def _function(name: str) -> Form:
    return {TAG: "function", DATA: name}


def _descriptor(value: Any) -> Form:
    owner = cast("type[Any]", value.__objclass__)
    return {TAG: "function", DATA: f"{type_name(owner)}.{value.__name__}"}


def _class(value: Any) -> Form:
    return {TAG: "class", DATA: type_name(value)}


def _module(value: Any) -> Form:
    if sys.modules.get(value.__name__) is not value:
        raise NotState("it is a module that is not loaded under its name")
    return {TAG: "module", DATA: value.__name__}


def _constant(value: Any) -> Form:
    return {TAG: "constant", DATA: next(name for name, one in CONSTANTS.items() if one is value)}


def _logger(value: Any) -> Form:
    if logging.Logger.manager.loggerDict.get(value.name) is not value and value is not logging.root:
        raise NotState("it is a logger that logging.getLogger does not give")
    return {TAG: "logger", DATA: value.name}


def _by_codec(encode: Callable[[Any, Walk, int], object]) -> Leaf:
    def leaf(value: Any) -> Form:
        try:
            return encode(value, Walk({}), 0)
        except Refusal as refusal:
            raise NotState(refusal.reason) from None
        except KeyError:
            raise NotState("it holds something else than plain values") from None

    return Leaf(leaf)


class Coded(Kind):
    """Classes that the codec stores in its own way: protobuf messages, images, those with registered functions."""

    in_place = False

    def __init__(self, name: str, cls: type, codec: Codec) -> None:
        super().__init__(name, cls)
        self._codec = codec

    def take(self, value: Any) -> Parts:
        try:
            return Parts(data=json.loads(self._codec.encode(value).data))
        except NotEncodable as refused:
            raise NotState(refused.reason) from None

    def empty(self, data: Any) -> Any:
        return self._codec.decode(dumps(data).encode("ascii"), where=self.name)

    def fill(self, instance: Any, parts: Parts) -> None:
        return


class Awaited(Plain):
    """`concurrent.futures.Future` that is done."""

    def take(self, value: Any) -> Parts:
        parts = super().take(value)
        if (parts.attributes or {}).get("_state") in ("PENDING", "RUNNING"):
            raise NotState("it is a future that is not done", _REST)
        return parts


def _described(value: Any) -> str:
    return f"{type(value).__name__} of level {value.level}" if isinstance(value, logging.Handler) else repr(value)


_LEAVES: Final[dict[type, Leaf]] = {
    **{cls: _by_codec(encode) for cls, encode in {**scalars.ENCODERS, **times.ENCODERS}.items()},
    **dict.fromkeys((bool, type(None)), Leaf(lambda value: value)),
    str: Leaf(encode_text),
    int: Leaf(encode_int),
    float: Leaf(encode_float),
    types.ModuleType: Leaf(_module),
    types.EllipsisType if sys.version_info >= (3, 10) else type(...): Leaf(_constant),
    type(NotImplemented): Leaf(_constant),
    types.MethodDescriptorType: Leaf(_descriptor),
    types.WrapperDescriptorType: Leaf(_descriptor),
    logging.Logger: Leaf(_logger),
    logging.RootLogger: Leaf(_logger),
}


def _place(value: Boundary) -> str | None:
    place = place_of(value)
    if place == "":
        raise NotState("the constructor did not make it, so no fresh instance has it", _MADE_THERE)
    return None if place is None else f"{MADE_AS}{place}"


_MADE_THERE: Final = "Let the constructor make all models, tools and the like that handlers choose from"
_OUTSIDE: Final[tuple[tuple[Any, Outside], ...]] = (
    (Boundary, Outside(_place)),
    ((RuntimeFacade, contextvars.ContextVar, concurrent.futures.Executor), Outside()),
    (
        (socket.socket, asyncio.BaseTransport, asyncio.StreamWriter, asyncio.StreamReader, asyncio.AbstractServer),
        Outside(),
    ),
    ((io.FileIO, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.TextIOWrapper), Outside(position_of)),
    ((typing.TypeVar, types.UnionType, logging.Handler), Outside(_described)),
)
_REFUSED: Final[tuple[tuple[Any, Refused], ...]] = (
    ((types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType), Refused("it is code that was begun", _REST)),
    ((types.FrameType, types.TracebackType, types.CodeType, contextvars.Context), Refused("it is code, not data")),
    (threading.Thread, Refused("it is a thread", _REST)),
    (threading.local, Refused("it holds something else in each thread")),
    (weakref.finalize, Refused("it is called when an object goes, which a copy of the object is not")),
    (
        (asyncio.Handle, asyncio.TaskGroup) if sys.version_info >= (3, 11) else (asyncio.Handle,),
        Refused("it is work that is under way", _REST),
    ),
)
_LOCKS: Final[dict[type, Kind]] = {
    type(threading.Lock()): idle.ThreadLock("lock", type(threading.Lock())),
    type(threading.RLock()): idle.ThreadRLock("rlock", type(threading.RLock())),
}
FUNCTION: Final = Function("function", types.FunctionType)
METHOD: Final = Method("method", types.MethodType)
_FUTURE: Final = idle.Future("future", asyncio.Future)
_TASK: Final = idle.Task("task", asyncio.Task)
_WORDS: Final[dict[str, Kind]] = {
    **{word: BASES.get(cls, BASES[dict])(word, cls) for word, cls in PLAIN_NAMES.items()},
    **{word: STANDARD[cls](word, cls) for word, cls in _words(STANDARD).items()},
    **{kind.name: kind for kind in (FUNCTION, METHOD, _FUTURE, _TASK, *_LOCKS.values())},
    "cell": Cell("cell", types.CellType),
    "partial": Partial("partial", functools.partial),
    "array": Array("array", array.array),
}
_EXACT: Final[dict[type, Kind]] = {
    **{kind.cls: kind for kind in _WORDS.values()},
    asyncio.Task: _TASK,
    idle.DoneTask: _TASK,
}
_BUILT_ON: Final[tuple[tuple[type, Callable[[str, type], Kind]], ...]] = (
    (asyncio.Lock, idle.AsyncLock),
    (concurrent.futures.Future, Awaited),
    (functools.partial, Partial),
    (BaseException, Exceptional),
    (io.StringIO, TextBuffer),
    (io.BytesIO, BytesBuffer),
    (array.array, Array),
    *BASES.items(),
)


class Kinds(dict[type, AnyKind]):
    """From class to kind; finds that of a class it meets the first time.

    Args:
        codec: for classes that it stores in its own way.
        wiring: classes of which the fresh instance's objects are kept.
    """

    def __init__(self, codec: Codec, wiring: tuple[type, ...] = ()) -> None:
        super().__init__(cast("dict[type, AnyKind]", {**_LEAVES, **_EXACT}))
        self._codec = codec
        self._wiring = wiring
        self.owners: dict[str, type] = {}
        """Classes that no module shows and of which there are objects, with their bases, by name."""
        self.hidden: dict[str, type] = {}
        """Classes that objects have or refer to, and that no module shows under their name."""
        self.constants = Constants()
        self.only: dict[type, dict[int, NotState]] = {}
        """Instances that stay the only ones, of the classes that have such."""
        self._called: dict[str, type] = {}
        self._own: type | None = None

    def __missing__(self, cls: type) -> AnyKind:
        for base in cls.__mro__:
            if LOCALS in base.__qualname__:
                self.owners.setdefault(type_name(base), base)
        self[cls] = kind = self._told_apart(cls, self._found(cls))
        if isinstance(kind, Kind) and kind.shared and (only := only_instances(cls)):
            self.only[cls] = only
        return kind

    def look_from(self, agent: object) -> None:
        """Take the state for that of this agent, which whoever loads it makes: the name of its class leads nowhere."""
        self._own = type(agent)
        self.constants.look_in(agent)

    def check_name(self, cls: type) -> None:
        """That a class is stored by its name only if the name leads back to it.

        Raises:
            NotState: another class of the state has the same name, or its module or the codec has.
        """
        name = type_name(cls)
        shown = static(cls.__module__, cls.__qualname__)
        if not isinstance(shown, type) or type_name(shown) != name:
            shown = None
            if cls.__module__ != "builtins":  # where some have names that they are not shown by
                self.hidden.setdefault(name, cls)
        for other in (self._called.setdefault(name, cls), shown, self._codec.registry.registered(name)):
            if other is not None and other is not cls:
                raise NotState(*two_of(name))

    def _told_apart(self, cls: type, kind: AnyKind) -> AnyKind:
        by_its_name = kind.name == type_name(cls) if isinstance(kind, Kind) else issubclass(cls, Enum)
        try:
            if by_its_name and cls is not self._own:
                self.check_name(cls)
        except NotState as problem:
            return Refused(problem.reason, problem.remedy)
        return kind

    def named(self, name: str, find: Callable[[str], type | None]) -> Kind | None:
        """The kind that an entry names: by a short word, or by a class that may be made. None if it may not.

        Raises:
            Malformed: objects of that class are not stored as entries.
        """
        if name in _WORDS:
            return _WORDS[name]
        cls = find(name)
        if cls is None:
            return None
        if cls is object:
            raise Malformed("it is a bare object(), which is stored by the name that shows it, or not at all")
        kind = self[cls]
        if not isinstance(kind, Kind) or kind.name != name:
            raise Malformed(f"objects of class {name!r} are not stored as such")
        return kind

    def of(self, value: Any) -> AnyKind:
        """The kind of one object, where its class alone does not tell."""
        kind = self[cast("type[Any]", type(value))]
        if kind is FUNCTION and (shown_by_module(value) or self._shown_by_class(value)):
            return _SHOWN
        return self._method(value) if kind is METHOD else kind

    def _method(self, value: Any) -> AnyKind:
        if value.__self__ is None or isinstance(value.__self__, types.ModuleType):
            return _SHOWN
        shown = self.constants.method(value)
        return METHOD if shown is None else Leaf(lambda value: _function(shown))

    def _shown_by_class(self, value: Any) -> bool:
        owner, _, name = f"{value.__module__}:{value.__qualname__}".rpartition(".")
        return unwrapped(vars(self.owners[owner]).get(name)) is value if owner in self.owners else False

    def _found(self, cls: type) -> AnyKind:
        if self._wiring and issubclass(cls, self._wiring):
            return Outside()
        if self._codec.registry.custom(cls) is not None:
            return Coded(type_name(cls), cls, self._codec)
        for kind in (_unlike_data(cls), _declared(cls), self._foreign(cls), _built(cls)):
            if kind is not None:
                return kind
        return _plain(cls)

    def _foreign(self, cls: type[Any]) -> AnyKind | None:
        if issubclass(cls, _VALUES):
            return Whole(type_name(cls), cls)
        if foreign_plan(cls, type_name(cls)) is not None:
            return Coded(type_name(cls), cls, self._codec)
        numpy = numpy_kind(cls)
        return numpy(type_name(cls), cls) if isinstance(numpy, type) else numpy


_SHOWN: Final = Leaf(_reference)


def two_of(name: str) -> tuple[str, str]:
    """What is wrong with a name that two classes have, and what to do."""
    reason = f"there are two classes called {name!r}, and a state is stored by the names of classes"
    return reason, "Give each a name (__qualname__) of its own, or let the module show the one that is used"


def _unlike_data(cls: type) -> AnyKind | None:
    if issubclass(cls, type):
        return Leaf(_class)
    if issubclass(cls, asyncio.AbstractEventLoop):
        return Leaf(lambda value: {TAG: "loop"})
    if cls in (types.BuiltinFunctionType, types.MethodType):
        return METHOD
    if cls.__module__ in ("typing", "typing_extensions") or cls.__module__.startswith("opentelemetry."):
        return Outside(repr if cls.__module__.startswith("typing") else lambda value: None)
    for classes, kind in (*_OUTSIDE, *_REFUSED):
        if issubclass(cls, classes):
            return kind
    return None


def _declared(cls: type) -> AnyKind | None:
    if issubclass(cls, Enum):
        return _by_codec(enum_plan(cls, type_name(cls)).encode)
    return None


def _built(cls: type[Any]) -> AnyKind | None:
    name = type_name(cls)
    if issubclass(cls, asyncio.Future):
        hidden = Refused("its class keeps attributes where they can't be seen")
        return _TASK if issubclass(cls, asyncio.Task) else hidden
    for base, kind in _BUILT_ON:
        if issubclass(cls, base):
            known = built_in_base(cls) if kind is Exceptional else base
            return _hidden(cls) if hides_data(cls, known) else kind(name, cls)
    base = next((base for base in SCALARS if issubclass(cls, base)), None)
    if base is None:
        return None
    return _hidden(cls) if hides_data(cls, base) else Scalar(name, cls, base)


def _plain(cls: type[Any]) -> AnyKind:
    if hides_data(cls):
        return _hidden(cls)
    parameters: Any = getattr(cls, "__dataclass_params__", None) if is_dataclass(cls) else None
    whole = parameters is not None and parameters.frozen and parameters.eq
    return (Whole if whole else Plain)(type_name(cls), cls)


def _hidden(cls: type) -> Refused:
    return Refused(f"{type_name(cls)} keeps data where Python can't see it")
