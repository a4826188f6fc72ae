"""The questions that must be quick on a large log read only what they show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from autogen_eventlog.audit import Audit
from autogen_eventlog.codec import Codec
from autogen_eventlog.postgres.pool import Pool
from autogen_eventlog.postgres.session import connect
from autogen_eventlog.postgres.sql import query
from tests.integration.store import SCHEMA

BEGINNING = datetime(2024, 2, 1, tzinfo=timezone.utc)
MINUTE = BEGINNING + timedelta(seconds=5007)
AGENTS = 100
STEPS = 10_000

# A step a second: agent n is given a message by agent n-1, calls agent n+1, gets the answer, replies. Conversations of
# twenty steps; one step in 1,000 raises. (Written as rows: a minute of appends would make the same.)
FILL = f"""
INSERT INTO event (
    version, position, recorded_at, epoch, id, occurred_at, delivery, call, stream, type, sender, recipient,
    message_type, outcome, cause, correlation, metadata, payload
)
SELECT
    step / {AGENTS} * 4 + k, (step + 1) * 1048576 + k,
    '{BEGINNING.isoformat()}'::timestamptz + make_interval(secs => step),
    1, pg_temp.event_id(step, k), now(), step / {AGENTS} * 4 + 1, NULL, 'clerk/' || step % {AGENTS},
    (ARRAY['MessageDelivered', 'MessageSent', 'ReplyReceived', 'DeliveryCompleted'])[k],
    CASE WHEN k = 1 THEN 'clerk/' || (step + {AGENTS - 1}) % {AGENTS} END,
    CASE WHEN k = 2 THEN 'clerk/' || (step + 1) % {AGENTS} END,
    'shop:Task',
    CASE WHEN k = 4 AND step % 1000 = 7 THEN 'raised' WHEN k >= 3 THEN 'replied' END,
    CASE k WHEN 1 THEN CASE WHEN step % 20 > 0 THEN pg_temp.event_id(step - 1, 2) END
        WHEN 3 THEN pg_temp.event_id(step, 2) ELSE pg_temp.event_id(step, 1) END,
    pg_temp.event_id(step / 20, 9), '{{}}', convert_to('{{"text": "' || repeat('x', 200) || '"}}', 'UTF8')
