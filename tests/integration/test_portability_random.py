"""Random histories, with restores amid deliveries and forks, moved into another log: the same states at every version."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from autogen_core import AgentId

from autogen_eventlog import EventLog
from autogen_eventlog.runtime.handler import Durability
from autogen_eventlog.transfer import export_session, import_session
from tests.integration.test_time_travel_random import (
    AGENTS,
    HISTORIES,
    History,
    attributes,
    quiet_loop,
    running,
)

__all__ = ["quiet_loop"]

FORK = AgentId("programmed", "fork")


async def lived(log: EventLog, seed: int, durability: Durability) -> None:
    """Some hours of work, with ways back, to rest and into the middle of it."""
    async with running(log, durability) as runtime:
        history = History(runtime, log, seed)
        for _ in range(4):
            await history.step()
            if history.rnd.random() < 0.4:
                await history.go_back()
            else:
                await history.go_amid()
            for agent in AGENTS:
                await history.keep(agent)
        await runtime.agent_load_state(FORK, await runtime.agent_save_state(AGENTS[0]))


@pytest.mark.parametrize("durability", ["output", "strict"])
async def test_whatever_agents_have_lived_through_they_are_the_same_in_another_log(
    dsn: str, empty_dsn: str, tmp_path: Path, durability: Durability
) -> None:
    for number in range(HISTORIES):
        seed = random.randrange(1 << 30)
        print(f"seed {seed}")
        file = tmp_path / f"{number}.session.jsonl"
        schema = f"log_{number}"
        async with EventLog.open(dsn, schema=schema) as log, EventLog.open(empty_dsn, schema=schema) as other:
            await lived(log, seed, durability)
            await export_session(log, [*AGENTS, FORK], file)
            done = await import_session(other, file)
            assert (await import_session(other, file)).appended == 0
            versions = {one.agent: one.version for one in done.agents}
            async with running(log) as old, running(other, durability) as new:
                for agent in [*AGENTS, FORK]:
                    here, there = await old.view(agent), await new.view(agent)
                    assert attributes(here) == attributes(there)
                    for version in range(1, versions[str(agent)] + 1):
                        await new.view(agent, version=version)
                report = await new.check()
                assert report.same, [one.problem or one.divergences for one in report.agents if not one.same]
                history = History(new, other, seed)
                await history.step()
                for seen in history.seen:
                    assert attributes(await new.view(seen.agent, version=seen.version)) == seen.attributes
