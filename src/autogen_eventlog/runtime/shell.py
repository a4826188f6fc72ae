"""What AutoGen's runtime holds in an agent's place: it brings the agent to life, and keeps its log true.

The shell outlives the instances in it. An instance comes up (recovered from its log) at the first delivery, and is dropped
when the log refuses it or a restore replaces it; the next delivery finds the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any
from uuid import UUID

from autogen_core import Agent, AgentId, AgentMetadata, AgentRuntime, CancellationToken, MessageContext

from autogen_eventlog.codec import Codec
from autogen_eventlog.errors import AgentBusy, AppendRefused, EventLogError, InstanceEnded, LogClosed, NotRestorable
from autogen_eventlog.events import EventType, Outcome, RecordedEvent
from autogen_eventlog.ids import LONGEST_STREAM, check_text
from autogen_eventlog.incarnation.failures import decode_failure
from autogen_eventlog.incarnation.incarnation import Incarnation, encode_bounded
from autogen_eventlog.incarnation.outbox import Outbox
from autogen_eventlog.incarnation.parts import DONE, Completion, Delivery, Envelope, World
from autogen_eventlog.incarnation.producer import producer_of
from autogen_eventlog.lineage import lineage
from autogen_eventlog.log import EventLog
from autogen_eventlog.postgres.records import MessageFilter, Snapshot
from autogen_eventlog.recovery import Progress, Recovered, Recovery
from autogen_eventlog.replay.machine import Machine
from autogen_eventlog.runtime.appender import StreamAppender
from autogen_eventlog.runtime.blueprint import Blueprint
from autogen_eventlog.runtime.handler import EventLogHandler
from autogen_eventlog.runtime.identity import Identity, TracedId, identity_of
from autogen_eventlog.runtime.passage import Passage
from autogen_eventlog.runtime.proving import Proof
from autogen_eventlog.runtime.snapshot_work import SnapshotWork
from autogen_eventlog.runtime.snapshotting import Snapshotting
from autogen_eventlog.runtime.todays_shape import in_todays_shape
from autogen_eventlog.snapshots import TAKEN

logger = logging.getLogger(__name__)

_WORTH_A_PROOF = 100
"""Events: below, recovery is as quick without a snapshot."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the shells of a runtime share."""

    log: EventLog
    handler: EventLogHandler
    runtime: AgentRuntime
    world: World
    ids: Any
    beginning: Passage
    """Messages that have reached their agent and whose handler has not begun."""
    delivering: Passage
    """Messages that have reached their agent and whose handler has not ended."""
    snapshots: SnapshotWork


@dataclass(frozen=True, slots=True)
class Replaced:
    """A live agent was put at a point of a past."""

    recovered: Recovered
    version: int
    """Of the event that says so."""
    in_flight: tuple[int, ...]
    """Deliveries that were running at that point."""


