"""The benchmarks run, and say what they should; how fast is no test's business."""

from __future__ import annotations

import asyncio
import json

import pytest
from benchmarks.machine import look
from benchmarks.page import filled
from benchmarks.report import Aim, Report, Table, report_markdown
from benchmarks.rounds import interleaved, ratio
from benchmarks.run import NAMES, PAGE, run_one
from benchmarks.sizes import TINY

TABLES = {
    "throughput": 2,
    "appending": 2,
    "replaying": 1,
    "recovering": 1,
    "capturing": 3,
    "auditing": 2,
    "distributing": 3,
}
AIMS = {
    "throughput": 5,
    "appending": 4,
    "replaying": 2,
    "recovering": 3,
    "capturing": 1,
    "auditing": 0,
    "distributing": 1,
}


@pytest.mark.parametrize("name", NAMES)
async def test_a_benchmark_runs_at_a_tiny_size(name: str, dsn: str) -> None:
    report = await asyncio.to_thread(run_one, name, dsn, TINY)
    assert (len(report.tables), len(report.aims)) == (TABLES[name], AIMS[name])
    assert all(len(row) == len(table.columns) for table in report.tables for row in table.rows)
    result = json.loads(json.dumps(report.as_json())) | {"machine": look(dsn).as_json()}
    assert report_markdown(report) in filled(PAGE.read_text(), {name: result})


def test_the_page_has_a_place_for_every_benchmark() -> None:
    text = PAGE.read_text()
    assert all(text.count(f"<!-- {name}: {end} -->") == 1 for name in (*NAMES, "aims") for end in ("begin", "end"))


def test_text_round_the_tables_stays() -> None:
    machine = {
        "cpu": "c",
        "cores": 2,
        "python": "p",
        "postgres": "q",
        "fdatasync_milliseconds": 0.1,
        "measured_at": "t",
    }
    result = Report([Table("T.", ("a",), [[1]])], [Aim("w", 2.0, 1.0)]).as_json() | {"machine": machine}
    places = "<!-- x: begin -->old<!-- x: end -->", "<!-- aims: begin --><!-- aims: end -->"
    once = filled(f"before {places[0]} between {places[1]} after", {"x": result})
    assert once.startswith("before <!--") and " between " in once and once.endswith(" after") and "old" not in once
    assert filled(once, {"x": result}) == once


def test_a_missed_aim_is_shown_as_missed() -> None:
    assert [Aim("", 0.79, 0.8).met, Aim("", 0.8, 0.8).met, Aim("", 1.1, 1.0, at_most=True).met] == [False, True, False]
    assert "**missed**" in report_markdown(Report([], [Aim("a", 0.79, 0.8)]))


def test_every_side_has_its_turn_in_each_round_in_another_order() -> None:
    order: list[str] = []
    sides = {name: lambda name=name: order.append(name) or 1.0 for name in "abc"}
    assert interleaved(sides, rounds=2) == {name: [1.0, 1.0] for name in "abc"}
    assert order == ["a", "b", "c", "b", "c", "a"]


def test_the_ratio_is_the_median_of_the_rounds() -> None:
    assert ratio([1, 10, 3], [2, 1, 3]) == 1
