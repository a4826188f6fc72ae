"""One owner (G6): epochs, polite taking over, workers that come and go."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from uuid import UUID, uuid4

import pytest

from autogen_eventlog.errors import DatabaseUnavailable, LogClosed, SchemaError, StreamFenced, StreamOwned
from autogen_eventlog.postgres.ownership import Ownership
from tests.integration.store import SCHEMA, a_waiting_append, events, eventually, fetch, holding_the_head, open_store


async def test_the_first_claim_makes_the_stream_and_each_further_one_takes_the_next_epoch(dsn: str) -> None:
    async with open_store(dsn) as store:
        first = await store.ownership.claim("agent/1")
        await store.writer.append("agent/1", 1, 0, events(3))
        second = await store.ownership.claim("agent/1")
    assert (first.stream, first.epoch, first.version, first.created) == ("agent/1", 1, 0, True)
    assert (second.epoch, second.version, second.created) == (2, 3, False)


async def test_a_live_owner_is_named_and_keeps_its_stream_unless_forced(dsn: str) -> None:
    async with Ownership(dsn, SCHEMA) as owner, Ownership(dsn, SCHEMA) as other:
        await owner.claim("agent/1")
        with pytest.raises(StreamOwned) as caught:
            await other.claim("agent/1")
        [mine, _] = await other.workers()
        assert (caught.value.stream, caught.value.owner, caught.value.epoch) == ("agent/1", str(owner.worker_id), 1)
        assert (caught.value.host, caught.value.process) == (socket.gethostname(), os.getpid())
        assert caught.value.heartbeat_at == mine.heartbeat_at
        assert (await other.claim("agent/1", takeover=True)).epoch == 2
        with pytest.raises(StreamOwned):
            await owner.claim("agent/1")


async def test_a_released_stream_is_free_at_once(dsn: str) -> None:
    async with Ownership(dsn, SCHEMA) as owner, Ownership(dsn, SCHEMA) as other:
        old = await owner.claim("agent/1")
        new = await owner.claim("agent/1")
        await owner.release("agent/1", old.epoch)  # stale: nothing is released
        with pytest.raises(StreamOwned):
            await other.claim("agent/1")
        await owner.release("agent/1", new.epoch)
        assert (await other.claim("agent/1")).epoch == 3


async def test_closing_releases_everything(dsn: str) -> None:
    async with Ownership(dsn, SCHEMA) as other:
        async with Ownership(dsn, SCHEMA) as owner:
            for number in range(3):
                await owner.claim(f"agent/{number}")
            await owner.release_all()
            assert (await other.claim("agent/0")).epoch == 2
            await owner.claim("agent/1")
        assert await fetch(dsn, "SELECT id FROM stream WHERE owner = %s", owner.worker_id) == []
        assert (await other.claim("agent/1")).epoch == 3
        stopped, alive = sorted(await other.workers(), key=lambda worker: worker.alive)
    assert (stopped.id, stopped.alive, stopped.stopped_at is not None) == (owner.worker_id, False, True)
    assert (alive.id, alive.alive, alive.stopped_at) == (other.worker_id, True, None)


KILLED = """
import asyncio, os, signal, sys
from autogen_eventlog.postgres.ownership import Ownership
async def main():
    ownership = Ownership(sys.argv[1], "eventlog", lease=3600.0)
    await ownership.open()
    await ownership.claim("agent/1")
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


async def test_the_streams_of_a_killed_process_are_free_without_waiting_for_its_lease(dsn: str) -> None:
    async with Ownership(dsn, SCHEMA) as other:
        await asyncio.to_thread(subprocess.run, [sys.executable, "-c", KILLED, dsn], check=False)

        async def claimed() -> int:
            try:
                return (await other.claim("agent/1")).epoch
            except StreamOwned:  # its backend has not yet noticed
                return 0

        assert await eventually(claimed, "the stream is free") == 2


async def test_the_streams_of_a_worker_that_is_silent_beyond_its_lease_are_free(dsn: str) -> None:
    """Paused or cut off: its session and lock are still there, its heartbeat isn't."""
    async with Ownership(dsn, SCHEMA, heartbeat=3600.0) as silent, Ownership(dsn, SCHEMA) as other:
        await silent.claim("agent/1")
        await fetch(
            dsn, "UPDATE worker SET heartbeat_at = heartbeat_at - interval '11 s' WHERE id = %s", silent.worker_id
        )
        assert (await other.claim("agent/1")).epoch == 2


async def test_a_stale_owner_that_wakes_cannot_append(dsn: str) -> None:
    async with open_store(dsn) as store, Ownership(dsn, SCHEMA) as other:
        agent = await store.claimed("agent/1")
        await agent.submit()
        claim = await other.claim("agent/1", takeover=True)
        assert claim.version == 1
        with pytest.raises(StreamFenced):
            await agent.submit()


async def test_a_claim_waits_for_the_append_that_runs_and_sees_its_version(dsn: str) -> None:
    async with open_store(dsn) as store, Ownership(dsn, SCHEMA) as other:
        agent = await store.claimed("agent/1")
        async with holding_the_head(dsn, "agent/1"):
            ticket = agent.submit(*events(5))
            await a_waiting_append(dsn)
            claiming = asyncio.ensure_future(other.claim("agent/1", takeover=True))
            await eventually(lambda: _waiting(dsn, "%FROM claim(%"), "the claim waits")
        assert (await claiming).version == (await ticket).version == 5


