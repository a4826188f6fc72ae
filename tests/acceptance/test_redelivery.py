"""What was accepted and not delivered when a process died is known, and delivered once on request."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.events import EventType

from .programs.queue_of_ten import WORKER, Done, Jobs, Worker

ROOT = Path(__file__).parents[2]
CHILD = "import sys, asyncio; from tests.acceptance.programs import queue_of_ten as p; asyncio.run(p.main(sys.argv[1]))"


async def test_ten_queued_and_three_begun_messages_survive_a_kill(dsn: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", CHILD, dsn], cwd=ROOT, stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    async with EventLog.open(dsn) as log:
        undelivered = await log.audit.undelivered()
        assert [event.type for event in undelivered] == [EventType.MESSAGE_SUBMITTED] * 10
        assert len(await log.audit.in_flight()) == 3
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, resume=False)])
        await Worker.register(runtime, "worker", Worker)
        runtime.start()
        redelivered, meanwhile = await asyncio.gather(runtime.redeliver(), runtime.redeliver())
        assert meanwhile == []
        assert not [report.failed for report in redelivered if report.failed]
        assert [report.delivered_to for report in redelivered] == [(WORKER,)] * 10
        assert not any(report.failed for report in redelivered)
        # The three that had begun go on by themselves as their agent comes up.
        while await log.audit.in_flight():
            await asyncio.sleep(0)
        assert await runtime.send_message(Done(), WORKER) == Jobs(list(range(13)))
        assert await log.audit.undelivered() == []
        assert await runtime.redeliver() == []
        await runtime.stop_when_idle()
