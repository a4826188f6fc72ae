"""Hermetic replay: what an agent's own code does to files, sockets, processes and threads is not done again (G4).

One audit hook (`sys.addaudithook`) sees what the process does. It acts only on what the code of an agent does in the
agent's context: in replay that is refused, and the replay stops with `UnrecordedEffect`; live it is done, and said once
for each class and kind (G11). Everybody else passes: other tasks and threads, log records, spans, imports, the runtime, and
the real calls of effects, which run outside of the agent's context.

A constructor is run for each instance, views too, so what it does is done, except that an instance that is not to live
destroys nothing. What its constructor opened, handlers can use without anybody seeing it; none is replayed then.
"""

from __future__ import annotations

import concurrent.futures
import functools
import logging
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

from autogen_eventlog.effects import watched
from autogen_eventlog.effects.ambient.callers import doers
from autogen_eventlog.effects.ambient.making import makes_boundary
from autogen_eventlog.effects.watched import OURS, WATCHED, Watched
from autogen_eventlog.errors import UnrecordedEffect
from autogen_eventlog.incarnation.construction import Construction
from autogen_eventlog.incarnation.incarnation import Incarnation, current_delivery
from autogen_eventlog.replay.loop import in_signal_handler
from autogen_eventlog.replay.reading import READER
from autogen_eventlog.replay.session import Mode, Session
from autogen_eventlog.replay.standing import any_stands, whose

logger = logging.getLogger(__name__)

_EFFECT = (
    "Make the call an effect (autogen_eventlog.effect, docs/how-to/record-your-own-effects.md), leave it to a tool"
)
_REMEDY = f"{_EFFECT}, or give the agent save_state and load_state, to be restored from a snapshot taken later"
_REMEDY_MAKING = f"{_EFFECT}, or open it in the handler, within an effect"

_said: set[tuple[object, str]] = set()


@dataclass(frozen=True, slots=True)
class _Deed:
    """What the agent's code is about to do."""

    kind: str
    call: str
    place: str


def watch() -> None:
    """Let replay refuse what is not recorded, from now on, in this process. An audit hook can't be taken out again."""
    _watch()


@functools.cache
def _watch() -> None:
    _tell_of_threads()
    sys.addaudithook(_hook())


def _hook() -> Callable[[str, tuple[Any, ...]], None]:
    """The hook. Python calls it for every audit event of the process, so it leaves at once for those not watched.

    What it needs is in its closure: events happen also when the process ends and modules are empty.
    """
    known, reader, asked, garbage, closed = WATCHED, READER.get, _asked, any_stands, _closed

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in known:
            if garbage():
                closed(event, args)
            who = reader()
            if who is not None:
                asked(who, event, args)

    return hook


def _asked(who: object, event: str, args: tuple[Any, ...]) -> None:
    if isinstance(who, Session):
        if who.hermetic and _is_code_of(who) and not watched.harmless(event, args):
            _in_handler(who, event, args)
    elif isinstance(who, Construction) and who.running and who.session.hermetic and not watched.harmless(event, args):
        _in_constructor(who, event, args)


def _is_code_of(session: Session) -> bool:
    """Whether code in a session's context is the agent's: a thread that was given the context too, if replay began it."""
    if session.mode is Mode.LIVE:
        return session.running
    return session.mode is Mode.FOLLOWING and (session.running or not session.in_thread)


# -- handlers -----------------------------------------------------------------------------------------------------


def _in_handler(session: Session, event: str, args: tuple[Any, ...]) -> None:
    kind = WATCHED[event].kind
    owner = session.owner
    cls = type(owner.agent) if isinstance(owner, Incarnation) else None
    if session.mode is Mode.LIVE and (cls, kind) in _said:
        return
    frames = _frames()
    if not frames:
        return
    deed = _Deed(kind, watched.call(event, args), _place(frames, cls))
    if session.mode is Mode.FOLLOWING and not _goes_live(session):
        raise session.refuse(f"{deed.call} at {deed.place}", functools.partial(_refused, session.stream, deed))
    _warn_of_handler(session.stream, cls, deed)


def _goes_live(session: Session) -> bool:
    """Whether the code is past the end of its journal here, and so does this for the first time as far as is known."""
    machine = session.machine
    return (
        session.in_thread
        and machine is not None
        and session.mismatch is None
        and machine.exhausted
        and session.on_past_end()
    )


def _refused(stream: str, deed: _Deed, version: int) -> UnrecordedEffect:
    delivery = current_delivery()
    who = "what a handler left behind" if delivery is None else f"delivery {delivery.number}"
    return UnrecordedEffect(
        stream,
        f"version {version}",
        f"{who} calls {deed.call} at {deed.place}, which is not recorded; replay neither knows what came of it nor may "
        "do it again, and has not done it",
        _REMEDY,
        None if delivery is None else delivery.number,
        deed.kind,
        deed.call,
        deed.place,
    )


