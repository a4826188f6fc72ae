"""Removing old months from a log."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Final

from autogen_eventlog.errors import InvalidPoint, RetentionRefused
from autogen_eventlog.log import EventLog
from autogen_eventlog.moments import check_times
from autogen_eventlog.postgres.partitions import DroppedPartition, Ground, Partitions, alone
from autogen_eventlog.retention.archive import Archive
from autogen_eventlog.retention.plan import Part, Planner

OnPart = Callable[[Part], None]
_PLANS: Final = 5
"""How often a month is planned anew whose plan was overtaken."""


class Retention:
    """Removes months that nothing needs any more. A month is a partition of the event table, by the database's clock (UTC).

    A month stays while a recovery needs anything in it: of every agent with events there, a proven snapshot must lie at or
    after the last of them. It stays for a branch or a fork that begins in it, for a message in it that was accepted and not
    delivered, and for the newest state that the state service keeps.

    Args:
        log: An open event log.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._partitions = Partitions(log.reader.pool)

    async def plan(self, before: datetime) -> list[Part]:
        """The months that end at or before a time, oldest first, and what keeps each. Nothing is changed.

        Raises:
            InvalidPoint: The time has no zone, or lies in the future.
            DatabaseUnavailable: The database did not answer within the bound.
        """
        _check_past(before)
        planner = Planner(self._log, self._partitions)
        return [await planner.part(partition) for partition in await self._partitions.before(before)]

    async def drop(
        self, before: datetime, *, archive: Archive | None = None, on_part: OnPart | None = None
    ) -> list[DroppedPartition]:
        """Remove the months of the plan that may go, from the oldest up to the first that may not.

        Each is written to the archive first, planned anew, then removed and recorded (`dropped`) in one transaction, in which
        what the plan stands on is looked at once more. Views and restores to versions before what is kept are refused by name
        (`EventsMissing`). One retention of a log runs at a time.

        Args:
            archive: Takes the events before they are removed. None: they are gone for good.
            on_part: Called before each.

        Raises:
            RetentionRefused: Another retention is under way, events were added meanwhile, a restore or a fork needs the month
                since, somebody uses it, or the role may not; what was removed before stays removed.
            What `plan` raises, and what the archive raises; the month in question stays.
        """
        _check_past(before)
        todo = [*await self._partitions.left_payloads(), *(one.name for one in await self._partitions.before(before))]
        if not todo:
            return []
        async with alone(self._log.dsn, self._log.schema, todo[0]):
            removed = await self._drop_all(before, archive, on_part)
        return [one for one in await self.dropped() if one.name in removed]

    async def dropped(self) -> list[DroppedPartition]:
        """What was removed so far, oldest first.

        Raises:
            DatabaseUnavailable: The database did not answer within the bound.
        """
        return await self._partitions.dropped()

    # -- inside ---------------------------------------------------------------------------------------------------

    async def _drop_all(self, before: datetime, archive: Archive | None, on_part: OnPart | None) -> list[str]:
        removed: list[str] = []
        await self._drop_payloads()  # of a retention that ended before it had
        for partition in await self._partitions.before(before):
            part = await Planner(self._log, self._partitions).part(partition)
            if not part.may_go:
                break
            if on_part is not None:
                on_part(part)
            where: str | None = None
            if archive is not None:
                where = await archive.write(partition, part.sums, self._partitions.events(partition))
            await self._remove(part, where)
            removed.append(partition.name)
            await self._drop_payloads()
        return removed

    async def _drop_payloads(self) -> None:
        for name in await self._partitions.left_payloads():
            await self._partitions.drop_payloads(name)

    async def _remove(self, part: Part, where: str | None) -> None:
        for _ in range(_PLANS):
            if await self._partitions.drop(part.partition, await self._ground(part), where):
                return
        problem = f"agents were restored or forked, or lost snapshots, {_PLANS} times while it was planned"
        raise RetentionRefused(part.partition.name, problem, "Try again when fewer are")

    async def _ground(self, part: Part) -> Ground:
        """Plan a month anew: to archive it has taken its time.

        Raises:
            RetentionRefused: It is not what it was, or something keeps it now.
        """
        name = part.partition.name
        # Counted before the plan, so those that it may have missed count as new.
        branches = await self._partitions.branches(part.partition)
        planner = Planner(self._log, self._partitions)
        now = await planner.part(part.partition)
        if now.sums != part.sums:
            problem = "events were added meanwhile" if now.sums.events else "it was removed meanwhile"
            raise RetentionRefused(name, problem, "Look again: plan anew")
        if not now.may_go:
            kept = now.blocked[0]
            raise RetentionRefused(name, f"it is needed since it was planned: {kept.stream}: {kept.why}", kept.remedy)
        return Ground(now.sums, branches, planner.supports)


def _check_past(before: datetime) -> None:
    check_times(before)
    if before > datetime.now(timezone.utc):
        raise InvalidPoint(before.isoformat(), "it lies in the future", "Give a past time")
