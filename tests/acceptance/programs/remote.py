"""A host, or a worker with agents of some types, in a process of its own.

    python -m tests.acceptance.programs.remote host PORT
    python -m tests.acceptance.programs.remote worker DSN PORT LEASE TYPE...

It says `{"ready": pid}` when it is up, `{"begun": number}` when an account's handler runs, and ends with its input.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import dataclass

from autogen_core import AgentId, AgentRuntime, MessageContext, RoutedAgent, TopicId, TypeSubscription, event, rpc
from autogen_ext.runtimes.grpc import GrpcWorkerAgentRuntimeHost

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedGrpcWorkerAgentRuntime

NEWS = TopicId("news", "all")


@dataclass
class Deposit:
    number: int
    account: str
    amount: int
    seconds: float = 0.0


@dataclass
class Balance:
    total: int


@dataclass
class Deposited:
    number: int
    amount: int


class Account(RoutedAgent):
    """Its state is in private attributes, and it knows nothing of the log."""

    def __init__(self) -> None:
        super().__init__("account")
        self._total = 0
        self._numbers: list[int] = []

    @rpc
    async def on_deposit(self, message: Deposit, ctx: MessageContext) -> Balance:
        print(json.dumps({"begun": message.number}), flush=True)
        await asyncio.sleep(message.seconds)
        self._total += message.amount
        self._numbers.append(message.number)
        await self.publish_message(Deposited(message.number, message.amount), NEWS)
        return Balance(self._total)


class Teller(RoutedAgent):
    """Passes deposits on, and remembers what came back."""

    def __init__(self) -> None:
        super().__init__("teller")
        self._served: dict[int, int] = {}

    @rpc
    async def on_deposit(self, message: Deposit, ctx: MessageContext) -> Balance:
        balance: Balance = await self.send_message(message, AgentId("account", message.account))
        self._served[message.number] = balance.total
        return balance


class Ledger(RoutedAgent):
    """Adds up what was announced."""

    def __init__(self) -> None:
        super().__init__("ledger")
        self._numbers: list[int] = []
        self._total = 0

    @event
    async def on_deposited(self, message: Deposited, ctx: MessageContext) -> None:
        self._numbers.append(message.number)
        self._total += message.amount


AGENTS = {"account": Account, "teller": Teller, "ledger": Ledger}


async def settle_in(runtime: AgentRuntime, types: list[str]) -> None:
    for name in types:
        await AGENTS[name].register(runtime, name, AGENTS[name])
        if name == "ledger":
            await runtime.add_subscription(TypeSubscription("news", "ledger"))


async def until_input_ends() -> None:
    lines = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    print(json.dumps({"ready": os.getpid()}), flush=True)
    await lines.read()
    transport.close()


async def host(port: str) -> None:
    served = GrpcWorkerAgentRuntimeHost(f"localhost:{port}")
    served.start()
    await until_input_ends()
    await served.stop(0)


async def worker(dsn: str, port: str, lease: str, *types: str) -> None:
    async with EventLog.open(dsn, lease=float(lease)) as log:
        runtime = EventSourcedGrpcWorkerAgentRuntime(
            f"localhost:{port}", intervention_handlers=[EventLogHandler(log)], registration_patience=30
        )
        await runtime.start()
        await settle_in(runtime, list(types))
        await until_input_ends()
        await runtime.stop()


if __name__ == "__main__":
    from tests.acceptance.programs import remote  # its classes by their importable name, not as __main__'s

    asyncio.run(getattr(remote, sys.argv[1])(*sys.argv[2:]))