class JournaledAgent:
    """An agent as its runtime sees it (AutoGen's `Agent` protocol)."""

    def __init__(self, agent_id: AgentId, blueprint: Blueprint, surroundings: Surroundings) -> None:
        self._id = agent_id
        self.stream = str(agent_id)
        self.blueprint = blueprint
        self._around = surroundings
        self._log = surroundings.log
        self._strict = surroundings.handler.durability == "strict"
        self._incarnation: Incarnation | None = None
        self._before: Incarnation | None = None
        """One that was dropped: its last events may be on their way to the log."""
        self._appender: StreamAppender | None = None
        self._gate = asyncio.Lock()
        self._waiting = 0
        self._attempts = 0
        self._refusal: Exception | None = None
        self._thread = threading.get_ident()
        today = partial(in_todays_shape, self._log.codec)
        self.recovery = Recovery(self._log, agent_id, self._build, self._new_incarnation, today, blueprint.outside)
        self._snapshotting = Snapshotting(self._log, self.stream, surroundings.handler.snapshots, self)

    # -- AutoGen's protocol ---------------------------------------------------------------------------------------

    @property
    def id(self) -> AgentId:
        return self._id

    @property
    def metadata(self) -> AgentMetadata:
        instance = None if self._incarnation is None else self._incarnation.agent
        if instance is not None:
            return instance.metadata
        return AgentMetadata(type=self._id.type, key=self._id.key, description="")

    async def bind_id_and_runtime(self, id: AgentId, runtime: AgentRuntime) -> None:
        """The instance inside is bound when it is made."""

    async def on_message(self, message: Any, ctx: MessageContext) -> Any:
        """`deliver`."""
        return await self.deliver(message, ctx)

    async def deliver(self, message: Any, ctx: MessageContext, begun: Callable[[], object] | None = None) -> Any:
        """Record a delivery, run the handler, and answer once everything up to the answer is durable.

        Args:
            begun: Called once the delivery is recorded: later ones come after it.

        Raises:
            NotEncodable: The message can't be recorded exactly; it was not delivered.
            StreamOwned, StreamFenced: Another worker has the agent.
            DatabaseUnavailable: Nothing was recorded, or what was is continued when the database is back.
            Divergence, NotRestorable, …: The agent could not be recovered; it was not delivered.
            Whatever the handler raised.
        """
        try:
            with self._around.delivering:
                try:
                    with self._around.beginning:
                        incarnation, delivery = await self._begin(message, ctx)
                finally:
                    if isinstance(ctx.message_id, TracedId) and ctx.message_id.arrived is not None:
                        ctx.message_id.arrived.set()
                if begun is not None:
                    begun()
                return await self._answer(incarnation, delivery, ctx.cancellation_token)
        except Exception as error:
            if isinstance(ctx.message_id, TracedId) and ctx.message_id.given_up:
                # AutoGen would set the error on a future that is cancelled already, and never count the message as done.
                raise asyncio.CancelledError from error
            raise

    async def _begin(self, message: Any, ctx: MessageContext) -> tuple[Incarnation, Delivery]:
        """Record a delivery and start its handler, or find the delivery that this very message led to before."""
        identity = identity_of(ctx.message_id)
        check_text("message_id", ctx.message_id)
        recorded = identity.recorded
        if recorded is not None and recorded[0] is message:
            encoded = recorded[1]
        else:
            encoded = encode_bounded(self._log.codec, message, where="message", stream=self.stream)
        if self._log.writer.full:
            await self._log.writer.room()
        incarnation = self._incarnation
        if incarnation is None or not self._at_hand(incarnation):
            with self._snapshotting.waiting(incarnation, identity.correlation):
                incarnation = await self.live()
        while identity.again:
            joined = await self._join(incarnation, identity)
            if joined is not None:
                return incarnation, joined
            before, incarnation = incarnation, await self._in_turn(incarnation)
            if incarnation is before:  # else it was replaced while the log was asked
                break
        while identity.void is not None:
            if await identity.void():
                raise InstanceEnded(str(ctx.sender))
            before, incarnation = incarnation, await self._in_turn(incarnation)
            if incarnation is before:
                break
        if identity.sender is not None and identity.sender.withdrawn:
            raise InstanceEnded(identity.sender.stream)
        envelope = Envelope(
            message=encoded,
            sender=ctx.sender,
            topic=ctx.topic_id,
            is_rpc=ctx.is_rpc,
            message_id=str(ctx.message_id),
            cause=identity.origin(),
            correlation=identity.correlation,
        )
        delivery, ticket = incarnation.deliver(envelope, deferred=self._strict)
        if self._strict:
            try:
                await ticket
            except EventLogError as error:
                self.drop(incarnation, error)
                raise
            except asyncio.CancelledError:
                # The delivery is recorded, so it needs an end: its handler is cancelled before it begins.
                incarnation.cancel(delivery, by="task")
                incarnation.start(delivery)
                raise
            incarnation.start(delivery)
        return incarnation, delivery

    async def save_state(self) -> Mapping[str, Any]:
        return await (await self.live()).agent.save_state()  # type: ignore[union-attr]

    async def load_state(self, state: Mapping[str, Any]) -> None:
        await self.load(state)

    async def close(self) -> None:
        """Close the instance, if there is one. Its stream stays this process's until the log is closed."""
        if self._incarnation is not None and self._incarnation.agent is not None:
            await self._incarnation.agent.close()

    async def give_up(self) -> None:
        """End the instance, if there is one, and give its stream back, so that another worker may take it at once."""
        async with self._gate:
            incarnation, appender = self._incarnation, self._appender
            if incarnation is not None:
                try:
                    await incarnation.durable
                except EventLogError as error:
                    self.drop(incarnation, error)
                    return
                incarnation.end()
                self._incarnation = None
            if appender is not None and not appender.refused:
                await self._log.ownership.release(self.stream, appender.epoch)

    # -- deliveries -----------------------------------------------------------------------------------------------

    async def _answer(self, incarnation: Incarnation, delivery: Delivery, token: CancellationToken | None) -> Any:
        if token is not None:
            delivery.came_with = token
            token.add_callback(partial(self._cancelled_by_token, incarnation, delivery))
        completion = await self._completion(incarnation, delivery)
        try:
            await completion.ticket
        except EventLogError as error:
            self.drop(incarnation, error)
            raise
        if not incarnation.outbox.empty:
            await incarnation.outbox.left()
        if self._snapshotting.due(incarnation, self._appender):
            self._around.snapshots.begin(self.take_snapshot())
        elif self._snapshotting.long_due(incarnation, self._appender):
            self._around.snapshots.begin(self._take_in_a_pause(incarnation))
        else:
            self._around.snapshots.touched(self)
        if completion.error is not None:
            raise completion.error
        return completion.reply

    async def _completion(self, incarnation: Incarnation, delivery: Delivery) -> Completion:
        try:
            return await delivery.done
        except asyncio.CancelledError:
            if incarnation.ended or delivery.number not in incarnation.deliveries:
                raise
            if delivery.done.cancelled():  # two callers may wait for one delivery (`_join`)
                delivery.done = asyncio.get_running_loop().create_future()
            incarnation.cancel(delivery, by="task")
            try:
                return await delivery.done
            except EventLogError:  # the loop shuts down: the log stays as it is, and the next worker continues it
                raise asyncio.CancelledError from None

    def _cancelled_by_token(self, incarnation: Incarnation, delivery: Delivery) -> None:
        cancel = partial(incarnation.cancel, delivery, by="token")
        if threading.get_ident() == self._thread:
            cancel()
        else:
            incarnation.session.loop.call_soon_threadsafe(cancel)

    async def _join(self, incarnation: Incarnation, identity: Identity) -> Delivery | None:
        """The delivery that this very message led to before, running or done, if it is in the agent's past."""
        if identity.cause is None:
            return None
        await incarnation.durable  # it may be on its way to the log, sent by an incarnation that is no more
        found = await self._log.reader.messages(
            MessageFilter(stream=self.stream, cause=identity.cause, event_types=(EventType.MESSAGE_DELIVERED,))
        )
        past = await lineage(self._log.reader, self.stream, self._version())
        for event in found:
            if past.holds(self.stream, event.version):
                running = incarnation.deliveries.get(event.version)
                return running or await self._ended_delivery(incarnation, event)
        return None

    async def cancel_caused_by(self, cause: UUID) -> None:
        """Cancel, by its token, the handler run that a message led to, if it runs; return once the log has that.

        Raises:
            What `live` raises; nothing was cancelled.
            DatabaseUnavailable: Whether the log has it is not known.
        """
        if self.incarnation is not None:
            await self.incarnation.durable
        arrived = MessageFilter(stream=self.stream, cause=cause, event_types=(EventType.MESSAGE_DELIVERED,), limit=1)
        if not await self._log.reader.messages(arrived):
            return
        incarnation = await self.live()
        delivery = await self._join(incarnation, Identity(cause))
        if delivery is not None and not delivery.done.done():
            incarnation.cancel(delivery, by="token")
        await incarnation.durable

    async def _ended_delivery(self, incarnation: Incarnation, delivered: RecordedEvent) -> Delivery:
        """A delivery from the log, with the outcome that it had in the agent's past.

        Raises:
            InstanceEnded: The agent was restored to a point before that outcome meanwhile.
        """
        await incarnation.durable  # its end may be on its way to the log still
        past = await lineage(self._log.reader, self.stream, self._version())
        delivery = Delivery(
            delivered.version, delivered.id, delivered.correlation, asyncio.get_running_loop().create_future()
        )
        async for event in self._log.reader.read(self.stream, after_version=delivered.version):
            ended = event.type is EventType.DELIVERY_COMPLETED and event.delivery == delivered.version
            if ended and past.holds(self.stream, event.version):
                delivery.done.set_result(recorded_completion(self._log.codec, event))
                return delivery
        raise InstanceEnded(self.stream)

    # -- bringing the agent to life -------------------------------------------------------------------------------

    async def live(self) -> Incarnation:
        """The live incarnation; recovered from the log first if there is none. Waiters come out in the order they came.

        Raises: What `on_message` says for an agent that can't be recovered.
        """
        incarnation = self._incarnation
        if incarnation is not None and self._at_hand(incarnation):
            return incarnation
        self._waiting += 1
        seen = self._attempts
        try:
            async with self._gate:
                if self._incarnation is None or not self._incarnation.live:
                    await self._attempt(seen)
                assert self._incarnation is not None
                return self._incarnation
        finally:
            self._waiting -= 1

    async def _in_turn(self, incarnation: Incarnation) -> Incarnation:
        """The live incarnation, once it is our turn: it may be being read, or have been replaced, since it was looked at."""
        return incarnation if self._at_hand(incarnation) else await self.live()

    def _at_hand(self, incarnation: Incarnation) -> bool:
        """Whether it is live and nobody is before us."""
        return incarnation.live and not self._waiting and not self._gate.locked()

    async def _attempt(self, seen: int) -> None:
        """One attempt serves all that waited for it, with its error too."""
        if self._attempts > seen and self._refusal is not None:
            # A copy for each waiter, where the class is ours: the traceback of an error grows where it is raised twice.
            raise copy.copy(self._refusal) if isinstance(self._refusal, EventLogError) else self._refusal
        self._attempts += 1
        self._refusal = None
        try:
            await self._activate()
        except Exception as error:  # not a cancellation: that was meant for one waiter alone
            self._refusal = error
            raise

    async def _activate(self) -> None:
        await self._claim()
        assert self._appender is not None
        version = self._appender.version
        if version == 0:
            incarnation = await self.recovery.fresh()
            self._connect(incarnation)
        else:
            logger.info("recovering %s: %d events", self.stream, version)
            recovered = await self.recovery.to(version, continues=True, prepare=self._connect)
            incarnation = recovered.incarnation
            self._snapshotting.began(recovered)
            self._around.snapshots.begin(self._prove_what_was_left(recovered))
        self._enliven(incarnation)

    async def _claim(self) -> None:
        check_text("agent id", self.stream, longest=LONGEST_STREAM)
        await self._log.start_writing()
        if self._before is not None:  # what the instance before has on its way is its own still, not a stale owner's
            before, self._before = self._before, None
            with contextlib.suppress(EventLogError):
                await before.durable
        claim = await self._log.ownership.claim(self.stream, takeover=self._around.handler.takeover)
        self._appender = StreamAppender(self._log.writer, claim)

    def _connect(self, incarnation: Incarnation, *, held: bool = False) -> None:
        """Say where the incarnation's events go, and what to record as it goes live."""
        assert self._appender is not None
        outbox = Outbox(asyncio.get_running_loop(), lambda error: self.drop(incarnation, error), held=held)
        incarnation.connect(self._appender, self._around.world, outbox)
        producer = producer_of(incarnation.agent, str(self._log.ownership.worker_id))

        def announce() -> None:
            incarnation.announce(producer)

        incarnation.on_live = announce

    def _enliven(self, incarnation: Incarnation) -> None:
        for delivery in incarnation.deliveries.values():
            delivery.done.add_done_callback(partial(_tell_of_failure, self.stream, delivery.number))
        incarnation.begin()
        self._incarnation = incarnation

    def drop(self, incarnation: Incarnation, error: EventLogError) -> None:
        """The log refused this incarnation, or is away: memory is ahead of it and must not be built upon."""
        if not incarnation.ended:
            level = logging.WARNING if isinstance(error, AppendRefused) else logging.ERROR
            if isinstance(error, LogClosed):
                level = logging.DEBUG  # the program is about to end
            logger.log(level, "%s: this instance is dropped, the log decides: %s", self.stream, error)
            if isinstance(error, AppendRefused) and self._appender is not None:
                self._around.handler.submissions.keep_refused(error, self._appender.take_refused())
        incarnation.end(error)
        if self._incarnation is incarnation:
            self._incarnation, self._before = None, incarnation

    # -- instances ------------------------------------------------------------------------------------------------

    def _new_incarnation(self, machine: Machine | None) -> Incarnation:
        incarnation = Incarnation(self._id, codec=self._log.codec, ids=self._around.ids, machine=machine)
        incarnation.effects_unknown = self._around.handler.effects_unknown
        incarnation.effects_own = self._around.handler.effects_own
        incarnation.session.hermetic = self._around.handler.replay_io == "refuse"
        return incarnation

    async def _build(self, incarnation: Incarnation) -> Agent:
        return await self.blueprint.build(self._id, incarnation, self._around.runtime)

    async def instance(self) -> Agent:
        """The live instance itself."""
        agent = (await self.live()).agent
        assert agent is not None
        return agent

    async def scratch(self) -> tuple[Agent, dict[str, object]]:
        """A fresh instance that is no agent, nothing of which is recorded or leaves it; and what it has borrowed."""
        incarnation = self._new_incarnation(Machine())
        incarnation.continues = False
        if self._incarnation is not None:
            incarnation.construction.repeat(self._incarnation.construction)
        agent = await self._build(incarnation)
        incarnation.end()
        return agent, incarnation.borrowed

    def outside(self, agent: Agent) -> tuple[object, ...]:
        """What an instance was given and is no part of its state."""
        return self.blueprint.outside(agent)

    def no_snapshots(self, why: str) -> None:
        """No snapshot can be loaded: the agent is restored by replay alone."""
        self._snapshotting.give_up(why)

    async def shares(self) -> bool:
        """Whether its factory gives each instance the same objects, which others hold too: a fresh one can't replace it."""
        if self._incarnation is None:
            await self.example()
        return self.blueprint.shares

    async def description(self) -> AgentMetadata:
        """The agent's metadata, from the instance if there is one, else from one made for the purpose."""
        if self._incarnation is not None and self._incarnation.agent is not None:
            return self._incarnation.agent.metadata
        return (await self.example()).metadata

    async def example(self) -> Agent:
        """A fresh instance to look at; the live one if none can be made beside it (its factory shares what can't be copied)."""
        try:
            return (await self.scratch())[0]
        except NotRestorable:
            return await self.instance()

    @property
    def incarnation(self) -> Incarnation | None:
        """The live incarnation, if there is one."""
        return self._incarnation if self._incarnation is not None and self._incarnation.live else None

    @property
    def recovering(self) -> bool:
        """Whether there is no live instance and one is being rebuilt from the agent's past."""
        rebuilt = self.incarnation is None and self._gate.locked()
        return rebuilt and self._appender is not None and self._appender.version > 0

    def _version(self) -> int:
        assert self._appender is not None
        return self._appender.version

    # -- snapshots ------------------------------------------------------------------------------------------------

    async def take_snapshot(self) -> None:
        """Take one, if anything has happened since the last one, and let it be proven."""
        incarnation, appender = self.incarnation, self._appender
        if incarnation is None or not self._snapshotting.overdue(appender):
            return
        assert appender is not None
        self._submit(await self._snapshotting.take(incarnation, appender, self._gate))

    async def _take_in_a_pause(self, incarnation: Incarnation) -> None:
        if incarnation is self.incarnation and self._appender is not None:
            self._submit(await self._snapshotting.take_in_a_pause(incarnation, self._appender, self._gate))

    def _submit(self, snapshot: Snapshot | None) -> None:
        if snapshot is not None and snapshot.status == TAKEN:
            self._around.snapshots.prover.submit(self, snapshot)

    async def snapshot_now(self, timeout: float) -> Proof:
        """Take one once the agent is at rest, and prove it.

        Raises:
            AgentBusy: It was not at rest within `timeout` seconds.
            NotCapturable: It holds something that is neither data nor wiring.
            What `live` raises.
        """
        incarnation = await self.live()
        await self._idle(incarnation, timeout)
        assert self._appender is not None
        snapshot = await self._snapshotting.take(incarnation, self._appender, self._gate, wanted=True)
        if snapshot is None:
            raise AgentBusy(self.stream, len(incarnation.deliveries), timeout)
        if snapshot.status != TAKEN:
            return Proof(snapshot, snapshot.status, ())
        return await self._around.snapshots.prover.prove(self, snapshot)

    async def _prove_what_was_left(self, recovered: Recovered) -> None:
        """A candidate of a process that ended before it was proven."""
        if self._snapshotting.policy is not None and recovered.events >= _WORTH_A_PROOF:
            left = await self._log.snapshots.candidates(stream=self.stream)
            if left:
                self._around.snapshots.prover.submit(self, left[-1])

    # -- the past -------------------------------------------------------------------------------------------------

    async def durable_version(self) -> int | None:
        """The version of the live instance, once it is durable; None if there is no live instance."""
        incarnation = self.incarnation
        if incarnation is None:
            return None
        version = self._version()
        await incarnation.durable
        return version

    async def replace(
        self,
        from_stream: str,
        version: int,
        *,
        note: tuple[EventType, dict[str, Any]],
        timeout: float,
        on_progress: Progress | None = None,
    ) -> Replaced:
        """Put an instance with the past of `version` of `from_stream` in the agent's place, and go on from there.

        New deliveries wait. Nothing has changed if it fails.

        Raises:
            AgentBusy: Running deliveries did not end within `timeout` seconds.
            What `Recovery.to` and `Ownership.claim` raise.
        """
        async with self._gate:
            if self.incarnation is not None:
                await self._idle(self.incarnation, timeout)
            await self.own()
            replaced = await self.put(from_stream, version, note=note, on_progress=on_progress)
        await replaced.recovered.incarnation.durable
        return replaced

    async def own(self) -> None:
        """Make sure that the stream is this process's. The caller holds the gate."""
        if self.incarnation is None:
            await self._claim()

    async def put(
        self,
        from_stream: str,
        version: int,
        *,
        note: tuple[EventType, dict[str, Any]],
        held: bool = False,
        on_progress: Progress | None = None,
    ) -> Replaced:
        """`replace`, for a caller that holds the gate and has seen to it that the agent is owned and at rest.

        Args:
            held: Nothing of the new instance leaves before its outbox is released.
        """
        old = self.incarnation
        came: list[tuple[int, tuple[int, ...]]] = []

        def prepare(incarnation: Incarnation) -> None:
            self._connect(incarnation, held=held)
            announce = incarnation.on_live

            def take_over() -> None:
                if old is not None:
                    old.end()
                incarnation.note(*note)
                came.append((self._version(), tuple(sorted(incarnation.deliveries))))
                if announce is not None:
                    announce()

            incarnation.on_live = take_over

        recovered = await self.recovery.to(
            version, stream=from_stream, continues=True, prepare=prepare, on_progress=on_progress
        )
        self._enliven(recovered.incarnation)
        self._snapshotting.began(recovered)
        [(noted, in_flight)] = came
        return Replaced(recovered, noted, in_flight)

    def withdraw(self) -> None:
        """End the live instance for good, with what it sent and nobody received yet. The caller holds the gate."""
        if self.incarnation is not None:
            self.incarnation.withdrawn = True
            self.incarnation.end()

    @property
    def gate(self) -> asyncio.Lock:
        """New deliveries wait while it is held."""
        return self._gate

    @property
    def running(self) -> list[asyncio.Future[Completion]]:
        """The ends of the deliveries that run."""
        incarnation = self.incarnation
        return [] if incarnation is None else [delivery.done for delivery in incarnation.deliveries.values()]

    async def _idle(self, incarnation: Incarnation, timeout: float) -> None:
        running = [delivery.done for delivery in incarnation.deliveries.values()]
        if running:
            _, pending = await asyncio.wait(running, timeout=timeout)
            if pending:
                raise AgentBusy(self.stream, len(pending), timeout)

    async def load(self, state: Mapping[str, Any]) -> None:
        """Record a state and put it into the live instance with its own `load_state`."""
        encoded = encode_bounded(self._log.codec, dict(state), where="state", stream=self.stream)
        incarnation = await self.live()
        delivery, _ = incarnation.load(encoded)
        await self._answer(incarnation, delivery, None)


