"""An incarnation on a bench: events go to a list, calls are answered by a small random world."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timezone
from typing import Any

from autogen_core import Agent, AgentId, AgentInstantiationContext

from autogen_eventlog.codec import Codec, Encoded
from autogen_eventlog.events import EventData, RecordedEvent
from autogen_eventlog.ids import EventIds
from autogen_eventlog.incarnation.facade import RuntimeFacade
from autogen_eventlog.incarnation.incarnation import Incarnation
from autogen_eventlog.incarnation.outbox import Outbox
from autogen_eventlog.incarnation.parts import DONE, Call, Envelope
from autogen_eventlog.replay.follow import follow
from autogen_eventlog.replay.machine import Machine

AGENT = AgentId("programmed", "one")
IDS = EventIds()


class ListAppender:
    """A stream that is a list."""

    def __init__(self, events: list[RecordedEvent] | None = None) -> None:
        self.events: list[RecordedEvent] = [] if events is None else events

    @property
    def version(self) -> int:
        return len(self.events)

    def append(self, event: EventData) -> Any:
        fields = {name: getattr(event, name) for name in EventData.__dataclass_fields__}
        version = self.version + 1
        self.events.append(
            RecordedEvent(
                **fields,
                stream=str(AGENT),
                version=version,
                position=version,
                epoch=1,
                recorded_at=datetime.now(timezone.utc),
            )
        )
        return DONE


class RandomWorld:
    """Answers calls after a while, or not, or with an error."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.published: list[Any] = []
        self.asked: list[Call] = []

    async def ask(self, incarnation: Incarnation, call: Call) -> None:
        self.asked.append(call)
        draw = self.random.random()
        await asyncio.sleep(0 if draw < 0.3 else draw * 0.006)
        if draw > 0.96:
            incarnation.answer(call, None, KeyError("world"))
        elif draw > 0.92:
            incarnation.answer(call, None, ValueError(call.message.data.decode(), 1))
        else:
            incarnation.answer(call, ("answer", round(draw, 6)), None)

    async def fan_out(self, topic: Any, sender: Any) -> int | None:
        return None

    async def publish(
        self, incarnation: Incarnation, event: EventData, message: Encoded, original: Any, token: Any
    ) -> None:
        self.published.append(original)


def incarnate(factory: Callable[[], Agent], machine: Machine | None = None, codec: Codec | None = None) -> Incarnation:
    incarnation = Incarnation(AGENT, codec=codec or Codec(), ids=IDS, machine=machine)
    facade = RuntimeFacade(None)  # type: ignore[arg-type]
    facade.attach(incarnation)
    with AgentInstantiationContext.populate_context((facade, AGENT)):
        incarnation.agent = factory()
    return incarnation


def connect(incarnation: Incarnation, appender: ListAppender, world: Any) -> None:
    def refused(error: Exception) -> None:
        raise AssertionError(error)

    incarnation.connect(appender, world, Outbox(asyncio.get_running_loop(), refused))


def envelope(codec: Codec, message: Any) -> Envelope:
    return Envelope(codec.encode(message), None, None, True, "m", None, None)


async def each(events: list[RecordedEvent]) -> AsyncIterator[RecordedEvent]:
    for event in events:
        yield event


async def replay(factory: Callable[[], Agent], events: list[RecordedEvent], *, continues: bool = False) -> Incarnation:
    machine = Machine()
    incarnation = incarnate(factory, machine)
    incarnation.continues = continues
    try:
        await follow(incarnation, machine, each(events))
    finally:
        incarnation.end()
    return incarnation
