"""Agents that do all that an agent may do, and know nothing of a log; what they ask of the outside is counted there.

A tool that was asked writes its `what` into the outside's notes. What it answers, and what a model answers, follows from the
request alone, so that a run which was killed and taken up can be compared with one that was never killed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import ModelClientStreamingChunkEvent, TextMessage
from autogen_core import (
    AgentId,
    AgentRuntime,
    CancellationToken,
    FunctionCall,
    MessageContext,
    RoutedAgent,
    TopicId,
    TypeSubscription,
    event,
    rpc,
)
from autogen_core.models import (
    AssistantMessage,
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    ModelInfo,
    RequestUsage,
    SystemMessage,
    UserMessage,
)
from autogen_core.tools import FunctionTool

from autogen_eventlog import effect
from autogen_eventlog.errors import EffectOutcomeUnknown

KEY = "one"
NEWS = TopicId("news", KEY)


class Outside:
    """The world: what was really done there, in a file that outlives the process."""

    directory = Path()
    unknown: frozenset[str] = frozenset()
    """What a run that is not killed is to be told as one would be that was."""

    @classmethod
    def note(cls, what: str, *, into: str = "done") -> None:
        """A line, written at once and whole."""
        file = os.open(cls.directory / into, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, f"{what}\n".encode())
        finally:
            os.close(file)

    @classmethod
    def noted(cls, into: str) -> list[str]:
        """The lines."""
        file = cls.directory / into
        return file.read_text("utf-8").splitlines() if file.exists() else []

    @classmethod
    def do(cls, what: str) -> str:
        """Something that must not be done twice.

        Raises:
            EffectOutcomeUnknown: It is one of `unknown`.
        """
        if what in cls.unknown:
            raise EffectOutcomeUnknown("", "", "", "")
        cls.note(what)
        return f"{what} is done"


async def pay(what: str) -> str:
    """Pays."""
    return Outside.do(what)


async def wait(what: str, cancellation_token: CancellationToken) -> str:
    """Takes longer than anybody waits."""
    done = Outside.do(what)
    for_ever = asyncio.ensure_future(asyncio.get_running_loop().create_future())
    cancellation_token.link_future(for_ever)
    await for_ever
    return done


@effect("announce")
async def announce(what: str) -> str:
    return Outside.do(what)


def pay_tool() -> FunctionTool:
    return FunctionTool(pay, "pays", name="pay")


class Scripted(ChatCompletionClient):
    """Calls tools as the user's last message says, `a,b;c`: a and b in one turn, c in the next; then it says how it was.

    As the services do, it refuses a conversation in which a tool call has no result, or a result no call.
    """

    async def create(self, messages: Sequence[LLMMessage], **settings: Any) -> CreateResult:
        check_paired(messages)
        Outside.note(model_key(messages))
        return _result(_next(messages))

    async def create_stream(
        self, messages: Sequence[LLMMessage], **settings: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        check_paired(messages)
        Outside.note(model_key(messages))
        content = _next(messages)
        if isinstance(content, str):
            for word in content.split():
                yield word
        yield _result(content)

    async def close(self) -> None: ...

    def actual_usage(self) -> RequestUsage:
        return RequestUsage(1, 1)

    def total_usage(self) -> RequestUsage:
        return RequestUsage(1, 1)

    def count_tokens(self, messages: Sequence[LLMMessage], **settings: Any) -> int:
        return len(messages)

    def remaining_tokens(self, messages: Sequence[LLMMessage], **settings: Any) -> int:
        return 1000

    @property
    def capabilities(self) -> Any:
        return self.model_info

    @property
    def model_info(self) -> ModelInfo:
        return ModelInfo(vision=False, function_calling=True, json_output=False, family="?", structured_output=False)


def model_key(messages: Sequence[LLMMessage]) -> str:
    """What a model was asked, in a line."""
    asked = [message.content for message in messages if isinstance(message, UserMessage)]
    return f"model {messages[0].content} {len(messages)} {asked[-1]}"


def check_paired(messages: Sequence[LLMMessage]) -> None:
    """As the services do.

    Raises:
        ValueError: A call without a result right after it, or a result without its call.
    """
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, FunctionExecutionResultMessage):
            given = [result.call_id for result in message.content]
            if given != open_calls:
                raise ValueError(f"results of {given} where {open_calls} were called")
            open_calls = []
        elif not isinstance(message, SystemMessage) and open_calls:
            raise ValueError(f"calls {open_calls} have no result")
        if isinstance(message, AssistantMessage) and not isinstance(message.content, str):
            open_calls = [call.id for call in message.content]
    if open_calls:
        raise ValueError(f"calls {open_calls} have no result")


def _next(messages: Sequence[LLMMessage]) -> str | list[FunctionCall]:
    at = max(number for number, message in enumerate(messages) if isinstance(message, UserMessage))
    turns = str(messages[at].content).split(";")
    results = [message for message in messages[at:] if isinstance(message, FunctionExecutionResultMessage)]
    if len(results) < len(turns):
        calls = turns[len(results)].split(",")
        return [FunctionCall(id=f"call {what}", name="pay", arguments=f'{{"what": "{what}"}}') for what in calls]
    known = [not one.is_error for result in results for one in result.content]
    return f"of {len(known)} things {sum(known)} are known to be done"


def _result(content: str | list[FunctionCall]) -> CreateResult:
    finished: Any = "stop" if isinstance(content, str) else "function_calls"
    return CreateResult(finish_reason=finished, content=content, usage=RequestUsage(1, 1), cached=False)


@dataclass
class Job:
    what: str


@dataclass
class Letter:
    what: str
    id: UUID = field(default_factory=uuid4)
    at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))


@dataclass
class News:
    what: str


class Clerk(RoutedAgent):
    """Hands its jobs to an AssistantAgent."""

    streams = False

    def __init__(self) -> None:
        super().__init__("a clerk")
        self.assistant = AssistantAgent(
            "clerk",
            Scripted(),
            tools=[pay_tool()],
            system_message="You are a clerk.",
            max_tool_iterations=5,
            model_client_stream=self.streams,
        )
        self.said: list[str] = []
        self.chunks: dict[str, list[str]] = {}

    @rpc
    async def on_job(self, message: Job, ctx: MessageContext) -> Job:
        chunks = self.chunks[message.what] = []
        asked = [TextMessage(content=message.what, source="user")]
        async for item in self.assistant.on_messages_stream(asked, ctx.cancellation_token):
            if isinstance(item, ModelClientStreamingChunkEvent):
                chunks.append(item.content)
            elif isinstance(item, Response):
                self.said.append(item.chat_message.to_text())
        return Job(self.said[-1])


class StreamingClerk(Clerk):
    """The same, word by word."""

    streams = True


class Payer(RoutedAgent):
    """Has a tool, and asks it itself."""

    def __init__(self) -> None:
        super().__init__("pays")
        self.tool = pay_tool()
        self.slow = FunctionTool(wait, "takes long", name="wait")

    async def pay(self, what: str) -> str:
        try:
            return await self.tool.run_json({"what": what}, CancellationToken())
        except EffectOutcomeUnknown:
            return f"{what} is unknown"


class Timed(Payer):
    """Waits for tools, and for nothing, under time-outs in one another."""

    def __init__(self) -> None:
        super().__init__()
        self.results: list[Any] = []

    @rpc
    async def on_job(self, message: Job, ctx: MessageContext) -> None:
        what = message.what
        inner = asyncio.gather(
            self.within(30, self.pay(f"{what}1")),
            self.within(0.05, self.long(f"slow {what}2", CancellationToken())),
            self.within(0.02, asyncio.sleep(30)),
            self.pay(f"{what}3"),
        )
        self.results.append(await self.within(60, asyncio.wait_for(inner, 30)))
        await asyncio.sleep(0.01)
        self.results.append(await self.pay(f"{what}4"))

    async def within(self, seconds: float, work: Awaitable[Any]) -> Any:
        try:
            return await asyncio.wait_for(work, seconds)
        except asyncio.TimeoutError:
            return "late"

    async def long(self, what: str, token: CancellationToken) -> str:
        try:
            return await self.slow.run_json({"what": what}, token)
        except EffectOutcomeUnknown:
            return "unknown"
        finally:
            self.results.append("slow ended")


class Locked(Payer):
    """One at a time, with a lock held while the tool is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = asyncio.Lock()
        self.inside = 0
        self.most = 0
        self.any_order: list[str] = []

    @rpc
    async def on_job(self, message: Job, ctx: MessageContext) -> Job:
        async with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.any_order.append(await self.pay(f"{message.what}1"))
            await asyncio.sleep(0)
            self.any_order.append(await self.pay(f"{message.what}2"))
            self.inside -= 1
        return Job(self.any_order[-1])


