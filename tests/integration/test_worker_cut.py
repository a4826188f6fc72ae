"""All agents of several workers brought back to one instant (G7)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from autogen_core import AgentId, try_get_known_serializers_for_type

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedGrpcWorkerAgentRuntime
from autogen_eventlog.errors import AgentBusy
from tests.acceptance.asking import until
from tests.acceptance.programs.remote import Account, Balance, Deposit, Ledger, Teller, settle_in
from tests.acceptance.test_failover import LEDGER, ledger_of
from tests.integration.workers import hosting

Runtime = EventSourcedGrpcWorkerAgentRuntime


async def worker(stack: AsyncExitStack, dsn: str, address: str, *types: str) -> tuple[Runtime, EventLog]:
    log = await stack.enter_async_context(EventLog.open(dsn))
    runtime = Runtime(address, intervention_handlers=[EventLogHandler(log)])
    await runtime.start()
    stack.push_async_callback(runtime.stop)
    runtime.add_message_serializer(try_get_known_serializers_for_type(Balance))
    await settle_in(runtime, list(types))
    return runtime, log


def accounts(number: int) -> list[AgentId]:
    return [AgentId("account", str(account)) for account in range(number)]


async def deposit(runtime: Runtime, number: int, account: int, seconds: float = 0.0) -> Balance:
    wish = Deposit(number, str(account), 10 + number, seconds)
    return await runtime.send_message(wish, AgentId("teller", str(account)))  # type: ignore[no-any-return]


async def totals(runtime: Runtime) -> dict[str, int]:
    seen = {str(agent): (await runtime.view(agent, factory=Account, type=Account))._total for agent in accounts(3)}
    return seen | {"ledger": (await ledger_of(runtime))._total}


async def test_all_agents_of_all_workers_are_brought_back_to_one_instant(dsn: str) -> None:
    async with AsyncExitStack() as stack:
        address = (await stack.enter_async_context(hosting())).address
        front, log = await worker(stack, dsn, address, "teller")
        await worker(stack, dsn, address, "account", "ledger")
        for number in range(6):
            await deposit(front, number, number % 3)
        wanted = {"account/0": 23, "account/1": 25, "account/2": 27, "ledger": 75}

        async def settled() -> object:
            return await totals(front) == wanted

        await until(settled, "the ledger has all six")
        cut = max([head.position for head in await log.agents()])
        for number in range(6, 20):
            await deposit(front, number, number % 3)
        reports = await front.restore_all(position=cut)
        assert {str(report.agent) for report in reports} == {
            *(f"{kind}/{key}" for kind in ("account", "teller") for key in range(3)),
            "ledger/all",
        }
        assert await totals(front) == wanted
        assert (await deposit(front, 100, 0)).total == 23 + 110
        served = await front.view(AgentId("teller", "0"), type=Teller)
        assert sorted(served._served) == [0, 3, 100]


async def test_what_was_on_its_way_from_the_abandoned_branch_is_refused(dsn: str) -> None:
    """Deposits go on while all is brought back: afterwards accounts, tellers and ledger agree on what happened."""
    async with AsyncExitStack() as stack:
        address = (await stack.enter_async_context(hosting())).address
        front, log = await worker(stack, dsn, address, "teller")
        await worker(stack, dsn, address, "account", "ledger")
        for number in range(3):
            await deposit(front, number, number)

        async def told() -> object:  # else a publication would be under way at the cut, and lost to the ledger
            return len((await ledger_of(front))._numbers) == 3

        await until(told, "the ledger has all three")
        cut = max([head.position for head in await log.agents()])
        storm = [asyncio.create_task(deposit(front, number, number % 3)) for number in range(3, 60)]
        await asyncio.wait(storm, return_when=asyncio.FIRST_COMPLETED)
        await front.restore_all(position=cut)
        await asyncio.gather(*storm, return_exceptions=True)

        async def agree() -> object:
            numbers = [
                number
                for agent in accounts(3)
                for number in (await front.view(agent, factory=Account, type=Account))._numbers
            ]
            told = (await front.view(LEDGER, factory=Ledger, type=Ledger))._numbers
            return len(numbers) == len(set(numbers)) and sorted(numbers) == sorted(told)

        await until(agree, "accounts and ledger agree", timeout=20)


async def test_agents_of_a_worker_that_is_gone_are_brought_back_in_the_log(dsn: str) -> None:
    async with AsyncExitStack() as stack:
        address = (await stack.enter_async_context(hosting())).address
        front, log = await worker(stack, dsn, address, "teller")
        async with AsyncExitStack() as gone:
            await worker(gone, dsn, address, "account", "ledger")
            await deposit(front, 1, 0)
            cut = max([head.position for head in await log.agents()])
            await deposit(front, 2, 0)
        await front.restore_all(position=cut)
        await worker(stack, dsn, address, "account", "ledger")
        assert (await deposit(front, 3, 0)).total == 11 + 13


async def test_a_handler_that_does_not_end_keeps_all_agents_as_they_are(dsn: str) -> None:
    async with AsyncExitStack() as stack:
        address = (await stack.enter_async_context(hosting())).address
        front, log = await worker(stack, dsn, address, "teller")
        await worker(stack, dsn, address, "account", "ledger")
        await deposit(front, 1, 0)
        cut = max([head.position for head in await log.agents()])
        await deposit(front, 2, 0)
        slow = asyncio.create_task(deposit(front, 3, 1, 4.0))

        async def begun() -> object:
            return await log.audit.in_flight(agent="account/1")

        await until(begun, "the slow one runs")
        with pytest.raises(AgentBusy):
            await front.restore_all(position=cut, timeout=0.5)
        first = await front.view(AgentId("account", "0"), factory=Account, type=Account)
        assert first._total == 11 + 12
        assert (await slow).total == 13
