"""What a check says: of each agent, whether the code at hand does what was recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from autogen_eventlog.errors import CodeComparison, Divergence, FieldDifference

CheckMode = Literal["strict", "report"]


class CheckOutcome(str, Enum):
    """What became of one agent's check."""

    SAME = "same"
    """The code does what was recorded, and ends in the same state as far as one was kept to compare."""
    DIVERGES = "diverges"
    """The code sends, publishes, asks or answers something else."""
    OTHER_STATE = "other_state"
    """The outputs are the recorded ones, and the state is another."""
    NOT_RESTORABLE = "not_restorable"
    """The past can't be replayed: it holds something that is not recorded, or a stored event is damaged."""
    UNKNOWN_TYPE = "unknown_type"
    """No agent of this type is registered here."""
    TYPE_MISSING = "type_missing"
    """A recorded message is of a class that is not registered here."""


@dataclass(frozen=True, slots=True)
class AgentCheck:
    """One agent's recorded history, held against the code at hand."""

    agent: str
    outcome: CheckOutcome
    version: int
    """Of the last event that was to be replayed."""
    events: int = 0
    """Events that were replayed; 0 where replay did not come to the end."""
    agent_class: str | None = None
    """The class that recorded it, as the log names it."""
    exact: bool | None = None
    """Whether it was followed tick by tick; False: by order, since other code or another Python recorded it."""
    divergences: tuple[Divergence, ...] = ()
    """In order; with `mode="strict"` the first alone."""
    state_version: int | None = None
    """The version whose recorded state was compared; None: there was none to compare."""
    state: tuple[FieldDifference, ...] = ()
    """Where the state differs."""
    code: CodeComparison | None = None
    """The code that recorded the last part, beside the code at hand. None: the log or this process does not know one."""
    problem: str = ""
    """Why it can't be replayed."""
    remedy: str = ""
    source: str | None = None
    """The history file; None: the log."""

    @property
    def same(self) -> bool:
        """Whether there is nothing to look at."""
        return self.outcome is CheckOutcome.SAME


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The checks of agents, in the order in which they were asked for."""

    agents: tuple[AgentCheck, ...]

    @property
    def same(self) -> bool:
        """Whether every agent's check is."""
        return all(check.same for check in self.agents)

    def count(self, outcome: CheckOutcome) -> int:
        """How many agents came out so."""
        return sum(check.outcome is outcome for check in self.agents)


@dataclass(frozen=True, slots=True)
class CheckProgress:
    """How far a check has come."""

    agent: str
    """One that is being checked."""
    done: int
    """Agents that are checked."""
    total: int
    events: int
    """Of this agent, replayed so far."""
    events_total: int


OnProgress = Callable[[CheckProgress], None]