class Background(Payer):
    """Answers at once, and works on."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: set[asyncio.Task[None]] = set()
        self.any_order: list[str] = []

    @rpc
    async def on_job(self, message: Job, ctx: MessageContext) -> None:
        task = asyncio.create_task(self.later(message.what))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def later(self, what: str) -> None:
        self.any_order.append(await self.pay(f"{what}1"))
        await asyncio.sleep(0.01)
        answer: Job = await self.send_message(Job(f"{what}2"), AgentId("helper", what))
        self.any_order.append(answer.what)
        self.any_order.append(await self.pay(f"{what}3"))

    @rpc
    async def on_news(self, message: News, ctx: MessageContext) -> None:
        self.any_order.append(message.what)


class Helper(Payer):
    """Pays for others, and keeps what it did."""

    def __init__(self) -> None:
        super().__init__()
        self.paid: list[str] = []

    @rpc
    async def on_job(self, message: Job, ctx: MessageContext) -> Job:
        self.paid.append(await self.pay(message.what))
        return Job(self.paid[-1])


class Caller(RoutedAgent):
    """Has others pay, one after the other and two at once."""

    def __init__(self) -> None:
        super().__init__("calls")
        self.answers: list[str] = []

    @rpc
    async def on_job(self, message: Job, ctx: MessageContext) -> Job:
        helper = AgentId("helper", KEY)
        first: Job = await self.send_message(Job(f"{message.what}1"), helper)
        self.answers.append(first.what)
        second, third = await asyncio.gather(
            self.send_message(Job(f"{message.what}2"), helper),
            self.send_message(Job(f"{message.what}3"), AgentId("helper", "two")),
        )
        self.answers += [second.what, third.what]
        return Job(self.answers[-1])


class Writing(RoutedAgent):
    """Sends letters that draw their ids and times themselves."""

    def __init__(self) -> None:
        super().__init__("writes")
        self.letters: list[Letter] = []

    @rpc
    async def on_job(self, message: Job, ctx: MessageContext) -> Letter:
        for part in ("1", "2"):
            self.letters.append(Letter(message.what + part))
            answer: Letter = await self.send_message(self.letters[-1], AgentId("archive", KEY))
            self.letters.append(answer)
        return Letter(message.what)


class Archive(RoutedAgent):
    """Keeps letters."""

    def __init__(self) -> None:
        super().__init__("keeps letters")
        self.letters: list[Letter] = []

    @rpc
    async def on_letter(self, message: Letter, ctx: MessageContext) -> Letter:
        self.letters.append(message)
        self.letters.append(Letter(f"thanks for {message.what}"))
        return self.letters[-1]


class Raising(Payer):
    """Changes, pays, and raises."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[str] = []
        self.paid: list[str] = []

    @rpc
    async def on_job(self, message: Job, ctx: MessageContext) -> None:
        self.begun.append(message.what)
        self.paid.append(await self.pay(message.what))
        raise ValueError(message.what, self.paid[-1])


