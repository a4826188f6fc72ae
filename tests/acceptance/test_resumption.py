"""What a killed process left behind is taken up as the next one starts, unasked, in order and once."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.events import EventType

from .programs.deadly_handler import Deadly
from .programs.queue_of_ten import WORKER, Done, Job, Jobs, Worker

ROOT = Path(__file__).parents[2]
CHILD = "import sys, asyncio; from tests.acceptance.programs import queue_of_ten as p; asyncio.run(p.main(sys.argv[1]))"


def killed(dsn: str) -> None:
    """Ten messages queued and three begun, then kill -9."""
    process = subprocess.Popen([sys.executable, "-c", CHILD, dsn], cwd=ROOT, stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)


async def test_queued_messages_and_begun_handlers_are_taken_up_at_the_start(dsn: str) -> None:
    killed(dsn)
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await Worker.register(runtime, "worker", Worker)
        runtime.start()
        await runtime.send_message(Done(), WORKER)
        await runtime.stop_when_idle()
        # The new message did not overtake the older ones, and they came in their order.
        order = [log.message(event) async for event in log.read(WORKER) if event.type is EventType.MESSAGE_DELIVERED]
        assert order == [*map(Job, range(13)), Done()]
        assert await log.audit.in_flight() == []
        assert await log.audit.undelivered() == []
        assert await log.unsettled_workers() == []
        assert await runtime.redeliver() == []


async def test_a_runtime_that_only_starts_and_stops_when_idle_does_what_was_left(dsn: str) -> None:
    killed(dsn)
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await Worker.register(runtime, "worker", Worker)
        runtime.start()
        await runtime.stop_when_idle()
        assert await log.audit.in_flight() == []
        assert await log.audit.undelivered() == []
        assert (await runtime.try_get_underlying_agent_instance(WORKER, Worker)).done == list(range(13))


async def test_a_type_registered_after_the_start_is_taken_up_then(dsn: str) -> None:
    killed(dsn)
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        runtime.start()
        await Worker.register(runtime, "worker", Worker)
        while await log.audit.undelivered() or await log.audit.in_flight():
            await asyncio.sleep(0.01)
        assert await runtime.send_message(Done(), WORKER) == Jobs(list(range(13)))
        await runtime.stop_when_idle()


async def test_nothing_is_taken_up_where_it_is_not_wanted(dsn: str) -> None:
    killed(dsn)
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, resume=False)])
        await Worker.register(runtime, "worker", Worker)
        runtime.start()
        await runtime.stop_when_idle()
        assert len(await log.audit.undelivered()) == 10
        assert len(await log.audit.in_flight()) == 3


async def test_a_start_that_is_killed_amid_taking_up_is_no_end_of_it(dsn: str) -> None:
    killed(dsn)
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", CHILD, dsn], cwd=ROOT, stdout=subprocess.PIPE)
        with process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(signal.SIGKILL)
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await Worker.register(runtime, "worker", Worker)
        runtime.start()
        await runtime.stop_when_idle()
        done = (await runtime.try_get_underlying_agent_instance(WORKER, Worker)).done
        assert sorted(done) == sorted(list(range(13)) * 4)


async def test_what_ends_each_process_that_goes_on_with_it_is_left_alone(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(6):
        child = [sys.executable, "-c", CHILD.replace("queue_of_ten", "deadly_handler"), dsn]
        process = await asyncio.create_subprocess_exec(*child, cwd=ROOT)
        assert await process.wait() == -signal.SIGKILL
    async with EventLog.open(dsn) as log:
        assert len(await log.audit.in_flight()) == 1
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await Deadly.register(runtime, "deadly", Deadly)
        with caplog.at_level(logging.WARNING):
            runtime.start()
            await runtime.stop_when_idle()
        assert "brought up 5 times" in caplog.text
        assert len(await log.audit.in_flight()) == 1
