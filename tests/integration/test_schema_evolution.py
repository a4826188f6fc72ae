"""A log recorded with last year's classes restores under today's: messages, replies, requests of tools, states."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from autogen_core import AgentId

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime, renamed, upcaster
from autogen_eventlog.codec.upcasting import UPCASTING
from autogen_eventlog.errors import Divergence, ShapeChanged, TypeNotAllowed
from autogen_eventlog.events import EventType

DESK, STORE = AgentId("desk", "one"), AgentId("store", "one")

LAST_YEAR = """
    from dataclasses import dataclass
    from autogen_core import AgentId, CancellationToken, MessageContext, RoutedAgent, message_handler, rpc
    from autogen_core.tools import FunctionTool

    @dataclass
    class Order:
        item: str
        price: float

    @dataclass
    class Ask:
        order: Order

    @dataclass
    class Answer:
        order: Order
        left: int

    class Desk(RoutedAgent):
        def __init__(self):
            super().__init__("takes orders")
            self.orders = []
            async def weigh(item: str) -> int:
                return len(item)
            self._scales = FunctionTool(weigh, "weighs", name="weigh")

        @rpc
        async def on_order(self, message: Order, ctx: MessageContext) -> Answer:
            self.orders.append(message)
            await self._scales.run_json({"item": message.item}, CancellationToken())
            return await self.send_message(Ask(message), AgentId("store", "one"))

    class Store(RoutedAgent):
        def __init__(self):
            super().__init__("has things")
            self.left = 10

        @rpc
        async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
            self.left -= 1
            return Answer(message.order, self.left)
"""

THIS_YEAR = (
    LAST_YEAR.replace(
        """    class Order:
        item: str
        price: float
""",
        """    class Purchase:
        item: str
        cents: int
        currency: str = "EUR"
        tags: list[str] = field(default_factory=list)
