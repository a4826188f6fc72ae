"""A view stands still: what was under way in it neither goes on nor is cleaned up while it is held (G3)."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass

from autogen_core import AgentId, MessageContext, RoutedAgent, message_handler

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime

ALICE = AgentId("tidy", "alice")


@dataclass
class Work:
    pass


class Tidy(RoutedAgent):
    """Has handlers, background tasks and locks that say when they are left."""

    def __init__(self) -> None:
        super().__init__("tidy")
        self.log: list[str] = []
        self._lock = asyncio.Lock()

    @message_handler
    async def on_work(self, message: Work, ctx: MessageContext) -> None:
        asyncio.create_task(self._holds())  # noqa: RUF006 - asyncio alone knows it, as in careless programs
        asyncio.create_task(self._waits())  # noqa: RUF006
        await asyncio.sleep(0)
        self.log.append("handled")

    async def _holds(self) -> None:
        async with self._lock:
            try:
                self.log.append("holds")
                await asyncio.sleep(0.05)
            finally:
                self.log.append("left")

    async def _waits(self) -> None:
        async with self._lock:
            self.log.append("came")


async def test_what_was_under_way_in_a_view_is_not_cleaned_up_while_it_is_held(dsn: str) -> None:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await Tidy.register(runtime, "tidy", Tidy)
        runtime.start()
        await runtime.send_message(Work(), ALICE)
        view = await runtime.view(ALICE, type=Tidy)
        for _ in range(3):
            gc.collect()
            await asyncio.sleep(0)
        assert view.log == ["holds", "handled"]
        assert view._lock.locked()  # pyright: ignore[reportPrivateUsage]
        del view
        gc.collect()
        await runtime.stop_when_idle()
