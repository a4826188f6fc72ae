"""AgentChat's teams as their states are moved about, and what their messages say."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from autogen_agentchat.agents import AssistantAgent, BaseChatAgent, SocietyOfMindAgent
from autogen_agentchat.base import Response, Team
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.messages import BaseChatMessage, StructuredMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import (
    AgentRuntime,
    CancellationToken,
)
from autogen_core.models import ModelInfo
from autogen_ext.models.replay import ReplayChatCompletionClient
from pydantic import BaseModel

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime

SAVED = Path(__file__).parent / "autogen_states"
INFO = ModelInfo(vision=False, function_calling=True, json_output=True, family="unknown", structured_output=True)
TEAM, OTHER_TEAM = uuid.UUID(int=5), uuid.UUID(int=6)

Build = Callable[[AgentRuntime | None], Team]


def model(*answers: str) -> ReplayChatCompletionClient:
    return ReplayChatCompletionClient(list(answers), model_info=INFO)


def saved(name: str) -> dict[str, Any]:
    return json.loads((SAVED / f"{name}.json").read_text())


def round_robin(runtime: AgentRuntime | None, *answers: str, **more: Any) -> RoundRobinGroupChat:
    client = model(*(answers or ("five", "six")))
    settings: dict[str, Any] = {"max_turns": 2, "runtime": runtime, **more}
    return RoundRobinGroupChat([AssistantAgent("a", client), AssistantAgent("b", client)], **settings)


def society(runtime: AgentRuntime | None) -> RoundRobinGroupChat:
    inner = RoundRobinGroupChat(
        [AssistantAgent("inner", model("thought"))], termination_condition=MaxMessageTermination(2)
    )
    return RoundRobinGroupChat([SocietyOfMindAgent("society", inner, model("sum"))], max_turns=1, runtime=runtime)


@asynccontextmanager
async def started(log: EventLog) -> AsyncGenerator[EventSourcedAgentRuntime]:
    runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
    runtime.start()
    yield runtime
    await runtime.stop_when_idle()


def with_id(identity: uuid.UUID, build: Callable[[], Any]) -> Any:
    """A team with a known id: AgentChat draws one."""
    with mock.patch("uuid.uuid4", return_value=identity):
        return build()


async def streams(log: EventLog) -> dict[str, int]:
    """Versions, of those with events."""
    return {one.stream: one.version for one in await log.agents() if one.version > 0 and "$" not in one.stream}


class Verdict(BaseModel):
    good: bool


class Judge(BaseChatAgent):
    """Answers with a pydantic model."""

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (StructuredMessage[Verdict],)

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        return Response(chat_message=StructuredMessage[Verdict](content=Verdict(good=True), source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None: ...


class Blind(Judge):
    """Does not say that it does."""

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (TextMessage,)


class Silent(Blind):
    """Says nothing that has a type of its own."""

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        return Response(chat_message=TextMessage(content="no verdict", source=self.name))


def judges(runtime: AgentRuntime, **more: Any) -> RoundRobinGroupChat:
    agents: list[Any] = [Blind("a", "judges"), AssistantAgent("b", model("no"))]
    settings: dict[str, Any] = {"max_turns": 2, "runtime": runtime, **more}
    return RoundRobinGroupChat(agents, **settings)


async def structured() -> dict[str, Any]:
    """A team's state with structured messages in it, as AutoGen saves it."""
    team = RoundRobinGroupChat([Judge("a", "judges"), AssistantAgent("b", model("yes"))], max_turns=3)
    await team.run(task="begin")
    return json.loads(json.dumps(await team.save_state()))


def silent(runtime: AgentRuntime | None, **more: Any) -> RoundRobinGroupChat:
    return RoundRobinGroupChat(
        [Silent("a", "judges"), AssistantAgent("b", model("no", "no"))], max_turns=2, runtime=runtime, **more
    )


async def silent_state() -> dict[str, Any]:
    """A state of such a team, as AutoGen saves it."""
    team = silent(None)
    await team.run(task="begin")
    return json.loads(json.dumps(await team.save_state()))


def thread_of(state: Mapping[str, Any]) -> list[Any]:
    return state["agent_states"]["RoundRobinGroupChatManager"]["message_thread"]
