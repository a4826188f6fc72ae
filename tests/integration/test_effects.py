"""Agents of AutoGen's own, unmodified, on the real runtime and a real log: no model and no tool is asked twice (G4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent, BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import MessageFactory, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_agentchat.teams._group_chat._chat_agent_container import ChatAgentContainer
from autogen_agentchat.teams._group_chat._events import GroupChatRequestPublish, GroupChatStart
from autogen_agentchat.tools import AgentTool
from autogen_core import AgentId, FunctionCall, MessageContext, RoutedAgent, TopicId, TypeSubscription, message_handler
from autogen_core.model_context import UnboundedChatCompletionContext
from autogen_core.models import ChatCompletionClient, CreateResult, FunctionExecutionResult, ModelInfo, RequestUsage
from autogen_core.tool_agent import ToolAgent, ToolExecutionException
from autogen_core.tools import FunctionTool
from autogen_ext.models.replay import ReplayChatCompletionClient

from autogen_eventlog import (
    Answer,
    EventLog,
    EventLogHandler,
    EventSourcedAgentRuntime,
    EventType,
    UnknownEffect,
)
from autogen_eventlog.errors import InstanceEnded
from autogen_eventlog.incarnation.boundary import Boundary

REQUESTED = EventType.EFFECT_REQUESTED
TOOLS = AgentId("tools", "one")
HELPER = AgentId("helper", "one")


class Counter:
    """A tool, and how often it was really run."""

    def __init__(self) -> None:
        self.runs = 0

    def tool(self) -> FunctionTool:
        def increase(by: int) -> int:
            """Increases."""
            self.runs += 1
            if by < 0:
                raise ValueError("only up", by)
            return self.runs * 100 + by

        return FunctionTool(increase, "increases", name="increase")


@asynccontextmanager
async def running(
    dsn: str, register: Callable[[EventSourcedAgentRuntime], Any], **settings: Any
) -> AsyncGenerator[EventSourcedAgentRuntime]:
    """A new runtime on the log."""
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, **settings)])
        await register(runtime)
        runtime.start()
        try:
            yield runtime
        finally:
            await runtime.stop_when_idle()


def tools(counter: Counter) -> Callable[[EventSourcedAgentRuntime], Any]:
    async def register(runtime: EventSourcedAgentRuntime) -> None:
        await ToolAgent.register(runtime, "tools", lambda: ToolAgent("has tools", [counter.tool()]))

    return register


def call(by: Any, number: int) -> FunctionCall:
    return FunctionCall(id=str(number), name="increase", arguments=f'{{"by": {by}}}')


async def test_a_tool_agent_runs_its_tool_once_and_not_again(dsn: str) -> None:
    first = Counter()
    async with running(dsn, tools(first)) as runtime:
        replies = [await runtime.send_message(call(by, by), TOOLS) for by in (1, 2, 3)]
        assert [reply.content for reply in replies] == ["101", "202", "303"]
        with pytest.raises(ToolExecutionException):
            await runtime.send_message(call(-1, 9), TOOLS)
    second = Counter()
    async with running(dsn, tools(second)) as runtime:
        view = await runtime.view(TOOLS, type=ToolAgent)
        assert isinstance(view.tools[0], Boundary)
        with pytest.raises(InstanceEnded):
            await view.tools[0].run_json({"by": 1}, MessageContext.__new__(MessageContext))  # type: ignore[arg-type]
        await runtime.restore(TOOLS, version=5)
        await runtime.get(TOOLS, lazy=False)
        assert second.runs == 0
        reply = await runtime.send_message(call(5, 5), TOOLS)
        assert (reply.content, second.runs) == ("105", 1)


async def test_a_tool_agent_whose_arguments_dont_fit_is_replayed(dsn: str) -> None:
    async with running(dsn, tools(Counter())) as runtime:
        with pytest.raises(ToolExecutionException) as raised:
            await runtime.send_message(call('"many"', 1), TOOLS)
        assert "validation error" in raised.value.content
    async with running(dsn, tools(Counter())) as runtime:
        await runtime.view(TOOLS)


class Refusing(ReplayChatCompletionClient):
    """A model that must not be asked."""

    def __init__(self) -> None:
        super().__init__([], INFO)

    async def create(self, *args: Any, **keywords: Any) -> CreateResult:
        raise AssertionError("the model was asked")

    async def create_stream(self, *args: Any, **keywords: Any) -> AsyncGenerator[str | CreateResult, None]:
        raise AssertionError("the model was asked")
        yield ""


INFO = ModelInfo(vision=False, function_calling=True, json_output=False, family="unknown", structured_output=False)


def calls_tool(by: int) -> CreateResult:
    content = [FunctionCall(id=f"call {by}", name="increase", arguments=f'{{"by": {by}}}')]
    return CreateResult(
        finish_reason="function_calls", content=content, usage=RequestUsage(1, 1), cached=False, thought=None
    )


@dataclass
class Text:
    text: str


class Helper(RoutedAgent):
    """Hands what it is asked to an AssistantAgent of its own, and keeps only text, which AgentChat draws no ids for."""

    def __init__(self, assistant: BaseChatAgent) -> None:
        super().__init__("helps")
        self.assistant = assistant
        self.said: list[str] = []

    @message_handler
    async def on_text(self, message: Text, ctx: MessageContext) -> Text:
        asked = [TextMessage(content=message.text, source="user", id="fixed")]
        async for item in self.assistant.on_messages_stream(asked, ctx.cancellation_token):
            if isinstance(item, Response):
                self.said.append(item.chat_message.to_text())
        return Text(self.said[-1])


def helper(make: Callable[[], BaseChatAgent]) -> Callable[[EventSourcedAgentRuntime], Any]:
    async def register(runtime: EventSourcedAgentRuntime) -> None:
        await Helper.register(runtime, "helper", lambda: Helper(make()))

    return register


def assistant(client: ChatCompletionClient, *tools: Any, **settings: Any) -> AssistantAgent:
    return AssistantAgent("assistant", client, tools=[*tools], **settings)


async def context_of(agent: Helper) -> list[Any]:
    inner = agent.assistant
    assert isinstance(inner, AssistantAgent)
    return await inner.model_context.get_messages()


@pytest.mark.parametrize("streaming", [False, True])
async def test_an_assistant_is_recovered_without_asking_its_model_or_its_tool(dsn: str, streaming: bool) -> None:
    counter = Counter()
    script = ReplayChatCompletionClient([calls_tool(7), "all is well", calls_tool(-1), "done"], INFO)
    settings = {"model_client_stream": streaming, "max_tool_iterations": 3}
    async with running(dsn, helper(lambda: assistant(script, counter.tool(), **settings))) as runtime:
        assert await runtime.send_message(Text("first"), HELPER) == Text("all is well")
        assert await runtime.send_message(Text("second"), HELPER) == Text("done")
        live = await runtime.try_get_underlying_agent_instance(HELPER, Helper)
        context, said = await context_of(live), list(live.said)
    assert counter.runs == 2
    other = Counter()
    async with running(dsn, helper(lambda: assistant(Refusing(), other.tool(), **settings))) as runtime:
        view = await runtime.view(HELPER, type=Helper)
        recovered = await runtime.try_get_underlying_agent_instance(HELPER, Helper)
        for instance in (view, recovered):
            assert (instance.said, await context_of(instance)) == (said, context)
    assert other.runs == 0


async def test_an_agent_that_is_a_tool_keeps_what_it_heard(dsn: str) -> None:
    """Its model is asked, the tool around it is the agent's own code."""

    def make(outer: ChatCompletionClient, inner: ChatCompletionClient) -> AssistantAgent:
        expert = AssistantAgent("expert", inner, description="knows", model_context=UnboundedChatCompletionContext())
        return AssistantAgent("assistant", outer, tools=[AgentTool(expert)])

    content = [FunctionCall(id="1", name="expert", arguments='{"task": "why?"}')]
    asks = CreateResult(finish_reason="function_calls", content=content, usage=RequestUsage(1, 1), cached=False)
    first = (ReplayChatCompletionClient([asks], INFO), ReplayChatCompletionClient(["because"], INFO))
    async with running(dsn, helper(lambda: make(*first))) as runtime:
        assert "because" in (await runtime.send_message(Text("ask"), HELPER)).text
    async with running(dsn, helper(lambda: make(Refusing(), Refusing()))) as runtime:
        view = await runtime.view(HELPER, type=Helper)
        expert = view.assistant._workbench[0]._tools[0]._agent  # type: ignore[attr-defined]
        heard = [message.content for message in await expert.model_context.get_messages()]
        assert heard == ["why?", "because"]


