"""What an agent sends, held back until it is durable and then let go in order (G2, the output commit rule)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from autogen_eventlog.errors import EventLogError

logger = logging.getLogger(__name__)

Departure = Callable[[], Awaitable[object]]


class Outbox:
    """Lets each output leave after the ticket it came with, in the order they were put.

    It works outside the agent's session. When a ticket fails, nothing that was put leaves any more: `on_refused` is told
    once, with the error.

    Args:
        held: Nothing leaves before `release`.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_refused: Callable[[EventLogError], None], *, held: bool = False
    ) -> None:
        self._loop = loop
        self._on_refused = on_refused
        self._waiting: deque[tuple[Awaitable[Any], Departure]] = deque()
        self._put = 0
        self._gone = 0
        self._marks: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._held = held

    def put(self, ticket: Awaitable[Any], departure: Departure) -> None:
        """Let `departure` happen once `ticket` is committed. Call it in a context outside of any session."""
        if self._closed:
            return
        self._waiting.append((ticket, departure))
        self._put += 1
        self._set_going()

    def release(self) -> None:
        """Let what was held back leave. Call it in a context outside of any session."""
        self._held = False
        if self._waiting:
            self._set_going()

    @property
    def empty(self) -> bool:
        """Whether everything put so far has left, or never will."""
        return self._gone == self._put or self._closed

    async def left(self) -> None:
        """Return when everything put so far has left, or never will."""
        if self.empty:
            return
        mark: asyncio.Future[None] = self._loop.create_future()
        self._marks.append((self._put, mark))
        await mark

    def close(self) -> None:
        """Nothing leaves any more."""
        self._closed = True
        self._waiting.clear()
        for _, mark in self._marks:
            if not mark.done():
                mark.set_result(None)
        self._marks.clear()

    def _set_going(self) -> None:
        if self._task is None and not self._held:
            self._task = self._loop.create_task(self._let_go())

    async def _let_go(self) -> None:
        try:
            while self._waiting:
                ticket, departure = self._waiting[0]
                await ticket
                if self._closed:
                    return
                self._waiting.popleft()
                await self._depart(departure)
                self._gone += 1
                self._reach_marks()
        except EventLogError as error:
            if not self._closed:
                self.close()
                self._on_refused(error)
        finally:
            self._task = None

    async def _depart(self, departure: Departure) -> None:
        try:
            await departure()
        except Exception:
            # The runtime refused a message that the log already holds as sent. Its sender has gone on, as on AutoGen's
            # runtime, so the error goes where AutoGen's own delivery errors go: to the log of the process.
            logger.exception("a recorded message could not be handed to the runtime")

    def _reach_marks(self) -> None:
        while self._marks and self._marks[0][0] <= self._gone:
            _, mark = self._marks.popleft()
            if not mark.done():
                mark.set_result(None)
