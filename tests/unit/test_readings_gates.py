"""The gates: where they stand, whom they serve, and that everybody else sees Python as it is."""

# ruff: noqa: DTZ002, DTZ005, DTZ011
from __future__ import annotations

import asyncio
import copy
import dataclasses
import datetime
import email.utils
import functools
import importlib
import inspect
import json
import logging
import os
import pickle
import queue
import random
import secrets
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import timeit
import types
import uuid
import warnings
from collections.abc import Callable, Iterator
from random import Random
from typing import Any
from unittest import mock

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from autogen_eventlog.codec import Codec
from autogen_eventlog.effects.ambient import callers, install, remove
from autogen_eventlog.effects.ambient.callers import Role, role_of
from autogen_eventlog.effects.ambient.captured import Captured
from autogen_eventlog.effects.ambient.gates import Gate
from autogen_eventlog.replay.reading import READER

FAMILIES = {"time", "datetime", "uuid", "random"}


_around: dict[str, Any] = {"__name__": "autogen_eventlog.replay"}
exec("def called(function, *args, **keywords): return function(*args, **keywords)", _around)


def as_agents(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test as the code of an agent: what calls it is not pytest, which stands beside agents."""
    return functools.wraps(test)(functools.partial(_around["called"], test))


class Recorder:
    """An agent's reading side that keeps what it is asked for, or answers from what it kept."""

    def __init__(self, answers: list[Any] | None = None) -> None:
        self.read: list[tuple[str, Any]] = []
        self.answers = answers
        self.running = True
        self.replays = False
        self.generator: Random | None = None
        self.moment = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
        self.added = 0

    def records(self, family: str) -> bool:
        return family in FAMILIES

    def reading(self, kind: str, read: Callable[[], Any], otherwise: Any) -> Any:
        if self.answers is None:
            self.read.append((kind, read()))
            return self.read[-1][1]
        if not self.answers:
            return otherwise
        asked, value = self.answers.pop(0)
        assert asked == kind
        return value

    def seen(self, clock: str, nanoseconds: int) -> None: ...

    def offset(self, clock: str, now: int) -> int:
        return self.added

    def last_seen(self, clock: str) -> int:
        return 12_500_000_000

    def filler(self, size: int) -> bytes:
        return bytes(range(size))

    @property
    def scope(self) -> Recorder:
        return self


@pytest.fixture(autouse=True)
def gates() -> None:
    install()


@pytest.fixture
def reader() -> Iterator[Recorder]:
    made = Recorder()
    token = READER.set(made)
    yield made
    READER.reset(token)


READS: dict[str, Callable[[], Any]] = {
    "time.time": lambda: time.time(),
    "time.time_ns": lambda: time.time_ns(),
    "time.monotonic": lambda: time.monotonic(),
    "time.perf_counter_ns": lambda: time.perf_counter_ns(),
    "time.process_time": lambda: time.process_time(),
    "time.thread_time_ns": lambda: time.thread_time_ns(),
    f"time.clock_gettime {time.CLOCK_REALTIME}": lambda: time.clock_gettime(time.CLOCK_REALTIME),
    "time.localtime": lambda: time.localtime(),
    "time.gmtime": lambda: time.gmtime(None),
    "datetime.now": lambda: datetime.datetime.now(datetime.timezone.utc),
    "datetime.today": lambda: datetime.datetime.today(),
    "date.today": lambda: datetime.date.today(),
    "uuid.uuid1": lambda: uuid.uuid1(),
    "uuid.uuid4": lambda: uuid.uuid4(),
    "random.seed": lambda: random.Random().random(),
    "random.SystemRandom.random": lambda: random.SystemRandom().random(),
    "random.SystemRandom.getrandbits": lambda: secrets.randbits(77),
    "random.SystemRandom.randbytes": lambda: secrets.token_bytes(3),
    "os.urandom": lambda: os.urandom(5),
}


@pytest.mark.parametrize("kind", READS)
@as_agents
def test_a_reading_is_recorded_under_its_kind_and_answered_by_its_record(kind: str, reader: Recorder) -> None:
    live = READS[kind]()
    assert [asked for asked, _ in reader.read] == [kind]
    recorded = [list(one) for one in reader.read]
    reader.answers = json.loads(json.dumps(recorded))
    again = READS[kind]()
    assert (again, type(again)) == (live, type(live))
    assert reader.answers == []


@pytest.mark.parametrize("kind", READS)
@as_agents
def test_a_view_that_reads_past_its_end_gets_something_of_the_kind(kind: str, reader: Recorder) -> None:
    reader.answers = []
    made = READS[kind]()
    assert type(made) is type(_outside(READS[kind]))
    assert READS[kind]() == made


def _outside(read: Callable[[], Any]) -> Any:
    token = READER.set(None)
    try:
        return read()
    finally:
        READER.reset(token)


@as_agents
def test_a_moment_is_told_in_the_zone_that_is_asked_for(reader: Recorder) -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2), "here")
    live = datetime.datetime.now(zone)
    assert live.tzinfo is zone
    reader.answers = [list(one) for one in reader.read]
    again = datetime.datetime.now(zone)
    assert again == live and again.tzinfo is zone


