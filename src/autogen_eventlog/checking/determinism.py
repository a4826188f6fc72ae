"""Whether agents of a class can be restored by replay, found by replaying what they have lived through.

Each history is replayed twice with the code at hand, into fresh instances: what the code reaches for and the log does not
answer is refused and named, and two replays must end in the same state. What was recorded tells which effects and readings a
class depends on. A class is judged by what its agents have done; what none of them did yet, nobody knows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from autogen_core import AgentId

from autogen_eventlog.checking.report import CheckProgress, OnProgress
from autogen_eventlog.errors import (
    DatabaseUnavailable,
    Divergence,
    EventsMissing,
    LogClosed,
    NotCapturable,
    NotRestorable,
    SchemaError,
    UnknownAgent,
    UnknownStream,
    UnrecordedEffect,
)
from autogen_eventlog.events import EventType, RecordedEvent
from autogen_eventlog.log import EventLog
from autogen_eventlog.past import LogPast
from autogen_eventlog.recovery import Recovery
from autogen_eventlog.replay.journal import ForeignWakeup, Reading, entries
from autogen_eventlog.state import capture, difference

_AWAY: Final = (DatabaseUnavailable, LogClosed, SchemaError)
_NAMED: Final = 20
"""Places that are named of one class."""


class Verdict(str, Enum):
    """How far agents of a class can be restored by replay."""

    REPLAY_SAFE = "replay_safe"
    """Their messages alone decide what they do."""
    SAFE_WITH_EFFECTS = "safe_with_effects"
    """They also depend on models, tools, clocks and such, which are recorded."""
    NOT_SAFE = "not_safe"
    """They depend on something that is not recorded."""
    UNKNOWN = "unknown"
    """Nothing of theirs could be replayed with the code at hand: it was recorded by other code, or its types are missing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that makes a class unsafe, or kept an agent from being judged."""

    what: str
    place: str
    """Where in the code, as far as it is known: `path:line in function`; else the version of the event."""
    agent: str
    """The first that was found to do it."""
    remedy: str


@dataclass(frozen=True, slots=True)
class ClassReport:
    """What was found of the agents of one class."""

    agent_class: str
    verdict: Verdict
    agents: int
    """That were replayed."""
    deliveries: int
    """That they have lived through."""
    effects: dict[str, int]
    """How often each kind of effect was asked for."""
    readings: dict[str, int]
    """How often each kind of clock, id or random number was read."""
    unsafe: tuple[Finding, ...]
    undecided: tuple[Finding, ...]
    """Agents whose histories could not be replayed for another reason: other code, a type that is missing."""


@dataclass(slots=True)
class _Class:
    agents: int = 0
    deliveries: int = 0
    effects: Counter[str] = field(default_factory=Counter[str])
    readings: Counter[str] = field(default_factory=Counter[str])
    unsafe: dict[tuple[str, str], Finding] = field(default_factory=dict[tuple[str, str], Finding])
    undecided: list[Finding] = field(default_factory=list[Finding])

    def report(self, name: str) -> ClassReport:
        verdict = Verdict.UNKNOWN
        if self.unsafe:
            verdict = Verdict.NOT_SAFE
        elif self.agents:
            verdict = Verdict.SAFE_WITH_EFFECTS if self.effects or self.readings else Verdict.REPLAY_SAFE
        return ClassReport(
            agent_class=name,
            verdict=verdict,
            agents=self.agents,
            deliveries=self.deliveries,
            effects=dict(sorted(self.effects.items())),
            readings=dict(sorted(self.readings.items())),
            unsafe=tuple(self.unsafe.values())[:_NAMED],
            undecided=tuple(self.undecided[:_NAMED]),
        )

    def found(self, finding: Finding) -> None:
        self.unsafe.setdefault((finding.what, finding.place), finding)


class Determinism:
    """Replays histories twice, and judges their classes. Nothing is written, claimed or sent."""

    def __init__(self, log: EventLog, recovery_for: Callable[[AgentId], Recovery]) -> None:
        """
        Args:
            recovery_for: Gives what replays an agent of a registered type; raises `UnknownAgent` for others.
        """
        self._log = log
        self._recovery_for = recovery_for
        self._classes: defaultdict[str, _Class] = defaultdict(_Class)

    async def judge(self, agents: Iterable[AgentId | str], on_progress: OnProgress | None = None) -> list[ClassReport]:
        """The reports of the classes of these agents, by name.

        Raises:
            UnknownStream: The log holds no event of an agent.
            DatabaseUnavailable, LogClosed: The log can't be read.
        """
        asked = list(map(str, agents))
        for done, agent in enumerate(asked):
            if on_progress is not None:
                on_progress(CheckProgress(agent, done, len(asked), 0, 0))
            await self._one(agent)
        return [found.report(name) for name, found in sorted(self._classes.items())]

    # -- one agent ------------------------------------------------------------------------------------------------

    async def _one(self, agent: str) -> None:
        head = await self._log.head(agent)
        if head is None or head.version == 0:
            raise UnknownStream(agent, "now")
        past = await LogPast.of(self._log.reader, agent, head.version)
        activation = await past.last_activation()
        name = "unknown" if activation is None else str(activation.producer.get("agent_class", "unknown"))
        of_class = self._classes[name]
        try:
            async for event in past.events():
                self._look_at(event, of_class)
            recovery = self._recovery_for(AgentId.from_str(agent))
            states = [await self._end(recovery, past), await self._end(recovery, past)]
        except _AWAY:
            raise
        except Exception as error:
            self._judge(error, agent, of_class)
            return
        of_class.agents += 1
        if None not in states and states[0] != states[1]:
            for one in difference(states[0] or b"", states[1] or b"", limit=_NAMED):
                what = f"two replays end in other states: {one.path} is {one.left}, and {one.right}"
                of_class.found(Finding(what, one.path, agent, "Let it follow from messages and recorded effects alone"))

    def _look_at(self, event: RecordedEvent, of_class: _Class) -> None:
        of_class.deliveries += event.type is EventType.MESSAGE_DELIVERED
        if event.type is EventType.EFFECT_REQUESTED:
            of_class.effects[event.metadata["kind"]] += 1
        for entry in entries(event):
            if isinstance(entry, Reading):
                of_class.readings[entry.kind] += 1
            elif isinstance(entry, ForeignWakeup):
                what = f"something that is not recorded woke it: {entry.what}"
                remedy = "Let it reach the world through messages, models, tools or effects of your own"
                of_class.found(Finding(what, f"version {event.version}", event.stream, remedy))

    async def _end(self, recovery: Recovery, past: LogPast) -> bytes | None:
        """The state that a replay ends in; None where it can't be captured."""
        instance = (await recovery.along(past)).incarnation.agent
        assert instance is not None
        try:
            return capture(instance, self._log.codec, outside=recovery.outside(instance)).data
        except NotCapturable:
            return None

    def _judge(self, error: Exception, agent: str, of_class: _Class) -> None:
        match error:
            case EventsMissing():
                of_class.undecided.append(Finding(error.problem, error.point, agent, error.remedy))
            case UnrecordedEffect():
                of_class.found(Finding(f"{error.kind}: {error.call}", error.place, agent, error.remedy))
            case NotRestorable():
                of_class.found(Finding(error.problem, error.point, agent, error.remedy))
            case Divergence() if not error.other_code:
                what = f"recorded {error.recorded}, and the same code made {error.produced}; {error.likely_cause}"
                remedy = "Let it follow from messages and recorded effects alone"
                of_class.found(Finding(what, f"version {error.version}", agent, remedy))
            case UnknownAgent():
                of_class.undecided.append(Finding(str(error), "", agent, "Register its type"))
            case _:
                what = f"{type(error).__name__}: {error}"
                of_class.undecided.append(Finding(what, "", agent, "Replay it with the code that recorded it"))
