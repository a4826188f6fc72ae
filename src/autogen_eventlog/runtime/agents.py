"""The recorded agents of one runtime: what stands in their places, how they are made, and their past."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from autogen_core import Agent, AgentId, AgentRuntime

from autogen_eventlog.checking.checker import Checker, Target
from autogen_eventlog.checking.determinism import ClassReport, Determinism
from autogen_eventlog.checking.report import CheckMode, CheckReport, OnProgress
from autogen_eventlog.codec import Encoded
from autogen_eventlog.errors import UnknownAgent, UnknownStream
from autogen_eventlog.events import EventData
from autogen_eventlog.ids import EventIds, check_text
from autogen_eventlog.incarnation.incarnation import Incarnation, encode_bounded
from autogen_eventlog.incarnation.parts import World
from autogen_eventlog.recovery import Recovery
from autogen_eventlog.runtime.blueprint import FactoryBlueprint, InstanceBlueprint
from autogen_eventlog.runtime.handler import EventLogHandler
from autogen_eventlog.runtime.identity import Identity, TracedId
from autogen_eventlog.runtime.passage import Passage
from autogen_eventlog.runtime.proving import Proof
from autogen_eventlog.runtime.reports import SnapshotReport
from autogen_eventlog.runtime.shell import JournaledAgent, Surroundings, shell_class
from autogen_eventlog.runtime.snapshot_work import SnapshotWork
from autogen_eventlog.runtime.timetravel import TimeTravel
from autogen_eventlog.snapshots import PROVEN, TAKEN
from autogen_eventlog.snapshots.captured import KIND as CAPTURED


class RecordedAgents:
    """Holds a shell for each agent that this process has met, and the blueprint of each registered type.

    Args:
        runtime: What agents are given as their runtime, behind a façade.
        world: Where what they send goes.
    """

    def __init__(self, handler: EventLogHandler, runtime: AgentRuntime, world: World) -> None:
        self.handler = handler
        self.log = handler.log
        self.snapshots = SnapshotWork(handler.log, handler.snapshots, handler.submissions)
        self.around = Surroundings(
            handler.log, handler, runtime, world, EventIds(), Passage(), Passage(), self.snapshots
        )
        self.shells: dict[AgentId, JournaledAgent] = {}
        self.blueprints: dict[str, FactoryBlueprint] = {}
        self.travel = TimeTravel(handler, self.shells, self.shell_for)
        self._runtime = runtime
        self.log.ownership.leaves_nothing.append(self._all_at_rest)

    def knows(self, agent_id: AgentId) -> bool:
        """Whether the agent can be had here: its type, or the very instance, is registered."""
        return agent_id in self.shells or agent_id.type in self.blueprints

    def _all_at_rest(self) -> bool:
        return not any(shell.running for shell in self.shells.values())

    # -- agents ---------------------------------------------------------------------------------------------------

    def blueprint(
        self, factory: Callable[[], Agent | Awaitable[Agent]], expected_class: type | None
    ) -> FactoryBlueprint:
        """How instances of a type are made. It counts once it is put into `blueprints`."""
        return FactoryBlueprint(factory, expected_class, self.log.types)

    def shell(self, agent_id: AgentId, blueprint: FactoryBlueprint) -> JournaledAgent:
        """One shell, so one instance, per agent id, however often AutoGen asks at once."""
        shell = self.shells.get(agent_id)
        if shell is None:
            shell = shell_class(blueprint.agent_class)(agent_id, blueprint, self.around)
            self.shells[agent_id] = shell
        return shell

    def shell_for(self, agent_id: AgentId) -> JournaledAgent:
        """The shell of an agent of a registered type; makes no instance, and tells AutoGen's runtime nothing.

        Raises:
            UnknownAgent: No such type, or no such instance, is registered. It is a LookupError, as AutoGen's own.
        """
        known = self.shells.get(agent_id)
        if known is not None:
            return known
        if agent_id.type not in self.blueprints:
            raise UnknownAgent(str(agent_id), agent_id.type)
        return self.shell(agent_id, self.blueprints[agent_id.type])

    def recovery_for(self, agent_id: AgentId) -> Recovery:
        """What replays an agent's past into views; leaves no shell behind.

        Raises:
            UnknownAgent: As `shell_for`.
        """
        if agent_id not in self.shells and agent_id.type in self.blueprints:
            return JournaledAgent(agent_id, self.blueprints[agent_id.type], self.around).recovery
        return self.shell_for(agent_id).recovery

    async def check(
        self,
        targets: Iterable[Target] | None,
        *,
        mode: CheckMode,
        from_snapshot: bool,
        on_progress: OnProgress | None,
    ) -> CheckReport:
        """Hold recorded histories against the code at hand; by default those of all agents of the registered types."""
        if targets is None:
            targets = [agent async for agent in self._recorded_ids()]
        checker = Checker(self.log, self.recovery_for, mode=mode, from_snapshot=from_snapshot)
        return await checker.check(targets, on_progress)

    async def determinism(
        self, agents: Iterable[AgentId | str] | None, on_progress: OnProgress | None
    ) -> list[ClassReport]:
        """Judge the classes of agents; by default of all agents of the registered types."""
        if agents is None:
            agents = [agent async for agent in self._recorded_ids()]
        return await Determinism(self.log, self.recovery_for).judge(agents, on_progress)

    async def _recorded_ids(self) -> AsyncIterator[str]:
        for agent_type in sorted(self.blueprints):
            after: str | None = None
            while heads := await self.log.agents(type=agent_type, after=after):
                after = heads[-1].stream
                for head in heads:
                    if head.version > 0:
                        yield head.stream

    async def snapshot(self, agent_id: AgentId, timeout: float) -> SnapshotReport:
        """Take a snapshot of an agent and prove it. Raises what `JournaledAgent.snapshot_now` and `shell_for` raise."""
        return _snapshot_report(agent_id, await self.shell_for(agent_id).snapshot_now(timeout))

    async def snapshot_from_log(self, agent_id: AgentId) -> SnapshotReport:
        """Take a snapshot of an agent by replay, and prove it; nothing live is touched.

        Raises:
            UnknownStream: The log holds no event of the agent.
            What `Prover.make` and `recovery_for` raise.
        """
        head = await self.log.head(agent_id)
        if head is None or head.version == 0:
            raise UnknownStream(str(agent_id), "now")
        return _snapshot_report(agent_id, await self.snapshots.prover.make(self.shell_for(agent_id), head))

    async def verify_snapshots(self, agent_id: AgentId, *, again: bool) -> list[SnapshotReport]:
        """Prove an agent's candidates, oldest first; with `again` the proven ones too.

        Raises:
            DatabaseUnavailable, LogClosed: The log can't be read.
            UnknownAgent: Its type is not registered here.
        """
        shell = self.shell_for(agent_id)
        there = reversed(await self.log.snapshots.list_snapshots(str(agent_id)))
        wanted = [one for one in there if one.kind == CAPTURED and (one.status == TAKEN or again)]
        return [_snapshot_report(agent_id, await self.snapshots.prover.prove(shell, one)) for one in wanted]

    def shell_of(self, instance: Agent, agent_id: AgentId) -> tuple[JournaledAgent, InstanceBlueprint]:
        """A shell for an instance that the user made. It counts once `adopt` has bound the instance."""
        blueprint = InstanceBlueprint(instance, self._runtime, self.log.types)
        return shell_class(type(instance))(agent_id, blueprint, self.around), blueprint

    async def adopt(self, instance: Agent, shell: JournaledAgent, blueprint: InstanceBlueprint) -> None:
        """Bind an instance that the user made, as AutoGen's runtime would."""
        await instance.bind_id_and_runtime(shell.id, blueprint.facade)
        self.shells[shell.id] = shell

    # -- messages -------------------------------------------------------------------------------------------------

    async def accept(self, message: Any, **names: str | None) -> Encoded:
        """A message from outside any agent, ready to be recorded.

        Raises:
            NotEncodable: It, or a name that goes with it, can't be recorded exactly, and goes nowhere.
            EventTooLarge: It is over the bound.
        """
        for field, name in names.items():
            check_text(field, name)
        submissions = self.handler.submissions
        encoded = encode_bounded(self.log.codec, message, where="message", stream=submissions.name)
        if not submissions.is_open:
            await submissions.open()
        if self.log.writer.full:
            await self.log.writer.room()
        return encoded


def _snapshot_report(agent_id: AgentId, proof: Proof) -> SnapshotReport:
    taken = proof.snapshot
    return SnapshotReport(
        agent=agent_id,
        version=taken.version,
        kind=taken.kind,
        bytes=len(taken.payload),
        proven=proof.status == PROVEN,
        differing=proof.differing,
    )


def traced(
    event: EventData,
    recorded: tuple[object, Encoded] | None,
    *,
    again: bool = False,
    sender: Incarnation | None = None,
) -> TracedId:
    """The message id under which a recorded message travels.

    Args:
        recorded: The object that travels, and what was recorded of it, where nothing can change it on the way.
    """
    asked: str | None = event.metadata.get("asked_id")
    identity = Identity(event.id, event.correlation, again, None, recorded, sender)
    return TracedId(asked or event.message_id or str(event.id), identity)
