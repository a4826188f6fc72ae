"""Lost connections, lost acknowledgements, lost servers."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import psycopg
import pytest

from autogen_eventlog.errors import DatabaseUnavailable, StreamFenced, VersionConflict
from autogen_eventlog.postgres.embedded import EmbeddedServer, open_embedded
from autogen_eventlog.postgres.schema import prepare
from autogen_eventlog.postgres.session import connect
from autogen_eventlog.postgres.writer import Writer
from autogen_eventlog.testing.waiting import wait_until
from tests.integration.store import (
    APPENDING,
    SCHEMA,
    Producer,
    Store,
    a_waiting_append,
    check_whole,
    eventually,
    fetch,
    holding_the_head,
    kill_backends,
    open_store,
)

APPENDING_BACKEND = "query LIKE '%FROM append(%'"


async def test_backends_killed_again_and_again_under_load_lose_and_double_nothing(dsn: str) -> None:
    async with open_store(dsn, max_batch_events=40) as store:
        agents = [await store.claimed(f"agent/{number}") for number in range(8)]
        killed = 0
        for _ in range(15):
            tickets = [agent.submit() for _ in range(25) for agent in agents]
            # Wait for some, so that the kill falls between, before and in commits, as it comes.
            await tickets[len(tickets) // 3]
            killed += await kill_backends(dsn, APPENDING_BACKEND)
        await store.writer.flush()
        statistics = store.writer.statistics()
        for agent in agents:
            check_whole(await store.stored(agent.stream), agent.submitted)
    assert killed > 0
    assert statistics.reconnects > 0
    assert statistics.events == sum(len(agent.submitted) for agent in agents)


async def test_a_socket_that_has_ended_is_watched_no_longer(dsn: str) -> None:
    """Its number may be given to the next connection, before the append goes on that finds it ended."""
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        async with holding_the_head(dsn, "agent/1"):
            ticket = agent.submit()
            await a_waiting_append(dsn)
            link = store.writer._committer._link  # pyright: ignore[reportPrivateUsage]
            assert link is not None
            link.abort()
            select.select([link._socket], [], [], 5)  # pyright: ignore[reportPrivateUsage]
            link._arrived()  # pyright: ignore[reportPrivateUsage]
            assert not link._listening  # pyright: ignore[reportPrivateUsage]
        await ticket
        check_whole(await store.stored("agent/1"), agent.submitted)


async def test_an_append_killed_while_it_waits_is_sent_again(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent, other = await store.claimed("agent/1"), await store.claimed("other/1")
        async with holding_the_head(dsn, "agent/1"):
            tickets = [agent.submit(), other.submit(), agent.submit()]
            [first] = await a_waiting_append(dsn)
            await kill_backends(dsn, f"pid = {first}")
            await eventually(lambda: _another(dsn, first), "the writer tries again")
        for ticket in tickets:
            await ticket
        check_whole(await store.stored("agent/1"), agent.submitted)
        check_whole(await store.stored("other/1"), other.submitted)
        assert store.writer.statistics().unknown_outcomes == 1


async def test_a_connection_that_ends_while_nothing_is_sent_costs_no_turns_of_the_loop(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        await agent.submit()
        await kill_backends(dsn, "query LIKE '%FROM append(%'")

        async def deaf() -> bool:
            return not store.writer._committer._link._listening  # type: ignore[union-attr] # pyright: ignore

        await eventually(deaf, "the loop no longer watches the dead connection")
        await agent.submit()
        check_whole(await store.stored("agent/1"), agent.submitted)
        assert store.writer.statistics().reconnects == 1


async def test_an_append_that_commits_after_its_connection_died_is_found_not_doubled(dsn: str) -> None:
    """The old backend lives on behind a broken connection and commits first; the second copy finds its own events."""
    async with open_store(dsn) as store:
        agent, other = await store.claimed("agent/1"), await store.claimed("other/1")
        async with holding_the_head(dsn, "agent/1"):
            tickets = [agent.submit(), other.submit(), agent.submit()]
            await a_waiting_append(dsn)
            break_connection(store.writer)
            await eventually(lambda: _count(dsn, 2), "old and new copy wait for the same row")
        committed = [await ticket for ticket in tickets]
        check_whole(await store.stored("agent/1"), agent.submitted)
        check_whole(await store.stored("other/1"), other.submitted)
        stored = {
            (event.stream, event.version): event
            for agent in ("agent/1", "other/1")
            for event in await store.stored(agent)
        }
        for done in committed:
            event = stored[done.stream, done.version]
            assert (event.position, event.recorded_at) == (done.position, done.recorded_at)
        assert store.writer.statistics().unknown_outcomes_committed == 3


async def test_an_append_that_committed_before_the_writer_is_back_is_found(dsn: str) -> None:
    """The writer's next connection waits at the door (a lock) until the old backend has committed."""
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        door = await connect(dsn, SCHEMA)
        await door.execute(b"ALTER TABLE event DETACH PARTITION " + next_month())
        await door.execute(b"ALTER TABLE " + next_month() + b" RENAME TO elsewhere")
        await door.execute(b"SELECT pg_advisory_lock(hashtext('autogen-eventlog prepare'), hashtext('eventlog'))")
        async with holding_the_head(dsn, "agent/1") as holder:
            ticket = agent.submit()
            await a_waiting_append(dsn)
            break_connection(store.writer)
            await holder.execute(b"COMMIT")
        await eventually(lambda: _stored(store, "agent/1"), "the old backend has committed")
        assert not ticket.done
        await door.close()
        committed = await ticket
        check_whole(await store.stored("agent/1"), agent.submitted)
        statistics = store.writer.statistics()
    assert committed.version == 1
    assert (statistics.unknown_outcomes, statistics.unknown_outcomes_committed, statistics.commits) == (1, 1, 0)


