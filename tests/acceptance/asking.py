"""Waiting for a condition that must be asked with await."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def until(
    condition: Callable[[], Awaitable[T]], what: str, *, timeout: float = 10.0, interval: float = 0.01
) -> T:
    """Awaits `condition` until it gives something true, and returns that.

    Raises:
        TimeoutError: it is still not true after `timeout` seconds; the message says what was awaited.
    """
    end = asyncio.get_running_loop().time() + timeout
    while True:
        value = await condition()
        if value:
            return value
        if asyncio.get_running_loop().time() >= end:
            raise TimeoutError(f"waited {timeout:g} s until {what}")
        await asyncio.sleep(interval)
