"""Appending: what is stored, what is refused, and in which order."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from autogen_eventlog.errors import (
    AppendFailed,
    AppendRefused,
    EventLogError,
    EventTooLarge,
    LogClosed,
    NotEncodable,
    SchemaError,
    StreamFenced,
    VersionConflict,
)
from autogen_eventlog.events import EventData, EventType, Outcome
from autogen_eventlog.postgres import writer as writing
from autogen_eventlog.postgres.schema import prepare
from autogen_eventlog.postgres.writer import Ticket, Writer
from tests.integration.store import (
    SCHEMA,
    Producer,
    a_waiting_append,
    an_event,
    check_whole,
    events,
    eventually,
    fetch,
    holding_the_head,
    open_store,
)

FULL = EventData(
    id=uuid4(),
    type=EventType.DELIVERY_COMPLETED,
    occurred_at=datetime(2024, 2, 29, 23, 59, 59, 999_999, timezone(timedelta(hours=5, minutes=30))),
    delivery=2**40,
    call=7,
    sender="planner/7",
    recipient="a/b/c",
    topic="news/ünïcode 🐘",
    message_id="",
    message_type="some.module:Message",
    payload=b'{"text":"\\u0000 \\ud800","n":1.10}',
    outcome=Outcome.RAISED,
    cause=uuid4(),
    correlation=uuid4(),
    metadata={
        "tick": 2**70,
        "text": "nul \0, lone \ud800, é",
        "clock": [0.1, 1e300, -0.0],
        "none": None,
        "nested": {"": []},
    },
)


A_ROW = (
    "ROW({version}, {epoch}, gen_random_uuid(), now(), 0, 0, 'agent/1', 'x', "
    "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{{}}', NULL)::event_input"
)


async def test_what_is_read_is_what_was_appended_in_every_field(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        bare = an_event()
        committed = await agent.submit(FULL, bare)
        first, second = await store.stored("agent/1")
    recorded = asdict(first)
    for field in ("stream", "version", "position", "epoch", "recorded_at"):
        del recorded[field]
    assert recorded == asdict(FULL)
    assert (second.payload, second.metadata, second.call, second.sender) == (None, {}, None, None)
    assert (committed.stream, committed.version) == ("agent/1", 2)
    assert (second.position, second.recorded_at) == (committed.position, committed.recorded_at)
    assert first.recorded_at.utcoffset() == timedelta(0)


async def test_many_streams_and_many_pending_appends_are_stored_whole_and_in_order(dsn: str) -> None:
    async with open_store(dsn, max_batch_events=50) as store:
        agents = [await store.claimed(f"agent/{number}") for number in range(20)]
        tickets = [agent.submit(*events(1 + turn % 3)) for turn in range(30) for agent in agents]
        committed = [await ticket for ticket in tickets]
        for agent in agents:
            check_whole(await store.stored(agent.stream), agent.submitted)
        tail = [event.id async for event in store.reader.tail(follow=False)]
        statistics = store.writer.statistics()
    positions = [done.position for done in committed]
    assert positions == sorted(positions)
    assert len(tail) == sum(len(agent.submitted) for agent in agents) == statistics.events
    assert statistics.commits < len(tickets)
    assert (statistics.pending_appends, statistics.pending_events, statistics.pending_bytes) == (0, 0, 0)


async def test_a_batch_larger_than_the_sockets_buffer_is_stored(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        for size in (8_000_000, 1):
            await agent.submit(an_event(payload=b'"' + b"x" * size + b'"'))
        check_whole(await store.stored("agent/1"), agent.submitted)
        assert [len(event.payload or b"") for event in await store.stored("agent/1")] == [8_000_002, 3]


async def test_appends_that_are_awaited_at_once_share_a_commit(dsn: str) -> None:
    async with open_store(dsn) as store:
        agents = [await store.claimed(f"agent/{number}") for number in range(10)]
        await asyncio.gather(*(agent.submit().settled() for agent in agents))
        assert store.writer.statistics().commits == 1
        await agents[0].submit()
        await agents[0].submit()
        assert store.writer.statistics().commits == 3


async def test_an_append_that_nobody_waits_for_is_held_back_until_somebody_is_about_to(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_LONGEST_GATHER_SECONDS", 60.0)
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        first, second = agent.submit(), agent.submit()
        await asyncio.sleep(0.05)
        assert store.writer.statistics().commits == 0
        second.hurry()

        async def both_done() -> bool:
            return first.done and second.done

        await eventually(both_done, "both are stored")
        assert store.writer.statistics().commits == 1


async def test_an_append_that_nobody_waits_for_is_stored_soon(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        for _ in range(3):
            ticket = agent.submit()

            async def stored(ticket: Ticket = ticket) -> bool:
                return ticket.committed

            await eventually(stored, "it is stored")


async def test_of_many_appends_the_first_half_goes_on_while_the_others_are_told(dsn: str) -> None:
    turns: dict[int, int] = {}
    turn = 0

    async def wait(number: int, ticket: Ticket) -> None:
        await ticket
        turns[number] = turn

    async with open_store(dsn) as store:
        agents = [await store.claimed(f"agent/{number}") for number in range(200)]
        waiting = [asyncio.create_task(wait(number, agent.submit())) for number, agent in enumerate(agents)]
        while len(turns) < len(agents):
            turn += 1
            await asyncio.sleep(0)
        await asyncio.gather(*waiting)
        assert store.writer.statistics().commits == 1
    assert list(turns) == list(range(200))
    assert {turns[number] for number in range(100)} == {turns[0]}
    assert {turns[number] for number in range(100, 200)} == {turns[0] + 1}


async def test_append_with_stale_epoch_is_refused(dsn: str) -> None:
    async with open_store(dsn) as store:
        stale = await store.claimed("agent/1")
        await stale.submit()
        current = await store.claimed("agent/1")
        with pytest.raises(StreamFenced) as caught:
            await stale.submit()
        await current.submit()
        check_whole(await store.stored("agent/1"), [*stale.submitted[:1], *current.submitted])
    assert (caught.value.stream, caught.value.expected, caught.value.found) == ("agent/1", 1, 2)


async def test_append_to_a_stream_that_nobody_claimed_is_refused(dsn: str) -> None:
    async with open_store(dsn) as store:
        with pytest.raises(StreamFenced) as caught:
            await store.writer.append("agent/1", 1, 0, events(1))
        assert await store.reader.head("agent/1") is None
    assert caught.value.found == 0


@pytest.mark.parametrize("expected", [1, 4])
async def test_append_at_another_version_is_refused(dsn: str, expected: int) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        await agent.submit(*events(2))
        with pytest.raises(VersionConflict) as caught:
            await store.writer.append("agent/1", agent.epoch, expected, events(1))
        assert len(await store.stored("agent/1")) == 2
    assert (caught.value.stream, caught.value.expected, caught.value.found) == ("agent/1", expected, 2)


async def test_nothing_is_stored_behind_a_refused_append_and_other_streams_go_on(dsn: str) -> None:
    async with open_store(dsn, max_batch_events=2) as store:
        good = await store.claimed("good/1")
        bad = await store.claimed("bad/1")
        bad.version = 5
        refused = [bad.submit() for _ in range(6)]
        accepted = [good.submit() for _ in range(6)]
        more = [bad.submit() for _ in range(3)]
        for ticket in accepted:
            await ticket
        errors = [await _error(ticket) for ticket in refused + more]
        check_whole(await store.stored("good/1"), good.submitted)
        assert await store.stored("bad/1") == []
    assert {type(error) for error in errors} == {VersionConflict}
    assert {(error.expected, error.found) for error in errors if isinstance(error, AppendRefused)} == {(5, 0)}


async def test_two_claims_of_one_stream_in_one_batch_are_told_apart(dsn: str) -> None:
    async with open_store(dsn) as store:
        old = await store.claimed("agent/1")
        async with holding_the_head(dsn, "agent/1"):
            first = old.submit()
            await a_waiting_append(dsn)
            behind = old.submit()
            new = Producer(store.writer, "agent/1", old.epoch + 1, 1)
            ahead = new.submit()
        await first
        await behind
        assert isinstance(await _error(ahead), StreamFenced)
        check_whole(await store.stored("agent/1"), old.submitted)


async def test_what_postgres_text_cannot_hold_is_refused_before_it_is_sent(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        refused: list[tuple[dict[str, Any], str]] = [
            ({"topic": "nul\0"}, "topic"),
            ({"message_id": "nul\0"}, "message_id"),
            ({"sender": "lone \ud800"}, "sender"),
            ({"metadata": {"x": object()}}, "metadata"),
            ({"metadata": {"x": float("nan")}}, "metadata"),
        ]
        for fields, path in refused:
            with pytest.raises(NotEncodable) as caught:
                await store.writer.append("agent/1", agent.epoch, 0, [an_event(**fields)])
            assert caught.value.path == path
        await agent.submit(an_event(metadata={"x": "NaN and Infinity are words"}))
        assert (await store.stored("agent/1"))[0].metadata == {"x": "NaN and Infinity are words"}


async def test_an_event_over_the_bound_is_refused_and_later_ones_are_not(dsn: str) -> None:
    async with open_store(dsn, max_pending_bytes=100_000) as store:
        agent = await store.claimed("agent/1")
        with pytest.raises(EventTooLarge) as caught:
            await store.writer.append("agent/1", agent.epoch, 0, [an_event(payload=b"1" * 100_000)])
        await agent.submit()
    assert caught.value.stream == "agent/1"
    assert caught.value.size_bytes > caught.value.limit_bytes == 100_000


async def test_an_append_that_the_database_cannot_take_fails_alone(dsn: str) -> None:
    """A constraint stands for whatever a row may break in the server."""
    async with open_store(dsn) as store:
        agents = [await store.claimed(f"agent/{number}") for number in range(8)]
        await store.fetch("ALTER TABLE event ADD CONSTRAINT test CHECK (topic <> 'unstorable') NOT VALID")
        good = [agent.submit() for agent in agents[:3]]
        bad = [agents[3].submit(an_event(topic="unstorable")), agents[3].submit()]
        good += [agent.submit() for agent in agents[4:]]
        for ticket in good:
            await ticket
        errors = [await _error(ticket) for ticket in bad]
        assert await store.stored("agent/3") == []
    failures = [error for error in errors if isinstance(error, AppendFailed)]
    assert [(error.stream, error.sqlstate) for error in failures] == [("agent/3", "23514")] * 2


async def test_a_lost_schema_is_told_as_such(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        await store.fetch("ALTER TABLE stream RENAME TO other")
        with pytest.raises(SchemaError) as caught:
            await agent.submit()
        await store.fetch("ALTER TABLE other RENAME TO stream")
        agent.version = 0
        await agent.submit()
    assert caught.value.schema == SCHEMA


async def test_a_writer_without_a_schema_does_not_open(empty_dsn: str) -> None:
    with pytest.raises(SchemaError) as caught:
        await Writer(empty_dsn, SCHEMA).open()
    assert caught.value.schema == SCHEMA


async def test_a_closed_writer_refuses(dsn: str) -> None:
    writer = Writer(dsn, SCHEMA)
    with pytest.raises(LogClosed) as caught:
        await writer.submit("agent/1", 1, 0, events(1))
    assert caught.value.what == "writer"
    await writer.open()
    await writer.close()
    await writer.close()
    with pytest.raises(LogClosed):
        await writer.append("agent/1", 1, 0, events(1))


async def test_closing_commits_what_is_pending(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        async with Writer(dsn, SCHEMA, max_batch_events=10) as writer:
            producer = Producer(writer, "agent/1", agent.epoch)
            tickets = [producer.submit() for _ in range(100)]
        assert all(ticket.done for ticket in tickets)
        check_whole(await store.stored("agent/1"), producer.submitted)


async def test_closing_is_bounded_and_fails_what_is_left(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        async with holding_the_head(dsn, "agent/1"):
            ticket = agent.submit()
            await a_waiting_append(dsn)
            await store.writer.close(timeout=0.05)
            assert isinstance(await _error(ticket), LogClosed)


async def test_cancelling_one_waiter_takes_nothing_from_the_others(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        async with holding_the_head(dsn, "agent/1"):
            ticket = agent.submit()
            waiters = [asyncio.ensure_future(ticket.settled()) for _ in range(3)]
            await a_waiting_append(dsn)
            waiters[0].cancel()
        assert (await ticket).version == 1
        await asyncio.gather(*waiters[1:])
        assert waiters[0].cancelled()
        assert (await ticket) == (await ticket)


async def test_a_failed_ticket_that_nobody_awaits_makes_no_noise(dsn: str) -> None:
    async with open_store(dsn) as store:
        complaints: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        store.writer.submit("agent/1", 1, 0, events(1))
        await store.writer.flush()
        gc.collect()
    assert complaints == []


async def test_room_holds_callers_back_until_there_is_some(dsn: str) -> None:
    async with open_store(dsn, max_pending_bytes=20_000) as store:
        agent = await store.claimed("agent/1")
        async with holding_the_head(dsn, "agent/1"):
            while store.writer.statistics().pending_bytes < 20_000:
                await store.writer.room()
                agent.submit(an_event(payload=b"1" * 1000))
            waiting = asyncio.ensure_future(store.writer.room())
            await a_waiting_append(dsn)
            assert not waiting.done()
        await waiting
        await store.writer.flush()
        assert store.writer.statistics().pending_bytes == 0
        check_whole(await store.stored("agent/1"), agent.submitted)


async def test_two_writers_on_the_same_streams_do_not_deadlock(dsn: str) -> None:
    async with open_store(dsn) as store, Writer(dsn, SCHEMA) as other:
        streams = [f"agent/{number}" for number in range(12)]
        agents = {stream: await store.claimed(stream) for stream in streams}
        for _ in range(30):
            mine = [agents[stream].submit() for stream in streams]
            theirs = [other.submit(stream, 99, 0, events(1)) for stream in reversed(streams)]
            for ticket in mine:
                await ticket
            assert {type(await _error(ticket)) for ticket in theirs} == {StreamFenced}
        assert store.writer.statistics().reconnects == other.statistics().reconnects == 0


async def test_two_identical_messages_are_two_events(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        same: dict[str, Any] = {"sender": "user/1", "message_id": "same", "payload": b'"yes"'}
        await agent.submit(an_event(1, **same))
        await agent.submit(an_event(1, **same))
        assert [event.payload for event in await store.stored("agent/1")] == [b'"yes"', b'"yes"']


async def test_recorded_at_never_decreases_in_a_stream_even_if_the_clock_was_ahead(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        await agent.submit()
        [(ahead,)] = await store.fetch(
            "UPDATE stream SET recorded_at = now() + interval '1 day' WHERE id = 'agent/1' RETURNING recorded_at"
        )
        other = await store.claimed("agent/2")
        tickets = [agent.submit(), other.submit()]
        first, second = [await ticket for ticket in tickets]
        assert first.recorded_at == ahead
        assert second.recorded_at < ahead


async def test_positions_never_go_backwards_in_a_stream(dsn: str) -> None:
    """The safety net below raise_position_base: the writer reconnects, which raises the base, and goes on."""
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        before = await agent.submit()
        await store.fetch("UPDATE position_base SET base = base - (1000::bigint << 20)")
        after = await agent.submit()
        statistics = store.writer.statistics()
        assert after.position > before.position
        check_whole(await store.stored("agent/1"), agent.submitted)
    assert statistics.reconnects == 1


async def test_a_base_lowered_behind_the_head_is_refused_with_its_own_code(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        await agent.submit()
        await store.fetch("UPDATE position_base SET base = base - (1000::bigint << 20)")
        with pytest.raises(psycopg.Error) as caught:
            await fetch(dsn, f"SELECT stream FROM append(ARRAY[{A_ROW.format(version=2, epoch=1)}])")
        assert caught.value.sqlstate == "EL003"


async def test_a_malformed_batch_is_refused_with_its_own_code(dsn: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        await fetch(dsn, f"SELECT stream FROM append(array_fill({A_ROW.format(version=1, epoch=1)}, ARRAY[1048576]))")
    assert caught.value.sqlstate == "EL004"


@pytest.mark.parametrize("rows", [((1, 1), (3, 1)), ((1, 1), (2, 2)), ((2, 1), (4, 1))])
async def test_events_of_a_stream_that_do_not_follow_each_other_are_refused(
    dsn: str, rows: list[tuple[int, int]]
) -> None:
    given = ", ".join(A_ROW.format(version=version, epoch=epoch) for version, epoch in rows)
    async with open_store(dsn) as store:
        await store.claimed("agent/1")
        with pytest.raises(psycopg.Error) as caught:
            await fetch(dsn, f"SELECT stream FROM append(ARRAY[{given}])")
        assert await store.stored("agent/1") == []
    assert caught.value.sqlstate == "EL004"


async def test_two_schemas_in_one_database_are_two_logs(dsn: str) -> None:
    await prepare(dsn, 'second "log"')
    async with open_store(dsn) as store, Writer(dsn, 'second "log"') as other:
        agent = await store.claimed("agent/1")
        await agent.submit()
        with pytest.raises(StreamFenced):
            await other.append("agent/1", agent.epoch, 1, events(1))


async def test_submitting_nothing_is_a_mistake_of_the_caller(dsn: str) -> None:
    async with Writer(dsn, SCHEMA) as writer:
        with pytest.raises(ValueError, match="at least one event"):
            writer.submit("agent/1", 1, 0, [])


async def test_next_months_partition_is_there_and_takes_its_events(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        await agent.submit()
        [(partition,)] = await store.fetch("SELECT tableoid::regclass::text FROM event")
        assert partition == f"event_{datetime.now(timezone.utc):%Y_%m}"
        assert await store.fetch("SELECT ensure_partitions()") == [(0,)]
        assert len(await store.fetch("SELECT inhrelid FROM pg_inherits WHERE inhparent = 'event'::regclass")) == 3


async def _error(ticket: Ticket) -> EventLogError | None:
    await ticket.settled()
    return ticket.error
