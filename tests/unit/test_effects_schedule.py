"""Random concurrent programs that use models, tools and streams replay exactly, and go live in place (G3, G4, G8)."""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import pytest
from autogen_core import Agent, MessageContext

from autogen_eventlog.errors import EffectOutcomeUnknown
from autogen_eventlog.events import EventType

from .bench import ListAppender, RandomWorld, envelope
from .effects_bench import Doubling, Model, live, recovered, viewed
from .random_programs import Programmed, random_program

PROGRAMS = int(os.environ.get("EVENTLOG_TEST_PROGRAMS", "40"))


class Asking(Programmed):
    """Runs programs that also ask a model and a tool."""

    def __init__(self, model: Model, tool: Doubling) -> None:
        super().__init__()
        self.model = model
        self.tools = [tool]

    async def do_model(self, who: int, ctx: MessageContext, number: int) -> None:
        try:
            result = await self.model.create([], cancellation_token=ctx.cancellation_token)
            self.trace.append((who, result.content, self.model.total_usage()))
        except (ConnectionError, EffectOutcomeUnknown) as error:
            self.trace.append((who, type(error), str(error)))

    async def do_stream(self, who: int, ctx: MessageContext, number: int) -> None:
        try:
            items = 0
            async for item in self.model.create_stream([]):
                self.trace.append((who, item))
                items += 1
                if items > number % 6:
                    break
        except (ConnectionError, EffectOutcomeUnknown) as error:
            self.trace.append((who, type(error), str(error)))

    async def do_tool(self, who: int, ctx: MessageContext, number: int) -> None:
        try:
            self.trace.append(await self.tools[0].run_json({"number": number % 14}, ctx.cancellation_token))
        except (ValueError, EffectOutcomeUnknown) as error:
            self.trace.append((who, type(error), str(error)))


def with_effects(rnd: random.Random, program: list[Any]) -> list[Any]:
    """A program with effects at random places, at any depth."""
    done: list[Any] = []
    for kind, *arguments in program:
        if rnd.random() < 0.4:
            done.append((rnd.choice(["model", "stream", "tool"]), rnd.randint(0, 99)))
        if kind == "gather":
            arguments = [[with_effects(rnd, part) for part in arguments[0]]]
        elif arguments and isinstance(arguments[-1], list):
            arguments = [*arguments[:-1], with_effects(rnd, arguments[-1])]
        done.append((kind, *arguments))
    return done


def fresh(seed: int) -> Agent:
    return Asking(Model(random.Random(seed)), Doubling(random.Random(seed)))


def replayed() -> Agent:
    return Asking(Model(refuses=True), Doubling())


async def live_run(seed: int, *, cancel: bool = True) -> tuple[Any, ListAppender]:
    rnd = random.Random(seed)
    appender = ListAppender()
    incarnation = live(lambda: fresh(seed), appender, RandomWorld(seed))
    deliveries = []
    for _ in range(rnd.randint(5, 25)):
        program = with_effects(rnd, random_program(rnd))
        delivery, _ = incarnation.deliver(envelope(incarnation.codec, program))
        deliveries.append(delivery)
        if rnd.random() < 0.6:
            await asyncio.sleep(rnd.choice([0, 0, 0.0005, 0.001, 0.003]))
        if cancel and rnd.random() < 0.15:
            incarnation.cancel(rnd.choice(deliveries), by=rnd.choice(["token", "task"]))
    await asyncio.wait([delivery.done for delivery in deliveries])
    await rest(incarnation)
    return incarnation.agent, appender


async def rest(incarnation: Any) -> None:
    """Wait until the agent is at rest, and bring what ran after its last event into one."""
    while incarnation.agent.background or not incarnation.quiet:
        await asyncio.sleep(0.001)
    last, _ = incarnation.deliver(envelope(incarnation.codec, [("change", -1)]))
    await last.done


@pytest.fixture(autouse=True)
async def quiet_loop() -> None:
    # Programs raise in background tasks on purpose.
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)


async def test_random_programs_with_effects_replay_exactly() -> None:
    asked = 0
    for seed in range(PROGRAMS):
        agent, appender = await live_run(seed)
        again: Any = (await viewed(replayed, appender.events)).agent
        assert again.trace == agent.trace, seed
        assert again.tools[0].runs == []
        asked += sum(event.type is EventType.EFFECT_REQUESTED for event in appender.events)
    assert asked > 10 * PROGRAMS


@pytest.mark.parametrize("unknown", ["retry", "fail"])
async def test_a_log_cut_anywhere_goes_on_and_replays(unknown: str) -> None:
    for seed in range(PROGRAMS // 3):
        _, appender = await live_run(seed, cancel=False)
        rnd = random.Random(seed)
        log = ListAppender(list(appender.events[: rnd.randint(1, len(appender.events))]))
        incarnation = await recovered(lambda seed=seed: fresh(seed), log, RandomWorld(seed + 1), unknown=unknown)
        await rest(incarnation)
        agent: Any = incarnation.agent
        again: Any = (await viewed(replayed, log.events)).agent
        assert again.trace == agent.trace, seed
