"""State that an agent keeps in its class or its module is named, and looking at its past does not change it (G11)."""

from __future__ import annotations

import functools
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from autogen_core import AgentId, MessageContext, RoutedAgent, message_handler

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime, EventType
from autogen_eventlog.effects import shared_state
from autogen_eventlog.errors import NotRestorable
from autogen_eventlog.snapshots import SnapshotPolicy

ONE = AgentId("keeper", "one")
HEARD: list[str] = []
LAST: deque[str] = deque(maxlen=2)
UNTOUCHED: dict[str, int] = {"a": 1}
total = 0
ALWAYS_PROVEN = SnapshotPolicy(every=None, within=None, proving=1.0)


@dataclass
class Word:
    text: str


class Keeper(RoutedAgent):
    """Keeps next to nothing of its own."""

    words: ClassVar[list[str]] = []
    by_length: ClassVar[dict[int, str]] = {}
    longest = 0
    kinds: ClassVar[set[str]] = {"word"}

    def __init__(self) -> None:
        super().__init__("keeps words")
        self.own: list[str] = []

    @message_handler
    async def on_word(self, message: Word, ctx: MessageContext) -> None:
        global total
        total += UNTOUCHED["a"]
        assert self.kinds == {"word"}
        self.own.append(message.text)
        self.words.append(message.text)
        self.by_length[len(message.text)] = message.text
        Keeper.longest = max(Keeper.longest, len(message.text))
        [HEARD.append(text) for text in (message.text,)]
        LAST.append(message.text)


class Modest(RoutedAgent):
    """Only reads what it shares."""

    words: ClassVar[list[str]] = ["a", "b"]

    def __init__(self) -> None:
        super().__init__("reads")
        self.words = [*self.words]

    @message_handler
    async def on_word(self, message: Word, ctx: MessageContext) -> None:
        self.words.append(f"{message.text}{len(HEARD)}")


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    global total
    total = 0
    Keeper.longest = 0
    for kept in (Keeper.words, Keeper.by_length, HEARD, LAST):
        kept.clear()
    shared_state._of_class.cache_clear()


def everything() -> list[Any]:
    return [list(Keeper.words), dict(Keeper.by_length), Keeper.longest, list(HEARD), list(LAST), total]


async def test_what_a_handler_changes_for_all_is_named_once_and_views_leave_it_alone(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="autogen_eventlog.effects.shared_state")
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await Keeper.register(runtime, "keeper", Keeper)
        runtime.start()
        for text in ("pear", "plum", "quince"):
            await runtime.send_message(Word(text), ONE)
        now = everything()
        assert now == [
            ["pear", "plum", "quince"],
            {4: "plum", 6: "quince"},
            6,
            ["pear", "plum", "quince"],
            ["plum", "quince"],
            3,
        ]
        view = await runtime.view(ONE, type=Keeper)
        assert view.own == ["pear", "plum", "quince"]
        assert everything() == now
        assert (await runtime.view(ONE, version=3, type=Keeper)).own == ["pear"]
        assert everything() == now
        await runtime.stop_when_idle()
    said = [record.getMessage() for record in caplog.records]
    assert sorted(text.partition(" changes ")[2].partition(",")[0].rpartition(".")[2] for text in said) == [
        *("HEARD", "LAST", "by_length", "longest", "total", "words")
    ]
    where = "tests.integration.test_shared_state.Keeper: a handler changes Keeper.words, which all instances share"
    assert any(text.startswith(where) for text in said)


async def test_what_is_only_read_is_not_named(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="autogen_eventlog.effects.shared_state")
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await Modest.register(runtime, "modest", Modest)
        runtime.start()
        await runtime.send_message(Word("c"), AgentId("modest", "one"))
        HEARD.append("by somebody else, between two callbacks")
        await runtime.send_message(Word("d"), AgentId("modest", "one"))
        assert (await runtime.view(AgentId("modest", "one"), type=Modest)).words[:2] == ["a", "b"]
        await runtime.stop_when_idle()
    assert caplog.records == []


# -- what the factory gives to every instance, however deep ---------------------------------------------------------


class Store:
    def __init__(self) -> None:
        self.items: list[str] = []


