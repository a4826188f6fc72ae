"""What is asked of a runtime: calls by so many callers at once, or publications to ten subscribers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import uuid4

from autogen_core import AgentId

from benchmarks.agents import LISTENERS, Add, register, topic
from benchmarks.places import Place, value
from benchmarks.sides import Running, Side

_WARM = 3
_LOCATION = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"


@dataclass(frozen=True, slots=True)
class Measured:
    """One turn of one side."""

    per_second: float
    rows: float
    """Written, a message."""
    wal_bytes: float
    """Written, a message."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """`act` does one unit of work; `callers` do one after the other, at once."""

    name: str
    callers: int
    act: Callable[[Running, str, int], Awaitable[None]]

    def turn(self, side: Side, place: Place, seconds: float) -> Measured:
        """Measure one side, in an event loop of its own, with agents that never lived before."""
        return asyncio.run(_turn(self, side, place, seconds))


def calls(callers: int, *, one_agent: bool = False) -> Scenario:
    """Each caller calls an agent of its own, or all call one, and waits for each reply."""

    async def call(running: Running, key: str, caller: int) -> None:
        agent = AgentId("ledger", key if one_agent else f"{key}-{caller}")
        await running.runtime.send_message(Add(1, "a small note"), agent)
        await running.after(agent)

    noun = "caller" if callers == 1 else "callers"
    return Scenario(f"RPC, {callers} {noun}{', one agent' if one_agent else ''}", callers, call)


def publications() -> Scenario:
    """One publication after the other, each when all ten have handled the one before."""

    async def publish(running: Running, key: str, caller: int) -> None:
        await running.runtime.publish_message(Add(1, "a small note"), topic(key))
        await running.runtime._message_queue.join()  # pyright: ignore  # what stop_when_idle waits for
        for name in LISTENERS:
            await running.after(AgentId(name, key))

    return Scenario("publish to 10", 1, publish)


async def _turn(scenario: Scenario, side: Side, place: Place, seconds: float) -> Measured:
    async with side(place) as running, place.connection() as connection:
        await register(running.runtime)
        running.runtime.start()
        key = uuid4().hex[:8]
        await asyncio.gather(*(_repeat(scenario, running, key, caller, _WARM) for caller in range(scenario.callers)))
        rows, wal = await running.rows(), await value(connection, _LOCATION)
        done, taken = await _for(scenario, running, key, seconds)
        rows, wal = await running.rows() - rows, await value(connection, _LOCATION) - wal
        await running.runtime.stop_when_idle()
    return Measured(done / taken, rows / done, wal / done)


async def _repeat(scenario: Scenario, running: Running, key: str, caller: int, times: int) -> None:
    for _ in range(times):
        await scenario.act(running, key, caller)


async def _for(scenario: Scenario, running: Running, key: str, seconds: float) -> tuple[int, float]:
    """Units done, and the seconds it took."""
    began = time.perf_counter()
    done = 0

    async def caller(number: int) -> None:
        nonlocal done
        while time.perf_counter() - began < seconds:
            await scenario.act(running, key, number)
            done += 1

    await asyncio.gather(*(caller(number) for number in range(scenario.callers)))
    return done, time.perf_counter() - began
