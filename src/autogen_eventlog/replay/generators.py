"""Whose an asynchronous generator is that is thrown away unfinished.

asyncio then closes it in a task, which is made wherever the garbage collector happens to run. In the middle of an agent's
callback that would be counted as the agent's doing, live or in replay, though the generator may be anybody's. One of a
replay that has ended is not closed at all: its `finally` blocks must do nothing any more (G4).
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import AsyncGenerator, Callable
from typing import Any

Generator = AsyncGenerator[Any, Any]


class Fate:
    """What became of a session; it outlives the session, for whose generators may be thrown away together with it."""

    def __init__(self) -> None:
        self.stands = False
        """It was a replay, and has ended: nothing of it is run."""


class _Watch:
    def __init__(
        self,
        first: Callable[[Generator], None] | None,
        last: Callable[[Generator], None] | None,
        session: Callable[[], object | None],
        outside: Callable[[Callable[[Generator], None], Generator], None],
    ) -> None:
        self._first = first
        self._last = last
        self._session = session
        self._outside = outside
        # By id, not by weak reference: those are gone by the time that a generator is finalized. An id that is used
        # again is overwritten then.
        self._owners: dict[int, tuple[weakref.ref[object], Fate]] = {}

    def begins(self, generator: Generator) -> None:
        session = self._session()
        if session is None:
            self._owners.pop(id(generator), None)
        else:
            self._owners[id(generator)] = (weakref.ref(session), getattr(session, "fate", None) or Fate())
        if self._first is not None and getattr(session, "machine", None) is None:
            # Of a replay's generators the loop is not told: when it shuts down it would close them, and those in which
            # a handler of a view stands still can't be.
            self._first(generator)

    def is_thrown_away(self, generator: Generator) -> None:
        owner, fate = self._owners.pop(id(generator), (None, None))
        if self._last is None or (fate is not None and fate.stands):
            return
        if owner is not None and owner() is self._session():
            self._last(generator)
        else:
            self._outside(self._last, generator)


def watch(
    session: Callable[[], object | None], outside: Callable[[Callable[[Generator], None], Generator], None]
) -> None:
    """Let generators that are thrown away be closed in the session in which they began, or in none.

    Call it in the thread of the running loop, which sets hooks of its own each time that it is run.

    Args:
        session: The running code's.
        outside: Calls a function outside of any session.
    """
    hooks = sys.get_asyncgen_hooks()
    if isinstance(getattr(hooks.finalizer, "__self__", None), _Watch):
        return
    made = _Watch(hooks.firstiter, hooks.finalizer, session, outside)
    sys.set_asyncgen_hooks(firstiter=made.begins, finalizer=made.is_thrown_away)
