"""Asking the outside: the request is recorded, then, once it is durable, the real call is made; its outcome is an input.

All of this runs in the agent's session, live and in replay alike, but for the real call: that runs outside, live only,
and the same callbacks of the agent's are counted in both.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from types import TracebackType
from typing import Any

from autogen_core import CancellationToken

from autogen_eventlog.effects.policy import Answer, UnknownEffect
from autogen_eventlog.effects.requests import Request
from autogen_eventlog.errors import EffectOutcomeUnknown
from autogen_eventlog.events import EventData
from autogen_eventlog.incarnation.incarnation import Incarnation
from autogen_eventlog.incarnation.parts import DONE, Effect
from autogen_eventlog.replay.loop import outside_context

logger = logging.getLogger(__name__)

Ask = Callable[[CancellationToken], Awaitable[Any]]
"""Makes the real call, with a token that is linked to the agent's."""

Open = Callable[[CancellationToken], Awaitable[Any]]
"""Makes the real stream, an asynchronous iterator."""

_REMEDY = (
    "Find out whether it was done and ask again if it was not, or set effects_unknown={%r: 'retry'} on the "
    "EventLogHandler if doing it twice does no harm ('ask' lets a function of yours decide)"
)


class _Pending:
    """One request to the outside."""

    def __init__(self, incarnation: Incarnation, kind: str, request: Request, token: CancellationToken | None) -> None:
        self._incarnation = incarnation
        self._kind = kind
        self._request = request
        self._token = CancellationToken()
        """The real call's. It is another object, so that what the call hangs on it is not called in the session."""
        self._task: asyncio.Task[None] | None = None
        self._effect: Effect | None = None
        if token is not None:
            token.add_callback(self._cancelled)

    @property
    def effect(self) -> Effect:
        assert self._effect is not None
        return self._effect

    async def begin(self) -> None:
        """Record the request; live, let the call begin once that is durable.

        Raises:
            EventLogError: The instance is no longer the agent; nothing is asked.
        """
        request = self._request
        self._effect, ticket = await self._incarnation.request_effect(
            self._kind, request.digest, request.payload, self.resume
        )
        if self._incarnation.live:
            self._incarnation.let_out_effect(ticket, self._depart)

    def resume(self) -> None:
        """The agent goes live, and the log does not say what came of the request."""
        become = {"retry": self._depart, "fail": self._fail, "ask": self._inquire}
        self._incarnation.let_out_effect(DONE, become[self._incarnation.effects_unknown.decide(self._kind)])

    def leave(self) -> None:
        """The agent waits no more. A call that still runs is cancelled, as it would be if the agent had made it."""
        self._incarnation.effects.pop(self.effect.number, None)
        future = self.effect.future
        if future.done() and not future.cancelled():
            future.exception()  # an answer that came as the waiting task was cancelled is nobody's error
        elif self._task is not None:
            outside_context().run(self._task.cancel)

    def abandon(self) -> None:
        """The agent has let go of a stream that has more to give."""
        self._incarnation.effects.pop(self.effect.number, None)
        if self._task is not None:
            outside_context().run(self._task.cancel)

    async def _depart(self) -> None:
        if self._wanted and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _fail(self) -> None:
        if self._wanted:
            self._incarnation.settle_effect(self.effect, None, self._unknown())

    async def _inquire(self) -> None:
        if self._wanted and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._ask_what_became_of_it())

    async def _ask_what_became_of_it(self) -> None:
        ask, request = self._incarnation.effects_unknown.ask, self.effect.event
        assert ask is not None and request is not None
        try:
            answer = await ask(self._described(request))
        except Exception as error:
            logger.warning("%s: ask_unknown raised %r; %s stays unknown", self._incarnation.stream, error, self._kind)
            answer = "fail"
        self._task = None
        if isinstance(answer, Answer):
            self._answer_with(answer.value)
        elif answer not in ("retry", "fail"):
            logger.warning(
                "%s: ask_unknown said %r, not 'retry', 'fail' or an Answer", self._incarnation.stream, answer
            )
            answer = "fail"
        await (self._fail() if answer == "fail" else self._depart())

    def _described(self, request: EventData) -> UnknownEffect:
        payload: Any = self._incarnation.codec.decode(request.payload or b"null", opaque=True)
        return UnknownEffect(
            agent=self._incarnation.stream,
            kind=self._kind,
            request=payload.get("request", payload.get("excerpt")),
            requested_at=request.occurred_at,
            event_id=request.id,
            correlation=request.correlation,
        )

    def _answer_with(self, value: Any) -> None:
        """From here on, the real call is known to give this."""
        raise NotImplementedError

    @property
    def _wanted(self) -> bool:
        return self._incarnation.effects.get(self.effect.number) is self.effect and not self.effect.future.cancelled()

    def _unknown(self) -> EffectOutcomeUnknown:
        family = self._kind.partition(".")[0]
        family = self._kind if family == "own" else family  # one of many things that people name
        return EffectOutcomeUnknown(self._incarnation.stream, self._kind, self._request.digest, _REMEDY % family)

    def _cancelled(self) -> None:
        outside_context().run(self._token.cancel)

    async def _run(self) -> None:
        raise NotImplementedError


