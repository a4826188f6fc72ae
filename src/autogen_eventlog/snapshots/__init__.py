"""Snapshots of agents: a shorter way to the same state, never the only one.

`policy` says when they are taken and how many are kept, `captured` and `cooperative` how a state is put into a fresh instance,
`status` what is known of one, `clock` what it says beside the state. None is believed before it is proven.
"""

from autogen_eventlog.snapshots.clock import MADE, PRODUCER, clock_of, set_clock, standing_of
from autogen_eventlog.snapshots.comparison import differences
from autogen_eventlog.snapshots.cooperative import KIND, has_own_state
from autogen_eventlog.snapshots.policy import SnapshotPolicy, kept
from autogen_eventlog.snapshots.status import FAILED, PROVEN, TAKEN, put, usable

__all__ = [
    "FAILED",
    "KIND",
    "MADE",
    "PRODUCER",
    "PROVEN",
    "TAKEN",
    "SnapshotPolicy",
    "clock_of",
    "differences",
    "has_own_state",
    "kept",
    "put",
    "set_clock",
    "standing_of",
    "usable",
]
