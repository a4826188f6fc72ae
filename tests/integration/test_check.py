"""Recorded histories held against changed code: what differs is named, and nothing live is touched (G4, G5)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from autogen_core import AgentId, MessageContext, RoutedAgent, TopicId, message_handler
from autogen_core.tools import FunctionTool

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.checking import AgentCheck, CheckOutcome, CheckProgress, CheckReport, read_history
from autogen_eventlog.checking.history import write_history
from autogen_eventlog.checking.read_only import ReadOnlyLog
from autogen_eventlog.checking.states import keep
from autogen_eventlog.errors import LogReadOnly, RecordingIncomplete, UnknownStream
from autogen_eventlog.events import EventType
from autogen_eventlog.past import LogPast
from autogen_eventlog.snapshots import SnapshotPolicy
from tests.integration.test_divergence import tamper

ALICE = AgentId("writer", "alice")
NEWS = TopicId("news", "all")

EVERY_TEN = SnapshotPolicy(every=10, within=None, kind="save_state")


@dataclass
class Word:
    text: str


@dataclass
class Line:
    words: list[Word]


class Echo(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("echo")

    @message_handler
    async def on_line(self, message: Line, ctx: MessageContext) -> Word:
        return Word(f"{message.words[-1].text}!")


class Writer(RoutedAgent):
    """Publishes what it was told so far, asks its echo, and answers with that."""

    echo = AgentId("echo", "one")

    def __init__(self) -> None:
        super().__init__("writer")
        self.words: list[Word] = []
        self.heard: list[str] = []

    @message_handler
    async def on_word(self, message: Word, ctx: MessageContext) -> Word:
        await self.before()
        self.words.append(message)
        await self.publish_message(Line([Word(self.spelled(one.text)) for one in self.words]), NEWS)
        heard: Word = await self.send_message(Line(self.words), self.echo)
        self.remember(heard)
        return Word(self.answer(heard.text))

    async def before(self) -> None:
        return

    def spelled(self, text: str) -> str:
        return text

    def answer(self, text: str) -> str:
        return text

    def remember(self, heard: Word) -> None:
        self.heard.append(heard.text)


class Louder(Writer):
    def spelled(self, text: str) -> str:
        return text.upper()


class Answering(Writer):
    def answer(self, text: str) -> str:
        return f"{text}?"


class Elsewhere(Writer):
    echo = AgentId("echo", "two")


class Talkative(Writer):
    async def before(self) -> None:
        await self.publish_message(Word("by the way"), NEWS)


class Quieter(Writer):
    @message_handler
    async def on_word(self, message: Word, ctx: MessageContext) -> Word:
        self.words.append(message)
        return message


class Slower(Louder):
    async def before(self) -> None:
        await asyncio.sleep(0)


class Forgetful(Writer):
    def remember(self, heard: Word) -> None:
        self.heard = [heard.text]


RENAMED = {"__module__": __name__, "__qualname__": "Writer", "remember": Forgetful.remember}
LaterWriter: type[Any] = type("Writer", (Writer,), RENAMED)
"""The class as a later version of the program has it, under the same name."""


class Failing(Writer):
    def __init__(self) -> None:
        super().__init__()
        raise ValueError("no writer today")


@pytest.fixture
async def log(dsn: str) -> AsyncIterator[EventLog]:
    async with EventLog.open(dsn) as opened:
        yield opened


@asynccontextmanager
async def runtime_of(
    log: EventLog, writer: type[Any] = Writer, **settings: Any
) -> AsyncIterator[EventSourcedAgentRuntime]:
    runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, **settings)])
    await Echo.register(runtime, "echo", Echo)
    await writer.register(runtime, "writer", writer)
    yield runtime
    await runtime.close()


async def written(log: EventLog, *words: str, to: AgentId = ALICE, writer: type[Any] = Writer, **settings: Any) -> None:
    async with runtime_of(log, writer, **settings) as runtime:
        runtime.start()
        for word in words:
            await runtime.send_message(Word(word), to)
        await runtime.stop_when_idle()


async def checked(log: EventLog, writer: type[Any], **asked: Any) -> AgentCheck:
    async with runtime_of(log, writer) as runtime:
        [check] = (await runtime.check([ALICE], **asked)).agents
    return check


def paths(check: AgentCheck) -> list[list[str]]:
    return [[one.path for one in divergence.differences] for divergence in check.divergences]


def everything(dsn: str) -> tuple[dict[str, Any], int]:
    """The whole log: events, heads of streams, snapshots …, and how many workers: the heart of the one here beats."""
    with psycopg.connect(dsn) as connection:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.tables"
            " WHERE table_schema = 'eventlog' AND table_type = 'BASE TABLE' ORDER BY 1"
        ).fetchall()
        found = {
            name: connection.execute(f"SELECT t::text FROM eventlog.{name} AS t ORDER BY 1".encode()).fetchall()
            for (name,) in tables
        }
    assert found["event"]
    return found, len(found.pop("worker"))


# -- the same -----------------------------------------------------------------------------------------------------


async def test_code_that_does_what_was_recorded_is_the_same(log: EventLog) -> None:
    await written(log, "one", "two")
    async with runtime_of(log) as runtime:
        report = await runtime.check()
    assert report.same
    assert [check.agent for check in report.agents] == ["echo/one", "writer/alice"]
    for check in report.agents:
        head = await log.head(check.agent)
        assert head is not None
        assert (check.outcome, check.exact, check.version, check.events) == (
            CheckOutcome.SAME,
            True,
            head.version,
            head.version,
        )
        assert check.code is not None and not check.code.changed and check.code.version == 1


async def test_a_check_writes_nothing_owns_nothing_and_is_no_worker(log: EventLog, dsn: str) -> None:
    await written(log, "one", "two")
    async with ReadOnlyLog.over(dsn, schema="eventlog", unavailable_after=5.0) as looking:
        before, workers = everything(dsn)
        async with runtime_of(looking, Louder) as runtime:
            assert not (await runtime.check()).same
            with pytest.raises(LogReadOnly):
                await runtime.send_message(Word("three"), ALICE)
        assert everything(dsn) == (before, workers)


async def test_only_the_present_past_is_checked(log: EventLog) -> None:
    await written(log, "one")
    head = await log.head(ALICE)
    assert head is not None
    await written(log, "two")
    async with runtime_of(log) as runtime:
        await runtime.restore(ALICE, version=head.version)
    check = await checked(log, Writer)
    assert check.same
    assert 0 < check.events < check.version


async def test_many_agents_are_checked_in_order_with_progress(log: EventLog) -> None:
    async with runtime_of(log) as runtime:
        runtime.start()
        asked = [AgentId("writer", f"{number:02}") for number in range(9)]
        for agent in asked:
            await runtime.send_message(Word("one"), agent)
        await runtime.stop_when_idle()
    told: list[CheckProgress] = []
    async with runtime_of(log, Louder) as runtime:
        report: CheckReport = await runtime.check(reversed(asked), on_progress=told.append)
    assert [check.agent for check in report.agents] == [str(agent) for agent in reversed(asked)]
    assert report.count(CheckOutcome.DIVERGES) == 9
    assert [one.done for one in told] == sorted(one.done for one in told)
    assert (told[-1].done, told[-1].total) == (9, 9)
    assert any(one.events for one in told)


# -- what differs -------------------------------------------------------------------------------------------------


async def test_a_changed_text_is_found_each_time_with_its_field(log: EventLog) -> None:
    await written(log, "one", "two")
    check = await checked(log, Louder)
    assert check.outcome is CheckOutcome.DIVERGES
    assert paths(check) == [["message.words[0].text"], ["message.words[0].text", "message.words[1].text"]]
    first = check.divergences[0]
    assert (first.differences[0].recorded, first.differences[0].produced) == ('"one"', '"ONE"')
    published = [event async for event in log.read(ALICE) if event.type is EventType.MESSAGE_PUBLISHED]
    assert [one.version for one in check.divergences] == [event.version for event in published]
    assert [one.delivery for one in check.divergences] == [event.delivery for event in published]
    assert check.code is not None and check.code.changed
    assert "Louder" in first.likely_cause
    assert check.events == check.version


async def test_strict_stops_at_the_first(log: EventLog) -> None:
    await written(log, "one", "two")
    check = await checked(log, Louder, mode="strict")
    assert paths(check) == [["message.words[0].text"]]
    assert check.events == 0
    with pytest.raises(ValueError, match="mode"):
        await checked(log, Louder, mode="lenient")


async def test_another_answer_is_found_each_time(log: EventLog) -> None:
    await written(log, "one", "two")
    check = await checked(log, Answering)
    assert paths(check) == [["reply.text"], ["reply.text"]]
    assert [one.differences[0].produced for one in check.divergences] == ['"one!?"', '"two!?"']


@pytest.mark.parametrize(
    ("writer", "fields"),
    [
        (Elsewhere, ["recipient"]),
        (Talkative, ["message_type", "message (type)", "message.words", "message.text"]),
        (Quieter, ["type", "outcome", "topic", "message_type"]),
    ],
)
async def test_another_recipient_an_extra_and_a_missing_message_are_found(
    log: EventLog, writer: type[Any], fields: list[str]
) -> None:
    await written(log, "one", "two")
    check = await checked(log, writer, mode="strict")
    assert check.outcome is CheckOutcome.DIVERGES
    assert paths(check) == [fields]
    assert check.code is not None and check.code.changed


async def test_an_extra_message_ends_the_check_where_nothing_answers_it(log: EventLog) -> None:
    await written(log, "one", "two")
    check = await checked(log, Talkative)
    assert [one[0] for one in paths(check)] == ["message_type", "type"]
    assert check.divergences[-1].differences[0].recorded == '"MessageSent"'
    assert check.divergences[-1].differences[0].produced == '"MessagePublished"'
    assert check.exact is None


async def test_code_with_other_ticks_is_followed_by_order_and_all_that_differs_is_found(log: EventLog) -> None:
    await written(log, "one", "two")
    check = await checked(log, Slower)
    assert (check.outcome, check.exact) == (CheckOutcome.DIVERGES, False)
    assert paths(check) == [["message.words[0].text"], ["message.words[0].text", "message.words[1].text"]]


class Asking(RoutedAgent):
    question = "the weather in"

    def __init__(self) -> None:
        super().__init__("asking")
        self.tool = FunctionTool(lookup, "looks things up")
        self.found: list[str] = []

    @message_handler
    async def on_word(self, message: Word, ctx: MessageContext) -> Word:
        found = await self.tool.run_json({"what": f"{self.question} {message.text}"}, ctx.cancellation_token)
        self.found.append(str(found))
        return Word(self.found[-1])


async def lookup(what: str) -> str:
    asked.append(what)
    return f"found {what}"


asked: list[str] = []


class AskingOtherwise(Asking):
    question = "the air in"


async def test_another_question_to_a_tool_is_found_and_answered_with_what_was_recorded(log: EventLog) -> None:
    await written(log, "Rome", "Oslo", writer=Asking)
    assert asked == ["the weather in Rome", "the weather in Oslo"]
    check = await checked(log, AskingOtherwise)
    assert len(asked) == 2
    assert [one[0] for one in paths(check)] == ["request.request.args.what", "request.request.args.what"]
    assert check.exact
    asked.clear()


# -- what can't be replayed ---------------------------------------------------------------------------------------


async def test_types_that_are_not_registered_are_said(log: EventLog) -> None:
    await written(log, "one")
    runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
    await Echo.register(runtime, "echo", Echo)
    report = await runtime.check(["echo/one", "writer/alice"])
    assert [check.outcome for check in report.agents] == [CheckOutcome.SAME, CheckOutcome.UNKNOWN_TYPE]
    assert "--app" in report.agents[1].remedy
    with pytest.raises(UnknownStream):
        await runtime.check([AgentId("writer", "nobody")])


async def test_a_message_class_that_is_no_more_is_said(log: EventLog, dsn: str) -> None:
    await written(log, "one")
    tamper(
        dsn, "payload = replace(convert_from(payload, 'UTF8'), ':Word', ':Gone')::bytea", "type = 'MessageDelivered'"
    )
    check = await checked(log, Writer)
    assert check.outcome is CheckOutcome.TYPE_MISSING
    assert ":Gone" in check.problem


@pytest.mark.parametrize(
    "change",
    ["payload = '{'::bytea", "payload = '\\xff'::bytea", "type = 'SomethingElse'"],
    ids=["json", "utf8", "type"],
)
async def test_a_damaged_event_is_said_and_others_are_checked(log: EventLog, dsn: str, change: str) -> None:
    await written(log, "one")
    await written(log, "one", to=AgentId("writer", "bob"))
    with psycopg.connect(dsn) as connection:
        connection.execute(b"ALTER TABLE eventlog.event DROP CONSTRAINT IF EXISTS event_type_check")
    tamper(dsn, change, "type = 'MessageDelivered'")
    async with runtime_of(log) as runtime:
        alice, bob = (await runtime.check([ALICE, "writer/bob"])).agents
    assert alice.outcome is CheckOutcome.NOT_RESTORABLE
    assert "writer/alice" in alice.problem and alice.remedy
    assert bob.same


async def test_an_agent_that_can_not_be_made_is_said(log: EventLog) -> None:
    await written(log, "one")
    check = await checked(log, Failing)
    assert check.outcome is CheckOutcome.NOT_RESTORABLE
    assert check.problem == "ValueError: no writer today"


class Filing(Writer):
    path = Path("/nowhere")

    def remember(self, heard: Word) -> None:
        with self.path.open("a") as file:
            file.write(heard.text)


async def test_an_agent_that_writes_files_is_said_and_writes_none(log: EventLog, tmp_path: Path) -> None:
    Filing.path = tmp_path / "heard"
    await written(log, "one", writer=Filing)
    assert Filing.path.read_text() == "one!"
    check = await checked(log, Filing)
    assert check.outcome is CheckOutcome.NOT_RESTORABLE
    assert "heard" in check.problem
    assert Filing.path.read_text() == "one!"


async def test_without_a_handler_there_is_nothing_to_check() -> None:
    with pytest.raises(RecordingIncomplete):
        await EventSourcedAgentRuntime().check()


# -- the state ----------------------------------------------------------------------------------------------------


class Keeping(Writer):
    async def save_state(self) -> Mapping[str, Any]:
        return {"words": [one.text for one in self.words], "heard": self.heard}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        self.words = [Word(text) for text in state["words"]]
        self.heard = list(state["heard"])


class KeepingLess(Keeping, Forgetful):
    pass


async def test_an_agent_that_ends_in_another_state_than_its_snapshot_is_said(log: EventLog) -> None:
    await written(log, "one", "two", writer=Keeping, snapshots=EVERY_TEN)
    same, other = await checked(log, Keeping), await checked(log, KeepingLess)
    assert same.same and same.state_version is not None
    assert (other.outcome, other.divergences) == (CheckOutcome.OTHER_STATE, ())
    assert other.state_version == same.state_version
    assert [(one.path, one.recorded) for one in other.state] == [
        ("state.heard[0]", '"one!"'),
        ("state.heard[1]", '"two!"'),
    ]


async def test_an_agent_that_ends_in_another_state_than_was_captured_is_said(log: EventLog) -> None:
    await written(log, "one", "two")
    async with runtime_of(log) as runtime:
        assert (await runtime.snapshot(ALICE)).proven
    await written(log, "three")
    same, other = await checked(log, Writer), await checked(log, LaterWriter)
    assert same.same and same.state_version is not None and same.state_version < same.version
    assert (other.outcome, other.divergences, other.state_version) == (CheckOutcome.OTHER_STATE, (), same.state_version)
    assert {one.path.partition("[")[0] for one in other.state} == {"self.heard"}


async def test_a_check_may_begin_at_a_snapshot(log: EventLog) -> None:
    await written(log, "one", "two", writer=Keeping, snapshots=EVERY_TEN)
    await written(log, "three", writer=Keeping)
    whole, rest = await checked(log, Keeping), await checked(log, Keeping, from_snapshot=True)
    assert whole.same and rest.same
    assert 0 < rest.events < whole.events


# -- histories in files -------------------------------------------------------------------------------------------


async def exported(log: EventLog, path: Path, writer: type[Any] = Writer) -> Path:
    head = await log.head(ALICE)
    assert head is not None
    async with runtime_of(log, writer) as runtime:
        state = keep(await runtime.view(ALICE), log.codec)
    await write_history(path, await LogPast.of(log.reader, "writer/alice", head.version), state)
    return path


async def checked_file(path: Path, writer: type[Any]) -> AgentCheck:
    """Without a database."""
    async with runtime_of(ReadOnlyLog.nowhere(), writer) as runtime:
        [check] = (await runtime.check([read_history(path)])).agents
    assert check.source == str(path)
    return check


async def test_a_history_from_a_file_is_checked_without_a_database(log: EventLog, tmp_path: Path) -> None:
    await written(log, "one", "two")
    path = await exported(log, tmp_path / "alice.history.jsonl")
    same = await checked_file(path, Writer)
    assert same.same
    assert (same.exact, same.state_version, same.version) == (True, same.version, same.events)
    assert paths(await checked_file(path, Louder)) == paths(await checked(log, Louder))


async def test_another_state_with_the_same_outputs_is_found_and_named(log: EventLog, tmp_path: Path) -> None:
    await written(log, "one", "two")
    path = await exported(log, tmp_path / "alice.history.jsonl")
    check = await checked_file(path, LaterWriter)
    assert check.divergences == ()
    assert check.outcome is CheckOutcome.OTHER_STATE
    assert check.state_version == check.version
    assert {one.path.partition("[")[0] for one in check.state} == {"self.heard"}


async def test_a_past_that_was_restored_is_one_file(log: EventLog, tmp_path: Path) -> None:
    await written(log, "one")
    head = await log.head(ALICE)
    assert head is not None
    await written(log, "two")
    async with runtime_of(log) as runtime:
        await runtime.restore(ALICE, version=head.version)
        runtime.start()
        await runtime.send_message(Word("three"), ALICE)
        await runtime.stop_when_idle()
    path = await exported(log, tmp_path / "alice.history.jsonl")
    check = await checked_file(path, Writer)
    assert check.same
    assert check.events < check.version
    assert b'"two' not in path.read_bytes()


# -- an agent that is at work -------------------------------------------------------------------------------------

AT_WORK = """
import asyncio, sys
from autogen_eventlog import EventLog
from tests.integration.test_check import ALICE, Word, runtime_of

