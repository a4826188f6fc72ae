"""(f) The distributed worker beside AutoGen's own, through AutoGen's host; failing over; states of agents elsewhere."""

from __future__ import annotations

import asyncio
import socket
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from uuid import uuid4

from autogen_core import AgentId, AgentRuntime, TypeSubscription, try_get_known_serializers_for_type
from autogen_ext.runtimes.grpc import GrpcWorkerAgentRuntime, GrpcWorkerAgentRuntimeHost

from autogen_eventlog import EventLogHandler, EventSourcedGrpcWorkerAgentRuntime
from autogen_eventlog.snapshots import SnapshotPolicy
from benchmarks.agents import TOPIC_TYPE, Add, Ledger, Listener, Total, topic
from benchmarks.places import Place, fresh
from benchmarks.report import Aim, Cell, Report, Table
from benchmarks.rounds import interleaved, ratio
from benchmarks.sizes import Sizes

_STOCK, _OURS = "AutoGen's worker", "ours"
_LISTENERS = 10
_WAVE = 100
_WARM = 3
_ASK = 1000

Worker = Callable[[], Awaitable[GrpcWorkerAgentRuntime]]


def run(dsn: str, sizes: Sizes) -> Report:
    place = fresh(dsn, "distributing")
    turns = {name: _turns(partial(turn, place, sizes.seconds), sizes) for name, turn in _scenarios(sizes).items()}
    rows: list[list[Cell]] = [
        [name, side, statistics.median(speeds), ratio(speeds, sides[_STOCK])]
        for name, sides in turns.items()
        for side, speeds in sides.items()
    ]
    speed = Table("Messages (publications) a second, from one worker to another.", ("", "side", "a second", "÷"), rows)
    widest = f"RPC, {sizes.callers[-1]} at once"
    aims = [Aim(f"distributed {widest}: ours ÷ AutoGen's", ratio(turns[widest][_OURS], turns[widest][_STOCK]), 0.8)]
    return Report([speed, asyncio.run(_failing_over(place, sizes)), asyncio.run(_states(place, sizes))], aims)


def _scenarios(sizes: Sizes) -> dict[str, Callable[[Place, float, str], float]]:
    calls = {f"RPC, {callers} at once": partial(_measure, act=partial(_calls, callers)) for callers in sizes.callers}
    return calls | {f"publish to {_LISTENERS}": partial(_measure, act=_publications)}


def _turns(turn: Callable[[str], float], sizes: Sizes) -> dict[str, list[float]]:
    return interleaved({side: partial(turn, side) for side in (_STOCK, _OURS)}, rounds=sizes.rounds)


Act = Callable[[AgentRuntime, float], Awaitable[float]]


def _measure(place: Place, seconds: float, side: str, *, act: Act) -> float:
    async def measure() -> float:
        async with _two_workers(place, side) as (front, _):
            return await act(front, seconds)

    return asyncio.run(measure())


async def _calls(callers: int, runtime: AgentRuntime, seconds: float) -> float:
    key, done = uuid4().hex[:8], 0

    async def call(number: int) -> None:
        await runtime.send_message(Add(1, "a small note"), AgentId("ledger", f"{key}-{number}"))

    async def caller(number: int) -> None:
        nonlocal done
        while time.perf_counter() - began < seconds:
            await call(number)
            done += 1

    for _ in range(_WARM):  # agents come up at their first message
        await asyncio.gather(*map(call, range(callers)))
    began = time.perf_counter()
    await asyncio.gather(*(caller(number) for number in range(callers)))
    return done / (time.perf_counter() - began)


async def _publications(runtime: AgentRuntime, seconds: float) -> float:
    """One after the other, each when all listeners have heard the one before."""
    key, done = uuid4().hex[:8], 0

    async def publish() -> None:
        heard = Hearing.expect(_LISTENERS)
        await runtime.publish_message(Add(1, "a small note"), topic(key))
        await heard

    for _ in range(_WARM):
        await publish()
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        await publish()
        done += 1
    return done / (time.perf_counter() - began)


class Hearing(Listener):
    """A listener that says when it has heard: both workers are in this process, so the publisher can be told."""

    _missing = 0
    _heard: asyncio.Future[None]

    @classmethod
    def expect(cls, times: int) -> asyncio.Future[None]:
        Hearing._missing = times
        Hearing._heard = asyncio.get_running_loop().create_future()
        return Hearing._heard

    def _book(self, message: Add) -> None:
        super()._book(message)
        Hearing._missing -= 1
        if not Hearing._missing:
            Hearing._heard.set_result(None)


