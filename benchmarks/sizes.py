"""How much each benchmark does."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """One size of the whole suite."""

    rounds: int
    """Times that each side has its turn."""
    seconds: float
    """Length of a turn, where it is one of time."""
    callers: tuple[int, ...]
    writer_rounds: int
    writer_seconds: float
    replay_rounds: int
    replay_messages: int
    """Recorded in each round of the replay benchmark."""
    recovery_rounds: int
    streams: tuple[int, ...]
    """Events of the streams that are recovered, ascending. The snapshot lies `after_snapshot` events before their ends."""
    after_snapshot: int
    snapshot_every: int
    log_agents: int
    log_events: int
    """Events of the large log, about."""
    questions: int
    """Times that each question is asked."""
    waits: int
    """Events that a tailing reader waits for."""
    state_bytes: int
    """Of a captured state, about."""
    storage_messages: int
    """Recorded to see what they take on disk."""


FULL = Sizes(
    rounds=7,
    seconds=0.6,
    callers=(1, 10, 100),
    writer_rounds=5,
    writer_seconds=1.5,
    replay_rounds=5,
    replay_messages=1500,
    recovery_rounds=3,
    streams=(1_000, 10_000, 100_000, 1_000_000),
    after_snapshot=500,
    snapshot_every=1000,
    log_agents=1000,
    log_events=1_000_000,
    questions=20,
    waits=20,
    state_bytes=1_000_000,
    storage_messages=5_000,
)
QUICK = Sizes(
    rounds=3,
    seconds=0.3,
    callers=(1, 10, 100),
    writer_rounds=2,
    writer_seconds=0.5,
    replay_rounds=2,
    replay_messages=400,
    recovery_rounds=1,
    streams=(1_000, 5_000),
    after_snapshot=500,
    snapshot_every=1000,
    log_agents=200,
    log_events=40_000,
    questions=5,
    waits=5,
    state_bytes=200_000,
    storage_messages=1_000,
)
TINY = Sizes(
    rounds=1,
    seconds=0.02,
    callers=(1, 2),
    writer_rounds=1,
    writer_seconds=0.02,
    replay_rounds=1,
    replay_messages=10,
    recovery_rounds=1,
    streams=(20, 50),
    after_snapshot=10,
    snapshot_every=20,
    log_agents=20,
    log_events=400,
    questions=1,
    waits=2,
    state_bytes=5_000,
    storage_messages=20,
)
"""For a test that everything runs; its numbers mean nothing."""
