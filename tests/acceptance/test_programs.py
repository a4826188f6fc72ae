"""`eventlog host` and `eventlog worker` as a person or a supervisor runs them: started, asked, stopped, killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from autogen_core import AgentId

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedGrpcWorkerAgentRuntime
from autogen_eventlog.events import EventType

from .asking import until
from .programs.remote import Account, Balance, Deposit
from .test_failover import driver, free_port, ledger_of
from .workers import ROOT, Worker

APP = "tests.acceptance.programs.remote_app"
X = AgentId("account", "x")


class Command(Worker):
    """`eventlog --json …` in a process of its own. What its agents print is JSON too."""

    def __init__(self, dsn: str | None, *arguments: object, **environment: str) -> None:
        self._run("", dsn or "")
        self._arguments = ["-m", "autogen_eventlog", "--json", *map(str, arguments)]
        path = os.pathsep.join(part for part in (str(ROOT / "src"), os.environ.get("PYTHONPATH", "")) if part)
        self._environment = os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": ""} | environment
        self._environment["EVENTLOG_DSN"] = dsn or "host=nowhere.invalid"

    async def __aenter__(self) -> Command:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *self._arguments,
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        return self

    async def ended(self) -> tuple[int, str]:
        """Exit code, and what it said on stderr."""
        _, said = await asyncio.wait_for(self.process.communicate(), 60)
        return await self.process.wait(), said.decode()


@asynccontextmanager
async def running_host(dsn: str | None, port: int, *more: str) -> AsyncGenerator[Command]:
    async with Command(dsn, "host", "--address", f"localhost:{port}", *more) as host:
        await host.says("listening")
        yield host


def a_worker(dsn: str, port: int, *more: object, app: str = "register", **environment: str) -> Command:
    return Command(dsn, "worker", f"{APP}:{app}", "--host", f"localhost:{port}", *more, **environment)


async def asked(port: int, path: str = "/ready") -> tuple[int, dict[str, Any]]:
    """Status and body; 0: nobody answers."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return 0, {}
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    return (int(head.split()[1]), json.loads(body)) if head else (0, {})


async def until_ready(port: int, status: int = 200, **expected: Any) -> dict[str, Any]:
    async def is_so() -> dict[str, Any] | None:
        found, said = await asked(port)
        return said if found == status and expected.items() <= said.items() else None

    found = await until(is_so, f"/ready says {status} {expected}", timeout=30)
    assert found is not None
    return found


def at(port: int) -> tuple[str, str]:
    return "--health", f"127.0.0.1:{port}"


# -- stopped in good order --------------------------------------------------------------------------------------------


async def test_a_worker_that_is_told_to_stop_lets_its_handlers_end_and_what_they_published_arrive(dsn: str) -> None:
    port, probe = free_port(), free_port()
    async with running_host(dsn, port) as host, driver(dsn, port) as (runtime, log):
        async with a_worker(dsn, port, *at(probe)) as worker:
            ready = await worker.says("ready")
            assert ready["agent_types"] == ["account", "ledger"]
            call = asyncio.create_task(runtime.send_message(Deposit(1, "x", 5, 0.5), X))
            await worker.says("begun", 1)
            assert (await until_ready(probe, running=1))["state"] == "serving"
            worker.signal(signal.SIGTERM)
            await until_ready(probe, 503, state="stopping")
            assert await call == Balance(5)
            assert await worker.ended() == (0, "")
        assert (await ledger_of(runtime))._numbers == [1]
        assert await log.audit.undelivered() == []
        assert await log.audit.in_flight() == []
        [mine, gone] = await log.audit.holdings()
        assert (mine.worker.process, mine.worker.alive) == (os.getpid(), True)
        assert (gone.worker.alive, gone.lag, dict(gone.agents)) == (False, None, {})
        host.signal(signal.SIGINT)
        assert await host.ended() == (0, "")


