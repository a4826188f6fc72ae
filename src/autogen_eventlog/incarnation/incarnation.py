"""An incarnation: one instance of an agent, with everything that crosses the boundary between it and the world.

The same code runs live and in replay; only where inputs come from and where outputs go differs. Live, an input is
recorded and let in, an output is recorded and, once durable, let out. In replay, inputs come from the journal and outputs
are held against it. When the journal of a recovered agent ends, the incarnation goes live in place, even in the middle of
a callback.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime, timezone
from typing import Any
from uuid import UUID

from autogen_core import Agent, AgentId, CancellationToken, MessageContext, MessageHandlerContext, TopicId

from autogen_eventlog.codec import Codec, Encoded
from autogen_eventlog.errors import EventLogError, EventTooLarge, InstanceEnded, LogClosed, NotEncodable
from autogen_eventlog.events import LARGEST_PAYLOAD, EventData, EventType, Outcome, RecordedEvent, new_event
from autogen_eventlog.ids import EventIds, parse_topic
from autogen_eventlog.incarnation.construction import CONSTRUCTION, Construction
from autogen_eventlog.incarnation.failures import (
    as_recorded,
    decode_failure,
    encode_failure,
    is_cancellation,
    reproducible,
    traceback_text,
)
from autogen_eventlog.incarnation.making import PARAMETERS
from autogen_eventlog.incarnation.outbox import Outbox
from autogen_eventlog.incarnation.parts import (
    DONE,
    FAIL,
    Appender,
    Call,
    Completion,
    Delivery,
    Effect,
    Envelope,
    StandsFor,
    UnknownPolicy,
    World,
)
from autogen_eventlog.incarnation.producer import Producer
from autogen_eventlog.replay.journal import MORE, OBSERVATIONS, READINGS, TICK, HandlerStarted
from autogen_eventlog.replay.loop import outside_context
from autogen_eventlog.replay.machine import Machine, Mismatch, Production
from autogen_eventlog.replay.session import DELIVERY, Mode, Session

logger = logging.getLogger(__name__)

_now = datetime.now  # as it is before agents' readings are recorded: this is none, and need not be told from one

_warned: set[tuple[type, str]] = set()


class Incarnation:
    """One instance of an agent at its boundary."""

    def __init__(
        self, agent_id: AgentId, *, codec: Codec, ids: EventIds, machine: Machine | None, tick: int = 0, timers: int = 0
    ) -> None:
        self.id = agent_id
        self.stream = str(agent_id)
        self.codec = codec
        self.session = Session(self.stream, machine=machine, tick=tick, timers=timers)
        self.construction = Construction(self.session)
        self.agent: Agent | None = None
        self.made: dict[str, Any] = {}
        """What its factory made, in short (`making`); empty: it is not known."""
        self.continues = True
        """Whether the incarnation goes live where its journal ends (a view does not)."""
        self.begun = False
        self.withdrawn = False
        """All agents were brought to a point before it: what it sent and nobody received yet was not sent."""
        self.on_live: Callable[[], None] | None = None
        """Called as the incarnation goes live, before anything else of it is recorded."""
        self.when_live: list[Callable[[], object]] = []
        """Then these: they join the instance to what is outside."""
        self._ended_by: EventLogError | None = None
        self.calls: dict[UUID, Call] = {}
        self.asked_again: dict[UUID, Call] = {}
        """What it had sent in the past that it comes from, and still waited for as it went live."""
        self.effects: dict[int, Effect] = {}
        self.deliveries: dict[int, Delivery] = {}
        self.effects_asked = 0
        self.effects_unknown: UnknownPolicy = FAIL
        """What becomes of an effect whose outcome is unknown."""
        self.boundaries: list[StandsFor] = []
        """What hangs on the instance and stands for the outside, in the order in which it was found."""
        self.started: set[int] = set()
        """Which of them the agent has started, and not stopped."""
        self.effects_own: tuple[type, ...] = ()
        """Classes of models, tools, memories … that are the agent's own state or code, and no effects."""
        self.borrowed: dict[str, object] = {}
        """What hangs on the instance and others have too, or the copies in its place: no snapshot may change it."""
        self.heard_here = False
        """Whether it was given a message of a conversation that began in this process."""
        self._deferred: dict[int, tuple[Delivery, Callable[[], Coroutine[Any, Any, Any]]]] = {}
        self._ids = ids
        self._loop = self.session.loop
        self._appender: Appender | None = None
        self._world: World | None = None
        self._outbox: Outbox | None = None
        self._last_ticket: Awaitable[Any] = DONE
        self.session.owner = self
        self.session.on_end = self.end
        self.session.on_foreign = self._warn_of_foreign
        self.session.on_past_end = self._past_end
        self.session.on_many_observations = self._record_schedule
        self.session.on_unsaid = self._record_rest
        self._tasks: set[asyncio.Task[Any]] = set()

    # -- what hangs on it ------------------------------------------------------------------------------------------

    def has_started(self, boundary: StandsFor, starts: bool) -> None:
        """Note that the agent has started, or stopped, what a boundary stands for."""
        for number, known in enumerate(self.boundaries):
            if known is boundary:
                (self.started.add if starts else self.started.discard)(number)

    def start_again(self, numbers: set[int]) -> None:
        """What the agent had started in a past that is not replayed is really started before it is used.

        Raises:
            IndexError: There is no such boundary.
        """
        for number in numbers:
            self.boundaries[number].to_start.add(self)
        self.started = set(numbers)

    # -- live or not ----------------------------------------------------------------------------------------------

    def connect(self, appender: Appender, world: World, outbox: Outbox) -> None:
        """Say where events and outputs go once the incarnation is live."""
        self._appender, self._world, self._outbox = appender, world, outbox

    @property
    def live(self) -> bool:
        return self.session.mode is Mode.LIVE

    @property
    def _following(self) -> bool:
        return self.session.mode is Mode.FOLLOWING

    @property
    def ended(self) -> bool:
        return self.session.mode is Mode.ENDED

    @property
    def quiet(self) -> bool:
        """Whether nothing is under way: no handler, no call, no effect, no callback, no timer."""
        return not (self.deliveries or self.calls or self.effects) and self.session.quiet

    def is_in(self, conversation: UUID | None) -> bool:
        """Whether one of its handlers runs as a part of a conversation."""
        return conversation is not None and any(one.correlation == conversation for one in self.deliveries.values())

    def waits_for(self, sent: UUID) -> bool:
        """Whether the answer to a call is wanted still, or was as the incarnation went live."""
        return sent in self.asked_again or (sent in self.calls and not self.calls[sent].future.cancelled())

    def begin(self) -> None:
        """Go live, unless the code has gone past the end of its journal by itself and is live already."""
        if not self.begun:
            self.go_live()

    def go_live(self) -> None:
        """Begin, or continue from the end of the journal: what was asked and not answered is asked again, in order."""
        self.begun = True
        if self.session.mode is Mode.FOLLOWING:
            self.session.go_live()
        unsaid = self.session.unsaid
        if self.on_live is not None:
            self.on_live()
        self.session.unsaid = unsaid  # the announcement says nothing of it
        for connect in self.when_live:
            connect()
        if self._deferred:
            # Between two callbacks, where replay lets inputs in too: the agent may have come here amid one.
            waiting = [delivery for delivery, _ in self._deferred.values()]
            outside_context().run(self._loop.call_soon, lambda: [self.start(delivery) for delivery in waiting])
        for call in list(self.calls.values()):
            if not call.future.done():
                call.again = True
                call.arrived = asyncio.Event()
                self.asked_again[call.event.id] = call
                self._let_out(DONE, self._ask_later(call))
        for effect in list(self.effects.values()):
            if effect.resume is not None:
                effect.resume()
            else:
                self._spawn(self._answer_effect(effect, DONE))

    def _past_end(self) -> bool:
        """The code has reached the end of its journal in the middle of a callback: a recovered agent goes live there."""
        if self.continues:
            self.go_live()
        return self.continues

    def end(self, reason: EventLogError | None = None) -> None:
        """The instance is no longer the agent: nothing of it is recorded, nothing leaves, and its callers are told."""
        if self._ended_by is None:
            self._ended_by = reason or InstanceEnded(self.stream)
        if self._outbox is not None:
            self._outbox.close()
        self.session.end()
        for delivery in self.deliveries.values():
            if not delivery.done.done():
                delivery.done.set_exception(self._ended_by)
                delivery.done.exception()  # whoever waits is told; that nobody waits is no mistake

    def refusal(self) -> BaseException:
        """What code of an ended instance gets that wants something of the world.

        Where the log was closed or the loop shuts down, the program ends, and the code is cancelled like everything else.
        """
        if isinstance(self._ended_by, LogClosed) or self.session.abandoned:
            return asyncio.CancelledError(str(self._ended_by))
        return self._ended_by or InstanceEnded(self.stream)

    @property
    def outbox(self) -> Outbox:
        assert self._outbox is not None
        return self._outbox

    # -- inputs, live ---------------------------------------------------------------------------------------------

    def deliver(self, envelope: Envelope, *, deferred: bool = False) -> tuple[Delivery, Awaitable[Any]]:
        """Record a delivery and start its handler; with `deferred`, the handler waits for `start`.

        The handler is given a copy made from what was recorded, so that what it sees is what the log holds.
        """
        message = self.codec.decode(envelope.message.data, where="message")
        metadata = {} if envelope.is_rpc is (envelope.topic is None) else {"is_rpc": envelope.is_rpc}
        if deferred:
            metadata["deferred"] = True
        event, ticket = self._record(
            EventType.MESSAGE_DELIVERED,
            delivery=self._next_version(),
            sender=None if envelope.sender is None else str(envelope.sender),
            topic=None if envelope.topic is None else str(envelope.topic),
            message_id=envelope.message_id,
            message=envelope.message,
            cause=envelope.cause,
            correlation=envelope.correlation,
            metadata=metadata,
        )
        self.heard_here = self.heard_here or event.correlation is None or EventIds.made_here(event.correlation)
        return self._admit(event, message, deferred=deferred), ticket

    def start(self, delivery: Delivery) -> None:
        """Start the handler of a deferred delivery."""
        found = self._deferred.pop(delivery.number, None)
        if found is not None and self.live:
            self.session.observations.append(HandlerStarted(delivery.number, self.session.tick).observation())
            self._start(*found)

    def load(self, state: Encoded) -> tuple[Delivery, Awaitable[Any]]:
        """Record that a state is put into the agent, and run its `load_state`."""
        event, ticket = self._record(EventType.STATE_LOADED, delivery=self._next_version(), message=state)
        return self._admit_load(event, self.codec.decode(state.data, where="state")), ticket

    def cancel(self, delivery: Delivery, *, by: str) -> None:
        """Record that the outside asked a handler run to stop, through its token or by cancelling its task."""
        if self.live and delivery.number in self.deliveries:
            self._record(EventType.DELIVERY_CANCELLED, delivery=delivery.number, metadata={"by": by})
            self._cancel(delivery, by)

    def answer(self, call: Call, reply: Any, error: BaseException | None) -> None:
        """Record the answer to a call and give it to the agent. Later answers, and those nobody waits for, are void."""
        if not self.live or call.future.done() or call.event.id not in self.calls:
            return
        if isinstance(error, LogClosed):  # no answer of anybody's: the program ends, and nothing more can be recorded
            self.end(error)
            return
        outcome, message = self._outcome(reply, error)
        self._record(
            EventType.REPLY_RECEIVED,
            delivery=call.event.delivery,
            call=call.event.call,
            sender=call.event.recipient,
            message=message,
            outcome=outcome,
            cause=call.event.id,
            correlation=call.event.correlation,
        )
        if outcome is Outcome.REPLIED or error is None:
            reply, error = self._decode(message, outcome, "reply")
        else:
            error = as_recorded(self.codec, message, error)
        self._settle(call.future, reply, error)

    def give_up(self, call: Call) -> None:
        """The agent waits for an answer no longer."""
        if self.ended:
            return  # whoever is the agent now may wait
        self.say()
        call.give_up()

    def say(self) -> None:
        """Have what led here in the log, before anything that comes of it is in another's stream."""
        if self.live and self.session.unsaid and self.session.in_thread:
            self._record_schedule()

    # -- inputs, from the journal ---------------------------------------------------------------------------------

    def apply(self, event: RecordedEvent) -> None:
        """Let a recorded input in.

        Raises:
            Mismatch: The agent is not in a state in which this could have come.
            TypeNotAllowed, PayloadCorrupt: It can't be decoded here.
        """
        match event.type:
            case EventType.MESSAGE_DELIVERED:
                message = self.codec.decode(event.payload or b"", where=place(event))
                self._admit(event, message, deferred=bool(event.metadata.get("deferred")))
            case EventType.STATE_LOADED:
                self._admit_load(event, self.codec.decode(event.payload or b"", where=place(event)))
            case EventType.DELIVERY_CANCELLED:
                self._cancel(self._running(event), event.metadata["by"])
            case EventType.REPLY_RECEIVED:
                call = self.calls.get(event.cause) if event.cause is not None else None
                if call is None or call.future.done():
                    raise Mismatch(event.version, f"a reply to call {event.call}", "no such call, or one given up")
                self._settle(call.future, *self._recorded_result(event))
            case EventType.EFFECT_RECORDED:
                effect = self._expected_effect(event)
                self._settle(effect.future, *self._recorded_result(event))
            case _:
                raise AssertionError(event.type)

    def apply_start(self, number: int) -> None:
        """Start the handler of a delivery that was recorded before (strict durability)."""
        self._start(*self._deferred.pop(number))

    def _running(self, event: RecordedEvent) -> Delivery:
        delivery = self.deliveries.get(event.delivery or 0)
        if delivery is None:
            raise Mismatch(event.version, f"a cancellation of delivery {event.delivery}", "no such running delivery")
        return delivery

    def _expected_effect(self, event: RecordedEvent) -> Effect:
        effect = self.effects.get(event.metadata["effect"])
        asked = (event.metadata["kind"], event.metadata["request"])
        if effect is None or (effect.kind, effect.request) != asked or effect.future.done():
            made = "no such request" if effect is None else f"{effect.kind} {effect.request}"
            raise Mismatch(event.version, f"the result of {asked[0]} {asked[1]}", made)
        return effect

    def _recorded_result(self, event: RecordedEvent) -> tuple[Any, BaseException | None]:
        message = Encoded(event.message_type or "", event.payload or b"")
        return self._decode(message, event.outcome or Outcome.REPLIED, place(event))

    # -- running the agent ----------------------------------------------------------------------------------------

    def _admit(self, event: EventData, message: Any, *, deferred: bool) -> Delivery:
        delivery = self._new_delivery(event)
        context = MessageContext(
            sender=None if event.sender is None else AgentId.from_str(event.sender),
            topic_id=None if event.topic is None else parse_topic(event.topic),
            is_rpc=event.metadata.get("is_rpc", event.topic is None),
            cancellation_token=delivery.token,
            message_id=str(event.message_id),
        )

        async def handle() -> Any:
            assert self.agent is not None
            return await self.agent.on_message(message, ctx=context)

        if deferred:
            self._deferred[delivery.number] = (delivery, handle)
        else:
            self._start(delivery, handle)
        return delivery

    def _admit_load(self, event: EventData, state: Any) -> Delivery:
        delivery = self._new_delivery(event)

        async def load() -> Any:
            assert self.agent is not None
            return await self.agent.load_state(state)

        self._start(delivery, load)
        return delivery

    def _new_delivery(self, event: EventData) -> Delivery:
        delivery = Delivery(event.delivery or 0, event.id, event.correlation, self._loop.create_future())
        self.deliveries[delivery.number] = delivery
        return delivery

    def _start(self, delivery: Delivery, run: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        # Whoever brings the message, a worker, a redelivery, a replay: the handler finds its agent's id.
        with MessageHandlerContext.populate_context(self.id):
            task = self.session.spawn(self._run(delivery, run), delivery)
        delivery.task = task
        self._tasks.add(task)

    async def _run(self, delivery: Delivery, run: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        delivery.begun = True
        try:
            if delivery.cancelled_early:
                raise asyncio.CancelledError
            reply = await run()
        except (KeyboardInterrupt, SystemExit):
            self.session.abandon()  # the program ends here: the log stays as at a kill, and who waits is told
            raise
        except GeneratorExit as error:
            if asyncio.current_task(self._loop) is not delivery.task:
                raise  # it is being closed as garbage, and did not raise it
            await self._complete(delivery, None, error)
        except BaseException as error:
            await self._complete(delivery, None, error)
        else:
            await self._complete(delivery, reply, None)
        finally:
            if delivery.task is not None:
                self._tasks.discard(delivery.task)
                delivery.task = None  # else task, context and delivery keep each other until the next collection

    async def _complete(self, delivery: Delivery, reply: Any, error: BaseException | None) -> None:
        outcome, message = self._outcome(reply, error)
        if error is None and outcome is Outcome.RAISED:
            _, error = self._decode(message, outcome, "reply")
        made = Production(
            EventType.DELIVERY_COMPLETED,
            message_type=message.type_name,
            payload=message.data,
            outcome=outcome,
            delivery=delivery.number,
        )
        metadata = {} if error is None else {"traceback": traceback_text(error)}
        try:
            _, ticket = await self.produce(made, delivery=delivery, metadata=metadata)
        except (EventLogError, asyncio.CancelledError):
            return  # the incarnation has ended, and `end` has told whoever waits for this delivery
        self.deliveries.pop(delivery.number, None)
        if error is None and not self._following:  # in replay nobody waits for the answer
            reply, _ = self._decode(message, outcome, "reply")
        if not delivery.done.done():
            delivery.done.set_result(Completion(outcome, reply, error, ticket))

    def _cancel(self, delivery: Delivery, by: str) -> None:
        task = delivery.task
        if by == "token":
            self.session.inject(delivery.token.cancel)
        elif task is None or not delivery.begun:
            delivery.cancelled_early = True
        else:
            self.session.inject(task.cancel)

    def _settle(self, future: asyncio.Future[Any], reply: Any, error: BaseException | None) -> None:
        self.session.unsaid = True
        if error is None:
            self.session.inject(lambda: future.set_result(reply))
        else:
            self.session.inject(lambda: future.set_exception(error))

    # -- outputs --------------------------------------------------------------------------------------------------

    async def produce(
        self, made: Production, *, delivery: Delivery | None, metadata: dict[str, Any] | None = None
    ) -> tuple[EventData, Awaitable[Any]]:
        """Make an output: recorded if live, held against the journal if not.

        It does not suspend, unless the instance must go no further: at the end of a view, after a divergence.

        Raises:
            EventLogError: The instance is no longer the agent (`ended`).
        """
        if self._following:
            recorded = self._follow(made)
            if recorded is not None:
                if self._at_end_of_view and made.type is not EventType.DELIVERY_COMPLETED:
                    await self.stand_still()
                return recorded, DONE
            if self._following:
                await self.stand_still()
        if not self.live:
            raise self.refusal()
        return self._record(
            made.type,
            delivery=made.delivery if made.delivery is not None else (delivery.number if delivery else None),
            call=self._next_version() if made.type is EventType.MESSAGE_SENT else None,
            recipient=made.recipient,
            topic=made.topic,
            message=Encoded(made.message_type or "", made.payload or b""),
            outcome=made.outcome,
            cause=None if delivery is None else delivery.event_id,
            correlation=None if delivery is None else delivery.correlation,
            metadata=metadata,
        )

    def _follow(self, made: Production) -> RecordedEvent | None:
        """The recorded output that `made` is; None where the journal has ended and the incarnation goes live."""
        machine = self.session.machine
        assert machine is not None
        if self.session.mismatch is not None:
            return None
        if machine.exhausted:
            self._past_end()
            return None
        try:
            recorded = machine.produce(made)
        except Mismatch as mismatch:
            self.session.mismatch = mismatch
            return None
        self.session.unsaid = False
        return recorded

    @property
    def _at_end_of_view(self) -> bool:
        machine = self.session.machine
        return not self.continues and machine is not None and machine.exhausted

    async def stand_still(self) -> None:
        """Stop the running agent code exactly here; it is never resumed."""
        await self._loop.create_future()

    async def effect(self, kind: str, request: str, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Ask the world something that is not a message: answered once, and from the log in replay (G4).

        Args:
            kind: What is asked, for people and for comparison, such as `runtime.add_subscription`.
            request: A text or digest that tells this request from others of its kind.
            ask: Does it. Run live only, outside the agent's session.
        """
        number = self.effects_asked
        self.effects_asked += 1
        effect = Effect(number, kind, request, ask, self._loop.create_future())
        self.effects[number] = effect
        if self.session.mode is Mode.FOLLOWING and self.session.machine and self.session.machine.exhausted:
            if not self.continues or self.session.mismatch is not None:
                await self.stand_still()
            del self.effects[number]
            self.go_live()
            self.effects[number] = effect
        if self.ended:
            raise self.refusal()
        if self.live:
            self._spawn(self._answer_effect(effect, self._last_ticket))
        try:
            return await effect.future
        finally:
            self.effects.pop(number, None)

    async def _answer_effect(self, effect: Effect, before: Awaitable[Any]) -> None:
        assert effect.ask is not None
        try:
            await before
            reply, error = await effect.ask(), None
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as raised:
            reply, error = None, raised
        self.settle_effect(effect, reply, error)

    async def request_effect(
        self, kind: str, digest: str, payload: Encoded, resume: Callable[[], None]
    ) -> tuple[Effect, Awaitable[Any]]:
        """Record that something is asked of the outside, which may be done once the ticket is (G2).

        Args:
            kind: What is asked, such as `model.create`.
            digest: Tells this request from others of its kind.
            payload: The request, for comparison and for people.
            resume: Called as a recovered agent goes live without the result.

        Raises:
            EventLogError: The instance is no longer the agent.
        """
        number = self.effects_asked
        self.effects_asked += 1
        delivery = current_delivery()
        made = Production(
            EventType.EFFECT_REQUESTED,
            message_type=payload.type_name,
            payload=payload.data,
            delivery=None if delivery is None else delivery.number,
        )
        names = {"effect": number, "kind": kind, "request": digest}
        event, ticket = await self.produce(made, delivery=delivery, metadata=names)
        # As recorded: the answer that comes is to that, if a check went past it or a class has another shape today.
        digest = event.metadata.get("request") or digest
        effect = Effect(number, kind, digest, None, self._loop.create_future(), event, resume)
        self.effects[number] = effect
        return effect, ticket

    def settle_effect(self, effect: Effect, reply: Any, error: BaseException | None, *, more: bool = False) -> None:
        """Record the outcome of an effect and give it to the agent. Outcomes that nobody waits for are void.

        The agent is given what was recorded, errors too, so that it sees the same in replay.
        """
        if not self.live or effect.future.done() or self.effects.get(effect.number) is not effect:
            return
        outcome, message = self._outcome(reply, None if error is None else reproducible(self.codec, error))
        metadata: dict[str, Any] = {"effect": effect.number, "kind": effect.kind, "request": effect.request}
        if error is not None:
            metadata["traceback"] = traceback_text(error)
        if more:
            metadata[MORE] = True
        request = effect.event
        self._record(
            EventType.EFFECT_RECORDED,
            delivery=None if request is None else request.delivery,
            message=message,
            outcome=outcome,
            cause=None if request is None else request.id,
            correlation=None if request is None else request.correlation,
            metadata=metadata,
        )
        self._settle(effect.future, *self._decode(message, outcome, effect.kind))

    def let_out_effect(self, ticket: Awaitable[Any], departure: Callable[[], Awaitable[Any]]) -> None:
        """Let something that was requested be done once it is durable."""
        self._let_out(ticket, departure)

    async def fan_out(self, topic: TopicId) -> dict[str, Any]:
        """What the log says of a publication beside its content: for how many it is."""
        found = None if self._world is None else await self._world.fan_out(topic, self.id)
        return {} if found is None else {"fan_out": found}

    def let_out(self, call: Call, ticket: Awaitable[Any]) -> None:
        """Send a recorded call on its way once it is durable."""
        self._let_out(ticket, self._ask_later(call))

    def let_out_publication(
        self,
        event: EventData,
        message: Encoded,
        original: Any,
        ticket: Awaitable[Any],
        token: CancellationToken | None = None,
    ) -> None:
        """Send a recorded publication on its way once it is durable."""
        world = self._world
        assert world is not None
        self._let_out(ticket, lambda: world.publish(self, event, message, original, token))

    def _ask_later(self, call: Call) -> Callable[[], Awaitable[None]]:
        async def depart() -> None:
            world = self._world
            assert world is not None
            # Given up or not: as in AutoGen, what was sent arrives, if need be with a token that is cancelled.
            self._spawn(world.ask(self, call))
            await asyncio.sleep(0)  # it is in the runtime's queue before what was sent after it leaves

        return depart

    def _let_out(self, ticket: Awaitable[Any], departure: Callable[[], Awaitable[Any]]) -> None:
        outside_context().run(self.outbox.put, ticket, departure)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = outside_context().run(self._loop.create_task, coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard, context=outside_context())

    # -- recording ------------------------------------------------------------------------------------------------

    def _warn_of_foreign(self, what: str) -> None:
        """Said at the first moment it can be known (G11), once for each class and cause."""
        cls = type(self.agent)
        if (cls, what) not in _warned:
            _warned.add((cls, what))
            logger.warning(
                "%s (%s): the agent depends on something that is not recorded (%s); from here on it can't be restored by "
                "replay, only from a snapshot taken later",
                self.stream,
                cls.__qualname__,
                what,
            )

    def _record_schedule(self) -> None:
        self.note(EventType.SCHEDULE_RECORDED, {})

    def _record_rest(self) -> None:
        """What a handler left behind has read, and how far it went, as the agent comes to rest: no event of its own tells."""
        if self.live and self.quiet:
            self._record_schedule()

    def encode(self, value: object, *, where: str) -> Encoded:
        """The stored form of a value that is to be recorded.

        Raises:
            NotEncodable: It can't be recorded exactly.
            EventTooLarge: It is over `LARGEST_PAYLOAD` bytes.
        """
        return encode_bounded(self.codec, value, where=where, stream=self.stream)

    def record_readings(self, families: frozenset[str]) -> None:
        """Say which readings are recorded of this instance (by gates that its process has). Call it before it is made."""
        self.session.readings = self.construction.families = families

    def announce(self, producer: Producer) -> None:
        """Record that the instance lives, who made it, what its making read, and what is recorded of its readings."""
        metadata: dict[str, Any] = {
            "producer": {**producer.as_metadata(), READINGS: sorted(self.session.readings)},
        }
        if self.made:
            metadata["producer"][PARAMETERS] = self.made
        if self.construction.readings and not self.construction.recorded:
            metadata[CONSTRUCTION] = self.construction.readings
        self.note(EventType.AGENT_ACTIVATED, metadata)

    def note(self, event_type: EventType, metadata: dict[str, Any]) -> Awaitable[Any]:
        """Record a fact that concerns no code, such as an activation."""
        return self._record(event_type, metadata=metadata)[1]

    @property
    def durable(self) -> Awaitable[Any]:
        """Done when everything recorded so far is durable."""
        return self._last_ticket

    def _next_version(self) -> int:
        assert self._appender is not None
        return self._appender.version + 1

    def _record(
        self,
        event_type: EventType,
        *,
        message: Encoded | None = None,
        metadata: dict[str, Any] | None = None,
        **columns: Any,
    ) -> tuple[EventData, Awaitable[Any]]:
        assert self._appender is not None
        full = {} if metadata is None else metadata
        full[TICK] = self.session.tick
        self.session.unsaid = False
        if self.session.observations:
            full[OBSERVATIONS] = self.session.take_observations()
        event = new_event(
            id=self._ids.next(),
            type=event_type,
            occurred_at=_now(timezone.utc),
            message_type=None if message is None else message.type_name,
            payload=None if message is None else message.data,
            metadata=full,
            **columns,
        )
        self._last_ticket = ticket = self._appender.append(event)
        return event, ticket

    def _outcome(self, reply: Any, error: BaseException | None) -> tuple[Outcome, Encoded]:
        if error is None:
            try:
                return Outcome.REPLIED, self.encode(reply, where="reply")
            except (NotEncodable, EventTooLarge) as refused:
                error = refused
        outcome = Outcome.CANCELLED if is_cancellation(error) else Outcome.RAISED
        return outcome, encode_failure(self.codec, error)

    def _decode(self, message: Encoded, outcome: Outcome, where: str) -> tuple[Any, BaseException | None]:
        if outcome is Outcome.REPLIED:
            return self.codec.decode(message.data, where=where), None
        return None, decode_failure(self.codec, message.type_name, message.data, where=where)


def encode_bounded(codec: Codec, value: object, *, where: str, stream: str) -> Encoded:
    """See `Incarnation.encode`."""
    encoded = codec.encode(value, where=where)
    if len(encoded.data) > LARGEST_PAYLOAD:
        raise EventTooLarge(stream, len(encoded.data), LARGEST_PAYLOAD)
    return encoded


def place(event: RecordedEvent) -> str:
    """An event's place, for errors."""
    return f"stream {event.stream!r}, version {event.version}"


def current_delivery() -> Delivery | None:
    """The delivery that the running code belongs to."""
    return DELIVERY.get()
