"""Where the event loop tells an agent's session what it schedules.

The methods of the running loop by which code schedules code are wrapped on the instance. A
`ContextVar` says which session, if any, the running code belongs to; everything else passes through untouched. asyncio
itself calls these methods through the instance, its C parts included, so no callback of an agent goes unseen.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, cast

from autogen_eventlog.errors import UnsupportedEventLoop
from autogen_eventlog.replay.generators import watch
from autogen_eventlog.replay.order import keep_order
from autogen_eventlog.replay.reading import READER

_ATTRIBUTE = "_autogen_eventlog_hooks"


class Scheduled(Protocol):
    """What the loop needs of a session."""

    @property
    def running(self) -> bool:
        """Whether a callback of this session is being run."""
        ...

    def call_soon(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context
    ) -> asyncio.Handle: ...

    def call_at(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context
    ) -> asyncio.TimerHandle: ...

    def time(self) -> float: ...

    def leave_for_thread(self, function: Callable[..., object]) -> bool:
        """The agent hands work to a thread. False: it must not (replay)."""
        ...

    def create_task(
        self, coroutine: Coroutine[Any, Any, Any], name: str | None, context: contextvars.Context | None
    ) -> asyncio.Task[Any]: ...


SESSION: contextvars.ContextVar[Scheduled | None] = contextvars.ContextVar("autogen_eventlog_session", default=None)


@dataclass(frozen=True, slots=True)
class Hooks:
    """The loop's own methods, as they were."""

    call_soon: Callable[..., asyncio.Handle]
    call_at: Callable[..., asyncio.TimerHandle]
    time: Callable[[], float]


def outside_context() -> contextvars.Context:
    """A copy of the current context that belongs to no session: what runs in it is not the agent's doing."""
    context = contextvars.copy_context()
    if SESSION.get() is not None or READER.get() is not None:
        context.run(_leave)
    return context


def _leave() -> None:
    SESSION.set(None)
    READER.set(None)


def install(loop: asyncio.AbstractEventLoop) -> Hooks:
    """Wrap the loop's scheduling methods, once per loop.

    Raises:
        UnsupportedEventLoop: The loop is not asyncio's own (uvloop routes its callbacks past these methods).
    """
    hooks: Hooks | None = getattr(loop, _ATTRIBUTE, None)
    if hooks is None:
        if not isinstance(loop, asyncio.BaseEventLoop):
            raise UnsupportedEventLoop(f"{type(loop).__module__}.{type(loop).__qualname__}")
        hooks = Hooks(loop.call_soon, loop.call_at, loop.time)
        _wrap(loop, hooks)
        setattr(loop, _ATTRIBUTE, hooks)
        keep_order(lambda: SESSION.get() is not None)
    watch(SESSION.get, lambda function, generator: outside_context().run(function, generator))
    return hooks


def _wrap(loop: asyncio.BaseEventLoop, hooks: Hooks) -> None:
    own_call_soon, own_call_at, own_time = hooks.call_soon, hooks.call_at, hooks.time
    own_create_task, own_threadsafe = loop.create_task, loop.call_soon_threadsafe
    own_executor = loop.run_in_executor
    thread = threading.get_ident()

    def call_soon(callback: Any, *args: Any, context: contextvars.Context | None = None) -> asyncio.Handle:
        session = SESSION.get() if context is None else context.get(SESSION)
        if session is None:
            return own_call_soon(callback, *args, context=context)
        return session.call_soon(callback, args, context or contextvars.copy_context())

    def call_at(
        when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        session = _scheduling(context)
        if session is None:
            return own_call_at(when, callback, *args, context=context)
        own = contextvars.copy_context() if context is None else context  # an empty one is false
        return session.call_at(when, callback, args, own)

    def call_soon_threadsafe(callback: Any, *args: Any, context: contextvars.Context | None = None) -> asyncio.Handle:
        # An agent's own call from the loop's thread (an async generator that is finalized) is an ordinary call_soon
        # of the agent; from another thread it comes from outside.
        session = SESSION.get()
        if session is None or threading.get_ident() != thread or not session.running:
            return own_threadsafe(callback, *args, context=context)
        if in_signal_handler():  # asyncio.run's own, on Ctrl-C, or the program's: amid the agent's code, but not of it
            return own_threadsafe(callback, *args, context=context or outside_context())
        return call_soon(callback, *args, context=context)

    def time() -> float:
        session = SESSION.get()
        return own_time() if session is None else session.time()

    def create_task(coro: Any, **keywords: Any) -> asyncio.Task[Any]:
        context: contextvars.Context | None = keywords.get("context")
        session = _scheduling(context)
        if session is None or loop.get_task_factory() is not None:
            return own_create_task(coro, **keywords)
        return session.create_task(coro, keywords.get("name"), context)

    def run_in_executor(executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        # When the thread is done is not recorded, and it may be done before anybody could see it wake the agent.
        session = SESSION.get()
        if session is not None and not session.leave_for_thread(func):
            return loop.create_future()
        return own_executor(executor, func, *args)

    loop.run_in_executor = run_in_executor
    loop.call_soon = call_soon
    loop.call_at = call_at
    loop.call_soon_threadsafe = call_soon_threadsafe
    loop.time = time
    loop.create_task = create_task


def _scheduling(context: contextvars.Context | None) -> Scheduled | None:
    """Whose it is that something is to run in a context. One that an agent makes anew is the agent's, too.

    Not so for `call_soon`: futures call it with the contexts of whoever waits for them.
    """
    session = SESSION.get()
    if context is None or (session is not None and session.running and SESSION not in context):
        return session
    return context.get(SESSION)


def in_signal_handler() -> bool:
    """Whether the caller runs in a handler set with `signal.signal`, which interrupts whatever code is running."""
    handlers = {_code(signal.getsignal(number)) for number in signal.valid_signals()}
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if frame.f_code in handlers:
            return True
        frame = frame.f_back
    return False


def _code(handler: Any) -> object:
    while isinstance(handler, functools.partial):
        handler = cast("functools.partial[Any]", handler).func
    code = getattr(handler, "__code__", None)
    kind = cast("type[Any]", type(handler))
    return code or getattr(vars(kind).get("__call__"), "__code__", None)
