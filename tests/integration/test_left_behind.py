"""Tasks that a handler leaves behind: where they come to is in the log too, though no event of theirs says so (G3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from autogen_core import AgentId, CancellationToken, MessageContext, RoutedAgent, rpc
from autogen_core.tools import FunctionTool

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime, EventType
from autogen_eventlog.state.capture import capture

AGENT = AgentId("leaving", "one")


@dataclass
class Work:
    seconds: float


async def ask() -> str:
    """Answers."""
    return "an answer"


class Leaving(RoutedAgent):
    """Answers at once, and goes on: it asks a tool, waits if it is told to, and then changes itself."""

    def __init__(self) -> None:
        super().__init__("leaves work behind")
        self.tool = FunctionTool(ask, "answers", name="ask")
        self.tasks: set[asyncio.Task[None]] = set()
        self.done: list[str] = []

    @rpc
    async def on_work(self, message: Work, ctx: MessageContext) -> None:
        task = asyncio.create_task(self.work(message.seconds))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def work(self, seconds: float) -> None:
        answer = await self.tool.run_json({}, CancellationToken())
        if seconds:
            await asyncio.sleep(seconds)
        self.done.append(answer)


@asynccontextmanager
async def running(dsn: str) -> AsyncGenerator[tuple[EventSourcedAgentRuntime, EventLog]]:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await Leaving.register(runtime, "leaving", Leaving)
        runtime.start()
        yield runtime, log
        await runtime.stop_when_idle()


@pytest.mark.parametrize("seconds", [0.0, 0.01])
async def test_a_view_of_now_has_what_was_done_after_the_handler_ended(dsn: str, seconds: float) -> None:
    async with running(dsn) as (runtime, log):
        for times in (1, 2):
            await runtime.send_message(Work(seconds), AGENT)
            live = await runtime.try_get_underlying_agent_instance(AGENT, Leaving)
            while live.tasks:
                await asyncio.sleep(0.001)
            view = await runtime.view(AGENT, type=Leaving)
            assert (view.done, view.tasks) == (["an answer"] * times, set())
            assert capture(view, log.codec).digest == capture(live, log.codec).digest
        events = [event.type async for event in log.read(AGENT)]
        assert events.count(EventType.SCHEDULE_RECORDED) == 2
        before = await runtime.view(AGENT, version=len(events) - 1, type=Leaving)
        assert len(before.done) == 1


@pytest.mark.parametrize("seconds", [0.0, 0.01])
async def test_a_snapshot_after_it_is_proven_and_recovered_from(dsn: str, seconds: float) -> None:
    async with running(dsn) as (runtime, _):
        await runtime.send_message(Work(seconds), AGENT)
        live = await runtime.try_get_underlying_agent_instance(AGENT, Leaving)
        while live.tasks:
            await asyncio.sleep(0.001)
        report = await runtime.snapshot(AGENT)
        assert (report.proven, report.differing) == (True, ())
        assert (await runtime.restore(AGENT, version=report.version)).snapshot_version == report.version
    async with running(dsn) as (runtime, _):
        await runtime.send_message(Work(seconds), AGENT)
        recovered = await runtime.try_get_underlying_agent_instance(AGENT, Leaving)
        while recovered.tasks:
            await asyncio.sleep(0.001)
        assert recovered.done == ["an answer"] * 2
        assert (await runtime.view(AGENT, type=Leaving)).done == ["an answer"] * 2


async def test_an_agent_that_rests_is_not_written_of_as_it_comes_up(dsn: str) -> None:
    async with running(dsn) as (runtime, _):
        await runtime.send_message(Work(0.0), AGENT)
        live = await runtime.try_get_underlying_agent_instance(AGENT, Leaving)
        while live.tasks:
            await asyncio.sleep(0.001)
    for times in (2, 3):
        async with running(dsn) as (runtime, log):
            await runtime.get(AGENT, lazy=False)
            await log.writer.flush()
            events = [event.type async for event in log.read(AGENT)]
            assert events.count(EventType.AGENT_ACTIVATED) == times
            assert events.count(EventType.SCHEDULE_RECORDED) == 1
