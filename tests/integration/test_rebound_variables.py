"""Variables that functions rebind (`nonlocal`), as `ClosureAgent`s have them: views and proofs have their own (G3, G5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from autogen_core import AgentId, ClosureAgent, ClosureContext, MessageContext, RoutedAgent, message_handler

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime

CLOSURE, GIVEN = AgentId("closure", "k"), AgentId("given", "k")


@dataclass
class Add:
    number: int


@dataclass
class Get:
    pass


def counting() -> Callable[..., Any]:
    total = 0

    async def count(context: ClosureContext, message: Add | Get, ctx: MessageContext) -> int | None:
        nonlocal total
        if isinstance(message, Get):
            return total
        total += message.number
        return None

    return count


def purse() -> dict[str, Callable[..., Any]]:
    """Two functions of one variable, one of which only reads it."""
    held: tuple[int, ...] = ()

    def put(number: int) -> None:
        nonlocal held
        held = (*held, number)

    def look() -> tuple[int, ...]:
        return held

    return {"put": put, "look": look}


class Given(RoutedAgent):
    """Is given functions that share a variable: in a container, and one of them by itself."""

    def __init__(self, purse: dict[str, Callable[..., Any]]) -> None:
        super().__init__("is given functions")
        self.purse = purse
        self.look = purse["look"]
        self.put = purse["put"]

    @message_handler
    async def on_add(self, message: Add, ctx: MessageContext) -> None:
        self.put(message.number)

    @message_handler
    async def on_get(self, message: Get, ctx: MessageContext) -> int:
        assert self.look() == self.purse["look"]()
        return sum(self.look())


async def running(log: EventLog) -> EventSourcedAgentRuntime:
    runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
    await ClosureAgent.register_closure(
        runtime, "closure", counting(), subscriptions=lambda: [], unknown_type_policy="ignore"
    )
    given = purse()
    await Given.register(runtime, "given", lambda: Given(given))
    runtime.start()
    return runtime


async def total(runtime: EventSourcedAgentRuntime, agent: AgentId) -> Any:
    return await runtime.send_message(Get(), agent)


def kept(view: Any) -> int:
    if isinstance(view, Given):
        assert view.look() == view.purse["look"]()
        return sum(view.look())
    return next(cell.cell_contents for cell in view._closure.__closure__)


@pytest.mark.parametrize("agent", [CLOSURE, GIVEN], ids=str)
async def test_views_checks_and_proofs_leave_it_to_the_live_agent(dsn: str, agent: AgentId) -> None:
    async with EventLog.open(dsn) as log:
        runtime = await running(log)
        for number in (1, 10, 100):
            await runtime.send_message(Add(number), agent)
        assert [kept(await runtime.view(agent, version=version)) for version in (1, 3, 5, 7, 3)] == [0, 1, 11, 111, 1]
        assert [one.outcome.value for one in (await runtime.check([agent])).agents] == ["same"]
        await runtime.snapshot(agent)
        assert await total(runtime, agent) == 111
        await runtime.send_message(Add(1000), agent)
        assert await total(runtime, agent) == 1111
        await runtime.restore(agent, version=5)
        assert await total(runtime, agent) == 11
        await runtime.send_message(Add(2), agent)
        await runtime.stop_when_idle()
    async with EventLog.open(dsn) as log:
        runtime = await running(log)
        assert await total(runtime, agent) == 13
        await runtime.stop_when_idle()
