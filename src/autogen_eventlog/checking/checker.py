"""Checks recorded histories against the code at hand: a replay into fresh instances that changes nothing.

Nothing is appended, claimed or sent; every instance is a view. What a check finds is told, never built upon.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from autogen_core import AgentId

from autogen_eventlog.checking.history import History
from autogen_eventlog.checking.report import (
    AgentCheck,
    CheckMode,
    CheckOutcome,
    CheckProgress,
    CheckReport,
    OnProgress,
)
from autogen_eventlog.checking.states import snapshot_differences, state_differences
from autogen_eventlog.errors import (
    CodeComparison,
    DatabaseUnavailable,
    Divergence,
    EventsMissing,
    FieldDifference,
    LogClosed,
    NotLoadable,
    NotRestorable,
    PayloadCorrupt,
    SchemaError,
    TypeNotAllowed,
    UnknownAgent,
    UnknownStream,
)
from autogen_eventlog.log import EventLog
from autogen_eventlog.past import Activation, Past
from autogen_eventlog.recovery import Progress, Recovered, Recovery

logger = logging.getLogger(__name__)

AT_ONCE = 4
"""Agents that are checked at the same time: while one is replayed, the events of others are read."""

Target: TypeAlias = AgentId | str | History

_AWAY = (DatabaseUnavailable, LogClosed, SchemaError)
"""What is wrong with the store, and says nothing of an agent."""

_UNFIT = (NotLoadable, NotRestorable, PayloadCorrupt, TypeNotAllowed)
"""A snapshot that the code at hand can't begin from, or what lies behind it."""

_REGISTER = (
    "Let the function that registers the agents (--app) register this type too, or leave its agents out (--type)"
)
_CLASS = "Register it with log.register_types(...), or give the message's class the name and module that it had"
_RESTORE = "Read the traceback, and make the instance as the code that recorded it did"


@dataclass(slots=True)
class _Compared:
    """A recorded state beside the one that replay came to."""

    version: int | None = None
    differences: tuple[FieldDifference, ...] = ()


