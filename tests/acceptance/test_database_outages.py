"""The database goes away under load, shortly and for long: nothing is lost, nothing is done twice (G2, G8; E10)."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest
from autogen_core import AgentId

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.errors import DatabaseUnavailable, EventLogError
from autogen_eventlog.postgres.embedded import EmbeddedServer, open_embedded
from autogen_eventlog.runtime.handler import Durability
from autogen_eventlog.testing.waiting import wait_until

from .asking import until
from .checking import at_rest, check_every_version, check_states, check_versions, unheard
from .programs.town import Clerk, Order, found

OUTAGES = int(os.environ.get("EVENTLOG_TEST_OUTAGES", "6"))
DRIVERS = 6


class Town:
    """A runtime with the town on it, and drivers that keep it busy."""

    def __init__(self, runtime: EventSourcedAgentRuntime, log: EventLog) -> None:
        self.runtime = runtime
        self.log = log
        self.tried: list[int] = []
        self.answered: list[int] = []
        self.errors: list[EventLogError] = []

    async def drive(self, driver: int, closing: asyncio.Event) -> None:
        number = max((n for n in self.tried if n // 1_000_000 == driver), default=driver * 1_000_000)
        while not closing.is_set():
            number += 1
            self.tried.append(number)
            try:
                receipt = await self.runtime.send_message(Order(number), AgentId("clerk", str(driver % 2)))
            except EventLogError as error:
                self.errors.append(error)
                continue
            assert receipt.number == number
            self.answered.append(number)

    @asynccontextmanager
    async def busy(self) -> AsyncIterator[None]:
        closing = asyncio.Event()
        drivers = [asyncio.create_task(self.drive(driver, closing)) for driver in range(1, DRIVERS + 1)]
        try:
            yield
        finally:
            closing.set()
            await asyncio.gather(*drivers)

    async def more_answers(self, count: int) -> None:
        enough = len(self.answered) + count

        async def answered() -> bool:
            return len(self.answered) >= enough

        await until(answered, f"{count} more answers come", timeout=60, interval=0.001)

    async def check(self) -> None:
        states = await at_rest(self.runtime, self.log)
        check_states(states, self.answered, self.tried, await unheard(self.log))
        check_versions(self.log.dsn)
        await check_every_version(self.runtime, self.log, random.Random(1))


@asynccontextmanager
async def town(log: EventLog, durability: Durability = "output") -> AsyncIterator[Town]:
    runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, durability=durability)])
    await found(runtime)
    runtime.start()
    yield Town(runtime, log)
    await runtime.stop_when_idle()


@pytest.mark.parametrize("durability", ["output", "strict"])
async def test_connections_cut_again_and_again_under_load_cost_nothing_but_time(
    dsn: str, durability: Durability
) -> None:
    async with EventLog.open(dsn) as log, town(log, durability) as busy_town:
        async with busy_town.busy():
            for _ in range(OUTAGES * 4):
                await busy_town.more_answers(random.randint(1, 20))
                cut_all(dsn)
        assert busy_town.errors == []
        assert sorted(busy_town.answered) == sorted(busy_town.tried)
        await busy_town.check()


async def test_an_embedded_server_that_is_killed_under_load_comes_back_by_itself(tmp_path: Path) -> None:
    async with EventLog.open(data_dir=tmp_path / "data") as log, town(log) as busy_town:
        async with busy_town.busy():
            for _ in range(OUTAGES // 2):
                await busy_town.more_answers(random.randint(1, 60))
                kill_server(log.dsn, signal.SIGKILL)
                await busy_town.more_answers(1)
        assert busy_town.errors == []
        await busy_town.check()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server that nobody but the test starts again: its log is opened by dsn."""
    with open_embedded(tmp_path / "data") as server:
        yield server
        server.ensure_running()


async def test_a_server_of_ones_own_that_is_restarted_under_load_costs_nothing_but_time(
    own_server: EmbeddedServer,
) -> None:
    async with EventLog.open(own_server.dsn) as log, town(log) as busy_town:
        async with busy_town.busy():
            for how in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL)[:OUTAGES]:
                await busy_town.more_answers(random.randint(1, 60))
                kill_server(own_server.dsn, how)
                await asyncio.to_thread(own_server.ensure_running)
                await busy_town.more_answers(1)
        assert busy_town.errors == []
        await busy_town.check()


@pytest.mark.parametrize("durability", ["output", "strict"])
async def test_a_server_away_for_too_long_fails_the_senders_and_agents_go_on_from_the_log_when_it_is_back(
    own_server: EmbeddedServer, durability: Durability, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = handlers_that_ran(monkeypatch)
    async with EventLog.open(own_server.dsn, unavailable_after=0.3) as log, town(log, durability) as busy_town:
        for _ in range(2):
            async with busy_town.busy():
                await busy_town.more_answers(random.randint(1, 60))
                known = len(busy_town.errors)
                kill_server(own_server.dsn, signal.SIGINT)

                async def failed(known: int = known) -> bool:
                    return len(busy_town.errors) >= known + DRIVERS

                await until(failed, "the senders are told", timeout=20)
                answered = len(busy_town.answered)
                await until(failed, "nothing is answered meanwhile")
                assert len(busy_town.answered) == answered
                await asyncio.to_thread(own_server.ensure_running)
                await busy_town.more_answers(DRIVERS)
        assert {type(error) for error in busy_town.errors} == {DatabaseUnavailable}
        assert {error.waited_seconds for error in busy_town.errors} == {0.3}  # type: ignore[attr-defined]
        await busy_town.check()
        if durability == "strict":
            assert ran <= await delivered(log)


def handlers_that_ran(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Collects, outside the agents, the numbers of the orders whose handlers began."""
    ran: set[int] = set()
    handle = Clerk.on_message_impl

    async def watched(self: Clerk, message: object, ctx: object) -> object:
        if isinstance(message, Order):
            ran.add(message.number)
        return await handle(self, message, ctx)  # type: ignore[arg-type]

    monkeypatch.setattr(Clerk, "on_message_impl", watched)
    return ran


async def delivered(log: EventLog) -> set[int]:
    messages = [log.message(event) for key in "01" async for event in log.read(f"clerk/{key}")]
    return {message.number for message in messages if isinstance(message, Order)}


def cut_all(dsn: str) -> None:
    """pg_terminate_backend, of every connection to the database but our own."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def kill_server(dsn: str, how: signal.Signals) -> None:
    """SIGINT: fast shutdown. SIGQUIT: immediate shutdown. SIGKILL: its end, without any."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT pg_read_file('postmaster.pid')").fetchone()
    assert row is not None
    postmaster = int(row[0].split()[0])
    os.kill(postmaster, how)
    wait_until(lambda: not is_running(postmaster), "the server is gone")


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