""",
    )
    .replace("Order", "Purchase")
    .replace("import dataclass", "import dataclass, field")
)


def shop(source: str) -> Any:
    """The module `shop`, as its source is now: in a file, so that its code can be read."""
    with tempfile.NamedTemporaryFile("w", suffix=".py", prefix="shop_", delete=False) as file:
        file.write("from __future__ import annotations\n" + textwrap.dedent(source))
    spec = importlib.util.spec_from_file_location("shop", file.name)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["shop"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    steps, names = dict(UPCASTING._steps), dict(UPCASTING._renamed)
    yield
    UPCASTING._steps, UPCASTING._renamed = steps, names
    UPCASTING.generation += 1
    sys.modules.pop("shop", None)


@asynccontextmanager
async def running(dsn: str, module: Any) -> AsyncIterator[tuple[EventSourcedAgentRuntime, EventLog]]:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await module.Desk.register(runtime, "desk", module.Desk)
        await module.Store.register(runtime, "store", module.Store)
        runtime.start()
        yield runtime, log
        await runtime.stop_when_idle()


async def record(dsn: str) -> list[bytes | None]:
    old = shop(LAST_YEAR)
    async with running(dsn, old) as (runtime, log):
        for price in (1.5, 2.25):
            await runtime.send_message(old.Order("tea", price), DESK)
        assert (await runtime.snapshot(STORE)).proven
    async with EventLog.open(dsn) as log:
        return [event.payload async for event in log.read(DESK)]


def with_upcasters(new: Any) -> None:
    renamed("shop:Order", new.Purchase)

    @upcaster("shop:Order", version=1)
    def _(fields: dict[str, Any]) -> None:
        fields["cents"] = round(fields.pop("price") * 100)


async def test_agents_of_last_year_come_up_under_todays_classes(dsn: str) -> None:
    stored = await record(dsn)
    new = shop(THIS_YEAR)
    with_upcasters(new)
    async with running(dsn, new) as (runtime, log):
        desk = await runtime.view(DESK)
        assert desk.orders == [new.Purchase("tea", 150), new.Purchase("tea", 225)]  # type: ignore[attr-defined]
        answer = await runtime.send_message(new.Purchase("jam", 300, tags=["red"]), DESK)
        assert answer == new.Answer(new.Purchase("jam", 300, "EUR", ["red"]), 7)
        assert [event.payload async for event in log.read(DESK)][: len(stored)] == stored  # rows are as they were
        head = await log.head(DESK)
        assert head is not None
        for version in range(1, head.version + 1):
            await runtime.view(DESK, version=version)
        (message, *_) = await log.audit.messages(agent=DESK, newest_first=False)
        assert message.message == new.Purchase("tea", 150)


async def test_without_an_upcaster_the_error_says_what_to_write(dsn: str) -> None:
    await record(dsn)
    new = shop(THIS_YEAR)
    async with running(dsn, new) as (runtime, _):
        with pytest.raises(TypeNotAllowed, match="shop:Order"):
            await runtime.view(DESK)
        renamed("shop:Order", new.Purchase)
        with pytest.raises(ShapeChanged, match=r"field 'price' .*upcaster"):
            await runtime.view(DESK)
        with_upcaster_that_is_wrong(new)
        with pytest.raises((ShapeChanged, Divergence)):
            await runtime.view(DESK)


def with_upcaster_that_is_wrong(new: Any) -> None:
    @upcaster("shop:Order", version=1)
    def _(fields: dict[str, Any]) -> None:
        del fields["price"]


async def test_code_that_does_something_else_is_still_found(dsn: str) -> None:
    await record(dsn)
    new = shop(THIS_YEAR.replace("Answer(message.order, self.left)", "Answer(message.order, self.left + 1)"))
    with_upcasters(new)
    async with running(dsn, new) as (runtime, _):
        assert await runtime.view(DESK)
        with pytest.raises(Divergence) as found:
            await runtime.view(STORE, version=3)
        assert [one.path for one in found.value.differences] == ["reply.left"]


async def test_a_type_that_is_gone_stays_readable_and_comes_back_once_it_is_registered_again(dsn: str) -> None:
    await record(dsn)
    sys.modules.pop("shop")
    async with EventLog.open(dsn) as log:
        (message, *_) = await log.audit.messages(agent=DESK, newest_first=False)
        assert message.message.json() == {"$t": "shop:Order", "item": "tea", "price": 1.5}  # type: ignore[attr-defined]
        delivered = [event async for event in log.read(DESK) if event.type is EventType.MESSAGE_DELIVERED]
        assert len(delivered) == 2
    async with running(dsn, shop(LAST_YEAR)) as (runtime, _):
        assert len((await runtime.view(DESK)).orders) == 2  # type: ignore[attr-defined]


# -- agents whose own classes change, recovered from a snapshot of last year ----------------------------------------

OLD_KEEPER = """
    from dataclasses import dataclass, field
    from autogen_core import MessageContext, RoutedAgent, rpc

    @dataclass
    class Put:
        value: int

    class Shelf:
        def __init__(self):
            self.things = []

    class Keeper(RoutedAgent):
        def __init__(self):
            super().__init__("keeps")
            self._sum = 0
            self._shelf = Shelf()

        @rpc
        async def on_put(self, message: Put, ctx: MessageContext) -> int:
            self._sum += message.value
            self._shelf.things.append(message.value)
            return self._sum
"""

NEW_KEEPER = """
    from dataclasses import dataclass, field
    from autogen_core import MessageContext, RoutedAgent, rpc

    @dataclass
    class Put:
        value: int

    @dataclass
    class Take:
        pass

    class Rack:
        def __init__(self):
            self.things = []
            self.labels = {}

    class Warden(RoutedAgent):
        def __init__(self):
            super().__init__("keeps")
            self._total = 0
            self._shelf = Rack()
            self._log = ["new"]

        @rpc
        async def on_put(self, message: Put, ctx: MessageContext) -> int:
            self._total += message.value
            self._shelf.things.append(message.value)
            return -self._total

        @rpc
        async def on_take(self, message: Take, ctx: MessageContext) -> int:
            return self._shelf.things.pop()