def recorded_completion(codec: Codec, event: RecordedEvent) -> Completion:
    """How a handler run ended, from its DeliveryCompleted."""
    where = f"stream {event.stream!r}, version {event.version}"
    outcome = event.outcome or Outcome.REPLIED
    if outcome is Outcome.REPLIED:
        return Completion(outcome, codec.decode(event.payload or b"", where=where), None, DONE)
    error = decode_failure(codec, event.message_type or "", event.payload or b"", where=where)
    return Completion(outcome, None, error, DONE)


@lru_cache(maxsize=1024)
def shell_class(agent_class: type | None) -> type[JournaledAgent]:
    """A shell class of its own for each agent class: AutoGen compares the classes of registered instances."""
    if agent_class is None:
        return JournaledAgent
    return type(agent_class.__name__, (JournaledAgent,), {"__module__": JournaledAgent.__module__})


def _tell_of_failure(stream: str, version: int, done: asyncio.Future[Completion]) -> None:
    """A handler that went on after a recovery has failed: who sent its message may be gone."""
    if done.cancelled() or done.exception() is not None:
        return  # the instance has ended: the handler goes on with the next
    if done.result().outcome is Outcome.RAISED:
        error = done.result().error
        logger.warning("%s: the handler run that began at version %d went on, and raised: %r", stream, version, error)
