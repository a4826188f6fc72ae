"""When snapshots of an agent are taken, of what kind, and how many are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["captured", "save_state", "either"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPolicy:
    """Says when a snapshot is due. Any of the times that are given makes it so; it is taken when the agent is next at rest.

    Attributes:
        within: Seconds that a recovery may take. A snapshot is due when replaying what followed the last one is estimated to
            take as long, by the time that the agent's own code took while it ran, and the number of events. None: not by this.
        every: Events between two snapshots. None: not by this.
        idle: Seconds without a message after which an agent gets one, if anything has happened to it since its last. None: not
            by this.
        at_stop: Whether agents get one as the runtime is stopped.
        pause: Seconds that new messages may wait for an agent's running handlers to end, where one was so busy that twice what
            makes a snapshot due went by without its being at rest. If they don't end, it is tried again after twice as
            much. None: its messages never wait, and it gets one when it happens to be at rest.
        kind: How the state is taken. `captured`: all attributes, without the agent's doing. `save_state`: by the agent's own
            `save_state` and `load_state`, where its class has them. `either`: captured, or by `save_state` where that can't be.
        keep: So many of the newest snapshots are kept, and of older ones ever fewer, for time travel.
        proving: Share of one processor that proofs may take, above 0 and up to 1.

    Raises:
        ValueError: A number is not in its range, or the kind is none of these.
    """

    within: float | None = 1.0
    every: int | None = None
    idle: float | None = None
    at_stop: bool = False
    pause: float | None = 0.25
    kind: Kind = "either"
    keep: int = 3
    proving: float = 0.1

    def __post_init__(self) -> None:
        for name, least in (("within", 0.0), ("every", 1), ("idle", 0.0), ("pause", 0.0)):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise ValueError(f"{name} is {value!r}; give {least} or more, or None")
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind is {self.kind!r}; there are {', '.join(get_args(Kind))}")
        if self.keep < 1:
            raise ValueError(f"keep is {self.keep!r}; at least one snapshot must be kept")
        if not 0 < self.proving <= 1:
            raise ValueError(f"proving is {self.proving!r}; give a share above 0 and up to 1")


def kept(versions: Sequence[int], newest: int) -> set[int]:
    """Which of an agent's snapshots stay: the newest, and of older ones one for each doubling of the distance.

    Args:
        versions: Of all that there are.
        newest: How many of the newest stay whatever their distance.
    """
    descending = sorted(set(versions), reverse=True)
    stay = set(descending[:newest])
    if not descending:
        return stay
    head, distances = descending[0], set[int]()
    for version in reversed(descending):  # the oldest of a distance: it stays longest
        distance = (head - version).bit_length()
        if distance not in distances:
            distances.add(distance)
            stay.add(version)
    return stay
