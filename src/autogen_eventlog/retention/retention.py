"""Removing old months from a log."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone

from autogen_eventlog.errors import InvalidPoint
from autogen_eventlog.log import EventLog
from autogen_eventlog.postgres.partitions import DroppedPartition, Partitions
from autogen_eventlog.retention.archive import Archive
from autogen_eventlog.retention.plan import Part, Planner

OnPart = Callable[[Part], None]


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
        if before.tzinfo is None:
            raise InvalidPoint(
                before.isoformat(), "it has no time zone", "Give a zone, e.g. datetime.now(timezone.utc)"
            )
        if before > datetime.now(timezone.utc):
            raise InvalidPoint(before.isoformat(), "it lies in the future", "Give a past time")
        planner = Planner(self._log, self._partitions)
        return [await planner.part(partition) for partition in await self._partitions.before(before)]

    async def drop(
        self, before: datetime, *, archive: Archive | None = None, on_part: OnPart | None = None
    ) -> list[DroppedPartition]:
        """Remove the months of the plan that may go, from the oldest up to the first that may not.

        Each is written to the archive first, then removed and recorded (`dropped`) in one transaction. Views and restores to
        versions before what is kept are refused by name (`EventsMissing`).

        Args:
            archive: Takes the events before they are removed. None: they are gone for good.
            on_part: Called before each.

        Raises:
            RetentionRefused: Events were added meanwhile, somebody uses the month, or the role may not; what was removed before
                stays removed.
            What `plan` raises, and what the archive raises; the month in question stays.
        """
        removed: list[str] = []
        for part in await self.plan(before):
            if not part.may_go:
                break
            if on_part is not None:
                on_part(part)
            where: str | None = None
            if archive is not None:
                where = await archive.write(part.partition, part.sums, self._partitions.events(part.partition))
            await self._partitions.drop(part.partition, part.sums, where)
            removed.append(part.partition.name)
        return [one for one in await self.dropped() if one.name in removed]

    async def dropped(self) -> list[DroppedPartition]:
        """What was removed so far, oldest first.

        Raises:
            DatabaseUnavailable: The database did not answer within the bound.
        """
        return await self._partitions.dropped()
