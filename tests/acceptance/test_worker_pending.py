"""Questions that are pending when a worker dies: a person's answer, a call, a publication (E3, E12)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from autogen_core import AgentId, CancellationToken, try_get_known_serializers_for_type

from autogen_eventlog import EventLog, EventSourcedGrpcWorkerAgentRuntime
from autogen_eventlog.errors import EffectOutcomeUnknown, Undeliverable
from autogen_eventlog.events import EventType, Outcome

from .asking import until
from .programs.human import PERSON, Answer, Asker, Person, Question, Reader, Wish
from .test_failover import driver, free_port
from .workers import HumanWorker, Remote

ASKER, READER = AgentId("asker", "a"), AgentId("reader", "all")


class Scene:
    """A host, a worker without agents in this process, and workers whose agents wait for a person."""

    def __init__(self, dsn: str, port: int, directory: Path, stack: AsyncExitStack) -> None:
        self.dsn = dsn
        self.port = port
        self._directory = directory
        self._stack = stack
        self.runtime: EventSourcedGrpcWorkerAgentRuntime
        self.log: EventLog

    async def open(self) -> None:
        await self._stack.enter_async_context(Remote("host", self.port))
        self.runtime, self.log = await self._stack.enter_async_context(driver(self.dsn, self.port))
        self.runtime.add_message_serializer(try_get_known_serializers_for_type(Answer))

    async def worker(self, *types: str, unknown: str = "retry") -> HumanWorker:
        arguments = (self.dsn, self.port, self._directory, unknown, *types)
        return await self._stack.enter_async_context(HumanWorker(*arguments))

    def wish(self, number: int) -> asyncio.Task[Any]:
        return asyncio.create_task(self.runtime.send_message(Wish(number), ASKER))

    async def asked(self, number: int) -> None:
        async def there() -> bool:
            return (self._directory / f"asked-{number}").exists()

        await until(there, "the person is asked", timeout=30)

    def answer(self, number: int, text: str) -> None:
        written = self._directory / f"writing-{number}"
        written.write_text(text)
        written.rename(self._directory / f"answer-{number}")

    def waits(self) -> list[str]:
        """The questions for whose answers somebody began to wait, each time."""
        return (self._directory / "waits").read_text().split()

    async def delivered(self, agent: AgentId) -> int:
        events = [event async for event in self.log.read(agent)]
        return sum(event.type is EventType.MESSAGE_DELIVERED for event in events)

    def days_pass(self, days: int) -> None:
        """For the workers that are gone; those that live say at once that they do."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(
                "UPDATE eventlog.worker SET heartbeat_at = heartbeat_at - make_interval(days => %s),"
                " started_at = started_at - make_interval(days => %s)",
                (days, days),
            )


