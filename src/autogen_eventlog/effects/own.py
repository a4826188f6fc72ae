"""Effects of one's own: calls for which AutoGen has no boundary, named as effects by whoever wrote the agent.

It is the one place where an agent may cooperate with the log, and it need not. Recorded and answered as a tool is: the
request is durable before the call is made (G2), and in replay the log answers and nothing is called (G4).
"""

from __future__ import annotations

import copy
import functools
import inspect
import re
import sys
import types
import typing
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, ParamSpec, TypeVar, overload

from autogen_core import CancellationToken

from autogen_eventlog.codec import Codec, TypeRegistry
from autogen_eventlog.effects.asking import ask
from autogen_eventlog.effects.requests import request
from autogen_eventlog.errors import InstanceEnded
from autogen_eventlog.incarnation.incarnation import Incarnation
from autogen_eventlog.replay.loop import SESSION
from autogen_eventlog.replay.session import Mode, Session
from autogen_eventlog.replay.standing import any_stands, whose

FAMILY: Final = "own"

P = ParamSpec("P")
T = TypeVar("T")

_KIND: Final = re.compile(r"[^\W\d][\w-]*(\.[^\W\d][\w-]*)*")
_SELF: Final = ("self", "cls")

_allowed: weakref.WeakKeyDictionary[TypeRegistry, set[Any]] = weakref.WeakKeyDictionary()


@overload
def effect(function: Callable[P, Coroutine[Any, Any, T]], /) -> Callable[P, Coroutine[Any, Any, T]]: ...


@overload
def effect(kind: str, /) -> Callable[[Callable[P, Coroutine[Any, Any, T]]], Callable[P, Coroutine[Any, Any, T]]]: ...


def effect(function_or_kind: Any, /) -> Any:
    """Say that calls of an async function or method are effects: `@effect` or `@effect("mail.send")`.

    Called by a handler, or by what a handler started, the request (its kind and the arguments, without `self`) is recorded
    and durable before the function runs, and its result or exception after (G2). In replay the log answers, and the
    function is not called (G4). Another request than the recorded one is a `Divergence`. Called outside of any handler it
    is just the function.

    The function runs outside of the agent's context: threads, sockets and files are fine in it, and the agent is given
    what was recorded. It should get what it needs as arguments and give back what the agent needs, since what else it
    changes on the agent is not changed in replay.

    Args:
        function_or_kind: The function, or the name of what it does, which goes into the log and should not change. Without one,
            it is the function's own name (`Mailer.send`). In settings and queries the kind is `own.mail.send`.

    Raises:
        TypeError: It is no `async def` function. A plain one can't wait until its request is durable, so a process that dies
            meanwhile would leave no trace of the call, and the next would make it again. Make it an `async def` that uses
            `asyncio.to_thread`, or call it by `effect_of`.
        ValueError: The kind is no name, nor names with dots between them.

    The calls of it raise, beside what the function raises:
        EffectOutcomeUnknown: An earlier process had made the request and died before it recorded the outcome
            (`effects_unknown={"own": …}` of `EventLogHandler`; the default is to fail).
        NotEncodable, TypeNotAllowed: The result can't be recorded exactly, or not be decoded again. Name its class as
            the function's return type, or register it with `log.register_types`.
    """
    if isinstance(function_or_kind, str):
        return functools.partial(_recorded, _checked(function_or_kind))
    return _recorded("", function_or_kind)


async def effect_of(
    kind: str, function: Callable[P, Awaitable[T]] | Callable[P, T], /, *args: P.args, **keywords: P.kwargs
) -> T:
    """Call a function, asynchronous or plain, as an effect: `await effect_of("mail.send", send, to, text)`.

    It is what `effect` is for functions that are not one's own to decorate. A plain function runs in the loop's thread and
    keeps everybody waiting for as long as it takes: `effect_of("mail.send", asyncio.to_thread, send, to, text)` does not.

    Args:
        kind: The name of what is done; it goes into the log and should not change.
        function: It is called with the other arguments, which are recorded, as `effect` says.

    Raises:
        ValueError: The kind is no name, nor names with dots between them.
        EffectOutcomeUnknown, NotEncodable, TypeNotAllowed: As for `effect`.
        Whatever the function raised, as recorded.
    """
    call: Callable[..., Any] = function
    named, incarnation = _checked(kind), _asking()
    if incarnation is None:
        made = call(*args, **keywords)
        return await made if inspect.isawaitable(made) else made
    return await _Asked(named, call, _names(call), args, keywords).outcome(incarnation)


