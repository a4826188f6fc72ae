"""A worker's connection to AutoGen's host: a stream of messages and a stream of control messages, made anew when they break.

The host identifies a client by an id in the metadata, forgets it when its stream ends, and tells nobody (T4, T9). So each
new pair of streams has an id of its own, the worker is told so that it registers everything again, and the connection
listens to its own echo, which is how a host that stands still is told from one that has nothing to say. What is registered
under an id whose stream has ended already, the host would keep for ever: nothing is asked of it without a stream, and each
new pair of streams begins by having the id of the last one forgotten.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import uuid4

import grpc
import grpc.aio
from autogen_ext.runtimes.grpc.protos import agent_worker_pb2 as pb
from autogen_ext.runtimes.grpc.protos import agent_worker_pb2_grpc as pb_grpc

from autogen_eventlog.errors import HostUnavailable, MessageTooLarge

logger = logging.getLogger(__name__)

ChannelOptions = Sequence[tuple[str, Any]]

_DEFAULT_OPTIONS: dict[str, Any] = {
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.min_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 2000,
    "grpc.service_config": json.dumps({"methodConfig": [{"name": [{}]}]}),
}
_GRPC_LIMIT = 4 * 1024 * 1024
"""Bytes that gRPC lets a receiver take where nothing else was said (T10)."""
_ENVELOPE_BYTES = 512
"""That a control message is larger than what it holds, at most."""
_LONGEST_PAUSE_SECONDS = 2.0
_ECHO_SECONDS = 5.0
"""Between two looks whether the host is there; it has as long again to answer."""
_END: Any = grpc.aio.EOF  # type: ignore[attr-defined]
_ECHO = "echo:"
_MANY_WAIT = 64
"""Messages that may wait for the stream before a sender does."""
_SELF_TYPE = "$worker."


class HostConnection:
    """The streams, whichever they are at the moment.

    Args:
        on_message, on_control: Given each message as it comes; must not block.
        on_open: Awaited after each new pair of streams is up, before `open` returns or anything waits less.
        on_lost: Told that the streams broke.
    """

    def __init__(
        self,
        address: str,
        *,
        options: ChannelOptions = (),
        credentials: grpc.ChannelCredentials | None = None,
        on_message: Callable[[pb.Message], None],
        on_control: Callable[[pb.ControlMessage], None],
        on_open: Callable[[], Awaitable[None]],
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self.address = address
        merged = {**_DEFAULT_OPTIONS, **dict(options)}
        self.largest = _largest(merged)
        """Bytes of the largest message that may be sent: what the options say, or what the host was found to take."""
        arguments: Any = {"options": list(merged.items())}
        self._channel = (
            grpc.aio.insecure_channel(address, **arguments)
            if credentials is None
            else grpc.aio.secure_channel(address, credentials, **arguments)
        )
        self._stub: Any = pb_grpc.AgentRpcStub(self._channel)  # type: ignore[no-untyped-call]
        self._on_message, self._on_control = on_message, on_control
        self._on_open, self._on_lost = on_open, on_lost
        self._streams: _Streams | None = None
        self._left: list[str] = []
        """Client ids of streams that ended, under which the host may have something still."""
        self._keeper: asyncio.Task[None] | None = None
        self._up = asyncio.Event()
        self._last_problem = ""

    # -- life -----------------------------------------------------------------------------------------------------

    async def open(self, timeout: float) -> None:
        """Connect, and stay connected until `close`.

        Raises:
            HostUnavailable: The host could not be reached within `timeout` seconds.
            Whatever `on_open` raises, the first time.
        """
        try:
            await asyncio.wait_for(self._connect(), timeout)
        except (asyncio.TimeoutError, TimeoutError):
            await self._channel.close()
            raise HostUnavailable(self.address, timeout, self._last_problem or "no connection") from None
        except BaseException:
            await self._drop()
            await self._channel.close()
            raise
        self._keeper = asyncio.create_task(self._keep(), name="eventlog-host-connection")

    async def close(self) -> None:
        """End the streams. Idempotent."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait([keeper])
        await self._drop()
        await self._channel.close()

    @property
    def is_up(self) -> bool:
        """Whether the streams work, as far as is known."""
        return self._up.is_set()

    @property
    def client_id(self) -> str:
        """The id under which the host knows this worker now; empty while there is no connection."""
        return "" if self._streams is None else self._streams.client_id

    async def up(self, timeout: float) -> None:
        """Wait until connected.

        Raises:
            HostUnavailable: Not within `timeout` seconds.
        """
        try:
            await asyncio.wait_for(self._up.wait(), timeout)
        except (asyncio.TimeoutError, TimeoutError):
            raise HostUnavailable(self.address, timeout, self._last_problem or "no connection") from None

    # -- sending --------------------------------------------------------------------------------------------------

    def check(self, message: pb.Message | pb.ControlMessage, what: str) -> None:
        """Refuse what would break the stream for everybody (T10).

        Raises:
            MessageTooLarge: It is over the limit.
        """
        size = message.ByteSize()
        # What travels by the data stream may have to travel again by the control channel, in an envelope.
        limit = self.largest if isinstance(message, pb.ControlMessage) else self.largest - _ENVELOPE_BYTES
        if size > limit:
            raise MessageTooLarge(what, size, limit)

    async def send(self, message: pb.Message) -> bool:
        """Put a message on the stream; False if there is none now. That it was taken does not say that it arrived."""
        return self._streams is not None and await self._streams.data.write(message)

    async def send_control(self, message: pb.ControlMessage) -> bool:
        """Put a control message on the stream; False if there is none now."""
        return self._streams is not None and await self._streams.control.write(message)

    async def ask_host(self, method: str, request: Any) -> Any:
        """One of the host's own requests (`RegisterAgent`, `AddSubscription`, …), in this worker's name.

        Raises:
            grpc.aio.AioRpcError: The host refused, or is away, or there is no connection at the moment.
        """
        if self._streams is None:
            raise _not_connected()
        metadata = (("client-id", self._streams.client_id),)
        return await getattr(self._stub, method)(request, metadata=metadata, timeout=30.0)

    async def settled(self, timeout: float) -> bool:
        """Wait until the host has taken everything sent so far; False: not within `timeout` seconds."""
        return self._streams is not None and await self._streams.echo_data(timeout)

    # -- connecting -----------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        while True:
            streams = self._streams
            if streams is not None:
                await streams.lost()
                await self._broken(streams)
            await self._connect()

    async def _broken(self, streams: _Streams) -> None:
        limit = _limit_in(streams.problem)
        if limit is not None and limit < self.largest:
            self.largest = limit
        logger.warning("connection to %s lost: %s", self.address, streams.problem or "the host ended it")
        await self._drop()
        self._on_lost()

    async def _connect(self) -> None:
        """Until it works."""
        pause = 0.05
        while True:
            try:
                await self._attempt()
                return
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.INVALID_ARGUMENT:
                    raise
                self._last_problem = error.details() or str(error.code())
            except (OSError, ConnectionError) as error:
                self._last_problem = str(error)
            await self._drop()
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _attempt(self) -> None:
        await self._channel.channel_ready()
        self._streams = streams = _Streams(self._stub, self._on_message, self._on_control)
        await streams.handshake()
        while self._left:
            await streams.have_forgotten(self._left[-1])
            self._left.pop()
        await self._on_open()
        self._up.set()

    async def _drop(self) -> None:
        self._up.clear()
        streams, self._streams = self._streams, None
        if streams is not None:
            self._left.append(streams.client_id)
            await streams.close()


