"""The end of one stream that this process owns."""

from __future__ import annotations

from collections import deque

from autogen_eventlog.events import EventData
from autogen_eventlog.postgres.records import Claim
from autogen_eventlog.postgres.ticket import Ticket
from autogen_eventlog.postgres.writer import Writer
from autogen_eventlog.replay.journal import OUTPUTS


class StreamAppender:
    """Appends events one behind the other, under the epoch of a claim."""

    def __init__(self, writer: Writer, claim: Claim) -> None:
        self._writer = writer
        self.stream = claim.stream
        self.epoch = claim.epoch
        self.version = claim.version
        self._last: Ticket | None = None
        self._unsettled: deque[tuple[Ticket, EventData]] = deque()

    @property
    def refused(self) -> bool:
        """Whether the log refused something, so that nothing more can be appended through this claim."""
        return self._last is not None and self._last.error is not None

    def append(self, event: EventData) -> Ticket:
        """Queue the next event; the ticket is done when it is durable."""
        ticket = self._writer.submit(self.stream, self.epoch, self.version, (event,))
        if event.type in OUTPUTS:
            ticket.hurry()  # what it lets out, an answer or a message, is held back until it is durable
        self.version += 1
        self._last = ticket
        unsettled = self._unsettled
        unsettled.append((ticket, event))
        while unsettled[0][0].committed:
            unsettled.popleft()
        return ticket

    def take_refused(self) -> list[tuple[int, EventData]]:
        """Version and event of everything that the log did not take; each is given once."""
        refused = [(ticket.version, event) for ticket, event in self._unsettled if not ticket.committed]
        self._unsettled.clear()
        return refused
