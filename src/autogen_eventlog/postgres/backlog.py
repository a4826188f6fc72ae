"""The pending appends of a writer, in the order of submission. No I/O, no event loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from autogen_eventlog.errors import EventLogError
from autogen_eventlog.postgres.ticket import Ticket

Chain = tuple[str, int]
"""Stream and epoch: what is refused together, because nothing may follow a hole."""


class Backlog:
    """Bounded by its user: it counts, and the writer lets callers wait (`Writer.room`)."""

    __slots__ = ("_queue", "events", "size")

    def __init__(self) -> None:
        self._queue: deque[Ticket] = deque()
        self.events = 0
        self.size = 0

    def __len__(self) -> int:
        return len(self._queue)

    def tickets(self) -> list[Ticket]:
        """What is pending, oldest first."""
        return list(self._queue)

    def add(self, ticket: Ticket) -> None:
        """Appends at the end."""
        self._queue.append(ticket)
        self.events += ticket.events
        self.size += ticket.size

    def take(self, max_events: int, max_bytes: int) -> list[Ticket]:
        """Removes and returns the next batch: at least one ticket if there is any, else up to the bounds.

        Within a batch each stream has one epoch and its tickets chain (each expects the version the one before
        leaves), which is what `append` can check as one. The first ticket that doesn't ends the batch.
        """
        batch: list[Ticket] = []
        heads: dict[str, Ticket] = {}
        queue = self._queue
        events = size = 0
        while queue:
            ticket = queue[0]
            before = heads.get(ticket.stream)
            if before is not None and (before.epoch != ticket.epoch or before.version != ticket.expected_version):
                break
            events += ticket.events
            size += ticket.size
            if batch and (events > max_events or size > max_bytes):
                events -= ticket.events
                size -= ticket.size
                break
            heads[ticket.stream] = queue.popleft()
            ticket.taken = True
            batch.append(ticket)
        self.events -= events
        self.size -= size
        return batch

    def refuse(self, reasons: Mapping[Chain, EventLogError]) -> None:
        """Fails every pending ticket of the chains with the reason of its chain; keeps the others in order."""
        kept: deque[Ticket] = deque()
        for ticket in self._queue:
            reason = reasons.get((ticket.stream, ticket.epoch))
            if reason is None:
                kept.append(ticket)
                continue
            self.events -= ticket.events
            self.size -= ticket.size
            ticket.fail(reason)
        self._queue = kept

    def fail(self, error: EventLogError) -> None:
        """Fails everything that is pending."""
        failed, self._queue = self._queue, deque()
        self.events = self.size = 0
        for ticket in failed:
            ticket.fail(error)