"""
KEEPER = AgentId("keeper", "one")


@asynccontextmanager
async def keeping(dsn: str, source: str, name: str) -> AsyncIterator[tuple[EventSourcedAgentRuntime, Any]]:
    module = shop(source)
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        cls = getattr(module, name)
        await cls.register(runtime, "keeper", cls)
        runtime.start()
        yield runtime, module
        await runtime.stop_when_idle()


async def keep(dsn: str) -> None:
    async with keeping(dsn, OLD_KEEPER, "Keeper") as (runtime, module):
        for value in (1, 2, 3):
            await runtime.send_message(module.Put(value), KEEPER)
        assert (await runtime.snapshot(KEEPER)).proven


async def test_an_agent_whose_class_was_renamed_and_reshaped_is_recovered_from_its_snapshot(dsn: str) -> None:
    await keep(dsn)
    renamed("shop:Keeper", "shop:Warden")
    renamed("shop:Shelf", "shop:Rack")

    @upcaster("shop:Keeper", version=1)
    def _(fields: dict[str, Any]) -> None:
        fields["_total"] = fields.pop("_sum")

    async with keeping(dsn, NEW_KEEPER, "Warden") as (runtime, module):
        assert await runtime.send_message(module.Put(4), KEEPER) == -10
        agent = await runtime.try_get_underlying_agent_instance(KEEPER)
        assert (agent._total, agent._log, agent._shelf.things) == (10, ["new"], [1, 2, 3, 4])  # type: ignore[attr-defined]
        assert agent._shelf.labels == {}  # type: ignore[attr-defined]
        assert not hasattr(agent, "_sum")
        report = await runtime.snapshot(KEEPER)
        assert report.proven, report.differing
    async with keeping(dsn, NEW_KEEPER, "Warden") as (runtime, module):
        assert await runtime.send_message(module.Put(5), KEEPER) == -15
        assert await runtime.send_message(module.Take(), KEEPER) == 5  # a handler that last year's class had not


async def test_an_agent_that_was_split_keeps_what_its_upcaster_makes_of_it(dsn: str) -> None:
    await keep(dsn)
    source = OLD_KEEPER.replace("self._sum = 0", "self._sums = {'all': 0}").replace("self._sum ", "self._sums['all'] ")
    source = source.replace("return self._sum", "return self._sums['all']")

    @upcaster("shop:Keeper", version=1)
    def _(fields: dict[str, Any]) -> dict[str, Any]:
        return {"_sums": {"all": fields.pop("_sum")}, **fields}

    async with keeping(dsn, source, "Keeper") as (runtime, module):
        assert await runtime.send_message(module.Put(4), KEEPER) == 10


async def test_a_snapshot_of_a_class_that_nothing_leads_from_is_set_aside_for_the_history(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    await keep(dsn)
    async with keeping(dsn, OLD_KEEPER.replace("class Keeper", "class Warden"), "Warden") as (runtime, module):
        # Replayed from the beginning, by order: the code is another's, and does the same.
        assert await runtime.send_message(module.Put(4), KEEPER) == 10
    assert "trying without the snapshot" in caplog.text


async def test_an_attribute_that_was_renamed_is_not_taken_for_a_new_one(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The snapshot is set aside, and the history replayed; an upcaster that says so makes it usable."""
    await keep(dsn)
    source = OLD_KEEPER.replace("_sum", "_total")
    async with keeping(dsn, source, "Keeper") as (runtime, module):
        assert await runtime.send_message(module.Put(4), KEEPER) == 10
    assert "_sum of class 'shop:Keeper' is stored" in caplog.text and "upcaster" in caplog.text
    assert "_total is not" in caplog.text and "_handlers" not in caplog.text
    caplog.clear()

    @upcaster("shop:Keeper", version=1)
    def _(fields: dict[str, Any]) -> dict[str, Any]:
        return {"_total": fields.pop("_sum"), **fields}

    async with keeping(dsn, source, "Keeper") as (runtime, module):
        assert await runtime.send_message(module.Put(5), KEEPER) == 15
    assert "trying without" not in caplog.text


