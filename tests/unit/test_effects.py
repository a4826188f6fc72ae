"""What an agent asks of models, tools, … is recorded, and answered from the log in replay (G1, G2, G4)."""

from __future__ import annotations

import asyncio
import copy
import json
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from autogen_core import Agent, BaseAgent, CancellationToken, MessageContext
from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult
from autogen_core.memory import ListMemory, Memory, MemoryContent, MemoryQueryResult, UpdateContextResult
from autogen_core.model_context import BufferedChatCompletionContext
from autogen_core.models import ChatCompletionClient, SystemMessage, UserMessage
from autogen_core.tools import BaseTool, FunctionTool, StaticWorkbench, Tool
from pydantic import ValidationError

from autogen_eventlog.effects.boundaries import ToolText
from autogen_eventlog.errors import EffectOutcomeUnknown, InstanceEnded
from autogen_eventlog.events import EventType, Outcome
from autogen_eventlog.incarnation.boundary import Boundary
from autogen_eventlog.incarnation.incarnation import Incarnation
from autogen_eventlog.replay.machine import Mismatch

from .bench import ListAppender, envelope
from .effects_bench import Bench, Doubling, Model, live, recovered, viewed


class Doing(BaseAgent):
    """Does what a test says, by name; keeps what came of it."""

    def __init__(self, what: Callable[..., Any], **has: Any) -> None:
        super().__init__("does")
        self.what = what
        self.kept: list[Any] = []
        self.__dict__.update(has)

    async def on_message_impl(self, message: Any, ctx: MessageContext) -> Any:
        try:
            self.kept.append(await self.what(self, ctx))
        except Exception as error:
            self.kept.append((type(error), str(error)))


def doing(what: Callable[..., Any], **has: Any) -> Callable[[], Doing]:
    return lambda: Doing(what, **has)


async def run(incarnation: Incarnation, times: int = 1) -> Any:
    for _ in range(times):
        delivery, _ = incarnation.deliver(envelope(incarnation.codec, "do"))
        await delivery.done
    return incarnation.agent


async def recorded(factory: Callable[[], Agent], times: int = 1) -> tuple[Any, ListAppender]:
    appender = ListAppender()
    return await run(live(factory, appender), times), appender


def types(appender: ListAppender) -> list[str]:
    return [event.type.value for event in appender.events]


async def ask(agent: Any, ctx: MessageContext) -> Any:
    result = await agent.model.create(
        [UserMessage(content="hello", source="me")], cancellation_token=ctx.cancellation_token
    )
    return result.content


async def test_a_request_is_recorded_before_its_result_and_both_name_the_kind() -> None:
    model = Model()
    agent, appender = await recorded(doing(ask, model=model))
    assert agent.kept == ["answer 1"]
    assert types(appender) == ["MessageDelivered", "EffectRequested", "EffectRecorded", "DeliveryCompleted"]
    asked, answered = appender.events[1:3]
    assert asked.metadata["kind"] == answered.metadata["kind"] == "model.create"
    assert answered.cause == asked.id
    request = json.loads(asked.payload or b"")
    assert request["digest"] == asked.metadata["request"] == answered.metadata["request"]
    assert request["request"]["messages"][0]["content"] == "hello"
    assert "cancellation_token" not in request["request"]


async def test_replay_asks_nothing_and_ends_in_the_same_state() -> None:
    agent, appender = await recorded(doing(ask, model=Model()), times=3)
    again = await recovered(doing(ask, model=Model(refuses=True)), appender)
    assert again.agent.kept == agent.kept == ["answer 1", "answer 2", "answer 3"]  # type: ignore[union-attr]
    view = await viewed(doing(ask, model=Model(refuses=True)), appender.events)
    assert view.agent.kept == agent.kept  # type: ignore[union-attr]


