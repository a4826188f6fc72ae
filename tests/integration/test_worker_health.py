"""What a worker knows of how it is, while its host, its types and its database come and go."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from autogen_core import AgentId, MessageContext, RoutedAgent, rpc

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedGrpcWorkerAgentRuntime
from autogen_eventlog.errors import RecordingIncomplete
from autogen_eventlog.postgres.embedded import EmbeddedServer, open_embedded
from tests.integration.drop_in import Add, Total
from tests.integration.workers import Workers, hosting, until, workers

__all__ = ["workers"]


class Adder(RoutedAgent):
    """Answers once it may."""

    def __init__(self, may: asyncio.Event) -> None:
        super().__init__("adds")
        self._may = may

    @rpc
    async def on_add(self, message: Add, ctx: MessageContext) -> Total:
        await self._may.wait()
        return Total(message.number)


async def test_a_worker_counts_what_it_has_in_hand(workers: Workers) -> None:
    may = asyncio.Event()
    front, back = await workers.ours(), await workers.ours()
    await until(lambda: front.health().ready and back.health().ready, "the database knows both")
    assert (front.health().connected, front.health().agent_types, front.health().database) == (True, (), True)
    await Adder.register(back, "adder", lambda: Adder(may))
    await back.brought_up()
    assert back.health().ready and back.health().agent_types == ("adder",) and back.health().agents == 0
    call = asyncio.create_task(front.send_message(Add(3), AgentId("adder", "a")))
    await until(lambda: back.health().running == 1, "the handler runs")
    assert (back.health().agents, front.health().outstanding, front.health().agents) == (1, 1, 0)
    may.set()
    assert await call == Total(3)
    assert (back.health().running, front.health().outstanding) == (0, 0)
    await until(lambda: back.health().pending_events == 0, "everything is committed")
    await back.stop()
    stopped = back.health()
    assert (stopped.connected, stopped.ready, stopped.agent_types, stopped.agents) == (False, False, (), 0)


async def test_a_worker_is_not_ready_while_another_has_its_type(workers: Workers) -> None:
    may, cable = asyncio.Event(), await workers.cable()
    first, second = await workers.ours(address=cable.address), await workers.ours(registration_patience=10.0)
    await Adder.register(first, "adder", lambda: Adder(may))
    cable.cut()
    await until(lambda: not first.health().connected, "the cut is noticed")
    assert not first.health().ready
    await Adder.register(second, "adder", lambda: Adder(may))
    cable.mend()
    await until(lambda: first.health().connected, "it is connected again")
    assert (first.health().agent_types, first.health().elsewhere) == ((), ("adder",))
    assert not first.health().ready
    await until(lambda: second.health().ready, "nothing is being recovered")
    await second.stop()
    await until(lambda: first.health().ready, "it has its type back")
    assert (first.health().agent_types, first.health().elsewhere) == (("adder",), ())


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with open_embedded(tmp_path / "data") as server:
        yield server
        server.ensure_running()


async def test_a_worker_is_not_ready_while_the_database_is_away(own_server: EmbeddedServer) -> None:
    async with hosting() as host, EventLog.open(own_server.dsn) as log:
        worker = EventSourcedGrpcWorkerAgentRuntime(host.address, intervention_handlers=[EventLogHandler(log)])
        assert not worker.health().database
        await worker.start()
        await until(lambda: worker.health().ready, "it is there")
        with psycopg.connect(own_server.dsn) as connection:
            row = connection.execute("SELECT pg_read_file('postmaster.pid')").fetchone()
        assert row is not None
        os.kill(int(row[0].split()[0]), signal.SIGQUIT)
        await until(lambda: not worker.health().database, "the end of the database is noticed")
        assert worker.health().connected and not worker.health().ready
        await asyncio.to_thread(own_server.ensure_running)
        await until(lambda: worker.health().ready, "it is there again")
        await worker.stop()


async def test_a_worker_that_records_nothing_has_no_health() -> None:
    worker = EventSourcedGrpcWorkerAgentRuntime("localhost:1")
    with pytest.raises(RecordingIncomplete) as caught:
        worker.health()
    assert caught.value.operation == "health"
