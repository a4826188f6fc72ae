"""A publication that had reached one of its subscribers when the process was killed is not lost for the other (G8)."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

from autogen_core import AgentId

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime

from .programs.fan_out import Ask, Heard, Say, found

ROOT = Path(__file__).parents[2]


async def test_a_publication_that_one_of_two_subscribers_heard_before_the_kill_is_not_lost_for_the_other(
    dsn: str,
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.acceptance.programs.fan_out", dsn], cwd=ROOT, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"heard\n"
        process.send_signal(signal.SIGKILL)
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        up = asyncio.Event()
        up.set()
        await found(runtime, up)
        runtime.start()
        await runtime.send_message(Say("water"), AgentId("speaker", "default"))  # brings the publisher up again
        await runtime.stop_when_idle()
        runtime.start()
        heard = await runtime.send_message(Ask(), AgentId("slow", "default"))
        await runtime.stop_when_idle()
        reported = [event for event in await log.audit.undelivered() if b"fire" in (event.payload or b"")]
        assert heard == Heard(["fire", "water"]) or reported
