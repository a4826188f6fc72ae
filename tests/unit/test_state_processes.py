"""A state is the same in every process, whatever the seed of hashes, and is loaded in another one than it was captured in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def run(what: str, path: Path, seed: int) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    arguments = [sys.executable, "-m", "tests.unit.state_process", what, str(path)]
    done = subprocess.run(
        arguments, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_state_is_the_same_in_every_process_and_loaded_in_another(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    digests = {run("capture", path, seed)["digest"] for seed in (0, 1, 77)}
    assert len(digests) == 1
    for seed in (2, 99):
        assert run("load", path, seed) == {
            "digest": digests.copy().pop(),
            "told": [["w", 2, True], 40, 0, True],
            "numbers": True,
        }
