"""eventsourcing's own reusable recorder tests, on a recorder of the log.

What is adapted, and why: positions are not 1, 2, 3 (they have gaps, see docs/decisions/0008), so one test sees them
counted by `Counted`; and the aggregate tests want a recorder that answers an insert with None.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

import pytest
from eventsourcing.persistence import Notification, StoredEvent
from eventsourcing.tests import persistence as library

from autogen_eventlog.projections import EventLogRecorder


class Counted(EventLogRecorder):
    """Says 1, 2, 3 for the positions of what was inserted through it."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self._positions: list[int] = []

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        positions = super().insert_events(stored_events, **kwargs)
        if positions is None:
            return None
        assert all(before < after for before, after in zip(self._positions[-1:], positions, strict=False))
        self._positions += positions
        return [self._count(position) for position in positions]

    def select_notifications(  # type: ignore[override]
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        found = super().select_notifications(
            self._position(start),
            limit,
            self._position(stop),
            topics,
            inclusive_of_start=inclusive_of_start,
        )
        return [Notification(n.originator_id, n.originator_version, n.topic, n.state, self._count(n.id)) for n in found]

    def max_notification_id(self, topics: Sequence[str] = ()) -> int | None:
        position = super().max_notification_id(topics)
        return None if position is None else self._count(position)

    def _count(self, position: int) -> int:
        return bisect.bisect_right(self._positions, position)

    def _position(self, count: int | None) -> int | None:
        return self._positions[count - 1] if count else count


class Aggregates(EventLogRecorder):
    """Answers an insert with None, as recorders do that give no notifications."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        super().insert_events(stored_events, **kwargs)
        return None


class OnTheLog:
    """Gives a test case its recorder."""

    recorder_class: type[EventLogRecorder] = EventLogRecorder

    @pytest.fixture(autouse=True)
    def _open_recorder(self, dsn: str) -> Iterator[None]:
        self.dsn = dsn
        with self.recorder_class(dsn) as self.recorder:
            yield

    def create_recorder(self) -> Any:
        return self.recorder


class TextOriginators:
    def new_originator_id(self) -> str:
        return f"order-{uuid4()}"


class TestAggregateRecorder(OnTheLog, library.AggregateRecorderTestCase):
    recorder_class = Aggregates


class TestAggregateRecorderOfTextOriginators(TextOriginators, OnTheLog, library.AggregateRecorderTestCase):
    recorder_class = Aggregates


class TestApplicationRecorder(OnTheLog, library.ApplicationRecorderTestCase[Any]):
    EXPECT_CONTIGUOUS_NOTIFICATION_IDS = False

    def test_insert_select(self) -> None:
        """Asserts the ids 1, 2 and 3 all along."""
        with Counted(self.dsn) as self.recorder:
            super().test_insert_select()

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class TestApplicationRecorderOfTextOriginators(TextOriginators, TestApplicationRecorder):
    pass


class TestNonInterleaving(OnTheLog, library.NonInterleavingNotificationIDsBaseCase):
    pass
