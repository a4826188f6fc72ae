"""A worker that does what it reads on its standard input, and says on its standard output what came of it.

    python -m tests.acceptance.programs.worker DSN [LEASE [UNAVAILABLE_AFTER]]

Lines in: `{"do": "order", "number": 1, "key": "0"}` or `{"do": "wait", "number": 2, "key": "0"}`, each begun at once.
Lines out: `{"ready": pid}`, `{"begun": 2}` once the handler runs, `{"number": 1, "total": …}` or
`{"number": 1, "error": "StreamOwned", "fields": {…}}`. It ends with its input.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
from typing import Any

from autogen_core import AgentId, MessageContext, RoutedAgent, message_handler

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime

from .town import LEDGER, NEWS, Announced, Booking, Order, Receipt, found


@dataclasses.dataclass
class Wait:
    """An order that takes a while, before the agent does anything else."""

    number: int
    seconds: float


class Patient(RoutedAgent):
    """Waits, then books and announces."""

    def __init__(self) -> None:
        super().__init__("patient")
        self.begun: list[int] = []
        self.ended: list[int] = []

    @message_handler
    async def on_wait(self, message: Wait, ctx: MessageContext) -> Receipt:
        self.begun.append(message.number)
        say({"begun": message.number})
        await asyncio.sleep(message.seconds)
        await self.publish_message(Announced(message.number), NEWS)
        await self.send_message(Booking(message.number, 1), LEDGER)
        self.ended.append(message.number)
        return Receipt(message.number, len(self.ended))


def say(what: dict[str, Any]) -> None:
    print(json.dumps(what, default=str), flush=True)


async def everybody(runtime: EventSourcedAgentRuntime) -> None:
    await found(runtime)
    await Patient.register(runtime, "patient", Patient)


async def do(runtime: EventSourcedAgentRuntime, asked: dict[str, Any]) -> None:
    number, key = asked["number"], asked.get("key", "0")
    try:
        if asked["do"] == "order":
            receipt = await runtime.send_message(Order(number), AgentId("clerk", key))
        else:
            receipt = await runtime.send_message(Wait(number, asked.get("seconds", 0.3)), AgentId("patient", key))
    except Exception as error:
        say({"number": number, "error": type(error).__name__, "fields": vars(error), "text": str(error)})
    else:
        say({"number": number, "total": receipt.total})


async def main(dsn: str, lease: float = 10.0, unavailable_after: float = 30.0) -> None:
    async with EventLog.open(dsn, lease=lease, unavailable_after=unavailable_after) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await everybody(runtime)
        runtime.start()
        lines = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
        )
        say({"ready": os.getpid()})
        tasks: set[asyncio.Task[None]] = set()
        while line := await lines.readline():
            tasks.add(asyncio.create_task(do(runtime, json.loads(line))))
        await asyncio.gather(*tasks)
        transport.close()
        await runtime.stop_when_idle()


if __name__ == "__main__":
    from tests.acceptance.programs import worker  # its classes by their importable name, not as __main__'s

    asyncio.run(worker.main(sys.argv[1], *map(float, sys.argv[2:])))
