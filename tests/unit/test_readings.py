"""Random overlapping handlers that read clocks, ids and random numbers replay with the same values (G3, G5)."""

# ruff: noqa: DTZ005, DTZ011
from __future__ import annotations

import asyncio
import datetime
import os
import random
import secrets
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from autogen_core import Agent, AgentInstantiationContext, MessageContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autogen_eventlog.codec import Codec
from autogen_eventlog.effects.ambient import callers, install
from autogen_eventlog.events import RecordedEvent
from autogen_eventlog.incarnation.facade import RuntimeFacade
from autogen_eventlog.incarnation.incarnation import Incarnation
from autogen_eventlog.incarnation.producer import producer_of
from autogen_eventlog.replay.follow import follow
from autogen_eventlog.replay.journal import READINGS
from autogen_eventlog.replay.loop import SESSION
from autogen_eventlog.replay.machine import Machine
from autogen_eventlog.replay.reading import READER
from autogen_eventlog.testing.equality import difference

from .bench import AGENT, IDS, ListAppender, RandomWorld, connect, each, envelope, incarnate
from .random_programs import Programmed

# The bench stands for the runtime and the log, which run amid an agent's code and are not it.
callers._roles["tests.unit.bench"] = callers.Role.BESIDE  # pyright: ignore[reportPrivateUsage]

READS: dict[str, Callable[[], Any]] = {
    "time": lambda: time.time(),
    "monotonic": lambda: (time.monotonic(), time.monotonic_ns()),
    "counter": lambda: time.perf_counter_ns(),
    "now": lambda: datetime.datetime.now(datetime.timezone.utc),
    "local": lambda: (datetime.datetime.now(), datetime.date.today()),
    "uuid4": lambda: uuid.uuid4(),
    "uuid1": lambda: uuid.uuid1(),
    "random": lambda: (random.random(), random.gauss(0, 1), random.sample(range(99), 3)),
    "seed": lambda: random.seed(7),
    "reseed": lambda: random.seed(),
    "own": lambda: random.Random().random(),
    "system": lambda: random.SystemRandom().choice("abcdef"),
    "token": lambda: (secrets.token_hex(3), os.urandom(2)),
}

steps = st.deferred(
    lambda: st.lists(
        st.one_of(
            st.tuples(st.just("read"), st.sampled_from(sorted(READS))),
            st.tuples(st.just("yield")),
            st.tuples(st.just("sleep"), st.sampled_from([0.0005, 0.001])),
            st.tuples(st.just("call"), st.integers(0, 9)),
            st.tuples(st.just("publish"), st.integers(0, 9)),
            st.tuples(
                st.just("spawn"), st.lists(st.tuples(st.just("read"), st.sampled_from(sorted(READS))), max_size=3)
            ),
            st.tuples(st.just("gather"), st.lists(steps, min_size=1, max_size=2)),
        ),
        max_size=5,
    )
)


class Reading(Programmed):
    """Runs programs that read."""

    def __init__(self) -> None:
        super().__init__()
        self.name = uuid.uuid4()
        self.lucky = random.random()

    async def do_read(self, who: int, ctx: MessageContext, what: str) -> None:
        self.trace.append((who, what, READS[what]()))


async def made(
    factory: Callable[[], Agent], machine: Machine | None = None, *, first: RecordedEvent | None = None
) -> Incarnation:
    """An incarnation whose instance is made, and whose readings are recorded, as a runtime does it."""
    incarnation = Incarnation(AGENT, codec=Codec(), ids=IDS, machine=machine)
    incarnation.record_readings(install())
    incarnation.construction.follow(first)
    facade = RuntimeFacade(None)  # type: ignore[arg-type]
    facade.attach(incarnation)
    with AgentInstantiationContext.populate_context((facade, AGENT)):
        incarnation.agent = await incarnation.construction.run(factory)
    return incarnation


def announcing(incarnation: Incarnation, appender: ListAppender) -> None:
    connect(incarnation, appender, RandomWorld(1))
    incarnation.on_live = lambda: incarnation.announce(producer_of(incarnation.agent))


