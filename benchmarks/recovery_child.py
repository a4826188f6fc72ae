"""Brings one agent up and says how long it took and how much memory: the child process of `recovering`.

python -m benchmarks.recovery_child DSN SCHEMA AGENT
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time

from autogen_core import AgentId

from autogen_eventlog import EventLogHandler, EventSourcedAgentRuntime
from benchmarks.agents import Ledger, register
from benchmarks.memory import forget_peak, peak_mib, resident_mib
from benchmarks.places import Place


async def recover(place: Place, agent: AgentId) -> dict[str, float]:
    async with place.log() as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await register(runtime)
        await log.start_writing()
        head = await log.head(agent)
        assert head is not None
        gc.collect()
        forget_peak()
        before, began = resident_mib(), time.perf_counter()
        ledger = await runtime.try_get_underlying_agent_instance(agent, Ledger)
        seconds, peak = time.perf_counter() - began, peak_mib()
        snapshot = await log.snapshots.latest_snapshot(str(agent), head.version)
    return {
        "events": head.version,
        "snapshot": 0 if snapshot is None else snapshot.version,
        "seconds": seconds,
        "before": before,
        "peak": peak,
        "count": ledger.count,
    }


def main() -> None:
    dsn, schema, agent = sys.argv[1:]
    print(json.dumps(asyncio.run(recover(Place(dsn, schema), AgentId.from_str(agent)))))


if __name__ == "__main__":
    main()
