"""Messages of a worker's agents, on their way out to the host once they are durable, and the answers to them.

Between event-sourced workers a message is at least once on the wire and exactly once in effect: the receiver knows by the
event that it names as its cause whether it has it already, in hand or in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4
from weakref import WeakSet

from autogen_core import (
    AgentId,
    CancellationToken,
    MessageContext,
    TopicId,
)
from autogen_core.exceptions import MessageDroppedException
from autogen_ext.runtimes.grpc.protos import agent_worker_pb2 as pb
from google.protobuf.wrappers_pb2 import StringValue

from autogen_eventlog.codec import Encoded
from autogen_eventlog.distributed.connection import HostConnection
from autogen_eventlog.distributed.control import ControlChannel, to_agent, unpacked
from autogen_eventlog.distributed.envelopes import (
    event_of,
    packed_reply,
    request_of,
)
from autogen_eventlog.distributed.outstanding import Outstanding, Sent
from autogen_eventlog.distributed.receiving import CANCEL, Receiving
from autogen_eventlog.distributed.registrations import Registrations
from autogen_eventlog.distributed.screening import Screening
from autogen_eventlog.distributed.wire import Origin, Wire
from autogen_eventlog.errors import EventLogError, InstanceEnded, Undeliverable
from autogen_eventlog.events import EventData, EventType, RecordedEvent
from autogen_eventlog.ids import parse_topic
from autogen_eventlog.incarnation.incarnation import Incarnation
from autogen_eventlog.incarnation.parts import Call
from autogen_eventlog.postgres.records import Progress
from autogen_eventlog.runtime.agents import RecordedAgents
from autogen_eventlog.runtime.identity import Identity, TracedId
from autogen_eventlog.runtime.shell import recorded_completion

logger = logging.getLogger(__name__)

_ASK_AGAIN_SECONDS = 2.0
_TIMES_SAID = 15
"""How often a worker says that a call was given up, where no worker answers that: a minute."""


class Traffic:
    """What passes between this worker's agents and the others (the `World` of their incarnations).

    Args:
        screening: By the other intervention handlers.
        patience: Seconds without a sign of life after which a message is given up.
        trace: AutoGen's trace helper.
    """

    def __init__(
        self,
        *,
        connection: Callable[[], HostConnection],
        control: ControlChannel,
        registrations: Callable[[], Registrations],
        wire: Wire,
        screening: Screening,
        patience: float,
        content_type: str,
        trace: Any,
    ) -> None:
        self._connection = connection
        self._control = control
        self._registrations = registrations
        self._wire = wire
        self._screening = screening
        self._patience = patience
        self._content_type = content_type
        self._trace = trace
        self._agents: RecordedAgents | None = None
        self._receiving: Receiving | None = None
        self._outstanding: Outstanding | None = None
        self._calls: dict[str, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._saying: WeakSet[asyncio.Task[Any]] = WeakSet()
        """That calls were given up."""

    def attach(self, agents: RecordedAgents, receiving: Receiving) -> None:
        """Say whose messages these are, and who takes what comes for them."""
        self._agents = agents
        self._receiving = receiving
        self._outstanding = Outstanding(
            agents.log.reader,
            self._send_again,
            self._subscribers,
            self._answer_in_log,
            self._arrived_in_vain,
            self._gave_up,
            self._patience,
        )

    @property
    def agents(self) -> RecordedAgents:
        assert self._agents is not None
        return self._agents

    @property
    def receiving(self) -> Receiving:
        assert self._receiving is not None
        return self._receiving

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
        await self.receiving.arriving.cleared()
        for future in list(self._calls.values()):
            if not future.done():
                future.set_exception(Undeliverable("a call", 0.0, "the runtime was stopped"))
        left = await self.outstanding.stop(timeout)
        for task in self._saying:
            task.cancel()
        return left

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
        encoded = await self._screening.leaving(encoded, before, recipient)
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
            encoded = await self._screening.leaving(encoded, before)
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
                call.message,
                call.recipient,
                sender=incarnation.id,
                origin=origin,
                token=call.token,
                again=call.again,
                caller=incarnation,
            )
        except (KeyboardInterrupt, SystemExit):
            raise  # the program ends, and no agent hears of it
        except BaseException as error:
            incarnation.answer(call, None, error)
        else:
            incarnation.answer(call, reply, None)

    async def publish(
        self,
        incarnation: Incarnation,
        event: EventData,
        message: Encoded,
        original: Any,
        token: CancellationToken | None,
    ) -> None:
        """Send a recorded publication on its way. As on AutoGen's worker, a token stays where it is."""
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
        caller: Incarnation | None = None,
        intervene: bool = True,
    ) -> Any:
        """Send a message that is durable, and wait for its answer.

        Args:
            again: It was sent before, by an instance that is no more.
            caller: The agent that waits for the answer.

        Raises:
            MessageDroppedException: An intervention handler dropped it, or its answer.
            MessageTooLarge: It is larger than the connection takes.
            Undeliverable: There was no sign of life of its recipient for too long.
            Whatever the recipient raised, with type and text as far as they can be had.
        """
        if intervene:
            message = await self._screening.leaving(message, self._context(sender, None, origin, token), recipient)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        request_id = f"{origin.cause.hex}.{uuid4().hex[:8]}"
        request = request_of(self._wire.pack(message), recipient, request_id=request_id, sender=sender, origin=origin)
        envelope = pb.Message(request=request)
        self._connection().check(envelope, f"message to {recipient}")
        sent = Sent(origin, message, sender, loop.time(), _now(), recipient=recipient, answer=answer, caller=caller)
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
            sent.given_up = True
            self._arrived_in_vain(sent)
            raise
        finally:
            self._calls.pop(request_id, None)
            if not sent.given_up:
                self.outstanding.done(sent)
        return await self._screening.answer(reply, recipient, sender)

    async def publication(
        self, message: Encoded, topic: TopicId, *, sender: AgentId | None, origin: Origin, intervene: bool = True
    ) -> None:
        """Send a publication that is durable.

        Raises:
            MessageTooLarge: It is larger than the connection takes.
        """
        if intervene:
            try:
                message = await self._screening.leaving(
                    message, self._context(sender, topic, origin, CancellationToken())
                )
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

    def _arrived_in_vain(self, sent: Sent) -> None:
        """Have its handler told that nobody waits for it."""
        if sent.recipient is not None:
            self._saying.add(self._spawn(self._say_given_up(sent.caller, sent.origin, sent.recipient)))

    async def _say_given_up(self, caller: Incarnation | None, origin: Origin, recipient: AgentId) -> None:
        """Until it is in the log: the worker that had the call may be gone, and its handler about to go on elsewhere."""
        if caller is not None:
            try:
                await caller.durable
            except EventLogError:
                return  # nor has the agent given up, then: whoever is the agent now waits
        said = StringValue(value=CANCEL + f"{origin.cause.hex} {recipient}")
        for _ in range(_TIMES_SAID):
            if await self._control.ask(to_agent(recipient), said, timeout=_ASK_AGAIN_SECONDS) is not None:
                return
            await asyncio.sleep(_ASK_AGAIN_SECONDS)  # what can't be sent at all is not waited for above

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
        self.receiving.abandon(cut)
        self.outstanding.forget(set(agents))

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
                self.receiving.request(message.request)
            case "response":
                self.answered(message.response)
            case "cloudEvent":
                self.receiving.event(message.cloudEvent)
            case _:
                logger.warning("the host sent an empty message")

    def answered(self, response: pb.RpcResponse) -> None:
        """Take the answer to a call, by whichever way it comes; a second one is void."""
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

    def _spawn(self, coroutine: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _origin(event: EventData) -> Origin:
    asked: str | None = event.metadata.get("asked_id")
    return Origin(event.id, event.correlation, asked or event.message_id or str(event.id))
