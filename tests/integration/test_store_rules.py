"""What the database itself guarantees: recorded events stay, payloads are shown where they can be, plans are quick."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from autogen_eventlog.events import RecordedEvent
from autogen_eventlog.postgres import sql
from autogen_eventlog.postgres.reader import Reader
from autogen_eventlog.postgres.records import MessageFilter
from autogen_eventlog.postgres.session import connect
from tests.integration.store import SCHEMA, an_event, events, fetch, open_store


@pytest.fixture
async def filled(dsn: str) -> str:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        await agent.submit(*events(3))
    return dsn


@pytest.mark.parametrize("table", ["event", "event_{month}"])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {table} SET payload = NULL",
        "UPDATE {table} SET version = 9 WHERE version = 2",
        "DELETE FROM {table} WHERE version = 1",
        "DELETE FROM {table}",
        "TRUNCATE {table}",
    ],
)
async def test_recorded_events_cannot_be_changed(filled: str, table: str, statement: str) -> None:
    table = table.format(month=f"{datetime.now(timezone.utc):%Y_%m}")
    before = await fetch(filled, "SELECT version, id, payload FROM event ORDER BY version")
    with pytest.raises(psycopg.Error) as caught:
        await fetch(filled, statement.format(table=table))
    assert caught.value.sqlstate == "EL002"
    detail = json.loads(caught.value.diag.message_detail or "")
    assert detail["operation"] == statement.split()[0]
    assert await fetch(filled, "SELECT version, id, payload FROM event ORDER BY version") == before


async def test_an_insert_cannot_turn_into_an_update(filled: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        await fetch(
            filled,
            "INSERT INTO event SELECT (e).* FROM event AS e WHERE version = 1 "
            "ON CONFLICT (stream, version, recorded_at) DO UPDATE SET payload = NULL",
        )
    assert caught.value.sqlstate == "EL002"


async def test_the_default_partition_and_later_ones_refuse_too(filled: str) -> None:
    for partition, starts in await fetch(
        filled, "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits AS i "
        "INNER JOIN pg_class AS c ON c.oid = i.inhrelid WHERE i.inhparent = 'event'::regclass"
    ):
        with pytest.raises(psycopg.Error) as caught:
            await fetch(filled, f"TRUNCATE {partition}")
        assert caught.value.sqlstate == "EL002", starts


async def test_a_whole_partition_can_be_dropped_by_retention(filled: str) -> None:
    await fetch(filled, f"DROP TABLE event_{datetime.now(timezone.utc):%Y_%m}")
    assert await fetch(filled, "SELECT version FROM event") == []


async def test_payloads_are_shown_as_jsonb_where_jsonb_can_hold_them(dsn: str) -> None:
    payloads = [b'{"a": [1, 1.50, "x"]}', b'"nul \\u0000"', b'"lone \\ud800"', b"no json", b"\xff\x00", None]
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        await agent.submit(*(an_event(payload=payload) for payload in payloads))
        assert [event.payload for event in await store.stored("agent/1")] == payloads
        shown = await store.fetch("SELECT payload, payload ->> 'a' FROM event_json ORDER BY version")
    assert shown == [({"a": [1, 1.5, "x"]}, '[1, 1.50, "x"]')] + [(None, None)] * 5


MONTHS = 24
STREAMS = 50
PER_MONTH = 1000


@pytest.fixture
async def two_years(dsn: str) -> str:
    """24 past months of 1,000 events of 50 streams, written behind `append`'s back, which knows today only."""
    for back in range(MONTHS):
        await fetch(dsn, ONE_MONTH, {"back": back, "events": PER_MONTH, "streams": STREAMS})
    await fetch(dsn, HEADS)
    await fetch(dsn, "ANALYZE event, stream")
    return dsn


ONE_MONTH = """
DO $do$
BEGIN
    NULL;
END
$do$
"""
HEADS = """
INSERT INTO stream (id, version, epoch, position, recorded_at)
SELECT e.stream, max(e.version), 1, max(e.position), max(e.recorded_at) FROM event AS e GROUP BY e.stream
"""


async def plan(dsn: str, name: str, parameters: dict[str, Any]) -> tuple[list[dict[str, Any]], float]:
    """The nodes of the plan that ran, and the pages it touched."""
    connection = await connect(dsn, SCHEMA)
    try:
        await connection.execute(b"SET plan_cache_mode = force_custom_plan")
        cursor = await connection.execute(
            b"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) " + sql.query(name), parameters
        )
        row = await cursor.fetchone()
    finally:
        await connection.close()
    assert row is not None
    root = row[0][0]["Plan"]
    return list(_nodes(root)), root["Shared Hit Blocks"] + root["Shared Read Blocks"]


def _nodes(node: dict[str, Any]) -> Any:
    yield node
    for child in node.get("Plans", []):
        yield from _nodes(child)


def scans(nodes: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Kind of scan and index (without the partition's name) of every node that ran on a partition."""
    return {
        (node["Node Type"], node.get("Index Name", "").split("_", 3)[-1])
        for node in nodes
        if node.get("Relation Name", "").startswith("event_") and node["Actual Loops"] > 0
    }
