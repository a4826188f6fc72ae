"""An agent that answers with a set of strings in its order, which depends on PYTHONHASHSEED.

    python -m tests.acceptance.programs.hashing DSN record|view

`view` prints the likely cause of the divergence, or `same`.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

from autogen_core import AgentId, MessageContext, RoutedAgent, message_handler

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.errors import Divergence

AGENT = AgentId("hashing", "one")


@dataclass
class Words:
    words: list[str]


class Hashing(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("orders words as its process does")

    @message_handler
    async def on_words(self, message: Words, ctx: MessageContext) -> str:
        return " ".join(set(message.words))


async def main(dsn: str, task: str) -> None:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await Hashing.register(runtime, "hashing", Hashing)
        runtime.start()
        try:
            if task == "record":
                await runtime.send_message(Words([f"word {number}" for number in range(50)]), AGENT)
            else:
                await runtime.view(AGENT)
                print("same")
        except Divergence as divergence:
            print(divergence.likely_cause)
        await runtime.stop_when_idle()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
