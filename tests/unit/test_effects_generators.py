"""A generator that anybody throws away is not taken for the agent's doing (G3)."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator
from typing import Any

from autogen_core import BaseAgent, MessageContext

from .bench import ListAppender, envelope
from .effects_bench import live, recovered


async def numbers(closed: list[str], name: str) -> AsyncGenerator[int, None]:
    try:
        for number in range(10):
            yield number
    finally:
        await asyncio.sleep(0)
        closed.append(name)


class Leaving(BaseAgent):
    """Leaves a generator of its own unfinished, while the collector finds one of somebody else's."""

    def __init__(self) -> None:
        super().__init__("leaves")
        self.closed: list[str] = []
        self.ticks: list[Any] = []

    async def on_message_impl(self, message: Any, ctx: MessageContext) -> None:
        async for number in numbers(self.closed, "own"):
            if number == 1:
                break
        gc.collect()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.ticks.append(list(self.closed))


async def throw_away_in_a_cycle(closed: list[str]) -> None:
    generator = numbers(closed, "foreign")
    await anext(generator)
    cycle: list[Any] = [generator]
    cycle.append(cycle)


async def run(incarnation: Any, foreign: list[str] | None) -> Any:
    for _ in range(3):
        if foreign is not None:
            gc.disable()
            await throw_away_in_a_cycle(foreign)
        delivery, _ = incarnation.deliver(envelope(incarnation.codec, "go"))
        await delivery.done
        gc.enable()
    return incarnation.agent


async def test_a_foreign_generator_collected_in_a_handler_changes_no_tick() -> None:
    foreign: list[str] = []
    with_foreign, without = ListAppender(), ListAppender()
    agent = await run(live(Leaving, with_foreign), foreign)
    await run(live(Leaving, without), None)
    while len(foreign) < 3:
        await asyncio.sleep(0)
    ticks = [[event.metadata["tick"] for event in appender.events] for appender in (with_foreign, without)]
    assert ticks[0] == ticks[1]
    again = (await recovered(Leaving, with_foreign)).agent
    assert isinstance(again, Leaving)
    assert again.ticks == agent.ticks