async def test_of_many_claimers_at_once_each_epoch_has_one_winner(dsn: str) -> None:
    async with Ownership(dsn, SCHEMA) as first, Ownership(dsn, SCHEMA) as second, Ownership(dsn, SCHEMA) as third:
        claims = await asyncio.gather(
            *(worker.claim("agent/1", takeover=True) for _ in range(10) for worker in (first, second, third))
        )
    assert sorted(claim.epoch for claim in claims) == list(range(1, 31))
    assert sum(claim.created for claim in claims) == 1


async def test_of_two_polite_claimers_of_a_new_stream_one_wins(dsn: str) -> None:
    async with Ownership(dsn, SCHEMA) as first, Ownership(dsn, SCHEMA) as second:
        for number in range(10):
            results = await asyncio.gather(
                first.claim(f"agent/{number}"), second.claim(f"agent/{number}"), return_exceptions=True
            )
            assert sorted(type(result).__name__ for result in results) == ["Claim", "StreamOwned"]


async def test_a_worker_whose_sessions_are_killed_takes_its_lock_back(dsn: str) -> None:
    async with Ownership(dsn, SCHEMA, heartbeat=3600.0) as owner, Ownership(dsn, SCHEMA) as other:
        await owner.claim("agent/1")
        for _ in range(3):
            held = await _lock_holders(dsn, owner.worker_id)
            await fetch(dsn, "SELECT pg_terminate_backend(%s)", held[0])
            await eventually(lambda held=held: _held_by_another(dsn, owner.worker_id, held), "the lock is taken back")
            with pytest.raises(StreamOwned):
                await other.claim("agent/1")
        assert (await owner.claim("agent/1")).epoch == 2


async def test_a_lock_that_a_lingering_session_still_holds_is_taken_when_it_ends(dsn: str) -> None:
    """The network died, the server has not noticed: the old session holds the lock, the new one must wait for it."""
    async with Ownership(dsn, SCHEMA, heartbeat=0.01) as owner:
        [(key,)] = await fetch(dsn, "SELECT lock_key FROM worker WHERE id = %s", owner.worker_id)
        [pid] = await _lock_holders(dsn, owner.worker_id)
        from autogen_eventlog.postgres.session import connect

        lingering = await connect(dsn, SCHEMA)
        waiting = asyncio.ensure_future(lingering.execute(b"SELECT pg_advisory_lock(hashtext('eventlog'), %s)", (key,)))
        await eventually(lambda: _waiting(dsn, "%pg_advisory_lock%"), "it waits for the lock")
        await fetch(dsn, "SELECT pg_terminate_backend(%s)", pid)
        await waiting
        [record] = await owner.workers()
        assert record.alive  # somebody holds its lock, and it beats
        await lingering.close()
        await eventually(lambda: _lock_holders(dsn, owner.worker_id), "the worker holds its lock again")


async def test_a_worker_beats_and_registers_again_if_its_row_is_gone(dsn: str) -> None:
    async with Ownership(dsn, SCHEMA, heartbeat=0.01) as owner:
        [record] = await owner.workers()

        async def later() -> bool:
            found = [worker for worker in await owner.workers() if worker.heartbeat_at > record.heartbeat_at]
            return bool(found)

        await eventually(later, "the heartbeat moves")
        await fetch(dsn, "DELETE FROM worker")
        await eventually(lambda: owner.workers(), "the worker is registered again")


async def test_a_worker_says_who_it_is(dsn: str) -> None:
    identity = uuid4()
    async with Ownership(dsn, SCHEMA, worker_id=identity, identity="pod-7") as owner:
        [record] = await owner.workers()
    assert (record.id, record.host, record.process, record.identity) == (
        identity,
        socket.gethostname(),
        os.getpid(),
        "pod-7",
    )
    assert record.started_at <= record.heartbeat_at


async def test_workers_unheard_of_for_a_month_are_forgotten(dsn: str) -> None:
    async with Ownership(dsn, SCHEMA):
        pass
    await fetch(dsn, "UPDATE worker SET heartbeat_at = heartbeat_at - interval '31 days'")
    async with Ownership(dsn, SCHEMA) as owner:
        assert [worker.id for worker in await owner.workers()] == [owner.worker_id]


async def test_closed_or_without_schema_or_server_it_says_so(empty_dsn: str, tmp_path: object) -> None:
    with pytest.raises(LogClosed) as closed:
        await Ownership(empty_dsn, SCHEMA).claim("agent/1")
    assert closed.value.what == "ownership"
    with pytest.raises(SchemaError):
        await Ownership(empty_dsn, SCHEMA).open()
    with pytest.raises(DatabaseUnavailable):
        await Ownership(f"host={tmp_path} dbname=x", SCHEMA, unavailable_after=0.01).open()


async def _lock_holders(dsn: str, worker: UUID) -> list[int]:
    rows = await fetch(
        dsn,
        "SELECT l.pid FROM pg_locks AS l INNER JOIN worker AS w ON l.objid = w.lock_key::oid "
        "WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND w.id = %s "
        "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        worker,
    )
    return [row[0] for row in rows]


async def _held_by_another(dsn: str, worker: UUID, before: list[int]) -> bool:
    holders = await _lock_holders(dsn, worker)
    return bool(holders) and holders != before


async def _waiting(dsn: str, like: str) -> bool:
    rows = await fetch(
        dsn,
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' "
        "AND query LIKE %s AND pid <> pg_backend_pid()",
        like,
    )
    return bool(rows)
