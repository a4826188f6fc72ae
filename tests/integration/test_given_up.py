"""That an agent gave up a call is in the log before the recipient hears of it: who recovers has given it up too (G2, G3)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from uuid import uuid4

import pytest
from autogen_core import (
    AgentId,
    CancellationToken,
    MessageContext,
    RoutedAgent,
    TopicId,
    TypeSubscription,
    message_handler,
    rpc,
)

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.events import EventType
from tests.acceptance.asking import until

CALLER, SLOW = AgentId("caller", "k"), AgentId("slow", "k")


@dataclass
class Job:
    way: str


@dataclass
class Wait:
    pass


class Caller(RoutedAgent):
    """Calls another, gives up, and is then long at something of which the log hears nothing."""

    def __init__(self) -> None:
        super().__init__("gives up")
        self.log: list[str] = []

    @rpc
    async def on_job(self, message: Job, ctx: MessageContext) -> str:
        try:
            await getattr(self, f"by_{message.way}")()
        except (asyncio.CancelledError, asyncio.TimeoutError, TimeoutError) as error:
            self.log.append(f"{message.way}: {type(error).__name__}")
        await asyncio.sleep(30)
        return "done"

    async def by_timeout(self) -> None:
        await asyncio.wait_for(self.send_message(Wait(), SLOW), 0.05)

    async def by_task(self) -> None:
        task = asyncio.ensure_future(self.send_message(Wait(), SLOW))
        await asyncio.sleep(0.05)
        self.log.append(f"gives up {uuid4()}")
        task.cancel()
        await task

    async def by_token(self) -> None:
        token = CancellationToken()
        task = asyncio.ensure_future(self.send_message(Wait(), SLOW, cancellation_token=token))
        await asyncio.sleep(0.05)
        self.log.append(f"gives up {uuid4()}")
        token.cancel()
        await task

    async def by_publication(self) -> None:
        token = CancellationToken()
        await self.publish_message(Wait(), TopicId("slow", "k"), cancellation_token=token)
        await asyncio.sleep(0.05)
        self.log.append(f"gives up {uuid4()}")
        token.cancel()


class Slow(RoutedAgent):
    """Answers never; when it is told that nobody waits, it answers all the same."""

    def __init__(self) -> None:
        super().__init__("is slow")

    @message_handler
    async def on_wait(self, message: Wait, ctx: MessageContext) -> str:
        waiting = asyncio.ensure_future(asyncio.sleep(30))
        ctx.cancellation_token.link_future(waiting)
        await asyncio.wait([waiting])
        return "an answer that nobody waits for"


async def running(log: EventLog, *, takeover: bool = False) -> EventSourcedAgentRuntime:
    runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, takeover=takeover)])
    await Caller.register(runtime, "caller", Caller)
    await Slow.register(runtime, "slow", Slow)
    await runtime.add_subscription(TypeSubscription("slow", "slow"))
    runtime.start()
    return runtime


@pytest.mark.parametrize("way", ["timeout", "task", "token", "publication"])
async def test_who_recovers_amid_what_came_after_has_given_up_as_before(dsn: str, way: str) -> None:
    async with EventLog.open(dsn) as before, EventLog.open(dsn) as after:
        first = await running(before)
        asked = asyncio.create_task(first.send_message(Job(way), CALLER))

        async def heard() -> bool:
            events = [event async for event in before.read(SLOW)]
            return any(event.type is EventType.DELIVERY_COMPLETED for event in events)

        await until(heard, "the recipient has heard that nobody waits, and its answer is durable")
        lived = (await first.try_get_underlying_agent_instance(CALLER, Caller)).log
        second = await running(after, takeover=True)
        recovered = await second.try_get_underlying_agent_instance(CALLER, Caller)

        async def the_same() -> bool:
            return bool(lived) and len(recovered.log) >= len(lived)

        await until(the_same, "it has come as far as before")
        assert recovered.log == lived
        waits = [event async for event in after.read(SLOW) if event.type is EventType.MESSAGE_DELIVERED]
        assert len(waits) == 1
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await second.stop()
        await first.stop()
