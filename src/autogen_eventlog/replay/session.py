"""One agent's session: its logical clock, and the loop's callbacks in the agent's context, recorded or followed.

A session is in one of three modes. *Live*: callbacks run in the event loop and are counted; what comes from outside is
recorded with its tick. *Following*: callbacks go to a queue of the session's own, which `follow` runs as the journal says,
without waiting for anything. *Ended*: the instance is no longer the agent (it was fenced, replaced or viewed); its tasks
may come to their end, but nothing of theirs is recorded and nothing leaves.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import hashlib
import inspect
import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from datetime import datetime, timezone
from enum import Enum
from random import Random
from time import perf_counter as _seconds
from typing import Any, Protocol, cast
from uuid import UUID

from autogen_eventlog.replay.generators import Fate
from autogen_eventlog.replay.journal import ForeignWakeup, Reading, TimerFired
from autogen_eventlog.replay.loop import SESSION, install
from autogen_eventlog.replay.machine import Machine, Mismatch
from autogen_eventlog.replay.reading import READER, Scope
from autogen_eventlog.replay.standing import stand

DELIVERY: contextvars.ContextVar[Any] = contextvars.ContextVar("autogen_eventlog_delivery", default=None)
"""The delivery that the running code belongs to; tasks that a handler starts inherit it."""

_BIRTHS: contextvars.ContextVar[itertools.count[int] | None] = contextvars.ContextVar(
    "autogen_eventlog_births", default=None
)
"""Numbers the tasks that come of one delivery."""

_MOST_BIRTHS = 1 << 20
"""Of one delivery, before their numbers may be those of another's, too."""
_PRIME = (1 << 40) - 87

LOOP_TIME = "loop.time"

MONOTONIC = "monotonic"
"""The clock that is the loop's too."""

_NANO = 1_000_000_000

_PRUNE_AT = 64

_NOT_THE_AGENTS = ("", "asyncio", "autogen_core", "autogen_eventlog")
"""Packages whose coroutines stand round those of an agent."""

_MANY_OBSERVATIONS = 1000
"""An agent that only sleeps, or only looks at the clock, makes no events; what it does must not fill the memory."""


class Mode(Enum):
    LIVE = "live"
    FOLLOWING = "following"
    ENDED = "ended"


class Timer(asyncio.TimerHandle):
    """A timer of a followed session: fired by the journal, or, once live, by the loop."""

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context,
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        self.run: Callable[[], object] = lambda: context.run(callback, *args)
        self.call = (callback, args, context)
        self.real: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        if self.real is not None:
            self.real.cancel()
        super().cancel()


class AgentTask(asyncio.Task[Any]):
    """A task of a session. Cancelled from outside the session, it ends the session.

    Only a loop that shuts down does that (recorded cancellations are injected), and what the agent then does is no part
    of its life: its log stays as at a kill, and the next worker continues it.

    Its hash is its number, not its address: the sets of tasks that `asyncio.wait` gives, and that a `TaskGroup` cancels,
    have the same order in replay.
    """

    __slots__ = ("_number", "_session", "first_step")
    """No attributes of its own beside those that an agent may give it, which its state would lack."""

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, Any],
        *,
        session: Session,
        name: str | None,
        context: contextvars.Context | None = None,
    ) -> None:
        self._session = session
        births = _BIRTHS.get()
        self._number = super().__hash__() if births is None else next(births)
        self.first_step: asyncio.Handle | None = None
        """Of a followed task: it has not begun for as long as this waits in the session's queue."""
        keywords: dict[str, Any] = {} if context is None else {"context": context}  # from Python 3.11 on
        super().__init__(coroutine, loop=session.loop, name=name, **keywords)

    def __hash__(self) -> int:
        return self._number

    def __del__(self) -> None:
        session = self._session
        if session.mode is Mode.ENDED:  # what it waits for never comes, as is meant: no mistake to be told of
            self._log_destroy_pending = False
        if session.mode is Mode.FOLLOWING or session.fate.stands:  # its error was told when it happened
            self._log_traceback = False
        super().__del__()  # type: ignore[misc]

    def cancel(self, msg: Any | None = None) -> bool:
        if not self._session.inside:
            self._session.abandon()
        return super().cancel(msg)


