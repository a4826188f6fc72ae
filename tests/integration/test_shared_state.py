"""State that an agent keeps in its class or its module is named, and looking at its past does not change it (G11)."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from autogen_core import AgentId, MessageContext, RoutedAgent, message_handler

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.effects import shared_state

ONE = AgentId("keeper", "one")
HEARD: list[str] = []
LAST: deque[str] = deque(maxlen=2)
UNTOUCHED: dict[str, int] = {"a": 1}
total = 0


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
