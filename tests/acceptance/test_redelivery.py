"""What was accepted and not delivered when a process died is known, and delivered once on request."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from autogen_core import AgentId, DefaultTopicId, MessageContext, RoutedAgent, message_handler

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


@dataclass
class Say:
    text: str


class Mouth(RoutedAgent):
    """Publishes to the topic that AutoGen gives a handler by default: that of its agent's key."""

    def __init__(self) -> None:
        super().__init__("says")
        self.said = 0

    @message_handler
    async def on_say(self, message: Say, ctx: MessageContext) -> int:
        self.said += 1
        await self.publish_message(Done(), DefaultTopicId())
        return self.said


async def test_a_handler_of_a_redelivered_message_finds_its_agents_id(dsn: str) -> None:
    """As AutoGen's runtime gives it: else it would publish to another topic, and be another one in replay."""
    anna = AgentId("mouth", "anna")
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await Mouth.register(runtime, "mouth", Mouth)
        waiting = asyncio.ensure_future(runtime.send_message(Say("first"), anna))  # and it is not started
        while not await log.audit.undelivered():
            await asyncio.sleep(0)
        waiting.cancel()
    for answer in (1, 2):
        async with EventLog.open(dsn) as log:
            runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
            await Mouth.register(runtime, "mouth", Mouth)
            runtime.start()
            if answer == 1:
                [report] = await runtime.redeliver()
                assert report.delivered_to == (anna,)
            else:
                assert await runtime.send_message(Say("second"), anna) == answer
            await runtime.stop_when_idle()
            topics = [event.topic async for event in log.read(anna) if event.type is EventType.MESSAGE_PUBLISHED]
            assert topics == ["default/anna"] * answer
