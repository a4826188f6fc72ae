"""Each program in examples/ runs, says what it should, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from .pages import ROOT

EXAMPLES = ROOT / "examples"
LIBRARIES = {"shop.py"}


def run(name: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.DEVNULL,
    )


def test_the_quick_start_shows_a_kill_and_a_recovery(dsn: str, tmp_path: Path) -> None:
    ended = run("quickstart.py", "--dsn", dsn, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "kill -9" in ended.stdout
    assert "Everything was as it should be." in ended.stdout
    assert ended.stderr == ""


def test_the_quick_start_brings_its_own_postgres_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    ended = run("quickstart.py", cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert list(tmp_path.iterdir()) == []
    assert working_in(tmp_path) == set()


def test_the_quick_start_keeps_its_log_where_asked(tmp_path: Path) -> None:
    assert run("quickstart.py", "--data-dir", str(tmp_path / "log"), cwd=tmp_path).returncode == 0
    again = run("quickstart.py", "--data-dir", str(tmp_path / "log"), cwd=tmp_path)
    assert again.returncode != 0
    assert "already holds this example" in again.stderr


def test_a_database_of_ones_own_remembers_from_run_to_run(dsn: str, tmp_path: Path) -> None:
    first = run("your_own_postgres.py", "--dsn", dsn, "--sslmode", "prefer", cwd=tmp_path)
    second = run("your_own_postgres.py", "--dsn", dsn, cwd=tmp_path)
    assert first.stdout.startswith("order 1: 0.25, 89 plum left"), first.stderr
    assert second.stdout.startswith("order 2: 0.25, 88 plum left"), second.stderr


def test_time_travel_shows_both_branches(dsn: str, tmp_path: Path) -> None:
    ended = run("time_travel.py", "--dsn", dsn, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    said = dict(line.split(":", 1) for line in ended.stdout.splitlines() if ":" in line)
    assert said["another way"].split() == ["{'pear':", "1,", "'plum':", "30}"]
    assert said["back again"].strip() == said["the way left"].strip() == "{'pear': 21}"
    assert said["orders (current)"].strip() == "1 pear, 30 plum"


def test_a_stateless_workflow_survives_its_worker(dsn: str, tmp_path: Path) -> None:
    ended = run("stateless_workflow.py", "--dsn", dsn, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    said = ended.stdout.splitlines()
    assert said.index("worker 1: pack: begun, after reserve, charge") < said.index(
        "worker 1: ended by kill -9, in the middle of pack"
    )
    assert "worker 1: pack: done and saved" not in said
    assert "worker 2: pack: begun, after reserve, charge" in said
    assert "The order went through reserve, charge, pack, ship." in said
    assert said[-1] == "Everything was as it should be."
    assert "Traceback" not in ended.stderr  # gRPC's own library may say there that a connection was closed


def test_a_stateless_workflow_brings_its_own_postgres_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    ended = run("stateless_workflow.py", cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert list(tmp_path.iterdir()) == []
    assert working_in(tmp_path) == set()


def test_every_example_is_run_here() -> None:
    this = Path(__file__).read_text("utf-8")
    programs = {path.name for path in EXAMPLES.glob("*.py")} - LIBRARIES
    assert all(f'"{program}"' in this for program in programs)


def working_in(directory: Path) -> set[str]:
    """Processes that work in a directory, even one that was removed, by process id."""
    found: set[str] = set()
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if str(link.readlink()).startswith(str(directory)):
                found.add(link.parent.name)
        except OSError:
            continue
    return found
