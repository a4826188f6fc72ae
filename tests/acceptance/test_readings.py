"""What an agent read of clocks, ids and randomness is the same in every process, and after kill -9 (G3, G5, G8)."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from pathlib import Path

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from tests.integration.reading_agent import Reader

from .programs.readings import AGENT, attributes

ROOT = Path(__file__).parents[2]
KILLS = 4


async def start(dsn: str, task: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.acceptance.programs.readings", dsn, task, cwd=ROOT, stdout=subprocess.PIPE
    )


async def said(dsn: str, task: str) -> str:
    process = await start(dsn, task)
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode().splitlines()[-1]


async def test_another_process_recovers_every_reading_and_a_view_has_it_too(dsn: str) -> None:
    live = await said(dsn, "record")
    assert await said(dsn, "recover") == live
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await Reader.register(runtime, "reader", Reader)
        # Recovering noted an activation; the past is that of the process that recorded it.
        assert attributes(log, await runtime.view(AGENT, type=Reader)) == live
        await runtime.close()


async def test_readings_before_kill_9_stay_what_they_were(dsn: str) -> None:
    """What a process had read when it died, and what the next one reads as it goes on from there, are of one life."""
    for _ in range(KILLS):
        process = await start(dsn, "drive")
        assert process.stdout is not None
        for _ in range(random.randint(1, 5)):
            await process.stdout.readline()
        process.kill()
        await process.communicate()
    live = await said(dsn, "recover")
    assert await said(dsn, "recover") == live
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await Reader.register(runtime, "reader", Reader)
        viewed = await runtime.view(AGENT, type=Reader)
        assert attributes(log, viewed) == live
        assert sorted(times_of(viewed)) == times_of(viewed)
        await runtime.close()


def times_of(agent: Reader) -> list[float]:
    """What the monotonic clock said, over all processes."""
    return [agent.began, *(seen["monotonic"][0] for seen in agent.seen if isinstance(seen, dict))]