FROM generate_series(0::bigint, {STEPS} - 1) AS step
CROSS JOIN generate_series(1, 4) AS k
"""
EVENT_ID = """
CREATE FUNCTION pg_temp.event_id(step bigint, k bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS
$$ SELECT lpad(to_hex(step * 16 + k), 32, '0')::uuid $$
"""
HEADS = """
INSERT INTO stream (id, version, epoch, position, recorded_at)
SELECT e.stream, max(e.version), 1, max(e.position), max(e.recorded_at) FROM event AS e GROUP BY e.stream
"""


def event_id(step: int, k: int) -> UUID:
    return UUID(int=step * 16 + k)


QUESTIONS: dict[str, tuple[dict[str, Any], int]] = {
    "messages of one agent in a minute": ({"agent": "clerk/7", "since": MINUTE, "minutes": 1}, 100),
    "the newest messages of one agent": ({"agent": "clerk/7", "limit": 10}, 200),
    "failures of one agent": ({"agent": "clerk/7", "outcome": "raised"}, 2000),
    "messages of all agents in a minute": ({"since": MINUTE, "minutes": 1}, 1000),
    "the newest messages of all agents": ({"limit": 10}, 400),
    "a page of a long span, long ago": ({"since": BEGINNING + timedelta(minutes=9), "minutes": 60, "limit": 10}, 1000),
    "one conversation": ({"correlation": event_id(3, 9)}, 500),
    "what one event led to": ({"cause": event_id(21, 2)}, 50),
    "dropped messages": ({"outcome": "dropped"}, 50),
}


@pytest.fixture
async def filled(dsn: str) -> str:
    connection = await connect(dsn, SCHEMA)
    try:
        await connection.execute(EVENT_ID.encode())
        await connection.execute(FILL.encode())
        await connection.execute(HEADS.encode())
        await connection.execute(b"ANALYZE event, stream")
    finally:
        await connection.close()
    return dsn


class Watching(Pool):
    """A pool that explains what it runs."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, SCHEMA)
        self._dsn = dsn
        self.read: dict[str, int] = {}

    async def fetch(self, name: str, parameters: Any = None, *, prepare: bool | None = None) -> list[Any]:
        connection = await connect(self._dsn, SCHEMA)
        try:
            statement = b"EXPLAIN (ANALYZE, FORMAT JSON) " + query(name)
            row = await (await connection.execute(statement, parameters)).fetchone()
        finally:
            await connection.close()
        assert row is not None
        plan = row[0] if isinstance(row[0], list) else json.loads(row[0])
        self.read[name] = sum(rows_of(node) for node in nodes(plan[0]["Plan"]))
        return await super().fetch(name, parameters, prepare=prepare)


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def rows_of(node: dict[str, Any]) -> int:
    """Rows of the log that a scan looked at."""
    if not str(node.get("Relation Name", "")).startswith("event"):
        return 0
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return round((node["Actual Rows"] + removed) * node["Actual Loops"])


async def test_what_must_be_quick_reads_little_of_a_large_log(filled: str) -> None:
    async with Watching(filled) as pool:
        audit = Audit(pool, Codec())
        for question, (filters, bound) in QUESTIONS.items():
            given = dict(filters)
            if "minutes" in given:
                given["until"] = given["since"] + timedelta(minutes=given.pop("minutes"))
            for newest_first in (True, False):
                pool.read.clear()
                found = await audit.messages(newest_first=newest_first, **given)
                assert found or given.get("outcome") == "dropped", question
                assert sum(pool.read.values()) <= bound, (question, newest_first, pool.read)


async def test_lineage_in_flight_and_effects_of_one_agent_read_little_of_a_large_log(filled: str) -> None:
    async with Watching(filled) as pool:
        audit = Audit(pool, Codec())
        span = {"since": MINUTE, "until": MINUTE + timedelta(minutes=1)}
        for asked, bound in (
            (audit.causes(event_id(39, 4)), 400),
            (audit.effects(event_id(20, 1)), 600),
            (audit.conversation(event_id(3, 9)), 100),
            (audit.in_flight("clerk/7"), 2000),
            (audit.undelivered(**span), 1000),
            (audit.recorded_effects(agent="clerk/7", **span), 100),
            (audit.activity(span["since"], span["until"]), 1000),
        ):
            pool.read.clear()
            await asked
            assert sum(pool.read.values()) <= bound, pool.read


async def test_the_answers_on_a_large_log_are_right(filled: str) -> None:
    async with Pool(filled, SCHEMA) as pool:
        audit = Audit(pool, Codec())
        [record] = await audit.messages(agent="clerk/7", since=MINUTE, until=MINUTE + timedelta(minutes=1))
        assert (record.id, record.delivered_at, record.sender) == (event_id(5007, 1), MINUTE, "clerk/6")
        for first, last in ((0, 3), (4000, 4600), (STEPS - 2, STEPS), (STEPS, STEPS + 100)):
            span = {"since": BEGINNING + timedelta(seconds=first), "until": BEGINNING + timedelta(seconds=last)}
            expected = [event_id(step, 1) for step in range(first, min(last, STEPS))]
            for newest_first in (True, False):
                asked = audit.iterate(newest_first=newest_first, page=250, **span)
                found = [record.id async for record in asked]
                assert found == (expected[::-1] if newest_first else expected)
        failures = [record async for record in audit.iterate(outcome="raised", newest_first=False, page=3)]
        assert [record.id for record in failures] == [event_id(step, 1) for step in range(7, STEPS, 1000)]
        chain = await audit.causes(event_id(39, 4))
        assert [event.id for event in chain[-3:]] == [event_id(38, 2), event_id(39, 1), event_id(39, 4)]
        assert chain[0].id == event_id(20, 1) and len(chain) == 40
        assert len(await audit.effects(event_id(20, 1))) == 79
        assert await audit.undelivered() == []  # every call was answered


@pytest.mark.parametrize("name", ["audit_messages", "audit_stream_messages"])
def test_the_newest_and_the_oldest_first_differ_in_direction_only(name: str) -> None:
    newest, oldest = query(f"{name}_newest").decode(), query(f"{name}_oldest").decode()
    turned = newest.replace("e.position < %(after)s", "e.position > %(after)s")
    assert turned.replace(" DESC\nLIMIT %(limit)s", " ASC\nLIMIT %(limit)s") == oldest
    assert newest != oldest