class Shelf:
    """A part of the agent, made anew for each, on which hangs what is not."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.lock = threading.Lock()  # can't be copied, and need not be: each instance has its own shelf
        self.added = 0


class Librarian(RoutedAgent):
    """Adds to a list that it does not hold itself."""

    def __init__(self, shelf: Shelf) -> None:
        super().__init__("adds")
        self.shelf = shelf
        self.of_shelf = [shelf]

        def add(text: str) -> None:
            self.of_shelf[0].store.items.append(text)

        self.add = add

    @property
    def items(self) -> list[str]:
        return self.shelf.store.items

    @message_handler
    async def on_word(self, message: Word, ctx: MessageContext) -> None:
        self.add(message.text)
        self.of_shelf[0].added += 1
        assert self.shelf.added == len([text for text in self.items if type(text) is str])


class Lister(RoutedAgent):
    """Adds to a list that it was given."""

    def __init__(self, items: list[str]) -> None:
        super().__init__("adds")
        self.items = items

    @message_handler
    async def on_word(self, message: Word, ctx: MessageContext) -> None:
        self.keep(message.text)

    def keep(self, text: str) -> None:
        self.items.append(text)


class ByDefault(Lister):
    def __init__(self, items: list[str] = []) -> None:  # noqa: B006  (the mistake that is to do no harm)
        super().__init__(items)


class OfModule(Lister):
    def __init__(self) -> None:
        super().__init__(GIVEN)


class OfModuleByFunction(Lister):
    def __init__(self) -> None:
        super().__init__(self._given())

    def _given(self) -> list[str]:
        return given_of_module()


class OfClass(Lister):
    kept: ClassVar[list[str]] = []

    def __init__(self) -> None:
        super().__init__(self.kept)


class InTuple(Lister):
    """Holds the list in values that can't be changed, and adds by what is bound to it."""

    def __init__(self, items: list[str]) -> None:
        super().__init__(items)
        self.pair: Any = (1, ("list", items))
        self.append = items.append

        def by_closure(text: str) -> None:
            items.append(text)

        self.by_closure = by_closure
        self.by_partial = functools.partial(_append, items)

    def keep(self, text: str) -> None:
        ways = (self.pair[1][1].append, self.append, self.by_closure, self.by_partial)
        ways[len(self.items) % len(ways)](text)


def _append(items: list[str], text: str) -> None:
    items.append(text)


GIVEN: list[str] = []


def given_of_module() -> list[str]:
    return GIVEN


class App:
    def __init__(self) -> None:
        self.items: list[str] = []
        self.store = Store()
        self.made: list[Any] = []

    def lister(self) -> Lister:
        return Lister(self.items)

    def librarian(self) -> Librarian:
        made = Librarian(Shelf(self.store))
        self.made.append(made)
        return made


def _nested() -> Any:
    store = Store()
    return lambda: Librarian(Shelf(store))


def _in_tuple() -> Any:
    items: list[str] = []
    return lambda: InTuple(items)


FACTORIES: dict[str, Callable[[], Any]] = {
    "within a fresh helper": _nested,
    "of a bound method's object": lambda: App().lister,
    "within what a bound method's object holds": lambda: App().librarian,
    "a default that all calls share": lambda: ByDefault,
    "a global that the constructor names": lambda: OfModule,
    "a global that what the constructor calls names": lambda: OfModuleByFunction,
    "an attribute of the class": lambda: OfClass,
    "within tuples, closures and bound methods": _in_tuple,
}


@pytest.mark.parametrize("of", FACTORIES)
async def test_views_and_proofs_leave_alone_what_all_instances_are_given(dsn: str, of: str) -> None:
    factory = FACTORIES[of]()
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, snapshots=ALWAYS_PROVEN)])
        await RoutedAgent.register(runtime, "keeper", factory)
        runtime.start()
        await _tell(runtime, "a", "b")
        report = await runtime.snapshot(ONE)
        assert not report.proven and "shares with others" in report.differing[0]
        await _tell(runtime, "c", "d", "e")
        live: Any = await runtime.try_get_underlying_agent_instance(ONE)
        shared = live.items
        assert shared == ["a", "b", "c", "d", "e"]
        for version, items in ((None, "abcde"), (report.version, "ab"), (3, "a")):
            view: Any = await runtime.view(ONE, version=version)
            assert "".join(view.items) == items
            assert view.items is not shared
            assert live.items is shared and shared == ["a", "b", "c", "d", "e"]
        assert not (await runtime.snapshot(ONE)).proven
        assert shared == ["a", "b", "c", "d", "e"]
        await runtime.stop_when_idle()
    for kept in (GIVEN, OfClass.kept, *ByDefault.__init__.__defaults__):  # type: ignore[misc]
        kept.clear()


