"""An agent that reads clocks, ids and random numbers, live in one process and recovered in another.

    python -m tests.acceptance.programs.readings DSN record|recover|drive

`record` and `recover` print the agent's attributes as data; `drive` goes on until it is killed, and prints each answer.
"""

from __future__ import annotations

import tests.integration.reading_agent as reading  # before the package: its imports find no gates

import asyncio  # isort: skip
import sys  # isort: skip
from typing import Any  # isort: skip

from autogen_core import AgentId  # isort: skip

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime  # isort: skip

AGENT = AgentId("reader", "one")


def attributes(log: EventLog, agent: reading.Reader) -> str:
    """All that the agent keeps, as the codec stores it."""
    names = ("born", "name", "began", "lucky", "seen")
    kept: dict[str, Any] = {name: vars(agent)[name] for name in names}
    log.register_types(reading.Stamp, reading.Envelope, reading.Note)
    return log.codec.encode({**kept, "rng": agent.rng.getstate()}).data.decode()


async def main(dsn: str, task: str) -> None:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await reading.Reader.register(runtime, "reader", reading.Reader)
        runtime.start()
        if task == "record":
            await asyncio.gather(*(runtime.send_message(reading.Read(2, 0.001), AGENT) for _ in range(3)))
        while task == "drive":
            print(await runtime.send_message(reading.Read(2, 0.0005), AGENT), flush=True)
        print(attributes(log, await runtime.try_get_underlying_agent_instance(AGENT, reading.Reader)))
        await runtime.stop_when_idle()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