async def test_the_real_call_waits_until_the_request_is_durable() -> None:
    model, appender = Model(), ListAppender()
    commit = asyncio.get_running_loop().create_future()
    incarnation = live(doing(ask, model=model), appender)
    record = appender.append
    appender.append = lambda event: (record(event), commit)[1]  # type: ignore[method-assign]
    incarnation.deliver(envelope(incarnation.codec, "do"))
    while EventType.EFFECT_REQUESTED not in [event.type for event in appender.events]:
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert model.asked == []
    commit.set_result(None)
    while not incarnation.quiet:
        await asyncio.sleep(0)
    assert len(model.asked) == 1


async def test_a_different_request_diverges_and_shows_where() -> None:
    async def ask_long(agent: Any, ctx: MessageContext) -> Any:
        text = "x" * 3000 + agent.word
        return (await agent.model.create([UserMessage(content=text, source="me")])).content

    _, appender = await recorded(doing(ask_long, model=Model(), word="before"))
    with pytest.raises(Mismatch) as raised:
        await viewed(doing(ask_long, model=Model(), word="after"), appender.events)
    assert raised.value.version == 2
    assert "EffectRequested" in raised.value.recorded and "xxbefore" in raised.value.recorded
    assert "EffectRequested" in raised.value.produced and "xxafter" in raised.value.produced
    assert len(raised.value.recorded) < 1000


async def test_errors_come_back_with_type_text_and_arguments() -> None:
    async def use(agent: Any, ctx: MessageContext) -> Any:
        out: list[Any] = []
        for arguments in ({"number": 13}, {"number": "many"}):
            try:
                out.append(await agent.tool.run_json(arguments, ctx.cancellation_token))
            except ValidationError as error:
                out.append((type(error), str(error), error.errors()))
            except ValueError as error:
                out.append((type(error), str(error), error.args))
        return out

    tool = Doubling()
    agent, appender = await recorded(doing(use, tool=tool))
    assert [kept[0] for kept in agent.kept[0]] == [ValueError, ValidationError]
    assert agent.kept[0][0][2] == ("unlucky", 13)
    again = await recovered(doing(use, tool=tool), appender)
    assert again.agent.kept == agent.kept  # type: ignore[union-attr]
    assert tool.runs == [13]


async def test_a_stream_is_recorded_item_by_item_and_replayed() -> None:
    async def stream(agent: Any, ctx: MessageContext) -> Any:
        return [item if isinstance(item, str) else item.content async for item in agent.model.create_stream([])]

    model = Model()
    agent, appender = await recorded(doing(stream, model=model))
    assert agent.kept == [["answer", " ", "1", "answer 1"]]
    assert types(appender).count("EffectRecorded") == 5
    again = await recovered(doing(stream, model=Model(refuses=True)), appender)
    assert again.agent.kept == agent.kept  # type: ignore[union-attr]
    assert again.quiet


async def test_a_stream_that_the_agent_leaves_is_closed_and_replayed() -> None:
    async def first(agent: Any, ctx: MessageContext) -> Any:
        async for item in agent.model.create_stream([]):
            return item

    model = Model()
    appender = ListAppender()
    incarnation = live(doing(first, model=model), appender)
    agent = await run(incarnation, times=2)
    while model.closed_streams < 2 or not incarnation.quiet:
        await asyncio.sleep(0)
    assert agent.kept == ["answer", "answer"]
    again = await recovered(doing(first, model=Model(refuses=True)), appender)
    assert again.agent.kept == agent.kept  # type: ignore[union-attr]


async def test_a_stream_that_a_crash_cut_gives_the_rest_as_its_last_item() -> None:
    async def stream(agent: Any, ctx: MessageContext) -> Any:
        return [item if isinstance(item, str) else item.content async for item in agent.model.create_stream([])]

    _, appender = await recorded(doing(stream, model=Model()))
    for cut in range(2, 6):
        log = ListAppender(list(appender.events[:cut]))
        model = Model()
        again = await recovered(doing(stream, model=model), log, unknown="retry")
        while not again.quiet:
            await asyncio.sleep(0)
        kept = again.agent.kept[0]  # type: ignore[union-attr]
        assert kept[-1] == "answer 1"
        assert kept[: cut - 2] == ["answer", " ", "1"][: cut - 2]
        assert len(model.asked) == 1
        assert (await viewed(doing(stream, model=Model(refuses=True)), log.events)).agent.kept == [kept]  # type: ignore[union-attr]


