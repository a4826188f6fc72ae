"""Ten publications queued behind three handlers at work: killed by its parent."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from autogen_core import (
    AgentId,
    DefaultTopicId,
    MessageContext,
    RoutedAgent,
    default_subscription,
    message_handler,
    rpc,
)

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime


@dataclass
class Job:
    number: int


@dataclass
class Done:
    pass


@dataclass
class Jobs:
    numbers: list[int] = field(default_factory=list)


@default_subscription
class Worker(RoutedAgent):
    """Takes a while for a job."""

    def __init__(self) -> None:
        super().__init__("works")
        self.done: list[int] = []

    @message_handler
    async def on_job(self, message: Job, ctx: MessageContext) -> None:
        await asyncio.sleep(3)
        self.done.append(message.number)

    @rpc
    async def on_done(self, message: Done, ctx: MessageContext) -> Jobs:
        return Jobs(sorted(self.done))


async def main(dsn: str) -> None:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, durability="strict")])
        await Worker.register(runtime, "worker", Worker)
        for number in range(13):
            await runtime.publish_message(Job(number), DefaultTopicId())
        for _ in range(3):
            await runtime.process_next()
        while len(await log.audit.in_flight()) < 3:
            await asyncio.sleep(0.01)
        print("ready", flush=True)
        await asyncio.get_running_loop().create_future()


WORKER = AgentId("worker", "default")
