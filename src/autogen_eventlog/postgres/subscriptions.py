"""Whom publications are for, across workers and their deaths (sql/tables/subscription.sql)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from autogen_eventlog.events import RecordedEvent
from autogen_eventlog.postgres.pool import Pool
from autogen_eventlog.postgres.records import recorded_event


@dataclass(frozen=True, slots=True)
class StoredSubscription:
    """An agent type is subscribed to a topic type, or to all whose names begin so."""

    agent_type: str
    topic_type: str
    prefix: bool
    created_at: datetime


class Subscriptions:
    """Subscriptions in the database; uses a reader's pool. Raises what `Pool.fetch` raises."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def add(self, agent_type: str, topic_type: str, *, prefix: bool) -> None:
        """From now on; nothing changes if it is so already."""
        await self._pool.fetch("subscribe", {"agent_type": agent_type, "topic_type": topic_type, "prefix": prefix})

    async def remove(self, agent_type: str, topic_type: str, *, prefix: bool) -> None:
        """No more."""
        await self._pool.fetch("unsubscribe", {"agent_type": agent_type, "topic_type": topic_type, "prefix": prefix})

    async def begin_anew(self, agent_type: str) -> None:
        """A worker has registered the type: subscriptions that are not added again end after a while."""
        await self._pool.fetch("subscribe_anew", {"agent_type": agent_type})

    async def all(self, *, grace: float) -> list[StoredSubscription]:
        """Those that count, the ones that were not added again for less than `grace` seconds included."""
        return [StoredSubscription(*row) for row in await self._pool.fetch("subscriptions", {"grace": grace})]

    async def publications(self, *, since: datetime, after: int = 0, limit: int = 500) -> list[RecordedEvent]:
        """A page of what was published since a zone-aware time, oldest first; `after` is the last position before."""
        rows = await self._pool.fetch("publications", {"since": since, "after": after, "limit": limit})
        return [recorded_event(row) for row in rows]

    async def left_in_flight(self, agent_type: str) -> list[str]:
        """Agents of a type that a worker which is gone left in the middle of a handler."""
        rows = await self._pool.fetch("left_in_flight", {"first": f"{agent_type}/", "last": f"{agent_type}0"})
        return [row[0] for row in rows]