async def crash_after_request(appender: ListAppender) -> ListAppender:
    at = types(appender).index("EffectRequested")
    return ListAppender(list(appender.events[: at + 1]))


@pytest.mark.parametrize("unknown", ["retry", "fail"])
async def test_an_unknown_outcome_is_asked_again_or_said_and_recorded(unknown: str) -> None:
    async def use(agent: Any, ctx: MessageContext) -> Any:
        return await agent.tool.run_json({"number": 4}, ctx.cancellation_token)

    _, appender = await recorded(doing(use, tool=Doubling()))
    log = await crash_after_request(appender)
    tool = Doubling()
    again = await recovered(doing(use, tool=tool), log, unknown=unknown)
    while not again.quiet:
        await asyncio.sleep(0)
    kept = again.agent.kept[0]  # type: ignore[union-attr]
    if unknown == "retry":
        assert kept == 8 and tool.runs == [4]
    else:
        assert kept[0] is EffectOutcomeUnknown and "tool.run_json" in kept[1] and "programmed/one" in kept[1]
        assert tool.runs == []
    third = await recovered(doing(use, tool=Doubling()), log)
    assert third.agent.kept == [kept]  # type: ignore[union-attr]


async def test_the_error_of_an_unknown_outcome_has_its_fields() -> None:
    async def use(agent: Any, ctx: MessageContext) -> Any:
        try:
            await agent.tool.run_json({"number": 4}, ctx.cancellation_token)
        except EffectOutcomeUnknown as error:
            return [error.stream, error.kind, error.remedy]

    _, appender = await recorded(doing(use, tool=Doubling()))
    again = await recovered(doing(use, tool=Doubling()), await crash_after_request(appender))
    while not again.quiet:
        await asyncio.sleep(0)
    stream, kind, remedy = again.agent.kept[0]  # type: ignore[union-attr]
    assert (stream, kind) == ("programmed/one", "tool.run_json")
    assert "effects_unknown={'tool': 'retry'}" in remedy


async def test_a_cancelled_task_cancels_the_call_and_replays_without_an_outcome() -> None:
    async def give_up(agent: Any, ctx: MessageContext) -> Any:
        task = asyncio.create_task(agent.tool.run_json({"number": 1}, ctx.cancellation_token))
        await asyncio.sleep(0.001)
        task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            return "cancelled"

    class Never(Doubling):
        ended = ""

        async def run(self, args: Any, cancellation_token: CancellationToken) -> int:
            try:
                return await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                self.ended = "cancelled"
                raise

    tool = Never()
    agent, appender = await recorded(doing(give_up, tool=tool))
    assert (agent.kept, tool.ended) == (["cancelled"], "cancelled")
    assert "EffectRecorded" not in types(appender)
    again = await recovered(doing(give_up, tool=Never()), appender)
    assert again.agent.kept == agent.kept and again.quiet  # type: ignore[union-attr]


async def test_a_cancelled_token_reaches_the_call_whose_outcome_is_recorded() -> None:
    async def with_token(agent: Any, ctx: MessageContext) -> Any:
        token = CancellationToken()
        call = asyncio.create_task(agent.tool.run_json({"number": 1}, token))
        await asyncio.sleep(0.001)
        token.cancel()
        return await call

    class Graceful(Doubling):
        async def run(self, args: Any, cancellation_token: CancellationToken) -> int:
            future = cancellation_token.link_future(asyncio.get_running_loop().create_future())
            try:
                await future
            except asyncio.CancelledError:
                return -1
            return 0

    agent, appender = await recorded(doing(with_token, tool=Graceful()))
    assert agent.kept == [-1]
    again = await recovered(doing(with_token, tool=Graceful()), appender)
    assert again.agent.kept == [-1]  # type: ignore[union-attr]


