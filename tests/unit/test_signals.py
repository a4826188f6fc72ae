"""A signal may come amid an agent's code; what its handler does is not the agent's doing."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from autogen_core import BaseAgent, MessageContext

from .bench import ListAppender, RandomWorld, connect, envelope, incarnate, replay


class Interrupted(BaseAgent):
    """Is interrupted amid its handler, but only the first time."""

    interrupted = False

    def __init__(self) -> None:
        super().__init__("interrupted")
        self.steps: list[str] = []

    async def on_message_impl(self, message: Any, ctx: MessageContext) -> Any:
        self.steps.append("before")
        if not Interrupted.interrupted:
            Interrupted.interrupted = True
            signal.raise_signal(signal.SIGUSR1)
        await asyncio.sleep(0.001)
        self.steps.append("after")
        return len(self.steps)


class Handler:
    """A handler that is no function."""

    def __init__(self, woken: asyncio.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken = woken

    def __call__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._woken.set)

    def handle(self, *_: object) -> None:
        self(*_)


@pytest.fixture
def signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("how", ["function", "method", "object"])
async def test_what_a_signal_handler_schedules_is_not_counted_as_the_agents(how: str, signals: None) -> None:
    Interrupted.interrupted = False
    woken = asyncio.Event()
    handler = Handler(woken)
    ways = {"function": lambda *_: handler(), "method": handler.handle, "object": handler}
    signal.signal(signal.SIGUSR1, ways[how])
    incarnation = incarnate(Interrupted)
    appender = ListAppender()
    connect(incarnation, appender, RandomWorld(1))
    for _ in range(2):
        delivery, _ = incarnation.deliver(envelope(incarnation.codec, "go"))
        await delivery.done
    assert woken.is_set()
    assert incarnation.session.foreign_wakeups == 0
    replayed = (await replay(Interrupted, appender.events)).agent
    assert isinstance(replayed, Interrupted)
    assert replayed.steps == ["before", "after"] * 2
