"""A ticket: awaited by many, harmed by none."""

from __future__ import annotations

import asyncio
from datetime import datetime, timezone
from uuid import uuid4

import pytest

from autogen_eventlog.errors import StreamFenced
from autogen_eventlog.postgres.ticket import Committed, Ticket

NOW = datetime(2024, 1, 1, tzinfo=timezone.utc)


def ticket() -> Ticket:
    return Ticket("agent/1", 1, 4, 2, uuid4())


async def test_every_waiter_gets_the_same_answer_now_and_later() -> None:
    one = ticket()
    waiters = [asyncio.ensure_future(one.settled()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not one.done
    one.commit(77, NOW)
    one.wake()
    assert one.done
    await asyncio.gather(*waiters)
    assert await one == await one == Committed("agent/1", 6, 77, NOW)


async def test_every_waiter_gets_an_error_of_its_own() -> None:
    one = ticket()
    error = StreamFenced("agent/1", 1, 2)
    one.fail(error)
    caught: list[StreamFenced] = []
    for _ in range(2):
        with pytest.raises(StreamFenced) as raised:
            await one
        caught.append(raised.value)
    assert caught[0] is not caught[1] is not error
    assert [(each.stream, each.expected, each.found) for each in caught] == [("agent/1", 1, 2)] * 2


async def test_a_cancelled_waiter_leaves_the_others_waiting() -> None:
    one = ticket()
    waiters = [asyncio.ensure_future(one.settled()) for _ in range(2)]
    await asyncio.sleep(0)
    waiters[0].cancel()
    await asyncio.sleep(0)
    one.commit(1, NOW)
    one.wake()
    await waiters[1]
    assert waiters[0].cancelled()


async def test_awaiting_what_is_done_does_not_yield_to_the_loop() -> None:
    one = ticket()
    one.commit(1, NOW)
    one.wake()
    order: list[str] = []
    asyncio.get_running_loop().call_soon(order.append, "loop")
    await one
    order.append("ticket")
    await asyncio.sleep(0)
    assert order == ["ticket", "loop"]