async def test_a_crash_between_request_and_result_is_said_to_the_model(dsn: str) -> None:
    """A15, E13: the tool is not run again by itself, and the model gets a result for its call."""
    started = asyncio.Event()

    async def forever(by: int) -> int:
        """Never ends."""
        started.set()
        return await asyncio.get_running_loop().create_future()

    script = ReplayChatCompletionClient([calls_tool(1)], INFO)
    held = FunctionTool(forever, "increases", name="increase")
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await helper(lambda: assistant(script, held))(runtime)
        runtime.start()
        sending = asyncio.create_task(runtime.send_message(Text("go"), HELPER))
        await started.wait()
        shell = runtime._agents.shells[HELPER]
        assert shell.incarnation is not None
        await shell.incarnation.durable
        shell.incarnation.end()  # what is in memory is lost, as at a kill
        with pytest.raises(InstanceEnded):
            await sending
        await runtime.stop()
    other = Counter()
    async with running(dsn, helper(lambda: assistant(Refusing(), other.tool()))) as runtime:
        recovered = await runtime.try_get_underlying_agent_instance(HELPER, Helper)
        await at_rest(runtime, HELPER)
        result = (await context_of(recovered))[-1].content[0]
        assert isinstance(result, FunctionExecutionResult)
        assert result.is_error and "outcome of tool.run_json is unknown" in result.content
        assert other.runs == 0
    async with running(dsn, helper(lambda: assistant(Refusing(), other.tool()))) as runtime:
        view = await runtime.view(HELPER, type=Helper)
        assert (await context_of(view))[-1].content[0] == result


