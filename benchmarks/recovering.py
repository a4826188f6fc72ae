"""(d) How long an agent takes to come up in a new process, and how much memory, by the length of its stream."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
from autogen_core import AgentId
from psycopg import sql

from autogen_eventlog import EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.snapshots import SnapshotPolicy
from benchmarks.agents import Add, register
from benchmarks.places import Place, fresh
from benchmarks.report import Aim, Cell, Report, Table
from benchmarks.sizes import Sizes

_WAVE = 100
_ONCE = 100_000
"""Events above which a stream is replayed from its beginning once only: that takes minutes."""
_FLAT = 1.25
_AS_QUICK = 1.5
_WITH, _WITHOUT = "with snapshots", "without snapshots"
_FILL_SNAPSHOTS = "INSERT INTO snapshot SELECT * FROM kept"
_PREPARE = {_WITH: f"{_FILL_SNAPSHOTS} ON CONFLICT DO NOTHING", _WITHOUT: "DELETE FROM snapshot"}

Found = dict[str, Any]


def run(dsn: str, sizes: Sizes) -> Report:
    place = fresh(dsn, "recovering")
    messages = asyncio.run(_record(place, sizes))
    _execute(place, "CREATE TABLE kept AS TABLE snapshot")
    found: dict[tuple[int, str], list[Found]] = {}
    for number in range(sizes.recovery_rounds):
        for snapshots, statement in _PREPARE.items():
            _execute(place, statement)
            for length in sizes.streams:
                if number and length > _ONCE and snapshots == _WITHOUT:
                    continue
                found.setdefault((length, snapshots), []).append(_recover(place, length, messages[length]))
    rows = [_row(length, snapshots, found[length, snapshots]) for snapshots in _PREPARE for length in sizes.streams]
    columns = ("", "events", "replayed", "seconds", "peak RSS, MiB", "before recovery")
    aims = [Aim(_what(snapshots, sizes), _growth(found, snapshots, sizes), _FLAT, True) for snapshots in _PREPARE]
    longer = f"recovery with snapshots: seconds at {sizes.streams[-1]:,} events ÷ at {sizes.streams[0]:,}"
    aims.append(Aim(longer, _slowing(found, sizes), _AS_QUICK, True))
    return Report([Table("An agent comes up in a new process.", columns, rows)], aims)


def _what(snapshots: str, sizes: Sizes) -> str:
    return f"recovery {snapshots}: peak RSS at {sizes.streams[-1]:,} events ÷ at {sizes.streams[0]:,}"


def _growth(found: dict[tuple[int, str], list[Found]], snapshots: str, sizes: Sizes) -> float:
    long, short = found[sizes.streams[-1], snapshots], found[sizes.streams[0], snapshots]
    return max(one["peak"] for one in long) / max(one["peak"] for one in short)


def _slowing(found: dict[tuple[int, str], list[Found]], sizes: Sizes) -> float:
    long, short = (found[length, _WITH] for length in (sizes.streams[-1], sizes.streams[0]))
    return statistics.median(one["seconds"] for one in long) / statistics.median(one["seconds"] for one in short)


def _row(length: int, snapshots: str, found: Sequence[Found]) -> Sequence[Cell]:
    seconds = statistics.median(one["seconds"] for one in found)
    replayed = found[0]["events"] - (found[0]["snapshot"] if snapshots == _WITH else 0)
    peak, before = max(one["peak"] for one in found), statistics.median(one["before"] for one in found)
    return [snapshots, length, replayed, f"{seconds:.3f}", peak, before]


async def _record(place: Place, sizes: Sizes) -> dict[int, int]:
    """Record streams of about these lengths through the runtime; the messages that went into each."""
    async with place.log() as log:
        handler = EventLogHandler(log, snapshots=SnapshotPolicy(within=None))
        runtime = EventSourcedAgentRuntime(intervention_handlers=[handler])
        await register(runtime)
        runtime.start()
        messages = {length: await _fill(runtime, length, sizes.after_snapshot) for length in sizes.streams}
        await runtime.stop_when_idle()
    return messages


async def _fill(runtime: EventSourcedAgentRuntime, length: int, after_snapshot: int) -> int:
    """A message makes two events. The snapshot is proven before what follows it."""
    wanted, rest = length // 2, after_snapshot // 2
    await _send(runtime, _agent(length), range(wanted - rest))
    if not (await runtime.snapshot(_agent(length))).proven:
        raise AssertionError("the snapshot was not proven")
    await _send(runtime, _agent(length), range(wanted - rest, wanted))
    return wanted


async def _send(runtime: EventSourcedAgentRuntime, agent: AgentId, numbers: range) -> None:
    for begun in range(0, len(numbers), _WAVE):
        wave = numbers[begun : begun + _WAVE]
        await asyncio.gather(*(runtime.send_message(Add(n, "a small note"), agent) for n in wave))


def _agent(length: int) -> AgentId:
    return AgentId("ledger", f"of-{length}")


def _recover(place: Place, length: int, messages: int) -> Found:
    """In a process of its own, so that its memory is its own."""
    root = Path(__file__).parents[1]
    command = [sys.executable, "-m", "benchmarks.recovery_child", place.dsn, place.schema, str(_agent(length))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=root, env=environment)
    found: Found = json.loads(done.stdout)
    if found["count"] != messages:
        raise AssertionError(f"{messages} messages were recorded, {found['count']} recovered")
    return found


def _execute(place: Place, statement: str) -> None:
    with psycopg.connect(place.dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(place.schema)))
        connection.execute(statement.encode())
