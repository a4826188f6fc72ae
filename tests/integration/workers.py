"""What the tests of workers share: AutoGen's own host on a free port, workers of both kinds at it, a cable to cut, agents."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from autogen_core import (
    AgentId,
    InterventionHandler,
    MessageContext,
    RoutedAgent,
    event,
    rpc,
    try_get_known_serializers_for_type,
)
from autogen_ext.runtimes.grpc import GrpcWorkerAgentRuntime, GrpcWorkerAgentRuntimeHost
from autogen_ext.runtimes.grpc._worker_runtime import HostConnection
from autogen_ext.runtimes.grpc.protos import agent_worker_pb2 as pb
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from autogen_eventlog import EventLog, EventLogHandler
from autogen_eventlog.distributed import EventSourcedGrpcWorkerAgentRuntime
from tests.integration.drop_in import Add, Notice, Total
from tests.integration.store import eventually

T = TypeVar("T")
MEGABYTE = 1_000_000
PATIENCE = 1.0
"""Of our workers, in seconds."""
RAISED = [("grpc.max_send_message_length", 64 * MEGABYTE), ("grpc.max_receive_message_length", 64 * MEGABYTE)]

Options = list[tuple[str, Any]]


class NoAnswer:
    """What comes of a call that nobody answers."""

    def __repr__(self) -> str:
        return "NO_ANSWER"


NO_ANSWER = NoAnswer()


async def outcome(awaitable: Awaitable[Any], within: float = 0.4) -> Any:
    """The value, the error itself, or `NO_ANSWER` after so many seconds."""
    try:
        return await asyncio.wait_for(awaitable, within)
    except (asyncio.TimeoutError, TimeoutError):
        return NO_ANSWER
    except Exception as error:
        return error


async def until(condition: Callable[[], T], what: str, timeout: float = 15.0) -> T:
    """Asks until the answer is true."""

    async def asked() -> T:
        return condition()

    return await eventually(asked, what, timeout=timeout)


# -- the host -----------------------------------------------------------------------------------------------------


class Host:
    """AutoGen's own host, unmodified, on a port that stays its own while it is away."""

    def __init__(self, options: Options) -> None:
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.port: int = self._reserved.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._options = options
        self._host: GrpcWorkerAgentRuntimeHost | None = None

    def start(self) -> None:
        self._host = GrpcWorkerAgentRuntimeHost(self.address, self._options)
        self._host.start()

    async def stop(self) -> None:
        host, self._host = self._host, None
        if host is not None:
            await host.stop(grace=0)

    async def restart(self) -> None:
        """A host that knows of nobody, in the same place."""
        await self.stop()
        self.start()

    def close(self) -> None:
        self._reserved.close()


@asynccontextmanager
async def hosting(*options: tuple[str, Any]) -> AsyncGenerator[Host]:
    host = Host(list(options))
    host.start()
    try:
        yield host
    finally:
        await host.stop()
        host.close()


class Cable:
    """What a worker is connected through. It can be cut, and mended; and it can stop one way alone, without a word."""

    def __init__(self, to: int | str) -> None:
        """
        Args:
            to: A port, or the path of a socket.
        """
        self._to = to
        self._server: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self._whole = True
        self._open = {"out": asyncio.Event(), "in": asyncio.Event()}
        self.flow()
        self.address = ""

    async def __aenter__(self) -> Cable:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        self.flow()
        assert self._server is not None
        self._server.close()
        if self._passing:
            await asyncio.wait(self._passing)

    def cut(self, *, mend: bool = False) -> None:
        """Break every connection through it, and let none through until it is mended."""
        self._whole = mend
        for end in list(self._ends):
            end.transport.abort()

    def mend(self) -> None:
        self._whole = True
        self.flow()

    def stop(self, way: str) -> None:
        """What the worker sends (`out`), or what it is sent (`in`), does not arrive any more; no connection ends."""
        self._open[way].clear()

    def flow(self) -> None:
        """What was stopped goes on."""
        for way in self._open.values():
            way.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._whole:
            writer.transport.abort()
            return
        here = asyncio.current_task()
        assert here is not None
        self._passing.add(here)
        self._ends.add(writer)
        try:
            there, beyond = await self._beyond()
            self._ends.add(beyond)
            if not self._whole:
                beyond.transport.abort()
            await asyncio.gather(self._pass(reader, beyond, "out"), self._pass(there, writer, "in"))
            self._ends.discard(beyond)
        except OSError:
            pass
        finally:
            writer.transport.abort()
            self._ends.discard(writer)
            self._passing.discard(here)

    async def _beyond(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._to, str):
            return await asyncio.open_unix_connection(self._to)
        return await asyncio.open_connection("127.0.0.1", self._to)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await self._open[way].wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