async def test_the_first_instance_that_lives_is_given_what_is_shared(dsn: str) -> None:
    store = Store()
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await Librarian.register(runtime, "keeper", lambda: Librarian(Shelf(store)))
        runtime.start()
        assert (await runtime.agent_metadata(ONE))["description"] == "adds"  # of an instance made to be looked at
        await _tell(runtime, "a", "b")
        assert store.items == ["a", "b"]
        live: Any = await runtime.try_get_underlying_agent_instance(ONE)
        assert live.shelf.store is store
        await runtime.stop_when_idle()


class Noted(Lister):
    """Notes a part of it, of which no copy can be made, where all do."""

    def __init__(self, noted: list[Any]) -> None:
        super().__init__([])
        self.timer = threading.Timer(0, print)
        self.own = [self.timer.finished]
        noted.append(self.own)
        noted.append(self.timer)


async def test_a_part_that_a_constructor_notes_somewhere_is_the_instances_own(dsn: str) -> None:
    noted: list[Any] = []
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await RoutedAgent.register(runtime, "keeper", lambda: Noted(noted))
        runtime.start()
        await _tell(runtime, "a")
        view: Any = await runtime.view(ONE)
        live: Any = await runtime.try_get_underlying_agent_instance(ONE)
        assert noted == [live.own, live.timer, view.own, view.timer]
        assert view.items == ["a"]
        await runtime.stop_when_idle()


class Configured(RoutedAgent):
    def __init__(self, config: dict[str, Any], none: object) -> None:
        super().__init__("configured")
        self.parts: list[Any] = [config, none]
        self.number = config["start"]

    @message_handler
    async def on_word(self, message: Word, ctx: MessageContext) -> None:
        assert self.parts[1] is NOTHING
        self.number += self.parts[0]["step"]


NOTHING = object()


async def test_an_agent_whose_instances_share_a_configuration_has_all_that_others_have(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"start": 1, "step": 2, "lock": threading.Lock(), "log": logging.getLogger("of the configuration")}
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, snapshots=ALWAYS_PROVEN)])
        await Configured.register(runtime, "keeper", lambda: Configured(config, NOTHING))
        runtime.start()
        await _tell(runtime, "a", "b")
        report = await runtime.snapshot(ONE)
        assert (report.proven, report.differing) == (True, ())
        await _tell(runtime, "c")
        assert (await runtime.view(ONE, version=report.version, type=Configured)).number == 5
        assert (await runtime.view(ONE, type=Configured)).number == 7
        await runtime.stop_when_idle()
        [activation] = [event async for event in log.read(str(ONE)) if event.type is EventType.AGENT_ACTIVATED]
    assert activation.metadata["producer"]["parameters"]["self.number"] == 1
    config["start"] = 10
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await Configured.register(runtime, "keeper", lambda: Configured(config, NOTHING))
        runtime.start()
        await _tell(runtime, "d")
        await runtime.stop_when_idle()
    assert "its factory now makes it with other parameters (self.number: 1 and 10)" in caplog.text


async def test_what_can_not_be_copied_is_named_with_its_place(dsn: str, tmp_path: Path) -> None:
    with (tmp_path / "notes").open("w") as file:
        store = Store()
        store.items.append(file)  # type: ignore[arg-type]
        async with EventLog.open(dsn) as log:
            runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
            await Librarian.register(runtime, "keeper", lambda: Librarian(Shelf(store)))
            runtime.start()
            await runtime.send_message(Word("hello"), ONE)
            with pytest.raises(NotRestorable) as refused:
                await runtime.view(ONE)
            await runtime.stop_when_idle()
    assert "its factory gives every instance the same self.shelf.store (Store), of which no copy can be made" in str(
        refused.value
    )


async def _tell(runtime: Any, *texts: str) -> None:
    for text in texts:
        await runtime.send_message(Word(text), ONE)
