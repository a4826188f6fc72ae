"""Stand-ins: objects in the place of an agent's boundaries, of their own classes and with their own attributes.

A stand-in is an instance of a subclass of the class it stands for and shares its `__dict__`: it is that object in all but
the methods that ask the outside. Which agent asks is looked up when it asks: the same AgentChat agent, with the same
stand-ins, may hang on the live instance and on a view of it.
"""

from __future__ import annotations

import copy
import functools
import inspect
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

from autogen_core import CancellationToken

from autogen_eventlog.effects.asking import RecordedStream, ask
from autogen_eventlog.effects.requests import Request, request
from autogen_eventlog.errors import InstanceEnded
from autogen_eventlog.incarnation.boundary import Boundary
from autogen_eventlog.incarnation.incarnation import Incarnation
from autogen_eventlog.replay.loop import SESSION

_CELL = "_eventlog_cell"
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_OWN = frozenset({"load_state", "load_state_json"})
"""They put given data into the object itself: replay does that too."""
_ALWAYS = frozenset({"save_state", "save_state_json"})
"""Outside of a session they may be called on any instance: a snapshot is checked by them."""

Keep = Callable[[Incarnation, Any, Any], Any]
"""What of a result is recorded and given to the agent, from the incarnation, the boundary and the result."""


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """The boundaries of one of AutoGen's kinds, and what asks the outside beside their public coroutine methods."""

    name: str
    """The first part of the kinds of their effects."""
    base: type
    """AutoGen's class, whose names of parameters are used in requests: another implementation makes the same ones."""
    calls: frozenset[str] = frozenset()
    """Methods that ask once, however they are written."""
    streams: frozenset[str] = frozenset()
    """Methods that ask for a stream, however they are written."""
    keep: Mapping[str, Keep] = field(default_factory=dict[str, Keep])
    """By method."""
    instead: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Methods of the stand-in, in the place of those of its class."""


class Cell:
    """What a stand-in knows beside what it shares with the object it stands for."""

    __slots__ = ("_live", "_stream", "family", "identity", "place", "to_start", "wrapped")

    def __init__(self, wrapped: Any, family: Family, identity: Mapping[str, Any]) -> None:
        self.wrapped = wrapped
        self.family = family
        self.identity = identity
        """What tells it, in a request, from others of the agent's."""
        self.place = ""
        """Where the agent's constructor put it; empty for a copy that a handler made."""
        self.to_start: weakref.WeakSet[Incarnation] = weakref.WeakSet()
        """Those for which it was started in a replay, so not really."""
        self._live: weakref.ref[Incarnation] | None = None
        self._stream = ""

    def hangs_on(self, incarnation: Incarnation, place: str) -> None:
        """Note that a fresh instance has this stand-in.

        Args:
            place: Where. One that an instance had before, on an AgentChat agent that both have, stays known by its first.
        """
        self.place = self.place or place
        self._stream = incarnation.stream
        incarnation.boundaries.append(self)
        if incarnation.continues:
            self._live = weakref.ref(incarnation)

    def again(self, wrapped: Any) -> Cell:
        """For a copy. One of what hangs on a view is refused what the view is; another is nobody's yet."""
        made = Cell(wrapped, self.family, self.identity)
        made._stream = "" if self._live is not None else self._stream
        return made

    def asking(self, *, refuse: bool = True) -> Incarnation | None:
        """The incarnation in whose session the caller runs; None outside of any.

        Args:
            refuse: Whether to refuse, outside of any, what is asked of a view.

        Raises:
            InstanceEnded: Outside of any, on an instance that is only a view, or has ended.
        """
        session = SESSION.get()
        owner = None if session is None else getattr(session, "owner", None)
        if isinstance(owner, Incarnation):
            return owner
        live = None if self._live is None else self._live()
        if refuse and self._stream and (self._live is None or (live is not None and live.ended)):
            raise InstanceEnded(self._stream)
        return None

    async def started(self, incarnation: Incarnation) -> None:
        """Start what was started in the part of the agent's life that was replayed."""
        if incarnation in self.to_start:
            self.to_start.discard(incarnation)
            await self.wrapped.start()


