"""Replay reproduces an agent's schedule exactly (G3, G5), for random concurrent programs."""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import pytest

from autogen_eventlog.events import EventType
from autogen_eventlog.replay.machine import Mismatch

from .bench import ListAppender, RandomWorld, connect, envelope, incarnate, replay
from .random_programs import Programmed, random_program

PROGRAMS = int(os.environ.get("EVENTLOG_TEST_PROGRAMS", "60"))


async def live_run(seed: int, *, cancel: bool = True, strict: bool = False) -> tuple[Programmed, ListAppender]:
    """Deliver 5 to 40 programs, overlapping, some of them cancelled, and wait until the agent is at rest."""
    rnd = random.Random(seed)
    incarnation = incarnate(Programmed)
    agent = incarnation.agent
    assert isinstance(agent, Programmed)
    appender = ListAppender()
    connect(incarnation, appender, RandomWorld(seed))
    deliveries = []
    for _ in range(rnd.randint(5, 40)):
        deferred = strict and rnd.random() < 0.5
        delivery, _ = incarnation.deliver(envelope(incarnation.codec, random_program(rnd)), deferred=deferred)
        deliveries.append(delivery)
        if rnd.random() < 0.6:
            await asyncio.sleep(rnd.choice([0, 0, 0.0005, 0.001, 0.003]))
        if deferred:
            incarnation.start(delivery)
        if cancel and rnd.random() < 0.15:
            incarnation.cancel(rnd.choice(deliveries), by=rnd.choice(["token", "task"]))
    await asyncio.wait([delivery.done for delivery in deliveries])
    while agent.background or not incarnation.quiet:
        await asyncio.sleep(0.001)
    # What ran after the last event is in no event yet: one more brings it in.
    last, _ = incarnation.deliver(envelope(incarnation.codec, [("change", -1)]))
    await last.done
    return agent, appender


@pytest.fixture(autouse=True)
async def quiet_loop() -> None:
    # Programs raise in background tasks on purpose.
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)


@pytest.mark.parametrize("strict", [False, True])
async def test_random_concurrent_programs_replay_exactly(strict: bool) -> None:
    for seed in range(PROGRAMS):
        agent, appender = await live_run(seed, strict=strict)
        replayed = (await replay(Programmed, appender.events, continues=True)).agent
        assert isinstance(replayed, Programmed)
        assert (replayed.trace, replayed.ended) == (agent.trace, agent.ended), seed


async def test_a_recovered_agent_goes_live_in_place_and_finishes_what_was_in_flight() -> None:
    for seed in range(PROGRAMS // 3):
        _, appender = await live_run(seed, cancel=False)
        rnd = random.Random(seed)
        cut = appender.events[: rnd.randint(1, len(appender.events))]
        incarnation_events = ListAppender(list(cut))
        recovered = await recover(incarnation_events, seed)
        agent = recovered.agent
        assert isinstance(agent, Programmed)
        while agent.background or not recovered.quiet:
            await asyncio.sleep(0.001)
        last, _ = recovered.deliver(envelope(recovered.codec, [("change", -1)]))
        await last.done
        again = (await replay(Programmed, incarnation_events.events, continues=True)).agent
        assert isinstance(again, Programmed)
        assert again.trace == agent.trace, seed
        delivered = sum(event.type is EventType.MESSAGE_DELIVERED for event in incarnation_events.events)
        completed = sum(event.type is EventType.DELIVERY_COMPLETED for event in incarnation_events.events)
        assert delivered == completed


async def recover(appender: ListAppender, seed: int) -> Any:
    from autogen_eventlog.replay.follow import follow
    from autogen_eventlog.replay.machine import Machine

    from .bench import each

    machine = Machine()
    incarnation = incarnate(Programmed, machine)
    connect(incarnation, appender, RandomWorld(seed + 1))
    await follow(incarnation, machine, each(list(appender.events)))
    if not incarnation.live:
        incarnation.go_live()
    return incarnation


async def test_changed_code_diverges_and_is_placed() -> None:
    class Changed(Programmed):
        async def do_publish(self, who: int, ctx: Any, value: int) -> None:
            await super().do_publish(who, ctx, value + 1)

    for seed in range(10):
        _, appender = await live_run(seed)
        first = next((e for e in appender.events if e.type is EventType.MESSAGE_PUBLISHED), None)
        if first is None:
            continue
        with pytest.raises(Mismatch) as raised:
            await replay(Changed, appender.events)
        assert raised.value.version == first.version
        return
    raise AssertionError("no program published")
