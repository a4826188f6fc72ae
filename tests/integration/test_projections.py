"""Projections of the log by eventsourcing: every event counted exactly once, whatever dies in between."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from threading import Event
from typing import Any

import psycopg
import pytest
from eventsourcing.persistence import IntegrityError, NotSupportedError, OperationalError, Tracking, TrackingRecorder
from eventsourcing.popo import POPOTrackingRecorder
from eventsourcing.projection import ApplicationSubscription, Projection, ProjectionRunner
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

from autogen_eventlog.events import EventType, Outcome, RecordedEvent
from autogen_eventlog.projections import (
    EventLogApplication,
    EventLogRecorder,
    ProjectionSupervisor,
    RecordedEventMapper,
    log_environment,
    open_view,
)
from autogen_eventlog.testing.waiting import wait_until
from tests.integration.projections import (
    CountOutcomes,
    OutcomeCounts,
    counted,
    execute,
    late_commit,
    record,
)
from tests.integration.test_projections_recorder import event, nowhere, terminate

REPLIED, RAISED, CANCELLED = Outcome.REPLIED, Outcome.RAISED, Outcome.CANCELLED
SECONDS = 60.0


def outcomes(seed: int, agents: int = 4, each: int = 25) -> dict[str, list[Outcome]]:
    chance = random.Random(seed)
    return {f"clerk/{seed}-{n}": chance.choices([REPLIED, RAISED, CANCELLED], [6, 3, 1], k=each) for n in range(agents)}


def test_a_view_counts_each_message_once_and_goes_on_where_it_was(dsn: str) -> None:
    expected = record(dsn, outcomes(1))
    with open_view(OutcomeCounts, dsn) as view, ProjectionSupervisor(CountOutcomes(view), dsn) as running:
        running.catch_up(SECONDS)
        assert counted(dsn) == expected
        expected += record(dsn, outcomes(2))
        running.catch_up(SECONDS)
        assert running.statistics().restarts == 0
    assert counted(dsn) == expected
    expected += record(dsn, outcomes(3))
    with open_view(OutcomeCounts, dsn) as view, ProjectionSupervisor(CountOutcomes(view), dsn) as running:
        running.catch_up(SECONDS)
    assert counted(dsn) == expected


class Interrupted(OutcomeCounts):
    """Loses every connection to the database, now in the middle of its transaction, now before it."""

    def __init__(self, *arguments: Any, **names: Any) -> None:
        super().__init__(*arguments, **names)
        self.dsn = ""
        self.losses = 0
        self._seen = itertools.count(1)

    def count(self, agent: str, outcome: str, tracking: Tracking) -> None:
        if next(self._seen) % 29 == 0:
            self._lose()
        super().count(agent, outcome, tracking)

    def before_commit(self, tracking: Tracking) -> None:
        if next(self._seen) % 31 == 0:
            self._lose()

    def _lose(self) -> None:
        self.losses += 1
        terminate(self.dsn)


def test_counts_are_exact_when_every_connection_is_killed_again_and_again(dsn: str) -> None:
    expected = record(dsn, outcomes(1))
    with open_view(Interrupted, dsn) as view, ProjectionSupervisor(CountOutcomes(view), dsn) as running:
        view.dsn = dsn
        running.catch_up(SECONDS)
        expected += record(dsn, outcomes(2))
        running.catch_up(SECONDS)
        fared = running.statistics()
    assert counted(dsn) == expected
    assert view.losses >= 6 and fared.restarts >= 6
    assert isinstance(fared.last_error, OperationalError)


class AnswerLost(OutcomeCounts):
    """Commits, and is told that the connection was lost."""

    lost = 0

    def count(self, agent: str, outcome: str, tracking: Tracking) -> None:
        super().count(agent, outcome, tracking)
        if self.lost < 3:
            self.lost += 1
            raise OperationalError("the connection was lost")


def test_a_change_whose_answer_is_lost_is_not_made_again(dsn: str) -> None:
    expected = record(dsn, outcomes(1))
    with open_view(AnswerLost, dsn) as view, ProjectionSupervisor(CountOutcomes(view), dsn) as running:
        running.catch_up(SECONDS)
    assert view.lost == 3
    assert counted(dsn) == expected


def test_two_supervisors_of_one_view_count_nothing_twice(dsn: str) -> None:
    expected = record(dsn, outcomes(1))
    with (
        open_view(OutcomeCounts, dsn) as view,
        open_view(OutcomeCounts, dsn) as same,
        ProjectionSupervisor(CountOutcomes(view), dsn) as one,
        ProjectionSupervisor(CountOutcomes(same), dsn) as two,
    ):
        one.catch_up(SECONDS)
        two.catch_up(SECONDS)
    assert counted(dsn) == expected


def test_a_late_commit_is_counted_before_what_came_after_it(dsn: str) -> None:
    seen: list[str] = []

    class Following(Projection[POPOTrackingRecorder]):
        def process_event(self, domain_event: Any, tracking: Tracking) -> None:
            seen.append(domain_event.stream)
            self.view.insert_tracking(tracking)

    view = POPOTrackingRecorder()
    with ProjectionSupervisor(Following(view), dsn) as running, late_commit(dsn, "late/1") as late:
        record(dsn, {"clerk/1": [REPLIED]})
        with pytest.raises(TimeoutError) as caught:
            running.catch_up(0)
        assert "transaction" in str(caught.value)
        assert seen == []
        late.commit()
        running.catch_up(SECONDS)
    assert seen == ["late/1", "clerk/1", "clerk/1"]


def test_a_database_that_comes_back_is_followed_again(dsn: str) -> None:
    """Nobody may connect for a while, and those who were connected are thrown out."""
    [(name,)] = execute(dsn, "SELECT current_database()")
    expected = record(dsn, outcomes(1))
    with (
        psycopg.connect(make_conninfo(dsn, dbname="postgres"), autocommit=True) as server,
        open_view(OutcomeCounts, dsn) as view,
        ProjectionSupervisor(CountOutcomes(view), dsn, unavailable_after=0.2) as running,
    ):
        running.catch_up(SECONDS)
        expected += record(dsn, outcomes(2))
        server.execute(SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(Identifier(name)))
        server.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", (name,))
        wait_until(lambda: running.statistics().last_error, "a runner has ended", timeout=SECONDS)
        server.execute(SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(Identifier(name)))
        running.catch_up(SECONDS)
    assert counted(dsn) == expected


# -- what ends a projection -------------------------------------------------------------------------------------------


class Stumbling(Projection[POPOTrackingRecorder]):
    def process_event(self, domain_event: Any, tracking: Tracking) -> None:
        raise ZeroDivisionError(domain_event.stream)


def test_an_error_of_the_projection_ends_it_and_is_raised_to_who_waits(dsn: str) -> None:
    record(dsn, {"clerk/1": [REPLIED]})
    with (
        pytest.raises(ZeroDivisionError, match="clerk/1"),
        ProjectionSupervisor(Stumbling(POPOTrackingRecorder()), dsn) as running,
    ):
        with pytest.raises(ZeroDivisionError, match="clerk/1"):
            running.run_forever(SECONDS)
        with pytest.raises(ZeroDivisionError, match="clerk/1"):
            running.catch_up(SECONDS)
        fared = running.statistics()
        assert isinstance(fared.last_error, ZeroDivisionError) and fared.restarts == 0
        wait_until(lambda: not running.statistics().running, "its thread has ended")


class Strict(OutcomeCounts):
    def before_commit(self, tracking: Tracking) -> None:
        raise IntegrityError("no more room")


def test_a_constraint_that_an_event_breaks_twice_ends_it(dsn: str) -> None:
    record(dsn, {"clerk/1": [REPLIED]})
    with (
        open_view(Strict, dsn) as view,
        pytest.raises(IntegrityError, match="no more room"),
        ProjectionSupervisor(CountOutcomes(view), dsn) as running,
    ):
        running.run_forever(SECONDS)
    assert counted(dsn) == Counter()


def test_a_stopped_projection_ends_quietly(dsn: str) -> None:
    with ProjectionSupervisor(Stumbling(POPOTrackingRecorder()), dsn) as running:
        assert not running.run_forever(timeout=0)
        running.stop()
        running.stop()
        assert running.run_forever(SECONDS)


def test_a_projection_without_a_database_says_what_it_waits_for_and_can_be_stopped(dsn: str) -> None:
    with ProjectionSupervisor(Stumbling(POPOTrackingRecorder()), nowhere(dsn), unavailable_after=0.1) as running:
        wait_until(lambda: running.statistics().restarts, "another runner was started")
        with pytest.raises(TimeoutError) as caught:
            running.wait(1, timeout=0)
        assert "127.0.0.1:1" in str(caught.value)
        assert running.statistics().running


# -- eventsourcing's own parts on the log -----------------------------------------------------------------------------


class Ends(Projection[POPOTrackingRecorder]):
    topics = ("DeliveryCompleted",)

    def __init__(self, view: POPOTrackingRecorder) -> None:
        super().__init__(view)
        self.seen: list[RecordedEvent] = []

    def process_event(self, domain_event: Any, tracking: Tracking) -> None:
        self.seen.append(domain_event)
        self.view.insert_tracking(tracking)


def test_the_librarys_projection_runner_runs_on_a_log(dsn: str) -> None:
    record(dsn, {"clerk/1": [REPLIED, RAISED]})
    with ProjectionRunner(
        application_class=EventLogApplication,
        projection_class=Ends,
        view_class=POPOTrackingRecorder,
        env=log_environment(dsn),
    ) as runner:
        runner.wait(runner.app.recorder.max_notification_id(), timeout=SECONDS)
        assert isinstance(runner.projection, Ends)
        assert [event.outcome for event in runner.projection.seen] == [REPLIED, RAISED]


def test_the_librarys_subscription_gives_recorded_events_and_imports_nothing(dsn: str) -> None:
    record(dsn, {"clerk/1": [REPLIED]})
    application = EventLogApplication(env=log_environment(dsn))
    with ApplicationSubscription(application) as subscription:
        event, tracking = next(subscription)
    application.close()
    assert isinstance(event, RecordedEvent)
    assert (event.type, event.message_type) == (EventType.MESSAGE_DELIVERED, "shop:Order")
    assert tracking == Tracking("EventLog", event.position)


def test_an_application_of_the_log_refuses_what_it_is_not(dsn: str) -> None:
    with pytest.raises(NotSupportedError, match="EVENTLOG_DSN"):
        EventLogApplication(env={"EVENTLOG_DSN": ""})
    application = EventLogApplication(env=log_environment(dsn))
    assert isinstance(application.mapper, RecordedEventMapper)
    unused: Any = None
    for refused in (
        lambda: application.mapper.to_stored_event(unused),
        lambda: application.factory.aggregate_recorder(),
        lambda: application.factory.tracking_recorder(TrackingRecorder),
        lambda: application.factory.process_recorder(),
    ):
        with pytest.raises(NotSupportedError):
            refused()
    application.close()


@pytest.mark.parametrize("schema", ["public", 'my "odd" \\ schema'])
def test_a_view_keeps_every_setting_of_its_dsn_and_lives_in_its_schema(dsn: str, schema: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(schema)))
    settings = make_conninfo(dsn, application_name="the view", options="-c statement_timeout=4321")
    with open_view(OutcomeCounts, settings, schema=schema) as view, view.datastore.get_connection() as connection:
        rows = connection.execute(
            "SELECT current_setting('application_name') AS name, current_setting('statement_timeout') AS timeout, "
            "(SELECT count(*) FROM pg_tables WHERE schemaname = %s) AS tables",
            (schema,),
        ).fetchall()
    assert rows == [{"name": "the view", "timeout": "4321ms", "tables": 2}]


def test_an_application_and_its_agents_share_a_log(dsn: str) -> None:
    """An event that an application inserts through the recorder is projected under its own topic."""
    seen = Event()

    class Paid(Projection[POPOTrackingRecorder]):
        topics = ("shop:Paid",)

        def process_event(self, domain_event: Any, tracking: Tracking) -> None:
            assert domain_event.payload == b"\xff not json"
            self.view.insert_tracking(tracking)
            seen.set()

    record(dsn, {"clerk/1": [REPLIED]})
    with EventLogRecorder(dsn) as recorder, ProjectionSupervisor(Paid(POPOTrackingRecorder()), dsn) as running:
        recorder.insert_events([event("order-1", 1)])
        running.catch_up(SECONDS)
    assert seen.is_set()
