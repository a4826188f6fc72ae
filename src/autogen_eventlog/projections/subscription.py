"""Following the log, for eventsourcing: blocks its thread where the log's own `tail` awaits."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from threading import Event
from typing import TYPE_CHECKING

from eventsourcing.persistence import Subscription

from autogen_eventlog.projections.errors import RecorderUnavailable
from autogen_eventlog.projections.notifications import EventNotification

if TYPE_CHECKING:
    from autogen_eventlog.projections.recorder import EventLogRecorder

_PAGE = 500
_SHORTEST_POLL_SECONDS = 0.01
_LONGEST_POLL_SECONDS = 0.25


class EventLogSubscription(Subscription["EventLogRecorder"]):
    """All notifications after a position, each once, none skipped; then those to come, until stopped.

    An event shows up when every transaction with a lower number has ended, so a late commit is never passed over. It
    polls: at once after a full page, then ever more rarely, up to four times a second. There is no LISTEN, no thread
    and no connection that it holds, and a lost connection is made again within the recorder's bound.

    For one thread; `stop` may be called from any.

    Raises (by `next`):
        RecorderUnavailable: no connection within the recorder's bound. It may be asked again and goes on where it was.
    """

    def __init__(self, recorder: EventLogRecorder, gt: int | None = None, topics: Sequence[str] = ()) -> None:
        super().__init__(recorder=recorder, gt=gt, topics=topics)
        self._stopped = Event()
        self._after = gt or 0
        self._page: deque[EventNotification] = deque()

    def stop(self) -> None:
        """Ends the iteration, also one that waits. Idempotent."""
        super().stop()
        self._stopped.set()

    def __next__(self) -> EventNotification:
        delay = _SHORTEST_POLL_SECONDS
        while not self._stopped.is_set():
            if self._page:
                return self._page.popleft()
            try:
                found = self._read()
            except RecorderUnavailable:
                if self._stopped.is_set():
                    break
                raise
            if not found:
                self._stopped.wait(delay)
                delay = min(2 * delay, _LONGEST_POLL_SECONDS)
        raise StopIteration

    def _read(self) -> bool:
        found, self._after = self._recorder.page(
            after=self._after, topics=self._topics, limit=_PAGE, interrupted=self._stopped
        )
        self._page.extend(found)
        return bool(found)
