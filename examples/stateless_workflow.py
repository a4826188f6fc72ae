"""A workflow whose agent keeps nothing: `python examples/stateless_workflow.py`.

The agent runs on AutoGen's own GrpcWorkerAgentRuntime, which saves no state. So it keeps its state where no worker's death
reaches it: in the state service of an EventSourcedGrpcWorkerAgentRuntimeHost. This program starts such a host and a worker,
kills the worker with SIGKILL in the middle of a step, starts another, and lets that one finish.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import grpc
from autogen_core import (
    AgentId,
    MessageContext,
    RoutedAgent,
    TopicId,
    TypeSubscription,
    event,
    try_get_known_serializers_for_type,
)
from autogen_ext.runtimes.grpc import GrpcWorkerAgentRuntime

from autogen_eventlog import EventLog
from autogen_eventlog.distributed import (
    AgentStateClient,
    EventSourcedGrpcWorkerAgentRuntimeHost,
    StoredState,
    state_stream,
)

STEPS = ["reserve", "charge", "pack", "ship"]
KILLED_IN = "pack"
ORDER, ORDERS = AgentId("order", "42"), "orders"


@dataclass
class Advance:
    """Do the next step."""


class OrderWorkflow(RoutedAgent):
    """Does one step for each message. All it knows of an order is in the state service."""

    def __init__(self, states: AgentStateClient) -> None:
        super().__init__("carries an order through its steps")
        self._states = states

    @event
    async def advance(self, message: Advance, ctx: MessageContext) -> None:
        state = await self._states.get(self.id)
        done = steps_in(state)
        if len(done) == len(STEPS):
            return
        step = STEPS[len(done)]
        print(f"{step}: begun, after {', '.join(done) or 'nothing'}", flush=True)
        await asyncio.sleep(0.3)  # the work; a step that had begun is done again, and must bear that
        # The ETag makes sure that nobody else has done the step meanwhile.
        await self._states.save(self.id, json.dumps([*done, step]), etag=None if state is None else state.etag)
        print(f"{step}: done and saved", flush=True)


def steps_in(state: StoredState | None) -> list[str]:
    return [] if state is None else json.loads(str(state.data))


# -- the worker, a process of its own -----------------------------------------------------------------------------


async def work(address: str) -> None:
    async with AgentStateClient(address) as states:
        await registered(address, states)
        print("ready", flush=True)
        await asyncio.Event().wait()


async def registered(address: str, states: AgentStateClient) -> GrpcWorkerAgentRuntime:
    """A worker whose agent the host knows. It refuses a second worker of a type until it has noticed the first one's end."""
    while True:
        runtime = GrpcWorkerAgentRuntime(address)
        await runtime.start()
        try:
            await OrderWorkflow.register(runtime, ORDER.type, lambda: OrderWorkflow(states))
            await runtime.add_subscription(TypeSubscription(ORDERS, ORDER.type))
            return runtime
        except grpc.aio.AioRpcError:
            await runtime.stop()
            await asyncio.sleep(0.1)


class Worker:
    """The process, and what it says."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self._name = name
        self._process = process
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, name: str, address: str) -> Worker:
        arguments = [sys.executable, __file__, "--work", address]
        worker = cls(name, await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE))
        await worker.says("ready")
        return worker

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            print(f"{self._name}: {line.decode().rstrip()}", flush=True)
            self._lines.put_nowait(line.decode())

    async def says(self, beginning: str) -> None:
        while not (await asyncio.wait_for(self._lines.get(), 30)).startswith(beginning):
            pass

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        await self._process.wait()
        await self._listening


# -- the program --------------------------------------------------------------------------------------------------


async def tour(dsn: str | None, data_dir: Path | None) -> None:
    async with EventLog.open(dsn, data_dir=data_dir) as log:
        if await log.head(state_stream(ORDER)) is not None:
            raise SystemExit("The log given already holds this example. Give an empty directory or database.")
        host = EventSourcedGrpcWorkerAgentRuntimeHost("localhost:0", log)
        host.start()
        try:
            async with AgentStateClient(host.address) as states:
                await carry_through(host.address, states)
        finally:
            await host.stop(grace=0)
        print("\nWhat the log has of it:")
        history = [(event.version, str(log.message(event))) async for event in log.read(state_stream(ORDER))]
        for version, state in history:
            print(f"  version {version}: {state}")
        assert [json.loads(state) for _, state in history] == [STEPS[: count + 1] for count in range(len(STEPS))]
        print("Everything was as it should be.")


async def carry_through(address: str, states: AgentStateClient) -> None:
    runtime = GrpcWorkerAgentRuntime(address)
    await runtime.start()
    runtime.add_message_serializer(try_get_known_serializers_for_type(Advance))
    worker = await Worker.start("worker 1", address)
    try:
        for step in STEPS[: STEPS.index(KILLED_IN)]:
            await advance(runtime)
            await worker.says(f"{step}: done")
        await advance(runtime)
        await worker.says(KILLED_IN)
        await worker.kill()
        print(f"worker 1: ended by kill -9, in the middle of {KILLED_IN}\n")
        worker = await Worker.start("worker 2", address)
        for step in STEPS[STEPS.index(KILLED_IN) :]:
            await advance(runtime)
            await worker.says(f"{step}: done")
    finally:
        await worker.kill()
        await runtime.stop()
    print(f"\nThe order went through {', '.join(steps_in(await states.get(ORDER)))}.")


async def advance(runtime: GrpcWorkerAgentRuntime) -> None:
    await runtime.publish_message(Advance(), TopicId(ORDERS, ORDER.key))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, help="keep the log there (default: a temporary directory, removed)")
    parser.add_argument("--dsn", help="a Postgres of yours, in place of the embedded one")
    parser.add_argument("--work", metavar="ADDRESS", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work is not None:
        asyncio.run(work(given.work))
        return
    with contextlib.ExitStack() as stack:
        data_dir = given.data_dir
        if data_dir is None and given.dsn is None:
            temporary = tempfile.TemporaryDirectory(prefix="eventlog-", ignore_cleanup_errors=True)
            data_dir = Path(stack.enter_context(temporary))
        asyncio.run(tour(given.dsn, data_dir))


if __name__ == "__main__":
    main()
