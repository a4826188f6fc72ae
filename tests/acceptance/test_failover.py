"""The distributed runtime, whose workers and host are killed, paused and replaced."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import psycopg
import pytest
from autogen_core import AgentId, try_get_known_serializers_for_type

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedGrpcWorkerAgentRuntime
from autogen_eventlog.errors import Undeliverable, UnknownStream
from autogen_eventlog.events import EventType, Outcome

from .asking import until
from .programs.remote import Account, Balance, Deposit, Ledger, Teller
from .workers import Remote

LEDGER = AgentId("ledger", "all")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        port: int = found.getsockname()[1]
        return port


@asynccontextmanager
async def driver(
    dsn: str, port: int, *, patience: float = 60
) -> AsyncIterator[tuple[EventSourcedGrpcWorkerAgentRuntime, EventLog]]:
    """A worker without agents, in this process."""
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedGrpcWorkerAgentRuntime(
            f"localhost:{port}", intervention_handlers=[EventLogHandler(log)], patience=patience
        )
        await runtime.start()
        runtime.add_message_serializer(try_get_known_serializers_for_type(Balance))
        try:
            yield runtime, log
        finally:
            await runtime.stop()


async def ledger_of(runtime: EventSourcedGrpcWorkerAgentRuntime) -> Ledger:
    try:
        return await runtime.view(LEDGER, factory=Ledger, type=Ledger)
    except UnknownStream:  # it has heard of nothing so far
        return Ledger()


async def test_the_next_message_after_a_kill_finds_the_agent_as_it_was(dsn: str) -> None:
    port = free_port()
    async with Remote("host", port), driver(dsn, port) as (runtime, _):
        async with Remote("worker", dsn, port, 10, "account", "ledger"):
            assert await runtime.send_message(Deposit(1, "x", 5), AgentId("account", "x")) == Balance(5)
        async with Remote("worker", dsn, port, 10, "account", "ledger"):
            assert await runtime.send_message(Deposit(2, "x", 7), AgentId("account", "x")) == Balance(12)
            seen = await runtime.view(AgentId("account", "x"), factory=Account, type=Account)
            assert (seen._total, seen._numbers) == (12, [1, 2])


async def test_a_call_whose_worker_is_killed_in_the_handler_is_answered_once_by_the_next(dsn: str) -> None:
    port = free_port()
    async with Remote("host", port), driver(dsn, port) as (runtime, log):
        async with Remote("worker", dsn, port, 10, "account", "ledger") as first:
            call = asyncio.create_task(runtime.send_message(Deposit(1, "x", 5, 1.0), AgentId("account", "x")))
            await first.says("begun", 1)
        async with Remote("worker", dsn, port, 10, "account", "ledger"):
            assert await call == Balance(5)
            assert await runtime.send_message(Deposit(2, "x", 1), AgentId("account", "x")) == Balance(6)
        delivered = [event async for event in log.read("account/x") if event.type is EventType.MESSAGE_DELIVERED]
        assert len(delivered) == 2


async def test_a_paused_worker_that_was_replaced_is_fenced_when_it_wakes(dsn: str) -> None:
    port = free_port()
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(Remote("host", port))
        runtime, log = await stack.enter_async_context(driver(dsn, port))
        zombie = await stack.enter_async_context(Remote("worker", dsn, port, 1, "account"))
        assert await runtime.send_message(Deposit(1, "x", 1), AgentId("account", "x")) == Balance(1)
        call = asyncio.create_task(runtime.send_message(Deposit(2, "x", 10, 0.5), AgentId("account", "x")))
        await zombie.says("begun", 2)
        zombie.signal(signal.SIGSTOP)
        await host.kill()
        await stack.enter_async_context(Remote("host", port))
        await stack.enter_async_context(Remote("worker", dsn, port, 10, "account", "ledger"))
        assert await call == Balance(11)
        zombie.signal(signal.SIGCONT)
        assert await runtime.send_message(Deposit(3, "x", 100), AgentId("account", "x")) == Balance(111)
        seen = await runtime.view(AgentId("account", "x"), factory=Account, type=Account)
        assert (seen._total, seen._numbers) == (111, [1, 2, 3])

        async def announced() -> object:
            return len((await ledger_of(runtime))._numbers) >= 2

        async def evidence() -> object:
            return await log.audit.refused_writes(agent="account/x")

        [refused] = await until(evidence, "the zombie's writes are kept as evidence")  # type: ignore[misc]
        assert refused.metadata["expected"] < refused.metadata["found"]
        assert "DeliveryCompleted" in {event["type"] for event in log.message(refused)}  # type: ignore[attr-defined]
        await until(announced, "the ledger has every deposit that was announced once it was there", timeout=30)
        assert sorted((await ledger_of(runtime))._numbers) == [2, 3]


async def test_a_host_that_is_killed_and_restarted_loses_nothing(dsn: str) -> None:
    port = free_port()
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(Remote("host", port))
        runtime, _ = await stack.enter_async_context(driver(dsn, port))
        await stack.enter_async_context(Remote("worker", dsn, port, 10, "account", "ledger"))
        calls = [
            asyncio.create_task(runtime.send_message(Deposit(n, "x", 1, 0.01 * (n % 5)), AgentId("account", "x")))
            for n in range(100)
        ]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        await host.kill()
        await stack.enter_async_context(Remote("host", port))
        balances = await asyncio.gather(*calls)
        assert sorted(balance.total for balance in balances) == list(range(1, 101))

        async def announced() -> object:
            return len((await ledger_of(runtime))._numbers) >= 100

        await until(announced, "the ledger has every deposit", timeout=30)
        assert sorted((await ledger_of(runtime))._numbers) == list(range(100))


async def test_a_handler_that_a_dead_worker_left_goes_on_without_a_message(dsn: str) -> None:
    """Nobody waits for it: who asked is gone too."""
    port = free_port()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(Remote("host", port))
        async with Remote("worker", dsn, port, 10, "account", "ledger") as first:
            async with driver(dsn, port) as (runtime, log):
                call = asyncio.create_task(runtime.send_message(Deposit(1, "x", 5, 4.0), AgentId("account", "x")))
                await until(partial(log.audit.in_flight, "account/x"), "the log has the delivery")
            with pytest.raises(Undeliverable, match="stopped"):
                await call
            await first.kill()
        runtime, log = await stack.enter_async_context(driver(dsn, port))
        [left] = await log.audit.in_flight(agent="account/x")
        await stack.enter_async_context(Remote("worker", dsn, port, 10, "account", "ledger"))

        async def ended() -> object:
            return not await log.audit.in_flight(agent="account/x")

        await until(ended, "the handler ends")
        [record] = await log.audit.messages(agent="account/x")
        assert (record.id, record.outcome) == (left.id, Outcome.REPLIED)


async def test_killed_database_connections_cost_nothing_but_time(dsn: str) -> None:
    port = free_port()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(Remote("host", port))
        runtime, _ = await stack.enter_async_context(driver(dsn, port))
        await stack.enter_async_context(Remote("worker", dsn, port, 10, "account"))
        await stack.enter_async_context(Remote("worker", dsn, port, 10, "ledger"))
        calls = [
            asyncio.create_task(runtime.send_message(Deposit(n, "x", n, 0.05 * (n % 4)), AgentId("account", "x")))
            for n in range(60)
        ]
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            for enough in (5, 15, 25, 35, 45):

                async def so_many(enough: int = enough) -> object:
                    return sum(call.done() for call in calls) >= enough

                await until(so_many, f"{enough} deposits are answered", timeout=30)
                await connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
        await asyncio.gather(*calls)
        seen = await runtime.view(AgentId("account", "x"), factory=Account, type=Account)
        assert (sorted(seen._numbers), seen._total) == (list(range(60)), sum(range(60)))

        async def announced() -> object:
            return len((await ledger_of(runtime))._numbers) >= 60

        await until(announced, "the ledger has every deposit", timeout=30)
        assert sorted((await ledger_of(runtime))._numbers) == list(range(60))


@pytest.mark.timeout(240)
async def test_workers_killed_at_random_lose_nothing_and_repeat_nothing(dsn: str) -> None:
    """Tellers call accounts, accounts publish to a ledger, and the workers of all three are killed again and again."""
    port, deposits, kills = free_port(), 120, 6
    rnd = random.Random(20)
    fleets = {"front": ("teller", "ledger"), "back": ("account",)}
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(Remote("host", port))
        runtime, _ = await stack.enter_async_context(driver(dsn, port))
        running = {
            name: await stack.enter_async_context(Remote("worker", dsn, port, 10, *types))
            for name, types in fleets.items()
        }
        some = asyncio.Semaphore(8)

        async def deposit(number: int) -> Balance:
            async with some:
                account = str(number % 4)
                wish = Deposit(number, account, number, 0.02 * (number % 3))
                return await runtime.send_message(wish, AgentId("teller", account))  # type: ignore[no-any-return]

        calls = [asyncio.create_task(deposit(number)) for number in range(deposits)]
        for kill in range(kills):
            enough = (kill + 1) * deposits // (kills + 2)

            async def so_many(enough: int = enough) -> object:
                return sum(call.done() for call in calls) >= enough

            await until(so_many, f"{enough} deposits are answered", timeout=60)
            name = rnd.choice(list(fleets))
            await running[name].kill()
            running[name] = await stack.enter_async_context(Remote("worker", dsn, port, 10, *fleets[name]))
        await asyncio.gather(*calls)

        for account in range(4):
            mine = [number for number in range(deposits) if number % 4 == account]
            seen = await runtime.view(AgentId("account", str(account)), factory=Account, type=Account)
            assert sorted(seen._numbers) == mine
            assert seen._total == sum(mine)
            teller = await runtime.view(AgentId("teller", str(account)), factory=Teller, type=Teller)
            assert sorted(teller._served) == mine

        async def announced() -> object:
            return len((await ledger_of(runtime))._numbers) >= deposits

        await until(announced, "the ledger has every deposit", timeout=60)
        ledger = await ledger_of(runtime)
        assert sorted(ledger._numbers) == list(range(deposits))
        assert ledger._total == sum(range(deposits))