class Careful(RoutedAgent):
    """Calls one that raises."""

    def __init__(self) -> None:
        super().__init__("catches")
        self.caught: list[Any] = []

    @rpc
    async def on_job(self, message: Job, ctx: MessageContext) -> None:
        try:
            await self.send_message(message, AgentId("raising", KEY))
        except ValueError as error:
            self.caught.append([type(error).__name__, *error.args])
        raise KeyError(message.what)


class Waiting(Payer):
    """Waits for a slow tool until it is told to stop."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[str] = []

    @rpc
    async def on_job(self, message: Job, ctx: MessageContext) -> None:
        try:
            self.ends.append(await self.slow.run_json({"what": message.what}, ctx.cancellation_token))
        except asyncio.CancelledError:
            self.ends.append("ended by its token")
            raise
        except EffectOutcomeUnknown:
            self.ends.append("unknown")


class Boss(Payer):
    """Lets another wait, and changes its mind."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[str] = []

    @rpc
    async def on_job(self, message: Job, ctx: MessageContext) -> None:
        token = CancellationToken()
        call = asyncio.ensure_future(
            self.send_message(Job(f"slow {message.what}1"), AgentId("waiting", KEY), cancellation_token=token)
        )
        self.ends.append(await self.pay(f"{message.what}2"))
        token.cancel()
        try:
            await call
            self.ends.append("unknown")
        except asyncio.CancelledError:
            self.ends.append("ended by its token")
        self.ends.append(await self.pay(f"{message.what}3"))