async def test_a_call_that_is_cancelled_outside_is_a_recorded_outcome() -> None:
    class Cancelled(Doubling):
        async def run(self, args: Any, cancellation_token: CancellationToken) -> int:
            raise asyncio.CancelledError

    async def use(agent: Any, ctx: MessageContext) -> Any:
        try:
            await agent.tool.run_json({"number": 1}, ctx.cancellation_token)
        except asyncio.CancelledError:
            return "cancelled"

    agent, appender = await recorded(doing(use, tool=Cancelled()))
    assert agent.kept == ["cancelled"]
    assert appender.events[2].outcome is Outcome.CANCELLED
    assert (await recovered(doing(use, tool=Doubling()), appender)).agent.kept == ["cancelled"]  # type: ignore[union-attr]


async def test_a_view_is_refused_what_only_the_world_can_answer() -> None:
    tool = Doubling()

    async def use(agent: Any, ctx: MessageContext) -> Any:
        return await agent.tool.run_json({"number": 2}, ctx.cancellation_token)

    _, appender = await recorded(doing(use, tool=tool))
    view = await viewed(doing(use, tool=tool), appender.events)
    with pytest.raises(InstanceEnded):
        await view.agent.tool.run_json({"number": 3}, CancellationToken())  # type: ignore[union-attr]
    assert tool.runs == [2]


async def test_outside_of_a_session_a_live_agents_tools_are_the_real_ones() -> None:
    tool = Doubling()
    incarnation = live(doing(ask, tool=tool), ListAppender())
    assert await incarnation.agent.tool.run_json({"number": 3}, CancellationToken()) == 6  # type: ignore[union-attr]
    assert tool.runs == [3]


async def test_usage_is_recorded_when_the_agent_reads_it() -> None:
    async def count(agent: Any, ctx: MessageContext) -> Any:
        await ask(agent, ctx)
        usage = agent.model.total_usage()
        return [usage.prompt_tokens, agent.model.remaining_tokens([]), agent.model.count_tokens([1, 2])]

    agent, appender = await recorded(doing(count, model=Model()), times=2)
    assert agent.kept == [[10, 990, 2], [20, 980, 2]]
    again = await recovered(doing(count, model=Model(refuses=True)), appender)
    assert again.agent.kept == agent.kept  # type: ignore[union-attr]


async def test_what_was_started_in_replay_is_really_started_before_it_is_used() -> None:
    async def work(agent: Any, ctx: MessageContext) -> Any:
        if not agent.kept:
            await agent.bench.start()
        return [(await agent.bench.call_tool("hammer", {"n": len(agent.kept)})).name, await agent.bench.sing("song")]

    first = Bench()
    _, appender = await recorded(doing(work, bench=first), times=2)
    assert first.told == ["start", ("hammer", {"n": 0}), "song", ("hammer", {"n": 1}), "song"]
    second = Bench()
    again = await recovered(doing(work, bench=second), appender)
    assert second.told == []
    await run(again)
    assert second.told == ["start", ("hammer", {"n": 2}), "song"]


async def test_a_memory_changes_the_context_in_replay_as_it_did() -> None:
    class Outside(Memory):
        def __init__(self) -> None:
            self.asked = 0

        async def update_context(self, model_context: Any) -> UpdateContextResult:
            self.asked += 1
            seen = await model_context.get_messages()
            await model_context.add_message(SystemMessage(content=f"{self.asked} after {len(seen)}"))
            found = MemoryContent(content="it", mime_type="text/plain")
            return UpdateContextResult(memories=MemoryQueryResult(results=[found]))

        async def query(self, query: Any, cancellation_token: Any = None, **keywords: Any) -> MemoryQueryResult:
            return MemoryQueryResult(results=[])

        async def add(self, content: Any, cancellation_token: Any = None) -> None: ...

        async def clear(self) -> None: ...

        async def close(self) -> None: ...

    async def remember(agent: Any, ctx: MessageContext) -> Any:
        result = await agent.memory[0].update_context(agent.context)
        return [result.memories.results[0].content, len((await agent.memory[0].query("?")).results)]

    def factory(memory: Memory) -> Callable[[], Agent]:
        return lambda: Doing(remember, memory=[memory], context=BufferedChatCompletionContext(5))

    agent, appender = await recorded(factory(Outside()), times=2)
    assert [message.content for message in agent.context._messages] == ["1 after 0", "2 after 1"]
    memory = Outside()
    again = await recovered(factory(memory), appender)
    assert again.agent.context._messages == agent.context._messages  # type: ignore[union-attr]
    assert (again.agent.kept, memory.asked) == (agent.kept, 0)  # type: ignore[union-attr]


