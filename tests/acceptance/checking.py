"""What must hold of the town, whatever was done to it: nothing lost, nothing twice, totals as anybody can compute them."""

from __future__ import annotations

import random
from collections import Counter as Tally
from collections.abc import Collection
from typing import Any

import psycopg
from autogen_core import AgentId

from autogen_eventlog import EventLog, EventSourcedAgentRuntime

from .asking import until
from .programs.town import Roll, amount


async def at_rest(runtime: EventSourcedAgentRuntime, log: EventLog, *, but: Collection[str] = ()) -> dict[str, Any]:
    """Bring every agent up with a message, and wait until what was in flight has run to its end.

    Args:
        but: agent types that are left alone.
    """

    async def everybody() -> dict[str, Any]:
        """Listed each time: a handler that goes on may be the first to send something to an agent."""
        agents = [
            AgentId.from_str(head.stream)
            for head in await log.agents()
            if not head.stream.startswith("$") and head.stream.partition("/")[0] not in but
        ]
        return {str(agent): await runtime.send_message(Roll(), agent) for agent in agents}

    async def all_done() -> bool:
        states = await everybody()
        clerks = [state.values for name, state in states.items() if name.startswith("clerk")]
        filed = all(sorted(values["filed"]) == sorted(values["begun"]) for values in clerks)
        under_way = [event for event in await log.audit.in_flight() if event.stream.partition("/")[0] not in but]
        return filed and not under_way

    await until(all_done, "nothing is in flight", timeout=60)
    return await everybody()


async def unheard(log: EventLog) -> set[int]:
    """Numbers of the announcements that the log reports as accepted and not delivered to all."""
    found: set[int] = set()
    after = 0
    while page := await log.audit.undelivered(after=after, limit=1000):
        after = page[-1].position
        found |= {log.message(event).number for event in page if event.topic is not None}  # type: ignore[attr-defined]
    return found


def check_states(
    states: dict[str, Any], answered: Collection[int], tried: Collection[int], undelivered: set[int]
) -> None:
    clerks = [state for name, state in states.items() if name.startswith("clerk/")]
    done = [number for clerk in clerks for number in clerk.values["begun"]]
    assert twice(done) == []
    assert set(answered) <= set(done) <= set(tried)
    for clerk in clerks:
        assert sorted(clerk.values["ended"]) == sorted(clerk.values["begun"])
        assert sorted(clerk.values["filed"]) == sorted(clerk.values["begun"])
        assert clerk.total == sum(map(amount, clerk.values["begun"]))
    assert sorted(states["ledger/main"].values["booked"]) == sorted(done)
    assert states["ledger/main"].total == sum(map(amount, done))
    for key in ("0", "1"):
        mine = sorted(states[f"clerk/{key}"].values["begun"])
        assert sorted(states[f"counter/{key}"].values["booked"]) == mine
        assert sorted(states[f"counter/files-{key}"].values["booked"]) == mine
    for listener in ("listener/default", "gossip/default"):
        heard = states[listener].values["heard"]
        assert twice(heard) == []
        assert set(done) - set(heard) <= undelivered, f"{listener} did not hear, and the log does not say so"


def twice(numbers: list[int]) -> list[int]:
    return [number for number, times in Tally(numbers).items() if times > 1]


def check_versions(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "SELECT e.stream, count(*), max(e.version), s.version FROM eventlog.event AS e"
            " JOIN eventlog.stream AS s ON s.id = e.stream GROUP BY e.stream, s.version"
        ).fetchall()
    assert rows
    for stream, count, last, head in rows:
        assert count == last == head, stream


async def check_every_version(runtime: EventSourcedAgentRuntime, log: EventLog, rnd: random.Random) -> None:
    """Replay finds no divergence, at any version of any stream (of long ones, at versions drawn at random)."""
    for head in await log.agents():
        if head.stream.startswith("$"):
            continue
        versions = range(1, head.version + 1)
        for version in sorted({*rnd.sample(versions, min(25, head.version)), head.version}):
            await runtime.view(AgentId.from_str(head.stream), version=version)