class _Streams:
    """One pair of streams, under one client id."""

    def __init__(
        self, stub: Any, on_message: Callable[[pb.Message], None], on_control: Callable[[pb.ControlMessage], None]
    ) -> None:
        self.client_id = str(uuid4())
        self._stub = stub
        self._on_message, self._on_control = on_message, on_control
        self._echoes: dict[str, asyncio.Future[None]] = {}
        metadata = (("client-id", self.client_id),)
        self.data = _Stream(stub.OpenChannel(metadata=metadata), self._message)
        self.control = _Stream(stub.OpenControlChannel(metadata=metadata), self._control_message)
        self._pulse = asyncio.create_task(self._listen(), name="eventlog-host-pulse")
        self._silent = False

    @property
    def problem(self) -> str:
        if self._silent:
            return "the host stands still"
        return self.data.problem or self.control.problem

    async def handshake(self) -> None:
        """Return once the host knows both streams: it drops what is for a client that it has not met yet (B14)."""
        itself = pb.RegisterAgentTypeRequest(type=_SELF_TYPE + self.client_id)
        metadata = (("client-id", self.client_id),)
        await self._stub.RegisterAgent(itself, metadata=metadata, timeout=30.0)
        for echo in (self._echo_control, self.echo_data):
            if not await echo(2 * _ECHO_SECONDS):
                raise ConnectionError(self.problem or "the host does not answer")

    async def have_forgotten(self, client_id: str) -> None:
        """Have the host forget an id of ours whose streams ended: it does when a stream of that id ends.

        Raises:
            ConnectionError, grpc.aio.AioRpcError: It does not answer.
        """
        call = self._stub.OpenChannel(metadata=(("client-id", client_id),))
        try:
            await call.write(self._greeting(_ECHO + uuid4().hex))
            await asyncio.wait_for(call.read(), 2 * _ECHO_SECONDS)
        except (asyncio.TimeoutError, TimeoutError):
            raise ConnectionError("the host does not answer") from None
        finally:
            call.cancel()

    async def lost(self) -> None:
        """Return when either stream has ended or the host does not answer any more."""
        await asyncio.wait([self.data.reading, self.control.reading, self._pulse], return_when=asyncio.FIRST_COMPLETED)

    async def close(self) -> None:
        for waiting in self._echoes.values():
            waiting.cancel()
        self._pulse.cancel()
        await asyncio.wait([self._pulse])
        await self.data.close()
        await self.control.close()

    async def echo_data(self, timeout: float) -> bool:
        """Ask for a request of our own back, by the way that all messages go; the host works them off in order."""
        return await self._echo(lambda name: self.data.write(self._greeting(name)), timeout)

    def _greeting(self, name: str) -> pb.Message:
        """A request to this worker itself, which answers it."""
        target = pb.AgentId(type=_SELF_TYPE + self.client_id, key="echo")
        return pb.Message(request=pb.RpcRequest(request_id=name, target=target))

    async def _echo_control(self, timeout: float) -> bool:
        destination = f"clientid={self.client_id}"
        return await self._echo(
            lambda name: self.control.write(pb.ControlMessage(rpc_id=name, destination=destination)), timeout
        )

    async def _echo(self, say: Callable[[str], Awaitable[bool]], timeout: float) -> bool:
        name = _ECHO + uuid4().hex
        heard = self._echoes[name] = asyncio.get_running_loop().create_future()
        try:
            if not await say(name):
                return False
            done, _ = await asyncio.wait(
                [heard, self.data.reading, self.control.reading],
                timeout=timeout,
                return_when=asyncio.FIRST_COMPLETED,
            )
            return heard in done and not heard.cancelled()
        finally:
            del self._echoes[name]

    async def _listen(self) -> None:
        while True:
            await asyncio.sleep(_ECHO_SECONDS)
            if not await self._echo_control(_ECHO_SECONDS):
                self._silent = True
                return

    def _heard(self, name: str) -> None:
        waiting = self._echoes.get(name)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def _message(self, message: pb.Message) -> None:
        if message.request.request_id.startswith(_ECHO):
            self.data.put(pb.Message(response=pb.RpcResponse(request_id=message.request.request_id)))
        elif message.response.request_id.startswith(_ECHO):
            self._heard(message.response.request_id)  # then, so that the host has nothing more to send when we leave
        else:
            self._on_message(message)

    def _control_message(self, message: pb.ControlMessage) -> None:
        if message.rpc_id.startswith(_ECHO):
            self._heard(message.rpc_id)
        else:
            self._on_control(message)


