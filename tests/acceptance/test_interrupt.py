"""Ctrl-C: the process ends promptly and without noise, and the log is what the agents are afterwards."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime

from .checking import at_rest, check_every_version, check_states, check_versions, unheard
from .programs.drive import noted
from .programs.town import found
from .programs.worker import Patient

INTERRUPTS = int(os.environ.get("EVENTLOG_TEST_INTERRUPTS", "5"))
ROOT = Path(__file__).parents[2]
NOISE = ("Task was destroyed", "never awaited", "ResourceWarning", "Exception ignored", "unhandled")


def run_and_interrupt(dsn: str, notes: Path, rnd: random.Random) -> str:
    """What it said on its standard error."""
    process = subprocess.Popen(
        [sys.executable, "-X", "dev", "-m", "tests.acceptance.programs.interrupted", dsn, str(notes)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        if "busy\n" not in process.stdout:
            raise AssertionError(process.stderr.read())
        # Not a wait for something: the moment is to be random.
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.3 * rnd.random())
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            raise AssertionError(f"it hangs: {process.stderr.read()}") from None
        assert process.returncode in (-signal.SIGINT, 130), said
        return said


async def test_ctrl_c_ends_the_process_promptly_and_the_log_is_the_state(dsn: str, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rnd, notes = random.Random(seed), tmp_path / "notes"
    for _ in range(INTERRUPTS):
        said = run_and_interrupt(dsn, notes, rnd)
        print(said)
        assert "KeyboardInterrupt" in said.splitlines()
        assert not [noise for noise in NOISE if noise in said]
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await found(runtime)
        await Patient.register(runtime, "patient", Patient)
        runtime.start()
        waiting = await log.audit.in_flight("patient/0")
        assert len(waiting) == 2 * INTERRUPTS
        states = await at_rest(runtime, log, but=("patient",))
        done = {n for name, state in states.items() if name.startswith("clerk/") for n in state.values["begun"]}
        extra = {number for number in done if number >= 4_000_000}
        check_states(states, noted(notes, "answered"), {*noted(notes, "tried"), *extra}, await unheard(log))
        check_versions(dsn)
        await check_every_version(runtime, log, rnd)
        await runtime.stop()
