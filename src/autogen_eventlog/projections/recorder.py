"""The event log as an application recorder of the eventsourcing library."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event
from types import TracebackType
from typing import Any
from uuid import UUID

from eventsourcing.persistence import ApplicationRecorder, StoredEvent
from typing_extensions import Self

from autogen_eventlog.postgres.blocking import BlockingPool
from autogen_eventlog.postgres.recorder import LARGEST, Proposed, RecorderStore
from autogen_eventlog.postgres.session import EnsureServer
from autogen_eventlog.projections.errors import NotAnApplicationStream, told_to_both
from autogen_eventlog.projections.notifications import EventNotification, notification, topic_of
from autogen_eventlog.projections.originators import is_application, stream_of
from autogen_eventlog.projections.subscription import EventLogSubscription

_OWN_EVENTS_SETTLE_SECONDS = 5.0


class EventLogRecorder(ApplicationRecorder):
    """Reads every event of the log as notifications, and appends events of an application's own.

    Synchronous, like the library: call it from threads, any number of them, not where an event loop runs. It opens
    connections of its own, when it needs them; close it, or use it in a `with`.

    Raises (everywhere):
        RecorderUnavailable: no answer within `unavailable_after` seconds. Also an OperationalError of eventsourcing's.
        SchemaError: the schema isn't there, or is closed to this role: open the log once with `EventLog.open`.
        LogClosed: the recorder is closed.
        BlockingCall: called where an event loop runs.
    """

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "eventlog",
        max_connections: int = 8,
        unavailable_after: float = 30.0,
        ensure_server: EnsureServer | None = None,
    ) -> None:
        """Args:
        dsn: the log's database, as in `EventLog.open`; `log.dsn` of an open one.
        unavailable_after: seconds to wait for a database that does not answer before failing.
        ensure_server: called before each new attempt, to start an embedded server again.
        """
        pool = BlockingPool(
            dsn,
            schema,
            max_size=max_connections,
            unavailable_after=unavailable_after,
            ensure_server=ensure_server,
        )
        self._store = RecorderStore(pool)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections. Idempotent."""
        self._store.close()

    # -- notifications --------------------------------------------------------------------------------------------

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[EventNotification]:
        """Settled events in global order, from position `start` to `stop`, both included; see `EventNotification`.

        Settled: every transaction with a lower number has ended, so what is returned is final, and a reader that goes
        on behind the last one skips nothing. Positions have gaps.
        """
        after = (start or 0) - (1 if inclusive_of_start and start is not None else 0)
        until = LARGEST if stop is None else stop
        with told_to_both():
            page = self._store.page(after=after, until=until, topics=topics, limit=limit)
        return [*map(notification, page.events)]

    def max_notification_id(self, topics: Sequence[str] = ()) -> int | None:
        """The position of the last settled event, of the given topics or of all; None: there is none."""
        with told_to_both():
            return self._store.last_position(topics)

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> EventLogSubscription:
        """Notifications with positions greater than `gt`, for ever; see `EventLogSubscription`."""
        return EventLogSubscription(self, gt=gt, topics=topics)

    def page(
        self, *, after: int, topics: Sequence[str], limit: int, interrupted: Event
    ) -> tuple[list[EventNotification], int]:
        """What a subscription reads: notifications after a position, and up to which position it has then read all."""
        with told_to_both():
            page = self._store.page(after=after, topics=topics, limit=limit, interrupted=interrupted)
        return [*map(notification, page.events)], page.looked_until

    def settle(self, timeout: float) -> bool:
        """Waits until all that was committed at the call is settled; False: a transaction under way still hides some."""
        with told_to_both():
            return self._store.settle(timeout)

    # -- originators ----------------------------------------------------------------------------------------------

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """One originator's events by version; an agent's are those of all branches, settled or not."""
        stream = stream_of(originator_id)
        with told_to_both():
            rows = self._store.events(stream, gt=gt, lte=lte, desc=desc, limit=limit)
        return [
            StoredEvent(originator_id, version, topic_of(stream, type, message_type), payload or b"")
            for version, type, message_type, payload in rows
        ]

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """Appends events of an application's own originators, all or none; returns their positions.

        It returns when they can be selected as notifications, or, while a transaction of somebody else hides them,
        after five seconds.

        Raises:
            OriginatorConflict: the events do not follow the originator's last one without a gap. Also an
                IntegrityError of eventsourcing's. (A lost acknowledgement is looked up, and never becomes a conflict.)
            NotAnApplicationStream: the originator is an agent or a runtime.
            EventNotStorable: the database can't store it, for instance U+0000 in a topic.
        """
        if not stored_events:
            return None
        proposed = [_proposed(event) for event in stored_events]
        with told_to_both():
            positions = self._store.insert(proposed)
            self._store.settle(_OWN_EVENTS_SETTLE_SECONDS, position=positions[-1])
        return positions


def _proposed(event: StoredEvent) -> Proposed:
    stream = stream_of(event.originator_id)
    if not is_application(stream):
        raise NotAnApplicationStream(stream)
    return Proposed(stream, event.originator_version, event.topic, event.state)
