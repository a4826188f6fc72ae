"""What a constructor borrows (defaults, a shared service, a constant) stays what it is for everybody else (G3, G11)."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from autogen_core import AgentId, MessageContext, RoutedAgent, message_handler

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.snapshots import SnapshotPolicy

ONE, TWO = AgentId("borrower", "one"), AgentId("borrower", "two")
PROVEN_AT_ONCE = SnapshotPolicy(every=None, within=None, proving=1.0)
DEFAULTS: dict[str, int] = {"depth": 1}


@dataclass
class Do:
    what: str
    number: int = 0


@asynccontextmanager
async def running(
    dsn: str, factory: Callable[[], Any], *, snapshots: SnapshotPolicy = PROVEN_AT_ONCE
) -> AsyncGenerator[EventSourcedAgentRuntime]:
    """A process's runtime; another one after it finds what the log and the modules have."""
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, snapshots=snapshots)])
        await RoutedAgent.register(runtime, "borrower", factory)
        runtime.start()
        yield runtime
        await runtime.stop_when_idle()


# -- what is only read -----------------------------------------------------------------------------------------------


@dataclass
class Options:
    depth: int = 1


class Configured(RoutedAgent):
    """Never changes what it was given: it puts something else in its place."""

    options = Options()

    def __init__(self, steps: list[int] = [1]) -> None:  # noqa: B006
        super().__init__("is configured")
        self.config = DEFAULTS
        self.own = self.options
        self.steps = steps

    @message_handler
    async def on_do(self, message: Do, ctx: MessageContext) -> str:
        if message.what == "set":
            self.config = {**self.config, "depth": message.number}
            self.own = Options(message.number)
            self.steps = [*self.steps, message.number]
        return f"{self.config['depth']} {self.own.depth} {self.steps}"


async def test_a_snapshot_does_not_change_the_defaults_of_a_module_a_class_or_a_function(dsn: str) -> None:
    async with running(dsn, Configured) as runtime:
        assert await runtime.send_message(Do("set", 9), ONE) == "9 9 [1, 9]"
        report = await runtime.snapshot(ONE)
        assert not report.proven and "that the constructor shares with others" in report.differing[0]
    async with running(dsn, Configured) as runtime:
        assert await runtime.send_message(Do("look"), ONE) == "9 9 [1, 9]"
        assert await runtime.send_message(Do("look"), TWO) == "1 1 [1]"
    assert (DEFAULTS, Configured.options, Configured.__init__.__defaults__) == ({"depth": 1}, Options(1), ([1],))


async def test_an_agent_that_leaves_its_defaults_as_they_are_has_snapshots(dsn: str) -> None:
    async with running(dsn, Configured) as runtime:
        await runtime.send_message(Do("look"), ONE)
        assert (await runtime.snapshot(ONE)).proven
    async with running(dsn, Configured) as runtime:
        live = await runtime.try_get_underlying_agent_instance(ONE, Configured)
        assert live.config is DEFAULTS and live.own is Configured.options


TABLE: dict[str, Any] = {"rows": [1]}


class Copying(RoutedAgent):
    """Has a copy of its own, of the same content, before it writes into it."""

    def __init__(self, steps: list[int] = []) -> None:  # noqa: B006
        super().__init__("copies before it writes")
        self.base = DEFAULTS
        self.config = DEFAULTS
        self.table = dict(TABLE)
        self.steps = steps

    @message_handler
    async def on_do(self, message: Do, ctx: MessageContext) -> str:
        if message.what == "config":
            self.config = dict(self.config)
        if message.what == "table":
            self.table["rows"] = list(self.table["rows"])
        if message.what == "steps":
            self.steps = []
        if message.what == "write":
            self.config["depth"] = message.number
            self.table["rows"].append(message.number)
            self.steps.append(message.number)
        return f"{self.config} {self.table} {self.steps}"


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "in parts"])
async def test_an_object_of_the_agents_own_is_not_taken_for_one_that_it_borrowed(dsn: str, whole: bool) -> None:
    async with running(dsn, Copying) as runtime:
        for what in ("config", "table", "steps"):
            await runtime.send_message(Do(what), ONE)
            if not whole:
                await runtime.snapshot(ONE)  # of the first there is one: `base` is what it borrowed still
        assert not (await runtime.snapshot(ONE)).proven
    async with running(dsn, Copying) as runtime:
        wrote = "{'depth': 9} {'rows': [1, 9]} [9]"
        assert await runtime.send_message(Do("write", 9), ONE) == wrote
        assert await runtime.send_message(Do("look"), TWO) == "{'depth': 1} {'rows': [1]} []"
    assert (DEFAULTS, TABLE, Copying.__init__.__defaults__) == ({"depth": 1}, {"rows": [1]}, ([],))


# -- what several write to --------------------------------------------------------------------------------------------


class Service:
    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def agent(self) -> Counting:
        return Counting(self)


class Counting(RoutedAgent):
    def __init__(self, service: Service) -> None:
        super().__init__("counts")
        self.service = service

    @message_handler
    async def on_do(self, message: Do, ctx: MessageContext) -> int:
        counts = self.service.counts
        counts[self.id.key] = counts.get(self.id.key, 0) + 1
        return counts[self.id.key]