@as_agents
def test_the_second_of_two_equal_hours_is_told_as_such(reader: Recorder) -> None:
    reader.answers = [["datetime.now", "2026-10-25T02:30:00*"]]
    assert datetime.datetime.now().fold == 1


@as_agents
def test_a_subclass_of_datetime_is_told_moments_of_its_own(reader: Recorder) -> None:
    class Special(datetime.datetime):
        pass

    class Day(datetime.date):
        pass

    live = [Special.now(), Special.now(datetime.timezone.utc), Special.today(), Day.today()]
    assert [type(one) for one in live] == [Special, Special, Special, Day]
    reader.answers = [list(one) for one in reader.read]
    assert [Special.now(), Special.now(datetime.timezone.utc), Special.today(), Day.today()] == live


@as_agents
def test_what_can_not_be_read_is_refused_as_ever_and_not_recorded(reader: Recorder) -> None:
    with pytest.raises(TypeError):
        datetime.datetime.now("UTC")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="negative"):
        os.urandom(-1)
    with pytest.raises(TypeError):
        time.time(1)  # type: ignore[call-arg]
    with pytest.raises(ValueError):
        random.SystemRandom().getrandbits(-1)
    assert reader.read == []


@as_agents
def test_sleeping_takes_no_time_in_replay(reader: Recorder) -> None:
    clock: Any = time.monotonic.__self__  # type: ignore[attr-defined]
    at = clock.real()
    time.sleep(0.02)
    assert clock.real() - at >= 0.02
    reader.replays = True
    at = clock.real()
    time.sleep(3600)
    assert clock.real() - at < 60
    with pytest.raises(ValueError, match="non-negative"):
        time.sleep(-1)
    with pytest.raises(TypeError):
        time.sleep("1")  # type: ignore[arg-type]


@as_agents
def test_a_moment_that_is_given_is_no_reading(reader: Recorder) -> None:
    assert time.gmtime(0).tm_year == 1970
    assert time.strftime("%Y", time.gmtime(0)) == "1970"
    assert time.ctime(0) == time.asctime(time.localtime(0))
    assert reader.read == []


@as_agents
def test_texts_of_now_are_those_of_the_recorded_moment(reader: Recorder) -> None:
    reader.answers = [["time.localtime", [2026, 1, 2, 3, 4, 5, 4, 2, 0, "UTC", 0]] for _ in range(4)]
    assert (time.ctime(), time.ctime(None), time.asctime()) == ("Fri Jan  2 03:04:05 2026",) * 3
    assert time.strftime("%H:%M") == "03:04"


# -- randomness of a delivery -------------------------------------------------------------------------------------------


@as_agents
def test_one_seed_serves_a_delivery_however_much_is_drawn(reader: Recorder) -> None:
    cards = list(range(1000))
    random.shuffle(cards)
    drawn = [random.random() for _ in range(1000)] + [random.gauss(0, 1), random.choice(cards)]
    assert [kind for kind, _ in reader.read] == ["random.seed"]
    reader.answers, reader.generator = [list(one) for one in reader.read], None
    again = list(range(1000))
    random.shuffle(again)
    assert again == cards
    assert [random.random() for _ in range(1000)] + [random.gauss(0, 1), random.choice(cards)] == drawn