@pytest.fixture
async def scene(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    monkeypatch.setattr(Person, "directory", str(tmp_path))  # what the person is asked is compared in views
    async with AsyncExitStack() as stack:
        made = Scene(dsn, free_port(), tmp_path, stack)
        await made.open()
        yield made


async def test_an_answer_reaches_an_agent_whose_worker_was_killed_while_a_person_on_another_thought(
    scene: Scene,
) -> None:
    """The person is asked once, by the call of the instance that is no more."""
    await scene.worker("person")
    first = await scene.worker("asker")
    call = scene.wish(1)
    await scene.asked(1)
    [pending] = await scene.log.audit.in_flight(agent=ASKER)
    await first.kill()
    await scene.worker("asker")
    [still] = await scene.log.audit.in_flight(agent=ASKER)
    assert still.id == pending.id
    scene.answer(1, "yes")
    assert await asyncio.wait_for(call, 30) == Answer(1, "yes")
    assert scene.waits() == ["1"]
    assert (await scene.delivered(PERSON), await scene.delivered(ASKER)) == (1, 1)
    seen = await scene.runtime.view(ASKER, factory=Asker, type=Asker)
    assert (seen.wishes, seen.answers) == ([1], ["yes"])


async def test_a_call_that_was_answered_while_its_caller_was_dead_is_answered_from_the_log(scene: Scene) -> None:
    await scene.worker("person")
    first = await scene.worker("asker")
    call = scene.wish(1)
    await scene.asked(1)
    await first.kill()
    scene.answer(1, "yes")

    async def ended() -> bool:
        return not await scene.log.audit.in_flight(agent=PERSON)

    await until(ended, "the person has answered")
    await scene.worker("asker")
    assert await asyncio.wait_for(call, 30) == Answer(1, "yes")
    assert (scene.waits(), await scene.delivered(PERSON)) == (["1"], 1)


async def test_a_question_that_was_pending_when_its_worker_was_killed_is_pending_days_later_and_answered(
    scene: Scene,
) -> None:
    first = await scene.worker("person")
    asker = await scene.worker("asker")
    call = scene.wish(1)
    await scene.asked(1)
    [pending] = await scene.log.audit.in_flight(agent=PERSON)
    [question] = await scene.log.audit.unanswered_effects(agent=PERSON)
    await first.kill()
    await asker.kill()
    scene.days_pass(3)
    assert [one.id for one in await scene.log.audit.in_flight(agent=PERSON)] == [pending.id]
    assert [one.id for one in await scene.log.audit.unanswered_effects(agent=PERSON)] == [question.id]
    await scene.worker("asker", "person")

    async def waits_again() -> bool:
        return scene.waits() == ["1", "1"]

    await until(waits_again, "the same question waits for its answer", timeout=30)
    assert [one.id for one in await scene.log.audit.in_flight(agent=PERSON)] == [pending.id]
    scene.answer(1, "after all")
    assert await asyncio.wait_for(call, 30) == Answer(1, "after all")
    assert (await scene.delivered(PERSON), await scene.delivered(ASKER)) == (1, 1)
    seen = await scene.runtime.view(PERSON, factory=Person, type=Person)
    assert seen.answers == ["after all"]


async def test_a_question_of_which_it_is_not_known_whether_it_was_answered_is_an_error_where_that_is_asked_for(
    scene: Scene,
) -> None:
    first = await scene.worker("person", unknown="fail")
    await scene.worker("asker")
    call = scene.wish(1)
    await scene.asked(1)
    await first.kill()
    await scene.worker("person", unknown="fail")
    with pytest.raises(EffectOutcomeUnknown) as refused:
        await asyncio.wait_for(call, 30)
    assert (refused.value.stream, refused.value.kind) == (str(PERSON), "own.human.input")
    assert scene.waits() == ["1"]


async def test_a_call_whose_worker_died_and_has_no_successor_is_an_error_in_bounded_time(scene: Scene) -> None:
    first = await scene.worker("person")
    async with driver(scene.dsn, scene.port, patience=2.0) as (runtime, _):
        call = asyncio.create_task(runtime.send_message(Question(1), PERSON))
        await scene.asked(1)
        await first.kill()
        with pytest.raises(Undeliverable, match="the worker that ran its handler is gone") as refused:
            await asyncio.wait_for(call, 30)
    assert (refused.value.recipient, refused.value.waited_seconds) == (str(PERSON), 2.0)


async def test_a_subscriber_that_comes_after_the_publisher_was_restored_still_hears(scene: Scene) -> None:
    reader = await scene.worker("reader")
    await scene.worker("person")
    first = await scene.worker("asker")
    assert await reader.end() == 0
    call = scene.wish(1)
    await scene.asked(1)
    await first.kill()
    second = await scene.worker("asker")
    scene.answer(1, "yes")
    assert await asyncio.wait_for(call, 30) == Answer(1, "yes")
    await second.kill()
    await scene.worker("asker")
    await scene.worker("reader")

    async def heard() -> bool:
        return await scene.delivered(READER) == 1

    await until(heard, "the reader hears of it", timeout=30)
    seen = await scene.runtime.view(READER, factory=Reader, type=Reader)
    assert seen.read == ["yes"]


@pytest.mark.parametrize("dies", ["before", "after"])
async def test_a_call_that_is_given_up_as_its_worker_dies_is_cancelled_where_its_handler_goes_on(
    scene: Scene, dies: str
) -> None:
    """That a caller waits no more travels in memory; nobody is to run on for it in another process."""
    first = await scene.worker("person")
    token = CancellationToken()
    call = asyncio.create_task(scene.runtime.send_message(Question(1), PERSON, cancellation_token=token))
    await scene.asked(1)
    if dies == "before":
        await first.kill()
        token.cancel()
    else:
        first.signal(signal.SIGSTOP)
        token.cancel()
        await first.kill()
    with pytest.raises(asyncio.CancelledError):
        await call
    await scene.worker("person")

    async def ended() -> bool:
        return not await scene.log.audit.in_flight(agent=PERSON)

    await until(ended, "the handler has ended")
    events = [event async for event in scene.log.read(PERSON)]
    assert [event.outcome for event in events if event.type is EventType.DELIVERY_COMPLETED] == [Outcome.CANCELLED]
    assert await scene.delivered(PERSON) == 1
    later = asyncio.create_task(scene.runtime.send_message(Question(2), PERSON))
    await scene.asked(2)
    scene.answer(2, "yes")
    assert await asyncio.wait_for(later, 30) == Answer(2, "yes")
