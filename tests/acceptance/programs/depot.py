"""Agents of eight types that call each other, publish to several subscribers and do things outside, each type on any worker.

    python -m tests.acceptance.programs.depot DSN PORT LEASE PATIENCE OUTSIDE TYPE...

A desk has what is ordered taken from the stock, shipped by a carrier (which has it weighed), and announces it. What is done
outside is a line of the file OUTSIDE. It says `{"ready": pid}` when it is up, and ends with its input.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path

from autogen_core import AgentId, AgentRuntime, MessageContext, RoutedAgent, TopicId, TypeSubscription, event, rpc

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedGrpcWorkerAgentRuntime, effect
from autogen_eventlog.errors import DatabaseUnavailable, EffectOutcomeUnknown, StreamOwned, Undeliverable

from .remote import until_input_ends

SHIPPED = TopicId("shipped", "all")
MAILED = TopicId("mailed", "all")
DESKS, STOCKS, CARRIERS = 4, 3, 2


@dataclass
class Order:
    number: int


@dataclass
class Receipt:
    number: int
    weight: int


@dataclass
class Take:
    number: int


@dataclass
class Ship:
    number: int


@dataclass
class Weigh:
    number: int


@dataclass
class Weight:
    number: int
    weight: int


@dataclass
class Shipped:
    number: int
    weight: int


@dataclass
class Mailed:
    number: int


def weight(number: int) -> int:
    """What an order weighs: anybody can compute it without the agents."""
    return number % 97 + 1


@effect("depot.outside")
async def outside(path: str, what: str, number: int) -> str:
    """Does something that can be counted."""

    def write() -> None:
        with Path(path).open("a") as file:
            file.write(f"{what} {number}\n")  # one write of few bytes: lines of several processes don't mix

    await asyncio.to_thread(write)
    return f"{what} {number}"


class Worked(RoutedAgent):
    """Remembers what it has done, and what it does not know whether it has."""

    outside = ""

    def __init__(self) -> None:
        super().__init__("works in the depot")
        self.done: list[int] = []
        self.unknown: list[int] = []

    async def do(self, what: str, number: int) -> None:
        await self.note(number, outside(Worked.outside, what, number))

    async def note(self, number: int, doing: Awaitable[object]) -> None:
        try:
            await doing
        except (EffectOutcomeUnknown, Undeliverable, StreamOwned, DatabaseUnavailable):
            self.unknown.append(number)
        else:
            self.done.append(number)


class Desk(Worked):
    @rpc
    async def on_order(self, message: Order, ctx: MessageContext) -> Receipt:
        number = message.number
        stock, carrier = AgentId("stock", str(number % STOCKS)), AgentId("carrier", str(number % CARRIERS))
        await self.send_message(Take(number), stock)
        weighed: Weight = await self.send_message(Ship(number), carrier)
        await self.publish_message(Shipped(number, weighed.weight), SHIPPED)
        self.done.append(number)
        return Receipt(number, weighed.weight)


class Stock(Worked):
    @rpc
    async def on_take(self, message: Take, ctx: MessageContext) -> None:
        await self.do("take", message.number)


class Carrier(Worked):
    @rpc
    async def on_ship(self, message: Ship, ctx: MessageContext) -> Weight:
        weighing = self.send_message(Weigh(message.number), AgentId("scales", "all"))
        weighed, _ = await asyncio.gather(weighing, self.do("ship", message.number), return_exceptions=True)
        if isinstance(weighed, BaseException):
            raise weighed
        return weighed  # type: ignore[no-any-return]


class Scales(Worked):
    @rpc
    async def on_weigh(self, message: Weigh, ctx: MessageContext) -> Weight:
        await asyncio.sleep(0.01 * (message.number % 4))
        self.done.append(message.number)
        return Weight(message.number, weight(message.number))


class Ledger(Worked):
    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    @event
    async def on_shipped(self, message: Shipped, ctx: MessageContext) -> None:
        self.done.append(message.number)
        self.total += message.weight


class Mailer(Worked):
    @event
    async def on_shipped(self, message: Shipped, ctx: MessageContext) -> None:
        await self.do("mail", message.number)
        await self.publish_message(Mailed(message.number), MAILED)


class Auditor(Worked):
    """Has weighed again what was announced."""

    @event
    async def on_shipped(self, message: Shipped, ctx: MessageContext) -> None:
        await self.note(message.number, self._weigh_again(message))

    async def _weigh_again(self, message: Shipped) -> None:
        weighed: Weight = await self.send_message(Weigh(message.number), AgentId("scales", "audit"))
        assert weighed.weight == message.weight


class Archive(Worked):
    @event
    async def on_mailed(self, message: Mailed, ctx: MessageContext) -> None:
        self.done.append(message.number)


AGENTS: dict[str, type[Worked]] = {
    "desk": Desk,
    "stock": Stock,
    "carrier": Carrier,
    "scales": Scales,
    "ledger": Ledger,
    "mailer": Mailer,
    "auditor": Auditor,
    "archive": Archive,
}
HEARS = {"ledger": SHIPPED, "mailer": SHIPPED, "auditor": SHIPPED, "archive": MAILED}


async def settle_in(runtime: AgentRuntime, types: list[str]) -> None:
    for name in types:
        await AGENTS[name].register(runtime, name, AGENTS[name])
        if name in HEARS:
            await runtime.add_subscription(TypeSubscription(HEARS[name].type, name))


async def main(dsn: str, port: str, lease: str, patience: str, path: str, *types: str) -> None:
    Worked.outside = path
    async with EventLog.open(dsn, lease=float(lease)) as log:
        runtime = EventSourcedGrpcWorkerAgentRuntime(
            f"localhost:{port}",
            intervention_handlers=[EventLogHandler(log)],
            patience=float(patience),
            connect_timeout=60,
            registration_patience=60,
        )
        await runtime.start()
        await settle_in(runtime, list(types))
        await until_input_ends()
        await runtime.stop()


if __name__ == "__main__":
    from tests.acceptance.programs import depot  # its classes by their importable name, not as __main__'s

    asyncio.run(depot.main(*sys.argv[1:]))
