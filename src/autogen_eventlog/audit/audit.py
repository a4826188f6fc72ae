"""Questions to the log, asked through a pool of connections for reading."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from autogen_core import AgentId, TopicId

from autogen_eventlog.audit.differences import Difference, compare
from autogen_eventlog.audit.filters import EVERYWHERE, LARGEST, BranchChoice, Filter, check_limit
from autogen_eventlog.audit.records import (
    Activity,
    EffectRecord,
    Holding,
    MessageRecord,
    Statistics,
    effect_record,
    message_record,
)
from autogen_eventlog.codec import Codec
from autogen_eventlog.events import Outcome, RecordedEvent
from autogen_eventlog.ids import FIRST_AGENT
from autogen_eventlog.moments import check_times
from autogen_eventlog.postgres.pool import Pool
from autogen_eventlog.postgres.records import WorkerRecord, recorded_event

_PAGE = 1000


class Audit:
    """Reads; owns nothing, registers nothing, needs no class of the program that wrote the log.

    Every method is one statement, up to three where an agent or a span of time is given. Pages go on past a cursor:
    give the `position` of the last record as `after`. Quick whatever the size of the log: one agent, a span of time, a
    conversation, a cause. Other filters read on until the page is full.

    Raises (everywhere):
        InvalidPoint: A time without a zone.
        ValueError: An outcome, branch or limit that there is none of.
        DatabaseUnavailable, SchemaError, LogClosed: As `Pool.fetch`.
    """

    def __init__(self, pool: Pool, codec: Codec) -> None:
        self._pool = pool
        self._codec = codec

    # -- messages -------------------------------------------------------------------------------------------------

    async def messages(
        self,
        *,
        agent: AgentId | str | None = None,
        agent_type: str | None = None,
        type: type | str | None = None,
        sender: AgentId | str | None = None,
        topic: TopicId | str | None = None,
        message_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        outcome: Outcome | str | None = None,
        correlation: UUID | None = None,
        cause: UUID | None = None,
        branch: BranchChoice = "all",
        newest_first: bool = True,
        after: int | None = None,
        limit: int = 100,
    ) -> list[MessageRecord]:
        """A page of deliveries and dropped messages, with how each ended.

        Args:
            agent: The recipient.
            agent_type: The recipient's type.
            type: The message's class, its full `module:qualname`, or its short name (of any module).
            since: Recorded at or after.
            until: Recorded before.
            outcome: How it ended: replied, raised, cancelled, dropped; or `"running"`: it has not.
            cause: Id of the event that led to the delivery.
            branch: `"current"` leaves out what a restore has left behind.
            after: Cursor: the position of the last record of the page before.
        """
        asked = Filter(
            agent=agent,
            agent_type=agent_type,
            type=type,
            sender=sender,
            topic=topic,
            message_id=message_id,
            since=since,
            until=until,
            outcome=outcome,
            correlation=correlation,
            cause=cause,
            branch=branch,
            newest_first=newest_first,
            after=after,
            limit=limit,
        )
        return await self._messages(asked)

    async def iterate(
        self,
        *,
        agent: AgentId | str | None = None,
        agent_type: str | None = None,
        type: type | str | None = None,
        sender: AgentId | str | None = None,
        topic: TopicId | str | None = None,
        message_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        outcome: Outcome | str | None = None,
        correlation: UUID | None = None,
        cause: UUID | None = None,
        branch: BranchChoice = "all",
        newest_first: bool = True,
        after: int | None = None,
        page: int = 500,
    ) -> AsyncIterator[MessageRecord]:
        """Every record that `messages` would page through; holds one page in memory and no connection between pages."""
        asked = Filter(
            agent=agent,
            agent_type=agent_type,
            type=type,
            sender=sender,
            topic=topic,
            message_id=message_id,
            since=since,
            until=until,
            outcome=outcome,
            correlation=correlation,
            cause=cause,
            branch=branch,
            newest_first=newest_first,
            after=after,
            limit=page,
        )
        while True:
            records = await self._messages(asked)
            for record in records:
                yield record
            if len(records) < page:
                return
            asked = replace(asked, after=records[-1].position)

    async def in_flight(
        self,
        agent: AgentId | str | None = None,
        *,
        since: datetime | None = None,
        after: int | None = None,
        limit: int = _PAGE,
    ) -> list[MessageRecord]:
        """Deliveries that were started and have no outcome, oldest first; abandoned branches left out.

        Without `agent` it reads every delivery of the log, or every one recorded at or after `since`.
        """
        check_times(since, None)
        check_limit(limit)
        stream = None if agent is None else str(agent)
        parameters = {"stream": stream, "since": since, "after": after or 0, "limit": limit}
        parameters |= await self._positions(since, None)
        rows = await self._pool.fetch("audit_in_flight", parameters, prepare=False)
        return [message_record(row, self._codec) for row in rows]

    async def undelivered(
        self,
        *,
        recipient: AgentId | str | None = None,
        sender: AgentId | str | None = None,
        topic: TopicId | str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        correlation: UUID | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> list[RecordedEvent]:
        """A page of messages that have not reached everybody they were for, oldest first; abandoned branches left out.

        They are MessageSent, MessagePublished and MessageSubmitted events which no drop and fewer deliveries name as
        their cause than the topic had subscribers (`metadata["fan_out"]`); of a message to one agent, none. A call
        that was answered all the same (the recipient could not be had) is settled and not among them. A publication to a
        topic without subscribers is; and so is everything that was submitted on AutoGen's own runtime, where the log sees
        no deliveries.
        """
        check_times(since, until)
        check_limit(limit)
        parameters: dict[str, Any] = {
            "recipient": None if recipient is None else str(recipient),
            "sender": None if sender is None else str(sender),
            "topic": None if topic is None else str(topic),
            "since": since,
            "until": until,
            "correlation": correlation,
            "after": after or 0,
            "limit": limit,
        }
        return await self._events("audit_undelivered", parameters | await self._positions(since, until))

    async def refused_writes(
        self, *, agent: AgentId | str | None = None, after: int | None = None, limit: int = 100
    ) -> list[RecordedEvent]:
        """A page of WritesRefused events, oldest first: what instances that had lost their agent tried to record (G6).

        Nothing of it happened as far as the agent is concerned, and none of its outputs left. `log.message(event)` gives what
        would have been the events.
        """
        check_limit(limit)
        parameters = {"agent": None if agent is None else str(agent), "after": after or 0, "limit": limit}
        return await self._events("audit_refused", parameters)

    # -- what led to what -----------------------------------------------------------------------------------------

    async def conversation(self, correlation: UUID) -> list[RecordedEvent]:
        """Every event of one conversation, over all streams, in global order, abandoned branches included."""
        events: list[RecordedEvent] = []
        while True:
            after = events[-1].position if events else 0
            parameters = {"correlation": correlation, "after": after, "limit": _PAGE}
            page = await self._events("audit_conversation", parameters)
            events += page
            if len(page) < _PAGE:
                return events

    async def differences(self, first: UUID, second: UUID) -> list[Difference]:
        """Where two conversations, by their correlations, went different ways; empty: the same happened in both.

        Ids, times, positions and agents' keys are not compared; who did what is, in which order, and what was said. For
        stretches of agents' streams, give their events to `compare`.

        Raises:
            ValueError: One of them has more than 20,000 events.
        """
        return compare(await self.conversation(first), await self.conversation(second))

    async def causes(self, event_id: UUID, *, limit: int = 1000) -> list[RecordedEvent]:
        """The event, behind all that led to it: the root first. Empty if the log holds no such event.

        Where there are more than `limit`, the nearest ones; the first then still names a cause.
        """
        check_limit(limit)
        return await self._events("audit_causes", {"event": event_id, "limit": limit})

    async def effects(self, event_id: UUID, *, depth: int = 100, limit: int = 1000) -> list[RecordedEvent]:
        """What an event led to, directly and through others, in global order; the nearest where there are more.

        Args:
            depth: At most this many steps from cause to effect.
        """
        check_limit(limit)
        return await self._events("audit_effects", {"event": event_id, "depth": depth, "limit": limit})

    async def recorded_effects(
        self,
        *,
        agent: AgentId | str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> list[EffectRecord]:
        """A page of what agents asked of models, tools and the runtime, with the results, oldest first.

        Args:
            kind: What was asked, exactly.
        """
        events = await self._of_effects("audit_recorded_effects", agent, kind, since, until, after, limit)
        causes = list({event.cause for event in events if event.cause is not None})
        found = await self._events("audit_requests", {"ids": causes}) if causes else []
        requests: dict[UUID | None, RecordedEvent] = {request.id: request for request in found}
        return [effect_record(event, requests.get(event.cause), self._codec) for event in events]

    async def unanswered_effects(
        self,
        *,
        agent: AgentId | str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> list[RecordedEvent]:
        """A page of EffectRequested events whose result the log does not hold, oldest first, abandoned branches included.

        They are under way, the agent has given them up (a time-out), or the process that asked died: what became of them
        outside is unknown. Of a stream, the result is its end. `metadata["kind"]` says what was asked, the payload how.

        Args:
            kind: What was asked, exactly.
        """
        return await self._of_effects("audit_unanswered_effects", agent, kind, since, until, after, limit)

    async def _of_effects(
        self,
        query: str,
        agent: AgentId | str | None,
        kind: str | None,
        since: datetime | None,
        until: datetime | None,
        after: int | None,
        limit: int,
    ) -> list[RecordedEvent]:
        check_times(since, until)
        check_limit(limit)
        parameters: dict[str, Any] = {"kind": kind, "since": since, "until": until, "after": after or 0, "limit": limit}
        parameters |= {"stream": None, "after_version": 0, "until_version": LARGEST}
        if agent is None:
            parameters |= await self._positions(since, until)
        else:
            parameters |= EVERYWHERE | await self._versions(str(agent), since, until, after, newest_first=False)
        return await self._events(query, parameters)

    # -- sums -----------------------------------------------------------------------------------------------------

    async def activity(
        self, since: datetime, until: datetime, *, by: Literal["agent", "type"] = "agent"
    ) -> list[Activity]:
        """How many messages each agent was given in a span of time (or of each type there were), and how they ended.

        Ordered by number, the most first. Abandoned branches included: it happened.
        """
        check_times(since, until)
        if by not in ("agent", "type"):
            raise ValueError(f"by {by!r}: give 'agent' or 'type'")
        parameters = {"since": since, "until": until, "by_agent": by == "agent"}
        rows = await self._pool.fetch("audit_activity", parameters, prepare=False)
        return [
            Activity(
                name=name,
                deliveries=deliveries,
                replied=replied,
                raised=raised,
                cancelled=cancelled,
                running=running,
                first_at=first_at,
                last_at=last_at,
            )
            for name, deliveries, replied, raised, cancelled, running, first_at, last_at in rows
        ]

    async def statistics(self) -> Statistics:
        """The log as a whole: how many agents and events, since when, how large."""
        agents, events, first_at, last_at, last_position, alive, size = (await self._pool.fetch("audit_statistics"))[0]
        return Statistics(
            agents=agents,
            events=events,
            first_at=first_at,
            last_at=last_at,
            last_position=last_position,
            workers_alive=alive,
            bytes=size,
        )

    async def workers(self) -> list[WorkerRecord]:
        """The processes that opened the log for writing, oldest first, without becoming one."""
        return [WorkerRecord(*row) for row in await self._pool.fetch("workers")]

    async def holdings(self) -> list[Holding]:
        """The processes that opened the log for writing, oldest first, and which agents each owns, how many of a type."""
        rows = await self._pool.fetch("audit_holdings", {"first": FIRST_AGENT})
        return [
            Holding(worker=WorkerRecord(*row[:8]), lag=lag, agents=dict(sorted(agents.items())), epoch=epoch)
            for *row, lag, agents, epoch in rows
        ]

    # -- inside ---------------------------------------------------------------------------------------------------

    async def _messages(self, asked: Filter) -> list[MessageRecord]:
        if asked.contradictory:
            return []
        order = "newest" if asked.newest_first else "oldest"
        parameters = asked.parameters()
        if asked.stream is None:
            parameters |= await self._positions(asked.since, asked.until)
            rows = await self._pool.fetch(f"audit_messages_{order}", parameters, prepare=False)
            return [message_record(row, self._codec) for row in rows]
        return await self._messages_to(asked.stream, asked, parameters, f"audit_stream_messages_{order}")

    async def _messages_to(
        self, stream: str, asked: Filter, parameters: dict[str, Any], name: str
    ) -> list[MessageRecord]:
        """Deliveries stand in the agent's stream, dropped messages in runtimes' streams: two pages made one."""
        rows: list[tuple[Any, ...]] = []
        if parameters["outcome"] != Outcome.DROPPED.value:
            versions = await self._versions(
                stream, asked.since, asked.until, asked.after, newest_first=asked.newest_first
            )
            rows += await self._pool.fetch(name, parameters | versions, prepare=False)
        if parameters["outcome"] in (None, Outcome.DROPPED.value):
            rows += await self._pool.fetch("audit_dropped", parameters, prepare=False)
        records = [message_record(row, self._codec) for row in rows]
        records.sort(key=lambda record: record.position, reverse=asked.newest_first)
        return records[: asked.limit]

    async def _versions(
        self, stream: str, since: datetime | None, until: datetime | None, cursor: int | None, *, newest_first: bool
    ) -> dict[str, Any]:
        """Bounds in time and position as bounds in version: after_version < version <= until_version."""
        rows = await self._pool.fetch(
            "version_bounds",
            {"stream": stream, "since": since, "until": until, "cursor": cursor, "newest_first": newest_first},
            prepare=False,
        )
        return {"stream": stream, "after_version": rows[0][0], "until_version": rows[0][1]}

    async def _positions(self, since: datetime | None, until: datetime | None) -> dict[str, int]:
        """Bounds in time as bounds in position: from_position <= position <= to_position."""
        if since is None and until is None:
            return EVERYWHERE
        rows = await self._pool.fetch("audit_position_bounds", {"since": since, "until": until}, prepare=False)
        return {"from_position": rows[0][0], "to_position": rows[0][1]}

    async def _events(self, name: str, parameters: dict[str, Any]) -> list[RecordedEvent]:
        return [recorded_event(row) for row in await self._pool.fetch(name, parameters, prepare=False)]