# -- workers ------------------------------------------------------------------------------------------------------


class Workers:
    """Workers at one host. Each event-sourced one has a log of its own on one database, as processes have."""

    def __init__(self, dsn: str, host: Host, log: EventLog, stack: AsyncExitStack) -> None:
        self.host = host
        self.log = log
        """One more, for a look."""
        self._dsn = dsn
        self._stack = stack
        self._logs: dict[int, AsyncExitStack] = {}

    async def of(self, kind: str, *types: type, **options: Any) -> GrpcWorkerAgentRuntime:
        """A worker of AutoGen's own (`autogen`) or ours (`ours`), started, that knows some types of messages."""
        return await (self.plain(*types, **options) if kind == "autogen" else self.ours(*types, **options))

    async def plain(self, *types: type, address: str | None = None, **options: Any) -> GrpcWorkerAgentRuntime:
        worker = GrpcWorkerAgentRuntime(address or self.host.address, **options)
        return await self._started(worker, types)

    async def ours(
        self,
        *types: type,
        handlers: tuple[InterventionHandler, ...] = (),
        recorder: str = "last",
        address: str | None = None,
        recording: dict[str, Any] | None = None,
        opening: dict[str, Any] | None = None,
        **options: Any,
    ) -> EventSourcedGrpcWorkerAgentRuntime:
        """An event-sourced worker.

        Args:
            handlers, recorder: The other intervention handlers, and where the recorder is among them.
            recording: Arguments of the recorder.
            opening: Arguments of its log.
        """
        logs = AsyncExitStack()
        self._stack.push_async_callback(logs.aclose)
        log = await logs.enter_async_context(EventLog.open(**{"dsn": self._dsn, **(opening or {})}))
        recording_handler = EventLogHandler(log, **recording or {})
        chosen = [recording_handler, *handlers] if recorder == "first" else [*handlers, recording_handler]
        worker = EventSourcedGrpcWorkerAgentRuntime(
            address or self.host.address,
            intervention_handlers=chosen,
            **{"patience": PATIENCE, "registration_patience": 0.5, "stop_timeout": 5.0, **options},
        )
        self._logs[id(worker)] = logs
        return await self._started(worker, types)

    async def cable(self) -> Cable:
        return await self._stack.enter_async_context(Cable(self.host.port))

    async def database_cable(self) -> tuple[Cable, str]:
        """A cable to the database, and the dsn by which it is reached through it."""
        parts = conninfo_to_dict(self._dsn)
        to: int | str = int(parts.get("port") or 5432)
        if str(parts["host"]).startswith("/"):
            to = f"{parts['host']}/.s.PGSQL.{to}"
        cable = await self._stack.enter_async_context(Cable(to))
        host, port = cable.address.split(":")
        return cable, make_conninfo(self._dsn, host=host, port=port)

    async def raw(self) -> RawWorker:
        """Speaks the protocol and knows nothing."""
        worker = RawWorker(await HostConnection.from_host_address(self.host.address))
        self._stack.push_async_callback(worker.close)
        return worker

    async def kill(self, worker: EventSourcedGrpcWorkerAgentRuntime, cable: Cable) -> None:
        """As near as one process comes to killing a part of itself: its cable is cut, and its lock on the log is gone."""
        cable.cut()
        await self._logs[id(worker)].aclose()

    async def _started(self, worker: Any, types: tuple[type, ...]) -> Any:
        for known in (Add, Total, Notice, *types):
            worker.add_message_serializer(try_get_known_serializers_for_type(known))
        await worker.start()
        self._stack.push_async_callback(_stopped, worker)
        return worker


