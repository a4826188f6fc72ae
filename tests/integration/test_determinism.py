"""The verdict on a class follows from what its agents did: nothing is guessed."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from autogen_core import AgentId, MessageContext, RoutedAgent, rpc
from typer.testing import CliRunner

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime, effect
from autogen_eventlog.checking.determinism import ClassReport, Verdict
from autogen_eventlog.cli.app import app

HERE = __name__


@dataclass
class Go:
    number: int


class Pure(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("adds")
        self.sum = 0

    @rpc
    async def on_go(self, message: Go, ctx: MessageContext) -> int:
        await asyncio.sleep(0)
        self.sum += message.number
        return self.sum


@effect
async def weather(day: int) -> str:
    return "rain"


class WithEffects(Pure):
    @rpc
    async def on_go(self, message: Go, ctx: MessageContext) -> int:
        self.last = (await weather(message.number), uuid.uuid4().hex, random.random())
        return 1


class Writes(Pure):
    path = Path("nowhere")

    @rpc
    async def on_go(self, message: Go, ctx: MessageContext) -> int:
        with Writes.path.open("a") as file:
            file.write("x")
        return 1


class Counts(Pure):
    """What it keeps depends on how often the class was used in this process."""

    numbers = itertools.count()

    @rpc
    async def on_go(self, message: Go, ctx: MessageContext) -> int:
        self.number = next(Counts.numbers)
        return 1


class Tells(Counts):
    """And it says so."""

    @rpc
    async def on_go(self, message: Go, ctx: MessageContext) -> int:
        return next(Counts.numbers)


class Threads(Pure):
    @rpc
    async def on_go(self, message: Go, ctx: MessageContext) -> int:
        return await asyncio.to_thread(abs, message.number)


ALL = {"pure": Pure, "effects": WithEffects, "writes": Writes, "counts": Counts, "tells": Tells, "threads": Threads}


async def register(runtime: EventSourcedAgentRuntime) -> None:
    for name, cls in ALL.items():
        await cls.register(runtime, name, cls)


@asynccontextmanager
async def recorded(dsn: str, *names: str) -> AsyncIterator[EventSourcedAgentRuntime]:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await register(runtime)
        runtime.start()
        for name in names:
            for number in range(3):
                await runtime.send_message(Go(number), AgentId(name, "one"))
        await runtime.stop_when_idle()
        yield runtime


async def judged(dsn: str, name: str) -> ClassReport:
    async with recorded(dsn, name) as runtime:
        before = [event async for event in runtime._agents.log.tail(follow=False)]
        (report,) = await runtime.determinism()
        assert [event async for event in runtime._agents.log.tail(follow=False)] == before
    return report


async def test_an_agent_of_messages_alone_is_replay_safe(dsn: str) -> None:
    report = await judged(dsn, "pure")
    assert (report.verdict, report.agents, report.deliveries) == (Verdict.REPLAY_SAFE, 1, 3)
    assert report.agent_class == f"{HERE}:Pure"
    assert not (report.effects or report.readings or report.unsafe or report.undecided)


async def test_an_agent_with_effects_and_readings_is_safe_with_them(dsn: str) -> None:
    report = await judged(dsn, "effects")
    assert report.verdict is Verdict.SAFE_WITH_EFFECTS
    assert list(report.effects.values()) == [3]
    assert {kind.partition(".")[0] for kind in report.readings} == {"uuid", "random"}


async def test_a_file_that_is_written_is_named_with_its_place(dsn: str, tmp_path: Path) -> None:
    Writes.path = tmp_path / "file"
    report = await judged(dsn, "writes")
    assert report.verdict is Verdict.NOT_SAFE
    (finding,) = report.unsafe
    assert str(Writes.path) in finding.what
    assert Path(__file__).name in finding.place and "on_go" in finding.place
    assert Writes.path.read_text() == "xxx"


async def test_a_state_that_each_replay_makes_anew_is_found_by_replaying_twice(dsn: str) -> None:
    report = await judged(dsn, "counts")
    assert report.verdict is Verdict.NOT_SAFE
    assert [finding.place for finding in report.unsafe] == ["self.number"]


async def test_an_answer_that_is_another_each_time_is_found(dsn: str) -> None:
    report = await judged(dsn, "tells")
    assert report.verdict is Verdict.NOT_SAFE
    assert "the same code made" in report.unsafe[0].what


async def test_a_thread_is_found(dsn: str) -> None:
    report = await judged(dsn, "threads")
    assert report.verdict is Verdict.NOT_SAFE
    assert any("abs" in finding.what or "thread" in finding.what for finding in report.unsafe)


async def test_what_can_t_be_replayed_here_is_not_judged(dsn: str) -> None:
    async with recorded(dsn, "pure") as runtime:
        log = runtime._agents.log
        other = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        (report,) = await other.determinism([AgentId("pure", "one")])
    assert report.verdict is Verdict.UNKNOWN
    assert "Register" in report.undecided[0].remedy


def test_the_command_says_it_and_ends_with_a_code(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Writes.path = tmp_path / "file"
    monkeypatch.setenv("PYTHONHASHSEED", "0")

    async def record() -> None:
        async with recorded(dsn, "pure", "writes"):
            pass

    asyncio.run(record())
    runner = CliRunner()
    safe = runner.invoke(app, ["--dsn", dsn, "determinism", "pure/one", "--app", f"{HERE}:register", "--json"])
    assert safe.exit_code == 0, safe.output
    assert json.loads(safe.stdout)["verdict"] == "replay_safe"
    unsafe = runner.invoke(app, ["--dsn", dsn, "determinism", "--all", "--app", f"{HERE}:register"])
    assert unsafe.exit_code == 1, unsafe.output
    assert "not safe" in unsafe.stdout and "open" in unsafe.stdout and "replay-safe" in unsafe.stdout
