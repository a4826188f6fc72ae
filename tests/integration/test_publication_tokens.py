"""The token that a publication is given reaches the handlers of its recipients, as on AutoGen's runtime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import BaseChatMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import (
    AgentId,
    CancellationToken,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    TopicId,
    TypeSubscription,
    event,
)

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.events import EventType
from autogen_eventlog.testing.equality import difference


@dataclass
class Word:
    text: str


class Passer(RoutedAgent):
    """Passes a word on, with the token it came with, and is done."""

    def __init__(self) -> None:
        super().__init__("passes on")

    @event
    async def on_word(self, message: Word, ctx: MessageContext) -> None:
        await self.publish_message(message, TopicId("worker", "k"), cancellation_token=ctx.cancellation_token)


class Worker(RoutedAgent):
    """Works until it is told to stop."""

    def __init__(self) -> None:
        super().__init__("works")
        self.began = 0
        self.stopped: list[str] = []

    @event
    async def on_word(self, message: Word, ctx: MessageContext) -> None:
        self.began += 1
        working = asyncio.get_running_loop().create_future()
        ctx.cancellation_token.link_future(working)
        try:
            await working
        except asyncio.CancelledError:
            self.stopped.append(message.text)


@pytest.fixture(params=["autogen", "eventlog"])
async def runtime(request: pytest.FixtureRequest, dsn: str) -> AsyncIterator[Any]:
    async with AsyncExitStack() as stack:
        if request.param == "autogen":
            made: Any = SingleThreadedAgentRuntime()
        else:
            log = await stack.enter_async_context(EventLog.open(dsn))
            made = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        made.start()
        yield made
        await made.stop_when_idle()


@pytest.mark.parametrize("topic", ["worker", "passer"])
async def test_who_cancels_a_publication_stops_all_that_it_led_to(runtime: Any, topic: str) -> None:
    """The agent that passed it on may have ended long ago."""
    await Passer.register(runtime, "passer", Passer)
    await Worker.register(runtime, "worker", Worker)
    for name in ("passer", "worker"):
        await runtime.add_subscription(TypeSubscription(name, name))
    token = CancellationToken()
    await runtime.publish_message(Word("a"), TopicId(topic, "k"), cancellation_token=token)
    worker: Any = await runtime.try_get_underlying_agent_instance(AgentId("worker", "k"))
    while not worker.began:
        await asyncio.sleep(0)
    token.cancel()
    await runtime.stop_when_idle()
    assert worker.stopped == ["a"]
    runtime.start()
    if isinstance(runtime, EventSourcedAgentRuntime):
        events = [one.type async for one in runtime.recorded_agents.log.read("worker/k")]
        assert EventType.DELIVERY_CANCELLED in events
        assert difference(vars(await runtime.view(worker.id))["stopped"], ["a"]) is None


class Member(BaseChatAgent):
    """Takes its time, unless it is told to stop."""

    waits = False

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (TextMessage,)

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        if len(messages) and messages[-1].to_text() == "third":
            thinking = asyncio.get_running_loop().create_future()
            cancellation_token.link_future(thinking)
            self.waits = True
            await thinking
        text = {"begin": "first", "first": "second", "second": "third"}.get(messages[-1].to_text(), "more")
        return Response(chat_message=TextMessage(content=text, source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None: ...


async def test_a_team_that_is_cancelled_stops(runtime: Any) -> None:
    members: list[Any] = [Member(name, "speaks") for name in "ab"]
    team = RoundRobinGroupChat(members, runtime=runtime)
    token = CancellationToken()
    said: list[str] = []

    async def follow() -> None:
        async for message in team.run_stream(task="begin", cancellation_token=token):
            said.append(getattr(message, "content", ""))

    following = asyncio.create_task(follow())
    while "third" not in said or not any(member.waits for member in members):
        await asyncio.sleep(0.01)
        assert not following.done()
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following
    await runtime.stop_when_idle()  # nobody goes on
    runtime.start()
    assert said == ["begin", "first", "second", "third"]
