"""(c) How fast a stream is replayed, beside how fast it was recorded."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from autogen_core import AgentId

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from benchmarks.agents import Add, Asker, Ledger, register
from benchmarks.places import Place, fresh
from benchmarks.report import Aim, Cell, Report, Table
from benchmarks.rounds import ratio
from benchmarks.sizes import Sizes

_WANTED = 5.0


@dataclass(frozen=True, slots=True)
class Case:
    """Messages to one agent, by so many callers at once."""

    name: str
    agent_type: str
    callers: int
    wanted: float | None


CASES = (
    Case("sequential: one caller", "ledger", 1, _WANTED),
    Case("overlapping: 20 callers; handlers sleep, call, sleep", "asker", 20, _WANTED),
    Case("saturated: 100 callers; handlers never wait", "ledger", 100, None),
)


@dataclass(frozen=True, slots=True)
class Turn:
    """One stream, recorded and replayed; events a second."""

    events: int
    live: float
    replayed: float


def run(dsn: str, sizes: Sizes) -> Report:
    place = fresh(dsn, "replaying")
    turns: dict[Case, list[Turn]] = {case: [] for case in CASES}
    for _ in range(sizes.replay_rounds):
        for case in CASES:
            turns[case].append(asyncio.run(_turn(place, case, sizes.replay_messages)))
    ratios = {case: ratio([turn.replayed for turn in of], [turn.live for turn in of]) for case, of in turns.items()}
    rows = [_row(case, of, ratios[case]) for case, of in turns.items()]
    aims = [Aim(f"replay, {case.name}: replay ÷ live", ratios[case], case.wanted) for case in CASES if case.wanted]
    columns = ("", "events", "recorded, events/s", "replayed, events/s", "replay ÷ live")
    return Report([Table("A view of the newest version, without snapshots.", columns, rows)], aims)


def _row(case: Case, turns: Sequence[Turn], found: float) -> Sequence[Cell]:
    live, replayed = (statistics.median(speed) for speed in zip(*((t.live, t.replayed) for t in turns), strict=True))
    return [case.name, turns[0].events, live, replayed, found]


async def _turn(place: Place, case: Case, messages: int) -> Turn:
    async with place.log() as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, snapshots=None)])
        await register(runtime)
        runtime.start()
        agent = AgentId(case.agent_type, uuid4().hex[:8])
        live = await _record(runtime, agent, case.callers, messages)
        events, replayed = await _replay(log, runtime, agent)
        await runtime.stop_when_idle()
    return Turn(events, events / live, events / replayed)


async def _record(runtime: EventSourcedAgentRuntime, agent: AgentId, callers: int, messages: int) -> float:
    """The seconds it took."""
    numbers = iter(range(messages))

    async def caller() -> None:
        for number in numbers:
            await runtime.send_message(Add(number, "a small note"), agent)

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return time.perf_counter() - began


async def _replay(log: EventLog, runtime: EventSourcedAgentRuntime, agent: AgentId) -> tuple[int, float]:
    """The events replayed, and the seconds it took; the result is the live agent's state, or there is no number."""
    head = await log.version_at(agent)
    began = time.perf_counter()
    viewed = await runtime.view(agent, version=head)
    taken = time.perf_counter() - began
    live = await runtime.try_get_underlying_agent_instance(agent)
    if _state(viewed) != _state(live):
        raise AssertionError(f"{agent} was replayed to {_state(viewed)} and is {_state(live)}")
    return head, taken


def _state(agent: object) -> object:
    if isinstance(agent, Asker):
        return agent.order, agent.under_way
    assert isinstance(agent, Ledger)
    return agent.total, agent.count
