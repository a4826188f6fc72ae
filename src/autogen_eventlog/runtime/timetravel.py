"""View, restore, save and load: agents at points of their past."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

from autogen_core import Agent, AgentId

from autogen_eventlog.codec.names import type_name
from autogen_eventlog.errors import (
    AgentBusy,
    Divergence,
    InvalidPoint,
    InvalidState,
    NoOwnState,
    NotRestorable,
    UnknownAgent,
    UnknownStream,
)
from autogen_eventlog.events import EventType, RecordedEvent
from autogen_eventlog.log import EventLog
from autogen_eventlog.points import Point, point
from autogen_eventlog.runtime import plain_states
from autogen_eventlog.runtime.handler import EventLogHandler
from autogen_eventlog.runtime.reports import RestoreReport
from autogen_eventlog.runtime.saved_state import SavedState, parse
from autogen_eventlog.runtime.shell import JournaledAgent, Replaced
from autogen_eventlog.runtime.together import held_at_rest
from autogen_eventlog.snapshots import has_own_state

logger = logging.getLogger(__name__)

_ATTEMPTS = 10
"""To catch a busy agent between two events, so that its own state and the version belong together."""

ShellFor = Callable[[AgentId], JournaledAgent]
Target = tuple[JournaledAgent, int]
"""An agent, and the version that it is to have."""


class TimeTravel:
    """The past of a runtime's agents."""

    def __init__(self, handler: EventLogHandler, shells: dict[AgentId, JournaledAgent], shell_for: ShellFor) -> None:
        self._handler = handler
        self._log: EventLog = handler.log
        self._shells = shells
        self._shell_for = shell_for

    # -- view and restore -----------------------------------------------------------------------------------------

    async def view(self, agent: AgentId, *, at: datetime | None, version: int | None, position: int | None) -> Agent:
        return await self.view_of(self._shell_for(agent), at=at, version=version, position=position)

    async def view_of(
        self, shell: JournaledAgent, *, at: datetime | None, version: int | None, position: int | None
    ) -> Agent:
        """A view by the blueprint of any shell, of a registered type or not."""
        where = point(at=at, version=version, position=position)
        if where.is_now:
            await shell.durable_version()
        found = await self._log.resolve(shell.stream, where)
        return await self._view(shell, shell.stream, found)

    async def _view(self, shell: JournaledAgent, stream: str, version: int) -> Agent:
        recovered = await shell.recovery.to(version, stream=stream, continues=False)
        assert recovered.incarnation.agent is not None
        return recovered.incarnation.agent

    async def restore(
        self,
        agent: AgentId,
        *,
        at: datetime | None,
        version: int | None,
        position: int | None,
        timeout: float | None,
    ) -> RestoreReport:
        where = point(at=at, version=version, position=position)
        if where.is_now:
            raise InvalidPoint("", "no point was given", "Give one of at, version and position")
        shell = self._shell_for(agent)
        found = await self._log.resolve(shell.stream, where)
        return await self._restore(shell, found, str(where), timeout)

    async def _restore(self, shell: JournaledAgent, version: int, where: str, timeout: float | None) -> RestoreReport:
        note = (EventType.STREAM_RESTORED, {"to_version": version, "point": where})
        replaced = await shell.replace(shell.stream, version, note=note, timeout=self._patience(timeout))
        return await self._report(shell, version, where, replaced)

    async def _report(self, shell: JournaledAgent, version: int, where: str, replaced: Replaced) -> RestoreReport:
        recovered, target = replaced.recovered, await self._event(shell.stream, version)
        return RestoreReport(
            agent=shell.id,
            point=where,
            version=version,
            recorded_at=None if target is None else target.recorded_at,
            events_replayed=recovered.events,
            snapshot_version=None if recovered.snapshot is None else recovered.snapshot.version,
            exact=recovered.exact,
            abandoned_events=replaced.version - 1 - version,
            continues_from=replaced.version,
            in_flight=replaced.in_flight,
        )

    async def _event(self, stream: str, version: int) -> RecordedEvent | None:
        async for event in self._log.reader.read(stream, after_version=version - 1, until_version=version):
            return event
        return None

    async def restore_all(
        self, types: Iterable[str], *, at: datetime | None, position: int | None, timeout: float | None
    ) -> list[RestoreReport]:
        cut, types = await self.cut(at=at, position=position), [*types]
        patience, loop = self._patience(timeout), asyncio.get_running_loop()
        ends = loop.time() + patience
        targets = new = await self.targets(types, cut)
        while True:
            await self.check(new)
            async with held_at_rest([shell for shell, _ in targets], patience):
                known, found = {shell for shell, _ in targets}, await self.targets(types, cut)
                new = [target for target in found if target[0] not in known]
                if not new:
                    replaced = await self.put_together(targets, cut, uuid4().hex)
                    let_go(replaced)
                    break
            if loop.time() > ends:
                raise AgentBusy(new[0][0].stream, 0, patience)
            targets = found  # the deliveries that were waited for made agents that were not there before
        return await self.reports(targets, replaced, cut)

    async def cut(self, *, at: datetime | None, position: int | None) -> int:
        """The position of a point for all streams, moved on to where no earlier restore of all is half done."""
        return await self._log.reader.whole_restored(await self._position(point(at=at, position=position)))

    async def targets(self, types: Iterable[str], cut: int) -> list[Target]:
        """The agents of these types that the log knows, and the version of each at a cut."""
        return [(shell, await self._version_at(shell.stream, cut)) async for shell in self._known(types)]

    async def check(self, targets: Iterable[Target]) -> None:
        """Bring each to its version in a view; nothing changes.

        Raises:
            What `Recovery.to` raises, if one can't be.
        """
        for shell, version in targets:
            await self._view(shell, shell.stream, version)

    async def put_together(self, targets: Sequence[Target], cut: int, whole: str) -> list[Replaced]:
        """All at their versions; nothing leaves any of them before `let_go`. The caller holds all of them at rest.

        Args:
            whole: Names this restore, in the event of each agent that it reaches.
        """
        replaced: list[Replaced] = []
        for shell, _ in targets:
            await shell.own()
        for shell, _ in targets:
            shell.withdraw()
        try:
            for shell, version in targets:
                note = (EventType.STREAM_RESTORED, {"to_version": version, "point": _words(cut), "whole": whole})
                replaced.append(await shell.put(shell.stream, version, note=note, held=True))
        except BaseException:
            let_go(replaced)
            raise
        return replaced

    async def reports(self, targets: Sequence[Target], replaced: Sequence[Replaced], cut: int) -> list[RestoreReport]:
        """What was done with each, once it is durable."""
        for done in replaced:
            await done.recovered.incarnation.durable
        return [
            await self._report(shell, version, _words(cut), done)
            for (shell, version), done in zip(targets, replaced, strict=True)
        ]

    def _patience(self, timeout: float | None) -> float:
        return self._handler.restore_timeout if timeout is None else timeout

    async def _position(self, where: Point) -> int:
        """The position of a cut through all streams."""
        if where.at is not None:
            await where.settle(self._log.reader)
            found = await self._log.reader.position_at(where.at)
            if found == 0:
                raise InvalidPoint(str(where), "the log holds nothing at or before it", "Give a later time")
            return found
        if where.position is None:
            raise InvalidPoint("", "no point was given", "Give one of at and position")
        await where.settle(self._log.reader)
        return where.position

    async def _version_at(self, stream: str, position: int) -> int:
        return await self._log.reader.version_at(stream, position=position)

    async def _known(self, types: Iterable[str]) -> AsyncIterator[JournaledAgent]:
        """The shells of all agents that the log knows and whose type is registered."""
        seen: set[str] = set()
        for shell in list(self._shells.values()):
            await shell.durable_version()  # an agent that was just made may not be in the log yet
        for agent_type in types:
            after: str | None = None
            while heads := await self._log.agents(type=agent_type, after=after):
                after = heads[-1].stream
                for head in heads:
                    if head.version > 0:
                        seen.add(head.stream)
                        yield self._shell_for(AgentId.from_str(head.stream))
        for shell in list(self._shells.values()):
            head = None if shell.stream in seen else await self._log.head(shell.stream)
            if head is not None and head.version > 0:
                yield shell

    # -- save -----------------------------------------------------------------------------------------------------

    async def save(self, agent: AgentId) -> Mapping[str, Any]:
        where = plain_states.wanted_point()
        if where is not None:
            return await self._plain_or_first(agent, where)
        return (await self._saved(self._shell_for(agent))).as_mapping()

    async def plain(self, agent: AgentId, where: Point) -> Mapping[str, Any]:
        """What the agent's own `save_state` says at a point, in AutoGen's form."""
        shell = self._shell_for(agent)
        if where.is_now:
            await shell.durable_version()
        return await self._plain_of(
            shell, await self._view(shell, shell.stream, await self._log.resolve(shell.stream, where))
        )

    async def _plain_or_first(self, agent: AgentId, where: Point) -> Mapping[str, Any]:
        """The same; of an agent that had no past there, what a fresh one says."""
        try:
            return await self.plain(agent, where)
        except UnknownStream:
            shell = self._shell_for(agent)
            return await self._plain_of(shell, await shell.example())

    async def _plain_of(self, shell: JournaledAgent, instance: Agent) -> Mapping[str, Any]:
        if not has_own_state(instance):
            raise NoOwnState(shell.stream, type_name(type(instance)))
        return await instance.save_state()

    async def save_all(self, types: Iterable[str]) -> Mapping[str, Any]:
        return {shell.stream: (await self._saved(shell)).as_mapping() async for shell in self._known(types)}

    async def _saved(self, shell: JournaledAgent) -> SavedState:
        version = await shell.durable_version()
        if version is None:
            recorded = await self._recorded(shell.stream)
            return SavedState(shell.stream, recorded, await self._first_state(shell) if recorded == 0 else None)
        for _ in range(_ATTEMPTS):
            state = await self._own_state(shell)
            before, version = version, await shell.durable_version()
            if version is None or version == before:
                return SavedState(shell.stream, before, state)
        return SavedState(shell.stream, version, None)

    async def _first_state(self, shell: JournaledAgent) -> dict[str, Any] | None:
        """What an agent without a past would say of itself; none is brought to life for it, if that can be."""
        fresh = await shell.example()
        return dict(await fresh.save_state()) if has_own_state(fresh) else None

    async def _own_state(self, shell: JournaledAgent) -> dict[str, Any] | None:
        """What the live instance says of itself, where its class has something to say."""
        incarnation = shell.incarnation
        if incarnation is None or incarnation.agent is None or not has_own_state(incarnation.agent):
            return None
        return dict(await incarnation.agent.save_state())

    # -- load -----------------------------------------------------------------------------------------------------

    async def load(self, agent: AgentId, state: Mapping[str, Any]) -> None:
        shell = self._shell_for(agent)
        saved = parse(shell.stream, state)
        if saved is None:
            await self._look_at(shell, state)
        if plain_states.current_trial() is not None:
            return
        if saved is None:
            await shell.load(state)
        else:
            await self._load_saved(shell, saved)

    async def _look_at(self, shell: JournaledAgent, state: Mapping[str, Any]) -> None:
        """Refuse a state of AutoGen's form that is not for this agent, before anything is changed."""
        incarnation = shell.incarnation
        instance = None if incarnation is None else incarnation.agent
        await plain_states.check(shell.stream, instance or await shell.example(), state)

    async def load_all(self, state: Mapping[str, Any]) -> None:
        shells: list[tuple[AgentId, Mapping[str, Any]]] = []
        for text, one in state.items():
            agent = AgentId.from_str(text)
            self._checked(agent, text, one)
            shells.append((agent, one))
        with plain_states.trial() as tried:
            for agent, one in shells:
                await self.load(agent, one)
        tried.raise_missing()
        for agent, one in shells:
            await self.load(agent, one)

    def _checked(self, agent: AgentId, text: str, state: object) -> None:
        try:
            self._shell_for(agent)
        except UnknownAgent:
            remedy = "Register the type before loading, or leave the agent out of the state"
            raise InvalidState(text, f"no agent type {agent.type!r} is registered here", remedy) from None
        if not isinstance(state, Mapping):
            raise InvalidState(
                text, f"its state is a {type(state).__name__}, not a mapping", "Give what save_state gave"
            )
        parse(text, state)  # type: ignore[arg-type]

    async def _load_saved(self, shell: JournaledAgent, saved: SavedState) -> None:
        recorded = await self._recorded(saved.stream)
        if saved.version > recorded:
            await self._load_carried(shell, saved, f"the log holds {recorded} events of {saved.stream!r}")
        elif saved.stream == shell.stream:
            await self._load_own(shell, saved)
        elif saved.version == 0:
            await self._load_beginning(shell, saved)
        elif saved.state is not None and await shell.shares():
            # Others hold what a fresh instance would replace (AgentChat's participants), and the ids in the other past
            # are not this agent's: what the agent said of itself is put into the instance that lives, as in AutoGen.
            await shell.load(saved.state)
        else:
            await self._fork(shell, saved)

    async def _recorded(self, stream: str) -> int:
        """The version of a stream in the log; 0 if it has no event."""
        head = await self._log.head(stream)
        return 0 if head is None else head.version

    async def _load_own(self, shell: JournaledAgent, saved: SavedState) -> None:
        """Go back to where it was saved, unless nothing has happened to the agent since."""
        running: tuple[int, ...] = ()
        if not await self._is_at(shell, saved.version):
            running = (
                await self._restore(shell, saved.version, f"saved state at version {saved.version}", None)
            ).in_flight
        # What was under way has gone on meanwhile, and may rightly say something else by now.
        if saved.state is not None and not running and await self._says_otherwise(shell, saved.state):
            logger.warning("%s was changed by something else than messages before it was saved", shell.stream)
            await shell.load(saved.state)

    async def _load_beginning(self, shell: JournaledAgent, saved: SavedState) -> None:
        """Load the state of another agent that had no past: what it carries, or a fresh instance."""
        if saved.state is not None:
            await shell.load(saved.state)
        elif not await self._is_at(shell, 0):
            await self._restore(shell, 0, "saved state of an agent without a past", None)

    async def _is_at(self, shell: JournaledAgent, version: int) -> bool:
        """Whether the agent is now as it was at `version`."""
        incarnation = shell.incarnation
        if incarnation is not None:
            await incarnation.durable
            if not incarnation.quiet:
                return False
        async for event in self._log.reader.read(shell.stream, after_version=version):
            if event.type is not EventType.AGENT_ACTIVATED:
                return False
        return True

    async def _says_otherwise(self, shell: JournaledAgent, state: Mapping[str, Any]) -> bool:
        agent = await (shell.instance() if await self._recorded(shell.stream) else shell.example())
        return has_own_state(agent) and _json(await agent.save_state()) != _json(state)

    async def _fork(self, shell: JournaledAgent, saved: SavedState) -> None:
        note = (EventType.STREAM_FORKED, {"from_stream": saved.stream, "from_version": saved.version})
        try:
            await shell.replace(saved.stream, saved.version, note=note, timeout=self._handler.restore_timeout)
        except (Divergence, NotRestorable) as error:
            # The past of another agent may not fit this one (its id is in its messages, say); what it said of itself may.
            if saved.state is None:
                raise
            await self._load_carried(shell, saved, str(error))

    async def _load_carried(self, shell: JournaledAgent, saved: SavedState, problem: str) -> None:
        if saved.state is None:
            remedy = "Open the log in which it was saved, or save it from an agent with its own save_state"
            raise InvalidState(shell.stream, f"{problem}, and it carries no state of its own", remedy)
        await shell.load(saved.state)


def let_go(replaced: Iterable[Replaced]) -> None:
    """Let out what the agents of `TimeTravel.put_together` send as they go on."""
    for done in replaced:
        done.recovered.incarnation.outbox.release()


def _words(cut: int) -> str:
    return f"position {cut}"


def _json(state: Mapping[str, Any]) -> str:
    """A state as it comes out of a file: a tuple and a list are one there."""
    return json.dumps(state, sort_keys=True, default=repr)
