"""The state service when connections, databases and hosts go away."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import psycopg
import pytest

from autogen_eventlog import EventLog
from autogen_eventlog.distributed import AgentStateClient, StateServiceUnavailable, StoredState, state_stream
from autogen_eventlog.distributed.protos import state_pb2
from autogen_eventlog.postgres.embedded import EmbeddedServer, open_embedded
from autogen_eventlog.testing.waiting import wait_until

from .states import ONE, HostProcess, clients, serving
from .store import eventually, fetch, holding_the_head, kill_backends

SAVING = "(query LIKE '%append(%' OR query LIKE '%claim(%' OR query = 'COMMIT')"


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with open_embedded(tmp_path / "data") as server:
        yield server
        server.ensure_running()


@pytest.fixture
async def host_process(dsn: str) -> AsyncIterator[HostProcess]:
    async with HostProcess(dsn) as process:
        yield process


async def test_backends_killed_again_and_again_lose_and_double_no_save(dsn: str) -> None:
    """Each writer counts up; in the end the count is the number of saves, and so is the number of events."""
    rounds, killed = 15, 0

    async def count_up(client: AgentStateClient) -> None:
        key = ONE
        for number in range(rounds):
            state = await client.get(key)
            await client.save(key, str(number), etag=None if state is None else state.etag)

    async with clients(dsn, hosts=1, each=1) as (client,):
        counting = asyncio.ensure_future(count_up(client))
        while not counting.done():
            killed += await kill_backends(dsn, SAVING)
            await asyncio.wait({counting}, timeout=0.01)
        await counting
        assert await _data(client) == str(rounds - 1)
    async with EventLog.open(dsn) as log:
        stored = [log.message(event) async for event in log.read(state_stream(ONE))]
    assert stored == [str(number) for number in range(rounds)]
    assert killed > 0


async def test_a_save_killed_while_it_waits_is_made_again(dsn: str) -> None:
    async with clients(dsn, hosts=1, each=1) as (client,):
        etag = await client.save(ONE, "one")
        async with holding_the_head(dsn, state_stream(ONE)):
            saving = asyncio.ensure_future(client.save(ONE, "two", etag=etag))
            await eventually(lambda: _waiting(dsn), "the save waits for the head")
            assert await kill_backends(dsn, "wait_event_type = 'Lock'") == 1
            await eventually(lambda: _waiting(dsn), "the save waits again")
        etag = await saving
        assert await client.get(ONE) == StoredState(ONE, etag, "two")


async def test_a_log_whose_positions_are_ahead_of_its_cluster_takes_saves(dsn: str) -> None:
    """As after the restore of a dump into a younger cluster."""
    async with clients(dsn, hosts=1, each=1) as (client,):
        etag = await client.save(ONE, "one")
        await fetch(dsn, "UPDATE position_base SET base = 1::bigint << 60")
        etag = await client.save(ONE, "two", etag=etag)
        await fetch(dsn, "UPDATE position_base SET base = 0")
        etag = await client.save(ONE, "three", etag=etag)
        assert await client.get(ONE) == StoredState(ONE, etag, "three")
    rows = await fetch(dsn, "SELECT position > 1::bigint << 60 FROM event ORDER BY version")
    assert [ahead for (ahead,) in rows] == [False, True, True]


async def test_a_call_whose_client_went_away_ends_and_stores_nothing(dsn: str) -> None:
    async with clients(dsn, hosts=1, each=1) as (client,):
        etag = await client.save(ONE, "one")
        async with holding_the_head(dsn, state_stream(ONE)):
            with pytest.raises(StateServiceUnavailable):
                await client.save(ONE, "two", etag=etag, timeout=0.5)
            await eventually(lambda: _nobody_waits(dsn), "the save was given up")
        assert await client.get(ONE) == StoredState(ONE, etag, "one")


async def test_a_save_that_hangs_is_unavailable_within_the_bound(dsn: str) -> None:
    async with clients(dsn, hosts=1, each=1, unavailable_after=0.3) as (client,):
        etag = await client.save(ONE, "one")
        async with holding_the_head(dsn, state_stream(ONE)):
            with pytest.raises(StateServiceUnavailable) as caught:
                await client.save(ONE, "two", etag=etag, timeout=2)
            assert "0.3 s" in caught.value.problem
        assert await client.get(ONE) == StoredState(ONE, etag, "one")
        await client.save(ONE, "three", etag=etag)


async def test_a_database_that_is_away_is_told_within_the_bound_and_found_again(own_server: EmbeddedServer) -> None:
    async with clients(own_server.dsn, hosts=1, each=1, unavailable_after=0.3) as (client,):
        etag = await client.save(ONE, "one")
        os.kill(_postmaster(own_server), signal.SIGQUIT)
        wait_until(lambda: not _answers(own_server.dsn), "the server is gone")
        for asking in (client.get(ONE, timeout=2), client.save(ONE, "two", etag=etag, timeout=2)):
            began = asyncio.get_running_loop().time()
            with pytest.raises(StateServiceUnavailable):
                await asking
            assert asyncio.get_running_loop().time() - began < 6
        await asyncio.to_thread(own_server.ensure_running)
        assert await client.get(ONE) == StoredState(ONE, etag, "one")
        await client.save(ONE, "two", etag=etag)


async def test_the_status_of_a_database_that_is_away_is_unavailable(own_server: EmbeddedServer) -> None:
    async with EventLog.open(own_server.dsn, unavailable_after=0.2) as log, serving(log) as host:
        os.kill(_postmaster(own_server), signal.SIGQUIT)
        wait_until(lambda: not _answers(own_server.dsn), "the server is gone")
        async with grpc.aio.insecure_channel(host.address) as channel:
            get = channel.unary_unary(
                "/autogen_eventlog.state.v1.AgentStateService/GetState",
                request_serializer=state_pb2.GetStateRequest.SerializeToString,
                response_deserializer=state_pb2.GetStateResponse.FromString,
            )
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await get(state_pb2.GetStateRequest(agent_id=state_pb2.AgentId(type="workflow", key="1")), timeout=20)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "did not answer within 0.2 s" in str(caught.value.details())


async def test_a_server_that_stands_still_is_given_up_within_the_bound(own_server: EmbeddedServer) -> None:
    """Stopped, its kernel still acknowledges what is sent, so nothing looks broken; and it hears no cancellation."""
    async with clients(own_server.dsn, hosts=1, each=1, unavailable_after=0.3) as (client,):
        etag = await client.save(ONE, "one")
        [(backend,)] = await fetch(
            own_server.dsn, "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query = 'COMMIT'"
        )
        os.kill(backend, signal.SIGSTOP)
        try:
            began = asyncio.get_running_loop().time()
            with pytest.raises(StateServiceUnavailable):
                await client.save(ONE, "two", etag=etag, timeout=1)
            assert asyncio.get_running_loop().time() - began < 6
            assert await client.get(ONE) == StoredState(ONE, etag, "one")
        finally:
            os.kill(backend, signal.SIGCONT)
        state = await client.get(ONE)
        assert state is not None and state.data in ("one", "two"), "as the error said: it may have been done"


async def test_a_killed_host_has_lost_nothing_when_it_is_back(dsn: str, host_process: HostProcess) -> None:
    async with AgentStateClient(host_process.address, timeout=30) as client:
        etag = await client.save(ONE, "before")
        await host_process.kill()
        waiting = asyncio.ensure_future(client.get(ONE))
        await host_process.start()
        assert await waiting == StoredState(ONE, etag, "before")
        etag = await client.save(ONE, "after", etag=etag)
        assert await client.get(ONE) == StoredState(ONE, etag, "after")


async def test_saves_through_a_host_that_is_killed_again_and_again_are_done_once(
    dsn: str, host_process: HostProcess
) -> None:
    rounds = 40

    async def count_up(client: AgentStateClient) -> None:
        etag = None
        for number in range(rounds):
            etag = await client.save(ONE, str(number), etag=etag)

    async with AgentStateClient(host_process.address, timeout=60) as client:
        counting = asyncio.ensure_future(count_up(client))
        for killed in range(1, 4):
            await eventually(lambda at=killed: _saved(dsn, at * rounds // 5), "some were saved")
            await host_process.kill()
            await host_process.start()
        await counting
    async with EventLog.open(dsn) as log:
        stored = [log.message(event) async for event in log.read(state_stream(ONE))]
    assert stored == [str(number) for number in range(rounds)]


async def _data(client: AgentStateClient) -> object:
    state = await client.get(ONE)
    return None if state is None else state.data


async def _saved(dsn: str, many: int) -> bool:
    rows = await fetch(dsn, "SELECT version FROM stream WHERE id = %s", state_stream(ONE))
    return bool(rows) and rows[0][0] >= many


async def _waiting(dsn: str) -> bool:
    return bool(
        await fetch(
            dsn,
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' "
            "AND state = 'active'",
        )
    )


async def _nobody_waits(dsn: str) -> bool:
    return not await _waiting(dsn)


def _postmaster(server: EmbeddedServer) -> int:
    with psycopg.connect(server.dsn) as connection:
        row = connection.execute("SELECT pg_read_file('postmaster.pid')").fetchone()
    assert row is not None
    return int(row[0].split()[0])


def _answers(dsn: str) -> bool:
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return False
    return True