async def lived(programs: list[Any], appender: ListAppender) -> Reading:
    incarnation = await made(Reading)
    announcing(incarnation, appender)
    incarnation.begin()
    deliveries = []
    for number, program in enumerate(programs):
        deliveries.append(incarnation.deliver(envelope(incarnation.codec, program))[0])
        if number % 2:
            await asyncio.sleep(0.0007)
    await asyncio.wait([delivery.done for delivery in deliveries])
    agent = incarnation.agent
    assert isinstance(agent, Reading)
    while agent.background or not incarnation.quiet:
        await asyncio.sleep(0.001)
    last, _ = incarnation.deliver(envelope(incarnation.codec, []))
    await last.done
    incarnation.end()
    return agent


async def replayed(appender: ListAppender, *, continues: bool = False, until: int | None = None) -> Incarnation:
    events = appender.events[:until]
    machine = Machine()
    incarnation = await made(Reading, machine, first=events[0])
    incarnation.continues = continues
    if continues:
        announcing(incarnation, appender)
    await follow(incarnation, machine, each(list(events)))
    if not continues:
        incarnation.end()
    elif not incarnation.live:
        incarnation.go_live()
    return incarnation


def state(incarnation: Incarnation | Reading) -> Any:
    agent = incarnation if isinstance(incarnation, Reading) else incarnation.agent
    assert isinstance(agent, Reading)
    return agent.name, agent.lucky, agent.trace


@settings(max_examples=int(os.environ.get("EVENTLOG_TEST_PROGRAMS", "60")), deadline=None)
@given(st.lists(steps, min_size=1, max_size=6), st.data())
def test_overlapping_handlers_read_the_same_in_replay(programs: list[Any], data: st.DataObject) -> None:
    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        appender = ListAppender()
        agent = await lived(programs, appender)
        assert not (await made(Reading)).construction.differs
        assert difference(state(agent), state(await replayed(appender))) is None
        until = data.draw(st.integers(1, len(appender.events)), label="cut")
        first, second = await replayed(appender, until=until), await replayed(appender, until=until)
        assert difference(state(first), state(second)) is None

    asyncio.run(run())


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, min_size=1, max_size=4), st.data())
def test_a_recovered_agent_that_reads_on_replays_as_a_whole(programs: list[Any], data: st.DataObject) -> None:
    """Cut anywhere, as by a kill, it goes on live in the middle of its handlers, and a later replay has both parts."""

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        appender = ListAppender()
        await lived(programs, appender)
        cut = ListAppender(appender.events[: data.draw(st.integers(1, len(appender.events)), label="cut")])
        recovered = await replayed(cut, continues=True)
        while recovered.deliveries or not recovered.quiet:
            await asyncio.sleep(0.001)
        last, _ = recovered.deliver(envelope(recovered.codec, [("read", "monotonic"), ("read", "random")]))
        await last.done
        recovered.end()
        assert difference(state(recovered), state(await replayed(cut))) is None

    asyncio.run(run())


# -- which part of a stream holds which readings ------------------------------------------------------------------------


class Plain(Programmed):
    async def do_read(self, who: int, ctx: MessageContext, what: str) -> None:
        self.trace.append((what, READS[what]()))


async def lived_plainly(
    appender: ListAppender, program: list[Any], *, families: frozenset[str], factory: type[Plain] | None = None
) -> Incarnation:
    incarnation = incarnate(factory or Plain)
    incarnation.record_readings(families)
    announcing(incarnation, appender)
    incarnation.begin()
    delivery, _ = incarnation.deliver(envelope(incarnation.codec, program))
    await delivery.done
    return incarnation


def trace(incarnation: Incarnation) -> list[Any]:
    agent = incarnation.agent
    assert isinstance(agent, Plain)
    return agent.trace


async def replayed_plainly(events: list[RecordedEvent], *, factory: type[Plain] | None = None) -> Incarnation:
    machine = Machine()
    incarnation = incarnate(factory or Plain, machine)
    incarnation.record_readings(install())
    incarnation.continues = False
    await follow(incarnation, machine, each(events))
    incarnation.end()
    return incarnation


async def test_only_families_that_the_stream_names_are_answered() -> None:
    install()
    appender = ListAppender()
    live = await lived_plainly(appender, [("read", "time"), ("read", "uuid4")], families=frozenset({"uuid"}))
    found = trace(await replayed_plainly(appender.events))
    assert found[1] == trace(live)[1]
    assert found[0] != trace(live)[0]


