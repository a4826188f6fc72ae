"""AgentChat's teams, as they are, on our runtime and on AutoGen's: with the same results."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent, BaseChatAgent, SocietyOfMindAgent
from autogen_agentchat.base import Handoff, Response, TaskResult, Team
from autogen_agentchat.conditions import HandoffTermination, MaxMessageTermination, TextMentionTermination
from autogen_agentchat.messages import BaseChatMessage, StructuredMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat, SelectorGroupChat, Swarm
from autogen_agentchat.tools import AgentTool
from autogen_core import AgentId, AgentRuntime, CancellationToken, FunctionCall, SingleThreadedAgentRuntime
from autogen_core.models import CreateResult, ModelInfo, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient
from pydantic import BaseModel

from autogen_eventlog import EventLog, EventType
from tests.integration.drop_in import everything, log, make, recorded

__all__ = ["log", "make"]


class Verdict(BaseModel):
    """What two agents of one team answer with."""

    good: bool
    why: str


class Judge(BaseChatAgent):
    """Answers with a pydantic model, and counts its verdicts."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "judges")
        self.verdicts: list[str] = []

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (StructuredMessage[Verdict],)

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        self.verdicts.append(f"{self.name} {len(messages)}")
        verdict = Verdict(good=True, why=self.verdicts[-1])
        return Response(chat_message=StructuredMessage[Verdict](content=verdict, source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        self.verdicts.clear()


def model(*answers: str | CreateResult) -> ReplayChatCompletionClient:
    info = ModelInfo(vision=False, function_calling=True, json_output=True, family="unknown", structured_output=True)
    return ReplayChatCompletionClient(list(answers), model_info=info)


def calls(name: str, **arguments: Any) -> CreateResult:
    return CreateResult(
        finish_reason="function_calls",
        content=[FunctionCall(id="1", name=name, arguments=json.dumps(arguments))],
        usage=RequestUsage(prompt_tokens=1, completion_tokens=1),
        cached=False,
    )


def add(left: int, right: int) -> int:
    """Adds."""
    return left + right


def said(result: TaskResult) -> list[tuple[str, str, Any]]:
    """What a run produced, without ids and times."""
    found = [(type(message).__name__, message.source, getattr(message, "content", None)) for message in result.messages]
    return [*found, ("stopped", "", result.stop_reason)]


def round_robin(runtime: AgentRuntime) -> Team:
    client = model("one", calls("add", left=2, right=3), "TERMINATE")
    return RoundRobinGroupChat(
        [AssistantAgent("a", client), AssistantAgent("b", client, tools=[add])],
        termination_condition=TextMentionTermination("TERMINATE"),
        runtime=runtime,
    )


def selector(runtime: AgentRuntime) -> Team:
    client = model("b", "from b", "a", "TERMINATE")
    return SelectorGroupChat(
        [AssistantAgent("a", client), AssistantAgent("b", client)],
        client,
        termination_condition=TextMentionTermination("TERMINATE"),
        runtime=runtime,
    )


def swarm(runtime: AgentRuntime) -> Team:
    client = model(calls("transfer_to_b"), calls("transfer_to_user"))
    return Swarm(
        [
            AssistantAgent("a", client, handoffs=["b"]),
            AssistantAgent("b", client, handoffs=[Handoff(target="user")]),
        ],
        termination_condition=HandoffTermination("user"),
        runtime=runtime,
    )


def society(runtime: AgentRuntime) -> Team:
    inner = RoundRobinGroupChat(
        [AssistantAgent("inner", model("inner thought"))], termination_condition=MaxMessageTermination(2)
    )
    client = model("summed up")
    return RoundRobinGroupChat([SocietyOfMindAgent("society", inner, client)], max_turns=1, runtime=runtime)


def nested(runtime: AgentRuntime) -> Team:
    inner = RoundRobinGroupChat([AssistantAgent("inner", model("inner"))], max_turns=1, runtime=runtime, name="Inner")
    return RoundRobinGroupChat([inner, AssistantAgent("outer", model("outer"))], max_turns=2, runtime=runtime)


def agent_as_tool(runtime: AgentRuntime) -> Team:
    inner = AssistantAgent("expert", model("42"), description="knows")
    outer = AssistantAgent(
        "asks", model(calls("expert", task="what?"), "it is 42"), tools=[AgentTool(inner)], reflect_on_tool_use=True
    )
    return RoundRobinGroupChat([outer], max_turns=1, runtime=runtime)


def judges(runtime: AgentRuntime) -> Team:
    return RoundRobinGroupChat([Judge("x"), Judge("y")], max_turns=4, runtime=runtime)


TEAMS = [round_robin, selector, swarm, society, nested, agent_as_tool, judges]


async def run(runtime: SingleThreadedAgentRuntime, build: Callable[[AgentRuntime], Team], times: int = 1) -> list[Any]:
    runtime.start()
    team = build(runtime)
    results = [said(await team.run(task="begin")) for _ in range(times)]
    await runtime.stop_when_idle()
    return results


@pytest.mark.parametrize("build", TEAMS, ids=lambda build: build.__name__)
async def test_a_team_comes_to_the_same_result_as_on_autogens_runtime(
    log: EventLog, build: Callable[[AgentRuntime], Team]
) -> None:
    expected = await run(SingleThreadedAgentRuntime(), build)
    assert await run(recorded(log), build) == expected
    delivered = [event for event in await everything(log) if event.type is EventType.MESSAGE_DELIVERED]
    assert len(delivered) > 2


async def test_agents_that_share_an_output_type_are_recorded_with_it(log: EventLog) -> None:
    runtime = recorded(log)
    await run(runtime, judges)
    published = [log.message(event) for event in await everything(log) if event.type is EventType.MESSAGE_PUBLISHED]
    contents: list[Any] = [getattr(getattr(message, "message", None), "content", None) for message in published]
    verdicts = [content for content in contents if isinstance(content, Verdict)]
    assert {verdict.why.split()[0] for verdict in verdicts} == {"x", "y"}


async def test_a_team_streams_its_messages(log: EventLog) -> None:
    runtime = recorded(log)
    runtime.start()
    streamed: list[Any] = [message async for message in round_robin(runtime).run_stream(task="begin")]
    await runtime.stop_when_idle()
    assert isinstance(streamed[-1], TaskResult)
    assert streamed[:-1] == list(streamed[-1].messages)


async def test_a_team_is_run_reset_and_run_again(make: Any) -> None:
    runtime = make()
    runtime.start()
    judge = Judge("x")
    team = RoundRobinGroupChat([judge], max_turns=1, runtime=runtime)
    await team.run(task="one")
    await team.run(task="two")
    assert judge.verdicts == ["x 1", "x 1"]
    await team.reset()
    assert judge.verdicts == []
    result = await team.run(task=TextMessage(content="three", source="user"))
    await runtime.stop_when_idle()
    assert (judge.verdicts, len(result.messages)) == (["x 1"], 2)


async def test_a_state_of_a_team_goes_into_another_team(make: Any) -> None:
    runtime = make()
    runtime.start()
    first, second = AssistantAgent("a", model("one", "two")), AssistantAgent("a", model("three"))
    await RoundRobinGroupChat([first], max_turns=1, runtime=runtime).run(task="begin")
    team = RoundRobinGroupChat([first], max_turns=1, runtime=runtime)
    await team.run(task="go on")
    state = json.loads(json.dumps(await team.save_state()))
    other = RoundRobinGroupChat([second], max_turns=1, runtime=runtime)
    await other.load_state(state)
    assert await second.model_context.get_messages() == await first.model_context.get_messages()
    await other.run(task="and on")
    await runtime.stop_when_idle()
    texts = [message.content for message in await second.model_context.get_messages()]
    assert texts == ["begin", "one", "go on", "two", "and on", "three"]


async def test_a_state_of_a_team_that_never_ran_goes_into_another_team(make: Any) -> None:
    runtime = make()
    runtime.start()
    state = await RoundRobinGroupChat([Judge("x")], max_turns=1, runtime=runtime).save_state()
    team = RoundRobinGroupChat([Judge("x")], max_turns=1, runtime=runtime)
    await team.load_state(json.loads(json.dumps(state)))
    assert len((await team.run(task="begin")).messages) == 2
    await runtime.stop_when_idle()


async def test_a_view_of_a_participant_does_not_touch_the_live_one(log: EventLog) -> None:
    """Each container that a team's factory makes holds the same participant; a view must not replay into it."""
    runtime, judge = recorded(log), Judge("x")
    runtime.start()
    team = RoundRobinGroupChat([judge], max_turns=1, runtime=runtime)
    await team.run(task="one")
    [container] = [head.stream for head in await log.agents() if head.stream.startswith("x_")]
    agent = AgentId.from_str(container)
    try:
        await runtime.view(agent, version=2)
    finally:
        assert judge.verdicts == ["x 1"]
    await team.run(task="two")
    await runtime.stop_when_idle()
    assert judge.verdicts == ["x 1", "x 1"]
