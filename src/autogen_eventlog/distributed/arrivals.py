"""Messages that came to this worker: by the way that all go, sent again by another, or both at once.

The log knows what an agent was given, once that is committed. What is on its way there, and what may be in a stream still
though it was sent again and has arrived, only the worker itself knows.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from autogen_core import AgentId, CancellationToken

from autogen_eventlog.distributed.envelopes import Arrived

_REMEMBERED = 100_000

Key = tuple[UUID, AgentId]


class Arrivals:
    """Sees to it that an agent gets a message once, and that a cancellation finds it."""

    def __init__(self) -> None:
        self._held: dict[Key, _Held] = {}
        self._seen: OrderedDict[Key, None] = OrderedDict()
        self._cancelled: OrderedDict[Key, None] = OrderedDict()

    def holds(self, arrived: Arrived, recipient: AgentId) -> bool:
        """Whether the agent has it, and its handler has not ended."""
        return arrived.origin is not None and (arrived.origin.cause, recipient) in self._held

    def saw(self, arrived: Arrived, recipient: AgentId) -> bool:
        """Whether it came for this agent before; remembers that it has now."""
        if arrived.origin is None:
            return False
        key = (arrived.origin.cause, recipient)
        if key in self._seen:
            return True
        _remember(self._seen, key)
        return False

    def cancel(self, cause: UUID, recipient: AgentId) -> None:
        """Nobody waits for it any more. That may be known before it is here: it goes by another stream."""
        held = self._held.get((cause, recipient))
        if held is None:
            _remember(self._cancelled, (cause, recipient))
        else:
            held.token.cancel()

    async def once(
        self, arrived: Arrived, recipient: AgentId, token: CancellationToken, handle: Callable[[], Awaitable[Any]]
    ) -> Any:
        """Handle it, or wait for what becomes of it where it is being handled already.

        Raises:
            Whatever `handle` raises.
        """
        if arrived.origin is None:
            return await handle()
        key = (arrived.origin.cause, recipient)
        held = self._held.get(key)
        # One publication is two deliveries where two subscriptions bring it to one agent (T29).
        if held is not None and held.arrived is not arrived:
            return await asyncio.shield(held.outcome)
        if key in self._cancelled:
            token.cancel()
        self._held[key] = held = _Held(arrived, token)
        try:
            return held.came_to(await handle())
        except BaseException as error:
            held.failed(error)
            raise
        finally:
            self._held.pop(key, None)


class _Held:
    """A message whose handler has not ended."""

    def __init__(self, arrived: Arrived, token: CancellationToken) -> None:
        self.arrived = arrived
        self.token = token
        self.outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def came_to(self, reply: Any) -> Any:
        self.outcome.set_result(reply)
        return reply

    def failed(self, error: BaseException) -> None:
        if isinstance(error, asyncio.CancelledError):
            self.outcome.cancel()
        else:
            self.outcome.set_exception(error)
            self.outcome.exception()  # as a rule nobody else waits for it


def _remember(some: OrderedDict[Key, None], key: Key) -> None:
    some[key] = None
    if len(some) > _REMEMBERED:
        some.popitem(last=False)