async def main() -> None:
    loop = asyncio.get_running_loop()
    async with EventLog.open(sys.argv[1]) as log, runtime_of(log) as runtime:
        runtime.start()
        for number in range(40):
            await runtime.send_message(Word(f"word {number}"), ALICE)
            if number in (9, 39):
                print(number, flush=True)
            if number == 9:
                await loop.run_in_executor(None, sys.stdin.readline)
        agent = await runtime.try_get_underlying_agent_instance(ALICE)
        print(len(agent.words), flush=True)
        await runtime.stop_when_idle()

asyncio.run(main())
"""


async def test_an_agent_at_work_in_another_process_is_not_disturbed(log: EventLog, dsn: str) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", AT_WORK, dsn, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    assert child.stdout is not None and child.stdin is not None
    try:
        assert await child.stdout.readline() == b"9\n"
        before = await log.head(ALICE)
        async with runtime_of(log) as runtime, runtime_of(log, Louder) as changed:
            assert (await runtime.check([ALICE])).same
            assert await log.head(ALICE) == before
            child.stdin.write(b"\n")
            while True:  # while it works
                assert (await runtime.check([ALICE])).same
                [other] = (await changed.check([ALICE])).agents
                assert other.outcome is CheckOutcome.DIVERGES
                head = await log.head(ALICE)
                assert before is not None and head is not None
                if head.version >= 2 * before.version:
                    break
        assert await child.stdout.read() == b"39\n40\n"
        assert await child.wait() == 0
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    after = await log.head(ALICE)
    assert after is not None
    assert after.epoch == before.epoch
    activations = [event async for event in log.read(ALICE) if event.type is EventType.AGENT_ACTIVATED]
    assert len(activations) == 1
