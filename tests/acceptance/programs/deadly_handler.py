"""A handler that ends its process, each time it runs."""

from __future__ import annotations

import os
import signal

from autogen_core import AgentId, MessageContext, RoutedAgent, message_handler

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime

from .queue_of_ten import Done


class Deadly(RoutedAgent):
    """Ends the process."""

    def __init__(self) -> None:
        super().__init__("ends the process")

    @message_handler
    async def on_done(self, message: Done, ctx: MessageContext) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


async def main(dsn: str) -> None:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, durability="strict")])
        await Deadly.register(runtime, "deadly", Deadly)
        runtime.start()
        if not await log.audit.in_flight():
            await runtime.send_message(Done(), AgentId("deadly", "default"))
        await runtime.stop_when_idle()
