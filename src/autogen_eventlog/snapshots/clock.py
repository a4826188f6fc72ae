"""What a snapshot says beside the agent's own state: where the agent's clock stands, and what it has started."""

from __future__ import annotations

from typing import Any, Final

from autogen_eventlog.errors import PayloadCorrupt
from autogen_eventlog.incarnation.incarnation import Incarnation
from autogen_eventlog.postgres.records import Snapshot
from autogen_eventlog.replay.machine import Machine

MADE: Final = "made"
"""In a snapshot's metadata: what the making of the agent's instances reads. Fresh ones are made by it."""
PRODUCER: Final = "producer"
"""Who recorded the last event before it."""


def clock_of(incarnation: Incarnation) -> dict[str, Any]:
    """Where the agent's clock stands; it goes on from there."""
    return {
        "tick": incarnation.session.tick,
        "timers": incarnation.session.timers_armed,
        "effects": incarnation.effects_asked,
        "clocks": incarnation.session.clocks,
        "started": sorted(incarnation.started),
    }


def standing_of(incarnation: Incarnation) -> dict[str, Any]:
    """What a snapshot's metadata say of an instance beside its state."""
    return {**clock_of(incarnation), MADE: incarnation.construction.readings}


def set_clock(incarnation: Incarnation, machine: Machine, snapshot: Snapshot) -> None:
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
        incarnation.start_again({int(number) for number in snapshot.metadata.get("started", ())})
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        where = f"snapshot of stream {snapshot.stream!r} at version {snapshot.version}"
        raise PayloadCorrupt(where, f"its clock is missing ({error!r})") from None
    machine.version = snapshot.version