# -- workers ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _hosted() -> AsyncGenerator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    host = GrpcWorkerAgentRuntimeHost(address)
    host.start()
    try:
        yield address
    finally:
        await host.stop(0)


@asynccontextmanager
async def _working(place: Place, side: str, address: str) -> AsyncGenerator[GrpcWorkerAgentRuntime]:
    async with AsyncExitStack() as stack:
        if side == _STOCK:
            runtime = GrpcWorkerAgentRuntime(address)
        else:
            log = await stack.enter_async_context(place.log())
            runtime = EventSourcedGrpcWorkerAgentRuntime(address, intervention_handlers=[EventLogHandler(log)])
        await runtime.start()
        for message in (Add, Total):
            runtime.add_message_serializer(try_get_known_serializers_for_type(message))
        try:
            yield runtime
        finally:
            await runtime.stop()


@asynccontextmanager
async def _two_workers(place: Place, side: str) -> AsyncGenerator[tuple[AgentRuntime, AgentRuntime]]:
    """One without agents, one with all of them."""
    async with _hosted() as address, _working(place, side, address) as front, _working(place, side, address) as back:
        await _settle(back)
        yield front, back


async def _settle(runtime: AgentRuntime) -> None:
    await Ledger.register(runtime, "ledger", Ledger)
    for number in range(_LISTENERS):
        name = f"listener{number}"
        await Hearing.register(runtime, name, Hearing, skip_class_subscriptions=True)
        await runtime.add_subscription(TypeSubscription(TOPIC_TYPE, name))


# -- failing over -------------------------------------------------------------------------------------------------


async def _failing_over(place: Place, sizes: Sizes) -> Table:
    """From the end of a worker to the first reply of the next, by the length of the agent's stream."""
    rows: list[list[Cell]] = []
    async with _hosted() as address, _working(place, _OURS, address) as front:
        for length in sizes.streams[:-1]:
            for snapshots in (None, sizes.snapshot_every):
                agent = AgentId("ledger", f"{uuid4().hex[:8]}")
                async with _ledger(place, address, snapshots):
                    await _fill(front, agent, length)
                taken: list[float] = []
                for _ in range(sizes.recovery_rounds):
                    began = time.perf_counter()
                    async with _ledger(place, address, snapshots):
                        await front.send_message(Add(1, "the next"), agent)
                        taken.append(time.perf_counter() - began)
                rows.append([length, "none" if snapshots is None else f"each {snapshots:,}", statistics.median(taken)])
    return Table("From starting the next worker to its agent's first reply.", ("events", "snapshots", "seconds"), rows)


@asynccontextmanager
async def _ledger(place: Place, address: str, snapshot_every: int | None) -> AsyncGenerator[None]:
    async with place.log() as log:
        policy = None if snapshot_every is None else SnapshotPolicy(every=snapshot_every, within=None)
        handler = EventLogHandler(log, snapshots=policy)
        runtime = EventSourcedGrpcWorkerAgentRuntime(address, intervention_handlers=[handler])
        await runtime.start()
        await Ledger.register(runtime, "ledger", Ledger)
        try:
            yield
        finally:
            await runtime.stop()


async def _fill(runtime: AgentRuntime, agent: AgentId, length: int) -> None:
    """In waves, because a snapshot is taken when nothing is under way. A message makes two events."""
    for begun in range(0, length // 2, _WAVE):
        wave = range(begun, min(begun + _WAVE, length // 2))
        await asyncio.gather(*(runtime.send_message(Add(n, "a small note"), agent) for n in wave))


async def _states(place: Place, sizes: Sizes) -> Table:
    """`save_state` of agents that are all on another worker."""
    many = min(_ASK, sizes.log_agents)
    async with _two_workers(fresh(place.dsn, "distributing"), _OURS) as (front, _):
        agents = [AgentId("ledger", str(number)) for number in range(many)]
        for begun in range(0, many, _WAVE):
            wave = agents[begun : begun + _WAVE]
            await asyncio.gather(*(front.send_message(Add(1, "a small note"), agent) for agent in wave))
        began = time.perf_counter()
        saved = await front.save_state()
        taken = time.perf_counter() - began
    if len(saved) != many:
        raise AssertionError(f"{many} agents, {len(saved)} saved")
    return Table(
        "States of agents on another worker.", ("agents", "seconds", "a second"), [[many, taken, many / taken]]
    )
