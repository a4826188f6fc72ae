"""Who sent a message from outside learns after a crash what became of it, by its id."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from autogen_core import AgentId
from autogen_core.exceptions import MessageDroppedException

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.errors import MessageAbandoned, RecordingIncomplete, UnknownMessage

from .programs.asked_by_id import Number, Slow, register

ROOT = Path(__file__).parents[2]
CHILD = "import sys, asyncio; from tests.acceptance.programs import asked_by_id as p; asyncio.run(p.main(sys.argv[1]))"
SLOW = AgentId("slow", "a")


async def test_a_caller_learns_after_a_kill_what_became_of_its_requests(dsn: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, dsn, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGKILL)
    await process.wait()
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await register(runtime)
        answered = runtime.reply_to("answered", SLOW)
        assert await answered == Number(11)  # it had ended: nothing need run for that
        with pytest.raises(UnknownMessage, match="never accepted"):
            await runtime.reply_to("never", SLOW)
        with pytest.raises(ValueError, match="thirteen"):
            await runtime.reply_to("raised", SLOW)
        runtime.start()
        begun, waiting = await asyncio.gather(runtime.reply_to("begun", SLOW), runtime.reply_to("waiting", SLOW))
        assert (begun, waiting) == (Number(22), Number(33))
        with pytest.raises(Exception, match="Recipient not found"):
            await runtime.send_message(Number(1), AgentId("nobody", "a"), message_id="lost")
        with pytest.raises((UnknownMessage, MessageDroppedException)):
            await runtime.reply_to("lost", AgentId("nobody", "a"))
        await runtime.stop_when_idle()
        assert (await runtime.try_get_underlying_agent_instance(SLOW, Slow)).seen == [1, 13, 2, 3]


async def test_what_a_restore_has_left_is_no_message_that_was_never_accepted(dsn: str) -> None:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await register(runtime)
        runtime.start()
        await runtime.send_message(Number(1), SLOW, message_id="first")
        version = await log.version_at(SLOW)
        await runtime.send_message(Number(3), SLOW, message_id="second")
        await runtime.restore(SLOW, version=version)
        assert await runtime.reply_to("first", SLOW) == Number(11)
        with pytest.raises(MessageAbandoned, match="a restore has left"):
            await runtime.reply_to("second", SLOW)
        await runtime.stop_when_idle()


async def test_a_runtime_that_does_not_record_knows_no_replies() -> None:
    with pytest.raises(RecordingIncomplete):
        await EventSourcedAgentRuntime().reply_to("any", SLOW)