class _Call(_Pending):
    def __init__(
        self, incarnation: Incarnation, kind: str, request: Request, token: CancellationToken | None, ask: Ask
    ) -> None:
        super().__init__(incarnation, kind, request, token)
        self._ask = ask

    async def outcome(self) -> Any:
        try:
            return await self.effect.future
        finally:
            self.leave()

    def _answer_with(self, value: Any) -> None:
        self._ask = _always(value)

    async def _run(self) -> None:
        try:
            reply, error = await self._ask(self._token), None
        except BaseException as raised:
            reply, error = None, raised
        self._incarnation.settle_effect(self.effect, reply, error)


async def ask(
    incarnation: Incarnation, kind: str, request: Request, call: Ask, token: CancellationToken | None = None
) -> Any:
    """The outcome of a call to the outside: made live, and in replay the recorded one.

    Args:
        token: The agent's own. Cancelled, it cancels the real call, whose outcome is then recorded as any other.

    Raises:
        EffectOutcomeUnknown: It was requested by a process that ended before it recorded the outcome.
        EventLogError: The instance is no longer the agent; nothing was asked.
        Whatever the call raised, as recorded.
    """
    pending = _Call(incarnation, kind, request, token, call)
    await pending.begin()
    return await pending.outcome()


class RecordedStream(AsyncGenerator[Any, None]):
    """A stream from the outside. Each item, and the end, is an outcome of its own; each is asked for when it is wanted.

    It is no native generator, whose disposal by the garbage collector the loop would see as callbacks of the agent.
    A stream that another process had begun is asked for again from its beginning, if at all: what the agent has already
    of it stays, and of the new one it gets the last item only, which for models and tools is the whole result.
    """

    def __init__(
        self,
        incarnation: Incarnation,
        kind: str,
        request: Callable[[], Request],
        open: Open,
        token: CancellationToken | None,
    ) -> None:
        self._incarnation = incarnation
        self._new = lambda: _Stream(incarnation, kind, request(), token, open)
        self._stream: _Stream | None = None
        self._closed = False

    async def __anext__(self) -> Any:
        if self._closed:
            raise StopAsyncIteration
        try:
            if self._stream is None:
                self._stream = self._new()
                await self._stream.begin()
            else:
                self._stream.want()
            item = await self._stream.effect.future
        except BaseException:
            self._end()
            raise
        if not item:
            self._end()
            raise StopAsyncIteration
        self._stream.given += 1
        return item[0]

    async def asend(self, value: Any) -> Any:
        if value is not None:
            raise TypeError("a recorded stream takes no values; what is sent to one would not reach the real stream")
        return await self.__anext__()

    async def athrow(  # type: ignore[override]
        self, typ: Any, val: object = None, tb: TracebackType | None = None
    ) -> Any:
        self._close()
        raise typ if val is None else val  # type: ignore[misc]

    async def aclose(self) -> None:
        self._close()

    def _end(self) -> None:
        self._closed = True
        if self._stream is not None and self._stream.begun:
            self._stream.leave()

    def _close(self) -> None:
        if not self._closed and self._stream is not None and self._stream.begun:
            self._stream.abandon()
        self._closed = True

    def __del__(self) -> None:
        stream = self._stream
        if not self._closed and stream is not None and stream.begun:
            # The collector runs this in any thread and at any time: let the loop do it, when the loop is still there.
            with contextlib.suppress(RuntimeError):
                outside_context().run(self._incarnation.session.loop.call_soon_threadsafe, stream.abandon)


class _Stream(_Pending):
    def __init__(
        self, incarnation: Incarnation, kind: str, request: Request, token: CancellationToken | None, open: Open
    ) -> None:
        super().__init__(incarnation, kind, request, token)
        self.given = 0
        """Items that the agent has."""
        self._open = open
        self._asked = asyncio.Event()
        self._asked.set()
        self._interrupted = False

    @property
    def begun(self) -> bool:
        return self._effect is not None

    def want(self) -> None:
        """The agent wants the next item."""
        self.effect.future = self._incarnation.session.loop.create_future()
        self._asked.set()
        if self._interrupted and self._task is None:
            super().resume()

    def resume(self) -> None:
        self._interrupted = True
        if not self.effect.future.done():
            super().resume()

    def _answer_with(self, value: Any) -> None:
        self._open = _always(_single(value))

    def _settle(self, item: list[Any]) -> None:
        self._incarnation.settle_effect(self.effect, item, None, more=bool(item))

    async def _run(self) -> None:
        source: Any = None
        try:
            source = await self._open(self._token)
            await self._hand_on(source)
        except BaseException as error:
            self._incarnation.settle_effect(self.effect, None, error)
        finally:
            if hasattr(source, "aclose"):
                await source.aclose()

    async def _hand_on(self, source: Any) -> None:
        if self._interrupted and self.given:
            source = _last_of(source)
        items = aiter(source)
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                item = await anext(items)
            except StopAsyncIteration:
                self._settle([])
                return
            self._settle([item])


async def _last_of(source: Any) -> AsyncGenerator[Any, None]:
    items = [item async for item in source]
    for item in items[-1:]:
        yield item


def _always(value: Any) -> Ask:
    async def known(token: CancellationToken) -> Any:
        return value

    return known


async def _single(item: Any) -> AsyncGenerator[Any, None]:
    yield item
