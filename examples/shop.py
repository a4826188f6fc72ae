"""Three ordinary AutoGen agents. Nothing here knows of the event log.

A clerk takes orders. For each it asks a tool agent (AutoGen's own) for the price, and a warehouse to pack the goods.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from dataclasses import dataclass
from decimal import Decimal

from autogen_core import (
    AgentId,
    AgentRuntime,
    FunctionCall,
    MessageContext,
    RoutedAgent,
    TopicId,
    TypeSubscription,
    message_handler,
)
from autogen_core.models import FunctionExecutionResult
from autogen_core.tool_agent import ToolAgent
from autogen_core.tools import FunctionTool


@dataclass
class Order:
    number: int
    item: str
    quantity: int


@dataclass
class Pack:
    item: str
    quantity: int
    seconds: float


@dataclass
class Packed:
    item: str
    left: int


@dataclass
class Sold:
    item: str
    quantity: int


class Clerk(RoutedAgent):
    def __init__(self, seconds_per_item: float) -> None:
        super().__init__("takes orders")
        self._seconds_per_item = seconds_per_item
        self.revenue = Decimal("0.00")
        self.sold: Counter[str] = Counter()
        self._last: deque[Order] = deque(maxlen=2)
        self._open: set[int] = set()

    @message_handler
    async def on_order(self, message: Order, ctx: MessageContext) -> str:
        self._open.add(message.number)
        arguments = json.dumps({"item": message.item, "quantity": message.quantity})
        call = FunctionCall(id=f"order-{message.number}", name="price", arguments=arguments)
        price: FunctionExecutionResult = await self.send_message(call, AgentId("tools", "default"))
        pack = Pack(message.item, message.quantity, message.quantity * self._seconds_per_item)
        packed: Packed = await self.send_message(pack, AgentId("warehouse", self.id.key))
        self.revenue += Decimal(price.content)
        self.sold[message.item] += message.quantity
        self._last.append(message)
        self._open.remove(message.number)
        await self.publish_message(Sold(message.item, message.quantity), TopicId("sales", self.id.key))
        return f"order {message.number}: {price.content}, {packed.left} {message.item} left"


class Warehouse(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("packs goods")
        self.stock = {"pear": 40, "plum": 90}
        self._journal: list[tuple[str, int]] = []

    @message_handler
    async def on_pack(self, message: Pack, ctx: MessageContext) -> Packed:
        await asyncio.sleep(message.seconds)
        self.stock[message.item] -= message.quantity
        self._journal.append((message.item, message.quantity))
        return Packed(message.item, self.stock[message.item])


class Chart(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("counts what was sold")
        self.ranking: Counter[str] = Counter()

    @message_handler
    async def on_sold(self, message: Sold, ctx: MessageContext) -> None:
        self.ranking[message.item] += message.quantity


asked: list[str] = []
"""What this process asked the price tool; the world outside, as far as the agents are concerned."""


def price(item: str, quantity: int) -> str:
    """The price of a quantity of an item."""
    asked.append(item)
    return str({"pear": Decimal("0.70"), "plum": Decimal("0.25")}[item] * quantity)


async def register(runtime: AgentRuntime, *, seconds_per_item: float = 0.0) -> None:
    """Register the shop, on any AutoGen runtime."""
    await Clerk.register(runtime, "clerk", lambda: Clerk(seconds_per_item))  # type: ignore[arg-type]
    await Warehouse.register(runtime, "warehouse", Warehouse)  # type: ignore[arg-type]
    await Chart.register(runtime, "chart", Chart)  # type: ignore[arg-type]
    tools = [FunctionTool(price, description="The price of a quantity of an item.")]
    await ToolAgent.register(runtime, "tools", lambda: ToolAgent("prices", tools))  # type: ignore[arg-type]
    await runtime.add_subscription(TypeSubscription("sales", "chart"))