class Checker:
    """Replays agents' pasts with the code at hand.

    Args:
        log: An open log. Histories from files need none that is open.
        recovery_for: Gives what replays an agent of a registered type; raises `UnknownAgent` for others.
        mode: `"report"`: everything that differs, as far as replay can go on behind it. `"strict"`: an agent's first
            divergence ends its check.
        from_snapshot: Begin at the newest snapshot, not at the beginning: sooner, and blind to what lies before it.
    """

    def __init__(
        self,
        log: EventLog,
        recovery_for: Callable[[AgentId], Recovery],
        *,
        mode: CheckMode = "report",
        from_snapshot: bool = False,
        at_once: int = AT_ONCE,
    ) -> None:
        if mode not in ("strict", "report"):
            raise ValueError(f"mode is 'strict' or 'report', not {mode!r}")
        self._log = log
        self._recovery_for = recovery_for
        self._strict = mode == "strict"
        self._from_snapshot = from_snapshot
        self._at_once = at_once

    async def check(self, targets: Iterable[Target], on_progress: OnProgress | None = None) -> CheckReport:
        """Check agents by their ids, and histories from files, in their order.

        Raises:
            UnknownStream: The log holds no event of an agent.
            DatabaseUnavailable, LogClosed: The log can't be read.
        """
        async with aclosing(self.each(targets, on_progress)) as checks:
            return CheckReport(tuple([check async for check in checks]))

    async def each(
        self, targets: Iterable[Target], on_progress: OnProgress | None = None
    ) -> AsyncGenerator[AgentCheck, None]:
        """`check`, one by one as they are done, in their order."""
        asked = list(targets)
        waiting: deque[asyncio.Task[AgentCheck]] = deque()
        far = _Far(len(asked), on_progress)
        try:
            for target in asked:
                waiting.append(asyncio.create_task(self._one(target, partial(far.tell, _name(target)))))
                if len(waiting) == self._at_once:
                    yield far.after(await waiting.popleft())
            while waiting:
                yield far.after(await waiting.popleft())
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    # -- one agent ------------------------------------------------------------------------------------------------

    async def _one(self, target: Target, told: Progress) -> AgentCheck:
        told(0, 0)
        if isinstance(target, History):
            check = await self._checked(target.agent, target.version, target, told)
            return replace(check, source=target.path)
        head = await self._log.head(target)
        if head is None or head.version == 0:
            raise UnknownStream(str(target), "now")
        return await self._checked(str(target), head.version, None, told)

    async def _checked(self, agent: str, version: int, history: History | None, told: Progress) -> AgentCheck:
        try:
            recovery = self._recovery_for(AgentId.from_str(agent))
        except UnknownAgent as error:
            return AgentCheck(agent, CheckOutcome.UNKNOWN_TYPE, version, problem=str(error), remedy=_REGISTER)
        past: Past | None = history
        activation: Activation | None = None
        differing: list[Divergence] = []
        recovered: Recovered | None = None
        compared = _Compared()
        failed: dict[str, Any] = {}
        try:
            past = past or await recovery.past(version)
            activation = await past.last_activation()
            recovered = await self._replayed(recovery, past, history, None if self._strict else differing, told)
            compared = await self._compare(recovery, past, history, recovered)
        except _AWAY:
            raise
        except Divergence as divergence:
            differing.append(divergence)
        except Exception as error:
            failed = _failure(error)
        return AgentCheck(
            agent,
            failed.pop("outcome", None) or _outcome(differing, compared),
            version,
            events=0 if recovered is None else recovered.events,
            agent_class=None if activation is None else activation.producer.get("agent_class"),
            exact=None if recovered is None else recovered.exact,
            divergences=tuple(differing),
            state_version=compared.version,
            state=compared.differences,
            code=_code(activation, recovery),
            **failed,
        )

    async def _replayed(
        self,
        recovery: Recovery,
        past: Past,
        history: History | None,
        differing: list[Divergence] | None,
        told: Progress,
    ) -> Recovered:
        if self._from_snapshot and history is None:
            snapshot = await recovery.snapshot(past, past.lineage.version)
            try:
                return await recovery.along(past, snapshot, on_progress=told, differing=differing)
            except _UNFIT as error:
                if snapshot is None:
                    raise
                logger.warning("%s; checking from the beginning", error)
        try:
            return await recovery.along(past, on_progress=told, differing=differing)
        except EventsMissing:  # retention has removed its beginning: from the snapshot that what is kept begins at
            snapshot = None if history is not None else await recovery.snapshot(past, past.lineage.version)
            if snapshot is None:
                raise
            return await recovery.along(past, snapshot, on_progress=told, differing=differing)

    async def _compare(
        self, recovery: Recovery, past: Past, history: History | None, recovered: Recovered
    ) -> _Compared:
        """The state that was kept of this past, if one was, beside that of a replay."""
        agent = recovered.incarnation.agent
        assert agent is not None
        if history is not None:
            if history.state is None:
                return _Compared()
            return _Compared(
                history.version, state_differences(history.state, agent, self._log.codec, recovery.outside(agent))
            )
        snapshot = None if self._from_snapshot else await recovery.snapshot(past, past.lineage.version)
        if snapshot is None:
            return _Compared()
        try:
            then = await recovery.along(await recovery.past(snapshot.version, stream=snapshot.stream), differing=[])
        except EventsMissing:
            return _Compared()
        assert then.incarnation.agent is not None
        outside = recovery.outside(then.incarnation.agent)
        found = await snapshot_differences(snapshot, then.incarnation.agent, self._log.codec, outside)
        return _Compared(snapshot.version, found)


class _Far:
    """How far a check of several agents has come."""

    def __init__(self, total: int, on_progress: OnProgress | None) -> None:
        self._done = 0
        self._total = total
        self._on_progress = on_progress

    def after(self, check: AgentCheck) -> AgentCheck:
        """One more is done."""
        self._done += 1
        self.tell(check.agent, check.events, check.events)
        return check

    def tell(self, agent: str, events: int, events_total: int) -> None:
        if self._on_progress is not None:
            self._on_progress(CheckProgress(agent, self._done, self._total, events, events_total))


def _name(target: Target) -> str:
    return target.agent if isinstance(target, History) else str(target)


def _outcome(differing: list[Divergence], compared: _Compared) -> CheckOutcome:
    if differing:
        return CheckOutcome.DIVERGES
    return CheckOutcome.OTHER_STATE if compared.differences else CheckOutcome.SAME


def _failure(error: Exception) -> dict[str, Any]:
    match error:
        case TypeNotAllowed():
            return {"outcome": CheckOutcome.TYPE_MISSING, "problem": str(error), "remedy": _CLASS}
        case NotRestorable():
            where = f"{error.point}: {error.problem}"
            return {"outcome": CheckOutcome.NOT_RESTORABLE, "problem": where, "remedy": error.remedy}
        case PayloadCorrupt():
            where = f"{error.where}: stored payload can't be decoded: {error.problem}"
            return {"outcome": CheckOutcome.NOT_RESTORABLE, "problem": where, "remedy": error.remedy}
        case _:  # the agent's own code, as its instance is made
            problem = f"{type(error).__name__}: {error}"
            return {"outcome": CheckOutcome.NOT_RESTORABLE, "problem": problem, "remedy": _RESTORE}


def _code(activation: Activation | None, recovery: Recovery) -> CodeComparison | None:
    """The code that recorded the last part beside that at hand, as far as both are known."""
    if activation is None or not activation.producer or recovery.producer is None:
        return None
    return recovery.producer.against(activation.producer, activation.version)
