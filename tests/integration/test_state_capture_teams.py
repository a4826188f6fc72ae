"""AgentChat's teams, as they are: the state of each member and of the manager, captured and loaded into another process's."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any
from unittest import mock

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import Team
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.teams import MagenticOneGroupChat, RoundRobinGroupChat, SelectorGroupChat, Swarm
from autogen_core import AgentId, FunctionCall
from autogen_core.memory import ListMemory, MemoryContent
from autogen_core.models import ChatCompletionClient, CreateResult, ModelInfo, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.state import CapturedState, capture, difference, load

INFO = ModelInfo(vision=False, function_calling=True, json_output=True, family="unknown", structured_output=True)
TEAM = uuid.UUID(int=5)
Build = Callable[[ChatCompletionClient, EventSourcedAgentRuntime], Team]


def add(left: int, right: int) -> int:
    """Adds."""
    return left + right


def calling(name: str, arguments: str) -> CreateResult:
    content = [FunctionCall(id="1", name=name, arguments=arguments)]
    return CreateResult(finish_reason="function_calls", content=content, usage=RequestUsage(1, 1), cached=False)


def members(client: ChatCompletionClient) -> list[AssistantAgent]:
    memory = ListMemory("m", [MemoryContent(content="likes tea", mime_type="text/plain")])
    return [AssistantAgent("a", client, tools=[add], memory=[memory]), AssistantAgent("b", client, tools=[add])]


def round_robin(client: ChatCompletionClient, runtime: EventSourcedAgentRuntime) -> Team:
    ends = TextMentionTermination("TERMINATE") | MaxMessageTermination(20)
    return RoundRobinGroupChat(members(client), termination_condition=ends, runtime=runtime, emit_team_events=True)  # type: ignore[arg-type]


def selector(client: ChatCompletionClient, runtime: EventSourcedAgentRuntime) -> Team:
    ends = TextMentionTermination("TERMINATE")
    return SelectorGroupChat(
        members(client),  # type: ignore[arg-type]
        client,
        termination_condition=ends,
        selector_func=lambda messages: "ab"[len(messages) % 2],
        runtime=runtime,
    )


def swarm(client: ChatCompletionClient, runtime: EventSourcedAgentRuntime) -> Team:
    first, second = AssistantAgent("a", client, handoffs=["b"]), AssistantAgent("b", client, handoffs=["a"])
    return Swarm([first, second], termination_condition=MaxMessageTermination(6), runtime=runtime)


def magentic(client: ChatCompletionClient, runtime: EventSourcedAgentRuntime) -> Team:
    return MagenticOneGroupChat([AssistantAgent("a", client)], client, max_turns=2, runtime=runtime)


def answers() -> list[str | CreateResult]:
    return ["one", calling("add", '{"left": 2, "right": 3}'), "two", "three", "TERMINATE"]


def handing_over() -> list[str | CreateResult]:
    return [calling("transfer_to_b", "{}"), "two", "three", "four", "five", "six"]


def ledgers() -> list[str | CreateResult]:
    answer = '{"reason": "r", "answer": %s}'
    ledger = ", ".join(
        f'"{name}": {answer % value}'
        for name, value in (
            *(("is_request_satisfied", "false"), ("is_in_loop", "false"), ("is_progress_being_made", "true")),
            *(("next_speaker", '"a"'), ("instruction_or_question", '"go on"')),
        )
    )
    return ["facts", "plan", f"{{{ledger}}}", "work", f"{{{ledger}}}", "more", f"{{{ledger}}}", *["final"] * 3]


@asynccontextmanager
async def team(
    dsn: str, build: Build, script: list[str | CreateResult]
) -> AsyncGenerator[tuple[Any, EventSourcedAgentRuntime, EventLog]]:
    """A team with the same id each time: AgentChat draws one, and derives its agents' types from it."""
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        with mock.patch("uuid.uuid4", return_value=TEAM):
            made = build(ReplayChatCompletionClient(script, INFO), runtime)  # type: ignore[arg-type]
        runtime.start()
        try:
            yield made, runtime, log
        finally:
            await runtime.stop_when_idle()


def queue_of(agent: Any) -> list[Any]:
    """A manager's queue to the team that others read."""
    return [queue for queue in (getattr(agent, "_output_message_queue", None),) if queue is not None]


def state(agent: Any, log: EventLog) -> CapturedState:
    return capture(agent, log.codec, outside=queue_of(agent))


async def states(runtime: EventSourcedAgentRuntime, log: EventLog) -> dict[AgentId, CapturedState]:
    found: dict[AgentId, CapturedState] = {}
    for head in await log.agents():
        if not head.stream.startswith("$"):
            agent = AgentId.from_str(head.stream)
            found[agent] = state(await runtime.try_get_underlying_agent_instance(agent), log)
    return found


@pytest.mark.parametrize(
    ("build", "script"),
    [(round_robin, answers), (selector, answers), (swarm, handing_over), (magentic, ledgers)],
    ids=lambda value: value.__name__,
)
async def test_every_agent_of_a_team_is_captured_and_loaded_by_another(
    dsn: str, empty_dsn: str, build: Build, script: Callable[[], list[str | CreateResult]]
) -> None:
    async with team(dsn, build, script()) as (made, runtime, log):
        result = await made.run(task="begin")
        await runtime.stop_when_idle()  # what the team sent last is with its members
        captured = await states(runtime, log)
        for agent, live in captured.items():
            viewed: Any = await runtime.view(agent)
            assert difference(live.data, state(viewed, log).data) == []
        runtime.start()
    assert len(result.messages) > 3
    assert len(captured) >= 2
    async with team(empty_dsn, build, []) as (made, runtime, log):
        await made._init(runtime)
        for agent, live in captured.items():
            fresh: Any = await runtime.try_get_underlying_agent_instance(agent)
            assert state(fresh, log).digest != live.digest
            load(live.data, into=fresh, codec=log.codec, outside=queue_of(fresh))
            assert state(fresh, log) == live
