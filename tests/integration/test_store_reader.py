"""Reading: pages, points in time, the tail that skips nothing."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from autogen_eventlog.errors import InvalidPoint, LogClosed, PayloadCorrupt, SchemaError
from autogen_eventlog.events import EventType, Outcome, RecordedEvent
from autogen_eventlog.postgres.reader import Reader
from autogen_eventlog.postgres.records import EVENT_COLUMNS, MessageFilter, Snapshot
from autogen_eventlog.postgres.session import connect
from autogen_eventlog.postgres.snapshots import Snapshots
from autogen_eventlog.postgres.writer import Writer
from tests.integration.store import SCHEMA, Producer, Store, an_event, events, eventually, open_store


async def test_reading_by_pages_gives_each_version_once_in_either_direction(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        await agent.submit(*events(25))
        for batch in (1, 7, 25, 26):
            assert await versions(store, batch=batch) == list(range(1, 26))
            assert await versions(store, batch=batch, backwards=True) == list(range(25, 0, -1))
            assert await versions(store, batch=batch, after_version=5, until_version=9) == [6, 7, 8, 9]
            assert await versions(store, batch=batch, after_version=5, until_version=9, backwards=True) == [9, 8, 7, 6]
        assert await versions(store, after_version=25) == []
        assert [event async for event in store.reader.read("nobody/1")] == []


async def test_a_position_or_a_time_selects_the_versions_up_to_it(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent, other = await store.claimed("agent/1"), await store.claimed("agent/10")
        marks = [await ticket for ticket in [await pair(agent, other) for _ in range(9)]]
        for version, mark in enumerate(marks, start=1):
            assert await store.reader.version_at("agent/1", position=mark.position) == version
            assert await store.reader.version_at("agent/1", position=mark.position - 1) == version - 1
            assert await store.reader.version_at("agent/1", time=mark.recorded_at) == version
            assert (
                await store.reader.version_at("agent/1", time=mark.recorded_at - timedelta(microseconds=1))
                == version - 1
            )
            assert await versions(store, until_position=mark.position) == list(range(1, version + 1))
        assert await store.reader.version_at("agent/1", position=0) == 0
        assert await store.reader.version_at("agent/1") == 9
        assert await store.reader.version_at("nobody/1", position=2**62) == 0


async def test_versions_dropped_by_retention_count_as_before_any_point(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        await agent.submit(*events(10))
        await store.fetch("SET session_replication_role = replica; DELETE FROM event WHERE version <= 4")
        stored = await store.stored("agent/1")
        assert await store.reader.version_at("agent/1", position=stored[2].position) == 7
        assert await store.reader.version_at("agent/1", position=1) == 0


async def test_the_position_at_a_time_is_the_largest_recorded_until_then(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        marks = [await agent.submit() for _ in range(5)]
        await store.reader.settle(10)
        for mark in marks:
            assert await store.reader.position_at(mark.recorded_at) == mark.position
        assert await store.reader.position_at(marks[0].recorded_at - timedelta(microseconds=1)) == 0


async def test_settling_waits_for_a_running_append_and_then_the_past_is_fixed(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        before = await agent.submit()
        late = await connect(dsn, SCHEMA)
        await late.execute(b"BEGIN")
        await late.execute(ONE_ROW, {"stream": "agent/1", "version": 2, "epoch": agent.epoch})
        [(now,)] = await store.fetch("SELECT clock_timestamp()")
        with pytest.raises(TimeoutError):
            await store.reader.settle(0.05)
        settling = asyncio.ensure_future(store.reader.settle(20))
        assert await store.reader.version_at("agent/1", time=now) == 1
        assert await store.reader.position_at(now) == before.position
        await late.execute(b"COMMIT")
        await late.close()
        horizon = await settling
        assert await store.reader.version_at("agent/1", time=now) == 2
        [_, event] = await store.stored("agent/1")
        assert event.position < horizon
        assert await store.reader.position_at(now) == event.position


async def test_the_tail_never_skips_an_append_that_commits_late(dsn: str) -> None:
    """The second transaction commits first; a reader that went by what is visible would never see the first."""
    async with open_store(dsn) as store:
        slow, fast = await store.claimed("slow/1"), await store.claimed("fast/1")
        late = await connect(dsn, SCHEMA)
        await late.execute(b"BEGIN")
        await late.execute(ONE_ROW, {"stream": "slow/1", "version": 1, "epoch": slow.epoch})
        await fast.submit()
        tail = store.reader.tail(poll=0.02)
        first = asyncio.ensure_future(tail.__anext__())
        await asyncio.wait([first], timeout=0.1)
        assert not first.done()
        await late.execute(b"COMMIT")
        await late.close()
        seen = [await first, await tail.__anext__()]
        await tail.aclose()
    assert [event.stream for event in seen] == ["slow/1", "fast/1"]


async def test_a_tail_follows_several_writers_and_misses_nothing(dsn: str) -> None:
    async with open_store(dsn) as store, Writer(dsn, SCHEMA) as second, Writer(dsn, SCHEMA) as third:
        agents: list[Producer] = []
        for number, writer in enumerate((store.writer, second, third)):
            claim = await store.ownership.claim(f"agent/{number}")
            agents.append(Producer(writer, claim.stream, claim.epoch))

        async def append(agent: Producer) -> None:
            for _ in range(100):
                await agent.submit(*events(2))

        seen: list[RecordedEvent] = []

        async def follow() -> None:
            async for event in store.reader.tail(poll=0.02, batch=7):
                seen.append(event)
                if len(seen) == 600:
                    return

        await asyncio.wait_for(asyncio.gather(follow(), *(append(agent) for agent in agents)), 60)
    positions = [event.position for event in seen]
    assert positions == sorted(set(positions))
    for agent in agents:
        assert [event.id for event in seen if event.stream == agent.stream] == [event.id for event in agent.submitted]


async def test_a_tail_that_does_not_follow_ends_with_what_was_committed(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        await agent.submit(*events(10))
        seen = [event async for event in store.reader.tail(follow=False, batch=3)]
        assert [event.version for event in seen] == list(range(1, 11))
        rest = [event.version async for event in store.reader.tail(after_position=seen[6].position, follow=False)]
        assert rest == [8, 9, 10]


async def test_heads_are_paged_by_id_and_by_agent_type(dsn: str) -> None:
    async with open_store(dsn) as store:
        ids = ["a/1", "a/2", "a/Ü", "a/é/x", "a-b/1", "a0/1", "b/1", "ab/1"]
        for stream in ids:
            await store.claimed(stream)
        assert [head.stream for head in await store.reader.heads()] == sorted(ids)
        assert [head.stream for head in await store.reader.heads(type="a")] == sorted(
            i for i in ids if i.startswith("a/")
        )
        paged: list[str] = []
        while page := await store.reader.heads(type="a", after=paged[-1] if paged else None, limit=3):
            paged += [head.stream for head in page]
        assert paged == sorted(i for i in ids if i.startswith("a/"))


async def test_a_head_says_where_the_stream_stands(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        head = await store.reader.head("agent/1")
        assert head is not None
        assert (head.version, head.epoch, head.position, head.recorded_at) == (0, 1, 0, None)
        committed = await agent.submit(*events(3))
        head = await store.reader.head("agent/1")
        assert head is not None
        assert (head.stream, head.version, head.epoch) == ("agent/1", 3, 1)
        assert (head.position, head.recorded_at) == (committed.position, committed.recorded_at)
        assert head.owner == store.ownership.worker_id
        assert head.created_at <= committed.recorded_at
        assert await store.reader.head("nobody/1") is None


async def test_restorations_are_listed_with_the_version_they_went_back_to(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        await agent.submit(*events(4))
        await agent.submit(an_event(type=EventType.STREAM_RESTORED, metadata={"to_version": 2}))
        await agent.submit(*events(1))
        await agent.submit(an_event(type=EventType.STREAM_RESTORED, metadata={"to_version": 5}))
        assert await store.reader.restorations("agent/1") == [(5, 2), (7, 5)]
        assert await store.reader.restorations("nobody/1") == []


async def test_each_filter_selects_what_it_says(dsn: str) -> None:
    async with open_store(dsn) as store:
        conversation, cause = uuid4(), uuid4()
        agent, other = await store.claimed("agent/1"), await store.claimed("other/1")
        fields: list[dict[str, Any]] = [
            {"message_type": "m:A"},
            {"sender": "user/1"},
            {"recipient": "other/1"},
            {"topic": "news/1"},
            {"outcome": Outcome.RAISED},
            {"correlation": conversation},
            {"cause": cause},
        ]
        for given in fields:
            await agent.submit(an_event(77, **given))
            await other.submit(an_event(1))
        await agent.submit(an_event(78, EventType.DELIVERY_COMPLETED))
        last = (await store.stored("agent/1"))[-1]
        everywhere: list[dict[str, Any]] = [{}, {"stream": "agent/1"}, {"agent_type": "agent"}]
        for given in fields:
            for where in everywhere:
                [event] = await store.reader.messages(MessageFilter(**given, **where))
                assert {name: getattr(event, name) for name in given} == given
            assert await store.reader.messages(MessageFilter(**given, stream="other/1")) == []
            assert await store.reader.messages(MessageFilter(**given, agent_type="other")) == []
        assert len(await store.reader.messages(MessageFilter(delivery=77))) == 7
        assert len(await store.reader.messages(MessageFilter(agent_type="agent"))) == 8
        chosen = MessageFilter(event_types=[EventType.DELIVERY_COMPLETED, EventType.MESSAGE_SENT])
        assert [event.version for event in await store.reader.messages(chosen)] == [8]
        for where in everywhere[:2]:
            at = last.recorded_at
            assert [e.version for e in await store.reader.messages(MessageFilter(since=at, **where))] == [8]
            assert [e.version for e in await store.reader.messages(MessageFilter(until=at, limit=1, **where))] == [7]


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("stream", [None, "agent/1"])
async def test_audit_pages_follow_each_other_by_position(dsn: str, newest_first: bool, stream: str | None) -> None:
    async with open_store(dsn) as store:
        agent, other = await store.claimed("agent/1"), await store.claimed("other/1")
        for _ in range(10):
            await pair(agent, other)
        await store.writer.flush()
        whole = [event async for event in store.reader.tail(follow=False) if stream in (None, event.stream)]
        seen: list[RecordedEvent] = []
        while True:
            cursor = seen[-1].position if seen else None
            page = await store.reader.messages(
                MessageFilter(stream=stream, newest_first=newest_first, after=cursor, limit=3)
            )
            seen += page
            if not page:
                break
    assert seen == (whole[::-1] if newest_first else whole)


async def test_a_time_without_a_zone_is_refused(dsn: str) -> None:
    naive = datetime(2024, 1, 1)  # noqa: DTZ001
    async with open_store(dsn) as store:
        for ask in (
            store.reader.version_at("agent/1", time=naive),
            store.reader.position_at(naive),
            store.reader.messages(MessageFilter(since=naive)),
            store.reader.messages(MessageFilter(until=naive)),
        ):
            with pytest.raises(InvalidPoint) as caught:
                await ask
            assert caught.value.point == "2024-01-01T00:00:00"


async def test_an_event_type_of_a_later_version_is_named(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        await store.fetch(f"SELECT stream FROM append(ARRAY[{row(1, agent.epoch, 'Dreamt')}::event_input])")
        with pytest.raises(PayloadCorrupt) as caught:
            await store.stored("agent/1")
    assert caught.value.where == "stream 'agent/1', version 1"
    assert "Dreamt" in caught.value.problem


async def test_a_closed_reader_refuses_and_one_without_a_schema_says_so(empty_dsn: str) -> None:
    async with Reader(empty_dsn, SCHEMA) as reader:
        with pytest.raises(SchemaError):
            await reader.head("agent/1")
    with pytest.raises(LogClosed) as caught:
        await reader.head("agent/1")
    assert caught.value.what == "reader"


async def test_many_reads_at_once_share_few_connections(dsn: str) -> None:
    async with Reader(dsn, SCHEMA, max_connections=3) as reader, open_store(dsn) as store:
        await asyncio.gather(*(reader.head(f"agent/{number}") for number in range(50)))
        [(before,)] = await store.fetch("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        await reader.close()

        async def fewer() -> bool:
            [(after,)] = await store.fetch("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
            return before - after == 3

        await eventually(fewer, "three connections are closed")


async def test_the_newest_fitting_snapshot_is_found(dsn: str) -> None:
    async with open_store(dsn) as store:
        snapshots = Snapshots(store.reader.pool)
        for version, kind, code in [(10, "deep", "x"), (20, "deep", "x"), (20, "own", "x"), (30, "deep", "y")]:
            await snapshots.put_snapshot(
                Snapshot("agent/1", version, version * 7, None, kind, code, b"\0state", {"tick": 1})
            )
        newest = await snapshots.latest_snapshot("agent/1")
        assert newest is not None
        assert (newest.version, newest.position, newest.payload, newest.metadata) == (30, 210, b"\0state", {"tick": 1})
        assert newest.taken_at is not None
        for found in (
            await snapshots.latest_snapshot("agent/1", code_hash="x", kind="deep"),
            await snapshots.latest_snapshot("agent/1", kind="own"),
        ):
            assert found is not None and found.version == 20
        found = await snapshots.latest_snapshot("agent/1", 19)
        assert found is not None and found.version == 10
        assert await snapshots.latest_snapshot("agent/1", 9) is None
        await snapshots.mark_snapshot(newest, "unusable")
        found = await snapshots.latest_snapshot("agent/1", without_status=["unusable"])
        assert found is not None and found.version == 20
        await snapshots.put_snapshot(newest)
        assert (await snapshots.list_snapshots("agent/1"))[0].status == "taken"
        await snapshots.delete_snapshots("agent/1", below_version=20)
        assert [snapshot.version for snapshot in await snapshots.list_snapshots("agent/1")] == [30, 20, 20]


def test_every_column_of_an_event_has_a_name_of_its_own() -> None:
    assert set(EVENT_COLUMNS) == set(RecordedEvent.__dataclass_fields__)


ONE_ROW = b"""
SELECT stream FROM append(ARRAY[ROW(
    %(version)s, %(epoch)s, gen_random_uuid(), now(), 1, 0, %(stream)s, 'MessageDelivered',
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{}', NULL
)::event_input])
"""


def row(version: int, epoch: int, type: str) -> str:
    return (
        f"ROW({version}, {epoch}, gen_random_uuid(), now(), 0, 0, 'agent/1', '{type}', "
        "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{}', NULL)"
    )


async def versions(store: Store, **options: Any) -> list[int]:
    return [event.version async for event in store.reader.read("agent/1", **options)]


async def pair(agent: Producer, other: Producer) -> Any:
    """One event of each, in two transactions; the ticket of the first."""
    ticket = agent.submit()
    await ticket
    await other.submit()
    return ticket
