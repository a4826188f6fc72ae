"""How a program that runs until it is stopped is stopped: the first signal asks it to end, the second ends it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Generator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_signals() -> Generator[asyncio.Event]:
    """An event that the first SIGINT or SIGTERM sets. The next one ends the process, as if nobody had listened.

    Not the loop's own handlers: the second signal must work too where a handler keeps the loop from running.
    """
    loop, told = asyncio.get_running_loop(), asyncio.Event()

    def tell(number: int, frame: object) -> None:
        for one in _SIGNALS:
            signal.signal(one, signal.SIG_DFL)
        loop.call_soon_threadsafe(told.set)

    before = {one: signal.signal(one, tell) for one in _SIGNALS}
    try:
        yield told
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


async def unless(told: asyncio.Event, doing: Awaitable[None]) -> bool:
    """Await something; if `told` comes first it is cancelled. Whether it was done.

    Raises:
        Whatever it raises.
    """
    task, waiting = asyncio.ensure_future(doing), asyncio.create_task(told.wait())
    try:
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            return False
        task.result()
        return True
    finally:
        task.cancel()
        waiting.cancel()
        await asyncio.wait([task, waiting])
