"""AutoGen's distributed worker, with every agent recorded, recovered and restorable, on whatever worker it is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import grpc
from autogen_core import (
    JSON_DATA_CONTENT_TYPE,
    Agent,
    AgentId,
    AgentInstantiationContext,
    AgentMetadata,
    AgentType,
    CancellationToken,
    InterventionHandler,
    MessageSerializer,
    Subscription,
    TopicId,
)
from autogen_ext.runtimes.grpc import GrpcWorkerAgentRuntime
from autogen_ext.runtimes.grpc.protos import agent_worker_pb2 as pb
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.protobuf.wrappers_pb2 import StringValue
from opentelemetry.trace import TracerProvider

from autogen_eventlog.checking.history import History
from autogen_eventlog.checking.report import CheckMode, CheckReport, OnProgress
from autogen_eventlog.distributed.connection import ChannelOptions, HostConnection
from autogen_eventlog.distributed.control import ControlChannel, unpacked
from autogen_eventlog.distributed.handover import Handover
from autogen_eventlog.distributed.health import WorkerHealth
from autogen_eventlog.distributed.orphans import Orphans
from autogen_eventlog.distributed.receiving import CANCEL, Receiving
from autogen_eventlog.distributed.registrations import Registrations
from autogen_eventlog.distributed.remote import RemoteStates
from autogen_eventlog.distributed.screening import Screening
from autogen_eventlog.distributed.traffic import Traffic
from autogen_eventlog.distributed.wire import Wire
from autogen_eventlog.errors import RecordingIncomplete
from autogen_eventlog.ids import agent_id
from autogen_eventlog.runtime.agents import RecordedAgents
from autogen_eventlog.runtime.answers import reply_to
from autogen_eventlog.runtime.dropped import record_dropped
from autogen_eventlog.runtime.handler import split_handlers, warn_unrecorded
from autogen_eventlog.runtime.interventions import InterventionChain
from autogen_eventlog.runtime.reports import RestoreReport, SnapshotReport
from autogen_eventlog.runtime.shell import JournaledAgent
from autogen_eventlog.runtime.tracing import QuietTracing

T = TypeVar("T", bound=Agent)

logger = logging.getLogger(__name__)


class EventSourcedGrpcWorkerAgentRuntime(GrpcWorkerAgentRuntime):
    """`GrpcWorkerAgentRuntime`, whose agents survive their worker, against AutoGen's own host.

    With an `EventLogHandler` among its intervention handlers, every agent is recorded, comes up as it was before its first
    delivery on whatever worker has its type, and can be saved, loaded, restored and described from any other worker of the
    same log. Without one it is AutoGen's worker.

    Args:
        host_address, tracer_provider, extra_grpc_config, payload_serialization_format: As for AutoGen's worker.
        intervention_handlers: An `EventLogHandler`, and any others. The others see what this worker's agents send and
            publish before it leaves, the answers to it, and what comes from workers of AutoGen's own.
        channel_credentials: For TLS to the host. Default: none, as AutoGen's worker.
        connect_timeout: Seconds within which the host must be reached at start.
        patience: Seconds without a sign of life after which a call is answered with `Undeliverable`, a publication is given
            up for those it did not reach, and a question about another worker's agent fails. A handler that runs is a
            sign of life, however long it runs, except on a worker of AutoGen's own. `math.inf`: nothing is given up.
        registration_patience: Seconds for which the host may refuse a type that a worker that is gone still holds there.
        continue_left_handlers: Whether handlers that a worker which is gone left unfinished go on as soon as their agents'
            type is registered. Else they go on with the next message for their agent; `log.audit.in_flight()` lists them.
        stop_timeout: Seconds that `stop` waits, after the last handler, for what was published to arrive.

    Raises:
        ValueError: More than one `EventLogHandler`, other handlers without one, or an unknown serialization format.
    """

    def __init__(
        self,
        host_address: str,
        tracer_provider: TracerProvider | None = None,
        extra_grpc_config: ChannelOptions | None = None,
        payload_serialization_format: str = JSON_DATA_CONTENT_TYPE,
        *,
        intervention_handlers: list[InterventionHandler] | None = None,
        channel_credentials: grpc.ChannelCredentials | None = None,
        connect_timeout: float = 30.0,
        patience: float = 30.0,
        registration_patience: float = 5.0,
        continue_left_handlers: bool = True,
        stop_timeout: float = 10.0,
    ) -> None:
        super().__init__(host_address, tracer_provider, extra_grpc_config, payload_serialization_format)
        self._handler, others = split_handlers(intervention_handlers or [])
        if self._handler is None:
            if others:
                raise ValueError("AutoGen's worker has no intervention handlers: put an EventLogHandler among them")
            return
        self._credentials = channel_credentials
        self._connect_timeout = connect_timeout
        self._registration_patience = registration_patience
        self._stop_timeout = stop_timeout
        self._continue_left_handlers = continue_left_handlers
        self._connection: HostConnection | None = None
        self._registrations: Registrations | None = None
        self._control = ControlChannel(self._answer)
        self._wire = Wire(self._handler.log.codec, self._serialization_registry)
        chain = InterventionChain(others, partial(record_dropped, self._handler), lambda: None) if others else None
        ways: dict[str, Any] = {
            "connection": self._connected,
            "control": self._control,
            "wire": self._wire,
            "screening": Screening(chain, self._handler.log.codec),
            "patience": patience,
            "trace": QuietTracing(self._trace_helper, tracer_provider),
        }
        self._traffic = Traffic(registrations=self._registered, content_type=payload_serialization_format, **ways)
        self._agents = RecordedAgents(self._handler, self, self._traffic)
        self._receiving = Receiving(self._agents, subscriptions=self._subscription_manager, **ways)
        self._traffic.attach(self._agents, self._receiving)
        self._orphans = Orphans(self._agents, self._traffic)
        self._states = RemoteStates(self._agents, self._control, self._wire, self._traffic.abandon, patience=patience)
        self._handler.attached_to(self)

    # -- life -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect to the host.

        Raises:
            ValueError: It runs already.
            HostUnavailable: The host was not reached within `connect_timeout`.
            DatabaseUnavailable: The database did not answer within its bound.
        """
        if self._handler is None:
            warn_unrecorded()
            await super().start()
            return
        if self._running:
            raise ValueError("Runtime is already running.")
        await self._handler.log.start_writing()  # here, and not in a task that `stop` may cancel half way
        self._connection = HostConnection(
            self._host_address,
            options=self._extra_grpc_config,
            credentials=self._credentials,
            on_message=self._traffic.received,
            on_control=self._control.received,
            on_open=self._opened,
            on_lost=self._traffic.outstanding.look_now,
        )
        self._registrations = Registrations(
            self._connection,
            self._subscription_manager,
            self._handler.log.subscriptions,
            let_go=Handover(self._agents).let_go,
            patience=self._registration_patience,
        )
        self._control.attach(self._connection)
        try:
            await self._connection.open(self._connect_timeout)
        except BaseException:
            self._connection = self._registrations = None
            raise
        self._registrations.start()
        self._traffic.start()
        self._orphans.start()
        self._running = True

    async def stop(self) -> None:
        """Stop taking messages, once running handlers have ended and what was published has arrived.

        What did not arrive within `stop_timeout` is in the log (`log.audit.undelivered`) and named in a warning. Agents are
        given back, so that another worker may have them at once.

        Raises:
            RuntimeError: It does not run.
        """
        if self._handler is None:
            await super().stop()
            return
        if not self._running:
            raise RuntimeError("Runtime is not running.")
        await self._orphans.stop()
        await self._handlers_ended()
        await self._agents.snapshots.at_stop(self._agents.shells.values())
        left = await self._traffic.stop(self._stop_timeout)
        self._running = False
        for sent in left:
            logger.warning("message %s had not arrived when the worker stopped", sent.origin.cause)
        connection, self._connection = self._connected(), None
        await self._registered().close()
        await self._states.party.close()
        await self._control.close()
        await connection.settled(self._stop_timeout)
        await connection.close()
        self._registrations = None
        for shell in list(self._agents.shells.values()):
            await shell.give_up()
        await self._handler.log.writer.flush()

    async def _handlers_ended(self) -> None:
        """Those too that went on after a recovery and that nobody here waits for."""
        shells = self._agents.shells
        while running := [done for shell in shells.values() for done in shell.running if not done.done()]:
            await asyncio.wait(running)

    async def snapshot(self, agent: AgentId | str, *, timeout: float | None = None) -> SnapshotReport:
        """`EventSourcedAgentRuntime.snapshot`, of an agent that this worker has or may take.

        Raises:
            StreamOwned: Another worker has it.
            What `EventSourcedAgentRuntime.snapshot` raises.
        """
        self._check_recording("snapshot")
        assert self._handler is not None
        bound = self._handler.restore_timeout if timeout is None else timeout
        return await self._agents.snapshot(agent_id(agent), bound)

    async def reply_to(self, message_id: str, recipient: AgentId) -> Any:
        """`EventSourcedAgentRuntime.reply_to`: the agent may be on any worker, or on none at the moment."""
        self._check_recording("reply_to")
        assert self._handler is not None
        return await reply_to(self._handler.log, message_id, recipient)

    async def brought_up(self) -> None:
        """Return once the agents of the registered types that were left in the middle of a handler are up again.

        One that can't be is named in a warning.

        Raises:
            RecordingIncomplete: There is no `EventLogHandler`.
        """
        self._check_recording("brought_up")
        await self._orphans.brought_up()

    def health(self) -> WorkerHealth:
        """How this worker is now.

        Raises:
            RecordingIncomplete: There is no `EventLogHandler`.
        """
        self._check_recording("health")
        assert self._handler is not None
        log, registrations, shells = self._handler.log, self._registrations, self._agents.shells.values()
        types = frozenset[str]() if registrations is None else frozenset(registrations.types)
        elsewhere = frozenset[str]() if registrations is None else registrations.elsewhere
        rebuilt = {shell.stream for shell in shells if shell.recovering}
        return WorkerHealth(
            worker=log.ownership.worker_id,
            host=self._host_address,
            connected=self._connection is not None and self._connection.is_up,
            database=log.ownership.is_alive,
            agent_types=tuple(sorted(types - elsewhere)),
            elsewhere=tuple(sorted(elsewhere)),
            agents=sum(shell.incarnation is not None for shell in shells),
            running=sum(len(shell.running) for shell in shells),
            recovering=len(rebuilt | self._orphans.coming_up),
            outstanding=self._traffic.outstanding.number,
            pending_events=log.statistics().pending_events,
        )

    async def _opened(self) -> None:
        """The host knows nothing of this worker yet, or any more."""
        await self._registered().again()
        self._traffic.outstanding.look_now()

    def _connected(self) -> HostConnection:
        if self._connection is None:
            raise RuntimeError("Host connection is not set.")
        return self._connection

    def _registered(self) -> Registrations:
        if self._registrations is None:
            raise RuntimeError("Host connection is not set.")
        return self._registrations

    async def _answer(self, request: AnyMessage, respond_to: str) -> Message | None:
        """What came by the control channel."""
        redelivered, response = unpacked(request, pb.RpcRequest), unpacked(request, pb.RpcResponse)
        if redelivered is not None:
            return self._receiving.redelivered(redelivered, respond_to)
        if response is not None:
            self._traffic.answered(response)
            return None
        said = unpacked(request, StringValue)
        if said is not None and said.value.startswith(CANCEL):
            return await self._receiving.given_up(said.value)
        return await self._states.answer(request, self._connected().check)

    # -- agents ---------------------------------------------------------------------------------------------------

    async def register_factory(
        self,
        type: str | AgentType,
        agent_factory: Callable[[], T | Awaitable[T]],
        *,
        expected_class: type[T] | None = None,
    ) -> AgentType:
        """As AutoGen's; nothing is registered here unless the host accepts it.

        Raises:
            ValueError: The type is registered here already.
            AgentTypeTaken: Another worker has it, and did not lose it within `registration_patience`.
        """
        if self._handler is None:
            return await super().register_factory(type, agent_factory, expected_class=expected_class)
        agent_type = AgentType(type) if isinstance(type, str) else type
        if agent_type.type in self._agent_factories:
            raise ValueError(f"Agent with type {agent_type} already exists.")
        blueprint = self._agents.blueprint(agent_factory, expected_class)

        def shell() -> Agent:
            return self._agents.shell(AgentInstantiationContext.current_agent_id(), blueprint)

        self._agents.blueprints[agent_type.type] = blueprint  # before the host sends the first message for it
        try:
            await self._registered().add_type(agent_type.type)
        except BaseException:
            del self._agents.blueprints[agent_type.type]
            raise
        self._agent_factories[agent_type.type] = shell
        if self._continue_left_handlers:
            self._orphans.bring_up(agent_type.type)
        return agent_type

    async def register_agent_instance(self, agent_instance: Agent, agent_id: AgentId) -> AgentId:
        """As AutoGen's.

        Raises:
            ValueError: The agent, or a factory for its type, is registered already, or another class of agent is.
            AgentTypeTaken: Another worker has its type.
        """
        if self._handler is None:
            return await super().register_agent_instance(agent_instance, agent_id)
        if agent_id in self._agents.shells:
            raise ValueError(f"Agent with id {agent_id} already exists.")
        known = self._agent_instance_types.get(agent_id.type)
        if known is None and agent_id.type in self._agent_factories:
            raise ValueError("Agent factories and agent instances cannot be registered to the same type.")
        if known not in (None, agent_instance.__class__):
            raise ValueError("Agent instances must be the same object type.")
        shell, blueprint = self._agents.shell_of(agent_instance, agent_id)
        await self._agents.adopt(agent_instance, shell, blueprint)
        if known is None:
            try:
                await self._registered().add_type(agent_id.type)
            except BaseException:
                del self._agents.shells[agent_id]
                raise
            self._agent_instance_types[agent_id.type] = agent_instance.__class__
            self._agent_factories[agent_id.type] = _not_registered
        return agent_id

    async def try_get_underlying_agent_instance(self, id: AgentId, type: type[T] = Agent) -> T:  # type: ignore[assignment]
        if self._handler is None:
            return await super().try_get_underlying_agent_instance(id, type)
        instance = await self._agents.shell_for(id).instance()
        if not isinstance(instance, type):
            raise TypeError(
                f"Agent with name {id.type} is not of type {type.__name__}. It is of type {instance.__class__.__name__}"
            )
        return instance

    async def _get_agent(self, agent_id: AgentId) -> Agent:
        if self._handler is None:
            return await super()._get_agent(agent_id)
        shell = self._agents.shell_for(agent_id)
        await shell.live()
        return shell  # type: ignore[return-value]

    def add_message_serializer(self, serializer: MessageSerializer[Any] | list[MessageSerializer[Any]]) -> None:  # type: ignore[override]
        super().add_message_serializer(serializer)
        if self._handler is not None:
            for one in serializer if isinstance(serializer, (list, tuple)) else [serializer]:
                message_type = getattr(one, "cls", None)
                if isinstance(message_type, type):
                    self._handler.allow(message_type)

    async def add_subscription(self, subscription: Subscription) -> None:
        if self._handler is None:
            await super().add_subscription(subscription)
        else:
            await self._registered().add(subscription)

    async def remove_subscription(self, id: str) -> None:
        if self._handler is None:
            await super().remove_subscription(id)
        else:
            await self._registered().remove(id)

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
        """As AutoGen's; the message is in the log before it leaves, and there is an answer, or an error, in bounded time.

        Raises:
            Undeliverable: There was no sign of life of the recipient for `patience` seconds.
            MessageTooLarge: It is larger than the connection takes.
            NotEncodable, EventTooLarge: It can't be recorded exactly; it went nowhere.
            MessageDroppedException: An intervention handler dropped it, or the answer.
            Whatever the recipient raised.
        """
        if self._handler is None:
            return await super().send_message(
                message, recipient, sender=sender, cancellation_token=cancellation_token, message_id=message_id
            )
        if not self._running:
            raise ValueError("Runtime must be running when sending message.")
        return await self._traffic.send(
            message, recipient, sender=sender, token=cancellation_token or CancellationToken(), message_id=message_id
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
        """As AutoGen's; the message is in the log before this returns, and is sent again to whom it did not reach.

        Raises:
            MessageTooLarge: It is larger than the connection takes.
            NotEncodable, EventTooLarge: It can't be recorded exactly; it went nowhere.
        """
        if self._handler is None:
            await super().publish_message(
                message, topic_id, sender=sender, cancellation_token=cancellation_token, message_id=message_id
            )
            return
        if not self._running:
            raise ValueError("Runtime must be running when publishing message.")
        await self._traffic.send_publication(message, topic_id, sender=sender, message_id=message_id)

    # -- state ----------------------------------------------------------------------------------------------------

    async def agent_metadata(self, agent: AgentId) -> AgentMetadata:
        """Of an agent on any worker.

        Raises:
            UnknownAgent: No worker has its type, and the log does not know it.
            WorkerUnreachable: Its worker lives and does not answer, or died meanwhile.
        """
        if self._handler is None:
            return await super().agent_metadata(agent)
        return await self._states.metadata(agent)

    async def agent_save_state(self, agent: AgentId) -> Mapping[str, Any]:
        """A small, JSON-clean mapping that names the agent's stream and version, of an agent on any worker or on none.

        Raises:
            UnknownAgent: No worker has its type, and the log does not know it.
            WorkerUnreachable: Its worker lives and does not answer, or died meanwhile.
        """
        if self._handler is None:
            return await super().agent_save_state(agent)
        return await self._states.save(agent)

    async def agent_load_state(self, agent: AgentId, state: Mapping[str, Any]) -> None:
        """Load a saved state of this agent or of another, or a plain AutoGen state, into an agent on any worker.

        An agent that no worker has takes a state of its own past only: it is found so by the worker that takes it up.

        Raises:
            InvalidState: The mapping is no state that can be loaded; nothing has changed.
            UnknownAgent: No worker has its type, and the log does not know it.
            WorkerUnreachable: There is no worker that could load it, or it does not answer.
            What `restore` raises.
        """
        if self._handler is None:
            await super().agent_load_state(agent, state)
        else:
            await self._states.load(agent, state)

    async def save_state(self) -> Mapping[str, Any]:
        """The saved states of all agents that the log knows, by id, on whatever worker they are."""
        if self._handler is None:
            return await super().save_state()
        return await self._states.save_all()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Load what `save_state` gave, on this or another runtime.

        Raises:
            InvalidState: One of them is no state; nothing has changed.
            What `agent_load_state` raises, for the first that can't be loaded; those before it are.
        """
        if self._handler is None:
            await super().load_state(state)
        else:
            await self._states.load_all(state)

    async def restore(
        self,
        agent: AgentId | str,
        *,
        at: datetime | None = None,
        version: int | None = None,
        position: int | None = None,
        timeout: float | None = None,
    ) -> RestoreReport:
        """`EventSourcedAgentRuntime.restore`, of an agent on any worker, or on none.

        Raises:
            RecordingIncomplete: There is no `EventLogHandler`.
            WorkerUnreachable: Its worker lives and does not answer, or died meanwhile.
            What `EventSourcedAgentRuntime.restore` raises.
        """
        self._check_recording("restore")
        return await self._states.restore(agent_id(agent), at=at, version=version, position=position, timeout=timeout)

    async def restore_all(
        self, *, at: datetime | None = None, position: int | None = None, timeout: float | None = None
    ) -> list[RestoreReport]:
        """Bring all agents that the log knows, on all workers and on none, back to one point: a consistent cut (G7).

        No message is then received that was not sent. Every agent that a worker has is first brought to the point in a
        view; nothing has changed if one of them can't be. Those that no worker has are found at the point by the worker that
        takes them up.

        Raises:
            RecordingIncomplete: There is no `EventLogHandler`.
            AgentBusy: Running deliveries, on any worker, did not all end within `timeout` seconds.
            WorkerUnreachable: A worker did not answer in the middle of it. Agents of others may have been brought back; the
                log says which (StreamRestored), and asking again brings back all.
            What `EventSourcedAgentRuntime.restore_all` raises.
        """
        self._check_recording("restore_all")
        return await self._states.restore_all(at=at, position=position, timeout=timeout)

    async def check(
        self,
        agents: Iterable[AgentId | str | History] | None = None,
        *,
        mode: CheckMode = "report",
        from_snapshot: bool = False,
        on_progress: OnProgress | None = None,
    ) -> CheckReport:
        """`EventSourcedAgentRuntime.check`, with the code of the types that are registered on this worker.

        Raises:
            What `EventSourcedAgentRuntime.check` raises.
        """
        self._check_recording("check")
        return await self._agents.check(agents, mode=mode, from_snapshot=from_snapshot, on_progress=on_progress)

    async def view(
        self,
        agent: AgentId | str,
        *,
        at: datetime | None = None,
        version: int | None = None,
        position: int | None = None,
        type: type[T] = Agent,  # type: ignore[assignment]
        factory: Callable[[], T | Awaitable[T]] | None = None,
    ) -> T:
        """`EventSourcedAgentRuntime.view`, of an agent on any worker, or on none.

        Args:
            factory: Makes a fresh instance, where the agent's type is not registered on this worker. An instance can't
                travel; its past can be replayed anywhere.

        Raises:
            UnknownAgent: The type is not registered here, and there is no `factory`.
            What `EventSourcedAgentRuntime.view` raises.
        """
        self._check_recording("view")
        agent, where = agent_id(agent), {"at": at, "version": version, "position": position}
        if factory is not None and not self._states.is_here(agent):
            shell = JournaledAgent(agent, self._agents.blueprint(factory, None), self._agents.around)
            instance: Any = await self._agents.travel.view_of(shell, **where)  # type: ignore[arg-type]
        else:
            instance = await self._agents.travel.view(agent, **where)  # type: ignore[arg-type]
        if not isinstance(instance, type):
            raise TypeError(f"agent {agent} is a {instance.__class__.__qualname__}, not a {type.__qualname__}")
        return instance

    def _check_recording(self, operation: str) -> None:
        if self._handler is None:
            raise RecordingIncomplete(
                operation,
                "a worker without an EventLogHandler",
                "nothing is recorded. Put an EventLogHandler among its handlers",
            )


def _not_registered() -> Agent:
    raise RuntimeError(
        "This agent type was registered by instances, and there is none of this id. A subscription may name the type: "
        "instances are registered with skip_class_subscriptions where they are not for a topic"
    )
