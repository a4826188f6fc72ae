"""Waiting for a condition instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str, *, timeout: float = 10.0, interval: float = 0.01) -> T:
    """Calls `condition` until it returns something true, and returns that. Blocks the thread.

    Args:
        condition: asked at least once, and once more after the time is over.
        what: the awaited state in words, for the error: "the server answers".
        timeout: bound in seconds.
        interval: seconds between two calls.

    Raises:
        TimeoutError: it is still not true; the message says what was awaited, for how long, and the last value.
    """
    end = time.monotonic() + timeout
    while True:
        late = time.monotonic() >= end
        value = condition()
        if value:
            return value
        if late:
            raise TimeoutError(f"waited {timeout:g} s until {what}; the condition still returns {value!r}")
        time.sleep(interval)
