"""The agents of the benchmarks: ordinary AutoGen agents that know nothing of the log."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autogen_core import (
    AgentId,
    AgentRuntime,
    MessageContext,
    RoutedAgent,
    TopicId,
    TypeSubscription,
    message_handler,
)

_LAST = 10


@dataclass
class Add:
    amount: int
    note: str


@dataclass
class Total:
    total: int
    count: int


class Ledger(RoutedAgent):
    """Adds up; its state has a bounded size, so that saving it as a whole stays cheap."""

    def __init__(self) -> None:
        super().__init__("A ledger")
        self.total = 0
        self.count = 0
        self._notes: list[str] = []

    @message_handler
    async def add(self, message: Add, ctx: MessageContext) -> Total:
        self._book(message)
        return Total(self.total, self.count)

    def _book(self, message: Add) -> None:
        self.total += message.amount
        self.count += 1
        self._notes = [*self._notes[1 - _LAST :], message.note]

    async def save_state(self) -> Mapping[str, Any]:
        return {"total": self.total, "count": self.count, "notes": list(self._notes)}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        self.total, self.count, self._notes = state["total"], state["count"], list(state["notes"])


class Listener(Ledger):
    """Hears of additions that are published."""

    @message_handler
    async def add(self, message: Add, ctx: MessageContext) -> None:  # type: ignore[override]
        self._book(message)


class Asker(RoutedAgent):
    """Sleeps, asks a ledger, sleeps again; its handlers overlap and change one state."""

    def __init__(self) -> None:
        super().__init__("One who asks")
        self.order: list[tuple[int, int]] = []
        self.under_way = 0

    @message_handler
    async def ask(self, message: Add, ctx: MessageContext) -> Total:
        self.under_way += 1
        await asyncio.sleep(0.001 * (message.amount % 3))
        answer: Total = await self.send_message(Add(1, message.note), AgentId("ledger", self.id.key))
        await asyncio.sleep(0.001)
        self.under_way -= 1
        self.order = [*self.order[-50:], (message.amount, answer.count)]
        return answer


LISTENERS = tuple(f"listener{number}" for number in range(10))
TOPIC_TYPE = "additions"


async def register(runtime: AgentRuntime) -> None:
    """All of the types above; instances come up when they are first needed."""
    await Ledger.register(runtime, "ledger", Ledger)
    await Asker.register(runtime, "asker", Asker)
    for name in LISTENERS:
        await Listener.register(runtime, name, Listener, skip_class_subscriptions=True)
        await runtime.add_subscription(TypeSubscription(TOPIC_TYPE, name))


def topic(source: str) -> TopicId:
    return TopicId(TOPIC_TYPE, source)