async def test_requests_and_results_are_in_the_audit(dsn: str) -> None:
    async with running(dsn, tools(Counter())) as runtime:
        await runtime.send_message(call(1, 1), TOOLS)
    async with EventLog.open(dsn) as log:
        (effect,) = await log.audit.recorded_effects()
        assert effect.kind == "tool.run_json" and effect.delivery is not None
        events = [event async for event in log.read(TOOLS)]
    requested = next(event for event in events if event.type is EventType.EFFECT_REQUESTED)
    assert effect.cause == requested.id
    assert b'"args":{"by":1}' in (requested.payload or b"")
    assert effect.asked == {"tool": "increase", "args": {"by": 1}, "call_id": "1"}


async def test_a_team_on_the_runtime_records_what_its_agents_ask(dsn: str) -> None:
    counter = Counter()
    script = ReplayChatCompletionClient([calls_tool(7), "all is well"], INFO)
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        runtime.start()
        agent = assistant(script, counter.tool(), max_tool_iterations=2)
        team = RoundRobinGroupChat([agent], max_turns=1, runtime=runtime)
        result = await team.run(task="begin")
        assert result.messages[-1].to_text() == "all is well"
        await runtime.stop_when_idle()
        kinds = [effect.kind for effect in await log.audit.recorded_effects() if not effect.kind.startswith("runtime.")]
    assert kinds == ["model.create", "tool.run_json", "model.create"]
    assert isinstance(agent._model_client, Boundary)
    assert counter.runs == 1


class Notebook(FunctionTool):
    """A tool with a state of its own."""

    def __init__(self) -> None:
        self.notes: list[int] = []
        super().__init__(self.note, "notes", name="increase")

    async def note(self, by: int) -> int:
        self.notes.append(by)
        return len(self.notes)


async def test_tools_that_are_the_agents_own_state_run_again_in_replay(dsn: str) -> None:
    async def register(runtime: EventSourcedAgentRuntime) -> None:
        await ToolAgent.register(runtime, "tools", lambda: ToolAgent("has a notebook", [Notebook()]))

    async with running(dsn, register, effects_own=[Notebook]) as runtime:
        for by in (3, 4):
            await runtime.send_message(call(by, by), TOOLS)
    async with running(dsn, register, effects_own=[Notebook]) as runtime:
        view = await runtime.view(TOOLS, type=ToolAgent)
        assert view.tools[0].notes == [3, 4]  # type: ignore[attr-defined]


async def at_rest(runtime: EventSourcedAgentRuntime, agent: AgentId) -> None:
    """Wait for the handlers that a recovered agent continues."""
    incarnation = runtime._agents.shells[agent].incarnation
    assert incarnation is not None
    running = [delivery.done for delivery in incarnation.deliveries.values()]
    if running:
        await asyncio.wait(running)


