"""A set of strings has another order in another process; a divergence says so, and what to do (G5)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(dsn: str, task: str, seed: str) -> str:
    arguments = [sys.executable, "-m", "tests.acceptance.programs.hashing", dsn, task]
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    return subprocess.run(arguments, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout


def test_with_the_seed_that_recorded_it_the_order_is_the_same(dsn: str) -> None:
    run(dsn, "record", "3")
    assert run(dsn, "view", "3") == "same\n"
    cause = run(dsn, "view", "4")
    assert "a set of strings has another order here than in the process that recorded it" in cause
    assert "set PYTHONHASHSEED=3, as there" in cause


def test_a_seed_that_was_random_can_not_be_had_again(dsn: str) -> None:
    run(dsn, "record", "random")
    cause = run(dsn, "view", "3")
    assert "it was random and can't be had again" in cause
