"""A session in the event loop: what it counts, what it finds, how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from typing import Any

import pytest
import uvloop
from autogen_core import BaseAgent, MessageContext

from autogen_eventlog.errors import InstanceEnded, UnsupportedEventLoop
from autogen_eventlog.events import EventType
from autogen_eventlog.replay.machine import Mismatch
from autogen_eventlog.replay.session import Session

from .bench import ListAppender, RandomWorld, connect, envelope, incarnate, replay


class Waiter(BaseAgent):
    """Waits for whatever the message names."""

    outside: asyncio.Event

    def __init__(self) -> None:
        super().__init__("waits")
        self.seen: list[Any] = []

    async def on_message_impl(self, message: Any, ctx: MessageContext) -> Any:
        self.seen.append(message)
        match message:
            case "event":
                await Waiter.outside.wait()
            case "thread":
                await asyncio.to_thread(threading.get_ident)
            case "for ever":
                await asyncio.get_running_loop().create_future()
            case "cleanup":
                try:
                    await asyncio.get_running_loop().create_future()
                finally:
                    self.seen.append("cleaned up")
            case "own generator":
                async for item in self.numbers():
                    self.seen.append(item)
                    break
            case "fails":
                with contextlib.suppress(LookupError):
                    await self.fail()
                asyncio.get_running_loop().create_task(self.fail())
            case "amid a generator" | "amid a generator that waits":
                async for item in self.endless(waits=message.endswith("waits")):
                    self.seen.append(item)
                    await asyncio.sleep(0)
            case _:
                await asyncio.sleep(0)
        self.seen.append("done")

    async def numbers(self) -> Any:
        for number in range(3):
            yield number

    async def fail(self) -> None:
        await asyncio.sleep(0)
        raise LookupError

    async def endless(self, *, waits: bool) -> Any:
        try:
            yield 0
            while waits:
                await asyncio.sleep(0)
            yield 1
            while True:
                await asyncio.sleep(0)
                yield 2
        finally:
            closed.append(self)


closed: list[Waiter] = []


async def live(*messages: str) -> tuple[Any, ListAppender, list[Any]]:
    incarnation, appender = incarnate(Waiter), ListAppender()
    connect(incarnation, appender, RandomWorld(1))
    deliveries = [incarnation.deliver(envelope(incarnation.codec, message))[0] for message in messages]
    return incarnation, appender, deliveries


async def test_an_object_of_other_code_that_wakes_the_agent_is_found_and_named() -> None:
    Waiter.outside = asyncio.Event()
    incarnation, appender, (delivery,) = await live("event")
    await asyncio.sleep(0)
    Waiter.outside.set()
    await delivery.done
    assert incarnation.session.foreign_wakeups == 1
    with pytest.raises(Mismatch) as raised:
        await replay(Waiter, appender.events)
    assert raised.value.foreign
    assert "Waiter.on_message_impl" in raised.value.recorded


async def test_a_thread_that_wakes_the_agent_is_found() -> None:
    incarnation, appender, (delivery,) = await live("thread")
    await delivery.done
    assert incarnation.session.foreign_wakeups > 0
    with pytest.raises(Mismatch):
        await replay(Waiter, appender.events)


async def test_an_async_generator_that_the_agent_leaves_is_its_own_doing() -> None:
    incarnation, appender, (delivery, second) = await live("own generator", "after")
    await asyncio.wait([delivery.done, second.done])
    gc.collect()
    assert incarnation.session.foreign_wakeups == 0
    again = (await replay(Waiter, appender.events)).agent
    assert isinstance(again, Waiter)
    assert again.seen == incarnation.agent.seen


@pytest.mark.parametrize("message", ["amid a generator", "amid a generator that waits"])
async def test_an_async_generator_amid_which_a_view_stands_is_closed_by_no_task(message: str) -> None:
    """Closing it would run its `finally` block; where it waits itself, the attempt would fail, and say so."""
    incarnation, appender, (running,) = await live(message)
    for _ in range(4):
        await asyncio.sleep(0)
    second, _ = incarnation.deliver(envelope(incarnation.codec, "after"))
    await second.done
    said: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
    view: Any = await replay(Waiter, appender.events)
    assert len(view.agent.seen) > 1
    closed.clear()
    view = None
    gc.collect()
    await asyncio.sleep(0)
    gc.collect()
    assert said == []
    if not message.endswith("waits"):
        assert closed == []
    closed.clear()
    incarnation.session.inject(running.task.cancel)
    await running.done
    for _ in range(4):
        await asyncio.sleep(0)
    assert closed == [incarnation.agent], "the live one's is closed as ever"


async def test_nothing_is_said_of_the_tasks_of_an_instance_that_has_ended() -> None:
    said: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
    incarnation, _, (delivery,) = await live("for ever")
    await asyncio.sleep(0)
    incarnation.end()
    del incarnation, delivery
    gc.collect()
    assert said == []


async def test_the_error_of_a_task_that_nobody_awaits_is_told_when_it_happens_and_not_by_replays() -> None:
    said: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context["exception"]))
    incarnation, appender, (failing,) = await live("fails")
    await failing.done
    for _ in range(3):
        await asyncio.sleep(0)
    after, _ = incarnation.deliver(envelope(incarnation.codec, "after"))
    await after.done
    gc.collect()
    assert [type(error) for error in said] == [LookupError]
    await replay(Waiter, appender.events)
    gc.collect()
    assert len(said) == 1


def test_uvloop_is_refused_by_name() -> None:
    async def make() -> None:
        Session("a/b")

    with pytest.raises(UnsupportedEventLoop, match="uvloop"):
        uvloop.run(make())


def test_a_loop_that_shuts_down_ends_the_session_and_records_nothing_of_it() -> None:
    kept: list[Any] = []

    async def main() -> None:
        incarnation, appender, (delivery,) = await live("cleanup")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        kept.extend([incarnation, appender, delivery])

    asyncio.run(main())
    incarnation, appender, delivery = kept
    assert incarnation.agent.seen == ["cleanup", "cleaned up"]
    assert [event.type for event in appender.events] == [EventType.MESSAGE_DELIVERED]
    assert incarnation.ended
    assert isinstance(delivery.done.exception(), InstanceEnded)


def test_a_replay_that_stands_still_does_not_keep_the_loop_from_ending() -> None:
    kept: list[Any] = []

    async def main() -> None:
        _, appender, (delivery, _) = await live("done", "for ever")
        await delivery.done
        kept.append(await replay(Waiter, appender.events))

    asyncio.run(main())
    assert kept[0].agent.seen == ["done", "for ever"] or kept[0].agent.seen == ["done", "for ever", "done"]


async def test_an_agent_at_rest_is_quiet_and_one_that_waits_is_not() -> None:
    incarnation, _, (delivery,) = await live("done")
    await delivery.done
    assert incarnation.quiet
    incarnation.deliver(envelope(incarnation.codec, "for ever"))
    await asyncio.sleep(0)
    assert not incarnation.quiet
    incarnation.end()


async def test_an_ended_instance_can_neither_send_nor_publish() -> None:
    incarnation, appender, (delivery,) = await live("done")
    await delivery.done
    incarnation.end()
    before = len(appender.events)
    late = incarnation.session.spawn(incarnation.agent.publish_message("late", _topic()), None)
    with pytest.raises(InstanceEnded):
        await late
    assert len(appender.events) == before


def _topic() -> Any:
    from autogen_core import TopicId

    return TopicId("t", "s")
