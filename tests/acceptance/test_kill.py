"""kill -9 at random moments, again and again: nothing answered is lost, nothing is done twice (G1, G6, G8; A21)."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.testing.waiting import wait_until

from .checking import at_rest, check_every_version, check_states, check_versions, unheard
from .programs.drive import noted
from .programs.town import found

KILLS = int(os.environ.get("EVENTLOG_TEST_KILLS", "6"))
DRIVERS = 3
ROOT = Path(__file__).parents[2]


def start(dsn: str, notes: Path, durability: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.acceptance.programs.drive", dsn, str(notes), durability, str(DRIVERS)], cwd=ROOT
    )


def run_and_kill(dsn: str, notes: Path, durability: str, rnd: random.Random) -> None:
    """One life of the process: it takes up its work, and is killed at a random moment."""
    before = len(noted(notes, "started"))
    process = start(dsn, notes, durability)
    try:
        wait_until(lambda: len(noted(notes, "started")) > before or process.poll() is not None, "it starts", timeout=30)
        # Not a wait for something: the moment is to be random. That the process ends by itself is the failure.
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=rnd.choice([0.02, 0.1, 0.3, 0.8]) * rnd.random())
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def run_until_something_is_answered(dsn: str, notes: Path, durability: str) -> None:
    """On a busy machine each life may have been too short for anything."""
    if noted(notes, "answered"):
        return
    process = start(dsn, notes, durability)
    try:
        wait_until(lambda: noted(notes, "answered") or process.poll() is not None, "something is answered", timeout=60)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("durability", ["output", "strict"])
async def test_what_was_answered_survives_kill_9_and_is_done_once(dsn: str, tmp_path: Path, durability: str) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rnd, notes = random.Random(seed), tmp_path / "notes"
    for _ in range(KILLS):
        run_and_kill(dsn, notes, durability, rnd)
    run_until_something_is_answered(dsn, notes, durability)
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await found(runtime)
        runtime.start()
        states = await at_rest(runtime, log)
        undelivered = await unheard(log)
        check_states(states, noted(notes, "answered"), noted(notes, "tried"), undelivered)
        check_versions(dsn)
        await check_every_version(runtime, log, rnd)
        await runtime.stop_when_idle()