async def test_a_second_signal_ends_a_worker_at_once_and_the_next_goes_on(dsn: str) -> None:
    port, probe = free_port(), free_port()
    async with running_host(dsn, port), driver(dsn, port) as (runtime, _):
        async with a_worker(dsn, port, *at(probe)) as worker:
            await worker.says("ready")
            call = asyncio.create_task(runtime.send_message(Deposit(1, "x", 5, 2.0), X))
            await worker.says("begun", 1)
            worker.signal(signal.SIGTERM)
            await until_ready(probe, 503, state="stopping")
            worker.signal(signal.SIGTERM)
            assert (await worker.ended())[0] == -signal.SIGTERM
        async with a_worker(dsn, port) as second:
            await second.says("ready")
            assert await call == Balance(5)
            second.signal(signal.SIGTERM)
            assert (await second.ended())[0] == 0


async def test_a_handler_that_went_on_without_a_caller_ends_before_its_worker(dsn: str) -> None:
    port, probe = free_port(), free_port()
    async with running_host(dsn, port):
        async with a_worker(dsn, port, "--durability", "strict") as first, EventLog.open(dsn) as log:
            await first.says("ready")
            runtime = EventSourcedGrpcWorkerAgentRuntime(
                f"localhost:{port}", intervention_handlers=[EventLogHandler(log)], stop_timeout=0
            )
            await runtime.start()
            call = asyncio.create_task(runtime.send_message(Deposit(1, "x", 5, 1.0), X))
            await first.says("begun", 1)
            await first.kill()
            call.cancel()
            await asyncio.wait([call])
            await runtime.stop()
        async with a_worker(dsn, port, *at(probe)) as second:
            await second.says("ready")
            await until_ready(probe, running=1)
            second.signal(signal.SIGTERM)
            assert (await second.ended())[0] == 0
    async with EventLog.open(dsn) as log:
        types = [event.type async for event in log.read(X)]
        assert types[-1] is EventType.DELIVERY_COMPLETED
        assert await log.audit.in_flight() == []


async def test_a_worker_that_still_waits_for_its_host_stops_at_a_signal(dsn: str) -> None:
    probe = free_port()
    async with a_worker(dsn, free_port(), *at(probe)) as worker:
        await until_ready(probe, 503, state="starting", connected=False)
        async with Command(dsn, "health", "--live", f"127.0.0.1:{probe}") as health:
            assert await health.ended() == (0, "")
        worker.signal(signal.SIGTERM)
        assert await worker.ended() == (0, "")


# -- killed, cut off ---------------------------------------------------------------------------------------------------


async def test_a_worker_is_not_ready_while_it_recovers_what_a_killed_one_left(dsn: str, tmp_path: Path) -> None:
    port, probe, gate = free_port(), free_port(), tmp_path / "gate"
    gate.touch()
    async with running_host(dsn, port), driver(dsn, port) as (runtime, _):
        strict = "--durability", "strict"
        async with a_worker(dsn, port, *strict, app="register_behind_a_gate", GATE=str(gate)) as first:
            await first.says("ready")
            call = asyncio.create_task(runtime.send_message(Deposit(1, "x", 5, 0.5), X))
            await first.says("begun", 1)
        gate.unlink()
        async with a_worker(dsn, port, *at(probe), app="register_behind_a_gate", GATE=str(gate)) as second:
            await until_ready(probe, 503, recovering=1, connected=True, database=True, agent_types=["account"])
            assert (await asked(probe, "/live"))[0] == 200
            gate.touch()
            await second.says("ready")
            await until_ready(probe, recovering=0, agents=1)
            assert await call == Balance(5)
            seen = await runtime.view(X, factory=Account, type=Account)
            assert seen._numbers == [1]


