"""Messages of a worker's agents: out to the host once they are durable, and in from it.

Between event-sourced workers a message is at least once on the wire and exactly once in effect: the receiver knows by the
event that it names as its cause whether it has it already, in hand or in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import Any, TypeVar
from uuid import UUID, uuid4

from autogen_core import (
    AgentId,
    CancellationToken,
    DropMessage,
    MessageContext,
    MessageHandlerContext,
    TopicId,
    UnknownPayload,
)
from autogen_core._runtime_impl_helpers import SubscriptionManager
from autogen_core.exceptions import MessageDroppedException
from autogen_ext.runtimes.grpc.protos import agent_worker_pb2 as pb
from autogen_ext.runtimes.grpc.protos import cloudevent_pb2
from google.protobuf.wrappers_pb2 import StringValue

from autogen_eventlog.codec import Encoded
from autogen_eventlog.distributed.arrivals import Arrivals
from autogen_eventlog.distributed.connection import HostConnection
from autogen_eventlog.distributed.control import ControlChannel, to_agent, unpacked
from autogen_eventlog.distributed.envelopes import (
    Arrived,
    arrived_event,
    arrived_request,
    error_response,
    event_of,
    packed_reply,
    reply_response,
    request_of,
)
from autogen_eventlog.distributed.outstanding import Outstanding, Sent
from autogen_eventlog.distributed.registrations import Registrations
from autogen_eventlog.distributed.wire import Origin, Wire
from autogen_eventlog.errors import InstanceEnded, MessageTooLarge, StreamOwned, Undeliverable
from autogen_eventlog.events import EventData, EventType, RecordedEvent
from autogen_eventlog.ids import parse_topic
from autogen_eventlog.incarnation.incarnation import Call, Incarnation
from autogen_eventlog.lineage import lineage
from autogen_eventlog.postgres.records import Progress
from autogen_eventlog.runtime.agents import RecordedAgents
from autogen_eventlog.runtime.identity import Identity, TracedId
from autogen_eventlog.runtime.interventions import InterventionChain
from autogen_eventlog.runtime.passage import Passage
from autogen_eventlog.runtime.shell import recorded_completion

logger = logging.getLogger(__name__)

T = TypeVar("T")

TAKEN = "taken"
HELD = "held"
"""It is in hand here already."""
_OWNED_PAUSE_SECONDS = 0.25
_ASK_AGAIN_SECONDS = 2.0
CANCEL = "cancel:"


class Traffic:
    """What passes between this worker's agents and the others (the `World` of their incarnations).

    Args:
        subscriptions: Of this worker.
        interventions: The other intervention handlers, or None.
        patience: Seconds without a sign of life after which a message is given up.
        trace: AutoGen's trace helper.
    """

    def __init__(
        self,
        *,
        connection: Callable[[], HostConnection],
        control: ControlChannel,
        registrations: Callable[[], Registrations],
        subscriptions: SubscriptionManager,
        wire: Wire,
        interventions: InterventionChain | None,
        patience: float,
        content_type: str,
        trace: Any,
    ) -> None:
        self._connection = connection
        self._control = control
        self._registrations = registrations
        self._subscriptions = subscriptions
        self._wire = wire
        self._interventions = interventions
        self._patience = patience
        self._content_type = content_type
        self._trace = trace
        self._agents: RecordedAgents | None = None
        self._outstanding: Outstanding | None = None
        self._calls: dict[str, asyncio.Future[Any]] = {}
        self._arrivals = Arrivals()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cut = 0
        self._cut_counts_until = 0.0
        self.arriving = Passage()
        """Messages that came and whose handlers have not ended."""

    def attach(self, agents: RecordedAgents) -> None:
        """Say whose messages these are."""
        self._agents = agents
        self._outstanding = Outstanding(
            agents.log.reader,
            self._send_again,
            self._subscribers,
            self._answer_in_log,
            self._gave_up,
            self._patience,
        )

    @property
    def agents(self) -> RecordedAgents:
        assert self._agents is not None
        return self._agents

    @property
    def outstanding(self) -> Outstanding:
        assert self._outstanding is not None
        return self._outstanding

    def start(self) -> None:
        """Begin to look after what was sent."""
        self.outstanding.start()

    async def stop(self, timeout: float) -> list[Sent]:
        """Wait for the handlers that run and for what was published; what did not arrive within `timeout` seconds.

        Who waits for an answer from outside any agent is told that it will not come.
        """
        await self.arriving.cleared()
        for future in list(self._calls.values()):
            if not future.done():
                future.set_exception(Undeliverable("a call", 0.0, "the runtime was stopped"))
        return await self.outstanding.stop(timeout)

    # -- out: what comes from outside any agent -------------------------------------------------------------------

    async def send(
        self,
        message: Any,
        recipient: AgentId,
        *,
        sender: AgentId | None,
        token: CancellationToken,
        message_id: str | None,
    ) -> Any:
        """See `EventSourcedGrpcWorkerAgentRuntime.send_message`."""
        encoded = await self.agents.accept(message, recipient=str(recipient), message_id=message_id)
        before = self._context(sender, None, Origin(uuid4(), None, message_id or str(uuid4())), token)
        encoded = await self._intervened(encoded, before, recipient)
        submission = self.agents.handler.submissions.hold(
            encoded,
            sender=None if sender is None else str(sender),
            message_id=before.message_id,
            recipient=str(recipient),
        )
        origin = Origin(submission.id, submission.id, submission.message_id)
        try:
            return await self.call(encoded, recipient, sender=sender, origin=origin, token=token, intervene=False)
        finally:
            submission.delivered()

    async def send_publication(
        self, message: Any, topic: TopicId, *, sender: AgentId | None, message_id: str | None
    ) -> None:
        """See `EventSourcedGrpcWorkerAgentRuntime.publish_message`."""
        encoded = await self.agents.accept(message, topic=str(topic), message_id=message_id)
        origin = Origin(uuid4(), None, message_id or str(uuid4()))
        before = self._context(sender, topic, origin, CancellationToken())
        try:  # first, so that nothing which they redact is in the log
            encoded = await self._intervened(encoded, before)
        except MessageDroppedException:
            return
        event, ticket = self.agents.handler.submissions.submit(
            encoded, sender=None if sender is None else str(sender), message_id=before.message_id, topic=str(topic)
        )
        await ticket
        await self.publication(encoded, topic, sender=sender, origin=_origin(event), intervene=False)

    # -- out: what agents send (`World`) --------------------------------------------------------------------------

    async def ask(self, incarnation: Incarnation, call: Call) -> None:
        """Send a recorded call on its way, and its answer to the caller."""
        try:
            origin = _origin(call.event)
            reply = await self.call(
                call.message, call.recipient, sender=incarnation.id, origin=origin, token=call.token, again=call.again
            )
        except (KeyboardInterrupt, SystemExit):
            raise  # the program ends, and no agent hears of it
        except BaseException as error:
            incarnation.answer(call, None, error)
        else:
            incarnation.answer(call, reply, None)

    async def publish(self, incarnation: Incarnation, event: EventData, message: Encoded, original: Any) -> None:
        """Send a recorded publication on its way."""
        await self.publication(message, parse_topic(str(event.topic)), sender=incarnation.id, origin=_origin(event))

    async def fan_out(self, topic: TopicId, sender: AgentId | None) -> int | None:
        """Unknown: only the host knows the subscriptions of all workers."""
        return None

    async def call(
        self,
        message: Encoded,
        recipient: AgentId,
        *,
        sender: AgentId | None,
        origin: Origin,
        token: CancellationToken,
        again: bool = False,
        intervene: bool = True,
    ) -> Any:
        """Send a message that is durable, and wait for its answer.

        Args:
            again: It was sent before, by an instance that is no more.

        Raises:
            MessageDroppedException: An intervention handler dropped it, or its answer.
            MessageTooLarge: It is larger than the connection takes.
            Undeliverable: There was no sign of life of its recipient for too long.
            Whatever the recipient raised, with type and text as far as they can be had.
        """
        if intervene:
            message = await self._intervened(message, self._context(sender, None, origin, token), recipient)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        request_id = f"{origin.cause.hex}.{uuid4().hex[:8]}"
        request = request_of(self._wire.pack(message), recipient, request_id=request_id, sender=sender, origin=origin)
        envelope = pb.Message(request=request)
        self._connection().check(envelope, f"message to {recipient}")
        sent = Sent(origin, message, sender, loop.time(), _now(), recipient=recipient, answer=answer)
        self._calls[request_id] = answer
        self.outstanding.add(sent)

        def cancel() -> None:  # as in process, the caller waits no longer, whatever the handler makes of it
            loop.call_soon_threadsafe(answer.cancel)

        token.add_callback(cancel)
        try:
            with self._trace.trace_block("send", recipient, parent=None):
                if again or not await self._connection().send(envelope):
                    self.outstanding.look_now()
            reply = await answer
        except asyncio.CancelledError:
            self._spawn_cancel(origin, recipient)
            raise
        finally:
            self._calls.pop(request_id, None)
            self.outstanding.done(sent)
        return await self._response(reply, recipient, sender)

    async def publication(
        self, message: Encoded, topic: TopicId, *, sender: AgentId | None, origin: Origin, intervene: bool = True
    ) -> None:
        """Send a publication that is durable.

        Raises:
            MessageTooLarge: It is larger than the connection takes.
        """
        if intervene:
            try:
                message = await self._intervened(message, self._context(sender, topic, origin, CancellationToken()))
            except MessageDroppedException:
                return
        event = event_of(self._wire.pack(message, self._content_type), topic, sender=sender, origin=origin)
        envelope = pb.Message(cloudEvent=event)
        self._connection().check(envelope, f"publication to {topic}")
        now = asyncio.get_running_loop().time()
        self.outstanding.add(Sent(origin, message, sender, now, _now(), topic=topic))
        with self._trace.trace_block("publish", topic, parent=None):
            if not await self._connection().send(envelope):
                self.outstanding.look_now()

    def _context(
        self, sender: AgentId | None, topic: TopicId | None, origin: Origin, token: CancellationToken
    ) -> MessageContext:
        identity = Identity(origin.cause, origin.correlation)
        return MessageContext(
            sender=sender,
            topic_id=topic,
            is_rpc=topic is None,
            cancellation_token=token,
            message_id=TracedId(origin.message_id, identity),
        )

    async def _intervened(self, message: Encoded, context: MessageContext, recipient: AgentId | None = None) -> Encoded:
        """What the intervention handlers make of a message that leaves this worker."""
        if self._interventions is None:
            return message
        given = self.agents.log.codec.decode(message.data, where="message")
        return await self._intervene(given, context, recipient)

    async def _intervene(self, message: Any, context: MessageContext, recipient: AgentId | None) -> Encoded:
        assert self._interventions is not None
        made = (
            await self._interventions.on_publish(message, message_context=context)
            if recipient is None
            else await self._interventions.on_send(message, message_context=context, recipient=recipient)
        )
        if made is DropMessage:
            raise MessageDroppedException
        return self.agents.log.codec.encode(made)

    async def _response(self, reply: Any, recipient: AgentId, sender: AgentId | None) -> Any:
        if self._interventions is None:
            return reply
        made = await self._interventions.on_response(reply, sender=recipient, recipient=sender)
        if made is DropMessage:
            raise MessageDroppedException
        return made

    def _spawn_cancel(self, origin: Origin, recipient: AgentId) -> None:
        self._spawn(
            self._control.tell(to_agent(recipient), StringValue(value=CANCEL + f"{origin.cause.hex} {recipient}"))
        )

    # -- out: what did not arrive ---------------------------------------------------------------------------------

    async def _send_again(self, sent: Sent, recipient: AgentId) -> str:
        """What the event-sourced worker that has the agent says to it; nothing, if none can be reached."""
        request_id = f"{sent.origin.cause.hex}.{uuid4().hex[:8]}"
        request = request_of(
            self._wire.pack_exact(sent.message),
            recipient,
            request_id=request_id,
            sender=sent.sender,
            origin=sent.origin,
            topic=sent.topic,
        )
        if sent.answer is not None:
            self._calls[request_id] = sent.answer
            sent.answer.add_done_callback(lambda _: self._calls.pop(request_id, None))
        answer = await self._control.ask(to_agent(recipient), request, timeout=_ASK_AGAIN_SECONDS)
        said = unpacked(answer, StringValue)
        return "" if said is None else said.value

    async def _subscribers(self, topic: TopicId, published_at: datetime) -> list[AgentId]:
        return await self._registrations().subscribers(topic, published_at)

    async def _answer_in_log(self, delivery: Progress) -> tuple[Any, BaseException | None]:
        log = self.agents.log
        async for event in log.reader.read(delivery.stream, after_version=delivery.version):
            if event.type is EventType.DELIVERY_COMPLETED and event.delivery == delivery.version:
                completion = recorded_completion(log.codec, event)
                return completion.reply, completion.error
        return None, InstanceEnded(delivery.stream)

    def look_after(self, event: RecordedEvent) -> None:
        """A publication of a worker that is gone: whom it did not reach, it is sent to."""
        sender = AgentId.from_str(event.stream) if event.type is EventType.MESSAGE_PUBLISHED else None
        message = Encoded(event.message_type or "", event.payload or b"")
        now = asyncio.get_running_loop().time()
        topic = parse_topic(str(event.topic))
        self.outstanding.add(Sent(_origin(event), message, sender, now, event.recorded_at, topic=topic))

    def abandon(self, cut: int, agents: list[AgentId]) -> None:
        """These agents are about to be brought back to a cut: what they sent since was not sent."""
        self._cut = cut
        self._cut_counts_until = asyncio.get_running_loop().time() + 2 * self._patience
        self.outstanding.forget(set(agents))

    async def _abandoned(self, cause: UUID) -> bool:
        """Whether a message comes from a past that a restore of all agents has left behind."""
        if asyncio.get_running_loop().time() > self._cut_counts_until:
            return False
        reader = self.agents.log.reader
        place = await reader.place(cause)
        if place is None or place[0].startswith("$") or place[2] <= self._cut:
            return False
        stream, version, _ = place
        head = await reader.head(stream)
        past = await lineage(reader, stream, version if head is None else head.version)
        return not past.holds(stream, version)

    def _gave_up(self, sent: Sent, lacking: list[AgentId], problem: str) -> None:
        whom = ", ".join(map(str, lacking))
        logger.warning("message %s did not reach %s: %s", sent.origin.cause, whom, problem)
        if self.agents.handler.submissions.is_open:
            self.agents.handler.submissions.record(
                EventType.MESSAGE_DROPPED,
                message=sent.message,
                metadata={
                    "by": "undeliverable",
                    "stage": "send" if sent.topic is None else "publish",
                    "error": problem,
                    "lacking": [str(one) for one in lacking],
                },
                sender=None if sent.sender is None else str(sent.sender),
                recipient=None if sent.recipient is None else str(sent.recipient),
                topic=None if sent.topic is None else str(sent.topic),
                message_id=sent.origin.message_id,
                cause=sent.origin.cause,
                correlation=sent.origin.correlation,
            )

    # -- in -------------------------------------------------------------------------------------------------------

    def received(self, message: pb.Message) -> None:
        """Take a message of the data stream."""
        match message.WhichOneof("message"):
            case "request":
                self._spawn(self._request(message.request))
            case "response":
                self._answered(message.response)
            case "cloudEvent":
                self._spawn(self._event(message.cloudEvent))
            case _:
                logger.warning("the host sent an empty message")

    def redelivered(self, request: pb.RpcRequest, respond_to: str) -> StringValue:
        """Take a message that its sender sends again, by the control channel."""
        arrived = arrived_request(request)
        recipient = AgentId(request.target.type, request.target.key)
        if self._arrivals.holds(arrived, recipient):
            return StringValue(value=HELD)
        self._spawn(self._request_again(request, arrived, recipient, respond_to))
        return StringValue(value=TAKEN)

    def answered_again(self, response: pb.RpcResponse) -> None:
        """Take the answer to a message that was sent again."""
        self._answered(response)

    def cancel(self, text: str) -> None:
        """A caller no longer waits (T11)."""
        cause, _, recipient = text.removeprefix(CANCEL).partition(" ")
        self._arrivals.cancel(UUID(cause), AgentId.from_str(recipient))

    def _answered(self, response: pb.RpcResponse) -> None:
        future = self._calls.pop(response.request_id, None)
        if future is None or future.done():
            return
        if response.error:
            future.set_exception(self._wire.unpack_error(response.error, dict(response.metadata)))
            return
        try:
            reply, _ = self._wire.unpack(packed_reply(response))
        except Exception as error:  # AutoGen's serializers raise what they like; the caller must hear of it
            future.set_exception(error)
        else:
            future.set_result(reply)

    async def _request(self, request: pb.RpcRequest) -> None:
        with self.arriving:
            client = self._connection().client_id
            arrived = arrived_request(request)
            again = self._arrivals.saw(arrived, AgentId(request.target.type, request.target.key))
            response = await self._responding(request, arrived, again=again)
            if self._connection().client_id == client:  # a host that was restarted would not know what it answers
                await self._connection().send(pb.Message(response=response))

    async def _request_again(self, request: pb.RpcRequest, arrived: Arrived, recipient: AgentId, back: str) -> None:
        with self.arriving:
            self._arrivals.saw(arrived, recipient)  # it may come by the way that messages go, too
            response = await self._responding(request, arrived, again=True)
            if back and arrived.topic is None:
                await self._control.tell(back, response)

    async def _responding(self, request: pb.RpcRequest, arrived: Arrived, *, again: bool) -> pb.RpcResponse:
        """Deliver a request; whatever happens, there is a response (T2, T3, T4)."""
        recipient = AgentId(request.target.type, request.target.key)
        try:
            if arrived.origin is None:
                arrived = await self._intervened_here(arrived, recipient)
            reply = await self._deliver(arrived, recipient, again=again)
            if arrived.origin is None:
                reply = await self._response(reply, recipient, arrived.sender)
            encoded = self.agents.log.codec.encode(reply, where="reply")
            packed = self._wire.pack(encoded) if arrived.origin is None else self._wire.pack_exact(encoded)
            response = reply_response(request.request_id, packed)
            self._connection().check(pb.Message(response=response), f"reply of {recipient}")
            return response
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
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
                    arrived = await self._intervened_here(arrived, None)
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
            await self._once_ours(lambda: self.agents.shell_for(recipient).live())
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

    async def _intervened_here(self, arrived: Arrived, recipient: AgentId | None) -> Arrived:
        """A plain worker's message has passed no intervention handler yet.

        Raises:
            MessageDroppedException: One dropped it.
        """
        if self._interventions is None:
            return arrived
        message, _ = self._wire.unpack(arrived.packed)
        context = MessageContext(
            sender=arrived.sender,
            topic_id=arrived.topic,
            is_rpc=arrived.is_rpc,
            cancellation_token=CancellationToken(),
            message_id=arrived.message_id,
        )
        made = await self._intervene(message, context, recipient)
        return replace(arrived, packed=self._wire.pack_exact(made))

    async def _hand_over(self, message: Any, context: MessageContext, recipient: AgentId) -> Any:
        return await self._once_ours(lambda: self.agents.shell_for(recipient).on_message(message, context))

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

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _origin(event: EventData) -> Origin:
    asked: str | None = event.metadata.get("asked_id")
    return Origin(event.id, event.correlation, asked or event.message_id or str(event.id))