async def test_a_result_that_cant_be_recorded_is_given_as_text_live_and_in_replay(caplog: Any) -> None:
    class Unrecordable:
        def __str__(self) -> str:
            return "a frame of data"

    async def make() -> Any:
        return Unrecordable()

    async def use(agent: Any, ctx: MessageContext) -> Any:
        result = await agent.tool.run_json({}, ctx.cancellation_token)
        return [type(result), agent.tool.return_value_as_string(result)]

    tool = FunctionTool(make, "makes it")
    agent, appender = await recorded(doing(use, tool=tool))
    assert agent.kept == [[ToolText, "a frame of data"]]
    assert "given its result as text" in caplog.text
    assert (await recovered(doing(use, tool=tool), appender)).agent.kept == agent.kept  # type: ignore[union-attr]


async def test_two_agents_with_one_client_have_stand_ins_of_their_own() -> None:
    model = Model()
    one, two = ListAppender(), ListAppender()
    first, second = live(doing(ask, model=model), one), live(doing(ask, model=model), two)
    agents = await asyncio.gather(run(first), run(second))
    assert sorted(agent.kept[0] for agent in agents) == ["answer 1", "answer 2"]
    assert agents[0].model is not agents[1].model
    for agent, appender in zip(agents, (one, two), strict=True):
        again = await recovered(doing(ask, model=Model(refuses=True)), appender)
        assert again.agent.kept == agent.kept  # type: ignore[union-attr]


async def test_a_stand_in_is_the_object_it_stands_for_in_all_but_its_calls() -> None:
    tool, model = Doubling(), Model()
    agent: Any = live(doing(ask, tool=tool, model=model), ListAppender()).agent
    assert isinstance(agent.tool, Boundary) and isinstance(agent.tool, Doubling)
    assert isinstance(agent.tool, BaseTool) and isinstance(agent.tool, Tool)
    assert isinstance(agent.model, ChatCompletionClient)
    assert agent.tool.schema == tool.schema and agent.tool.name == "doubling"
    assert agent.model.model_info == model.model_info
    agent.model.used = 7
    assert model.used == 7 and agent.model.actual_usage().prompt_tokens == 7
    assert isinstance(copy.deepcopy(agent.tool), Boundary) and copy.deepcopy(agent.tool).runs == []


async def test_stand_ins_hang_wherever_a_boundary_hung() -> None:
    class Slotted:
        __slots__ = ("__hidden", "tool")

        def __init__(self, tool: Any) -> None:
            self.tool = self.__hidden = tool

        def hidden(self) -> Any:
            return self.__hidden

    tool, shared = Doubling(), [Doubling()]
    cycle: list[Any] = [tool]
    cycle.append(cycle)
    part = Slotted(tool)
    has = {"tool": tool, "part": part, "many": (tool, {"x": [tool]}), "shared": shared, "cycle": cycle}
    agent: Any = live(doing(ask, **has), ListAppender()).agent
    places = [agent.tool, part.tool, part.hidden(), agent.many[0], agent.many[1]["x"][0], agent.cycle[0]]
    assert all(isinstance(place, Boundary) for place in places)
    assert len({id(place) for place in places}) == 1
    assert agent.cycle[1] is agent.cycle
    assert isinstance(agent.shared[0], Boundary) and not isinstance(shared[0], Boundary)