async def test_a_worker_is_not_ready_while_its_host_is_away_and_is_again_when_it_is_back(dsn: str) -> None:
    port, probe = free_port(), free_port()
    async with driver_at(dsn, port) as runtime, a_worker(dsn, port, *at(probe)) as worker:
        async with running_host(dsn, port) as host:
            await runtime.start()
            await worker.says("ready")
            assert await runtime.send_message(Deposit(1, "x", 5), X) == Balance(5)
            await until_ready(probe, connected=True)
            await host.kill()
            await until_ready(probe, 503, connected=False)
            async with Command(dsn, "health", f"127.0.0.1:{probe}") as health:
                assert await health.ended() == (1, "")
        call = asyncio.create_task(runtime.send_message(Deposit(2, "x", 7), X))
        async with running_host(dsn, port):
            await until_ready(probe, connected=True, agent_types=["account", "ledger"])
            assert await call == Balance(12)
            async with Command(dsn, "health", f"127.0.0.1:{probe}") as health:
                assert await health.ended() == (0, "")
            await runtime.stop()


@asynccontextmanager
async def driver_at(dsn: str, port: int) -> AsyncGenerator[EventSourcedGrpcWorkerAgentRuntime]:
    """Not started."""
    async with EventLog.open(dsn) as log:
        log.register_types(Balance)
        yield EventSourcedGrpcWorkerAgentRuntime(f"localhost:{port}", intervention_handlers=[EventLogHandler(log)])


async def test_a_plain_host_needs_no_log(dsn: str) -> None:
    port = free_port()
    async with running_host(None, port, "--plain") as host, driver(dsn, port) as (runtime, _):
        async with a_worker(dsn, port) as worker:
            await worker.says("ready")
            assert await runtime.send_message(Deposit(1, "x", 5), X) == Balance(5)
            worker.signal(signal.SIGTERM)
            assert await worker.ended() == (0, "")
        host.signal(signal.SIGTERM)
        assert await host.ended() == (0, "")


# -- refused -----------------------------------------------------------------------------------------------------------


async def refusal(command: Command) -> str:
    async with command:
        code, said = await command.ended()
    assert code == 1
    assert said.startswith("eventlog: ") and len(said.splitlines()) == 1, said
    return said


async def test_a_program_that_registers_nothing_is_warned_of(dsn: str) -> None:
    port = free_port()
    async with running_host(dsn, port), a_worker(dsn, port, app="register_nothing") as worker:
        await worker.says("ready")
        worker.signal(signal.SIGTERM)
        code, said = await worker.ended()
    assert code == 0
    assert f"WARNING autogen_eventlog.cli.serving: {APP}:register_nothing registered no agents" in said


async def test_what_the_host_or_the_program_refuses_is_said_in_one_line(dsn: str) -> None:
    port = free_port()
    async with running_host(dsn, port), a_worker(dsn, port) as worker:
        await worker.says("ready")
        taken, broken = a_worker(dsn, port), a_worker(dsn, port, app="register_badly")
        said = await asyncio.gather(refusal(taken), refusal(broken))
    assert said[0].startswith("eventlog: agent type 'account' was not registered")
    assert said[1] == f"eventlog: {APP}:register_badly raised RuntimeError: no such shop\n"


async def test_strings_are_hashed_alike_in_every_worker_unless_a_seed_is_given(dsn: str) -> None:
    port = free_port()
    async with running_host(dsn, port):
        for given, expected in (({}, "0"), ({"PYTHONHASHSEED": "7"}, "7")):
            async with a_worker(dsn, port, app="register_nothing", **given) as worker:
                await worker.says("ready")
                assert f"PYTHONHASHSEED={expected}" in environment_of(worker.process.pid)


def environment_of(process: int) -> list[str]:
    return Path(f"/proc/{process}/environ").read_text().split("\0")


@pytest.mark.parametrize("command", ["host", "worker", "health"])
def test_help_loads_no_grpc(command: str) -> None:
    program = (
        "import sys\nfrom typer.testing import CliRunner\nfrom autogen_eventlog.cli import app\n"
        f"assert CliRunner().invoke(app, [{command!r}, '--help']).exit_code == 0\n"
        "assert 'grpc' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