class _Stream:
    """One stream in both directions. gRPC takes one write at a time, and ends the stream if a write is cancelled."""

    def __init__(self, call: Any, receive: Callable[[Any], None]) -> None:
        self.problem = ""
        self._call = call
        self._receive = receive
        self._queue: asyncio.Queue[tuple[Any, asyncio.Future[bool] | None]] = asyncio.Queue()
        self._closed = False
        self.reading = asyncio.create_task(self._read(), name="eventlog-host-read")
        self._writing = asyncio.create_task(self._write(), name="eventlog-host-write")

    def put(self, message: Any) -> None:
        """Write it when its turn comes."""
        self._queue.put_nowait((message, None))

    async def write(self, message: Any) -> bool:
        """Return once it has its place in the queue, or, where many wait, once gRPC has taken it; False if it has ended."""
        if self._closed or self.reading.done():
            return False
        if self._queue.qsize() < _MANY_WAIT:
            self.put(message)
            return True
        taken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait((message, taken))
        return await taken

    async def close(self) -> None:
        self._closed = True
        for task in (self._writing, self.reading):
            task.cancel()
        await asyncio.wait([self._writing, self.reading])
        self._call.cancel()
        while not self._queue.empty():
            _answer(self._queue.get_nowait()[1], False)

    async def _write(self) -> None:
        while True:
            message, taken = await self._queue.get()
            try:
                await self._call.write(message)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError) as error:
                self.problem = self.problem or _words(error)
                _answer(taken, False)
            except BaseException:
                _answer(taken, False)
                raise
            else:
                _answer(taken, True)

    async def _read(self) -> None:
        try:
            while (message := await self._call.read()) is not _END:
                self._receive(message)
        except grpc.aio.AioRpcError as error:
            self.problem = _words(error)
        except asyncio.CancelledError:
            if self._closed:
                raise
            self.problem = "the stream was cancelled"


def _not_connected() -> grpc.aio.AioRpcError:
    none = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, none, none, "there is no connection to the host now")


def _answer(taken: asyncio.Future[bool] | None, value: bool) -> None:
    if taken is not None and not taken.done():
        taken.set_result(value)


def _words(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return str(error)


def _largest(options: dict[str, Any]) -> int:
    said = options.get("grpc.max_send_message_length", _GRPC_LIMIT)
    return 2**31 - 1 if said < 0 else said


def _limit_in(problem: str) -> int | None:
    """The host's own limit, as gRPC says it when a message was too large for it."""
    found = re.search(r"larger than max \(\d+ vs\. (\d+)\)", problem)
    return None if found is None else int(found.group(1))
