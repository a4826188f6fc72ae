"""Messages that come to a worker's agents: each is delivered once, and whatever happens, there is an answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from autogen_core import AgentId, CancellationToken, MessageContext, MessageHandlerContext, TopicId, UnknownPayload
from autogen_core._runtime_impl_helpers import SubscriptionManager
from autogen_ext.runtimes.grpc.protos import agent_worker_pb2 as pb
from autogen_ext.runtimes.grpc.protos import cloudevent_pb2
from google.protobuf.wrappers_pb2 import StringValue

from autogen_eventlog.distributed.arrivals import Arrivals
from autogen_eventlog.distributed.connection import HostConnection
from autogen_eventlog.distributed.control import ControlChannel
from autogen_eventlog.distributed.envelopes import (
    Arrived,
    arrived_event,
    arrived_request,
    error_response,
    reply_response,
)
from autogen_eventlog.distributed.screening import Screening
from autogen_eventlog.distributed.wire import Wire
from autogen_eventlog.errors import AppendRefused, EventLogError, MessageTooLarge, StreamOwned
from autogen_eventlog.lineage import lineage
from autogen_eventlog.runtime.agents import RecordedAgents
from autogen_eventlog.runtime.identity import Identity, TracedId
from autogen_eventlog.runtime.passage import Passage

logger = logging.getLogger(__name__)

T = TypeVar("T")

TAKEN = "taken"
HELD = "held"
"""It is in hand here already."""
CANCEL = "cancel:"
HEARD = "heard"
_OWNED_PAUSE_SECONDS = 0.25


class Receiving:
    """Takes what the host brings.

    Args:
        subscriptions: Of this worker.
        patience: Seconds for which another worker may keep an agent whose messages come here.
        trace: AutoGen's trace helper.
    """

    def __init__(
        self,
        agents: RecordedAgents,
        *,
        connection: Callable[[], HostConnection],
        control: ControlChannel,
        subscriptions: SubscriptionManager,
        wire: Wire,
        screening: Screening,
        patience: float,
        trace: Any,
    ) -> None:
        self._agents = agents
        self._connection = connection
        self._control = control
        self._subscriptions = subscriptions
        self._wire = wire
        self._screening = screening
        self._patience = patience
        self._trace = trace
        self._arrivals = Arrivals()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cut = 0
        self._cut_counts_until = 0.0
        self.arriving = Passage()
        """Messages that came and whose handlers have not ended."""

    def request(self, request: pb.RpcRequest) -> None:
        """Take a call."""
        self._spawn(self._request(request))

    def event(self, event: cloudevent_pb2.CloudEvent) -> None:
        """Take a publication."""
        self._spawn(self._event(event))

    def redelivered(self, request: pb.RpcRequest, respond_to: str) -> StringValue:
        """Take a message that its sender sends again, by the control channel."""
        arrived = arrived_request(request)
        recipient = AgentId(request.target.type, request.target.key)
        if self._arrivals.holds(arrived, recipient):
            return StringValue(value=HELD)
        self._spawn(self._request_again(request, arrived, recipient, respond_to))
        return StringValue(value=TAKEN)

    async def given_up(self, text: str) -> StringValue | None:
        """A caller no longer waits (T11): that it was heard, once the log has it; None if that is not certain."""
        words, _, recipient = text.removeprefix(CANCEL).partition(" ")
        cause, agent = UUID(words), AgentId.from_str(recipient)
        self._arrivals.cancel(cause, agent)
        try:
            await self._once_ours(lambda: self._agents.shell_for(agent).cancel_caused_by(cause))
        except EventLogError as error:
            logger.info("%s: that its caller has given up message %s is not in the log: %s", agent, cause, error)
            return None
        return StringValue(value=HEARD)

    def abandon(self, cut: int) -> None:
        """Agents are about to be brought back to a cut: for a while, what they sent since may arrive still."""
        self._cut = cut
        self._cut_counts_until = asyncio.get_running_loop().time() + 2 * self._patience

    async def _request(self, request: pb.RpcRequest) -> None:
        with self.arriving:
            client = self._connection().client_id
            arrived = arrived_request(request)
            again = self._arrivals.saw(arrived, AgentId(request.target.type, request.target.key))
            response = await self._responding(request, arrived, again=again)
            if response is not None and self._connection().client_id == client:
                # A host that was restarted would not know what it answers.
                await self._connection().send(pb.Message(response=response))

    async def _request_again(self, request: pb.RpcRequest, arrived: Arrived, recipient: AgentId, back: str) -> None:
        with self.arriving:
            self._arrivals.saw(arrived, recipient)  # it may come by the way that messages go, too
            response = await self._responding(request, arrived, again=True)
            if response is not None and back and arrived.topic is None:
                await self._control.tell(back, response)

    async def _responding(self, request: pb.RpcRequest, arrived: Arrived, *, again: bool) -> pb.RpcResponse | None:
        """Deliver a request; whatever happens, there is a response (T2, T3, T4).

        None: another worker has taken the agent over, goes on with the handler, and answers; its sender looks for that.
        """
        recipient = AgentId(request.target.type, request.target.key)
        try:
            if arrived.origin is None:
                arrived = await self._screened(arrived, recipient)
            reply = await self._deliver(arrived, recipient, again=again)
            if arrived.origin is None:
                reply = await self._screening.answer(reply, recipient, arrived.sender)
            encoded = self._agents.log.codec.encode(reply, where="reply")
            packed = self._wire.pack(encoded) if arrived.origin is None else self._wire.pack_exact(encoded)
            response = reply_response(request.request_id, packed)
            self._connection().check(pb.Message(response=response), f"reply of {recipient}")
            return response
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if arrived.origin is not None and isinstance(error, AppendRefused) and error.stream == str(recipient):
                return None
            if arrived.topic is not None and not isinstance(error, asyncio.CancelledError):
                logger.error("Error handling event", exc_info=error)
            return self._error(request.request_id, error, recipient)

    def _error(self, request_id: str, error: BaseException, recipient: AgentId) -> pb.RpcResponse:
        response = error_response(request_id, *self._wire.pack_error(error))
        try:
            self._connection().check(pb.Message(response=response), f"error of {recipient}")
        except MessageTooLarge as instead:
            return error_response(request_id, *self._wire.pack_error(instead))
        return response

    async def _event(self, event: cloudevent_pb2.CloudEvent) -> None:
        """Deliver a publication to each agent here that subscribes; one that fails keeps it from no other (T8)."""
        arrived = arrived_event(event)
        recipients = [
            one
            for one in await self._subscriptions.get_subscribed_recipients(TopicId(event.type, event.source))
            if one != arrived.sender
        ]
        again = {one: self._arrivals.saw(arrived, one) for one in set(recipients)}
        with self.arriving:
            if arrived.origin is None and recipients:
                try:
                    arrived = await self._screened(arrived, None)
                except Exception as error:  # the user's own code, or a message that can't be read
                    logger.error("Error handling event", exc_info=error)
                    return
            await asyncio.gather(*(self._deliver_event(arrived, one, again=again[one]) for one in recipients))

    async def _deliver_event(self, arrived: Arrived, recipient: AgentId, *, again: bool) -> None:
        try:
            await self._deliver(arrived, recipient, again=again)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            logger.error("Error handling event", exc_info=error)

    async def _deliver(self, arrived: Arrived, recipient: AgentId, *, again: bool) -> Any:
        message, encoded = self._wire.unpack(arrived.packed)
        if isinstance(message, UnknownPayload):  # its class may become known with the agent's
            await self._once_ours(lambda: self._agents.shell_for(recipient).live())
            message, encoded = self._wire.unpack(arrived.packed)
        origin = arrived.origin
        identity = Identity(recorded=(message, encoded))
        if origin is not None:
            void = partial(self._abandoned, origin.cause)
            identity = Identity(origin.cause, origin.correlation, again, recorded=(message, encoded), void=void)
        token = CancellationToken()
        context = MessageContext(
            sender=arrived.sender,
            topic_id=arrived.topic,
            is_rpc=arrived.is_rpc,
            cancellation_token=token,
            message_id=TracedId(arrived.message_id, identity),
        )
        return await self._arrivals.once(
            arrived, recipient, token, lambda: self._handle(message, context, arrived, recipient)
        )

    async def _handle(self, message: Any, context: MessageContext, arrived: Arrived, recipient: AgentId) -> Any:
        with (
            MessageHandlerContext.populate_context(recipient),
            self._trace.trace_block("process", recipient, parent=arrived.trace),
        ):
            return await self._hand_over(message, context, recipient)

    async def _screened(self, arrived: Arrived, recipient: AgentId | None) -> Arrived:
        """A plain worker's message has passed no intervention handler yet.

        Raises:
            MessageDroppedException: One dropped it.
        """
        if not self._screening.is_on:
            return arrived
        message, _ = self._wire.unpack(arrived.packed)
        context = MessageContext(
            sender=arrived.sender,
            topic_id=arrived.topic,
            is_rpc=arrived.is_rpc,
            cancellation_token=CancellationToken(),
            message_id=arrived.message_id,
        )
        made = await self._screening.made_of(message, context, recipient)
        return replace(arrived, packed=self._wire.pack_exact(made))

    async def _hand_over(self, message: Any, context: MessageContext, recipient: AgentId) -> Any:
        return await self._once_ours(lambda: self._agents.shell_for(recipient).on_message(message, context))

    async def _once_ours(self, use: Callable[[], Awaitable[T]]) -> T:
        """Use an agent. The host sends it here, so a worker that still has it is about to lose it: wait for that."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._patience
        while True:
            try:
                return await use()
            except StreamOwned:
                if loop.time() > ends:
                    raise
                await asyncio.sleep(_OWNED_PAUSE_SECONDS)

    async def _abandoned(self, cause: UUID) -> bool:
        """Whether a message comes from a past that a restore of all agents has left behind."""
        if asyncio.get_running_loop().time() > self._cut_counts_until:
            return False
        reader = self._agents.log.reader
        place = await reader.place(cause)
        if place is None or place[0].startswith("$") or place[2] <= self._cut:
            return False
        stream, version, _ = place
        head = await reader.head(stream)
        past = await lineage(reader, stream, version if head is None else head.version)
        return not past.holds(stream, version)

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
