"""A publication with two subscribers, of which one can be kept from coming up.

    python -m tests.acceptance.programs.fan_out DSN

Publishes, lets one subscriber hear it, prints `heard`, and waits to be killed while the other still comes up.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

from autogen_core import AgentId, MessageContext, RoutedAgent, TopicId, default_subscription, message_handler

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime


@dataclass
class News:
    text: str


@dataclass
class Say:
    text: str


@dataclass
class Ask:
    pass


@dataclass
class Heard:
    texts: list[str]


class Speaker(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("speaker")

    @message_handler
    async def on_say(self, message: Say, ctx: MessageContext) -> None:
        await self.publish_message(News(message.text), TopicId("default", "default"))


@default_subscription
class Quick(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("quick")
        self.heard: list[str] = []

    @message_handler
    async def on_news(self, message: News, ctx: MessageContext) -> None:
        self.heard.append(message.text)

    @message_handler
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Heard:
        return Heard(self.heard)


@default_subscription
class Slow(Quick):
    pass


async def found(runtime: EventSourcedAgentRuntime, slow_comes_up: asyncio.Event) -> None:
    async def slow() -> Slow:
        await slow_comes_up.wait()
        return Slow()

    await Speaker.register(runtime, "speaker", Speaker)
    await Quick.register(runtime, "quick", Quick)
    await Slow.register(runtime, "slow", slow)  # type: ignore[arg-type]


async def main(dsn: str) -> None:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await found(runtime, asyncio.Event())
        runtime.start()
        await runtime.send_message(Say("fire"), AgentId("speaker", "default"))
        quick = await runtime.try_get_underlying_agent_instance(AgentId("quick", "default"), Quick)
        while not quick.heard:
            await asyncio.sleep(0)
        await log.writer.flush()
        print("heard", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    from tests.acceptance.programs import fan_out  # its classes by their importable name, not as __main__'s

    asyncio.run(fan_out.main(sys.argv[1]))
