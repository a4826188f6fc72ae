"""What may leave the log, and what keeps the rest: nothing that a recovery, a branch or an undelivered message needs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from autogen_eventlog.ids import FIRST_AGENT, RUNTIME_STREAM_PREFIX, STATE_STREAM_PREFIX
from autogen_eventlog.lineage import Segment, lineage
from autogen_eventlog.log import EventLog
from autogen_eventlog.postgres.partitions import HeldStream, Partition, Partitions, Sums, Support

NAMED: Final = 100
"""Streams that are named of a month."""

_LARGEST: Final = 2**63 - 1
_SNAPSHOT: Final = "Take a snapshot of it now: eventlog snapshot, or runtime.snapshot(agent)"


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why a month stays."""

    stream: str
    version: int
    """The last version of the stream in that month."""
    why: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Part:
    """A month of events that is old enough."""

    partition: Partition
    sums: Sums
    blocked: tuple[Blocked, ...]
    """What keeps it, up to a bound; empty: it may go."""
    blocked_streams: int
    """How many streams keep it."""

    @property
    def may_go(self) -> bool:
        """Whether nothing keeps it."""
        return not self.blocked_streams


class Planner:
    """Looks at one month after the other."""

    def __init__(self, log: EventLog, partitions: Partitions) -> None:
        self._log = log
        self._partitions = partitions
        self._needed: defaultdict[str, list[Segment]] | None = None
        self._supports: list[Support] = []
        self._supports_of_branches: list[Support] = []

    @property
    def supports(self) -> tuple[Support, ...]:
        """The snapshots without which the month that was looked at last would not be free: one entry a stream of it."""
        return (*self._supports, *self._supports_of_branches)

    async def part(self, partition: Partition) -> Part:
        """What lies in a month, and what keeps it."""
        self._supports = []
        blocked: list[Blocked] = []
        count = 0
        async for held in self._partitions.streams(partition):
            why = await self._why(held)
            if why is not None:
                count += 1
                if len(blocked) < NAMED:
                    blocked.append(Blocked(held.stream, held.last, *why))
        return Part(partition, await self._partitions.sums(partition), tuple(blocked), count)

    # -- inside ---------------------------------------------------------------------------------------------------

    async def _why(self, held: HeldStream) -> tuple[str, str] | None:
        if held.waiting is not None:
            why = f"a message that was accepted (version {held.waiting}) is not delivered"
            return why, "Deliver it: runtime.redeliver()"
        if held.stream.startswith(RUNTIME_STREAM_PREFIX):
            return None
        if held.stream.startswith(STATE_STREAM_PREFIX):
            head = await self._log.head(held.stream)
            newest = head is not None and head.version == held.last
            return ("the newest state that the state service keeps of it is here", "Save it again") if newest else None
        if held.stream < FIRST_AGENT:
            return ("it is an application's own, which the log knows no snapshots of", "Leave this month")
        return await self._of_agent(held)

    async def _of_agent(self, held: HeldStream) -> tuple[str, str] | None:
        needed = await self._segments()
        if held.stream in needed:
            for segment in needed[held.stream]:
                if segment.after_version < held.last and held.first <= segment.until_version:
                    return (
                        f"a branch needs its versions {segment.after_version + 1} to {segment.until_version}: no proven "
                        "snapshot lies behind them",
                        _SNAPSHOT,
                    )
            return None
        if held.snapshot is None:
            return (f"no snapshot at or after version {held.last} is proven", _SNAPSHOT)
        self._supports.append(Support(held.stream, held.last, _LARGEST))
        return None

    async def _segments(self) -> defaultdict[str, list[Segment]]:
        """What streams with branches need, of their own events and of others'."""
        if self._needed is None:
            self._needed = defaultdict(list)
            for stream in await self._partitions.branched_streams():
                for segment in await self._behind_snapshot(stream):
                    self._needed[segment.stream].append(segment)
                self._needed.setdefault(stream, [])
            for stream in list(self._needed):  # a stream that others began with, and that has no branch itself
                for segment in await self._behind_snapshot(stream):
                    self._needed[segment.stream].append(segment)
        return self._needed

    async def _behind_snapshot(self, stream: str) -> tuple[Segment, ...]:
        """What recovering a stream replays."""
        head = await self._log.head(stream)
        if head is None or head.version == 0:
            return ()
        past = await lineage(self._log.reader, stream, head.version)
        for snapshot in await self._log.snapshots.list_snapshots(stream):
            if snapshot.status == "proven" and past.holds(stream, snapshot.version):
                self._supports_of_branches.append(Support(stream, snapshot.version, snapshot.version))
                return past.after(stream, snapshot.version)
        return past.segments
