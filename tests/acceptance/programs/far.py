"""A host, or a worker that is asked for deposits, at an address of the test's choice.

    python -m tests.acceptance.programs.far host ADDRESS
    python -m tests.acceptance.programs.far worker DSN ADDRESS PATIENCE TYPE...

It says `{"ready": pid}` when it is up, and ends with its input. A worker does what it reads, a line of JSON each:
`{"number": 1, "account": "x", "amount": 5}`, and says `{"number": 1, "total": 5}` or `{"number": 1, "error": "Undeliverable"}`.
`{"number": 1, "connected": true}` is answered once it is connected to the host, or is not.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from autogen_core import AgentId, try_get_known_serializers_for_type
from autogen_ext.runtimes.grpc import GrpcWorkerAgentRuntimeHost

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedGrpcWorkerAgentRuntime

from .remote import Balance, Deposit, settle_in, until_input_ends


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


async def do(runtime: EventSourcedGrpcWorkerAgentRuntime, number: int, **asked: Any) -> None:
    if "connected" in asked:
        while runtime.health().connected is not asked["connected"]:
            await asyncio.sleep(0.05)
        say(number=number)
        return
    wish = Deposit(number, asked["account"], asked["amount"], asked.get("seconds", 0.0))
    try:
        balance: Balance = await runtime.send_message(wish, AgentId("account", asked["account"]))
    except Exception as error:  # it is what the test asks about
        say(number=number, error=type(error).__name__, text=str(error))
    else:
        say(number=number, total=balance.total)


async def host(address: str) -> None:
    served = GrpcWorkerAgentRuntimeHost(address)
    served.start()
    await until_input_ends()
    await served.stop(0)


async def worker(dsn: str, address: str, patience: str, *types: str) -> None:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedGrpcWorkerAgentRuntime(
            address, intervention_handlers=[EventLogHandler(log)], patience=float(patience), registration_patience=60
        )
        await runtime.start()
        runtime.add_message_serializer(try_get_known_serializers_for_type(Balance))
        await settle_in(runtime, list(types))
        lines = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        say(ready=os.getpid())
        doing: set[asyncio.Task[None]] = set()
        while line := await lines.readline():
            asked = json.loads(line)
            task = asyncio.create_task(do(runtime, asked.pop("number"), **asked))
            doing.add(task)
            task.add_done_callback(doing.discard)
        await runtime.stop()


if __name__ == "__main__":
    from tests.acceptance.programs import far  # its classes by their importable name, not as __main__'s

    asyncio.run(getattr(far, sys.argv[1])(*sys.argv[2:]))