async def test_a_tool_that_works_on_the_agent_is_the_agents_own_code() -> None:
    class Counting(BaseAgent):
        def __init__(self) -> None:
            super().__init__("counts")
            self.count = 0
            self.outside = Doubling()
            self.tools: list[Any] = [FunctionTool(self.add, "adds"), FunctionTool(self.closing(), "closes over")]
            self.bench = StaticWorkbench([*self.tools, self.outside])

        async def add(self, number: int) -> int:
            self.count += number
            return self.count

        def closing(self) -> Any:
            async def add_two() -> int:
                self.count += 2
                return self.count

            return add_two

        async def on_message_impl(self, message: Any, ctx: MessageContext) -> Any:
            await self.tools[0].run_json({"number": 1}, ctx.cancellation_token)
            await self.bench.call_tool("add_two", {}, ctx.cancellation_token)
            await self.bench.call_tool("doubling", {"number": 1}, ctx.cancellation_token)

    agent, appender = await recorded(Counting)
    assert agent.count == 3
    kinds = [event.metadata["kind"] for event in appender.events if event.type is EventType.EFFECT_REQUESTED]
    assert kinds == ["tool.run_json"]
    assert (await recovered(Counting, appender)).agent.count == 3  # type: ignore[union-attr]


async def test_a_list_memory_is_the_agents_own_state() -> None:
    async def remember(agent: Any, ctx: MessageContext) -> Any:
        await agent.memory.add(MemoryContent(content=len(agent.kept) * "x", mime_type="text/plain"))
        return len((await agent.memory.query()).results)

    def factory() -> Agent:
        return Doing(remember, memory=ListMemory())

    agent, appender = await recorded(factory, times=2)
    assert "EffectRequested" not in types(appender)
    again = await recovered(factory, appender)
    assert again.agent.memory._contents == agent.memory._contents  # type: ignore[union-attr]


async def test_what_cant_be_captured_is_named_once(caplog: Any) -> None:
    class Sealed(Doubling):
        def __init_subclass__(cls) -> None:
            raise TypeError("no subclasses")

    for _ in range(2):
        live(doing(ask, tool=Sealed()), ListAppender())
    assert caplog.text.count("can't be captured") == 1
    assert "Sealed" in caplog.text


async def test_a_tool_of_the_agents_own_that_runs_in_a_thread_is_named(caplog: Any) -> None:
    class Threaded(BaseAgent):
        def __init__(self) -> None:
            super().__init__("threads")
            self.tool = FunctionTool(self.add, "adds")

        def add(self) -> int:
            return 1

        async def on_message_impl(self, message: Any, ctx: MessageContext) -> Any: ...

    live(Threaded, ListAppender())
    assert "runs it in a thread" in caplog.text and "async def" in caplog.text


async def test_agents_in_the_same_class_of_another_client_make_the_same_requests() -> None:
    class Other(Model):
        async def create(self, *args: Any, **keywords: Any) -> Any:
            raise AssertionError("the model was asked")

    agent, appender = await recorded(doing(ask, model=Model()))
    assert (await viewed(doing(ask, model=Other()), appender.events)).agent.kept == agent.kept  # type: ignore[union-attr]


async def test_a_long_request_is_recorded_in_excerpt_and_compared_whole() -> None:
    async def ask_long(agent: Any, ctx: MessageContext) -> Any:
        text = "x" * 20_000 + agent.middle + "x" * 60_000
        return (await agent.model.create([UserMessage(content=text, source="me")])).content

    agent, appender = await recorded(doing(ask_long, model=Model(), middle="a"))
    request = json.loads(appender.events[1].payload or b"")
    assert request["bytes"] > 80_000 and len(request["excerpt"]) < 40_000
    assert (await viewed(doing(ask_long, model=Model(), middle="a"), appender.events)).agent.kept == agent.kept  # type: ignore[union-attr]
    with pytest.raises(Mismatch):
        await viewed(doing(ask_long, model=Model(), middle="b"), appender.events)


