"""The end of one stream that this process owns."""

from __future__ import annotations

from autogen_eventlog.events import EventData
from autogen_eventlog.postgres.records import Claim
from autogen_eventlog.postgres.ticket import Ticket
from autogen_eventlog.postgres.writer import Writer


class StreamAppender:
    """Appends events one behind the other, under the epoch of a claim."""

    def __init__(self, writer: Writer, claim: Claim) -> None:
        self._writer = writer
        self.stream = claim.stream
        self.epoch = claim.epoch
        self.version = claim.version
        self._last: Ticket | None = None

    @property
    def refused(self) -> bool:
        """Whether the log refused something, so that nothing more can be appended through this claim."""
        return self._last is not None and self._last.error is not None

    def append(self, event: EventData) -> Ticket:
        """Queue the next event; the ticket is done when it is durable."""
        ticket = self._writer.submit(self.stream, self.epoch, self.version, (event,))
        self.version += 1
        self._last = ticket
        return ticket
