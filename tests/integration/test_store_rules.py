"""What the database itself guarantees: recorded events stay, payloads are shown where they can be, plans are quick."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

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
        filled,
        "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits AS i "
        "INNER JOIN pg_class AS c ON c.oid = i.inhrelid WHERE i.inhparent = 'event'::regclass",
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
PER_MONTH = 2000


@pytest.fixture
async def two_years(dsn: str) -> str:
    """24 past months of events of 50 streams, written behind `append`'s back, which knows today only."""
    for month in range(MONTHS):
        starts, ends = _month(month - MONTHS), _month(month - MONTHS + 1)
        await fetch(
            dsn,
            f"CREATE TABLE event_{starts:%Y_%m} PARTITION OF event FOR VALUES FROM ('{starts:%Y-%m-%d}+00') "
            f"TO ('{ends:%Y-%m-%d}+00')",
        )
        await fetch(dsn, FILL, STREAMS, month * PER_MONTH // STREAMS, starts, PER_MONTH, month * PER_MONTH)
    await fetch(dsn, HEADS)
    await fetch(dsn, "SELECT raise_position_base()")
    await fetch(dsn, "ANALYZE event")
    await fetch(dsn, "ANALYZE stream")
    return dsn


FILL = """
INSERT INTO event (version, position, recorded_at, epoch, id, occurred_at, delivery, stream, type, correlation, metadata)
SELECT
    g.n / %s::integer + 1 + %s, (g.n + p.before) << 20, p.starts + g.n * interval '20 minutes', 1, gen_random_uuid(), p.starts,
    1, 'agent/' || g.n %% 50, 'MessageDelivered', gen_random_uuid(), '{}'
FROM (SELECT %s::timestamptz AS starts, %s::integer AS events, %s::bigint AS before) AS p
CROSS JOIN LATERAL generate_series(0, p.events - 1) AS g (n)
"""
HEADS = """
INSERT INTO stream (id, version, epoch, position, recorded_at)
SELECT e.stream, max(e.version), 1, max(e.position), max(e.recorded_at) FROM event AS e GROUP BY e.stream
"""


def _month(ahead: int) -> datetime:
    today = datetime.now(timezone.utc)
    year, month = divmod(today.year * 12 + today.month - 1 + ahead, 12)
    return datetime(year, month + 1, 1, tzinfo=timezone.utc)


async def test_a_stream_is_read_by_its_key_across_24_partitions(two_years: str) -> None:
    for name in ("read_forwards", "read_backwards"):
        nodes, pages = await plan(
            two_years,
            name,
            {"stream": "agent/7", "after_version": 100, "until_version": 2**62, "limit": 10, "bytes": 16_000_000},
        )
        assert scans(nodes) == {("Index Scan", "pkey")}
        assert pages < 300
    async with Reader(two_years, SCHEMA) as reader:
        seen = [event.version async for event in reader.read("agent/7", batch=100)]
    assert seen == list(range(1, MONTHS * PER_MONTH // STREAMS + 1))


async def test_one_agent_and_one_minute_are_found_by_index(two_years: str) -> None:
    since = _month(-12) + timedelta(days=3)
    async with Reader(two_years, SCHEMA) as reader:
        everything = [
            e async for e in reader.tail(follow=False) if since <= e.recorded_at < since + timedelta(hours=40)
        ]
        wanted = MessageFilter(stream="agent/7", since=since, until=since + timedelta(hours=40), newest_first=False)
        found = await reader.messages(wanted)
        assert found == [event for event in everything if event.stream == "agent/7"] != []
    nodes, pages = await plan(
        two_years,
        "version_bounds",
        {
            "stream": "agent/7",
            "since": since,
            "until": since + timedelta(minutes=1),
            "cursor": None,
            "newest_first": True,
        },
    )
    assert nodes[0]["Node Type"] == "Result"
    assert pages < 12000  # 4 searches of 10 probes in 27 partitions: about 5 ms
    nodes, pages = await plan(two_years, "stream_messages_newest", FILTER | {"stream": "agent/7"})
    assert scans(nodes) == {("Index Scan", "pkey")}


@pytest.mark.parametrize(
    ("given", "index"),
    [
        ({"since": _month(-5), "until": _month(-5) + timedelta(hours=1)}, "recorded_at_idx"),
        ({"correlation": "00000000-0000-0000-0000-000000000001"}, "correlation_idx"),
        ({"cause": "00000000-0000-0000-0000-000000000001"}, "cause_idx"),
        ({"limit": 10}, "position_idx"),
    ],
)
async def test_an_audit_page_over_all_streams_uses_the_index_of_its_filter(
    two_years: str, given: dict[str, Any], index: str
) -> None:
    for name, start in (("messages_newest", 2**62), ("messages_oldest", 0)):
        nodes, pages = await plan(two_years, name, FILTER | {"after": start} | given)
        assert {used for _, used in scans(nodes)} == {index}
        assert pages < 300


async def test_the_other_hot_reads_use_their_indexes(two_years: str) -> None:
    for name, parameters, index in [
        (
            "tail",
            {"after": (MONTHS - 1) * PER_MONTH << 20, "until": 2**62, "limit": 10, "bytes": 16_000_000},
            "position_idx",
        ),
        ("restorations", {"stream": "agent/7"}, "stream_version_idx"),
        ("position_at", {"time": _month(-3)}, "recorded_at_idx"),
        (
            "find_appended",
            {"streams": ["agent/7"], "versions": [5], "ids": ["00000000-0000-0000-0000-000000000001"]},
            "id_idx",
        ),
    ]:
        nodes, pages = await plan(two_years, name, parameters)
        assert {used for _, used in scans(nodes)} == {index}, name
        assert pages < 300, name


async def test_a_head_is_found_by_its_key(two_years: str) -> None:
    await fetch(two_years, "INSERT INTO stream (id) SELECT 'other/' || n FROM generate_series(1, 20000) AS g (n)")
    await fetch(two_years, "ANALYZE stream")
    for name, parameters in (
        ("head", {"stream": "agent/7"}),
        ("heads", {"after": "agent/", "before": "agent0", "limit": 10}),
    ):
        nodes, pages = await plan(two_years, name, parameters)
        assert [node.get("Index Name") for node in nodes if "Relation Name" in node] == ["stream_pkey"]
        assert pages < 30


FILTER: dict[str, Any] = {
    "first_stream": None, "last_stream": None, "event_types": None, "message_type": None, "sender": None,
    "recipient": None, "topic": None, "since": None, "until": None, "outcome": None, "correlation": None,
    "cause": None, "delivery": None, "after": 0, "limit": 100, "after_version": 0, "until_version": 2**62,
}  # fmt: skip


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
        (node["Node Type"], node.get("Index Name", "").removeprefix(node["Relation Name"] + "_").rstrip("1"))
        for node in nodes
        if node.get("Relation Name", "").startswith("event_")
        and node["Actual Loops"] > 0
        and node["Shared Hit Blocks"] + node["Shared Read Blocks"] > 0  # an empty partition is scanned, at no cost
    }
