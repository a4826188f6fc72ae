"""Questions from worker to worker, by the control channel that AutoGen's host forwards and its own workers never open.

A question goes to an agent (`agentid=type/key`: to whatever worker has its type) or to a worker (`clientid=…`). The host drops,
without a word, what is for nobody, so every question has a bound.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from autogen_core import AgentId
from autogen_ext.runtimes.grpc.protos import agent_worker_pb2 as pb
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message

from autogen_eventlog.distributed.connection import HostConnection

logger = logging.getLogger(__name__)

Answering = Callable[[AnyMessage, str], Awaitable[Message | None]]


def to_agent(agent: AgentId) -> str:
    """The address of an agent's worker."""
    return f"agentid={agent}"


def to_worker(client_id: str) -> str:
    """The address of a worker."""
    return f"clientid={client_id}"


class ControlChannel:
    """Asks, and answers what is asked.

    Args:
        answer: Given a request and where its asker is; what it returns goes back. It must not raise.
    """

    def __init__(self, answer: Answering) -> None:
        self._answer = answer
        self._connection: HostConnection | None = None
        self._waiting: dict[str, asyncio.Future[AnyMessage]] = {}
        self._answering: set[asyncio.Task[None]] = set()

    def attach(self, connection: HostConnection) -> None:
        """Say by what connection."""
        self._connection = connection

    async def ask(self, destination: str, request: Message, *, timeout: float) -> AnyMessage | None:
        """The answer; None: nobody answered within `timeout` seconds.

        Raises:
            MessageTooLarge: The request is larger than the connection takes.
        """
        connection = self._connection
        if connection is None:
            return None
        rpc_id = uuid4().hex
        answer = self._waiting[rpc_id] = asyncio.get_running_loop().create_future()
        try:
            respond_to = to_worker(connection.client_id)
            message = pb.ControlMessage(
                rpc_id=rpc_id, destination=destination, respond_to=respond_to, rpcMessage=_any(request)
            )
            connection.check(message, "control message")
            if not await connection.send_control(message):
                return None
            return await asyncio.wait_for(answer, timeout)
        except (asyncio.TimeoutError, TimeoutError):
            return None
        finally:
            del self._waiting[rpc_id]

    async def tell(self, destination: str, message: Message) -> None:
        """Send what needs no answer."""
        if self._connection is not None:
            await self._connection.send_control(
                pb.ControlMessage(rpc_id=uuid4().hex, destination=destination, rpcMessage=_any(message))
            )

    def received(self, message: pb.ControlMessage) -> None:
        """Take a message of the control channel."""
        # A worker may ask itself: a question says where its answer goes, an answer does not.
        waiting = None if message.respond_to else self._waiting.get(message.rpc_id)
        if waiting is not None:
            if not waiting.done():
                waiting.set_result(message.rpcMessage)
            return
        task = asyncio.create_task(self._respond(message))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def close(self) -> None:
        """Let what is being answered come to its end for a moment, and answer no more."""
        self._connection = None
        for task in list(self._answering):
            task.cancel()
        if self._answering:
            await asyncio.wait(list(self._answering))

    async def _respond(self, message: pb.ControlMessage) -> None:
        try:
            answer = await self._answer(message.rpcMessage, message.respond_to)
        except Exception:  # anybody may send anything
            logger.exception("a control message of type %s was not understood", message.rpcMessage.type_url)
            return
        if answer is None or not message.respond_to or self._connection is None:
            return
        response = pb.ControlMessage(rpc_id=message.rpc_id, destination=message.respond_to, rpcMessage=_any(answer))
        await self._connection.send_control(response)


def _any(message: Message) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(message)
    return packed


def unpacked(packed: Any, kind: type[Message]) -> Any:
    """What `packed` holds, if it is a `kind`; else None."""
    found = kind()
    return found if packed is not None and packed.Is(found.DESCRIPTOR) and packed.Unpack(found) else None
