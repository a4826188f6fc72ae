"""A town of agents that call each other, publish, overlap, and leave background tasks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from autogen_core import AgentId, MessageContext, RoutedAgent, TopicId, default_subscription, message_handler

from autogen_eventlog import EventSourcedAgentRuntime

NEWS = TopicId("default", "default")
LEDGER = AgentId("ledger", "main")


@dataclass
class Order:
    number: int


@dataclass
class Receipt:
    number: int
    total: int


@dataclass
class Booking:
    number: int
    amount: int


@dataclass
class Booked:
    entries: int


@dataclass
class Announced:
    number: int


@dataclass
class Roll:
    """Asks an agent for its state, when it is at rest."""


@dataclass
class State:
    values: dict[str, list[int]]
    total: int


def amount(number: int) -> int:
    """What an order is worth: anybody can compute the totals without the agents."""
    return number % 97 + 1


class Clerk(RoutedAgent):
    """Takes orders: books each in the ledger and at a counter at once, announces it, and files it in the background."""

    def __init__(self) -> None:
        super().__init__("clerk")
        self.begun: list[int] = []
        self.ended: list[int] = []
        self.filed: list[int] = []
        self.total = 0
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    @message_handler
    async def on_order(self, message: Order, ctx: MessageContext) -> Receipt:
        self.begun.append(message.number)
        async with self._lock:
            before = self.total
            await asyncio.sleep(0.0005)
            self.total = before + amount(message.number)
        booking = Booking(message.number, amount(message.number))
        await asyncio.gather(
            self.send_message(booking, LEDGER), self.send_message(booking, AgentId("counter", self.id.key))
        )
        await self.publish_message(Announced(message.number), NEWS)
        task = asyncio.create_task(self._file(message.number))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.ended.append(message.number)
        return Receipt(message.number, self.total)

    async def _file(self, number: int) -> None:
        await asyncio.sleep(0.002)
        await self.send_message(Booking(number, 0), AgentId("counter", f"files-{self.id.key}"))
        self.filed.append(number)

    @message_handler
    async def on_roll(self, message: Roll, ctx: MessageContext) -> State:
        return State({"begun": self.begun, "ended": self.ended, "filed": self.filed}, self.total)


class Counter(RoutedAgent):
    """Books, with a pause in the middle of each booking, so that they overlap."""

    def __init__(self) -> None:
        super().__init__("counter")
        self.booked: list[int] = []
        self.total = 0

    @message_handler
    async def on_booking(self, message: Booking, ctx: MessageContext) -> Booked:
        await asyncio.sleep(0)
        await asyncio.sleep(0.0003 * (message.number % 3))
        self.booked.append(message.number)
        self.total += message.amount
        return Booked(len(self.booked))

    @message_handler
    async def on_roll(self, message: Roll, ctx: MessageContext) -> State:
        return State({"booked": self.booked}, self.total)


@default_subscription
class Listener(RoutedAgent):
    """Hears what is announced."""

    def __init__(self) -> None:
        super().__init__("listener")
        self.heard: list[int] = []

    @message_handler
    async def on_announced(self, message: Announced, ctx: MessageContext) -> None:
        self.heard.append(message.number)

    @message_handler
    async def on_roll(self, message: Roll, ctx: MessageContext) -> State:
        return State({"heard": self.heard}, 0)


@default_subscription
class Gossip(Listener):
    """Hears it too."""


async def found(runtime: EventSourcedAgentRuntime) -> None:
    """Registers the town's types."""
    await Clerk.register(runtime, "clerk", Clerk)
    await Counter.register(runtime, "counter", Counter)
    await Counter.register(runtime, "ledger", Counter)
    await Listener.register(runtime, "listener", Listener)
    await Gossip.register(runtime, "gossip", Gossip)
