"""Gets one batch into the log, whatever happens to the connection meanwhile.

The outcome of a statement whose connection died is unknown: it may have committed, may never have arrived, and may
still commit while we look. So nothing is sent again before the batch was looked up by its event ids, and a refusal
after a doubt is believed only when the ids aren't there: the row of the stream lets exactly one of the two copies
through, and finding one's own events is success, never a conflict (`append.sql` locks that row first).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import psycopg

from autogen_eventlog.errors import AppendFailed, EventLogError, StreamFenced, VersionConflict
from autogen_eventlog.postgres.backlog import Chain
from autogen_eventlog.postgres.link import Answer, Link, StreamAnswer
from autogen_eventlog.postgres.session import EnsureServer, Patience, is_transient, schema_error
from autogen_eventlog.postgres.ticket import Ticket

_MAINTAIN_EVERY = 3600.0
"""Seconds between two looks for next month's partition."""

_MANY = 128
"""Appends of one batch that are not all told at once."""

Refusals = dict[Chain, EventLogError]


@dataclass
class Counts:
    """What has happened since open."""

    commits: int = 0
    events: int = 0
    refused_appends: int = 0
    reconnects: int = 0
    unknown_outcomes: int = 0
    unknown_outcomes_committed: int = 0


class Committer:
    """Owns the connection. Settles every ticket of a batch, or raises for all of them."""

    def __init__(
        self, conninfo: str, schema: str, *, unavailable_after: float, ensure_server: EnsureServer | None
    ) -> None:
        self._conninfo = conninfo
        self._schema = schema
        self._unavailable_after = unavailable_after
        self._ensure_server = ensure_server
        self._link: Link | None = None
        self._maintain_at = 0.0
        self.counts = Counts()

    async def open(self) -> None:
        """Connects.

        Raises:
            DatabaseUnavailable: no connection within the bound.
            SchemaError: the schema isn't there or is closed to this role.
        """
        patience = self._patience()
        while self._link is None:
            try:
                await self._connected()
            except (psycopg.Error, OSError) as error:
                failure = schema_error(error, self._schema)
                if failure is not None:
                    raise failure from error
                await self._recover(error, patience)

    async def close(self) -> None:
        """Drops the connection."""
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def commit(self, batch: Sequence[Ticket]) -> Refusals:
        """Commits the tickets, in order; returns the chains that were refused, whose tickets have failed.

        Raises:
            DatabaseUnavailable: no answer within the bound; what became of the tickets not yet settled is unknown.
            SchemaError: the schema is gone.
        """
        patience = self._patience()
        refusals: Refusals = {}
        parts = [list(batch)]
        while parts:
            part = _without_refused(parts.pop(0), refusals)
            try:
                refusals.update(await self._commit_part(part, patience))
            except psycopg.Error as error:
                # The database can't take something in this part; halving finds the append that it is.
                schema_failure = schema_error(error, self._schema)
                if schema_failure is not None:
                    raise schema_failure from error
                if len(part) > 1:
                    parts[:0] = [part[: len(part) // 2], part[len(part) // 2 :]]
                else:
                    self._refuse(part[0], AppendFailed(part[0].stream, error.sqlstate or "", str(error)), refusals)
        return refusals

    async def _commit_part(self, part: Sequence[Ticket], patience: Patience) -> Refusals:
        tickets = list(part)
        doubtful = False
        while tickets:
            sent = False
            try:
                link = await self._connected()
                if doubtful:
                    tickets = self._keep_missing(tickets, await link.find(tickets))
                    if not tickets:
                        break
                sent = True
                answer = await link.append(tickets, max(0.1, patience.remaining()))
                # Ours may be what it conflicts with: the lost copy can have committed since we looked.
                found = await link.find(tickets) if doubtful and answer.refused else {}
            except (psycopg.Error, OSError) as error:
                if sent and is_transient(error):
                    self.counts.unknown_outcomes += not doubtful
                    doubtful = True
                await self._recover(error, patience)
                continue
            return self._settle(tickets, answer, found)
        return {}

    def _settle(self, tickets: list[Ticket], answer: Answer, found: Mapping[int, tuple[int, datetime]]) -> Refusals:
        refusals: Refusals = {}
        streams = {(said.stream, said.epoch): said for said in answer.streams}
        position = answer.position
        counts = self.counts
        counts.commits += 1
        accepted: list[Ticket] = []
        for index, ticket in enumerate(tickets):
            position += ticket.events
            said = streams.get((ticket.stream, ticket.epoch)) if streams else None
            if said is None or said.accepted:
                counts.events += ticket.events
                ticket.commit(position, (said and said.recorded_at) or answer.recorded_at)
                accepted.append(ticket)
            elif index in found:
                self._keep_missing([ticket], {0: found[index]})
            else:
                self._refuse(ticket, _reason(said, ticket), refusals)
        _wake(accepted)
        return refusals

    def _keep_missing(self, tickets: list[Ticket], found: Mapping[int, tuple[int, datetime]]) -> list[Ticket]:
        for index, (position, recorded_at) in found.items():
            self.counts.unknown_outcomes_committed += 1
            self.counts.events += tickets[index].events
            tickets[index].commit(position, recorded_at)
            tickets[index].wake()
        return [ticket for index, ticket in enumerate(tickets) if index not in found]

    def _refuse(self, ticket: Ticket, reason: EventLogError, refusals: Refusals) -> None:
        self.counts.refused_appends += 1
        ticket.fail(refusals.setdefault((ticket.stream, ticket.epoch), reason))

    async def _connected(self) -> Link:
        loop = asyncio.get_running_loop()
        if self._link is None:
            self._link = await Link.open(self._conninfo, self._schema)
            self._maintain_at = loop.time() + _MAINTAIN_EVERY
        elif loop.time() >= self._maintain_at:
            self._maintain_at = loop.time() + _MAINTAIN_EVERY
            await self._link.maintain()
        return self._link

    async def _recover(self, error: BaseException, patience: Patience) -> None:
        """Drops the connection and waits before the next attempt; raises what no attempt can mend."""
        if not is_transient(error):
            raise error
        if self._link is not None:
            self.counts.reconnects += 1
            await self.close()
        await patience.pause(error)

    def _patience(self) -> Patience:
        return Patience(self._conninfo, self._unavailable_after, self._ensure_server)


def _wake(tickets: list[Ticket]) -> None:
    """Resumes who waits; of many, the second half a turn later: what the first submit is committed meanwhile."""
    at_once = len(tickets) // 2 if len(tickets) >= _MANY else len(tickets)
    for ticket in tickets[:at_once]:
        ticket.wake()
    if at_once < len(tickets):
        asyncio.get_running_loop().call_soon(lambda: [ticket.wake() for ticket in tickets[at_once:]])


def _without_refused(part: list[Ticket], refusals: Refusals) -> list[Ticket]:
    kept: list[Ticket] = []
    for ticket in part:
        reason = refusals.get((ticket.stream, ticket.epoch)) if refusals else None
        if reason is None:
            kept.append(ticket)
        else:
            ticket.fail(reason)
    return kept


def _reason(said: StreamAnswer, ticket: Ticket) -> EventLogError:
    if said.found_epoch != said.epoch:
        return StreamFenced(said.stream, said.epoch, said.found_epoch)
    return VersionConflict(said.stream, ticket.expected_version, said.found_version)