def _warn_of_handler(stream: str, cls: type | None, deed: _Deed) -> None:
    if (cls, deed.kind) in _said:
        return
    _said.add((cls, deed.kind))
    name = "its agent" if cls is None else cls.__qualname__
    logger.warning(
        "%s (%s): a handler calls %s at %s, which is not recorded; from here on it can't be restored by replay. %s",
        stream,
        name,
        deed.call,
        deed.place,
        _EFFECT,
    )


def _closed(event: str, args: tuple[Any, ...]) -> None:
    """What a replay left amid a handler is garbage, and its `finally` blocks run, in whatever code the collector came.

    It is being closed, and ends here; another exception would be printed, in the middle of somebody else's program.
    """
    if not watched.harmless(event, args) and whose(sys._getframe(2)):  # pyright: ignore[reportPrivateUsage]
        raise GeneratorExit


# -- constructors -------------------------------------------------------------------------------------------------


def _in_constructor(making: Construction, event: str, args: tuple[Any, ...]) -> None:
    found: Watched = WATCHED[event]
    ends = watched.destroys(event, args)
    if not (found.handle or ends):
        return
    frames = _frames()
    if not frames or makes_boundary(frames[0], making.own):
        return
    session, owner = making.session, making.session.owner
    deed = _Deed(found.kind, watched.call(event, args), _place(frames, None))
    if ends and isinstance(owner, Incarnation) and not owner.continues:
        raise _refused_making(session.stream, deed, "a view")
    if found.handle:
        _not_replayed_with(session, deed)


def _not_replayed_with(session: Session, deed: _Deed) -> None:
    """Its handlers may use what the constructor opened, and no event would tell."""

    def refuse(delivery: Any) -> None:
        point = f"version {delivery.number}"
        session.refuse(deed.call, lambda _: _refused_making(session.stream, deed, point))

    session.before_replay = session.before_replay or refuse
    agent_type = session.stream.partition("/")[0]
    if (agent_type, deed.kind) not in _said:
        _said.add((agent_type, deed.kind))
        logger.warning(
            "%s: while it is made, %s is called at %s; what its handlers do with it can't be seen, so it can't be restored "
            "by replay. %s",
            session.stream,
            deed.call,
            deed.place,
            _REMEDY_MAKING,
        )


def _refused_making(stream: str, deed: _Deed, point: str) -> UnrecordedEffect:
    problem = (
        f"the making of the instance calls {deed.call} at {deed.place}; what its handlers do with it is not recorded, and "
        "replay must not do it again"
    )
    return UnrecordedEffect(stream, point, problem, _REMEDY_MAKING, None, deed.kind, deed.call, deed.place)


# -- who and where ------------------------------------------------------------------------------------------------


def _frames() -> list[FrameType]:
    """The agent's code that does it, innermost first; none if it is not the agent's doing."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    found = doers(frame)
    return [] if found and in_signal_handler() else found


def _place(frames: list[FrameType], cls: type | None) -> str:
    """Where, in the code of the agent's own package if it is on the way, else in the code that is nearest."""
    own = "" if cls is None else cls.__module__.partition(".")[0]
    frame = next((one for one in frames if _top(one) == own), frames[0])
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {_name(frame)}"


def _top(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__") or "").partition(".")[0]


def _name(frame: FrameType) -> str:
    return getattr(frame.f_code, "co_qualname", frame.f_code.co_name)  # from Python 3.11 on


# -- what Python does not tell of ---------------------------------------------------------------------------------


def _tell_of_threads() -> None:
    """Raise events for threads, work for pools and processes where some Pythons have none.

    Work is put into a pool's queue before the pool starts a thread, which may be refused: the work would be done later.
    """
    _tell(threading.Thread, "start", "threading.Thread.start")
    _tell(concurrent.futures.ThreadPoolExecutor, "submit", "concurrent.futures.Executor.submit")
    try:
        from concurrent.futures.process import ProcessPoolExecutor
        from multiprocessing.process import BaseProcess
    except ImportError:  # a platform without processes
        return
    _tell(ProcessPoolExecutor, "submit", "concurrent.futures.Executor.submit")
    _tell(BaseProcess, "start", "multiprocessing.Process.start")


def _tell(cls: Any, name: str, event: str) -> None:
    real, told = getattr(cls, name), f"{OURS}{event}"

    @functools.wraps(real)
    def call(self: Any, *args: Any, **keywords: Any) -> Any:
        if READER.get() is not None:
            sys.audit(told, args[0] if args else getattr(self, "_target", None) or self)
        return real(self, *args, **keywords)

    setattr(cls, name, call)