async def test_a_lost_append_is_refused_when_another_owner_came_first(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        async with holding_the_head(dsn, "agent/1") as holder:
            ticket = agent.submit()
            [old] = await a_waiting_append(dsn)
            await kill_backends(dsn, f"pid = {old}")
            await holder.execute(b"UPDATE stream SET epoch = epoch + 1 WHERE id = 'agent/1'")
        with pytest.raises(StreamFenced):
            await ticket
        assert await store.stored("agent/1") == []


async def test_a_foreign_event_at_the_same_version_is_a_conflict_even_after_a_doubt(dsn: str) -> None:
    async with open_store(dsn) as store, Writer(dsn, SCHEMA) as rival:
        agent = await store.claimed("agent/1")
        other = Producer(rival, "agent/1", agent.epoch)
        async with holding_the_head(dsn, "agent/1"):
            theirs = other.submit()
            await a_waiting_append(dsn)
            ours = agent.submit()
            await eventually(lambda: _count(dsn, 2), "both wait")
            break_connection(store.writer)
            await eventually(lambda: _count(dsn, 3), "our second copy waits too")
        await theirs
        with pytest.raises(VersionConflict):
            await ours
        check_whole(await store.stored("agent/1"), other.submitted)


async def test_reading_goes_on_after_its_connections_were_killed(dsn: str) -> None:
    async with open_store(dsn) as store:
        agent = await store.claimed("agent/1")
        await agent.submit()
        tail = store.reader.tail(poll=0.02)
        assert (await tail.__anext__()).version == 1
        for version in (2, 3, 4):
            await kill_backends(dsn, "application_name = '' AND backend_type = 'client backend'")
            assert (await agent.submit()).version == version
            assert (await tail.__anext__()).version == version
            assert len(await store.stored("agent/1")) == version
        await tail.aclose()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with open_embedded(tmp_path / "data") as server:
        yield server
        server.ensure_running()


async def test_a_server_that_crashes_and_comes_back_loses_nothing(own_server: EmbeddedServer) -> None:
    """Immediate shutdown in mid-load; ensure_server starts it again."""
    await prepare(own_server.dsn, SCHEMA)
    async with open_store(own_server.dsn, ensure_server=own_server.ensure_running) as store:
        agents = [await store.claimed(f"agent/{number}") for number in range(4)]
        for _ in range(3):
            tickets = [agent.submit() for _ in range(50) for agent in agents]
            await tickets[20]
            stop(own_server)
            for ticket in tickets:
                await ticket
        for agent in agents:
            check_whole(await store.stored(agent.stream), agent.submitted)


async def test_a_server_that_stays_away_fails_loudly_and_the_writer_is_usable_later(own_server: EmbeddedServer) -> None:
    await prepare(own_server.dsn, SCHEMA)
    async with open_store(own_server.dsn, unavailable_after=0.3) as store:
        agent = await store.claimed("agent/1")
        await agent.submit()
        stop(own_server)
        failed = [agent.submit() for _ in range(5)]
        for ticket in failed:
            with pytest.raises(DatabaseUnavailable) as caught:
                await ticket
            assert caught.value.waited_seconds == 0.3
            assert caught.value.server.endswith("/eventlog")
        with pytest.raises(DatabaseUnavailable):
            await store.reader.head("agent/1")
        await asyncio.to_thread(own_server.ensure_running)
        again = await store.claimed("agent/1")
        assert (again.epoch, again.version) == (agent.epoch + 1, 1)
        await again.submit()
        check_whole(await store.stored("agent/1"), [*agent.submitted[:1], *again.submitted])


async def test_opening_without_a_server_says_which_and_for_how_long(tmp_path: Path) -> None:
    dsn = f"host={tmp_path} port=1 user=nobody dbname=nothing password=secret"
    for opening in (Writer(dsn, SCHEMA, unavailable_after=0.05).open(), prepare(dsn, SCHEMA, unavailable_after=0.05)):
        with pytest.raises(DatabaseUnavailable) as caught:
            await opening
        assert "secret" not in str(caught.value)
        assert (caught.value.server, caught.value.waited_seconds) == (f"{tmp_path}:1/nothing", 0.05)
    assert caught.value.dsn_source == "the one given"
    assert "The log was not opened; its dsn is the one given. Check the dsn" in str(caught.value)


async def test_a_call_that_hangs_is_given_up(dsn: str) -> None:
    async with open_store(dsn, unavailable_after=0.3) as store:
        agent = await store.claimed("agent/1")
        async with holding_the_head(dsn, "agent/1"):
            with pytest.raises(DatabaseUnavailable):
                await agent.submit()


def break_connection(writer: Writer) -> None:
    """As if the network had: the server's side lives on. There is no public way to do that to a healthy connection."""
    link = writer._committer._link  # pyright: ignore[reportPrivateUsage]
    assert link is not None
    link.abort()


def next_month() -> bytes:
    """The name of next month's partition."""
    today = datetime.now(timezone.utc)
    year, month = divmod(today.year * 12 + today.month, 12)
    return f"event_{year}_{month + 1:02}".encode()


def stop(server: EmbeddedServer) -> None:
    """pg_ctl stop -m immediate."""
    with psycopg.connect(server.dsn) as connection:
        row = connection.execute("SELECT pg_read_file('postmaster.pid')").fetchone()
    assert row is not None
    os.kill(int(row[0].split()[0]), signal.SIGQUIT)
    wait_until(lambda: not _answers(server.dsn), "the server is gone")


def _answers(dsn: str) -> bool:
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return False
    return True


async def _count(dsn: str, expected: int) -> bool:
    return len(await fetch(dsn, APPENDING + " AND wait_event_type = 'Lock' AND state = 'active'")) == expected


async def _another(dsn: str, old: int) -> bool:
    pids = [row[0] for row in await fetch(dsn, APPENDING + " AND wait_event_type = 'Lock' AND state = 'active'")]
    return bool(pids) and old not in pids


async def _stored(store: Store, stream: str) -> bool:
    return bool(await store.stored(stream))
