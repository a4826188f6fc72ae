"""What asyncio keeps in sets comes in the same order in replay (G3)."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from asyncio import as_completed  # as people import it, before any agent is made
from typing import Any

import pytest
from autogen_core import BaseAgent, MessageContext

from .bench import ListAppender, RandomWorld, connect, envelope, incarnate, replay

MANY = 12


class Gatherer(BaseAgent):
    """Goes through sets of tasks and keeps the order."""

    def __init__(self) -> None:
        super().__init__("gathers")
        self.seen: list[Any] = []
        self.kept: set[asyncio.Task[Any]] = set()

    async def on_message_impl(self, message: Any, ctx: MessageContext) -> Any:
        await getattr(self, message)()
        return len(self.seen)

    async def give(self, number: int) -> int:
        self.seen.append(("begins", number))
        await asyncio.sleep(0)
        self.seen.append(asyncio.get_running_loop().time())
        return number

    async def wait(self) -> None:
        done, _ = await asyncio.wait([asyncio.create_task(self.give(number)) for number in range(MANY)])
        self.seen.append([task.result() for task in done])

    async def completed(self) -> None:
        for one in as_completed([self.give(number) for number in range(MANY)]):
            self.seen.append(await one)

    async def keep(self) -> None:
        """Tasks of several deliveries in one set."""
        self.kept |= {asyncio.create_task(self.give(number), name=str(number)) for number in range(MANY)}
        self.seen.append([task.get_name() for task in self.kept])
        while not all(task.done() for task in self.kept):
            await asyncio.sleep(0)

    async def in_contexts(self) -> None:
        context = contextvars.copy_context()
        done, _ = await asyncio.wait(
            [asyncio.create_task(self.give(number), context=context) for number in range(MANY)]  # type: ignore[call-arg]
        )
        self.seen.append([task.result() for task in done])

    async def in_empty_contexts(self) -> None:
        made = [
            asyncio.create_task(self.give(number), context=contextvars.Context())  # type: ignore[call-arg]
            for number in range(MANY)
        ]
        done, _ = await asyncio.wait(made)
        self.seen.append([(task.result(), asyncio.get_running_loop().time()) for task in done])

    async def timer_in_an_empty_context(self) -> None:
        loop = asyncio.get_running_loop()
        fired: asyncio.Future[float] = loop.create_future()
        loop.call_later(0.001, lambda: fired.set_result(loop.time()), context=contextvars.Context())
        self.seen.append(await fired)

    async def cancelled(self, number: int) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.seen.append(("cancelled", number))
            raise

    async def group(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:  # type: ignore[attr-defined]
                for number in range(MANY):
                    tasks.create_task(self.cancelled(number))
                await asyncio.sleep(0)
                raise LookupError
        except BaseException as error:
            self.seen.append(type(error).__name__)


SINCE_3_11 = pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio has it since Python 3.11")


@pytest.mark.parametrize(
    "what",
    [
        "wait",
        "completed",
        "keep",
        "timer_in_an_empty_context",
        pytest.param("in_contexts", marks=SINCE_3_11),
        pytest.param("in_empty_contexts", marks=SINCE_3_11),
        pytest.param("group", marks=SINCE_3_11),
    ],
)
async def test_tasks_in_a_set_have_the_same_order_in_replay(what: str) -> None:
    incarnation, appender = incarnate(Gatherer), ListAppender()
    connect(incarnation, appender, RandomWorld(1))
    for _ in range(3):
        delivery, _ = incarnation.deliver(envelope(incarnation.codec, what))
        assert (await delivery.done).error is None
    agent = incarnation.agent
    assert isinstance(agent, Gatherer)
    between = [object() for _ in range(1000)]  # so that nothing comes to lie at the same addresses
    for _ in range(3):
        replayed = (await replay(Gatherer, appender.events, continues=True)).agent
        assert isinstance(replayed, Gatherer)
        assert replayed.seen == agent.seen
        between.append([object() for _ in range(777)])


async def test_a_task_with_a_context_of_its_own_stands_still_with_its_view() -> None:
    """And nobody hears that it was destroyed."""
    if sys.version_info < (3, 11):
        pytest.skip("asyncio has it since Python 3.11")
    incarnation, appender = incarnate(Gatherer), ListAppender()
    connect(incarnation, appender, RandomWorld(1))
    delivery, _ = incarnation.deliver(envelope(incarnation.codec, "in_contexts"))
    await asyncio.sleep(0)  # its tasks are made
    incarnation.deliver(envelope(incarnation.codec, "keep"))
    await delivery.done
    before = asyncio.all_tasks()
    view = await replay(Gatherer, appender.events[:2], continues=False)
    assert isinstance(view.agent, Gatherer)
    assert asyncio.all_tasks() == before
    assert [task for task in view.session._kept if task.get_coro().__qualname__ == "Gatherer.give"]  # type: ignore[union-attr]


async def test_outside_of_agents_as_completed_is_asyncios_own() -> None:
    async def give(number: int) -> int:
        return number

    incarnate(Gatherer)
    assert sorted([await one for one in as_completed([give(number) for number in range(5)])]) == [0, 1, 2, 3, 4]
    with pytest.raises(TimeoutError if sys.version_info >= (3, 11) else asyncio.TimeoutError):
        for one in as_completed([asyncio.create_task(asyncio.sleep(60))], timeout=0.001):
            await one
    single = give(1)
    with pytest.raises(TypeError):
        list(as_completed(single))  # type: ignore[arg-type]
    single.close()
