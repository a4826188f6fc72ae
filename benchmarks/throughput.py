"""(a) The runtime beside AutoGen's own, and beside AutoGen's own with each agent's state saved after each message."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.commits import bare, by_writer
from benchmarks.places import Place, fresh
from benchmarks.report import Aim, Cell, Report, Table
from benchmarks.rounds import interleaved, ratio
from benchmarks.scenarios import Measured, Scenario, calls, publications
from benchmarks.sides import AUTOGEN, OUTPUT, SIDES, TUTORIAL
from benchmarks.sizes import Sizes

Turns = dict[str, list[Measured]]
_COMMIT, _WRITER = "one commit, plain psycopg", "one commit, our writer"


def run(dsn: str, sizes: Sizes) -> Report:
    place = fresh(dsn, "throughput")
    wide = sizes.callers[-1]
    rpc = {callers: calls(callers) for callers in sizes.callers}
    scenarios = [*rpc.values(), calls(wide, one_agent=True), publications()]
    turns = {scenario.name: _turns(scenario, place, sizes) for scenario in scenarios[1:]}
    alone, commits = _alone(rpc[1], place, sizes)
    turns = {rpc[1].name: alone} | turns
    speeds = {name: _speeds(of) for name, of in turns.items()}
    latency, added = _latency(speeds[rpc[1].name], commits)
    ahead = [
        Aim(f"{scenario.name}: ours ÷ saving states", ratio(of[OUTPUT], of[TUTORIAL]), 1.0)
        for scenario in rpc.values()
        for of in [speeds[scenario.name]]
    ]
    busy = [name for name in turns if name.startswith(f"RPC, {wide} ")]
    aims = [
        *(Aim(f"{name}: ours ÷ AutoGen", ratio(speeds[name][OUTPUT], speeds[name][AUTOGEN]), 0.8) for name in busy),
        Aim("RPC, 1 caller: time added ÷ one commit", added, 1.0, at_most=True),
        *ahead,
    ]
    return Report([_table(turns, speeds), latency], aims)


def _turns(scenario: Scenario, place: Place, sizes: Sizes) -> Turns:
    sides: dict[str, Callable[[], Measured]] = {
        name: partial(scenario.turn, side, place, sizes.seconds) for name, side in SIDES.items()
    }
    return interleaved(sides, rounds=sizes.rounds)


def _alone(scenario: Scenario, place: Place, sizes: Sizes) -> tuple[Turns, dict[str, list[float]]]:
    """One caller, and bare commits in the same rounds."""
    commits = {_COMMIT: bare, _WRITER: by_writer}
    sides: dict[str, Callable[[], Measured]] = {
        name: partial(scenario.turn, side, place, sizes.seconds) for name, side in SIDES.items()
    }
    for name, commit in commits.items():
        sides[name] = partial(_committed, commit, place, sizes.seconds)
    measured = interleaved(sides, rounds=sizes.rounds)
    return {name: measured[name] for name in SIDES}, _speeds({name: measured[name] for name in commits})


def _committed(commit: Callable[[Place, float], float], place: Place, seconds: float) -> Measured:
    return Measured(commit(place, seconds), 2, 0)


def _speeds(turns: Turns) -> dict[str, list[float]]:
    return {name: [turn.per_second for turn in of] for name, of in turns.items()}


def _table(turns: dict[str, Turns], speeds: dict[str, dict[str, list[float]]]) -> Table:
    rows = [
        _row(scenario, side, of, speeds[scenario][side], speeds[scenario][AUTOGEN])
        for scenario, sides in turns.items()
        for side, of in sides.items()
    ]
    columns = ("", "side", "a second", "÷ AutoGen", "rows a message", "WAL bytes a message")
    return Table("Messages (publications) a second.", columns, rows)


def _row(
    scenario: str, side: str, turns: Sequence[Measured], speeds: Sequence[float], base: Sequence[float]
) -> Sequence[Cell]:
    rows = statistics.median(turn.rows for turn in turns)
    wal = statistics.median(turn.wal_bytes for turn in turns)
    return [scenario, side, statistics.median(speeds), ratio(speeds, base), rows, wal]


def _latency(speeds: dict[str, list[float]], commits: dict[str, list[float]]) -> tuple[Table, float]:
    """One call at a time, in microseconds; and what ours adds, in commits."""
    taken = {name: [1e6 / speed for speed in of] for name, of in (speeds | commits).items()}
    added = [ours - theirs for ours, theirs in zip(taken[OUTPUT], taken[AUTOGEN], strict=True)]
    rows: list[Sequence[Cell]] = [[name, statistics.median(of)] for name, of in taken.items()]
    rows.append(["added by ours (default)", statistics.median(added)])
    return Table("Latency of one call at a time, µs.", ("", "µs"), rows), ratio(added, taken[_COMMIT])
