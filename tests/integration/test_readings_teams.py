"""AgentChat's teams, as they are, recovered exactly: the ids and times that they draw for their messages included (E20)."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from unittest import mock

from autogen_agentchat.agents import AssistantAgent, SocietyOfMindAgent
from autogen_agentchat.base import TaskResult, Team
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination, TimeoutTermination
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat
from autogen_agentchat.teams._group_chat._base_group_chat_manager import BaseGroupChatManager
from autogen_agentchat.teams._group_chat._chat_agent_container import ChatAgentContainer
from autogen_core import AgentId, FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, ModelInfo, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.testing.equality import difference

INFO = ModelInfo(vision=False, function_calling=True, json_output=True, family="unknown", structured_output=True)
TEAM = uuid.UUID(int=5)

Build = Callable[[ChatCompletionClient, EventSourcedAgentRuntime], Team]


def add(left: int, right: int) -> int:
    """Adds."""
    return left + right


def script() -> ReplayChatCompletionClient:
    content = [FunctionCall(id="1", name="add", arguments='{"left": 2, "right": 3}')]
    calls = CreateResult(finish_reason="function_calls", content=content, usage=RequestUsage(1, 1), cached=False)
    return ReplayChatCompletionClient(["one", calls, "two", "three", "TERMINATE"], INFO)


class Refusing(ReplayChatCompletionClient):
    """A model that must not be asked."""

    async def create(self, *args: Any, **keywords: Any) -> CreateResult:
        raise AssertionError("the model was asked")


def round_robin(client: ChatCompletionClient, runtime: EventSourcedAgentRuntime) -> Team:
    ends = TextMentionTermination("TERMINATE") | MaxMessageTermination(20) | TimeoutTermination(60)
    return RoundRobinGroupChat(
        [AssistantAgent("a", client, tools=[add]), AssistantAgent("b", client, tools=[add])],
        termination_condition=ends,
        runtime=runtime,
        emit_team_events=True,
    )


def selector(client: ChatCompletionClient, runtime: EventSourcedAgentRuntime) -> Team:
    def select(messages: Sequence[Any]) -> str:
        return "ab"[len(messages) % 2]

    return SelectorGroupChat(
        [AssistantAgent("a", client, tools=[add]), AssistantAgent("b", client, tools=[add])],
        client,
        termination_condition=TextMentionTermination("TERMINATE"),
        selector_func=select,
        runtime=runtime,
    )


def society(client: ChatCompletionClient, runtime: EventSourcedAgentRuntime) -> Team:
    """Its inner team has a runtime of AutoGen's own, which runs in the handler."""
    inner = RoundRobinGroupChat(
        [AssistantAgent("inner", client), AssistantAgent("other", client)],
        termination_condition=MaxMessageTermination(3),
    )
    return RoundRobinGroupChat([SocietyOfMindAgent("society", inner, client)], max_turns=2, runtime=runtime)


@asynccontextmanager
async def team(dsn: str, build: Build, client: ChatCompletionClient) -> AsyncGenerator[tuple[Any, Any, EventLog]]:
    """A team with the same id each time: AgentChat draws one, and derives its agents' types from it."""
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        with mock.patch("uuid.uuid4", return_value=TEAM):
            made = build(client, runtime)
        runtime.start()
        try:
            yield made, runtime, log
        finally:
            await runtime.stop_when_idle()


async def agents_of(log: EventLog) -> list[AgentId]:
    return [AgentId.from_str(head.stream) for head in await log.agents() if not head.stream.startswith("$")]


async def state_of(agent: Any) -> Any:
    """What a member or the manager of a team keeps."""
    if isinstance(agent, ChatAgentContainer):
        inner: Any = agent._agent
        if isinstance(inner, SocietyOfMindAgent):
            members: Any = inner._team
            return [await one.model_context.get_messages() for one in members._participants]
        return [await inner.model_context.get_messages(), list(agent._message_buffer)]
    assert isinstance(agent, BaseGroupChatManager)
    return [list(agent._message_thread), agent._current_turn, await agent.save_state()]


def words() -> ReplayChatCompletionClient:
    return ReplayChatCompletionClient([f"word {number}" for number in range(8)], INFO)


async def check(dsn: str, build: Build, script: Callable[[], ReplayChatCompletionClient] = script) -> TaskResult:
    async with team(dsn, build, script()) as (made, runtime, log):
        first = await made.run(task="begin")
        agents = await agents_of(log)
        states = {}
        for agent in agents:
            states[agent] = await state_of(await runtime.try_get_underlying_agent_instance(agent))
            assert difference(states[agent], await state_of(await runtime.view(agent))) is None
    async with team(dsn, build, Refusing([], INFO)) as (made, runtime, log):
        await made._init(runtime)
        for agent in agents:
            assert difference(states[agent], await state_of(await runtime.view(agent))) is None
            recovered = await runtime.try_get_underlying_agent_instance(agent)
            assert difference(states[agent], await state_of(recovered)) is None
    return first


async def test_a_round_robin_is_recovered_with_every_id_and_time(dsn: str) -> None:
    result = await check(dsn, round_robin)
    assert result.messages[-1].to_text() == "TERMINATE"
    assert len({message.id for message in result.messages}) == len(result.messages)


async def test_a_team_with_a_selector_is_recovered_with_every_id_and_time(dsn: str) -> None:
    await check(dsn, selector)


async def test_a_team_within_a_member_is_recovered_with_every_id_and_time(dsn: str) -> None:
    await check(dsn, society, words)


async def test_a_recovered_team_goes_on(dsn: str) -> None:
    """Its second run, in another process, is a part of the same lives."""
    clients = [ReplayChatCompletionClient(["one", "TERMINATE"], INFO) for _ in range(2)]
    async with team(dsn, round_robin, clients[0]) as (made, runtime, log):
        await made.run(task="begin")
    async with team(dsn, round_robin, clients[1]) as (made, runtime, log):
        await made.run(task="again")
        for agent in await agents_of(log):
            live = await runtime.try_get_underlying_agent_instance(agent)
            assert difference(await state_of(live), await state_of(await runtime.view(agent))) is None
