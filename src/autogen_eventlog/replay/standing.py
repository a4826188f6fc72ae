"""Coroutines that a replay left amid their code, and that must do nothing when they are garbage (G4).

Python closes a suspended coroutine that nobody holds any more: its `finally` blocks run, in whatever code the collector
interrupts, in no agent's context. So they are known by their frames, until the collection that ends them is over.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from threading import get_ident
from types import CodeType, FrameType
from typing import Any, Final

_standing: Final[dict[int, tuple[CodeType, str, weakref.ref[Any]]]] = {}
"""By the id of a frame: its code, whose it is, and what tells that it ends."""
_gone: Final[list[int]] = []
_collecting: Final[set[int]] = set()
"""The thread that collects, if one does: what ends in others meanwhile is over at once."""


def stand(coroutine: Any, stream: str) -> None:
    """Note a suspended coroutine, and what it waits for, as a replay's."""
    if _collected not in gc.callbacks:
        gc.callbacks.append(_collected)
    for awaited, frame in _chain(coroutine):
        key = id(frame)

        def ends(_: object, key: int = key) -> None:
            # A collection tells before the code runs for the last time, and until then it must be known. Else it is over,
            # and the next frame may have its id. (A replay's are circles, which only a collection ends.)
            if get_ident() in _collecting:
                _gone.append(key)
            else:
                _standing.pop(key, None)

        _standing[key] = (frame.f_code, stream, weakref.ref(awaited, ends))


def whose(frame: FrameType | None) -> str | None:
    """The stream of the replay whose coroutine is on the stack; None if there is none."""
    while frame is not None and _standing:
        found = _standing.get(id(frame))
        if found is not None and found[0] is frame.f_code and _is_still(found[2](), frame):
            return found[1]
        frame = frame.f_back
    return None


def any_stands() -> bool:
    """Whether there is any at all."""
    return bool(_standing)


def _is_still(awaited: Any, frame: FrameType) -> bool:
    """Whether a frame is that of what stood there. One that was closed is over, though it may be held: its id is free.

    Of what is being collected there is nothing to ask any more, and its code runs for the last time.
    """
    return get_ident() in _collecting if awaited is None else _frame_of(awaited) is frame


def _chain(coroutine: Any) -> Iterator[tuple[Any, FrameType]]:
    while coroutine is not None:
        frame = _frame_of(coroutine)
        if frame is not None:
            yield coroutine, frame
        coroutine = _first(coroutine, "cr_await", "gi_yieldfrom", "ag_await")


def _frame_of(value: Any) -> FrameType | None:
    return _first(value, "cr_frame", "gi_frame", "ag_frame")


def _first(value: Any, *names: str) -> Any:
    return next((found for name in names if (found := getattr(value, name, None)) is not None), None)


def _collected(phase: str, info: dict[str, int]) -> None:
    if phase == "start":
        _collecting.add(get_ident())
    else:
        _collecting.clear()
        while _gone:
            _standing.pop(_gone.pop(), None)
