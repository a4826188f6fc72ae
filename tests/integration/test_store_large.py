"""Large payloads: each is kept once a month, and read in full wherever events are read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import psycopg
import pytest

from autogen_eventlog import EventLog
from autogen_eventlog.errors import PayloadCorrupt, VersionConflict
from autogen_eventlog.postgres.large import LARGE, References, apart, is_lost
from autogen_eventlog.postgres.records import MessageFilter
from tests.integration.store import Store, an_event, check_whole, fetch, kill_backends, open_store

SMALL = b'"' + b"s" * (LARGE - 3) + b'"'
PICTURE = b'"' + b"p" * LARGE + b'"'


async def kept(store: Store) -> list[tuple[bytes, int]]:
    return [(row[0], row[1]) for row in await store.fetch("SELECT hash, octet_length(payload) FROM large_payload")]


async def payloads(store: Store, stream: str) -> list[bytes | None]:
    return [event.payload for event in await store.stored(stream)]


async def test_a_payload_that_many_events_have_is_one_row(dsn: str) -> None:
    async with open_store(dsn) as store:
        agents = [await store.claimed(f"agent/{number}") for number in range(30)]
        for _ in range(3):
            tickets = [agent.submit(an_event(payload=PICTURE), an_event(payload=SMALL)) for agent in agents]
            await asyncio.gather(*(ticket.settled() for ticket in tickets))
        assert await kept(store) == [(sha256(PICTURE).digest(), len(PICTURE))]
        for agent in agents:
            stored = await store.stored(agent.stream)
            check_whole(stored, agent.submitted)
            assert [event.payload for event in stored] == [PICTURE, SMALL] * 3


@pytest.mark.parametrize("size", [LARGE - 1, LARGE, LARGE + 1, 3_000_000])
async def test_any_size_is_read_as_it_was_written(dsn: str, size: int) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        payload = os.urandom(size)
        await agent.submit(an_event(payload=payload), an_event(payload=payload), an_event(payload=None))
        assert await payloads(store, "agent/1") == [payload, payload, None]
        assert len(await kept(store)) == (size >= LARGE)


async def test_what_looks_like_a_reference_is_none(dsn: str) -> None:
    reference = References().to(PICTURE)
    awkward = [reference, b"\0", b"\0" * 33, b"\0" + b"x" * 32, b"", PICTURE]
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        await agent.submit(*(an_event(payload=payload) for payload in awkward))
        assert await payloads(store, "agent/1") == awkward


async def test_every_way_to_read_gives_it_in_full(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        await agent.submit(an_event(payload=PICTURE, sender="x/1", message_id="m"))
        filters = [MessageFilter(), MessageFilter(newest_first=True), MessageFilter(stream="agent/1")]
        for filter in filters:
            (found,) = await store.reader.messages(filter)
            assert found.payload == PICTURE
        async for event in store.reader.read("agent/1", backwards=True):
            assert event.payload == PICTURE
        async for event in store.reader.tail():
            assert event.payload == PICTURE
            break
        assert await store.fetch("SELECT payload #>> '{}' FROM event_json") == [(PICTURE.decode().strip('"'),)]
        assert await store.fetch("SELECT octet_length(payload) FROM event") == [(33,)]


async def test_what_is_refused_leaves_no_payload_behind(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent, other = await store.claimed("agent/1"), await store.claimed("agent/2")
        agent.version = 7
        refused, accepted = agent.submit(an_event(payload=PICTURE)), other.submit(an_event(payload=PICTURE + b" "))
        await asyncio.gather(refused.settled(), accepted.settled())
        with pytest.raises(VersionConflict):
            await refused
        assert [row[0] for row in await kept(store)] == [sha256(PICTURE + b" ").digest()]


async def test_writers_at_once_that_keep_the_same_payloads_wait_for_each_other(dsn: str) -> None:
    """None fails, whatever the order in which each batch names them."""
    pictures = [PICTURE + b" " * number for number in range(8)]
    stores = [open_store(dsn) for _ in range(4)]
    opened = [await store.__aenter__() for store in stores]
    try:
        agents = [await store.claimed(f"agent/{number}") for number, store in enumerate(opened)]

        async def write(number: int) -> None:
            for turn in range(20):
                order = sorted(pictures, key=lambda picture: sha256(picture + bytes([number, turn])).digest())
                await agents[number].submit(*(an_event(payload=picture) for picture in order))

        await asyncio.gather(*(write(number) for number in range(len(agents))))
        for store, agent in zip(opened, agents, strict=True):
            stored = await store.stored(agent.stream)
            check_whole(stored, agent.submitted)
            assert [event.payload for event in stored] == [event.payload for event in agent.submitted]
        assert len(await kept(opened[0])) == len(pictures)
    finally:
        for store in stores:
            await store.__aexit__(None, None, None)


async def test_a_killed_backend_loses_and_doubles_none(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        for turn in range(30):
            tickets = [agent.submit(an_event(payload=PICTURE + b" " * turn)) for _ in range(4)]
            if turn % 3 == 0:
                await kill_backends(dsn, "query LIKE '%%append%%'")
            await asyncio.gather(*tickets)
        stored = await store.stored("agent/1")
        check_whole(stored, agent.submitted)
        assert [event.payload for event in stored] == [event.payload for event in agent.submitted]


async def test_pages_of_large_payloads_are_bounded_by_their_bytes(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_store(dsn) as store:
        agent, pages = await store.claimed("agent/1"), list[int]()
        for number in range(10):
            tickets = [agent.submit(an_event(payload=bytes([65 + number]) * 1_000_000)) for _ in range(5)]
            await asyncio.gather(*tickets)
        fetch = store.reader.pool.fetch

        async def counted(*arguments: Any, **more: Any) -> Any:
            rows = await fetch(*arguments, **more)
            pages.append(len(rows))
            return rows

        monkeypatch.setattr(store.reader.pool, "fetch", counted)
        check_whole(await store.stored("agent/1"), agent.submitted)
        assert pages == [16, 16, 16, 2]
        backwards = [event.version async for event in store.reader.read("agent/1", backwards=True)]
        assert backwards == list(range(50, 0, -1))
        assert [event.version async for event in store.reader.tail(follow=False)] == list(range(1, 51))


@pytest.mark.parametrize(
    "change", ["DELETE FROM large_payload", "UPDATE large_payload SET payload = ''", "TRUNCATE large_payload"]
)
async def test_payloads_are_never_changed(dsn: str, change: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        await agent.submit(an_event(payload=PICTURE))
        (month,) = await fetch(dsn, "SELECT tableoid::regclass::text FROM large_payload")
        assert month[0].startswith("large_payload_2")
        for statement in (change, change.replace("large_payload", month[0])):
            with pytest.raises(psycopg.Error) as caught:
                await fetch(dsn, statement)
            assert caught.value.sqlstate == "EL002"


async def test_a_reference_without_its_payload_is_refused_when_written(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        reference = References().to(PICTURE).hex()
        statement = (
            f"SELECT * FROM append_large(ARRAY[ROW(1, {agent.epoch}, gen_random_uuid(), now(), 0, 0, 'agent/1', 'x', "
            f"NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{{}}', '\\x{reference}')::event_input], '{{}}')"
        )
        with pytest.raises(psycopg.Error) as caught:
            await fetch(dsn, statement)
        assert caught.value.sqlstate == "EL004"
        assert await store.stored("agent/1") == []


@pytest.mark.parametrize("change", ["DELETE FROM large_payload", "UPDATE large_payload SET payload = payload || ' '"])
async def test_a_payload_that_is_gone_or_altered_is_corrupt_not_missing_or_another(dsn: str, change: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        await agent.submit(an_event(payload=PICTURE, message_type="builtins:str"))
    with psycopg.connect(dsn, options="-c search_path=eventlog", autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(change)
    async with EventLog.open(dsn) as log:
        (event,) = [event async for event in log.read("agent/1")]
        assert is_lost(event.payload)
        with pytest.raises(PayloadCorrupt) as caught:
            log.codec.decode(event.payload, where="payload")
        assert "large_payload" in caught.value.problem and sha256(PICTURE).hexdigest() in caught.value.problem


async def test_with_no_month_of_its_own_it_lies_in_the_default_partition(dsn: str) -> None:
    async with open_store(dsn) as store:
        for table in ("event", "large_payload"):
            for (name,) in await fetch(
                dsn, f"SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = '{table}'::regclass"
            ):
                if not name.endswith("default"):
                    await fetch(dsn, f"DROP TABLE {name}")
        agent = await store.claimed("agent/1")
        await agent.submit(an_event(payload=PICTURE))
        assert await payloads(store, "agent/1") == [PICTURE]
        await fetch(dsn, "SELECT ensure_partitions()")  # this month stays where it is
        await agent.submit(an_event(payload=PICTURE))
        assert await payloads(store, "agent/1") == [PICTURE, PICTURE]
        assert await fetch(dsn, "SELECT DISTINCT tableoid::regclass::text FROM large_payload") == [
            ("large_payload_default",)
        ]


def test_apart_keeps_each_once_and_in_its_place() -> None:
    cases: Sequence[bytes | None] = [None, b"1", PICTURE, b"\0", PICTURE, bytes(PICTURE)]
    rows, large = apart(cases)
    assert [row in (None, b"1") for row in rows] == [True, True, False, False, False, False]
    assert rows[2] == rows[4] == rows[5] != rows[3]
    assert large == [PICTURE, b"\0"]