async def _stopped(worker: GrpcWorkerAgentRuntime) -> None:
    """Stop a worker that may be stopped already, or hang: AutoGen's own waits for ever for a handler that does not end."""
    if not worker._running:
        return
    waiting = worker._background_tasks
    for task in list(waiting):
        task.cancel()
    with contextlib.suppress(Exception, asyncio.CancelledError):
        await asyncio.wait_for(worker.stop(), 10)


@pytest.fixture
async def workers(dsn: str) -> AsyncIterator[Workers]:
    async with working(dsn) as made:
        yield made


@asynccontextmanager
async def working(dsn: str, *options: tuple[str, Any]) -> AsyncGenerator[Workers]:
    """Workers at a host with these options."""
    async with hosting(*options) as host, EventLog.open(dsn) as log, AsyncExitStack() as stack:
        log.register_types(Add, Total, Notice, Question, Answer, Blob)
        yield Workers(dsn, host, log, stack)


class RawWorker:
    """A worker in no language in particular."""

    def __init__(self, connection: HostConnection) -> None:
        self._connection = connection

    async def register(self, agent_type: str) -> None:
        request = pb.RegisterAgentTypeRequest(type=agent_type)
        await self._connection.stub.RegisterAgent(request, metadata=self._connection.metadata)

    async def send(self, **message: Any) -> None:
        await self._connection.send(pb.Message(**message))

    async def ask(self, target: AgentId, payload: pb.Payload, within: float = 0.4) -> pb.RpcResponse | NoAnswer:
        request = pb.RpcRequest(
            request_id="1", target=pb.AgentId(type=target.type, key=target.key), payload=payload, metadata={}
        )
        await self.send(request=request)
        answer = await outcome(self._connection.recv(), within)
        return answer if answer is NO_ANSWER else answer.response

    async def answer(self, **response: Any) -> pb.RpcRequest:
        """Answer the next request so."""
        message = await self._connection.recv()
        await self.send(response=pb.RpcResponse(request_id=message.request.request_id, **response))
        return message.request

    async def close(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await self._connection.close()


# -- agents -------------------------------------------------------------------------------------------------------


@dataclass
class Question:
    text: str


@dataclass
class Answer:
    text: str


@dataclass
class Blob:
    data: str


class Meeting(RoutedAgent):
    """Answers each that asks with its own text, once as many as are expected have asked."""

    def __init__(self, expected: int) -> None:
        super().__init__("meets")
        self.here: list[str] = []
        self._expected = expected
        self._all_here = asyncio.Event()

    @rpc
    async def on_question(self, message: Question, ctx: MessageContext) -> Answer:
        self.here.append(message.text)
        if len(self.here) == self._expected:
            self._all_here.set()
            for _ in range(3):
                await asyncio.sleep(0)  # who came first answers first
        await self._all_here.wait()
        return Answer(message.text)


class Listener(RoutedAgent):
    """Remembers what it hears, and who said it; answers questions with how much that is."""

    def __init__(self) -> None:
        super().__init__("listens")
        self.heard: list[Any] = []
        self.senders: list[AgentId | None] = []

    @event
    async def on_notice(self, message: Notice, ctx: MessageContext) -> None:
        self._hear(message.text, ctx)

    @event
    async def on_blob(self, message: Blob, ctx: MessageContext) -> None:
        self._hear(len(message.data), ctx)

    @rpc
    async def on_question(self, message: Question, ctx: MessageContext) -> Answer:
        return Answer(str(len(self.heard)))

    async def on_unhandled_message(self, message: Any, ctx: MessageContext) -> None:
        self._hear(message, ctx)

    def _hear(self, what: Any, ctx: MessageContext) -> None:
        self.heard.append(what)
        self.senders.append(ctx.sender)


class Echo(RoutedAgent):
    """Gives back what it is given, of any type, or as much as it is asked for."""

    def __init__(self) -> None:
        super().__init__("echoes")
        self.seen: list[Any] = []

    @rpc
    async def on_add(self, message: Add, ctx: MessageContext) -> Blob:
        return Blob("x" * message.number)

    async def on_unhandled_message(self, message: Any, ctx: MessageContext) -> Any:
        self.seen.append(message)
        return message


def size_of(blob: Any) -> Any:
    return len(blob.data) if isinstance(blob, Blob) else blob