async def test_an_agent_that_comes_up_takes_nothing_from_a_service_that_another_has_too(dsn: str) -> None:
    async with running(dsn, Service().agent) as runtime:
        assert [await runtime.send_message(Do("count"), ONE) for _ in range(3)] == [1, 2, 3]
        assert not (await runtime.snapshot(ONE)).proven
    async with running(dsn, Service().agent) as runtime:
        counted = [await runtime.send_message(Do("count"), agent) for agent in (TWO, TWO, ONE, TWO, ONE)]
        assert counted == [1, 2, 4, 3, 5]


# -- constants --------------------------------------------------------------------------------------------------------


class Missing:
    pass


MISSING = Missing()


class Waiting(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("waits")
        self.last: Any = MISSING

    @message_handler
    async def on_do(self, message: Do, ctx: MessageContext) -> str:
        said = "none yet" if self.last is MISSING else f"before: {self.last}"
        self.last = message.what
        return said


async def test_a_sentinel_is_the_same_one_in_views_and_after_a_restore(dsn: str) -> None:
    async with running(dsn, Waiting) as runtime:
        assert await runtime.send_message(Do("first"), ONE) == "none yet"
        view = await runtime.view(ONE, version=1, type=Waiting)
        assert view.last is MISSING
        await runtime.restore(ONE, version=1)
        assert await runtime.send_message(Do("again"), ONE) == "none yet"
        assert (await runtime.snapshot(ONE)).proven


# -- found somewhere --------------------------------------------------------------------------------------------------

STORES = """
import threading

STORE = []
PLAIN = {}
_lazy = None
_here = threading.local()

def store():
    return STORE

def lazy():
    global _lazy
    if _lazy is None:
        _lazy = []
    return _lazy

def of_thread():
    if not hasattr(_here, "items"):
        _here.items = []
    return _here.items

class OnlyOne(type):
    one = None
    def __call__(cls):
        if cls.one is None:
            cls.one = super().__call__()
        return cls.one

class Single(metaclass=OnlyOne):
    def __init__(self):
        self.items = []
"""


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the program, beside that of its agents."""
    (tmp_path / "program_stores.py").write_text(STORES)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "program_stores", raising=False)
    import program_stores  # type: ignore[import-not-found]

    return program_stores


class Finder(RoutedAgent):
    """Its constructor gets its list in some way."""

    def __init__(self) -> None:
        super().__init__("finds")
        self.items: list[str] = self.found()

    def found(self) -> list[str]:
        raise NotImplementedError

    @message_handler
    async def on_do(self, message: Do, ctx: MessageContext) -> str:
        self.items.append(message.what)
        return "".join(self.items)


class ByFunction(Finder):
    def found(self) -> list[str]:
        from program_stores import store  # type: ignore[import-not-found]

        return store()


class Lazily(Finder):
    def found(self) -> list[str]:
        import program_stores

        return program_stores.lazy()


class BySingleton(Finder):
    def found(self) -> list[str]:
        return sys.modules["program_stores"].Single().items


class ByName(Finder):
    def found(self) -> list[str]:
        return getattr(sys.modules["program_stores"], "STO" + "RE")


class Noting(RoutedAgent):
    """Has a dict in which there are no objects: Python's collector does not know of it."""

    def __init__(self) -> None:
        super().__init__("notes")
        self.items = sys.modules["program_stores"].PLAIN

    @message_handler
    async def on_do(self, message: Do, ctx: MessageContext) -> str:
        self.items[message.what] = len(self.items)
        return "".join(self.items)


class OfThread(Finder):
    def found(self) -> list[str]:
        return sys.modules["program_stores"].of_thread()


@pytest.mark.parametrize("cls", [ByFunction, Lazily, ByName, Noting])
async def test_views_proofs_and_restores_leave_alone_what_a_constructor_found(
    dsn: str, stores: ModuleType, cls: type[Any]
) -> None:
    async with running(dsn, cls) as runtime:
        assert await runtime.send_message(Do("a"), ONE) == "a"
        assert await runtime.send_message(Do("b"), ONE) == "ab"
        live = await runtime.try_get_underlying_agent_instance(ONE, cls)
        kept = live.items
        for version, items in ((None, ["a", "b"]), (3, ["a"])):
            view = await runtime.view(ONE, version=version)
            assert list(view.items) == items and view.items is not kept  # type: ignore[attr-defined]
        assert not (await runtime.snapshot(ONE)).proven
        assert list(kept) == ["a", "b"] and live.items is kept
        await runtime.restore(ONE, version=3)
        assert await runtime.send_message(Do("c"), ONE) == "ac"


@pytest.mark.parametrize("cls", [BySingleton, OfThread])
async def test_what_can_not_be_seen_is_left_alone_and_named(
    dsn: str, stores: ModuleType, cls: type[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A view may be refused then, or be wrong; the agent that lives is not changed."""
    async with running(dsn, cls) as runtime:
        await runtime.send_message(Do("a"), ONE)
        await runtime.send_message(Do("b"), ONE)
        live = await runtime.try_get_underlying_agent_instance(ONE, cls)
        assert not (await runtime.snapshot(ONE)).proven
        assert live.items == ["a", "b"]
    assert [text for text in caplog.messages if "each instance is given the same self.items" in text]
