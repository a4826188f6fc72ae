"""A model or tool that an agent changes for another is the other one after it is restored from a snapshot (G3)."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from autogen_core import AgentId, MessageContext, RoutedAgent, rpc
from autogen_core.models import ChatCompletionClient, ModelInfo, UserMessage
from autogen_core.tools import FunctionTool
from autogen_ext.models.replay import ReplayChatCompletionClient

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.codec import Codec, TypeRegistry
from autogen_eventlog.errors import NotCapturable
from autogen_eventlog.snapshots import SnapshotPolicy
from autogen_eventlog.state import capture

ONE = AgentId("switching", "one")
POLICY = SnapshotPolicy(every=None, within=None, proving=1.0)
INFO = ModelInfo(vision=False, function_calling=True, json_output=True, family="unknown", structured_output=False)


@dataclass
class Ask:
    change: str = ""


@dataclass
class Answer:
    text: str


def model(says: str) -> ChatCompletionClient:
    return ReplayChatCompletionClient([says] * 20, model_info=INFO)


def tool(name: str) -> FunctionTool:
    def run(text: str) -> str:
        RUN.append(name)
        return name

    return FunctionTool(run, description="the same for each", name=name)


RUN: list[str] = []
"""The tools that were really run."""


class Switching(RoutedAgent):
    """Answers with what its model and its first tool say; the message tells it what to change before."""

    def __init__(self) -> None:
        super().__init__("switches")
        self.client = model("first")
        self.backup = model("second")
        self.by_name: dict[Any, Any] = {"third": model("third"), ("fourth", 4): model("fourth")}
        self.tools: list[Any] = [tool("a"), tool("b"), tool("c")]
        self.retired: list[Any] = []

    @rpc
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
        CHANGES[message.change](self)
        result = await self.client.create([UserMessage(content="?", source="user")])
        ran = await self.tools[0].run_json({"text": ""}, ctx.cancellation_token)
        return Answer(f"{result.content} {ran} {''.join(one.name for one in self.tools)}")


def _swap(agent: Switching) -> None:
    agent.client, agent.backup = agent.backup, agent.client


def _of_dict(agent: Switching, key: Any) -> None:
    agent.client = agent.by_name.pop(key)


CHANGES: dict[str, Callable[[Switching], object]] = {
    "": lambda agent: None,
    "to the backup": lambda agent: setattr(agent, "client", agent.backup),
    "swapped": _swap,
    "to one of a dict": lambda agent: _of_dict(agent, "third"),
    "to one of a dict by a key of many parts": lambda agent: _of_dict(agent, ("fourth", 4)),
    "without the first": lambda agent: agent.tools.pop(0),
    "reversed": lambda agent: agent.tools.reverse(),
    "retired": lambda agent: agent.retired.append(agent.tools.pop(1)),
    "a new list": lambda agent: setattr(agent, "tools", agent.tools[2:]),
    "a copy": lambda agent: setattr(agent, "client", copy.copy(agent.client)),
    "nothing left": lambda agent: (agent.by_name.clear(), agent.tools.reverse()),
}


@asynccontextmanager
async def running(dsn: str) -> AsyncGenerator[EventSourcedAgentRuntime]:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, snapshots=POLICY)])
        await Switching.register(runtime, "switching", Switching)
        runtime.start()
        yield runtime
        await runtime.stop_when_idle()


async def _answer(runtime: EventSourcedAgentRuntime, change: str = "") -> str:
    return (await runtime.send_message(Ask(change), ONE)).text


EXPECTED = {
    "to the backup": "second a abc",
    "swapped": "second a abc",
    "to one of a dict": "third a abc",
    "to one of a dict by a key of many parts": "fourth a abc",
    "without the first": "first b bc",
    "reversed": "first c cba",
    "retired": "first a ac",
    "a new list": "first c c",
    "nothing left": "first c cba",
}


@pytest.mark.parametrize("change", EXPECTED)
async def test_what_was_changed_for_another_is_the_other_after_a_restart(dsn: str, change: str) -> None:
    async with running(dsn) as runtime:
        assert await _answer(runtime) == "first a abc"
        assert await _answer(runtime, change) == EXPECTED[change]
        report = await runtime.snapshot(ONE)
        assert (report.proven, report.differing) == (True, ())
    RUN.clear()
    async with running(dsn) as runtime:
        assert await _answer(runtime) == EXPECTED[change]
        assert [EXPECTED[change].split()[1]] == RUN
        again = await runtime.snapshot(ONE)
        assert (again.proven, again.differing) == (True, ())
    async with running(dsn) as runtime:
        assert await _answer(runtime) == EXPECTED[change]


async def test_states_with_other_wiring_are_not_the_same(dsn: str) -> None:
    async with running(dsn) as runtime:
        await _answer(runtime)
        live: Any = await runtime.try_get_underlying_agent_instance(ONE)
        first = capture(live, Codec(TypeRegistry())).digest
        live.tools.reverse()
        assert capture(live, Codec(TypeRegistry())).digest != first
        live.tools.reverse()
        assert capture(live, Codec(TypeRegistry())).digest == first


async def test_wiring_that_the_constructor_did_not_make_is_refused_by_name(dsn: str) -> None:
    async with running(dsn) as runtime:
        await _answer(runtime)
        await _answer(runtime, "a copy")
        with pytest.raises(NotCapturable) as refused:
            await runtime.snapshot(ONE)
    assert "self.client" in str(refused.value) and "the constructor" in str(refused.value)
    async with running(dsn) as runtime:
        assert await _answer(runtime) == "first a abc"
