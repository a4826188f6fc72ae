"""Recorded histories replay for ever, exactly, under the Python version that recorded them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.replay.programs_1 import Programmed
from tests.replay.record import FOLDER, PYTHON, SEEDS, read
from tests.unit.bench import replay


def test_there_are_histories_for_every_supported_python() -> None:
    for python in ("3.10", "3.11", "3.12", "3.13"):
        assert len(list(FOLDER.glob(f"programs_1-python{python}-*.json.gz"))) == len(SEEDS)


@pytest.mark.parametrize(
    "path", sorted(FOLDER.glob(f"programs_1-python{PYTHON}-*.json.gz")), ids=lambda path: path.stem
)
async def test_a_recorded_history_replays_exactly(path: Path) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # programs raise in background tasks on purpose
    events, trace = read(path)
    agent = (await replay(Programmed, events)).agent
    assert isinstance(agent, Programmed)
    assert [repr(seen) for seen in agent.trace] == trace
