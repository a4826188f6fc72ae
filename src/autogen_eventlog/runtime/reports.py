"""What restoring reports."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from autogen_core import AgentId


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """One agent was brought back."""

    agent: AgentId
    point: str
    """What was asked for, in words."""
    version: int
    """The agent is as it was at this version (0: as it was before its first event)."""
    recorded_at: datetime | None
    """When that version was recorded."""
    events_replayed: int
    snapshot_version: int | None
    """Version of the snapshot that replay began from; None: from the beginning."""
    exact: bool
    """Whether replay followed the recorded schedule tick by tick; else, for events of other code, by order."""
    abandoned_events: int
    """Events after that version that are no longer the agent's past. They stay readable."""
    continues_from: int
    """Version of the event that says so; what the agent lives through now follows it."""
    in_flight: tuple[int, ...]
    """Deliveries (versions of their MessageDelivered) that were running at that version, and run on from there."""


@dataclass(frozen=True, slots=True)
class SnapshotReport:
    """A snapshot was taken on demand."""

    agent: AgentId
    version: int
    """The agent is in it as it was at this version."""
    kind: str
    """`captured`, or `save_state`."""
    bytes: int
    proven: bool
    """Whether it may be restored from."""
    differing: tuple[str, ...]
    """Where the proof came to another state, or why there is none."""
