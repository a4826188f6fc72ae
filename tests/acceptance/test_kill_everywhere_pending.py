"""What was pending when a process died, or is again because its agent went back there: a person's answer, a model's."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from autogen_core import AgentId

from autogen_eventlog import Answer, EventLog, EventLogHandler, EventSourcedAgentRuntime, EventType, UnknownEffect
from autogen_eventlog.state.capture import capture
from autogen_eventlog.testing.waiting import wait_until

from .asking import until
from .programs import human
from .programs.everywhere_agents import Clerk, Job, Outside
from .programs.human import PERSON, Person, Question

ROOT = Path(__file__).parents[2]
CLERK = AgentId("clerk", "one")


@asynccontextmanager
async def running(dsn: str, **settings: Any) -> AsyncGenerator[tuple[EventSourcedAgentRuntime, EventLog]]:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, **settings)])
        await Person.register(runtime, "person", Person)
        await Clerk.register(runtime, "clerk", Clerk)
        runtime.start()
        yield runtime, log
        await runtime.stop_when_idle()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the person is asked, and answers."""
    monkeypatch.setattr(Person, "directory", str(tmp_path))
    monkeypatch.setattr(Outside, "directory", tmp_path)
    return tmp_path


def waits(desk: Path) -> list[str]:
    """The questions for whose answers somebody began to wait, each time."""
    file = desk / "waits"
    return file.read_text().split() if file.exists() else []


def answer(desk: Path, number: int, text: str) -> None:
    written = desk / f"writing-{number}"
    written.write_text(text)
    written.rename(desk / f"answer-{number}")


def killed_while_the_person_thinks(dsn: str, desk: Path) -> None:
    command = [sys.executable, "-m", "tests.acceptance.programs.everywhere_person", dsn, str(desk)]
    with subprocess.Popen(command, cwd=ROOT) as process:
        wait_until(lambda: waits(desk) or process.poll() is not None, "the person is asked", timeout=60)
        process.kill()
    assert waits(desk) == ["1"]


def days_pass(dsn: str, days: int) -> None:
    """For the processes that are gone."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "UPDATE eventlog.worker SET heartbeat_at = heartbeat_at - make_interval(days => %s),"
            " started_at = started_at - make_interval(days => %s)",
            (days, days),
        )


async def test_a_question_that_was_pending_at_a_kill_is_pending_days_later_and_asked_once(dsn: str, desk: Path) -> None:
    """E3: who finds out what became of it waits for the person's answer, and does not ask again."""
    await asyncio.to_thread(killed_while_the_person_thinks, dsn, desk)
    days_pass(dsn, 3)
    found: list[UnknownEffect] = []

    async def what_the_person_says(unknown: UnknownEffect) -> Answer:
        found.append(unknown)
        file = desk / f"answer-{unknown.request['number']}"
        return Answer(await until(_is(lambda: file.exists() and file.read_text()), "the person answers", timeout=60))

    async with running(dsn, effects_unknown={"own.human.input": "ask"}, ask_unknown=what_the_person_says) as (
        runtime,
        log,
    ):
        waiting = asyncio.create_task(runtime.reply_to("question", PERSON))
        await until(_is(lambda: found), "the question is found")
        [pending] = await log.audit.unanswered_effects(agent=PERSON)
        assert (found[0].event_id, found[0].kind) == (pending.id, "own.human.input")
        assert len(await log.audit.in_flight(agent=PERSON)) == 1
        answer(desk, 1, "at last")
        assert await asyncio.wait_for(waiting, 30) == human.Answer(1, "at last")
        assert (waits(desk), len(found)) == (["1"], 1)
        assert (await runtime.view(PERSON, type=Person)).answers == ["at last"]
        assert await log.audit.unanswered_effects() == []


async def test_an_agent_that_goes_back_to_a_question_waits_for_it_again_and_not_for_the_answer_it_had(
    dsn: str, desk: Path
) -> None:
    """E7."""
    async with running(dsn, effects_unknown={"own.human.input": "retry"}) as (runtime, log):
        for number, text in ((1, "yes"), (2, "why not")):
            answer(desk, number, text)
            assert await runtime.send_message(Question(number), PERSON) == human.Answer(number, text)
        asked = [event async for event in log.read(PERSON) if event.type is EventType.EFFECT_REQUESTED]
        (desk / "answer-1").unlink()
        report = await runtime.restore(PERSON, version=asked[0].version)
        assert report.in_flight == (asked[0].delivery,)
        await until(_is(lambda: waits(desk) == ["1", "2", "1"]), "it waits for the same question")
        person = await runtime.try_get_underlying_agent_instance(PERSON, Person)
        [pending] = await log.audit.in_flight(agent=PERSON)
        assert (person.answers, pending.version) == ([], asked[0].delivery)
        answer(desk, 1, "no")
        await until(_is(lambda: person.answers), "it has the answer")
        assert person.answers == ["no"]
        await until(lambda: _nothing_runs(log), "its handler has ended")
        assert (await runtime.view(PERSON, type=Person)).answers == ["no"]


async def test_an_assistant_is_recovered_with_the_network_off_and_a_model_that_must_not_be_asked(
    dsn: str, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E20."""
    async with running(dsn) as (runtime, log):
        for what in ("a,b;c", "d"):
            await runtime.send_message(Job(what), CLERK)
        before = capture(await runtime.try_get_underlying_agent_instance(CLERK), log.codec)
    done = Outside.noted("done")

    def refused(*args: Any, **keywords: Any) -> Any:
        raise AssertionError("the outside was reached for")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(Outside, "note", refused)
    async with running(dsn) as (runtime, log):
        view = await runtime.view(CLERK)
        live = await runtime.try_get_underlying_agent_instance(CLERK)
        for instance in (view, live):
            assert json.loads(capture(instance, log.codec).data) == json.loads(before.data)
    assert Outside.noted("done") == done


def _is(condition: Any) -> Any:
    async def asked() -> Any:
        return condition()

    return asked


async def _nothing_runs(log: EventLog) -> bool:
    return not await log.audit.in_flight()
