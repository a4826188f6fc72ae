"""The driver of a replay: runs a session's callbacks as its journal says, without waiting for anything.

The callbacks run in slices, between which the loop serves everybody else, and never inside a task (asyncio allows one
current task, and the agent's own tasks must be it).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from enum import Enum
from typing import Protocol

from autogen_eventlog.events import RecordedEvent
from autogen_eventlog.replay.journal import HandlerStarted, Happened, TimerFired
from autogen_eventlog.replay.loop import outside_context
from autogen_eventlog.replay.machine import Input, Machine, Mismatch
from autogen_eventlog.replay.session import Mode, Session

SLICE_SECONDS = 0.005
"""How long the loop is kept from others at a time, unless a single callback of the agent takes longer."""

_FEED = 512
_TRAIL_CALLBACKS = 1000


class Followed(Protocol):
    """What is brought along its journal."""

    @property
    def session(self) -> Session: ...

    def apply(self, event: RecordedEvent) -> None: ...

    def apply_start(self, number: int) -> None: ...


class _Pause(Enum):
    HUNGRY = "hungry"
    SLICE_OVER = "slice over"
    AT_END = "at end"
    LIVE = "live"


async def follow(
    followed: Followed,
    machine: Machine,
    events: AsyncIterator[RecordedEvent],
    on_event: Callable[[int], None] | None = None,
    pace: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Bring `followed` to the end of `events`: a lineage, in order.

    It returns with the session at the last event, or live if the code went on past it by itself.

    Args:
        on_event: Called with the number of events read so far, for progress.
        pace: Awaited between two slices, by whom has time.

    Raises:
        Mismatch: Code and journal disagree.
        TypeNotAllowed, PayloadCorrupt: An event can't be decoded here.
        InstanceEnded: The session was ended meanwhile (the loop shuts down).
    """
    driver = _Driver(followed, machine)
    read = 0
    while True:
        pause = await driver.slice()
        if pause in (_Pause.AT_END, _Pause.LIVE):
            return
        if pause is _Pause.HUNGRY:
            read += await _feed(machine, events)
            if on_event is not None:
                on_event(read)
        if pace is not None:
            await pace()


async def _feed(machine: Machine, events: AsyncIterator[RecordedEvent]) -> int:
    count = 0
    async for event in events:
        machine.feed(event)
        count += 1
        if count == _FEED:
            return count
    machine.finish()
    return count


def trail(session: Session, machine: Machine, free_until: int | None) -> None:
    """Let what a completed handler left behind run out: callbacks that are ready and make no output.

    Args:
        free_until: The last tick that may run, where the log knows what came next (None: no bound).
    """
    for _ in range(_TRAIL_CALLBACKS):
        if free_until is not None and machine.tick >= free_until:
            return
        if not session.run_next():
            return


async def outside_tasks(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """Run `function` from the loop itself, in no task and no session."""
    done: asyncio.Future[None] = loop.create_future()

    def run() -> None:
        try:
            function()
        except BaseException as error:
            if not done.done():
                done.set_exception(error)
        else:
            if not done.done():
                done.set_result(None)

    loop.call_soon(run, context=outside_context())
    await done


class _Driver:
    def __init__(self, followed: Followed, machine: Machine) -> None:
        self._followed = followed
        self._machine = machine
        self._session = followed.session
        self._pause = _Pause.SLICE_OVER

    async def slice(self) -> _Pause:
        await outside_tasks(self._session.loop, self._run)
        return self._pause

    def _run(self) -> None:
        until = time.perf_counter() + SLICE_SECONDS
        while True:
            pause = self._step()
            if pause is None and time.perf_counter() > until:
                pause = _Pause.SLICE_OVER
            if pause is not None:
                self._pause = pause
                return

    def _step(self) -> _Pause | None:
        if self._session.mode is not Mode.FOLLOWING:
            if self._session.mismatch is not None:
                raise self._session.mismatch
            return _Pause.LIVE
        if self._machine.hungry:
            return _Pause.HUNGRY
        due = self._machine.due(idle=self._session.idle)
        if due is not None:
            self._bring_in(due)
        elif self._machine.exhausted:
            return _Pause.AT_END
        elif not self._session.run_next():
            raise self._machine.stuck()
        if self._session.mismatch is not None:
            raise self._session.mismatch
        return None

    def _bring_in(self, due: Input) -> None:
        match due:
            case TimerFired(number=number):
                if not self._session.fire(number):
                    raise Mismatch(
                        self._machine.version, f"timer {number} firing at tick {due.tick}", "no such timer armed"
                    )
            case HandlerStarted(delivery=delivery):
                self._followed.apply_start(delivery)
            case Happened(event=event):
                self._followed.apply(event)
