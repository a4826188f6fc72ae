"""An alarm rings when its time is over, however often it was set before."""

from __future__ import annotations

import asyncio

from autogen_eventlog.postgres.alarm import Alarm


async def test_it_rings_once_when_the_time_is_over() -> None:
    rings: list[float] = []
    loop = asyncio.get_running_loop()
    began = loop.time()
    Alarm(lambda: rings.append(loop.time() - began)).set(0.02)
    await asyncio.sleep(0.1)
    assert len(rings) == 1
    assert rings[0] >= 0.02


async def test_setting_it_anew_puts_it_off() -> None:
    rings: list[float] = []
    loop = asyncio.get_running_loop()
    began = loop.time()
    alarm = Alarm(lambda: rings.append(loop.time() - began))
    for _ in range(4):
        alarm.set(0.05)
        await asyncio.sleep(0.02)
    assert rings == []
    await asyncio.sleep(0.15)
    assert len(rings) == 1
    assert rings[0] >= 0.11


async def test_a_shorter_time_counts_from_when_it_was_set() -> None:
    rang = asyncio.Event()
    alarm = Alarm(rang.set)
    alarm.set(60)
    alarm.set(0.01)
    await asyncio.wait_for(rang.wait(), 5)


async def test_cleared_it_does_not_ring_and_can_be_set_again() -> None:
    rings: list[int] = []
    alarm = Alarm(lambda: rings.append(1))
    alarm.set(0.01)
    alarm.clear()
    await asyncio.sleep(0.05)
    assert rings == []
    alarm.set(0.01)
    await asyncio.sleep(0.05)
    assert rings == [1]


async def test_stopped_it_leaves_no_timer_in_the_loop() -> None:
    alarm = Alarm(lambda: None)
    alarm.set(60)
    timer = alarm._timer  # pyright: ignore[reportPrivateUsage]
    alarm.stop()
    assert timer is not None
    assert timer.cancelled()
    alarm.set(60)
    alarm.stop()
