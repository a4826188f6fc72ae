"""What the tests of projections share: a log with deliveries in it, a view that counts them, a transaction left open."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
from eventsourcing.persistence import Tracking
from eventsourcing.postgres import PostgresTrackingRecorder
from eventsourcing.projection import Projection
from psycopg.sql import SQL

from autogen_eventlog.events import EventData, EventType, Outcome, RecordedEvent
from autogen_eventlog.postgres.sql import query
from tests.integration.store import SCHEMA, an_event, fetch, open_store

Counts = Counter[tuple[str, str]]


class OutcomeCounts(PostgresTrackingRecorder):
    """How many messages of each agent ended how."""

    def __init__(self, datastore: Any, **names: Any) -> None:
        super().__init__(datastore, **names)
        self.sql_create_statements.append(
            SQL(
                "CREATE TABLE IF NOT EXISTS outcome_count "
                "(agent text, outcome text, messages bigint NOT NULL, PRIMARY KEY (agent, outcome))"
            ).format()
        )

    def count(self, agent: str, outcome: str, tracking: Tracking) -> None:
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)
            cursor.execute(
                "INSERT INTO outcome_count VALUES (%s, %s, 1) "
                "ON CONFLICT (agent, outcome) DO UPDATE SET messages = outcome_count.messages + 1",
                (agent, outcome),
            )
            self.before_commit(tracking)

    def before_commit(self, tracking: Tracking) -> None:
        """For tests that interfere."""


class CountOutcomes(Projection[OutcomeCounts]):
    name = "outcomes"
    topics = ("DeliveryCompleted",)

    def process_event(self, domain_event: Any, tracking: Tracking) -> None:
        event: RecordedEvent = domain_event
        assert event.outcome is not None
        self.view.count(event.stream, event.outcome.value, tracking)


def deliveries(outcomes: Iterable[Outcome]) -> list[EventData]:
    """A delivery and its end for each outcome."""
    found: list[EventData] = []
    for number, outcome in enumerate(outcomes, 1):
        delivered = an_event(number, EventType.MESSAGE_DELIVERED, message_type="shop:Order", payload=b'{"number":1}')
        completed = an_event(number, EventType.DELIVERY_COMPLETED, outcome=outcome, cause=delivered.id)
        found += [delivered, completed]
    return found


def record(dsn: str, outcomes: dict[str, list[Outcome]]) -> Counts:
    """Appends to each agent's stream; what a view should count of it."""

    async def append() -> None:
        async with open_store(dsn) as store:
            for agent, ended in outcomes.items():
                producer = await store.claimed(agent)
                await producer.submit(*deliveries(ended))

    asyncio.run(append())
    return Counter((agent, outcome.value) for agent, ended in outcomes.items() for outcome in ended)


def counted(dsn: str) -> Counts:
    """What the view holds."""
    rows = asyncio.run(fetch(dsn, "SELECT agent, outcome, messages FROM public.outcome_count"))
    return Counter({(agent, outcome): messages for agent, outcome, messages in rows})


def execute(dsn: str, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
    return asyncio.run(fetch(dsn, statement, *parameters))


@contextmanager
def late_commit(dsn: str, stream: str) -> Generator[psycopg.Connection[Any]]:
    """An event of a stream appended in a transaction that is still open; `commit` ends it."""
    with psycopg.connect(dsn, autocommit=True, options=f"-c search_path={SCHEMA}") as connection:
        connection.execute("SELECT claim(%s, NULL, false)", (stream,))
        connection.autocommit = False
        event = an_event()
        connection.execute(
            query("projection_append"),
            {
                "occurred_at": event.occurred_at,
                "type": event.type.value,
                "streams": [stream],
                "versions": [1],
                "epochs": [1],
                "ids": [uuid4()],
                "topics": ["shop:Late"],
                "metadata": ["{}"],
                "states": [b"late"],
                "payloads": [],
            },
        )
        yield connection