@as_agents
def test_seeding_within_a_delivery_is_for_the_delivery_alone(reader: Recorder) -> None:
    before = _outside(random.getstate)
    random.seed(3)
    assert random.random() == random.Random(3).random()
    state = random.getstate()
    first = random.random()
    random.setstate(state)
    assert random.random() == first
    random.seed()
    assert [kind for kind, _ in reader.read] == ["random.seed", "random.seed"]
    after = _outside(random.getstate)
    assert before[0] == after[0]
    assert before[1] != after[1]  # a seed was drawn from it, once


@as_agents
def test_a_program_that_seeds_its_generator_draws_the_same_in_deliveries_too() -> None:
    def delivery() -> float:
        token = READER.set(Recorder())
        try:
            return random.random()
        finally:
            READER.reset(token)

    random.seed(11)
    first = [delivery(), delivery()]
    random.seed(11)
    assert [delivery(), delivery()] == first


# -- whom they serve ------------------------------------------------------------------------------------------------------


@as_agents
def test_libraries_that_draw_for_their_caller_draw_for_the_agent(reader: Recorder) -> None:
    email.utils.formatdate()
    statistics.NormalDist().samples(1)
    secrets.token_hex(2)
    assert len(reader.read) == 3


@as_agents
def test_python_reads_for_itself(reader: Recorder, tmp_path: Any) -> None:
    with pytest.raises(queue.Empty):
        queue.Queue[int]().get(timeout=0.0001)
    with tempfile.TemporaryDirectory(dir=tmp_path):
        pass
    logging.getLogger("test").warning("a record has a time")
    assert reader.read == []