async def test_snapshots_are_proven_again_once_older_ones_no_longer_lead_here(dsn: str) -> None:
    """The shadow takes the way that recovery takes: past what it can't load, here from the beginning."""
    await keep(dsn)
    source = OLD_KEEPER.replace("_sum", "_total")
    async with keeping(dsn, source, "Keeper") as (runtime, module):
        assert await runtime.send_message(module.Put(4), KEEPER) == 10
        report = await runtime.snapshot(KEEPER)
        assert report.proven, report.differing
        assert await runtime.send_message(module.Put(5), KEEPER) == 15
        assert (await runtime.snapshot(KEEPER)).proven


async def test_a_snapshot_is_made_by_replay_where_older_ones_no_longer_lead_here(dsn: str) -> None:
    await keep(dsn)
    async with keeping(dsn, OLD_KEEPER, "Keeper") as (runtime, module):
        await runtime.send_message(module.Put(4), KEEPER)
    async with keeping(dsn, OLD_KEEPER.replace("_sum", "_total"), "Keeper") as (runtime, _):
        report = await runtime.recorded_agents.snapshot_from_log(KEEPER)
        assert report.proven, report.differing


async def test_an_attribute_that_is_gone_is_no_reason_to_replay(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    source = OLD_KEEPER.replace("self._sum = 0", "self._sum = 0\n            self._unused = 1")
    async with keeping(dsn, source, "Keeper") as (runtime, module):
        await runtime.send_message(module.Put(1), KEEPER)
        assert (await runtime.snapshot(KEEPER)).proven
    async with keeping(dsn, OLD_KEEPER, "Keeper") as (runtime, module):
        assert await runtime.send_message(module.Put(2), KEEPER) == 3
    assert "trying without" not in caplog.text


async def test_an_agents_own_default_that_was_renamed_is_not_taken_for_a_new_one(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The class has it, and only handlers set it."""
    source = OLD_KEEPER.replace("def __init__", "_sum = 0\n\n        def __init__").replace(
        "            self._sum = 0\n", "", 1
    )
    async with keeping(dsn, source, "Keeper") as (runtime, module):
        await runtime.send_message(module.Put(1), KEEPER)
        assert (await runtime.snapshot(KEEPER)).proven
    async with keeping(dsn, source.replace("_sum", "_total"), "Keeper") as (runtime, module):
        assert await runtime.send_message(module.Put(2), KEEPER) == 3
    assert "_sum of class 'shop:Keeper' is stored" in caplog.text and "_total is not" in caplog.text


LISTED = """
    from dataclasses import dataclass
    from autogen_core import MessageContext, RoutedAgent, rpc

    @dataclass
    class Put:
        number: int

    @dataclass
    class Item:
        qty: int = 0

    class Keeper(RoutedAgent):
        def __init__(self):
            super().__init__("keeps")
            self.items = []

        @rpc
        async def on_put(self, message: Put, ctx: MessageContext) -> int:
            self.items.append(Item(message.number))
            return sum(item.qty for item in self.items)
"""


async def test_a_field_that_was_renamed_of_what_a_handler_made_leads_to_replay(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with keeping(dsn, LISTED, "Keeper") as (runtime, module):
        await runtime.send_message(module.Put(5), KEEPER)
        assert (await runtime.snapshot(KEEPER)).proven
    async with keeping(dsn, LISTED.replace("qty", "count"), "Keeper") as (runtime, module):
        assert await runtime.send_message(module.Put(7), KEEPER) == 12
        report = await runtime.snapshot(KEEPER)
        assert report.proven, report.differing
    assert "qty of class 'shop:Item' is stored" in caplog.text and "trying without" in caplog.text


HELPED = """
    from dataclasses import dataclass
    from autogen_core import MessageContext, RoutedAgent, rpc

    @dataclass
    class Put:
        number: int

    class Shelf:
        def __init__(self):
            self.numbers = []

    class Keeper(RoutedAgent):
        def __init__(self):
            super().__init__("keeps")
            self.shelf = Shelf()

        @rpc
        async def on_put(self, message: Put, ctx: MessageContext) -> int:
            self.shelf.numbers.append(message.number)
            return len(self.shelf.numbers)
"""


async def test_a_class_that_the_agent_uses_has_what_its_constructor_sets_since(dsn: str) -> None:
    """The agent's own class is as it was: that its helper has changed is other code too."""
    async with keeping(dsn, HELPED, "Keeper") as (runtime, module):
        await runtime.send_message(module.Put(1), KEEPER)
        assert (await runtime.snapshot(KEEPER)).proven
    changed = HELPED.replace("self.numbers = []", "self.numbers = []\n            self.labels = {}")
    async with keeping(dsn, changed, "Keeper") as (runtime, module):
        assert await runtime.send_message(module.Put(2), KEEPER) == 2
        shelf: Any = vars(await runtime.view(KEEPER))["shelf"]
        assert vars(shelf) == {"numbers": [1, 2], "labels": {}}


async def test_a_snapshot_is_not_judged_by_code_that_has_changed_since(dsn: str) -> None:
    await keep(dsn)
    changed = OLD_KEEPER.replace("return self._sum", "return 10 * self._sum")
    async with keeping(dsn, changed, "Keeper") as (runtime, module):
        (report,) = await runtime.recorded_agents.verify_snapshots(KEEPER, again=True)
        assert report.proven and "not judged" in report.differing[0]
        assert await runtime.send_message(module.Put(4), KEEPER) == 100  # it comes up from the snapshot, as before
    async with keeping(dsn, OLD_KEEPER, "Keeper") as (runtime, module):
        (report, *_) = await runtime.recorded_agents.verify_snapshots(KEEPER, again=True)
        assert report.proven and report.differing == ()


async def test_a_check_does_not_take_a_renamed_class_for_another_state(dsn: str) -> None:
    await keep(dsn)
    source = OLD_KEEPER.replace("Put", "Place").replace("Shelf", "Rack")
    renamed("shop:Put", "shop:Place")
    renamed("shop:Shelf", "shop:Rack")
    async with keeping(dsn, source, "Keeper") as (runtime, _):
        report = await runtime.check()
        assert report.same, report.agents


BACK = """
    from dataclasses import dataclass
    from autogen_core import AgentId, MessageContext, RoutedAgent, rpc

    @dataclass
    class Ask:
        text: str

    class Front(RoutedAgent):
        def __init__(self):
            super().__init__("asks")
            self.heard = []

        @rpc
        async def on_ask(self, message: Ask, ctx: MessageContext) -> str:
            try:
                self.heard.append(await self.send_message(message, AgentId("back", "one")))
            except Exception as error:
                self.heard.append(type(error).__name__)
            return self.heard[-1]

    class Back(RoutedAgent):
        def __init__(self):
            super().__init__("answers")

        @rpc
        async def on_ask(self, message: Ask, ctx: MessageContext) -> str:
            return message.text.upper()
"""


async def test_an_agent_that_was_told_of_a_divergence_comes_back_in_another_process(dsn: str) -> None:
    front = AgentId("front", "one")

    @asynccontextmanager
    async def asking(source: str) -> AsyncIterator[tuple[EventSourcedAgentRuntime, Any]]:
        module = shop(source)
        async with EventLog.open(dsn) as log:
            runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
            await module.Front.register(runtime, "front", module.Front)
            await module.Back.register(runtime, "back", module.Back)
            runtime.start()
            yield runtime, module
            await runtime.stop_when_idle()

    async with asking(BACK) as (runtime, module):
        assert await runtime.send_message(module.Ask("a"), front) == "A"
    async with asking(BACK.replace("upper()", "lower()")) as (runtime, module):
        assert await runtime.send_message(module.Ask("b"), front) == "Divergence"
    async with asking(BACK) as (runtime, module):
        assert await runtime.send_message(module.Ask("c"), front) == "C"
        assert (await runtime.view(front)).heard == ["A", "Divergence", "C"]  # type: ignore[attr-defined]
