"""One bound for a whole operation, and bounded polling within it."""

from __future__ import annotations

import time
from collections.abc import Iterator

_INTERVAL = 0.02


class Deadline:
    """A point on the monotonic clock. Flock with a bound and a server's readiness can only be polled for."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._end - time.monotonic())

    def polls(self) -> Iterator[None]:
        """Yields once at least, then again and again until the time is over."""
        yield
        while self.left():
            time.sleep(min(_INTERVAL, self.left()))
            yield