async def test_an_agent_without_boundaries_has_nothing_in_its_place() -> None:
    has = {"many": [1, [2]], "table": {"a": (1,)}}
    incarnation = live(doing(ask, **has), ListAppender())
    agent: Any = incarnation.agent
    assert agent.many is has["many"] and agent.table is has["table"]


async def test_code_is_executed_once() -> None:
    class Executor(CodeExecutor):
        def __init__(self) -> None:
            self.told: list[str] = []

        async def execute_code_blocks(self, code_blocks: Any, cancellation_token: CancellationToken) -> CodeResult:
            self.told.extend(block.code for block in code_blocks)
            return CodeResult(exit_code=0, output=f"{len(self.told)} blocks")

        async def start(self) -> None:
            self.told.append("start")

        async def stop(self) -> None:
            self.told.append("stop")

        async def restart(self) -> None:
            self.told.append("restart")

    async def execute(agent: Any, ctx: MessageContext) -> Any:
        async with agent.executor as executor:
            assert isinstance(executor, Boundary)
            result = await executor.execute_code_blocks([CodeBlock("print(1)", "python")], ctx.cancellation_token)
        await agent.executor.restart()
        return result

    first, second = Executor(), Executor()
    agent, appender = await recorded(doing(execute, executor=first))
    assert agent.kept == [CodeResult(exit_code=0, output="2 blocks")]
    assert first.told == ["start", "print(1)", "stop", "restart"]
    again = await recovered(doing(execute, executor=second), appender)
    assert (again.agent.kept, second.told) == (agent.kept, [])  # type: ignore[union-attr]


OF_THE_MODULE = Doubling()


class WithClassAttribute(BaseAgent):
    tools = (OF_THE_MODULE,)

    def __init__(self) -> None:
        super().__init__("has it from its class")
        self.kept: list[int] = []

    async def on_message_impl(self, message: Any, ctx: MessageContext) -> None:
        self.kept.append(await self.tools[0].run_json({"number": 21}, ctx.cancellation_token))


async def test_a_boundary_that_the_class_gives_is_captured_on_the_instance() -> None:
    before = len(OF_THE_MODULE.runs)
    agent, appender = await recorded(WithClassAttribute)
    assert (await recovered(WithClassAttribute, appender)).agent.kept == agent.kept == [42]  # type: ignore[union-attr]
    assert len(OF_THE_MODULE.runs) == before + 1
    assert WithClassAttribute.tools == (OF_THE_MODULE,) and not isinstance(WithClassAttribute.tools[0], Boundary)


async def test_a_boundary_past_the_agents_attributes_is_named(caplog: Any) -> None:
    closed_over = Model()

    class Reaching(BaseAgent):
        async def on_message_impl(self, message: Any, ctx: MessageContext) -> None:
            await OF_THE_MODULE.run_json({"number": 1}, ctx.cancellation_token)
            await closed_over.create([])

    for _ in range(2):
        live(lambda: Reaching("reaches"), ListAppender())
    assert "on_message_impl uses OF_THE_MODULE (Doubling)" in caplog.text
    assert "on_message_impl uses closed_over (Model)" in caplog.text
    assert caplog.text.count("Keep it in an attribute") == 1


async def test_tracebacks_read_the_same_live_and_in_replay() -> None:
    async def use(agent: Any, ctx: MessageContext) -> Any:
        out: list[str] = []
        try:
            await agent.tool.run_json({"number": 13}, ctx.cancellation_token)
        except ValueError:
            out.append(traceback.format_exc())
        try:
            async for _ in agent.model.create_stream([]):
                pass
        except AssertionError:
            out.append(traceback.format_exc())
        return out

    has = {"tool": Doubling(), "model": Model(refuses=True)}
    agent, appender = await recorded(doing(use, **has))
    assert len(agent.kept[0]) == 2 and "unlucky" in agent.kept[0][0]
    failed = [event for event in appender.events if event.outcome is Outcome.RAISED]
    assert "in run\n" in failed[0].metadata["traceback"]
    assert (await recovered(doing(use, **has), appender)).agent.kept == agent.kept  # type: ignore[union-attr]
