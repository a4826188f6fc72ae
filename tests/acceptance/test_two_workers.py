"""Two processes on one log: one owner (G6), polite to a live one, prompt after a dead one, safe from a paused one."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone

import pytest
from autogen_core import AgentId

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.errors import StreamOwned
from autogen_eventlog.events import EventType

from .asking import until
from .programs.town import Order, Roll
from .programs.worker import Patient, Wait, everybody
from .workers import Worker

CLERK, PATIENT, LEDGER = AgentId("clerk", "0"), AgentId("patient", "0"), AgentId("ledger", "main")


@asynccontextmanager
async def here(dsn: str, *, takeover: bool = False) -> AsyncIterator[tuple[EventSourcedAgentRuntime, EventLog]]:
    """A runtime in this process on the same log."""
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, takeover=takeover)])
        await everybody(runtime)
        runtime.start()
        yield runtime, log
        await runtime.stop_when_idle()


async def test_a_second_process_is_refused_while_the_first_lives_and_is_told_who_has_the_agent(dsn: str) -> None:
    async with Worker(dsn) as first, here(dsn) as (runtime, log):
        first.ask("order", 1)
        assert (await first.answer(1))["total"] == 2
        with pytest.raises(StreamOwned) as refused:
            await runtime.send_message(Order(2), CLERK)
        error = refused.value
        assert (error.stream, error.host, error.process) == ("clerk/0", socket.gethostname(), first.process.pid)
        assert error.owner in {str(worker.id) for worker in await log.workers()}
        assert error.epoch == 1
        assert timedelta(0) <= datetime.now(timezone.utc) - error.heartbeat_at < timedelta(seconds=20)
        first.ask("order", 3)
        assert (await first.answer(3))["total"] == 6


async def test_after_kill_9_the_second_process_takes_over_at_once(dsn: str) -> None:
    async with Worker(dsn, 3600.0) as first, here(dsn) as (runtime, _):
        first.ask("order", 1)
        await first.answer(1)
        await first.kill()

        async def taken_over() -> object:
            try:
                return await runtime.send_message(Order(2), CLERK)
            except StreamOwned:
                return None  # the server has not seen yet that the connection is gone

        receipt = await until(taken_over, "the server sees that the first is gone", timeout=5)
        assert receipt.total == 5  # type: ignore[attr-defined]


async def test_a_process_that_ends_gives_its_agents_back(dsn: str) -> None:
    async with Worker(dsn, 3600.0) as first, here(dsn) as (runtime, _):
        first.ask("order", 1)
        await first.answer(1)
        assert await first.end() == 0
        assert (await runtime.send_message(Order(2), CLERK)).total == 5


async def test_a_paused_owner_is_replaced_after_its_lease_and_nothing_of_it_leaves_when_it_wakes(dsn: str) -> None:
    async with Worker(dsn, 1.0) as zombie, here(dsn) as (runtime, log):
        zombie.ask("wait", 7)
        await zombie.says("begun", 7)
        await until(lambda: log.audit.in_flight("patient/0"), "its delivery is on the disk")
        zombie.signal(signal.SIGSTOP)

        async def taken_over() -> object:
            try:
                return await runtime.send_message(Wait(8, 0.0), PATIENT)
            except StreamOwned:
                return None

        assert await until(taken_over, "the lease is over", timeout=10)

        async def finished() -> bool:
            return not await log.audit.in_flight()

        await until(finished, "what the zombie had begun is finished here")
        zombie.signal(signal.SIGCONT)
        told = await zombie.answer(7)
        assert told["error"] in ("StreamFenced", "InstanceEnded")
        zombie.ask("wait", 9)
        assert (await zombie.answer(9))["error"] == "StreamOwned"

        patient = await runtime.view(PATIENT, type=Patient)
        assert (sorted(patient.begun), sorted(patient.ended)) == ([7, 8], [7, 8])
        assert sorted((await runtime.send_message(Roll(), LEDGER)).values["booked"]) == [7, 8]
        await until(finished, "all is delivered")
        heard = (await runtime.send_message(Roll(), AgentId("listener", "default"))).values["heard"]
        assert sorted(heard) == [7, 8]
        events = [event async for event in log.read(PATIENT)]
        assert [event.version for event in events] == list(range(1, len(events) + 1))
        epochs = [event.epoch for event in events]
        assert epochs == sorted(epochs)
        assert {event.epoch for event in events if event.type is EventType.MESSAGE_PUBLISHED} == {epochs[-1]}
        assert not any(b'"number":9' in (event.payload or b"") for event in events)


async def test_takeover_fences_a_live_owner(dsn: str) -> None:
    async with Worker(dsn) as first, here(dsn, takeover=True) as (runtime, log):
        first.ask("order", 1)
        await first.answer(1)
        assert (await runtime.send_message(Order(2), CLERK)).total == 5
        first.ask("order", 3)
        told = await first.answer(3)
        assert told["error"] == "StreamFenced"
        assert told["fields"]["stream"] == "clerk/0"
        assert (told["fields"]["expected"], told["fields"]["found"]) == (1, 2)
        assert (await runtime.send_message(Order(4), CLERK)).total == 10
        assert not any(b'"number":3' in (event.payload or b"") for event in [e async for e in log.read(CLERK)])


async def test_a_curious_reader_owns_nothing(dsn: str) -> None:
    async with Worker(dsn) as first:
        first.ask("order", 1)
        await first.answer(1)
        async with here(dsn) as (runtime, log):
            before = await log.head(CLERK)
            assert (await runtime.view(CLERK)).begun == [1]  # type: ignore[attr-defined]
            assert (await runtime.view(CLERK, version=1)).begun == []  # type: ignore[attr-defined]
            assert [event async for event in log.read(CLERK)]
            assert await log.audit.messages(limit=10)
            await log.audit.in_flight()
            await log.audit.undelivered()
            await log.audit.statistics()
            await runtime.agent_save_state(CLERK)
            await runtime.save_state()
            await runtime.agent_metadata(CLERK)
            after = await log.head(CLERK)
            # What its owner records as it comes to rest may come meanwhile.
            assert before is not None and after is not None
            assert (before.epoch, before.owner) == (after.epoch, after.owner)
            assert [worker.process for worker in await log.audit.workers()] == [first.process.pid]
        first.ask("order", 2)
        assert (await first.answer(2))["total"] == 5
    assert os.getpid() != first.process.pid
