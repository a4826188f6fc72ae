"""Snapshots of agents: a shorter way to the same state, never the only one.

This first part takes them from agents whose class has its own `save_state` and `load_state`, and believes none that a
fresh instance did not reproduce. Capturing any agent's state without its cooperation will be another `kind` beside it.
"""

from autogen_eventlog.snapshots.comparison import differences
from autogen_eventlog.snapshots.cooperative import (
    KIND,
    UNUSABLE,
    counters,
    has_own_state,
    restore_counters,
    usable,
)

__all__ = ["KIND", "UNUSABLE", "counters", "differences", "has_own_state", "restore_counters", "usable"]
