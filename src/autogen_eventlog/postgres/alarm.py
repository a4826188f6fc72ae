"""A time limit on something that is done over and over and hardly ever reaches it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Alarm:
    """Rings when a time is over, unless it was set anew or cleared before.

    Setting and clearing it costs no timer: one is enough that looks from time to time what it is set to.
    """

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        """Ring so many seconds from now."""
        loop = asyncio.get_running_loop()
        self._at = loop.time() + seconds
        if self._timer is not None and self._timer.when() > self._at:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = loop.call_at(self._at, self._look)

    def clear(self) -> None:
        """Don't ring."""
        self._at = None

    def stop(self) -> None:
        """Don't ring, and leave nothing behind in the loop."""
        self._at = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._at is None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._at:
            self._timer = loop.call_at(self._at, self._look)
        else:
            self._at = None
            self._ring()
