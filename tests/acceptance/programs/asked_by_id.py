"""Requests from outside with ids of their own, in all stages, when the process is killed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from autogen_core import AgentId, MessageContext, RoutedAgent, rpc

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime


@dataclass
class Number:
    number: int


class Slow(RoutedAgent):
    """Answers when its gate is open."""

    def __init__(self) -> None:
        super().__init__("slow")
        self.seen: list[int] = []

    @rpc
    async def on_number(self, message: Number, ctx: MessageContext) -> Number:
        self.seen.append(message.number)
        if message.number == 13:
            raise ValueError("thirteen")
        if message.number == 2:
            await asyncio.sleep(5)
        return Number(message.number * 11)


async def register(runtime: EventSourcedAgentRuntime) -> None:
    await Slow.register(runtime, "slow", Slow)


async def main(dsn: str) -> None:
    slow = AgentId("slow", "a")
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, durability="strict")])
        await register(runtime)
        runtime.start()
        await runtime.send_message(Number(1), slow, message_id="answered")
        asyncio.create_task(runtime.send_message(Number(13), slow, message_id="raised")).add_done_callback(
            lambda done: done.exception()
        )
        begun = asyncio.create_task(runtime.send_message(Number(2), slow, message_id="begun"))
        while len(await log.audit.in_flight()) < 1 or len(await log.audit.messages()) < 3:
            await asyncio.sleep(0.01)
        await runtime.stop()
        waiting = asyncio.create_task(runtime.send_message(Number(3), slow, message_id="waiting"))
        while not await log.audit.undelivered():
            await asyncio.sleep(0.01)
        print("ready", flush=True)
        await asyncio.gather(begun, waiting)