async def test_a_stream_that_names_none_is_left_to_the_moment() -> None:
    install()
    appender = ListAppender()
    await lived_plainly(appender, [("read", kind) for kind in READS], families=frozenset())
    for producer in ({}, {READINGS: []}, None):
        appender.events[0].metadata["producer"] = producer
        assert len(trace(await replayed_plainly(appender.events))) == len(READS)


async def test_an_old_handler_that_goes_on_in_a_new_process_reads_there_and_the_log_says_so() -> None:
    """It goes live amid a callback, at the first reading past the journal, and from there on readings are recorded."""
    install()
    appender = ListAppender()
    await lived_plainly(appender, [("read", "time"), ("publish", 1), ("read", "time")], families=frozenset())
    cut = ListAppender([event for event in appender.events if event.version <= 3])
    assert cut.events[-1].topic is not None
    machine = Machine()
    recovered = incarnate(Plain, machine)
    recovered.record_readings(install())
    announcing(recovered, cut)
    await follow(recovered, machine, each(list(cut.events)))
    assert recovered.live
    while recovered.deliveries:
        await asyncio.sleep(0)
    again = await replayed_plainly(cut.events)
    assert trace(again)[1] == trace(recovered)[1]
    assert trace(again)[0] != trace(recovered)[0]


async def test_a_view_that_reads_past_its_end_sees_nothing_move() -> None:
    install()
    appender = ListAppender()
    program: list[Any] = [("read", "monotonic"), ("spawn", [("yield",), *[("read", kind) for kind in READS]])]
    await lived_plainly(appender, program, families=install())
    views = [await replayed_plainly(appender.events) for _ in range(2)]
    assert trace(views[0]) == trace(views[1])


async def test_a_thread_with_the_agents_context_reads_for_itself() -> None:
    install()
    appender = ListAppender()

    class Threading(Plain):
        async def do_thread(self, who: int, ctx: MessageContext) -> None:
            self.trace.append(await asyncio.to_thread(lambda: (READER.get() is not None, time.time(), uuid.uuid4())))

    incarnation = incarnate(Threading)
    incarnation.record_readings(install())
    announcing(incarnation, appender)
    incarnation.begin()
    delivery, _ = incarnation.deliver(envelope(incarnation.codec, [("thread",)]))
    await delivery.done
    observed = [seen for event in appender.events for seen in event.metadata.get("observations", ())]
    assert [seen for seen in observed if seen[0] == "r"] == []


async def test_what_is_read_in_order_to_read_is_no_reading_of_its_own() -> None:
    """A model client that counts tokens may look at the clock for it; replay does not ask the client."""
    install()
    appender = ListAppender()

    class Counting(Plain):
        async def do_count(self, who: int, ctx: MessageContext) -> None:
            session: Any = SESSION.get()
            self.trace.append(("count", session.reading("model.count_tokens", lambda: int(time.time() * 0) + 5, 0)))

    program: list[Any] = [("count",), ("read", "time")]
    live = await lived_plainly(appender, program, families=install(), factory=Counting)
    assert trace(await replayed_plainly(appender.events, factory=Counting)) == trace(live)


@pytest.mark.parametrize("kind", ["monotonic", "counter"])
async def test_clocks_without_a_date_go_on_where_they_stopped(kind: str) -> None:
    """A later process may run on a machine that was started later."""
    appender = ListAppender()
    live = await lived_plainly(appender, [("read", kind)], families=install())
    live.end()
    machine = Machine()
    recovered = incarnate(Plain, machine)
    recovered.record_readings(install())
    announcing(recovered, appender)
    await follow(recovered, machine, each(as_of_an_older_machine(list(appender.events))))
    recovered.begin()
    delivery, _ = recovered.deliver(envelope(recovered.codec, [("read", kind)]))
    await delivery.done
    (_, first), (_, second) = trace(recovered)
    lowest = min(second) if isinstance(second, tuple) else second
    assert lowest >= (first[0] if isinstance(first, tuple) else first)


def as_of_an_older_machine(events: list[RecordedEvent]) -> list[RecordedEvent]:
    """The same events, of a machine that had run for much longer."""
    for event in events:
        for observed in event.metadata.get("observations", ()):
            if observed[0] == "r":
                kind, value = observed[1]
                observed[1] = [kind, value + 10**15 if kind.endswith("_ns") else value + 10**6]
    return events
