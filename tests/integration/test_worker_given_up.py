"""Calls that an agent on a worker gives up: its replay is the same, and what was sent arrives, cancelled (G3, G8)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import psycopg
import pytest
from autogen_core import AgentId, CancellationToken, MessageContext, RoutedAgent, rpc

from tests.integration.store import eventually
from tests.integration.workers import Workers, until, workers

__all__ = ["workers"]

CALLER, SLOW = AgentId("caller", "k"), AgentId("slow", "k")
KINDS = ("timeout", "task", "token", "answered")


@dataclass
class Job:
    kind: str


@dataclass
class Wait:
    seconds: float


class Caller(RoutedAgent):
    """Calls another, and gives up in each way that there is."""

    def __init__(self) -> None:
        super().__init__("calls")
        self.log: list[str] = []

    @rpc
    async def on_job(self, message: Job, ctx: MessageContext) -> str:
        try:
            said = await getattr(self, f"by_{message.kind}")()
        except (asyncio.CancelledError, asyncio.TimeoutError, TimeoutError) as error:
            said = type(error).__name__
        self.log.append(said)
        return said

    async def by_timeout(self) -> str:
        return await asyncio.wait_for(self.send_message(Wait(60), SLOW), 0.3)

    async def by_long_timeout(self) -> str:
        return await asyncio.wait_for(self.send_message(Wait(60), SLOW), 2)

    async def by_task(self) -> str:
        task = asyncio.ensure_future(self.send_message(Wait(60), SLOW))
        await asyncio.sleep(0.3)
        task.cancel()
        return await task

    async def by_token(self) -> str:
        token = CancellationToken()
        task = asyncio.ensure_future(self.send_message(Wait(60), SLOW, cancellation_token=token))
        await asyncio.sleep(0.3)
        token.cancel()
        return await task

    async def by_answered(self) -> str:
        return await self.send_message(Wait(0), SLOW)


class Slow(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("is slow")
        self.cancelled = 0

    @rpc
    async def on_wait(self, message: Wait, ctx: MessageContext) -> str:
        waiting = asyncio.ensure_future(asyncio.sleep(message.seconds))
        ctx.cancellation_token.link_future(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return "done"


@pytest.mark.parametrize("first", KINDS[:3])
async def test_an_agent_that_gave_up_a_call_is_the_same_in_replay(workers: Workers, first: str) -> None:
    one, two = await workers.ours(Job, Wait, patience=20.0), await workers.ours(Job, Wait, patience=20.0)
    await one.register_factory("caller", Caller)
    await two.register_factory("slow", Slow)
    said = [await one.send_message(Job(kind), CALLER) for kind in (first, *KINDS)]
    assert said[-1] == "done" and "done" not in said[:-1]
    view = await one.view(CALLER, type=Caller)
    assert view.log == said
    await one.stop()
    three = await workers.ours(Job, Wait, patience=20.0)
    await three.register_factory("caller", Caller)
    assert await three.send_message(Job("answered"), CALLER) == "done"


async def test_a_call_that_was_given_up_before_it_arrived_arrives_cancelled(workers: Workers) -> None:
    one = await workers.ours(Job, Wait, patience=20.0)
    await one.register_factory("caller", Caller)
    assert await one.send_message(Job("timeout"), CALLER) == "TimeoutError"  # nobody has `slow` yet
    two = await workers.ours(Job, Wait, patience=20.0)
    await two.register_factory("slow", Slow)
    await eventually(lambda: _nothing_waits(workers), "what was sent has arrived and ended", timeout=20)
    assert (await two.view(SLOW, type=Slow)).cancelled == 1
    await until(lambda: one.health().outstanding == 0, "nothing is looked after any more")


async def test_a_call_that_was_given_up_and_never_arrives_is_in_the_log_as_undeliverable(workers: Workers) -> None:
    one = await workers.ours(Job, Wait, patience=1.0)
    await one.register_factory("caller", Caller)
    assert await one.send_message(Job("timeout"), CALLER) == "TimeoutError"
    await eventually(lambda: _nothing_waits(workers), "it is said to be undeliverable", timeout=20)
    assert [record.message for record in await workers.log.audit.messages(outcome="dropped", agent=SLOW)]


async def test_that_a_call_is_given_up_is_said_once_it_is_in_the_log(workers: Workers, dsn: str) -> None:
    one, two = await workers.ours(Job, Wait, patience=20.0), await workers.ours(Job, Wait, patience=20.0)
    await one.register_factory("caller", Caller)
    await two.register_factory("slow", Slow)
    asked = asyncio.create_task(one.send_message(Job("long_timeout"), CALLER))
    await eventually(lambda: _is_called(workers), "the call has arrived")
    caller = await one.try_get_underlying_agent_instance(CALLER, Caller)
    async with await psycopg.AsyncConnection.connect(dsn) as holder:
        await holder.execute("SELECT FROM eventlog.stream WHERE id = %s FOR UPDATE", [str(CALLER)])
        assert caller.log == []
        await until(lambda: caller.log == ["TimeoutError"], "the caller has given up, and can't record it")
        await one.agent_metadata(SLOW)  # goes the way that a word of the giving up would have gone before it
        slow = await two.try_get_underlying_agent_instance(SLOW, Slow)
        assert slow.cancelled == 0
        await holder.rollback()
    assert await asked == "TimeoutError"
    await until(lambda: slow.cancelled == 1, "the recipient has heard of it")


async def _is_called(workers: Workers) -> bool:
    return bool(await workers.log.audit.in_flight(agent=SLOW))


async def _nothing_waits(workers: Workers) -> bool:
    return not (await workers.log.audit.undelivered() or await workers.log.audit.in_flight())
