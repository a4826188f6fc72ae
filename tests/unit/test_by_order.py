"""What other code or another Python recorded is replayed by order, or refused, never wrongly."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest

from autogen_eventlog.events import EventType, RecordedEvent
from autogen_eventlog.incarnation.incarnation import Incarnation
from autogen_eventlog.replay.follow import follow
from autogen_eventlog.replay.machine import Machine, Mismatch

from .bench import ListAppender, RandomWorld, connect, each, envelope, incarnate
from .random_programs import Programmed

SEQUENTIAL = ["change", "yield", "sleep", "call", "publish", "timeout", "locked"]
ELSEWHERE = {"python": "3.9.1"}
HERE = {"python": "here"}


def sequential_program(rnd: random.Random, depth: int = 0) -> list[Any]:
    """A program that does one thing at a time."""
    program: list[Any] = []
    for _ in range(rnd.randint(1, 4)):
        kind = rnd.choice(SEQUENTIAL if depth < 2 else SEQUENTIAL[:5])
        match kind:
            case "yield":
                program.append((kind,))
            case "sleep":
                program.append((kind, 0.0005))
            case "timeout":
                program.append((kind, 10.0, sequential_program(rnd, depth + 1)))
            case "locked" if depth == 0:
                program.append((kind, sequential_program(rnd, depth + 1)))
            case "locked":
                program.append(("change", 1))
            case _:
                program.append((kind, rnd.randint(0, 99)))
    return program


def activated(incarnation: Incarnation, producer: dict[str, str]) -> None:
    incarnation.note(EventType.AGENT_ACTIVATED, {"producer": producer})


async def sequential_life(incarnation: Incarnation, seed: int, deliveries: int = 6) -> None:
    rnd = random.Random(seed)
    for _ in range(deliveries):
        delivery, _ = incarnation.deliver(envelope(incarnation.codec, sequential_program(rnd)))
        await delivery.done
        await asyncio.sleep(0.001)


def stretched(events: list[RecordedEvent]) -> list[RecordedEvent]:
    """As if another Python had run three callbacks for every one of ours."""
    changed = []
    for event in events:
        metadata = dict(event.metadata)
        metadata["tick"] = 3 * metadata["tick"]
        if "observations" in metadata:
            metadata["observations"] = [[kind, what, 3 * tick] for kind, what, tick in metadata["observations"]]
        changed.append(replace(event, metadata=metadata))
    return changed


async def recorded(seed: int) -> tuple[Programmed, list[RecordedEvent]]:
    incarnation, appender = incarnate(Programmed), ListAppender()
    connect(incarnation, appender, RandomWorld(seed))
    activated(incarnation, ELSEWHERE)
    await sequential_life(incarnation, seed)
    agent = incarnation.agent
    assert isinstance(agent, Programmed)
    return agent, stretched(appender.events)


async def by_order(events: list[RecordedEvent], *, continues: bool = False) -> tuple[Incarnation, Machine]:
    machine = Machine(by_order=lambda producer: producer == ELSEWHERE)
    incarnation = incarnate(Programmed, machine)
    incarnation.continues = continues
    await follow(incarnation, machine, each(events))
    return incarnation, machine


async def test_sequential_histories_of_another_python_replay_to_the_same_state() -> None:
    for seed in range(20):
        agent, events = await recorded(seed)
        incarnation, machine = await by_order(events)
        replayed = incarnation.agent
        assert isinstance(replayed, Programmed)
        assert (replayed.trace, replayed.ended) == (agent.trace, agent.ended), seed
        assert machine.followed_by_order
        incarnation.end()


async def test_the_same_histories_diverge_when_followed_by_tick() -> None:
    _, events = await recorded(1)
    machine = Machine()
    incarnation = incarnate(Programmed, machine)
    incarnation.continues = False
    with pytest.raises(Mismatch):
        await follow(incarnation, machine, each(events))
    incarnation.end()


async def test_a_life_that_goes_on_under_this_python_is_followed_by_order_and_then_by_tick() -> None:
    for seed in range(10):
        _, events = await recorded(seed)
        appender = ListAppender(list(events))
        incarnation, _ = await by_order(events, continues=True)
        connect(incarnation, appender, RandomWorld(seed))
        incarnation.on_live = lambda recovered=incarnation: activated(recovered, HERE)
        incarnation.begin()
        overlapping = [
            incarnation.deliver(envelope(incarnation.codec, [("call", number), ("yield",), ("change", number)]))[0]
            for number in range(5)
        ]
        await asyncio.wait([delivery.done for delivery in overlapping])
        again, _ = await by_order(appender.events)
        assert again.agent.trace == incarnation.agent.trace, seed  # type: ignore[union-attr]
        again.end()


async def test_overlapping_deliveries_of_another_python_are_refused() -> None:
    incarnation, appender = incarnate(Programmed), ListAppender()
    connect(incarnation, appender, RandomWorld(1))
    activated(incarnation, ELSEWHERE)
    both = [incarnation.deliver(envelope(incarnation.codec, [("call", 1), ("change", 1)]))[0] for _ in range(2)]
    await asyncio.wait([delivery.done for delivery in both])
    with pytest.raises(Mismatch):
        await by_order(stretched(appender.events))
