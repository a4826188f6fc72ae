"""An agent as people write them, which reads clocks, ids and random numbers in every way that they do.

It knows nothing of logs, and is imported before anything that does.
"""

# ruff: noqa: DTZ002, DTZ005, DTZ011
from __future__ import annotations

import asyncio
import dataclasses
import datetime
import datetime as dt
import email.utils
import functools
import os
import random
import secrets
import statistics
import time
import uuid
from dataclasses import dataclass, field
from datetime import date, timedelta, timezone
from datetime import datetime as DateTime
from random import Random, choice, gauss, shuffle
from random import random as draw
from secrets import token_hex
from time import monotonic, time_ns
from time import perf_counter as stopwatch
from time import time as now
from timeit import default_timer
from typing import Any
from uuid import uuid1, uuid4
from uuid import uuid4 as new_id

from autogen_core import MessageContext, RoutedAgent, message_handler
from pydantic import BaseModel, Field

BERLIN = timezone(timedelta(hours=1), "MEZ")


class Stamp(BaseModel):
    """Draws for itself."""

    id: str = Field(default_factory=lambda: str(uuid.uuid4()))
    key: uuid.UUID = Field(default_factory=uuid4)
    at: dt.datetime = Field(default_factory=lambda: DateTime.now(timezone.utc))
    local: dt.datetime = Field(default_factory=DateTime.now)
    zoned: dt.datetime = Field(default_factory=functools.partial(DateTime.now, BERLIN))
    seconds: float = Field(default_factory=now)
    chance: float = Field(default_factory=draw)


class Envelope(BaseModel):
    """Has another that draws for itself."""

    stamp: Stamp = Field(default_factory=Stamp)
    given: Stamp | None = None


@dataclass
class Note:
    """Draws for itself."""

    text: str
    at: float = field(default_factory=time.time)
    id: uuid.UUID = field(default_factory=uuid.uuid4)
    on: dt.datetime = field(default_factory=DateTime.now)
    count: int = field(default_factory=time_ns)


class Later(DateTime):
    """A subclass of somebody's."""


class Clocked:
    """Functions in the places of classes and defaults."""

    clock = time.time
    stamp = staticmethod(time.monotonic)

    def at(self, clock: Any = time.time, *, ticks: Any = time.perf_counter) -> tuple[float, float]:
        return clock(), ticks()


@dataclass
class Read:
    """Asks the agent to read."""

    rounds: int = 1
    wait: float = 0.0


@dataclass
class Ask:
    """Asks the agent for what it drew last."""


class Reader(RoutedAgent):
    """Keeps everything that it read."""

    def __init__(self) -> None:
        super().__init__("reads")
        self.born = DateTime.now(timezone.utc)
        self.name = uuid.uuid4().hex
        self.rng = Random()
        self.began = time.monotonic()
        self.lucky = random.randint(1, 10**9)
        self.seen: list[Any] = []

    @message_handler
    async def on_read(self, message: Read, ctx: MessageContext) -> int:
        for _ in range(message.rounds):
            self.seen.append(self._read())
            await asyncio.sleep(message.wait)
            self.seen.append((time.time(), uuid4(), random.random()))
        return len(self.seen)

    @message_handler
    async def on_ask(self, message: Ask, ctx: MessageContext) -> str:
        return repr(self.seen[-1])

    def _read(self) -> dict[str, Any]:
        import time as local_time
        from datetime import datetime as LocalDateTime
        from time import time as local_now

        cards = list(range(20))
        shuffle(cards)
        others = list("abcdefgh")
        random.shuffle(others)
        return {
            "time": (time.time(), now(), time_ns(), time.time_ns(), local_time.time(), local_now()),
            "monotonic": (time.monotonic(), monotonic(), time.monotonic_ns(), self.began),
            "counter": (time.perf_counter(), stopwatch(), time.perf_counter_ns(), default_timer()),
            "process": (time.process_time(), time.process_time_ns(), time.thread_time()),
            "by id": (time.clock_gettime(time.CLOCK_REALTIME), time.clock_gettime_ns(time.CLOCK_MONOTONIC)),
            "calendar": (tuple(time.localtime()), tuple(time.gmtime()), tuple(time.gmtime(5))),
            "text": (time.ctime(), time.asctime(), time.strftime("%H:%M:%S"), time.strftime("%Y", time.gmtime(0))),
            "now": (
                datetime.datetime.now(),
                DateTime.now(timezone.utc),
                dt.datetime.now(tz=BERLIN),
                LocalDateTime.now(),
            ),
            "today": (datetime.date.today(), date.today(), DateTime.today()),
            "subclass": (Later.now().isoformat(), Later.now(BERLIN).isoformat(), type(Later.now()).__name__),
            "uuid": (uuid.uuid4(), uuid4(), new_id(), uuid.uuid1(), uuid1()),
            "random": (
                random.random(),
                draw(),
                random.randint(1, 10**12),
                choice("abcdef"),
                gauss(0, 1),
                random.gauss(1, 2),
            ),
            "more": (
                random.sample(range(100), 5),
                random.choices("abc", k=4),
                random.uniform(1, 2),
                random.getrandbits(70),
            ),
            "bytes": (random.randbytes(7), os.urandom(9), secrets.token_bytes(5)),
            "shuffled": (cards, others),
            "made": (Random().random(), random.Random(5).random(), self.rng.random(), random.SystemRandom().random()),
            "system": (random.SystemRandom().randint(1, 10**15), random.SystemRandom().sample(range(50), 3)),
            "tokens": (token_hex(), secrets.token_urlsafe(), secrets.choice("xyz")),
            "secrets": (secrets.randbelow(10**9), secrets.randbits(61)),
            "library": (email.utils.formatdate(), statistics.NormalDist().samples(2)),
            "pydantic": (Stamp(), Envelope(), Envelope.model_validate({"given": {"id": "x"}})),
            "dataclass": (Note("a"), dataclasses.replace(Note("b"), text="c")),
            "class": (Clocked.clock(), Clocked().clock(), Clocked().stamp(), Clocked().at()),
            "state": self._state(),
        }

    def _state(self) -> tuple[Any, ...]:
        before = random.getstate()
        first = random.random()
        random.setstate(before)
        again = random.random()
        random.seed(5)
        seeded = random.random()
        random.seed()
        return first, again, seeded, random.random()
