"""Code and log disagree, or the log was tampered with: said by name, placed, and never built upon (G4, G5, G10; E16, E19)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from autogen_core import AgentId, MessageContext, RoutedAgent, TopicId, message_handler

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.errors import Divergence, EventLogError, NotRestorable, PayloadCorrupt, TypeNotAllowed
from autogen_eventlog.events import EventType

ALICE = AgentId("writer", "alice")
NEWS = TopicId("news", "all")


@dataclass
class Word:
    text: str


@dataclass
class Written:
    text: str


@dataclass
class Gone:
    """Stands for a class that a later version of the program has no more."""

    text: str


class Writer(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("writer")
        self.words: list[str] = []

    @message_handler
    async def on_word(self, message: Word, ctx: MessageContext) -> Written:
        self.words.append(message.text)
        await self.publish_message(Written(self.spelled(message.text)), NEWS)
        return Written(self.spelled(message.text))

    @message_handler
    async def on_gone(self, message: Gone, ctx: MessageContext) -> Written:
        self.words.append(message.text)
        return Written(message.text)

    def spelled(self, text: str) -> str:
        return text


class Louder(Writer):
    def spelled(self, text: str) -> str:
        return text.upper()


class Quieter(Writer):
    @message_handler
    async def on_word(self, message: Word, ctx: MessageContext) -> Written:
        self.words.append(message.text)
        return Written(message.text)


class Talkative(Writer):
    @message_handler
    async def on_word(self, message: Word, ctx: MessageContext) -> Written:
        await self.publish_message(Written("by the way"), NEWS)
        return await super().on_word(message, ctx)  # type: ignore[no-any-return]


class Breaking(Writer):
    @message_handler
    async def on_word(self, message: Word, ctx: MessageContext) -> Written:
        raise ValueError("no more words")


@pytest.fixture
async def log(dsn: str) -> AsyncIterator[EventLog]:
    async with EventLog.open(dsn) as opened:
        yield opened


@asynccontextmanager
async def started(log: EventLog, agent_class: type[Any] = Writer) -> AsyncIterator[EventSourcedAgentRuntime]:
    runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
    await agent_class.register(runtime, "writer", agent_class)
    runtime.start()
    yield runtime
    await runtime.stop()


async def written(log: EventLog, *words: str) -> None:
    async with started(log) as runtime:
        for word in words:
            await runtime.send_message(Word(word), ALICE)


async def events_of(log: EventLog) -> list[Any]:
    return [event async for event in log.read(ALICE)]


# -- code that changed --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "type_recorded", "produced"),
    [
        (Louder, EventType.MESSAGE_PUBLISHED, "ONE"),
        (Quieter, EventType.MESSAGE_PUBLISHED, "DeliveryCompleted"),
        (Talkative, EventType.MESSAGE_PUBLISHED, "by the way"),
        (Breaking, EventType.MESSAGE_PUBLISHED, "no more words"),
    ],
)
async def test_changed_code_is_found_at_its_first_different_output(
    log: EventLog, changed: type[Any], type_recorded: EventType, produced: str
) -> None:
    await written(log, "one", "two")
    before = await events_of(log)
    first = next(event for event in before if event.type is type_recorded)
    async with started(log, changed) as runtime:
        for asked in (runtime.view(ALICE), runtime.restore(ALICE, version=before[-1].version)):
            with pytest.raises(Divergence) as diverged:
                await asked
            error = diverged.value
            assert (error.stream, error.version, error.delivery) == ("writer/alice", first.version, first.delivery)
            assert "MessagePublished" in error.recorded
            assert "one" in error.recorded
            assert produced in error.produced
            assert changed.__name__ in error.likely_cause
            assert "Writer" in error.likely_cause
        for _ in range(2):
            with pytest.raises(Divergence):
                await runtime.send_message(Word("three"), ALICE)
    assert [(e.version, e.type, e.payload) for e in await events_of(log)] == [
        (e.version, e.type, e.payload) for e in before
    ]
    async with started(log) as runtime:
        await runtime.send_message(Word("three"), ALICE)
        assert (await runtime.view(ALICE, type=Writer)).words == ["one", "two", "three"]


async def test_a_view_before_the_difference_is_still_right(log: EventLog) -> None:
    await written(log, "one", "two")
    async with started(log, Louder) as runtime:
        delivered = next(event for event in await events_of(log) if event.type is EventType.MESSAGE_DELIVERED)
        view = await runtime.view(ALICE, version=delivered.version, type=Writer)
        assert view.words == []


async def test_a_divergence_says_how_to_go_on_and_that_works(log: EventLog) -> None:
    await written(log, "one", "two")
    async with started(log, Louder) as runtime:
        with pytest.raises(Divergence) as diverged:
            await runtime.send_message(Word("three"), ALICE)
        before = diverged.value.before
        assert before == 1
        assert str(diverged.value).endswith(
            "To go on from before it: runtime.restore(agent, version=1); see docs/how-to/troubleshoot-divergence.md"
        )
        await runtime.restore(ALICE, version=before)
        assert await runtime.send_message(Word("three"), ALICE) == Written("THREE")
        assert (await runtime.view(ALICE, type=Louder)).words == ["three"]


async def test_an_agent_that_diverges_does_not_keep_others_from_their_messages(log: EventLog) -> None:
    await written(log, "one")
    async with started(log, Louder) as runtime:
        with pytest.raises(Divergence):
            await runtime.send_message(Word("two"), ALICE)
        assert await runtime.send_message(Word("hello"), AgentId("writer", "new")) == Written("HELLO")


# -- what is not recorded -----------------------------------------------------------------------------------------


class Reader(RoutedAgent):
    """Reads a socket, or asks a thread, in its handler."""

    peer: socket.socket

    def __init__(self) -> None:
        super().__init__("reader")
        self.heard: list[str] = []

    @message_handler
    async def on_word(self, message: Word, ctx: MessageContext) -> Written:
        loop = asyncio.get_running_loop()
        if message.text == "socket":
            ours, Reader.peer = socket.socketpair()
            ours.setblocking(False)
            with ours, Reader.peer:
                loop.call_soon_threadsafe(Reader.peer.send, b"from outside")
                heard = (await loop.sock_recv(ours, 100)).decode()
        else:
            heard = await asyncio.to_thread(lambda: "from a thread")
        self.heard.append(heard)
        return Written(heard)


@pytest.mark.parametrize("how", ["socket", "thread"])
async def test_an_agent_that_was_woken_by_what_is_not_recorded_is_refused_and_named(log: EventLog, how: str) -> None:
    async with started(log, Reader) as runtime:
        with contextlib.suppress(EventLogError):  # refused live already: as good, and sooner (G11)
            await runtime.send_message(Word(how), ALICE)
        with pytest.raises((NotRestorable, Divergence)) as refused:
            await runtime.view(ALICE)
    assert refused.value.stream == "writer/alice"
    assert "Reader.on_word" in str(refused.value)
    assert "docs/how-to/troubleshoot-divergence.md" in str(refused.value)


# -- a log that was tampered with ---------------------------------------------------------------------------------


def tamper(dsn: str, change: str, where: str) -> None:
    """As somebody with all rights on the database could."""
    with psycopg.connect(dsn) as connection:
        connection.execute(b"SET session_replication_role = replica")
        cursor = connection.execute(
            f"UPDATE eventlog.event SET {change} WHERE stream = 'writer/alice' AND {where}".encode()
        )
        assert cursor.rowcount > 0


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        ('\'{"$t":"os:system","command":"true"}\'', TypeNotAllowed),
        ('\'{"$t":"subprocess:Popen","args":["true"]}\'', TypeNotAllowed),
        ('\'{"$t":"antigravity:fly"}\'', TypeNotAllowed),
        ('\'{"$t":"builtins:eval"}\'', TypeNotAllowed),
        ("'{\"$t\":'", PayloadCorrupt),
        ("'\\x00ff'", PayloadCorrupt),
        ('\'{"$t":"tests.integration.test_divergence:Word"}\'', PayloadCorrupt),
        ('\'{"$t":"tests.integration.test_divergence:Word","text":7}\'', Divergence),
    ],
)
async def test_a_stored_message_that_was_tampered_with_is_refused_and_nothing_is_imported(
    log: EventLog, dsn: str, payload: str, error: type[EventLogError]
) -> None:
    await written(log, "one")
    tamper(dsn, f"payload = {payload}", "type = 'MessageDelivered'")
    before = set(sys.modules)
    async with started(log) as runtime:
        for asked in (lambda: runtime.view(ALICE), lambda: runtime.send_message(Word("two"), ALICE)):
            with pytest.raises(error) as refused:
                await asked()
            assert "writer/alice" in str(refused.value)
    assert "antigravity" not in set(sys.modules) - before


async def test_a_message_whose_content_was_altered_is_found_where_the_code_answers_it(log: EventLog, dsn: str) -> None:
    await written(log, "one", "two")
    tamper(dsn, "payload = replace(convert_from(payload, 'UTF8'), 'one', 'eno')::bytea", "type = 'MessageDelivered'")
    async with started(log) as runtime:
        with pytest.raises(Divergence) as diverged:
            await runtime.view(ALICE)
    assert '"eno"' in diverged.value.produced


async def test_an_event_taken_from_the_middle_is_noticed(log: EventLog, dsn: str) -> None:
    await written(log, "one", "two")
    with psycopg.connect(dsn) as connection:
        connection.execute(b"SET session_replication_role = replica")
        connection.execute(b"DELETE FROM eventlog.event WHERE stream = 'writer/alice' AND version = 3")
    async with started(log) as runtime:
        with pytest.raises(EventLogError):
            await runtime.view(ALICE)


async def test_the_name_of_an_exception_in_the_log_imports_nothing(log: EventLog, dsn: str) -> None:
    async with started(log, Breaking) as runtime:
        with pytest.raises(ValueError, match="no more words"):
            await runtime.send_message(Word("one"), ALICE)
    tamper(dsn, "message_type = 'antigravity:Error'", "type = 'DeliveryCompleted'")
    async with started(log, Breaking) as runtime:
        with pytest.raises(EventLogError):
            await runtime.view(ALICE)
    assert "antigravity" not in sys.modules


# -- classes that are no more -------------------------------------------------------------------------------


async def test_without_its_message_class_an_event_can_be_read_and_audited_but_not_replayed(
    log: EventLog, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(log) as runtime:
        await runtime.send_message(Word("one"), ALICE)
        await runtime.send_message(Gone("two"), ALICE)
    module = sys.modules[__name__]
    name = f"{__name__}:Gone"

    class Remaining(RoutedAgent):
        def __init__(self) -> None:
            super().__init__("writer")

        @message_handler
        async def on_word(self, message: Word, ctx: MessageContext) -> Written:
            await self.publish_message(Written(message.text), NEWS)
            return Written(message.text)

    for gone in ("Gone", "Writer", "Louder", "Quieter", "Talkative", "Breaking"):
        monkeypatch.delattr(module, gone)
    async with EventLog.open(dsn) as later:
        events = [event async for event in later.read(ALICE)]
        [delivered] = [
            event for event in events if event.type is EventType.MESSAGE_DELIVERED and event.message_type == name
        ]
        opaque = later.message(delivered)
        assert "two" in str(vars(opaque) if hasattr(opaque, "__dict__") else opaque)
        records = await later.audit.messages(limit=50)
        assert any(record.message_type == name for record in records)
        async with started(later, Remaining) as runtime:
            with pytest.raises(TypeNotAllowed) as refused:
                await runtime.view(ALICE)
            assert refused.value.type_name == name
            assert str(delivered.version) in refused.value.path
