"""A worker in a network of its own, whose packets vanish on the way: one way, or both, for shorter or longer than TCP waits.

It takes network namespaces, which Linux gives to root, and to others where the machine allows it; elsewhere this is skipped.
(`tests/integration/test_worker_partition.py` does the like with a proxy, everywhere.)
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from autogen_core import AgentId

from autogen_eventlog import EventLog
from autogen_eventlog.events import EventType

from .workers import ROOT, Far

NEAR, FAR, PORT = "10.111.0.1", "10.111.0.2", 50051
ADDRESS = f"{NEAR}:{PORT}"
SETUP = f"""
set -e
mount -t tmpfs none /run
mkdir /run/netns
ip link set lo up
ip netns add far
ip link add near0 type veth peer name far0 netns far
ip link set near0 address 02:00:00:00:00:01
ip -n far link set far0 address 02:00:00:00:00:02
ip address add {NEAR}/24 dev near0
ip -n far address add {FAR}/24 dev far0
ip link set near0 up
ip -n far link set far0 up
ip -n far link set lo up
ip netns exec far sysctl -qw net.ipv4.tcp_orphan_retries=1 net.ipv4.tcp_fin_timeout=1
echo up
exec cat
"""
TRUE = {"out": "02:00:00:00:00:01", "in": "02:00:00:00:00:02"}
NOBODY = "02:00:00:00:00:99"

THOROUGH = bool(os.environ.get("EVENTLOG_TEST_THOROUGH"))
"""Each way by itself as well: the other tests, and those through a proxy, cut one way."""


class Network:
    """Two networks with one cable between them: the near one has the host, the far one a worker."""

    def __init__(self, holder: asyncio.subprocess.Process, private: list[str]) -> None:
        users = ["-U", "--preserve-credentials"] if "-r" in private else []
        self.near = ("nsenter", "-t", str(holder.pid), "-n", "-m", f"--wd={ROOT}", *users)
        self.far = (*self.near, "ip", "netns", "exec", "far")

    def stop(self, *ways: str) -> None:
        """What the far one sends (`out`), or is sent (`in`), is lost without a word."""
        for way in ways:
            self._sends_to(way, NOBODY)

    def flow(self) -> None:
        for way, address in TRUE.items():
            self._sends_to(way, address)

    def _sends_to(self, way: str, address: str) -> None:
        where, neighbour, device = (self.far, NEAR, "far0") if way == "out" else (self.near, FAR, "near0")
        said = ["ip", "neighbour", "replace", neighbour, "lladdr", address, "dev", device, "nud", "permanent"]
        subprocess.run([*where, *said], check=True)


@asynccontextmanager
async def networks() -> AsyncGenerator[Network]:
    private = ["-n", "-m"] if os.geteuid() == 0 else ["-r", "-n", "-m"]
    if not all(map(shutil.which, ("unshare", "nsenter", "ip", "sysctl"))):
        pytest.skip("there is no unshare, nsenter, sysctl or ip")
    pipe = subprocess.PIPE
    holder = await asyncio.create_subprocess_exec(
        "unshare", *private, "sh", "-c", SETUP, stdin=pipe, stdout=pipe, stderr=pipe
    )
    assert holder.stdout is not None and holder.stderr is not None
    try:
        if await holder.stdout.readline() != b"up\n":
            pytest.skip(f"this machine gives no network namespaces: {(await holder.stderr.read()).decode().strip()}")
        yield Network(holder, private)
    finally:
        if holder.returncode is None:
            holder.kill()
        await holder.communicate()


class Scene:
    """A host and a worker with callers nearby, and the network; what is far away the test adds."""

    def __init__(self, dsn: str, network: Network, stack: AsyncExitStack) -> None:
        self.dsn = dsn
        self.network = network
        self._stack = stack
        self._number = 0

    async def near(self, *arguments: object) -> Far:
        return await self._stack.enter_async_context(Far(self.network.near, *arguments))

    async def far(self, *arguments: object) -> Far:
        return await self._stack.enter_async_context(Far(self.network.far, *arguments))

    def ask(self, worker: Far, **what: Any) -> asyncio.Task[dict[str, Any]]:
        self._number += 1
        worker.ask("", self._number, **what)
        return asyncio.create_task(worker.answer(self._number))

    async def deposits(self, account: str) -> int:
        """How many were delivered, by the log."""
        async with EventLog.open(self.dsn) as log:
            events = [event async for event in log.read(AgentId("account", account))]
        return sum(event.type is EventType.MESSAGE_DELIVERED for event in events)


@pytest.fixture
async def scene(dsn: str) -> AsyncIterator[Scene]:
    async with networks() as network, AsyncExitStack() as stack:
        made = Scene(dsn, network, stack)
        await made.near("host", ADDRESS)
        yield made


async def total(answer: asyncio.Task[dict[str, Any]], within: float) -> Any:
    """The balance that was answered, or what was said instead."""
    said = await asyncio.wait_for(answer, within)
    return said.get("total", said)


@pytest.mark.parametrize("way", ["out", "in"])
async def test_the_log_is_a_way_round_a_cut_for_answers(scene: Scene, way: str) -> None:
    """`out`: the agent's worker hears the question and can't answer. `in`: the caller can ask and does not hear the answer."""
    if way == "out":
        caller = await scene.near("worker", scene.dsn, ADDRESS, 60)
        await scene.far("worker", scene.dsn, ADDRESS, 60, "account")
    else:
        caller = await scene.far("worker", scene.dsn, ADDRESS, 60)
        await scene.near("worker", scene.dsn, ADDRESS, 60, "account")
    assert await total(scene.ask(caller, account="x", amount=1), 10) == 1
    scene.network.stop(way)
    assert await total(scene.ask(caller, account="x", amount=2), 8) == 3
    assert await scene.deposits("x") == 2


@pytest.mark.parametrize("ways", [("out",), ("in",), ("out", "in")] if THOROUGH else [("out", "in")])
async def test_what_was_called_while_its_worker_was_cut_off_is_done_once_when_it_is_back(
    scene: Scene, ways: tuple[str, ...]
) -> None:
    """The cut lasts until the worker has given its connection up; the host was never told, its kernel neither."""
    caller = await scene.near("worker", scene.dsn, ADDRESS, 120)
    worker = await scene.far("worker", scene.dsn, ADDRESS, 120, "account")
    assert await total(scene.ask(caller, account="x", amount=1), 10) == 1
    scene.network.stop(*ways)
    calls = [scene.ask(caller, account="x", amount=amount) for amount in (10, 100)]
    await asyncio.wait_for(scene.ask(worker, connected=False), 20)
    scene.network.flow()
    await asyncio.wait_for(scene.ask(worker, connected=True), 30)
    assert {await total(call, 90) for call in calls} in ({11, 111}, {101, 111})
    assert await total(scene.ask(caller, account="x", amount=1000), 60) == 1111
    assert await scene.deposits("x") == 4


async def test_a_worker_that_is_back_gets_its_types_though_nobody_asks_for_them(scene: Scene) -> None:
    """The host still has its old connection, which nothing was sent on since, so that it can't have noticed."""
    worker = await scene.far("worker", scene.dsn, ADDRESS, 60, "account")
    scene.network.stop("out", "in")
    await asyncio.wait_for(scene.ask(worker, connected=False), 20)
    await asyncio.sleep(3)  # in which its kernel gives up telling the host that the old connection has ended
    scene.network.flow()
    await asyncio.wait_for(scene.ask(worker, connected=True), 30)
    assert await total(scene.ask(worker, account="x", amount=1), 60) == 1


async def test_a_call_to_a_worker_that_stays_cut_off_ends_in_bounded_time(scene: Scene) -> None:
    caller = await scene.near("worker", scene.dsn, ADDRESS, 5)
    await scene.far("worker", scene.dsn, ADDRESS, 60, "account")
    scene.network.stop("out", "in")
    assert (await total(scene.ask(caller, account="x", amount=1), 20))["error"] == "Undeliverable"
    assert await scene.deposits("x") == 0
