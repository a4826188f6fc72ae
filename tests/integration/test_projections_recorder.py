"""The log as a recorder of eventsourcing's: what it shows, what it refuses, and what a lost connection does."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from eventsourcing.persistence import (
    DataError,
    IntegrityError,
    Notification,
    OperationalError,
    ProgrammingError,
    StoredEvent,
)
from psycopg.conninfo import make_conninfo

from autogen_eventlog.errors import DatabaseUnavailable, EventLogError, LogClosed, SchemaError, VersionConflict
from autogen_eventlog.events import EventType, Outcome
from autogen_eventlog.postgres.sql import query
from autogen_eventlog.projections import (
    BlockingCall,
    EventLogRecorder,
    EventNotStorable,
    NotAnApplicationStream,
    OriginatorConflict,
    RecorderUnavailable,
    recorded_event,
)
from autogen_eventlog.testing.waiting import wait_until
from tests.integration.projections import execute, late_commit, record
from tests.integration.store import APPENDING, SCHEMA, open_store

REPLIED, RAISED = Outcome.REPLIED, Outcome.RAISED


@pytest.fixture
def recorder(dsn: str) -> Iterator[EventLogRecorder]:
    with EventLogRecorder(dsn) as recorder:
        yield recorder


def event(
    originator: UUID | str, version: int, topic: str = "shop:Paid", state: bytes = b"\xff not json"
) -> StoredEvent:
    return StoredEvent(originator, version, topic, state)


# -- notifications ----------------------------------------------------------------------------------------------------


def test_a_notification_holds_the_recorded_event_and_names_no_code(dsn: str, recorder: EventLogRecorder) -> None:
    record(dsn, {"clerk/1": [REPLIED]})
    delivered, completed = recorder.select_notifications(None, 10)

    async def read() -> list[Any]:
        async with open_store(dsn) as store:
            return await store.stored("clerk/1")

    assert [recorded_event(delivered), recorded_event(completed)] == asyncio.run(read())
    assert (delivered.id, delivered.originator_id, delivered.originator_version) == (
        delivered.event.position,
        "clerk/1",
        1,
    )
    assert (delivered.topic, delivered.state) == ("MessageDelivered", b'{"number":1}')
    assert delivered.event.message_type == "shop:Order"
    assert (completed.topic, completed.state) == ("DeliveryCompleted", b"")


def test_topics_choose_types_of_events(dsn: str, recorder: EventLogRecorder) -> None:
    record(dsn, {"clerk/1": [REPLIED, RAISED], "clerk/2": [REPLIED]})
    ends = recorder.select_notifications(None, 10, topics=["DeliveryCompleted"])
    assert [(n.originator_id, n.event.outcome) for n in ends] == [
        ("clerk/1", REPLIED),
        ("clerk/1", RAISED),
        ("clerk/2", REPLIED),
    ]
    assert recorder.max_notification_id(["MessageDelivered"]) == ends[-1].id - 1
    assert recorder.max_notification_id() == ends[-1].id
    assert recorder.max_notification_id(["MessageSent"]) is None


def test_a_notification_of_another_recorder_holds_no_event() -> None:
    with pytest.raises(ProgrammingError):
        recorded_event(Notification(uuid4(), 1, "shop:Paid", b"", 1))


def test_a_late_commit_holds_back_what_comes_after_it(dsn: str, recorder: EventLogRecorder) -> None:
    with late_commit(dsn, "late/1") as late, ThreadPoolExecutor(1) as threads:
        record(dsn, {"clerk/1": [REPLIED]})
        assert execute(dsn, "SELECT count(*) FROM event") == [(2,)]
        assert recorder.select_notifications(None, 10) == []
        assert recorder.max_notification_id() is None
        assert not recorder.settle(0)
        with recorder.subscribe() as subscription:
            reading = threads.submit(lambda: [next(subscription) for _ in range(3)])
            late.commit()
            found = reading.result(timeout=30)
    assert [n.originator_id for n in found] == ["late/1", "clerk/1", "clerk/1"]
    assert [n.id for n in found] == sorted(n.id for n in found)


def test_a_subscription_misses_nothing_of_many_writers(dsn: str, recorder: EventLogRecorder) -> None:
    orders = [uuid4() for _ in range(40)]
    with ThreadPoolExecutor(5) as threads, recorder.subscribe(topics=["shop:Paid"]) as subscription:
        reading = threads.submit(lambda: [next(subscription) for _ in range(3 * len(orders))])
        writing = [
            threads.submit(recorder.insert_events, [event(order, version) for version in (1, 2, 3)]) for order in orders
        ]
        inserted = [position for written in writing for position in written.result(timeout=60) or ()]
        found = reading.result(timeout=60)
    assert [n.id for n in found] == sorted(inserted)
    assert {n.originator_id for n in found} == set(orders)


def test_a_subscription_survives_the_loss_of_every_connection(dsn: str, recorder: EventLogRecorder) -> None:
    record(dsn, {"clerk/1": [REPLIED]})
    with recorder.subscribe() as subscription:
        first = [next(subscription), next(subscription)]
        terminate(dsn)
        record(dsn, {"clerk/2": [RAISED]})
        second = [next(subscription), next(subscription)]
    assert [n.originator_id for n in first + second] == ["clerk/1", "clerk/1", "clerk/2", "clerk/2"]


def test_a_subscription_that_waits_can_be_stopped(recorder: EventLogRecorder) -> None:
    with ThreadPoolExecutor(1) as threads, recorder.subscribe() as subscription:
        reading = threads.submit(lambda: list(subscription))
        subscription.stop()
        assert reading.result(timeout=30) == []


def test_a_subscription_without_a_database_can_be_stopped(dsn: str) -> None:
    with EventLogRecorder(nowhere(dsn), unavailable_after=600) as recorder, ThreadPoolExecutor(1) as threads:
        subscription = recorder.subscribe()
        reading = threads.submit(lambda: list(subscription))
        subscription.stop()
        assert reading.result(timeout=30) == []


def test_what_was_looked_through_once_is_not_looked_through_again(dsn: str, recorder: EventLogRecorder) -> None:
    record(dsn, {"clerk/1": [REPLIED] * 20})
    found, looked_until = recorder.page(after=0, topics=["MessageSent"], limit=10, interrupted=Event())
    assert found == []
    assert looked_until > (recorder.max_notification_id() or 0)


def test_a_page_is_read_along_the_index_of_positions(dsn: str) -> None:
    record(dsn, {"clerk/1": [REPLIED]})
    with psycopg.connect(
        dsn, options=f"-c search_path={SCHEMA} -c enable_seqscan=off -c enable_sort=off"
    ) as connection:
        parameters = {"after": 0, "until": 2**63 - 1, "topics": ["DeliveryCompleted"], "limit": 500}
        rows = connection.execute(b"EXPLAIN " + query("projection_notifications"), parameters).fetchall()
    plan = "\n".join(row[0] for row in rows)
    conditions = re.findall(r'Index Cond: \(\("position" > .*"position" < position_horizon\(\)', plan)
    assert len(conditions) == len(re.findall(r"Index Scan using \w+ on event_", plan)) > 0
    assert "Seq Scan" not in plan


# -- an application's own events --------------------------------------------------------------------------------------


def test_an_originator_is_read_back_as_it_was_given(recorder: EventLogRecorder) -> None:
    as_uuid, as_text = uuid4(), str(uuid4())
    for originator in (as_uuid, as_text, "order-1"):
        recorder.insert_events([event(originator, 1)])
        assert recorder.select_events(originator) == [event(originator, 1)]
    assert [n.originator_id for n in recorder.select_notifications(None, 9)] == [as_uuid, as_text, "order-1"]


def test_versions_may_begin_anywhere_and_have_no_gaps(recorder: EventLogRecorder) -> None:
    recorder.insert_events([event("order-1", 0), event("order-1", 1), event("order-1", 2)])
    assert [e.originator_version for e in recorder.select_events("order-1", gt=0)] == [1, 2]
    assert [e.originator_version for e in recorder.select_events("order-1", lte=1, desc=True)] == [1, 0]
    assert [n.originator_version for n in recorder.select_notifications(None, 9)] == [0, 1, 2]
    with pytest.raises(OriginatorConflict):
        recorder.insert_events([event("order-1", 4)])


def test_a_conflict_says_where_the_originator_stands_and_stores_nothing(dsn: str, recorder: EventLogRecorder) -> None:
    recorder.insert_events([event("order-1", 1), event("order-1", 2)])
    with pytest.raises(OriginatorConflict) as caught:
        recorder.insert_events([event("order-2", 1), event("order-1", 2)])
    assert isinstance(caught.value, IntegrityError) and isinstance(caught.value, VersionConflict)
    assert (caught.value.stream, caught.value.expected, caught.value.found) == ("$application/text/order-1", 1, 2)
    assert recorder.select_events("order-2") == []


@pytest.mark.parametrize("originator", ["clerk/1", "$runtime/1"])
def test_nothing_is_put_into_an_agents_stream(dsn: str, recorder: EventLogRecorder, originator: str) -> None:
    with pytest.raises(NotAnApplicationStream) as caught:
        recorder.insert_events([event("order-1", 1), event(originator, 1)])
    assert isinstance(caught.value, ProgrammingError) and isinstance(caught.value, EventLogError)
    assert caught.value.stream == originator and originator in str(caught.value)
    assert execute(dsn, "SELECT count(*) FROM event") == [(0,)]


def test_what_postgres_can_not_hold_is_refused(recorder: EventLogRecorder) -> None:
    with pytest.raises(EventNotStorable) as caught:
        recorder.insert_events([event("order-1", 1, topic="shop\0Paid")])
    assert isinstance(caught.value, DataError)
    assert caught.value.stream == "$application/text/order-1"
    assert "0x00" in caught.value.problem and caught.value.sqlstate == ""
    assert recorder.select_events("order-1") == []


def test_of_applications_at_the_same_version_one_wins(recorder: EventLogRecorder) -> None:
    def insert(order: str, number: int) -> int | None:
        try:
            recorder.insert_events([event(order, version, state=b"%d" % number) for version in (1, 2)])
        except IntegrityError:
            return None
        return number

    for order in ("order-1", "order-2", "order-3", "order-4"):
        with ThreadPoolExecutor(6) as threads:
            winners = [n for n in threads.map(insert, [order] * 6, range(6)) if n is not None]
        assert len(winners) == 1
        assert [e.state for e in recorder.select_events(order)] == [b"%d" % winners[0]] * 2


def test_applications_that_share_streams_wait_for_each_other_and_all_come_through(recorder: EventLogRecorder) -> None:
    """Each appends to two of three streams, where others append too, until it has done so ten times."""

    def last(order: str) -> int:
        newest = recorder.select_events(order, desc=True, limit=1)
        return newest[0].originator_version if newest else 0

    def work(number: int) -> int:
        mine = [f"order-{place}" for place in range(3) if place != number % 3]
        inserted = refused = 0
        while inserted < 10:
            try:
                recorder.insert_events([event(order, last(order) + 1) for order in mine])
                inserted += 1
            except IntegrityError:
                refused += 1
        return refused

    with ThreadPoolExecutor(5) as threads:
        refusals = list(threads.map(work, range(5)))
    assert sum(refusals) > 0, "nobody was in anybody's way"
    counts = [len(recorder.select_events(f"order-{place}")) for place in range(3)]
    assert sum(counts) == 5 * 10 * 2
    assert all(
        [e.originator_version for e in recorder.select_events(f"order-{place}")] == list(range(1, count + 1))
        for place, count in enumerate(counts)
    )


def test_an_insert_whose_connection_dies_is_stored_once_and_is_no_conflict(
    dsn: str, recorder: EventLogRecorder
) -> None:
    recorder.insert_events([event("order-1", 1)])
    with (
        psycopg.connect(dsn, options=f"-c search_path={SCHEMA}") as holder,
        ThreadPoolExecutor(1) as threads,
    ):
        holder.execute("SELECT 1 FROM event LIMIT 0")
        holder.execute("LOCK TABLE event IN EXCLUSIVE MODE")
        inserting = threads.submit(recorder.insert_events, [event("order-1", 2), event("order-2", 1)])
        statement = APPENDING + " AND wait_event_type = 'Lock'"
        [(process,)] = wait_until(lambda: execute(dsn, statement), "an append waits for the lock")
        execute(dsn, "SELECT pg_terminate_backend(%s::int)", process)
        holder.commit()
        positions = inserting.result(timeout=60)
    found = recorder.select_notifications(positions[0] if positions else None, 9)
    assert [(n.id, n.originator_id, n.originator_version) for n in found] == [
        (found[0].id, "order-1", 2),
        (found[1].id, "order-2", 1),
    ]
    assert [n.id for n in found] == list(positions or ())


def test_an_insert_whose_answer_is_lost_is_found_and_not_repeated(
    dsn: str, recorder: EventLogRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed: list[int] = []
    leave = psycopg.Transaction.__exit__

    def commit_and_lose_the_answer(transaction: psycopg.Transaction, *exc_info: Any) -> Any:
        leave(transaction, *exc_info)
        if not committed:
            committed.append(transaction.connection.info.backend_pid)
            transaction.connection.close()
            raise psycopg.OperationalError("the connection was lost")

    monkeypatch.setattr(psycopg.Transaction, "__exit__", commit_and_lose_the_answer)
    positions = recorder.insert_events([event("order-1", 1), event("order-1", 2)])
    assert committed
    assert [n.id for n in recorder.select_notifications(None, 9)] == positions
    assert [e.originator_version for e in recorder.select_events("order-1")] == [1, 2]


def test_own_events_can_be_selected_when_the_insert_returns(dsn: str, recorder: EventLogRecorder) -> None:
    with psycopg.connect(dsn) as other, ThreadPoolExecutor(1) as threads:
        other.execute("SELECT pg_current_xact_id()")
        inserting = threads.submit(recorder.insert_events, [event("order-1", 1)])
        wait_until(lambda: execute(dsn, "SELECT version FROM event"), "the event is committed")
        other.commit()
        positions = inserting.result(timeout=30)
    assert [n.id for n in recorder.select_notifications(None, 9)] == positions


def test_an_insert_does_not_wait_for_ever_for_a_foreign_transaction(
    dsn: str, recorder: EventLogRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autogen_eventlog.projections.recorder._OWN_EVENTS_SETTLE_SECONDS", 0.01)
    with psycopg.connect(dsn) as other:
        other.execute("SELECT pg_current_xact_id()")
        assert recorder.insert_events([event("order-1", 1)])
        assert recorder.select_notifications(None, 9) == []
    assert len(recorder.select_notifications(None, 9)) == 1


# -- connections ------------------------------------------------------------------------------------------------------


def test_a_database_that_does_not_answer_is_named_within_the_bound(dsn: str) -> None:
    started = time.monotonic()
    with (
        EventLogRecorder(nowhere(dsn), unavailable_after=0.2) as recorder,
        pytest.raises(RecorderUnavailable) as caught,
    ):
        recorder.max_notification_id()
    assert isinstance(caught.value, OperationalError) and isinstance(caught.value, DatabaseUnavailable)
    assert caught.value.waited_seconds == 0.2 and "127.0.0.1:1/" in caught.value.server
    assert time.monotonic() - started < 20


def test_a_server_is_started_again_before_the_next_attempt(dsn: str) -> None:
    calls: list[str] = []

    with (
        EventLogRecorder(nowhere(dsn), unavailable_after=0.1, ensure_server=lambda: calls.append("start")) as recorder,
        pytest.raises(RecorderUnavailable),
    ):
        recorder.max_notification_id()
    assert calls


async def test_a_call_where_an_event_loop_runs_is_refused(recorder: EventLogRecorder) -> None:
    with pytest.raises(BlockingCall) as caught:
        recorder.max_notification_id()
    assert "asyncio.to_thread" in str(caught.value)
    assert await asyncio.to_thread(recorder.max_notification_id) is None


def test_a_missing_schema_is_named(dsn: str) -> None:
    with EventLogRecorder(dsn, schema="elsewhere") as recorder, pytest.raises(SchemaError) as caught:
        recorder.max_notification_id()
    assert caught.value.schema == "elsewhere"


def test_a_closed_recorder_says_so_and_leaves_no_connection(dsn: str) -> None:
    recorder = EventLogRecorder(make_conninfo(dsn, application_name="closed"))
    assert recorder.max_notification_id() is None
    recorder.close()
    recorder.close()
    with pytest.raises(LogClosed) as caught:
        recorder.max_notification_id()
    assert caught.value.what == "recorder"
    sessions = "SELECT 1 WHERE NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'closed')"
    wait_until(lambda: execute(dsn, sessions), "the recorder's sessions are gone")


def test_events_of_an_application_are_ordinary_events_of_the_log(dsn: str, recorder: EventLogRecorder) -> None:
    recorder.insert_events([event("order-1", 0)])

    async def tail() -> list[Any]:
        async with open_store(dsn) as store:
            return [found async for found in store.reader.tail(follow=False)]

    [found] = asyncio.run(tail())
    assert (found.stream, found.version, found.type) == ("$application/text/order-1", 1, EventType.EFFECT_RECORDED)
    assert (found.message_type, found.payload, found.metadata) == (
        "shop:Paid",
        b"\xff not json",
        {"originator_version": 0},
    )


def terminate(dsn: str) -> None:
    execute(
        dsn,
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


def nowhere(dsn: str) -> str:
    """Where no server listens."""
    return make_conninfo(dsn, host="127.0.0.1", port=1)