@as_agents
def test_what_is_imported_by_a_handler_reads_for_itself(
    reader: Recorder, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_late.py").write_text("import time, uuid\nMADE = (time.time(), uuid.uuid4())\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("imported_late")
    assert reader.read == []


@as_agents
def test_who_does_not_run_reads_for_himself(reader: Recorder) -> None:
    reader.running = False
    for read in READS.values():
        read()
    assert reader.read == []


async def test_other_tasks_read_for_themselves(reader: Recorder) -> None:
    token = READER.set(None)
    other = asyncio.create_task(asyncio.sleep(0, time.time()))
    READER.reset(token)
    await other
    assert reader.read == []


@pytest.mark.parametrize(
    ("module", "role"),
    [
        ("__main__", Role.AGENT),
        ("shop.agents", Role.AGENT),
        ("autogen_agentchat.messages", Role.AGENT),
        ("pydantic.main", Role.AGENT),
        ("", Role.AGENT),
        ("asyncio.base_events", Role.LIBRARY),
        ("logging", Role.BESIDE),
        ("logging.handlers", Role.BESIDE),
        ("opentelemetry.sdk.trace", Role.BESIDE),
        ("psycopg.connection", Role.BESIDE),
        ("autogen_eventlog.codec.codec", Role.BESIDE),
        ("autogen_eventlog.runtime.shell", Role.BESIDE),
        ("autogen_eventlog.incarnation.incarnation", Role.AROUND),
        ("random", Role.THROUGH),
    ],
)
def test_every_module_has_a_role(module: str, role: Role) -> None:
    assert role_of(module) is role


def test_a_module_of_the_users_with_a_name_of_pythons_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = types.ModuleType("sched")
    mine.__file__ = "/home/somebody/site/sched.py"
    monkeypatch.setitem(sys.modules, "sched", mine)
    monkeypatch.setattr(callers, "_roles", {})
    assert role_of("sched") is Role.AGENT


# -- everybody else -----------------------------------------------------------------------------------------------------


def test_the_classes_of_datetime_are_what_they_were() -> None:
    now = datetime.datetime.now()
    assert type(now) is datetime.datetime
    assert pickle.loads(pickle.dumps(now)) == now
    assert TypeAdapter(datetime.datetime).validate_python(now.isoformat()) == now
    codec = Codec()
    assert codec.decode(codec.encode(now).data) == now
    match now:
        case datetime.datetime(year=year):
            assert year == now.year
    assert issubclass(datetime.datetime, datetime.date)
    assert datetime.datetime.now.__self__ is datetime.datetime


def test_gates_can_be_copied_pickled_and_looked_at() -> None:
    for gate in (time.time, random.random, os.urandom):
        assert copy.deepcopy(gate) == gate == copy.copy(gate)
        assert pickle.loads(pickle.dumps(gate)) == gate
        assert "recorded for agents" in repr(gate)
    assert (random.choice.__name__, random.choice.__module__) == ("choice", "random")
    assert "Epoch" in (time.time.__doc__ or "")
    assert str(inspect.signature(uuid.uuid1)) == "(node=None, clock_seq=None)"
    assert inspect.signature(datetime.datetime.now).parameters["tz"].default is None
    assert timeit.default_timer == time.perf_counter


def test_a_function_of_c_on_a_class_is_still_no_method() -> None:
    class Holder:
        clock = time.time
        draw = random.random

    assert Holder().clock() > 0
    assert 0 <= Holder().draw() < 1


def test_what_others_put_in_place_is_used() -> None:
    with mock.patch("time.time", return_value=5.0), mock.patch("uuid.uuid4", return_value="id"):
        assert (time.time(), uuid.uuid4()) == (5.0, "id")
    assert time.time() > 5


@pytest.mark.skipif(sys.version_info < (3, 12), reason="not deprecated there")
def test_the_warning_of_utcnow_blames_its_caller() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        datetime.datetime.utcnow()  # noqa: DTZ003
    assert [(one.category, one.filename) for one in caught] == [(DeprecationWarning, __file__)]


# -- what was imported before -------------------------------------------------------------------------------------------

BEFORE = """
import dataclasses, datetime, functools, random, time, uuid
from datetime import datetime as DateTime
from os import urandom
from random import choice, random as draw
from time import time as now
from pydantic import BaseModel, Field

class Model(BaseModel):
    at: DateTime = Field(default_factory=DateTime.now)
    zoned: DateTime = Field(default_factory=functools.partial(DateTime.now, datetime.timezone.utc))
    seconds: float = Field(default_factory=time.time)

class Holding(BaseModel):
    model: Model | None = None

class Derived(Model):
    chance: float = Field(default_factory=random.random)

@dataclasses.dataclass
class Data:
    at: DateTime = dataclasses.field(default_factory=DateTime.now)
    seconds: float = dataclasses.field(default_factory=now)
    id: uuid.UUID = dataclasses.field(default_factory=uuid.uuid4)

class Plain:
    clock = staticmethod(time.monotonic)
    class Inner:
        clock = time.time

    def at(self, clock=now, *, ticks=time.perf_counter):
        return clock(), ticks()

def everything():
    return [now(), draw(), choice("ab"), urandom(2), Model(), Holding.model_validate({"model": {}}), Derived(),
        Data(), Plain.clock(), Plain.Inner.clock(), Plain().at()]
"""


@as_agents
def test_what_was_imported_before_is_reached_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    remove()
    module = types.ModuleType("imported_before")
    monkeypatch.setitem(sys.modules, "imported_before", module)
    exec(BEFORE, module.__dict__)
    real = dict(vars(module))
    install()
    found: Any = module
    recorder = Recorder()
    token = READER.set(recorder)
    try:
        found.everything()
    finally:
        READER.reset(token)
    kinds = [kind for kind, _ in recorder.read]
    assert kinds == [
        *("time.time", "random.seed", "os.urandom"),
        *("datetime.now", "datetime.now", "time.time"),
        *("datetime.now", "datetime.now", "time.time"),
        *("datetime.now", "datetime.now", "time.time"),
        *("datetime.now", "time.time", "uuid.uuid4"),
        *("time.monotonic", "time.time", "time.time", "time.perf_counter"),
    ]
    remove()
    assert found.now is real["now"] is time.time
    assert type(time.time) is types.BuiltinFunctionType
    install()


HELD = """
import dataclasses, datetime, functools, random, time, types
from pydantic import Field
from pydantic.dataclasses import dataclass

class Later(datetime.datetime):
    pass

class Clock:
    def __init__(self, clock):
        self.clock = clock

class Slotted:
    __slots__ = ("clock", "__hidden")

    def __init__(self, clock):
        self.clock = self.__hidden = clock

    def hidden(self):
        return self.__hidden()

@dataclasses.dataclass(frozen=True)
class Frozen:
    clock: object

def made(clock, *more):
    class Local:
        inner = clock

        def at(self, default=clock):
            return default()

    @dataclasses.dataclass
    class Data:
        at: float = dataclasses.field(default_factory=clock)

    return [lambda: clock(), Local.inner, Local().at, Data, lambda: more[0]()]

@dataclass
class Validated:
    at: datetime.datetime = Field(default_factory=datetime.datetime.now)
    seconds: float = dataclasses.field(default_factory=time.time)

def call(function):
    return function()

clock, slotted, frozen = Clock(time.time), Slotted(time.time), Frozen(time.time)
simple = types.SimpleNamespace(clock=time.time)
by_name, listed, nested = {"wall": time.time}, [time.time], (1, (time.time, 2))
argument = functools.partial(call, time.time)
moments = [datetime.datetime.now, Later.now]
closed = made(time.time, time.time)
bound = clock.clock

def everything():
    return [clock.clock(), slotted.clock(), slotted.hidden(), frozen.clock(), simple.clock(), by_name["wall"](), listed[0](),
        nested[1][0](), argument(), *(one() for one in moments), *(one() for one in closed), Validated(), bound()]
"""


@as_agents
def test_what_is_held_where_no_name_leads_is_reached_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    remove()
    module = types.ModuleType("holds")
    monkeypatch.setitem(sys.modules, "holds", module)
    exec(HELD, module.__dict__)
    found: Any = module
    before = [found.by_name, found.listed, found.clock]
    install()
    assert [found.by_name, found.listed, found.clock] == before, "they are the same objects"
    recorder = Recorder()
    token = READER.set(recorder)
    try:
        found.everything()
    finally:
        READER.reset(token)
    kinds = [kind for kind, _ in recorder.read]
    assert kinds == [
        *["time.time"] * 9,
        *["datetime.now"] * 2,
        *["time.time"] * 5,
        "datetime.now",
        "time.time",
        "time.time",
    ]
    remove()
    assert found.listed[0] is found.by_name["wall"] is found.clock.clock is found.nested[1][0] is time.time
    assert found.slotted.clock is found.frozen.clock is found.argument.args[0] is time.time
    install()


def test_the_modules_of_python_pydantic_and_the_driver_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    remove()
    taken = {
        name: types.ModuleType(name) for name in ("psycopg_pool.made", "pydantic.made", "logging.made", "shop.made")
    }
    for name, module in taken.items():
        module.__dict__["now"] = time.time
        monkeypatch.setitem(sys.modules, name, module)
    install()
    assert [name for name, module in taken.items() if vars(module)["now"] is time.time] == ["shop.made"]
    assert type(vars(threading)["_time"]) is types.BuiltinFunctionType


class Hostile:
    """A proxy without an object behind it, as web frameworks have them in their modules."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("working outside of a context")


def test_objects_that_act_when_they_are_looked_at_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("with_proxies")
    module.__dict__["proxy"] = Hostile()
    monkeypatch.setitem(sys.modules, "with_proxies", module)
    remove()
    install()


def test_a_model_that_can_not_be_built_again_is_named(caplog: pytest.LogCaptureFixture) -> None:
    class Stubborn(BaseModel):
        at: float = Field(default_factory=sum)  # type: ignore[arg-type]

        @classmethod
        def model_rebuild(cls, **_: Any) -> bool | None:
            raise TypeError("no")

    found = Captured([Gate("builtins", "sum", sum)])
    found._in_model(Stubborn)  # pyright: ignore[reportPrivateUsage]
    found._rebuild()  # pyright: ignore[reportPrivateUsage]
    assert "Stubborn draws from a clock or at random by a default that can't be recorded (no)" in caplog.text


def test_a_program_whose_agent_is_in_its_main_module_is_served() -> None:
    source = """
import time
from time import time as now
from datetime import datetime
from autogen_eventlog.effects.ambient import install
from autogen_eventlog.effects.ambient.gates import Gate
install()
assert isinstance(now.__self__, Gate) and now is time.time
from time import monotonic
assert isinstance(monotonic.__self__, Gate)
"""
    subprocess.run([sys.executable, "-c", source], check=True)


@as_agents
def test_dataclasses_that_are_made_later_find_the_gates() -> None:
    made = dataclasses.make_dataclass("Made", [("at", float, dataclasses.field(default_factory=time.time))])
    recorder = Recorder()
    token = READER.set(recorder)
    made()
    READER.reset(token)
    assert [kind for kind, _ in recorder.read] == ["time.time"]