class Around(Protocol):
    """Watches each callback of a session."""

    def before(self, owner: object) -> None:
        """It is about to run, for whom the session is."""
        ...

    def after(self) -> None:
        """It has run."""
        ...


class Session:
    """The clock and the callbacks of one instance of an agent."""

    def __init__(self, stream: str, *, machine: Machine | None = None, tick: int = 0, timers: int = 0) -> None:
        self.stream = stream
        self.owner: object = None
        """Whose session it is (an incarnation)."""
        self.loop = asyncio.get_running_loop()
        self.machine = machine
        self.mode = Mode.LIVE if machine is None else Mode.FOLLOWING
        self.readings: frozenset[str] = frozenset()
        """The families of readings that are recorded once live."""
        self.injecting = False
        self.abandoned = False
        """Whether the loop shuts down under it."""
        self.timers_armed = timers
        self.foreign_wakeups = 0
        self.observations: list[list[Any]] = []
        self.mismatch: Mismatch | None = None
        """What replay found wrong; the instance must not be used."""
        self.hermetic = True
        """Whether replay refuses what its code would do to files, sockets, processes …"""
        self.before_replay: Callable[[Any], None] | None = None
        """Told each delivery whose handler is about to be replayed, which it may refuse."""
        self.around: Around | None = None
        self.on_end: Callable[[], None] | None = None
        self.on_foreign: Callable[[str], None] | None = None
        """Told what woke the agent, or will, that is not recorded."""
        self.on_past_end: Callable[[], bool] = lambda: False
        """Asked when the code goes past the end of its journal: whether the session has gone live."""
        self.on_many_observations: Callable[[], None] | None = None
        self.on_unsaid: Callable[[], None] | None = None
        """Told after each callback for as long as something waits for an event to tell it: there may be none to come."""
        self._tick: int = tick
        self.generator: Random | None = None
        """What code draws from that belongs to no delivery."""
        self._runs = False
        self._since = 0.0
        self.busy = 0.0
        """Seconds that the agent's own code has taken, replayed or live: about what replaying it takes."""
        self._reads = False
        self.unsaid = False
        """Whether there is something that the next event tells: a reading, or how far the agent went by an input or a timer."""
        self._thread = threading.get_ident()
        self._clocks: dict[str, int] = {}
        self._offsets: dict[str, int] = {}
        self._filled = 0
        self._hooks = install(self.loop)
        self._shift = 0.0
        self._now = 0.0
        self._queue: deque[tuple[asyncio.Handle, Callable[..., object], tuple[Any, ...], contextvars.Context]] = deque()
        self._scheduled: set[_Box] = set()
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._prune_at = _PRUNE_AT
        self._tasks: weakref.WeakSet[AgentTask] = weakref.WeakSet()
        self._kept: list[AgentTask] = []
        self.fate = Fate()

    # -- state ----------------------------------------------------------------------------------------------------

    @property
    def tick(self) -> int:
        """Callbacks of this agent that have been run."""
        return self._tick if self.machine is None else self.machine.tick

    @property
    def inside(self) -> bool:
        """Whether what happens now is the agent's own doing or an injected input."""
        return self._runs or self.injecting

    @property
    def running(self) -> bool:
        """Whether a callback of the agent is being run, by the caller: a thread may have the agent's context too."""
        return self._runs and not self._reads and self.in_thread

    @property
    def in_thread(self) -> bool:
        """Whether the caller runs in the loop's thread."""
        return threading.get_ident() == self._thread

    @property
    def quiet(self) -> bool:
        """Whether no callback and no timer of the agent is waiting (what a snapshot needs)."""
        self._prune()
        return not self._scheduled and not self._timers and not self._queue

    def take_observations(self) -> list[list[Any]]:
        """What the loop did since the last event; the caller puts it into the next, with the tick."""
        taken, self.observations = self.observations, []
        self.unsaid = False
        return taken

    # -- the loop's side ------------------------------------------------------------------------------------------

    def call_soon(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context
    ) -> asyncio.Handle:
        if self.mode is Mode.LIVE:
            if not (self._runs or self.injecting):
                self._wake_from_outside(callback, context)
            return self._schedule(callback, args, context)
        if self.mode is Mode.FOLLOWING:
            handle = asyncio.Handle(callback, args, self.loop, context)
            self._queue.append((handle, callback, args, context))
            return handle
        if self.fate.stands:
            _never_run(args)
            return asyncio.Handle(callback, args, self.loop, context)
        return self._hooks.call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context
    ) -> asyncio.TimerHandle:
        _join(context)
        number = self.timers_armed
        self.timers_armed += 1
        if self.mode is Mode.FOLLOWING:
            timer = Timer(when, callback, args, self.loop, context)
        elif self.mode is Mode.LIVE:
            timer = self._hooks.call_at(when - self._shift, self._run_timer, number, callback, args, context=context)
        elif self.fate.stands:
            return Timer(when, callback, args, self.loop, context)
        else:
            return self._hooks.call_at(when - self._shift, callback, *args, context=context)
        if len(self._timers) >= self._prune_at:
            self._prune()
            self._prune_at = max(_PRUNE_AT, 2 * len(self._timers))
        self._timers[number] = timer
        return timer

    def time(self) -> float:
        """The loop's clock as the agent sees it; it goes on where an earlier process stopped."""
        if self.mode is Mode.ENDED:
            return self._hooks.time() + self._shift
        self._now = self.reading(LOOP_TIME, lambda: self._hooks.time() + self._shift, self._now)
        return self._now

    def reading(self, kind: str, read: Callable[[], Any], otherwise: Any) -> Any:
        """A value that is different each time: read and recorded live, the recorded one in replay.

        Args:
            kind: Names what is read; the same call gives the same kind.
            read: Reads it. The value must survive JSON exactly.
            otherwise: What a view sees that reads on after its last event.
        """
        if self.mode is Mode.LIVE:
            value = self._read(read)
            self.observations.append(Reading(kind, value, self._tick).observation())
            self.unsaid |= kind != LOOP_TIME
            self._bound_observations()
            return value
        if self.mode is Mode.ENDED:
            return read()
        assert self.machine is not None
        if self.mismatch is not None:
            return otherwise
        if self.machine.exhausted:
            return self.reading(kind, read, otherwise) if self.on_past_end() else otherwise
        try:
            return self.machine.read(kind)
        except Mismatch as mismatch:
            # Raised here, the agent's own code could catch it; the driver looks after each callback.
            self.mismatch = mismatch
            return otherwise

    # -- what is different each time ------------------------------------------------------------------------------

    @property
    def replays(self) -> bool:
        return self.mode is Mode.FOLLOWING

    def records(self, family: str) -> bool:
        """Whether readings of a family belong to the record here. The code may go live by asking, as by reading."""
        if self.mode is not Mode.FOLLOWING:
            return self.mode is Mode.LIVE and family in self.readings
        assert self.machine is not None
        machine = self.machine
        if machine.exhausted and self.mismatch is None and self.on_past_end():
            return family in self.readings
        return family in machine.readings

    def seen(self, clock: str, nanoseconds: int) -> None:
        """The agent was told what a clock says that has no date."""
        if clock == MONOTONIC:
            self._now = max(self._now, nanoseconds / _NANO)
        else:
            self._clocks[clock] = nanoseconds

    def offset(self, clock: str, now: int) -> int:
        """What is added to such a clock, live: the loop's own is the monotonic one."""
        if clock == MONOTONIC:
            return round(self._shift * _NANO)
        if clock not in self._offsets:
            # One more, since a clock that is read as a float may have been rounded up.
            self._offsets[clock] = self._clocks[clock] - now + 1 if clock in self._clocks else 0
        return self._offsets[clock]

    @property
    def clocks(self) -> dict[str, int]:
        """What each such clock said last, for a snapshot."""
        return {MONOTONIC: self.last_seen(MONOTONIC), **self._clocks}

    def last_seen(self, clock: str) -> int:
        """What such a clock said last."""
        return round(self._now * _NANO) if clock == MONOTONIC else self._clocks.get(clock, 0)

    @property
    def moment(self) -> datetime:
        """When the last event of the journal happened."""
        last = None if self.machine is None else self.machine.last
        return datetime.fromtimestamp(0, timezone.utc) if last is None else last.occurred_at

    def filler(self, size: int) -> bytes:
        """Bytes that follow from agent, version and how many were asked for before."""
        version = 0 if self.machine is None else self.machine.version
        self._filled += 1
        return hashlib.shake_128(f"{self.stream} {version} {self._filled}".encode()).digest(size)

    @property
    def scope(self) -> Scope:
        """The delivery that the running code belongs to."""
        return DELIVERY.get() or self

    def _read(self, read: Callable[[], Any]) -> Any:
        """What is read in order to read is no reading of the agent's: replay asks for neither."""
        before, self._reads = self._reads, True
        try:
            return read()
        finally:
            self._reads = before

    def create_task(
        self, coroutine: Coroutine[Any, Any, Any], name: str | None, context: contextvars.Context | None = None
    ) -> asyncio.Task[Any]:
        if context is not None:
            _join(context)
        task = AgentTask(coroutine, session=self, name=name, context=context)
        if self.mode is Mode.FOLLOWING:
            self._tasks.add(task)
            task.first_step = self._queue[-1][0]
        elif self.fate.stands:
            _take_out(task, begun=False)
        return task

    # -- live -----------------------------------------------------------------------------------------------------

    def _schedule(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context
    ) -> asyncio.Handle:
        box = _Box()
        handle = self._hooks.call_soon(self._run_callback, box, callback, args, context=context)
        box.handle = handle
        self._scheduled.add(box)
        return handle

    def _run_callback(self, box: _Box, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._scheduled.discard(box)
        box.handle = None  # else the handle and the box keep each other until the next garbage collection
        if self.mode is not Mode.LIVE:
            callback(*args)
            return
        self._tick += 1
        self._will_run()
        try:
            callback(*args)
        finally:
            self._has_run()

    def _run_timer(self, number: int, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._timers.pop(number, None)
        if self.mode is not Mode.LIVE:
            callback(*args)
            return
        self.observations.append(TimerFired(number, self._tick).observation())
        self._bound_observations()
        self.unsaid = True
        self._tick += 1
        self._will_run()
        try:
            callback(*args)
        finally:
            self._has_run()

    def _will_run(self) -> None:
        self._runs = True
        self._since = _seconds()
        if self.around is not None:
            self.around.before(self.owner)

    def _has_run(self) -> None:
        self._runs = False
        self.busy += _seconds() - self._since
        if self.around is not None:
            self.around.after()
        if self.unsaid and self.on_unsaid is not None:
            self.on_unsaid()

    def _bound_observations(self) -> None:
        if len(self.observations) >= _MANY_OBSERVATIONS and self.on_many_observations is not None:
            self.on_many_observations()

    def leave_for_thread(self, function: Callable[..., object]) -> bool:
        """The agent hands work to a thread, whose end is not recorded. Replay must not do it (G4)."""
        name = getattr(function, "__qualname__", None) or repr(function)
        if self.mode is Mode.LIVE:
            self._found_foreign(f"a thread that runs {name}")
        elif self.mode is Mode.FOLLOWING and self.machine is not None and self.mismatch is None:
            self.mismatch = self.machine.unanswerable(f"a thread that runs {name}")
        return self.mode is not Mode.FOLLOWING

    def refuse(self, what: str, error: Callable[[int], Exception]) -> Exception:
        """The code does in replay what must not be done again (G4). Raised there, it could be caught; the driver looks.

        Args:
            error: What is to be said, for the version that the journal is on the way to.
        """
        assert self.machine is not None
        if self.in_thread:
            mismatch = self.machine.unanswerable(what)
        else:  # the journal is the loop's thread's to look at
            mismatch = Mismatch(self.machine.version, "nothing that answers it", what, foreign=True)
        mismatch.error = error(mismatch.version)
        if self.mismatch is None:
            self.mismatch = mismatch
        return error(mismatch.version)  # another one: what the agent's code is given comes with its frames

    def _wake_from_outside(self, callback: Callable[..., object], context: contextvars.Context) -> None:
        woken: Any = getattr(callback, "__self__", None)
        waits: Any = getattr(context.get(DELIVERY), "task", None)
        task = cast("Any", woken) if isinstance(woken, asyncio.Task) else waits
        where = "" if task is None else f" in {_agent_code(task)}"
        self._found_foreign(f"{_name(callback)}{where}")

    def _found_foreign(self, what: str) -> None:
        self.foreign_wakeups += 1
        if self.on_foreign is not None:
            self.on_foreign(what)
        self.observations.append(ForeignWakeup(what, self._tick).observation())

    def inject(self, effect: Callable[[], object]) -> None:
        """Bring an input in: what `effect` schedules is the input's doing, not an outside wake-up."""
        self.injecting = True
        try:
            effect()
        finally:
            self.injecting = False

    def spawn(self, coroutine: Coroutine[Any, Any, Any], delivery: object) -> asyncio.Task[Any]:
        """Start agent code in a task of its own, in the agent's context."""
        if self.mode is Mode.FOLLOWING and self.before_replay is not None:
            self.before_replay(delivery)
        context = contextvars.copy_context()
        context.run(SESSION.set, self)
        context.run(READER.set, self)
        context.run(DELIVERY.set, delivery)
        context.run(_BIRTHS.set, itertools.count(_first_number(delivery)))
        task: list[asyncio.Task[Any]] = []
        self.inject(lambda: task.append(context.run(self.create_task, coroutine, None)))
        return task[0]

    # -- following ------------------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether no callback is ready."""
        while self._queue and self._queue[0][0].cancelled():
            self._queue.popleft()
        return not self._queue

    def run_next(self) -> bool:
        """Run the next callback of the queue; False if there is none. Call it outside of any task."""
        assert self.machine is not None
        while self._queue:
            handle, callback, args, context = self._queue.popleft()
            if handle.cancelled():
                continue
            self.machine.tick += 1
            self._run(callback, args, context)
            return True
        return False

    def fire(self, number: int) -> bool:
        """Fire an armed timer; False if the agent has not armed it, or has cancelled it."""
        assert self.machine is not None
        timer = self._timers.pop(number, None)
        if not isinstance(timer, Timer) or timer.cancelled():
            return False
        callback, args, context = timer.call
        self.machine.tick += 1
        self._run(callback, args, context)
        return True

    def _run(self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context) -> None:
        self._will_run()
        try:
            context.run(callback, *args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.loop.call_exception_handler({"message": f"Exception in callback {callback!r}", "exception": error})
        finally:
            self._has_run()

    # -- changes of mode ------------------------------------------------------------------------------------------

    def go_live(self) -> None:
        """The journal is at its end: waiting callbacks go to the loop, armed timers get real time.

        The agent's clock goes on from its last reading, so the time between two processes does not exist for it.
        """
        self._tick = self.tick
        self.machine = None
        self.mode = Mode.LIVE
        self._shift = self._now - self._hooks.time() if self._now else 0.0
        for handle, callback, args, context in self._queue:
            if not handle.cancelled():
                self._forward(handle, callback, args, context)
        self._queue.clear()
        self._prune()
        for number, timer in self._timers.items():
            if isinstance(timer, Timer) and timer.real is None:
                callback, args, context = timer.call
                timer.real = self._hooks.call_at(
                    timer.when() - self._shift, self._run_timer, number, callback, args, context=context
                )

    def _forward(
        self,
        followed: asyncio.Handle,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context,
    ) -> None:
        """Hand a waiting callback to the loop; the agent may hold, and cancel, the handle it was given before."""

        def run(*arguments: Any) -> None:
            if not followed.cancelled():
                callback(*arguments)

        self._schedule(run, args, context)

    def end(self) -> None:
        """Nothing of this instance counts any more. Live tasks may finish; those of a replay stand still for ever."""
        if self.mode is Mode.ENDED:
            return
        following, self.mode = self.mode is Mode.FOLLOWING, Mode.ENDED
        if following:
            self._let_go()
        if self.on_end is not None:
            self.on_end()

    def abandon(self) -> None:
        """Nothing counts any more, but somebody waits for the tasks: let them run to their end in the loop."""
        if self.mode is Mode.ENDED:
            return
        self.mode = Mode.ENDED
        self.abandoned = True
        for handle, callback, args, context in self._queue:
            if not handle.cancelled():
                self._hooks.call_soon(callback, *args, context=context)
        self._queue.clear()
        if self.on_end is not None:
            self.on_end()

    def _let_go(self) -> None:
        """Take a replay's unfinished tasks out of asyncio's sight: nobody waits for them, and they must not run on.

        They are kept for as long as the instance is: as garbage, their `finally` blocks would run, and change it. Then they
        do run, and must change nothing else (`standing`).
        """
        self.fate.stands = True
        self._kept = [task for task in self._tasks if not task.done()]
        if self.mismatch is not None and self.mismatch.error is not None:
            _say_nothing_of([task for task in self._tasks if task.done()])
        not_begun = {id(handle) for handle, _, _, _ in self._queue}
        for task in self._kept:
            _take_out(task, begun=id(task.first_step) not in not_begun)
            stand(task.get_coro(), self.stream)
            _say_nothing_of_awaited(task)
        for _, _, args, _ in self._queue:
            _never_run(args)
        self._queue.clear()
        self._timers.clear()

    def _prune(self) -> None:
        self._timers = {number: timer for number, timer in self._timers.items() if not timer.cancelled()}
        self._scheduled = {box for box in self._scheduled if box.handle is None or not box.handle.cancelled()}


class _Box:
    """Names a scheduled callback before its handle exists."""

    __slots__ = ("handle",)

    def __init__(self) -> None:
        self.handle: asyncio.Handle | None = None


def _first_number(delivery: object) -> int:
    """Of the tasks of a delivery. It follows from the id of its event, which is recorded, and is no other agent's.

    asyncio keeps all tasks in one set: were there many of one hash, each new one would be compared with them all.
    """
    event_id: UUID | None = getattr(delivery, "event_id", None)
    return 0 if event_id is None else (event_id.int % _PRIME) * _MOST_BIRTHS


def _join(context: contextvars.Context) -> None:
    """Let a context that an agent has made anew be the agent's."""
    if SESSION not in context:
        for variable in (SESSION, READER, DELIVERY, _BIRTHS):
            context.run(cast("contextvars.ContextVar[Any]", variable).set, variable.get())


def _take_out(task: AgentTask, *, begun: bool) -> None:
    """Take a task out of asyncio's sight."""
    asyncio._unregister_task(task)  # documented for custom tasks; keeps asyncio.run from waiting
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    if not begun:
        cast("Any", task.get_coro()).close()  # so nothing of it runs


def _say_nothing_of(tasks: list[AgentTask]) -> None:
    """What ended in a replay that was refused, perhaps with that refusal, is told by the refusal alone."""
    for task in tasks:
        if not task.cancelled():
            task.exception()


def _say_nothing_of_awaited(task: AgentTask) -> None:
    """A view may stand where an error has come, and nobody is ever given it."""
    awaited: asyncio.Future[Any] | None = getattr(task, "_fut_waiter", None)
    if awaited is not None and awaited.done() and not awaited.cancelled():
        awaited.exception()


def _never_run(arguments: tuple[Any, ...]) -> None:
    """Close what a callback would have awaited (the closing of an asynchronous generator, which asyncio schedules)."""
    for argument in arguments:
        close = getattr(argument, "close", None)
        if close is not None and inspect.isawaitable(argument) and not isinstance(argument, asyncio.Future):
            close()


def _name(callback: Callable[..., object]) -> str:
    """A callback in words: the task it wakes, or its own name."""
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return "task"
    named: Any = callback
    if isinstance(named, functools.partial):
        named = cast("functools.partial[Any]", named).func
    return getattr(named, "__qualname__", None) or type(callback).__qualname__


def _agent_code(task: asyncio.Task[Any]) -> str:
    """Where a task waits, by the innermost of its coroutines that is neither ours nor the library's."""
    found, coroutine = "", cast("Any", task.get_coro())
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None)
        module = "" if frame is None else str(frame.f_globals.get("__name__", ""))
        if not found or module.partition(".")[0] not in _NOT_THE_AGENTS:
            found = getattr(coroutine, "__qualname__", "") or found
        coroutine = getattr(coroutine, "cr_await", None)
    return found