def _recorded(kind: str, function: Any) -> Any:
    if not inspect.iscoroutinefunction(function):
        name = getattr(function, "__qualname__", None) or repr(function)
        raise TypeError(
            f"{name} is no `async def` function, so it can't wait until its request is durable. Make it one (with "
            "asyncio.to_thread for what blocks), or call it by `await effect_of(kind, function, …)`; @staticmethod and "
            "@classmethod go above @effect"
        )
    path = function.__qualname__.rpartition("<locals>.")[2]
    named, names = kind or _checked(path), _names(function, method="." in path)
    asking, asked = _asking, _Asked

    async def call(*args: Any, **keywords: Any) -> Any:
        incarnation = asking()
        if incarnation is None:
            return await function(*args, **keywords)
        return await asked(named, function, names, args, keywords).outcome(incarnation)

    # With the function's own globals, where AutoGen and others look up what its annotations name.
    made = types.FunctionType(call.__code__, function.__globals__, function.__name__, None, call.__closure__)
    return functools.wraps(function)(made)


def _checked(kind: str) -> str:
    if not _KIND.fullmatch(kind):
        raise ValueError(f"the kind of an effect is a name such as 'mail.send', not {kind!r}")
    return f"{FAMILY}.{kind}"


def _asking() -> Incarnation | None:
    """The agent whose code runs; None outside of any, and in a thread that a live agent's code has left its own for.

    Raises:
        InstanceEnded: It runs for a replay, in another thread.
        GeneratorExit: It runs as what a replay left amid a handler is closed, being garbage.
    """
    if any_stands() and whose(sys._getframe(1)):  # pyright: ignore[reportPrivateUsage]
        raise GeneratorExit  # in the context of whatever code the collector came
    session = SESSION.get()
    if not isinstance(session, Session):
        return None
    if not session.in_thread:
        if session.mode is Mode.LIVE:
            return None
        raise InstanceEnded(session.stream)
    return session.owner if isinstance(session.owner, Incarnation) else None


Names = Callable[[tuple[Any, ...], Mapping[str, Any]], dict[str, Any]]
"""The arguments of a call by the names of the parameters."""


def _names(function: Callable[..., Any], *, method: bool = False) -> Names:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a function of C without one
        return lambda args, keywords: {f"argument {at}": value for at, value in enumerate(args)} | dict(keywords)
    first = next(iter(signature.parameters), "")
    left_out = first if method and first in _SELF else None
    rest = next((p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD), None)

    def names(args: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Any]:
        given: dict[str, Any] = dict(signature.bind(*args, **keywords).arguments)
        given |= given.pop(rest, {}) if rest is not None else {}
        return {name: value for name, value in given.items() if name != left_out}

    return names


class _Asked:
    """One call, as the agent made it."""

    def __init__(
        self, kind: str, function: Callable[..., Any], names: Names, args: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> None:
        self._kind = kind
        self._function = function
        # The real call comes after a commit: by then the agent may have changed the list that it gave.
        self._args = tuple(_copied(value) for value in args)
        self._keywords = {name: _copied(value) for name, value in keywords.items()}
        self._named = names(self._args, self._keywords)

    async def outcome(self, incarnation: Incarnation) -> Any:
        codec = incarnation.codec
        _allow_results_of(self._function, codec.registry)

        async def do(token: CancellationToken) -> Any:
            made = self._function(
                *(_in_place_of(value, token) for value in self._args),
                **{name: _in_place_of(value, token) for name, value in self._keywords.items()},
            )
            result = await made if inspect.isawaitable(made) else made
            _check_readable(codec, result, self._kind)
            return result

        given = (*self._args, *self._keywords.values())
        own_token = next((value for value in given if isinstance(value, CancellationToken)), None)
        return await ask(incarnation, self._kind, request(codec, self._kind, self._named), do, own_token)


def _check_readable(codec: Codec, result: Any, kind: str) -> None:
    """What another process could not read is an error now, not when the agent is to be restored there (G11)."""
    encoded = codec.encode(result, where=f"the result of {kind}, which was done")
    Codec(codec.registry, learn=False).decode(encoded.data, where=f"the result of {kind}, which was done")


def _copied(value: Any) -> Any:
    return copy.copy(value) if type(value) in (list, dict, set) else value


def _in_place_of(value: Any, token: CancellationToken) -> Any:
    return token if isinstance(value, CancellationToken) else value


def _allow_results_of(function: Callable[..., Any], registry: TypeRegistry) -> None:
    """Allow what it may give back, once: the class it names, and those that its module shows."""
    known = _allowed.setdefault(registry, set())
    if function in known:
        return
    known.add(function)
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if module is not None:
        registry.register_module(module)
    try:
        registry.register(typing.get_type_hints(function).get("return"))
    except Exception:  # a name that can't be found now, a plain type, no function of Python's
        return
