"""Boundaries that count what is asked of them, and agents on the bench that use them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from autogen_core import Agent, CancellationToken
from autogen_core.models import ChatCompletionClient, CreateResult, ModelFamily, ModelInfo, RequestUsage
from autogen_core.tools import BaseTool, ToolResult, Workbench
from pydantic import BaseModel

from autogen_eventlog.effects import capture
from autogen_eventlog.effects.policy import UnknownEffects
from autogen_eventlog.incarnation.incarnation import Incarnation
from autogen_eventlog.replay.follow import follow
from autogen_eventlog.replay.machine import Machine

from .bench import ListAppender, RandomWorld, connect, each, incarnate


class Model(ChatCompletionClient):
    """Answers `answer n`, after a while if it was given a random number generator; counts the calls."""

    def __init__(self, rnd: random.Random | None = None, *, refuses: bool = False) -> None:
        self.asked: list[Any] = []
        self.used = 0
        self.rnd = rnd
        self.refuses = refuses
        self.closed_streams = 0

    async def create(self, messages: Sequence[Any], **keywords: Any) -> CreateResult:
        return self._result(await self._ask(messages, keywords))

    async def create_stream(self, messages: Sequence[Any], **keywords: Any) -> AsyncGenerator[str | CreateResult, None]:
        number = await self._ask(messages, keywords)
        try:
            for part in ("answer", " ", str(number)):
                await pause(self.rnd)
                yield part
            yield self._result(number)
        finally:
            self.closed_streams += 1

    async def _ask(self, messages: Sequence[Any], keywords: Mapping[str, Any]) -> int:
        if self.refuses:
            raise AssertionError("the model was asked")
        self.asked.append((list(messages), dict(keywords)))
        number = len(self.asked)
        await pause(self.rnd)
        self.used += 10
        if self.rnd is not None and self.rnd.random() < 0.1:
            raise ConnectionError("overloaded", number)
        return number

    def _result(self, number: int) -> CreateResult:
        usage = RequestUsage(prompt_tokens=number, completion_tokens=1)
        return CreateResult(finish_reason="stop", content=f"answer {number}", usage=usage, cached=False)

    async def close(self) -> None:
        pass

    def actual_usage(self) -> RequestUsage:
        return RequestUsage(self.used, 0)

    def total_usage(self) -> RequestUsage:
        return RequestUsage(self.used, 0)

    def count_tokens(self, messages: Sequence[Any], **keywords: Any) -> int:
        return len(messages)

    def remaining_tokens(self, messages: Sequence[Any], **keywords: Any) -> int:
        return 1000 - self.used

    @property
    def capabilities(self) -> Any:
        return self.model_info

    @property
    def model_info(self) -> ModelInfo:
        return ModelInfo(
            vision=False, function_calling=True, json_output=False, family=ModelFamily.UNKNOWN, structured_output=False
        )


async def pause(rnd: random.Random | None) -> None:
    if rnd is not None:
        await asyncio.sleep(rnd.choice([0, 0, 0.0005, 0.001, 0.002]))


class Arguments(BaseModel):
    number: int


class Doubling(BaseTool[Arguments, int]):
    """Doubles; 13 raises. Counts its runs."""

    def __init__(self, rnd: random.Random | None = None) -> None:
        super().__init__(Arguments, int, "doubling", "doubles a number")
        self.runs: list[int] = []
        self.rnd = rnd

    async def run(self, args: Arguments, cancellation_token: CancellationToken) -> int:
        self.runs.append(args.number)
        await pause(self.rnd)
        if args.number == 13:
            raise ValueError("unlucky", args.number)
        return 2 * args.number


class Bench(Workbench):
    """A workbench that can be held, and that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    async def list_tools(self) -> list[Any]:
        self.told.append("list")
        return [{"name": "hammer"}]

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        self.told.append((name, arguments))
        return ToolResult(name=name, result=[])

    async def start(self) -> None:
        self.told.append("start")

    async def stop(self) -> None:
        self.told.append("stop")

    async def reset(self) -> None:
        self.told.append("reset")

    async def save_state(self) -> Mapping[str, Any]:
        return {"told": len(self.told)}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        pass

    async def sing(self, song: str) -> str:
        self.told.append(song)
        return f"la {song}"


def captured(factory: Callable[[], Agent], machine: Machine | None = None, *, continues: bool = True) -> Incarnation:
    """An incarnation whose instance has stand-ins."""
    incarnation = incarnate(factory, machine)
    incarnation.continues = continues
    assert incarnation.agent is not None
    capture(incarnation.agent, incarnation)
    return incarnation


def live(factory: Callable[[], Agent], appender: ListAppender, world: Any = None) -> Incarnation:
    """A fresh incarnation, live."""
    incarnation = captured(factory)
    connect(incarnation, appender, world or RandomWorld(0))
    return incarnation


async def recovered(
    factory: Callable[[], Agent], appender: ListAppender, world: Any = None, *, unknown: str = "fail"
) -> Incarnation:
    """An incarnation with the past of a list of events, live where it ends."""
    machine = Machine()
    incarnation = captured(factory, machine)
    incarnation.effects_unknown = UnknownEffects(unknown)  # type: ignore[arg-type]
    connect(incarnation, appender, world or RandomWorld(1))
    await follow(incarnation, machine, each(list(appender.events)))
    if not incarnation.live:
        incarnation.go_live()
    return incarnation


async def viewed(factory: Callable[[], Agent], events: list[Any]) -> Incarnation:
    """An instance as of the end of a list of events, which has ended."""
    machine = Machine()
    incarnation = captured(factory, machine, continues=False)
    try:
        await follow(incarnation, machine, each(events))
    finally:
        incarnation.end()
    return incarnation
