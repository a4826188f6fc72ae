"""Snapshots by the agent's own `save_state` and `load_state`."""

from __future__ import annotations

from typing import Any, Final

from autogen_core import Agent, BaseAgent, ClosureAgent

from autogen_eventlog.errors import PayloadCorrupt
from autogen_eventlog.incarnation.incarnation import Incarnation
from autogen_eventlog.postgres.records import Snapshot
from autogen_eventlog.replay.machine import Machine

KIND: Final = "save_state"
PROVEN: Final = "proven"
UNUSABLE: Final = ("unproven", "failed")
"""Statuses that are never restored from."""


def has_own_state(agent: Agent) -> bool:
    """Whether the class says itself how its state is saved and loaded.

    A ClosureAgent does not: its `save_state` keeps nothing, whatever the closure holds.
    """
    if isinstance(agent, ClosureAgent):
        return False
    cls = type(agent)
    return (
        getattr(cls, "save_state", None) is not BaseAgent.save_state
        and getattr(cls, "load_state", None) is not BaseAgent.load_state
    )


def usable(snapshot: Snapshot) -> bool:
    return snapshot.kind == KIND and snapshot.status == PROVEN


def counters(incarnation: Incarnation) -> dict[str, Any]:
    """Where the agent's clock stands; it goes on from there."""
    return {
        "tick": incarnation.session.tick,
        "timers": incarnation.session.timers_armed,
        "effects": incarnation.effects_asked,
        "clocks": incarnation.session.clocks,
    }


def restore_counters(incarnation: Incarnation, machine: Machine, snapshot: Snapshot) -> None:
    """Set a fresh incarnation's clock to the snapshot's.

    Raises:
        PayloadCorrupt: The snapshot does not say where the clock stood.
    """
    try:
        machine.tick = int(snapshot.metadata["tick"])
        incarnation.session.timers_armed = int(snapshot.metadata["timers"])
        incarnation.effects_asked = int(snapshot.metadata["effects"])
        for clock, nanoseconds in snapshot.metadata.get("clocks", {}).items():
            incarnation.session.seen(clock, int(nanoseconds))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        where = f"snapshot of stream {snapshot.stream!r} at version {snapshot.version}"
        raise PayloadCorrupt(where, f"its clock is missing ({error!r})") from None
    machine.version = snapshot.version