class Publisher(RoutedAgent):
    """Tells everybody."""

    def __init__(self) -> None:
        super().__init__("publishes")
        self.told: list[str] = []

    @rpc
    async def on_job(self, message: Job, ctx: MessageContext) -> None:
        for part in ("1", "2"):
            await self.publish_message(News(message.what + part), NEWS)
            self.told.append(message.what + part)


class Announcer(RoutedAgent):
    """Announces what is published, by an effect of its own."""

    def __init__(self) -> None:
        super().__init__("announces")
        self.any_order: list[str] = []

    @event
    async def on_news(self, message: News, ctx: MessageContext) -> None:
        what = f"{self.id.type} {message.what}"
        try:
            self.any_order.append(await announce(what))
        except EffectOutcomeUnknown:
            self.any_order.append(f"{what} is unknown")


@dataclass(frozen=True)
class Request:
    """What is asked of an agent from outside, under an id."""

    id: str
    agent: AgentId
    message: Any


Step = tuple[Request, ...]
"""Requests that are made at once."""


@dataclass(frozen=True)
class Program:
    """Agents, and what is asked of them."""

    agents: Mapping[str, Any]
    """Their classes, by type."""
    steps: Sequence[Step]
    subscribers: Sequence[str] = ()

    async def register(self, runtime: AgentRuntime) -> None:
        for name, cls in self.agents.items():
            await cls.register(runtime, name, cls)
        for name in self.subscribers:
            await runtime.add_subscription(TypeSubscription(NEWS.type, name))


def jobs(name: str, *whats: str) -> list[Step]:
    """One after the other."""
    return [(Request(what, AgentId(name, KEY), Job(what)),) for what in whats]


def together(name: str, *whats: str) -> list[Step]:
    """All at once."""
    return [tuple(Request(what, AgentId(name, KEY), Job(what)) for what in whats)]


PROGRAMS: dict[str, Program] = {
    "assistant": Program({"clerk": Clerk}, jobs("clerk", "a;b", "c")),
    "concurrent_tools": Program({"clerk": Clerk}, jobs("clerk", "a,b,c;d,e")),
    "streaming": Program({"clerk": StreamingClerk}, jobs("clerk", "a,b", "c")),
    "timed": Program({"timed": Timed}, jobs("timed", "a", "b")),
    "locked": Program({"locked": Locked}, together("locked", "a", "b", "c")),
    "background": Program(
        {"background": Background, "helper": Helper},
        [*jobs("background", "a"), *jobs("background", "b"), (Request("c", AgentId("background", KEY), News("end")),)],
    ),
    "calling": Program({"caller": Caller, "helper": Helper}, jobs("caller", "a", "b")),
    "writing": Program({"writing": Writing, "archive": Archive}, jobs("writing", "a", "b")),
    "raising": Program({"careful": Careful, "raising": Raising}, jobs("careful", "a", "b")),
    "cancelling": Program({"boss": Boss, "waiting": Waiting}, jobs("boss", "a", "b")),
    "publishing": Program(
        {"publisher": Publisher, "north": Announcer, "south": Announcer},
        jobs("publisher", "a", "b"),
        ("north", "south"),
    ),
}
