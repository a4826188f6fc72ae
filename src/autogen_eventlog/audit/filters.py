"""What may be asked for, checked and made into the parameters of a query."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from autogen_core import AgentId, TopicId

from autogen_eventlog.codec.names import type_name
from autogen_eventlog.events import Outcome
from autogen_eventlog.moments import check_times

LARGEST = 2**63 - 1
EVERYWHERE = {"from_position": 0, "to_position": LARGEST}
"""No bounds in position."""
RUNNING = "running"
OUTCOMES = (*(outcome.value for outcome in Outcome), RUNNING)
BranchChoice = Literal["all", "current"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which messages; None: no such filter. Makes what it was given comparable, and refuses what can't be meant.

    Raises:
        InvalidPoint: A time without a zone.
        ValueError: An outcome, a branch or a limit that there is none of.
    """

    agent: AgentId | str | None = None
    agent_type: str | None = None
    type: type | str | None = None
    sender: AgentId | str | None = None
    topic: TopicId | str | None = None
    message_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    outcome: Outcome | str | None = None
    correlation: UUID | None = None
    cause: UUID | None = None
    branch: BranchChoice = "all"
    newest_first: bool = True
    after: int | None = None
    limit: int = 100

    def __post_init__(self) -> None:
        check_times(self.since, self.until)
        check_limit(self.limit)
        if self.outcome is not None and _text(self.outcome) not in OUTCOMES:
            raise ValueError(f"outcome {self.outcome!r}: give one of {', '.join(OUTCOMES)}")
        if self.branch not in ("all", "current"):
            raise ValueError(f"branch {self.branch!r}: give 'all' or 'current'")

    @property
    def stream(self) -> str | None:
        """The one stream asked for."""
        return None if self.agent is None else str(self.agent)

    @property
    def contradictory(self) -> bool:
        """No agent is of another type than its own."""
        return self.stream is not None and self.agent_type not in (None, self.stream.partition("/")[0])

    def parameters(self) -> dict[str, Any]:
        """As the queries take them (sql/queries/audit_messages_newest.sql)."""
        full_name, class_name = _class_names(self.type)
        return {
            "stream": self.stream,
            "first_stream": None if self.agent_type is None else f"{self.agent_type}/",
            "last_stream": None if self.agent_type is None else f"{self.agent_type}0",  # '0' follows '/'
            "message_type": full_name,
            "class_name": class_name,
            "sender": _text(self.sender),
            "topic": _text(self.topic),
            "message_id": self.message_id,
            "since": self.since,
            "until": self.until,
            "outcome": _text(self.outcome),
            "correlation": self.correlation,
            "cause": self.cause,
            "current": self.branch == "current",
            "newest_first": self.newest_first,
            "after": self.start,
            "limit": self.limit,
        }

    @property
    def start(self) -> int:
        """The position past which to read."""
        if self.after is not None:
            return self.after
        return LARGEST if self.newest_first else 0


def check_limit(limit: int) -> None:
    """Refuse a page of nothing.

    Raises:
        ValueError: It is below 1.
    """
    if limit < 1:
        raise ValueError(f"limit {limit}: give 1 or more")


def _class_names(given: type | str | None) -> tuple[str | None, str | None]:
    """The full name, or the short one, of a message's class."""
    if isinstance(given, type):
        return type_name(given), None
    if given is None or ":" in given:
        return given, None
    return None, given


def _text(given: object | None) -> str | None:
    if isinstance(given, Outcome):
        return given.value
    return None if given is None else str(given)
