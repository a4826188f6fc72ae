"""kill -9 amid an effect of one's own: it is not done again unless that is asked for, and the agent knows (G4, G8; A15)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from autogen_eventlog.testing.waiting import wait_until

ROOT = Path(__file__).parents[2]


async def start(dsn: str, directory: Path, *task: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.acceptance.programs.mailing", dsn, str(directory), *task),
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )


async def said(dsn: str, directory: Path, *task: str) -> str:
    process = await start(dsn, directory, *task)
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode().splitlines()[-1]


def lines(directory: Path) -> list[str]:
    file = directory / "sent"
    return file.read_text("utf-8").splitlines() if file.exists() else []


@pytest.mark.parametrize(("unknown", "became", "twice"), [("fail", "unknown", 0), ("retry", "sent", 1)])
async def test_a_process_killed_amid_an_effect(dsn: str, tmp_path: Path, unknown: str, became: str, twice: int) -> None:
    hold = tmp_path / "hold"
    hold.touch()
    process = await start(dsn, tmp_path, "send")
    await asyncio.to_thread(wait_until, lambda: lines(tmp_path), "the mail is written", timeout=30)
    process.kill()
    await process.communicate()
    hold.unlink()
    assert lines(tmp_path) == ["mail 0"]
    for _ in range(2):
        assert await said(dsn, tmp_path, "recover", unknown) == f"mail 0: {became} True"
        assert lines(tmp_path) == ["mail 0"] * (1 + twice)
    last = await said(dsn, tmp_path, "send", unknown)
    assert last == f"mail 0: {became}; mail 0: sent; mail 1: sent; mail 2: sent True"
    assert lines(tmp_path) == [*["mail 0"] * (1 + twice), "mail 0", "mail 1", "mail 2"]
