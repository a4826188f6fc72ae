"""Whose code runs, for those who answer what is different each time: clocks, ids, randomness.

Like `loop.SESSION`, but set too while an agent's instance is being made, when the loop's callbacks are nobody's yet.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Any, Protocol


class Reader(Protocol):
    """An agent, as one that reads what is different each time."""

    @property
    def running(self) -> bool:
        """Whether the agent's own code runs now, in this thread."""
        ...

    @property
    def replays(self) -> bool:
        """Whether its past is being repeated, where delays take no time."""
        ...

    def records(self, family: str) -> bool:
        """Whether readings of a family (`time`, `uuid`) belong to the agent's record, here and now."""
        ...

    def reading(self, kind: str, read: Callable[[], Any], otherwise: Any) -> Any:
        """A value that is different each time: read and recorded live, the recorded one in replay.

        Args:
            kind: Names what is read; the same call gives the same kind.
            read: Reads it. The value must survive JSON exactly.
            otherwise: What a view sees that reads on after its last event.
        """
        ...

    def seen(self, clock: str, nanoseconds: int) -> None:
        """The agent was told what a clock says that has no date."""
        ...

    def offset(self, clock: str, now: int) -> int:
        """What is added to such a clock, live, so that it goes on where an earlier process stopped, in nanoseconds.

        Args:
            now: What it says without.
        """
        ...

    def last_seen(self, clock: str) -> int:
        """What such a clock said last, in nanoseconds; 0 if it was not asked."""
        ...

    @property
    def moment(self) -> datetime:
        """When the last event happened, for a view that reads on after it."""
        ...

    def filler(self, size: int) -> bytes:
        """Bytes in the place of random ones, for a view that reads on: the same for each view of that version."""
        ...

    @property
    def scope(self) -> Scope:
        """The delivery that the running code belongs to, or the making of the instance."""
        ...


class Scope(Protocol):
    """For how long one generator of random numbers serves an agent."""

    generator: Random | None


READER: contextvars.ContextVar[Reader | None] = contextvars.ContextVar("autogen_eventlog_reader", default=None)
