"""What the tests of the state service share: hosts, clients, and the messages that old clients speak."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
from autogen_core import AgentId
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory

from autogen_eventlog import EventLog
from autogen_eventlog.distributed import AgentStateClient, EventSourcedGrpcWorkerAgentRuntimeHost

ROOT = Path(__file__).parents[2]
ONE = AgentId("workflow", "1")
MIB = 1024 * 1024


@asynccontextmanager
async def serving(log: EventLog, *config: tuple[str, Any]) -> AsyncGenerator[EventSourcedGrpcWorkerAgentRuntimeHost]:
    """A host on a free port."""
    host = EventSourcedGrpcWorkerAgentRuntimeHost("localhost:0", log, list(config))
    host.start()
    try:
        yield host
    finally:
        await host.stop(grace=0)


@asynccontextmanager
async def clients(dsn: str, hosts: int, each: int, **options: Any) -> AsyncGenerator[list[AgentStateClient]]:
    """Clients of as many hosts, each host with a log of its own, as processes have."""
    async with AsyncExitStack() as stack:
        made: list[AgentStateClient] = []
        for _ in range(hosts):
            log = await stack.enter_async_context(EventLog.open(dsn, **options))
            host = await stack.enter_async_context(serving(log))
            made += [await stack.enter_async_context(AgentStateClient(host.address)) for _ in range(each)]
        yield made


class OldClient:
    """A client of `agents.AgentRpc` as it was: its messages are those of the commit, in a pool of their own.

    Args:
        first: Whether of October 2024 (14846a3e8), with `success` and `error`; else of January 2025 (7445e4b27).
    """

    def __init__(self, address: str, *, first: bool) -> None:
        pool = descriptor_pool.DescriptorPool()
        pool.AddSerializedFile(any_pb2.DESCRIPTOR.serialized_pb)
        pool.Add(_old_file(first))  # pyright: ignore
        self._message = lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"agents.{name}"))
        self.id: Any = self._message("AgentId")
        self.state: Any = self._message("AgentState")
        self._channel = grpc.aio.insecure_channel(address)

    async def __aenter__(self) -> OldClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def get(self, agent: AgentId) -> Any:
        """The whole GetStateResponse."""
        return await self._ask("GetState", self.id(type=agent.type, key=agent.key), "GetStateResponse")

    async def save(self, agent: AgentId, **fields: Any) -> Any:
        """The whole SaveStateResponse."""
        state = self.state(agent_id=self.id(type=agent.type, key=agent.key), **fields)
        return await self._ask("SaveState", state, "SaveStateResponse")

    async def _ask(self, method: str, request: Any, response: str) -> Any:
        call: Any = self._channel.unary_unary(
            f"/agents.AgentRpc/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=self._message(response).FromString,
        )
        return await call(request, timeout=20)


def _old_file(first: bool) -> descriptor_pb2.FileDescriptorProto:
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="agent_worker.proto", package="agents", syntax="proto3")
    file.dependency.append("google/protobuf/any.proto")

    def message(name: str, *fields: tuple[str, int, Any]) -> Any:
        made = file.message_type.add(name=name)
        for field, number, kind in fields:
            added = made.field.add(name=field, number=number, label=kinds.LABEL_OPTIONAL)
            if isinstance(kind, str):
                added.type, added.type_name = kinds.TYPE_MESSAGE, kind
            else:
                added.type = kind
        return made

    message("AgentId", ("type", 1, kinds.TYPE_STRING), ("key", 2, kinds.TYPE_STRING))
    state = message(
        "AgentState",
        ("agent_id", 1, ".agents.AgentId"),
        ("eTag", 2, kinds.TYPE_STRING),
        ("binary_data", 3, kinds.TYPE_BYTES),
        ("text_data", 4, kinds.TYPE_STRING),
        ("proto_data", 5, ".google.protobuf.Any"),
    )
    state.oneof_decl.add(name="data")
    for field in state.field[2:]:
        field.oneof_index = 0
    success = [("success", 1, kinds.TYPE_BOOL), ("error", 2, kinds.TYPE_STRING)] if first else []
    message("SaveStateResponse", *success)
    got = [("success", 2, kinds.TYPE_BOOL), ("error", 3, kinds.TYPE_STRING)] if first else []
    message("GetStateResponse", ("agent_state", 1, ".agents.AgentState"), *got)
    return file


class HostProcess:
    """A host in a process of its own, on a port that stays the same."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self.address = "localhost:0"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.integration.states",
            self._dsn,
            self.address,
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), 60)
        self.address = line.decode().strip()
        assert self.address, f"the host ended with {await self._process.wait()}"

    async def kill(self) -> None:
        """kill -9."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    async def __aenter__(self) -> HostProcess:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()


async def _serve(dsn: str, address: str) -> None:
    async with EventLog.open(dsn) as log:
        host = EventSourcedGrpcWorkerAgentRuntimeHost(address, log)
        host.start()
        print(host.address, flush=True)
        await host.stop_when_signal()


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
