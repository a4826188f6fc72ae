"""AutoGen's in-process runtime, with every agent recorded, recovered and restorable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar
from uuid import UUID
from weakref import WeakSet

from autogen_core import (
    EVENT_LOGGER_NAME,
    Agent,
    AgentId,
    AgentInstantiationContext,
    AgentMetadata,
    AgentType,
    CancellationToken,
    InterventionHandler,
    MessageContext,
    MessageSerializer,
    SingleThreadedAgentRuntime,
    Subscription,
    TopicId,
)
from opentelemetry.trace import TracerProvider

from autogen_eventlog.checking.determinism import ClassReport
from autogen_eventlog.checking.history import History
from autogen_eventlog.checking.report import CheckMode, CheckReport, OnProgress
from autogen_eventlog.codec import Encoded
from autogen_eventlog.errors import MessageNotDelivered
from autogen_eventlog.events import EventData
from autogen_eventlog.ids import agent_id, parse_topic
from autogen_eventlog.incarnation.incarnation import Incarnation
from autogen_eventlog.incarnation.parts import Call
from autogen_eventlog.runtime.agents import RecordedAgents, traced
from autogen_eventlog.runtime.answers import reply_to
from autogen_eventlog.runtime.dropped import record_dropped
from autogen_eventlog.runtime.handler import EventLogHandler, split_handlers, warn_unrecorded
from autogen_eventlog.runtime.identity import Identity, TracedId
from autogen_eventlog.runtime.interventions import InterventionChain
from autogen_eventlog.runtime.passage import Passage
from autogen_eventlog.runtime.queue import RunQueue, Tasks, settle
from autogen_eventlog.runtime.redelivery import Redelivering, Redelivery
from autogen_eventlog.runtime.reports import RestoreReport, SnapshotReport
from autogen_eventlog.runtime.resumption import Resumption
from autogen_eventlog.runtime.shell import JournaledAgent
from autogen_eventlog.runtime.timetravel import TimeTravel
from autogen_eventlog.runtime.tracing import QuietTracing

T = TypeVar("T", bound=Agent)

logger = logging.getLogger(__name__)
_event_logger = logging.getLogger(EVENT_LOGGER_NAME)


class EventSourcedAgentRuntime(SingleThreadedAgentRuntime):
    """`SingleThreadedAgentRuntime`, whose agents survive the process.

    With an `EventLogHandler` among its intervention handlers, every agent is recorded, comes up as it was before its first
    delivery, and can be viewed and restored at any past point. Without one, it is AutoGen's runtime.

    Differences from AutoGen's runtime, each for a reason in docs/explanation/recording.md: a message is given to each
    recipient as a copy, made from what was recorded; one agent id is one instance, however many messages come at once;
    one recipient that can't be built does not keep a publication from the others; intervention handlers chain.

    Args:
        intervention_handlers: An `EventLogHandler`, and any others.
        tracer_provider, ignore_unhandled_exceptions: As for AutoGen's runtime.

    Raises:
        ValueError: More than one `EventLogHandler`.
    """

    def __init__(
        self,
        *,
        intervention_handlers: list[InterventionHandler] | None = None,
        tracer_provider: TracerProvider | None = None,
        ignore_unhandled_exceptions: bool = True,
    ) -> None:
        self._handler, others = split_handlers(intervention_handlers or [])
        self._again: InterventionHandler | None = None
        """The other handlers, for messages that AutoGen's queue does not hold (`redeliver`)."""
        if self._handler is not None and others:
            record = partial(record_dropped, self._handler)
            self._again = InterventionChain(others, record, lambda: None)
            chain: list[InterventionHandler] = [InterventionChain(others, record, self._count_discarded)]
            others = chain
        super().__init__(
            intervention_handlers=others or None,
            tracer_provider=tracer_provider,
            ignore_unhandled_exceptions=ignore_unhandled_exceptions,
        )
        if self._handler is not None:
            self._tracer_helper = QuietTracing(self._tracer_helper, tracer_provider)  # type: ignore[assignment]
        self._messages_stay = not others
        """Nothing between sender and recipient can change a message."""
        if self._handler is not None:
            self._handler.submissions.withhold = bool(others)
        self._strangers: Tasks = WeakSet()
        self._not_delivered: set[UUID] = set()
        """What waited when this runtime was stopped."""
        if self._handler is not None:
            self._message_queue = RunQueue(self._strangers)
        self._resumption: Resumption | None = None
        self._redelivery = asyncio.Lock()
        self._entering = Passage()
        """Messages from outside that are being recorded, before AutoGen's queue has them."""
        if self._handler is not None:
            self._agents = RecordedAgents(self._handler, self, self)
            self._handler.attached_to(self)

    # -- agents ---------------------------------------------------------------------------------------------------

    async def register_factory(
        self,
        type: str | AgentType,
        agent_factory: Callable[[], T | Awaitable[T]],
        *,
        expected_class: type[T] | None = None,
    ) -> AgentType:
        if self._handler is None:
            return await super().register_factory(type, agent_factory, expected_class=expected_class)
        blueprint = self._agents.blueprint(agent_factory, expected_class)

        def shell() -> Agent:
            return self._agents.shell(AgentInstantiationContext.current_agent_id(), blueprint)

        registered = await super().register_factory(type, shell)
        self._agents.blueprints[registered.type] = blueprint
        self._tell_of_registration()
        return registered

    async def register_agent_instance(self, agent_instance: Agent, agent_id: AgentId) -> AgentId:
        if self._handler is None:
            return await super().register_agent_instance(agent_instance, agent_id)
        shell, blueprint = self._agents.shell_of(agent_instance, agent_id)
        await super().register_agent_instance(shell, agent_id)
        await self._agents.adopt(agent_instance, shell, blueprint)
        self._tell_of_registration()
        return agent_id

    async def add_subscription(self, subscription: Subscription) -> None:
        await super().add_subscription(subscription)
        self._tell_of_registration()

    def _tell_of_registration(self) -> None:
        if self._resumption is not None:
            self._resumption.registered()

    async def try_get_underlying_agent_instance(self, id: AgentId, type: type[T] = Agent) -> T:  # type: ignore[assignment]
        found = await super().try_get_underlying_agent_instance(id)
        instance = await found.instance() if isinstance(found, JournaledAgent) else found
        if not isinstance(instance, type):
            raise TypeError(
                f"Agent with name {id.type} is not of type {type.__name__}. It is of type {instance.__class__.__name__}"
            )
        return instance

    async def get(
        self, id_or_type: AgentId | AgentType | str, /, key: str = "default", *, lazy: bool = True
    ) -> AgentId:
        found = await super().get(id_or_type, key, lazy=lazy)  # type: ignore[call-overload]
        if not lazy and self._handler is not None and found in self._agents.shells:
            await self._agents.shells[found].live()
        return found

    def add_message_serializer(self, serializer: MessageSerializer[Any] | Sequence[MessageSerializer[Any]]) -> None:
        super().add_message_serializer(serializer)
        if self._handler is not None:
            for one in serializer if isinstance(serializer, Sequence) else [serializer]:
                message_type = getattr(one, "cls", None)
                if isinstance(message_type, type):
                    self._handler.allow(message_type)

    # -- messages from outside ------------------------------------------------------------------------------------

    async def send_message(
        self,
        message: Any,
        recipient: AgentId,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
    ) -> Any:
        if self._handler is not None and not isinstance(message_id, TracedId):
            with self._entering:
                encoded = await self._agents.accept(message, recipient=str(recipient), message_id=message_id)
            submission = self._handler.submissions.hold(
                encoded, sender=None if sender is None else str(sender), message_id=message_id, recipient=str(recipient)
            )
            message_id = TracedId(
                submission.message_id,
                Identity(None, submission.id, False, submission, self._recorded(message, encoded)),
            )
            try:
                return await super().send_message(
                    message, recipient, sender=sender, cancellation_token=cancellation_token, message_id=message_id
                )
            except asyncio.CancelledError:
                message_id.given_up = True
                raise
            except MessageNotDelivered:
                raise  # the log holds it as accepted, and it may be delivered yet
            except Exception as error:
                submission.failed(error)
                raise
        return await super().send_message(
            message, recipient, sender=sender, cancellation_token=cancellation_token, message_id=message_id
        )

    async def publish_message(
        self,
        message: Any,
        topic_id: TopicId,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
    ) -> None:
        if self._handler is not None and not isinstance(message_id, TracedId):
            with self._entering:
                encoded = await self._agents.accept(message, topic=str(topic_id), message_id=message_id)
                event, ticket = self._handler.submissions.submit(
                    encoded,
                    sender=None if sender is None else str(sender),
                    message_id=message_id,
                    topic=str(topic_id),
                    fan_out=await self.fan_out(topic_id, sender),
                )
                message_id = traced(event, self._recorded(message, encoded))
                await ticket  # a publication has no answer: that it returns is all that says it was accepted
        await super().publish_message(
            message, topic_id, sender=sender, cancellation_token=cancellation_token, message_id=message_id
        )

    # -- messages from agents (the `World` of their incarnations) -------------------------------------------------

    async def ask(self, incarnation: Incarnation, call: Call) -> None:
        """Hand a recorded call to AutoGen's runtime, and its answer to the caller."""
        message = self._to_hand_on(incarnation, call.message, call.original)
        recorded = self._recorded(message, call.message)
        message_id = traced(call.event, recorded, again=call.again, sender=incarnation)
        message_id.arrived = call.arrived
        try:
            reply = await super().send_message(
                message,
                call.recipient,
                sender=incarnation.id,
                cancellation_token=call.token,
                message_id=message_id,
            )
        except (KeyboardInterrupt, SystemExit):
            raise  # the program ends, and no agent hears of it
        except BaseException as error:
            message_id.given_up = isinstance(error, asyncio.CancelledError)
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
        """Hand a recorded publication to AutoGen's runtime."""
        object_ = self._to_hand_on(incarnation, message, original)
        await super().publish_message(
            object_,
            parse_topic(str(event.topic)),
            sender=incarnation.id,
            cancellation_token=token,
            message_id=traced(event, self._recorded(object_, message), sender=incarnation),
        )

    async def fan_out(self, topic: TopicId, sender: AgentId | None) -> int | None:
        """How many deliveries AutoGen's runtime makes of a publication: one a subscription, none to the sender."""
        return sum(recipient != sender for recipient in await self._subscribers(topic))

    def _to_hand_on(self, incarnation: Incarnation, message: Encoded, original: Any) -> Any:
        """The object that travels through AutoGen's runtime. Where it may be looked at, it is as it was when sent."""
        return original if self._messages_stay else incarnation.codec.decode(message.data, where="message")

    def _recorded(self, message: Any, encoded: Encoded) -> tuple[object, Encoded] | None:
        return (message, encoded) if self._messages_stay else None

    # -- running --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self._handler is None:
            warn_unrecorded()
        else:
            self._tracer_helper.look()  # type: ignore[attr-defined]
        super().start()
        if self._handler is not None and self._handler.resume:
            self._resumption = Resumption(self._agents, partial(self._redelivering, set()))

    async def _process_next(self) -> None:
        if self._resumption is not None:
            await self._resumption.older_messages_begun()
        await super()._process_next()
        if self._handler is not None and self._run_context is None:
            # Stepped by hand. AutoGen's runtime comes back with the handler begun; here it is recorded before it begins.
            await self._agents.around.beginning.cleared()

    def _count_discarded(self) -> None:
        self._message_queue.task_done()

    # -- state ----------------------------------------------------------------------------------------------------

    async def agent_metadata(self, agent: AgentId) -> AgentMetadata:
        if self._handler is None:
            return await super().agent_metadata(agent)
        return await self._agents.shell_for(agent).description()

    async def agent_save_state(self, agent: AgentId) -> Mapping[str, Any]:
        """A small, JSON-clean mapping that names the agent's stream and version (docs/how-to/save-and-load.md).

        Raises:
            UnknownAgent: The agent's type is not registered.
        """
        if self._handler is None:
            return await super().agent_save_state(agent)
        return await self._agents.travel.save(agent)

    async def agent_load_state(self, agent: AgentId, state: Mapping[str, Any]) -> None:
        """Load a saved state of this agent or of another, or a plain AutoGen state, and record it.

        Raises:
            UnknownAgent: The agent's type is not registered.
            InvalidState: The mapping is no state that can be loaded; nothing has changed.
            What `restore` raises.
        """
        if self._handler is None:
            await super().agent_load_state(agent, state)
        else:
            await self._agents.travel.load(agent, state)

    async def save_state(self) -> Mapping[str, Any]:
        """The saved states of all agents of the registered types that the log knows, by id."""
        if self._handler is None:
            return await super().save_state()
        return await self._agents.travel.save_all(self._agents.blueprints)

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Load what `save_state` gave.

        Raises:
            InvalidState: An agent of it has no registered type here; nothing has changed. (AutoGen's runtime passes
                over such agents without a word.)
        """
        if self._handler is None:
            await super().load_state(state)
        else:
            await self._agents.travel.load_all(state)

    async def restore(
        self,
        agent: AgentId | str,
        *,
        at: datetime | None = None,
        version: int | None = None,
        position: int | None = None,
        timeout: float | None = None,
    ) -> RestoreReport:
        """Bring an agent back to what it was at a past point; it goes on from there, the events after it stay readable.

        Give one of the three. Running deliveries are waited for, new ones wait. What was under way at that point
        (handlers, calls not yet answered) goes on from there.

        Args:
            agent: Its id, or `"type/key"`.
            at: A zone-aware time, not in the future: the state after the last event recorded at or before it.
            version: The state after this event of the agent's stream.
            position: The state after the last event of the agent at or before this position.
            timeout: Seconds to wait for running deliveries (default: the handler's `restore_timeout`).

        Raises:
            RecordingIncomplete: There is no `EventLogHandler`.
            InvalidPoint: A naive time, a point in the future or past the end, none or more than one given.
            UnknownStream: The log holds no event of the agent at that point. Nothing was created.
            AgentBusy: Running deliveries did not end in time.
            Divergence, NotRestorable, TypeNotAllowed, PayloadCorrupt: The past can't be replayed with the code at hand.
            StreamOwned: Another worker has the agent.
        """
        return await self._traveller("restore").restore(
            agent_id(agent), at=at, version=version, position=position, timeout=timeout
        )

    async def restore_all(
        self, *, at: datetime | None = None, position: int | None = None, timeout: float | None = None
    ) -> list[RestoreReport]:
        """Bring all agents of the registered types back to one point: a consistent cut (G7).

        No message is then received that was not sent. Agents that had no event yet become new. Every agent is first
        brought to the point in a view; nothing has changed if one of them can't be.

        Raises:
            What `restore` raises.
        """
        return await self._traveller("restore_all").restore_all(
            self._agents.blueprints, at=at, position=position, timeout=timeout
        )

    async def view(
        self,
        agent: AgentId | str,
        *,
        at: datetime | None = None,
        version: int | None = None,
        position: int | None = None,
        type: type[T] = Agent,  # type: ignore[assignment]
    ) -> T:
        """A detached instance of the agent as it was at a past point (by default: now). It touches nothing.

        Raises:
            TypeError: The instance is not of `type`.
            What `restore` raises, without AgentBusy and StreamOwned.
        """
        instance = await self._traveller("view").view(agent_id(agent), at=at, version=version, position=position)
        if not isinstance(instance, type):
            raise TypeError(f"agent {agent} is a {instance.__class__.__qualname__}, not a {type.__qualname__}")
        return instance

    async def check(
        self,
        agents: Iterable[AgentId | str | History] | None = None,
        *,
        mode: CheckMode = "report",
        from_snapshot: bool = False,
        on_progress: OnProgress | None = None,
    ) -> CheckReport:
        """Hold recorded histories against the code at hand, by replay into fresh instances. Nothing live is touched.

        Nothing is written, claimed or sent; an agent that is at work, here or elsewhere, is not disturbed.

        Args:
            agents: Ids, and histories from files (`checking.read_history`). Default: all agents of the registered types
                that the log knows.
            mode: `"report"`: of each agent, everything that differs, as far as replay can go on behind it. `"strict"`: its
                first divergence alone.
            from_snapshot: Begin at an agent's newest snapshot: sooner, and what lies before it is not looked at.
            on_progress: Called now and then.

        Raises:
            RecordingIncomplete: There is no `EventLogHandler`.
            UnknownStream: The log holds no event of an agent.
            DatabaseUnavailable, LogClosed: The log can't be read.
        """
        self._traveller("check")
        return await self._agents.check(agents, mode=mode, from_snapshot=from_snapshot, on_progress=on_progress)

    async def determinism(
        self, agents: Iterable[AgentId | str] | None = None, *, on_progress: OnProgress | None = None
    ) -> list[ClassReport]:
        """Whether agents can be restored by replay, class by class, found by replaying what they have lived through, twice.

        Nothing is written, claimed or sent.

        Args:
            agents: Default: all agents of the registered types that the log knows.
            on_progress: Called now and then.

        Raises:
            RecordingIncomplete: There is no `EventLogHandler`.
            UnknownStream: The log holds no event of an agent.
            DatabaseUnavailable, LogClosed: The log can't be read.
        """
        self._traveller("determinism")
        return await self._agents.determinism(agents, on_progress)

    @property
    def recorded_agents(self) -> RecordedAgents:
        """For the package's own commands.

        Raises:
            RecordingIncomplete: There is no `EventLogHandler`.
        """
        self._traveller("recorded_agents")
        return self._agents

    def _traveller(self, operation: str) -> TimeTravel:
        if self._handler is None:
            raise EventLogHandler.incomplete(operation, "a runtime without an EventLogHandler")
        return self._agents.travel

    async def redeliver(self, *, since: datetime | None = None) -> list[Redelivery]:
        """Deliver, in order and once, what was accepted and not delivered (`log.audit.undelivered`).

        What processes that died had accepted is delivered as a runtime starts, unless its handler says `resume=False`. What
        waited when a runtime was stopped is not: who sent it was told. Publications go to today's subscribers that have not
        had them; calls between agents are asked again by their callers, which come up for it. Intervention handlers see
        each message again.

        Args:
            since: Only what was recorded at or after this zone-aware time.

        Returns:
            What was done with each message, oldest first.

        Raises:
            RecordingIncomplete: There is no `EventLogHandler`.
            InvalidPoint: A time without a zone.
            DatabaseUnavailable: The database did not answer within the bound.
        """
        if self._handler is None:
            raise EventLogHandler.incomplete("redeliver", "a runtime without an EventLogHandler")
        left, self._not_delivered = self._not_delivered, set()
        return await self._redelivering(left).all(since)

    def _redelivering(self, left: set[UUID]) -> Redelivering:
        assert self._handler is not None
        shell_for, subscribers = self._agents.shell_for, self._subscribers
        return Redelivering(self._handler.log, shell_for, subscribers, self._again, left, self._redelivery)

    async def snapshot(self, agent: AgentId | str, *, timeout: float | None = None) -> SnapshotReport:
        """Take a snapshot of an agent now, and prove it: recoveries and views begin there.

        Args:
            timeout: Seconds to wait until no handler of it runs (default: the handler's `restore_timeout`).

        Returns:
            What was taken, and whether the proof came to the same state. A snapshot that was not proven is never restored from.

        Raises:
            RecordingIncomplete: There is no `EventLogHandler`.
            NotCapturable: The agent holds something that is neither data nor wiring; the error names the places.
            AgentBusy: Its handlers did not end in time.
            UnknownAgent: Its type is not registered here.
        """
        if self._handler is None:
            raise EventLogHandler.incomplete("snapshot", "a runtime without an EventLogHandler")
        bound = self._handler.restore_timeout if timeout is None else timeout
        return await self._agents.snapshot(agent_id(agent), bound)

    async def reply_to(self, message_id: str, recipient: AgentId) -> Any:
        """The reply to a message that was sent from outside any agent, by this process or by one that is no more.

        Whoever sends with a `message_id` of its own can so learn, after a crash, what became of its request. It waits while the
        message waits or its handler runs; give it a bound with `asyncio.wait_for`. Of several with this id, the newest counts.

        Raises:
            RecordingIncomplete: There is no `EventLogHandler`.
            UnknownMessage: It was never accepted. Sending it again does not do it twice.
            MessageAbandoned: It was handled on a branch that a restore has left.
            MessageDroppedException: It reached nobody, or an intervention handler dropped it.
            What the handler raised, as recorded.
        """
        if self._handler is None:
            raise EventLogHandler.incomplete("reply_to", "a runtime without an EventLogHandler")
        return await reply_to(self._handler.log, message_id, recipient)

    async def _subscribers(self, topic: TopicId) -> list[AgentId]:
        return list(await self._subscription_manager.get_subscribed_recipients(topic))

    # -- stopping -------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stop at once, as AutoGen's runtime does, without losing what waits.

        Handlers that run go on to their end, and their callers get the answers. Who waits for a message that was not
        delivered gets `MessageNotDelivered`; such messages, publications too, are in the log, and `redeliver` delivers them. A
        handler that waits for such a message goes on when its agent is needed next.

        Raises:
            RuntimeError: It does not run.
        """
        if self._resumption is not None:
            self._resumption.release()
        await self._stop(super().stop)

    async def stop_when_idle(self) -> None:
        # AutoGen's queue has a message as soon as it is sent; here it is recorded first, and the runtime is not idle
        # meanwhile. Nor is it while one recipient of a publication still has it: AutoGen counts a publication as done as
        # soon as one of them fails. Once all is empty, AutoGen's own call stops the runtime without waiting.
        while self._handler is not None and self._run_context is not None:
            if self._resumption is not None:
                await self._resumption.older_messages_begun()
            await self._message_queue.join()
            if self._entering.is_clear and self._agents.around.delivering.is_clear:
                break
            await self._entering.cleared()
            await self._agents.around.delivering.cleared()
        await self._stop(super().stop_when_idle)

    async def stop_when(self, condition: Callable[[], bool]) -> None:
        await self._stop(partial(super().stop_when, condition))

    async def _stop(self, stop: Callable[[], Awaitable[None]]) -> None:
        queue, runs = self._message_queue, self._run_context is not None
        try:
            await stop()
        finally:
            if self._resumption is not None and runs:
                resumption, self._resumption = self._resumption, None
                resumption.release()
                await resumption.ended()
            if runs and isinstance(queue, RunQueue):
                self._end_run(queue)
        if self._handler is not None:
            if runs:
                await self._agents.snapshots.at_stop(self._agents.shells.values())
            await self._handler.log.writer.flush()

    def _end_run(self, queue: RunQueue) -> None:
        assert self._handler is not None
        if isinstance(self._message_queue, RunQueue) and self._message_queue is not queue:
            return  # another stop has ended this run already; what waits now is the next one's
        self._strangers.update(self._background_tasks)
        self._message_queue = RunQueue(self._strangers)
        self._handler.submissions.append_held()
        left = set(settle(queue.left))
        if left:
            logger.warning("stopped before %d messages were delivered; the log holds them, see `redeliver`", len(left))
        self._not_delivered |= left

    # -- AutoGen's internals (see `compatibility`) ----------------------------------------------------------------

    def _try_serialize(self, message: Any) -> str:
        # AutoGen serialises each message several times, for a log that is mostly off, and lets what JSON can't hold
        # fail the sender.
        if self._handler is None:
            return super()._try_serialize(message)
        if not _event_logger.isEnabledFor(logging.INFO):
            return ""
        try:
            return super()._try_serialize(message)
        except Exception as error:
            return f"Message could not be serialized: {error!r}"

    def _known(self, agent_id: AgentId | None) -> AgentId | None:
        return agent_id if agent_id is not None and agent_id.type in self._known_agent_names else None

    async def _create_otel_attributes(
        self,
        sender_agent_id: AgentId | None = None,
        recipient_agent_id: AgentId | None = None,
        message_context: MessageContext | None = None,
        message: Any = None,
    ) -> Mapping[str, str]:
        if self._handler is not None:
            if self._tracer_helper.off:  # type: ignore[attr-defined]
                return {}
            # AutoGen looks for the classes of both, so that a span would decide what is delivered.
            sender_agent_id, recipient_agent_id = self._known(sender_agent_id), self._known(recipient_agent_id)
        return await super()._create_otel_attributes(sender_agent_id, recipient_agent_id, message_context, message)