async def test_an_unknown_outcome_is_asked_again_where_the_handler_says_so(dsn: str) -> None:
    first, second = Counter(), Counter()
    async with running(dsn, tools(first)) as runtime:
        await runtime.send_message(call(1, 1), TOOLS)
        requested = [event.version async for event in runtime._agents.log.read(TOOLS) if event.type is REQUESTED]
        # What followed the request is left behind: to the agent it is as if the process had ended there.
        await runtime.restore(TOOLS, version=requested[0])
        await at_rest(runtime, TOOLS)
        assert first.runs == 1
    async with running(dsn, tools(second), effects_unknown={"tool": "retry"}) as runtime:
        await runtime.restore(TOOLS, version=requested[0])
        await at_rest(runtime, TOOLS)
        assert second.runs == 1


@pytest.mark.parametrize(
    ("answer", "runs", "result"),
    [("retry", 1, "102"), ("fail", 0, "unknown"), (Answer(99), 0, "99"), ("nonsense", 0, "unknown")],
)
async def test_somebody_is_asked_what_became_of_an_unknown_outcome(
    dsn: str, answer: Any, runs: int, result: str
) -> None:
    first, second = Counter(), Counter()
    asked: list[UnknownEffect] = []

    async def ask(unknown: UnknownEffect) -> Any:
        asked.append(unknown)
        return answer

    async with running(dsn, tools(first)) as runtime:
        await runtime.send_message(call(2, 2), TOOLS)
        requested = [event async for event in runtime._agents.log.read(TOOLS) if event.type is REQUESTED]
    async with running(dsn, tools(second), effects_unknown={"tool": "ask"}, ask_unknown=ask) as runtime:
        await runtime.restore(TOOLS, version=requested[0].version)
        await at_rest(runtime, TOOLS)
        (unknown,) = asked
        assert (unknown.agent, unknown.kind, unknown.event_id) == (str(TOOLS), "tool.run_json", requested[0].id)
        assert unknown.request["args"] == {"by": 2}
        assert second.runs == runs
        log = runtime._agents.log
        await log.writer.flush()
        completed = [event async for event in log.read(TOOLS) if event.type is EventType.DELIVERY_COMPLETED]
        assert result in (completed[-1].payload or b"").decode()
    async with running(dsn, tools(third := Counter())) as runtime:  # what was said is recorded
        await runtime.view(TOOLS)
        assert third.runs == 0


async def test_nobody_to_ask_is_said_at_once(dsn: str) -> None:
    async with EventLog.open(dsn) as log:
        with pytest.raises(ValueError, match="ask_unknown"):
            EventLogHandler(log, effects_unknown={"tool": "ask"})


async def test_a_registered_instance_is_viewed_with_the_client_that_it_has(dsn: str) -> None:
    script = ReplayChatCompletionClient(["hello"], INFO)
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        agent = Helper(assistant(script))
        await runtime.register_agent_instance(agent, HELPER)
        runtime.start()
        assert await runtime.send_message(Text("hi"), HELPER) == Text("hello")
        view = await runtime.view(HELPER, type=Helper)
        assert view is not agent and view.said == ["hello"]
        assert await context_of(view) == await context_of(agent)
        await runtime.stop_when_idle()


async def test_an_assistant_in_agentchats_container_is_recovered_without_its_model(dsn: str) -> None:
    """E20, as in a team: `ChatAgentContainer` is what AgentChat registers."""

    def container(client: ChatCompletionClient, counter: Counter) -> Callable[[EventSourcedAgentRuntime], Any]:
        def make() -> ChatAgentContainer:
            inner = assistant(client, counter.tool(), max_tool_iterations=2)
            return ChatAgentContainer("parent", "output", inner, MessageFactory())

        async def register(runtime: EventSourcedAgentRuntime) -> None:
            await ChatAgentContainer.register(runtime, "member", make)
            await runtime.add_subscription(TypeSubscription("chat", "member"))

        return register

    member = AgentId("member", "one")
    script, first, second = ReplayChatCompletionClient([calls_tool(7), "all is well"], INFO), Counter(), Counter()
    async with running(dsn, container(script, first)) as runtime:
        begin = GroupChatStart(messages=[TextMessage(content="begin", source="user")])
        await runtime.publish_message(begin, TopicId("chat", "one"))
        await runtime.publish_message(GroupChatRequestPublish(), TopicId("chat", "one"))
        await runtime._message_queue.join()
        state = await (await runtime.try_get_underlying_agent_instance(member, ChatAgentContainer)).save_state()
    assert first.runs == 1
    async with running(dsn, container(Refusing(), second)) as runtime:
        view = await runtime.view(member, type=ChatAgentContainer)
        recovered = await runtime.try_get_underlying_agent_instance(member, ChatAgentContainer)
        for instance in (view, recovered):
            assert await instance.save_state() == state
    assert second.runs == 0