def cell_of(stand_in: Any) -> Cell:
    return object.__getattribute__(stand_in, _CELL)


class StandIn(Boundary):
    """What all stand-ins do beside the methods of their classes."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name == _CELL:
            raise AttributeError(name)  # being copied or unpickled: there is nothing behind it yet
        return getattr(cell_of(self).wrapped, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(cell_of(self).wrapped, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(cell_of(self).wrapped, name)

    def _eventlog_place(self) -> str:
        return cell_of(self).place

    def __copy__(self) -> Any:
        return self._again(copy.copy(cell_of(self).wrapped))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self._again(copy.deepcopy(cell_of(self).wrapped, memo))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return cell_of(self).wrapped.__reduce_ex__(protocol)

    def _again(self, wrapped: Any) -> Any:
        return _made(type(self), cell_of(self).again(wrapped))


def stand_in(wrapped: Any, family: Family, identity: Mapping[str, Any]) -> Any:
    """A stand-in for `wrapped`.

    Args:
        identity: Part of every request.

    Raises:
        TypeError: Its class can't be subclassed, or its instances can't share their attributes.
    """
    return _made(_class_for(cast("type[Any]", type(wrapped)), family), Cell(wrapped, family, identity))


def _made(cls: type[Any], cell: Cell) -> Any:
    made: Any = object.__new__(cls)
    object.__setattr__(made, _CELL, cell)
    if hasattr(cell.wrapped, "__dict__"):
        object.__setattr__(made, "__dict__", cell.wrapped.__dict__)
    return made


@lru_cache(maxsize=1024)
def _class_for(cls: type, family: Family) -> type:
    body: dict[str, Any] = {
        "__slots__": (_CELL,),
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
    }
    body |= {name: recorded for name in dir(cls) if (recorded := _recorded(cls, name, family)) is not None}
    body |= {name: method for name, method in family.instead.items() if hasattr(cls, name)}
    return type(cls)(cls.__name__, (StandIn, cls), body)


def _recorded(cls: type, name: str, family: Family) -> Any:
    """A recording method in the place of a public asynchronous one."""
    method = inspect.getattr_static(cls, name, None)
    if name in ("__aenter__", "__aexit__"):
        return _entering if name == "__aenter__" else _leaving
    if name.startswith("_") or name in _OWN:
        return None
    if name in family.streams or inspect.isasyncgenfunction(method):
        return _recorded_stream(method, family)
    asks = name in family.calls or inspect.iscoroutinefunction(method)
    return _recorded_call(method, family) if asks else None


def _recorded_call(method: Any, family: Family) -> Any:
    """A method that asks the outside once."""
    signature, keep = _signature(method, family), family.keep.get(method.__name__)

    @functools.wraps(method)
    async def call(self: Any, *args: Any, **keywords: Any) -> Any:
        cell = cell_of(self)
        incarnation = cell.asking(refuse=method.__name__ not in _ALWAYS)
        real = getattr(cell.wrapped, method.__name__)
        if incarnation is None:
            return await real(*args, **keywords)
        asked = _Asked(cell, method.__name__, signature, args, keywords)

        async def do(token: CancellationToken) -> Any:
            await cell.started(incarnation)
            result = await asked.made(real, token)
            return result if keep is None else keep(incarnation, cell.wrapped, result)

        return await ask(incarnation, asked.kind, asked.request(incarnation), do, asked.token)

    return call


def _recorded_stream(method: Any, family: Family) -> Any:
    """A method that asks the outside and gets a stream."""
    signature = _signature(method, family)

    @functools.wraps(method)
    def stream(self: Any, *args: Any, **keywords: Any) -> Any:
        cell = cell_of(self)
        incarnation = cell.asking()
        real = getattr(cell.wrapped, method.__name__)
        if incarnation is None:
            return real(*args, **keywords)
        asked = _Asked(cell, method.__name__, signature, args, keywords)

        async def do(token: CancellationToken) -> Any:
            await cell.started(incarnation)
            made = asked.made(real, token)
            return await made if inspect.isawaitable(made) else made

        return RecordedStream(incarnation, asked.kind, lambda: asked.request(incarnation), do, asked.token)

    return stream


class _Asked:
    """One call of a boundary's method, as the agent made it."""

    def __init__(
        self, cell: Cell, name: str, signature: inspect.Signature, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> None:
        self.kind = f"{cell.family.name}.{name}"
        self._identity = cell.identity
        # The real call comes after a commit: by then the agent may have changed the list that it gave.
        self._args = [copy.copy(value) if type(value) in (list, dict) else value for value in args]
        self._keywords = {
            key: copy.copy(value) if type(value) in (list, dict) else value for key, value in keywords.items()
        }
        self._named = _named(signature, self._args, self._keywords)
        self.token = next((v for v in self._named.values() if isinstance(v, CancellationToken)), None)

    def request(self, incarnation: Incarnation) -> Request:
        return request(incarnation.codec, self.kind, {**self._identity, **self._named})

    def made(self, real: Callable[..., Any], token: CancellationToken) -> Any:
        """Make the real call, with `token` in the place of the agent's."""
        args = [token if isinstance(value, CancellationToken) else value for value in self._args]
        keywords = {k: token if isinstance(value, CancellationToken) else value for k, value in self._keywords.items()}
        return real(*args, **keywords)


def _signature(method: Any, family: Family) -> inspect.Signature:
    return inspect.signature(getattr(family.base, method.__name__, method))


def _named(signature: inspect.Signature, args: list[Any], keywords: dict[str, Any]) -> dict[str, Any]:
    """The arguments by the names of the parameters; what the signature does not know, by keyword or position."""
    names = [name for name, known in signature.parameters.items() if known.kind not in _VARIABLE][1:]
    given = {names[at] if at < len(names) else f"argument {at}": value for at, value in enumerate(args)} | keywords
    order = {name: at for at, name in enumerate(names)}
    return dict(sorted(given.items(), key=lambda item: (order.get(item[0], len(order)), item[0])))


def reading(name: str, of: Callable[[Any], Any], back: Callable[[Any], Any], otherwise: Any) -> Any:
    """A synchronous method whose answer differs each time: read and recorded live, the recorded answer in replay.

    Args:
        of: Makes the answer JSON-clean.
        back: Makes it an answer again.
        otherwise: The JSON-clean answer for a view that reads on after its last event.
    """

    def read(self: Any, *args: Any, **keywords: Any) -> Any:
        cell = cell_of(self)
        real = getattr(cell.wrapped, name)
        session = SESSION.get()
        owner = None if session is None else getattr(session, "owner", None)
        if not isinstance(owner, Incarnation):
            return real(*args, **keywords)
        value = owner.session.reading(f"{cell.family.name}.{name}", lambda: of(real(*args, **keywords)), otherwise)
        return back(value)

    read.__name__ = name
    return read


def lifecycle(name: str, *, starts: bool) -> Any:
    """`start` and `stop`: recorded, and remembered in replay, so that what is needed is really started once live."""

    async def change(self: Any) -> Any:
        await _change(self, name, name, (), starts=starts)

    change.__name__ = name
    return change


async def _entering(self: Any) -> Any:
    await _change(self, "start", "__aenter__", (), starts=True)
    return self


async def _leaving(self: Any, *exception: Any) -> Any:
    return await _change(self, "stop", "__aexit__", exception, starts=False)


async def _change(self: Any, name: str, method: str, arguments: tuple[Any, ...], *, starts: bool) -> Any:
    cell = cell_of(self)
    real = getattr(cell.wrapped, method)
    incarnation = cell.asking()
    if incarnation is None:
        return await real(*arguments)
    replayed = not incarnation.live
    begun = False

    async def do(token: CancellationToken) -> Any:
        nonlocal begun
        begun = True
        outcome = await real(*arguments)
        return None if starts else outcome

    kind = f"{cell.family.name}.{name}"
    outcome = await ask(incarnation, kind, request(incarnation.codec, kind, cell.identity), do)
    if starts and replayed and not begun:
        cell.to_start.add(incarnation)
    elif not starts:
        cell.to_start.discard(incarnation)
    incarnation.has_started(cell, starts)
    return outcome
