"""The state of agents wherever they are: here, on another worker (by the control channel), or on none (from the log)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from autogen_core import AgentId, AgentMetadata
from autogen_ext.runtimes.grpc.protos import agent_worker_pb2 as pb
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.protobuf.wrappers_pb2 import StringValue

from autogen_eventlog.distributed.control import ControlChannel, to_agent, unpacked
from autogen_eventlog.distributed.cut import CutLeader, CutParty
from autogen_eventlog.distributed.wire import EXACT, TYPE, Wire
from autogen_eventlog.errors import InvalidState, UnknownAgent, WorkerUnreachable
from autogen_eventlog.events import EventData, EventType
from autogen_eventlog.ids import EventIds
from autogen_eventlog.points import Point, point
from autogen_eventlog.runtime.agents import RecordedAgents
from autogen_eventlog.runtime.appender import StreamAppender
from autogen_eventlog.runtime.reports import RestoreReport
from autogen_eventlog.runtime.saved_state import SavedState, parse

_NOBODY_SECONDS = 3.0
"""How long an agent that no living worker has is asked for: a worker may have its type and not the agent yet."""
_LOOK_SECONDS = 1.0
_LONG = 10
"""Times the patience: how long a worker that lives may take. Bringing an agent to a past point is replaying that past."""
_MANY_AT_ONCE = 16


class RemoteStates:
    """Save, load, restore and describe agents on any worker.

    Args:
        on_put: Told of agents that are about to be brought back to a cut.
        patience: Seconds to wait for a worker that lives.
    """

    def __init__(
        self,
        agents: RecordedAgents,
        control: ControlChannel,
        wire: Wire,
        on_put: Callable[[int, list[AgentId]], None],
        *,
        patience: float,
    ) -> None:
        self._agents = agents
        self._log = agents.log
        self._control = control
        self._wire = wire
        self._patience = patience
        self._long = _LONG * patience
        self._nobody = min(_NOBODY_SECONDS, patience)
        self._ids = EventIds()
        self._log.register_types(RestoreReport)
        self.party = CutParty(agents, on_put)

    def is_here(self, agent: AgentId) -> bool:
        """Whether this worker has the agent's type."""
        return agent in self._agents.shells or agent.type in self._agents.blueprints

    # -- asking ---------------------------------------------------------------------------------------------------

    async def save(self, agent: AgentId) -> Mapping[str, Any]:
        if self.is_here(agent):
            return await self._agents.travel.save(agent)
        answer = await self._ask(agent, pb.SaveStateRequest(agentId=_agent(agent)), self._patience)
        found = unpacked(answer, pb.SaveStateResponse)
        if found is None:
            return SavedState(str(agent), await self._recorded(agent), None).as_mapping()
        self._raise(found.error)
        return json.loads(found.state)

    async def load(self, agent: AgentId, state: Mapping[str, Any]) -> None:
        if self.is_here(agent):
            await self._agents.travel.load(agent, state)
            return
        request = pb.LoadStateRequest(agentId=_agent(agent), state=_json(agent, state))
        found = unpacked(await self._ask(agent, request, self._long), pb.LoadStateResponse)
        if found is None:
            await self._load_into_log(agent, state)
        else:
            self._raise(found.error)

    async def metadata(self, agent: AgentId) -> AgentMetadata:
        if self.is_here(agent):
            return await self._agents.shell_for(agent).description()
        found = await self._asked(agent, "metadata", {})
        if found is None:
            await self._recorded(agent)
            return AgentMetadata(type=agent.type, key=agent.key, description="")
        return AgentMetadata(**found)

    async def restore(
        self,
        agent: AgentId,
        *,
        at: datetime | None,
        version: int | None,
        position: int | None,
        timeout: float | None,
    ) -> RestoreReport:
        if self.is_here(agent):
            return await self._agents.travel.restore(agent, at=at, version=version, position=position, timeout=timeout)
        where = point(at=at, version=version, position=position)
        found = await self._log.resolve(str(agent), where)
        asked = await self._asked(agent, "restore", {"version": found, "timeout": timeout})
        if asked is None:
            return await self._restore_in_log(agent, found, where)
        report: Any = self._log.codec.decode(asked.encode())
        return replace(report, point=str(where))

    async def restore_all(
        self, *, at: datetime | None, position: int | None, timeout: float | None
    ) -> list[RestoreReport]:
        async def known() -> list[AgentId]:
            return [agent async for agent in self._known()]

        leader = CutLeader(self._log, self._agents, self._ask_type, self._put_in_log)
        patience = self._agents.handler.restore_timeout if timeout is None else timeout
        return await leader.restore_all(known, at=at, position=position, timeout=patience)

    async def _ask_type(self, agent_type: str, said: dict[str, Any]) -> Any:
        """A step of a cut, done by the worker that has the type; None: none has."""
        some = AgentId(agent_type, "any")
        if agent_type in self._agents.blueprints or any(one.type == agent_type for one in self._agents.shells):
            return await self.party.step(said)
        if said["step"] == "check" and not await self._is_there(some):
            return None
        request = StringValue(value=json.dumps({**said, "agent": str(some)}))
        found = unpacked(await self._control.ask(to_agent(some), request, timeout=self._long), StringValue)
        if found is None:
            raise WorkerUnreachable(
                str(some), self._patience, "its worker did not take part in a restore of all agents"
            )
        answer = json.loads(found.value)
        self._raise(answer.get("error", ""))
        return answer["answer"]

    async def _put_in_log(self, agent: AgentId, version: int, cut: int, whole: str) -> RestoreReport:
        note = {"to_version": version, "point": f"position {cut}", "whole": whole}
        return await self._note_restored(agent, version, note)

    async def save_all(self) -> Mapping[str, Any]:
        """The saved states of all agents that the log knows."""
        some = asyncio.Semaphore(_MANY_AT_ONCE)
        nobody: set[str] = set()

        async def one(agent: AgentId) -> Mapping[str, Any]:
            async with some:
                if agent.type in nobody:
                    return SavedState(str(agent), await self._recorded(agent), None).as_mapping()
                saved = await self.save(agent)
                if saved.get("state") is None and not self.is_here(agent) and not await self._owner_lives(agent):
                    nobody.add(agent.type)
                return saved

        agents = [agent async for agent in self._known()]
        return dict(zip(map(str, agents), await asyncio.gather(*map(one, agents)), strict=True))

    async def load_all(self, state: Mapping[str, Any]) -> None:
        for text, one in state.items():
            if not isinstance(one, Mapping):
                problem = f"its state is a {type(one).__name__}, not a mapping"
                raise InvalidState(text, problem, "Give what save_state gave")
            parse(text, one)  # type: ignore[arg-type]
        for text, one in state.items():
            await self.load(AgentId.from_str(text), one)

    async def _known(self) -> AsyncIterator[AgentId]:
        after: str | None = None
        while heads := await self._log.agents(after=after):
            after = heads[-1].stream
            for head in heads:
                if head.version > 0 and not head.stream.startswith("$"):
                    yield AgentId.from_str(head.stream)

    async def _asked(self, agent: AgentId, op: str, arguments: dict[str, Any]) -> Any:
        request = StringValue(value=json.dumps({"op": op, "agent": str(agent), **arguments}))
        found = unpacked(
            await self._ask(agent, request, self._long if op == "restore" else self._patience), StringValue
        )
        if found is None:
            return None
        said = json.loads(found.value)
        self._raise(said.get("error", ""))
        return said["answer"]

    async def _ask(self, agent: AgentId, request: Message, within: float) -> AnyMessage | None:
        """The answer of the worker that has the agent or its type; None: no worker does.

        Raises:
            WorkerUnreachable: A worker lives that has the agent, and does not answer, or died meanwhile.
        """
        asking = asyncio.ensure_future(self._control.ask(to_agent(agent), request, timeout=within))
        loop = asyncio.get_running_loop()
        began, lived, pause = loop.time(), False, 0.0
        try:
            while not asking.done():
                await asyncio.wait([asking], timeout=pause)
                if asking.done():
                    break
                pause = _LOOK_SECONDS
                lives = await self._owner_lives(agent)
                if lived and not lives:
                    raise WorkerUnreachable(str(agent), loop.time() - began, "its worker died meanwhile")
                lived = lived or lives
                taken = loop.time() - began
                if not lived and taken > self._nobody:
                    return None
                if lived and taken > self._patience and not await self._is_there(agent):
                    raise WorkerUnreachable(str(agent), taken, "its worker lives and does not answer")
            answer = asking.result()
        finally:
            asking.cancel()
        if answer is None and (lived or await self._owner_lives(agent)):
            raise WorkerUnreachable(str(agent), loop.time() - began, "its worker lives and does not answer")
        return answer

    async def _is_there(self, agent: AgentId) -> bool:
        """Whether a worker that has the agent's type answers at all."""
        there = StringValue(value=json.dumps({"op": "there", "agent": str(agent)}))
        return await self._control.ask(to_agent(agent), there, timeout=self._nobody) is not None

    async def _owner_lives(self, agent: AgentId) -> bool:
        head = await self._log.head(str(agent))
        if head is None or head.owner is None:
            return False
        return any(worker.alive for worker in await self._log.workers() if worker.id == head.owner)

    async def _recorded(self, agent: AgentId) -> int:
        """The agent's version in the log.

        Raises:
            UnknownAgent: No worker has its type, and the log does not know it.
        """
        head = await self._log.head(str(agent))
        if head is None or head.version == 0:
            raise UnknownAgent(str(agent), agent.type)
        return head.version

    def _raise(self, error: str) -> None:
        if not error:
            return
        try:
            said = json.loads(error)
            text, marks = said["text"], {TYPE: said["type"], EXACT: said["exact"]}
        except (ValueError, KeyError, TypeError):  # somebody else's worker, in plain words
            raise WorkerUnreachable("", 0.0, error) from None
        raise self._wire.unpack_error(text, marks)

    # -- without a worker -----------------------------------------------------------------------------------------

    async def _load_into_log(self, agent: AgentId, state: Mapping[str, Any]) -> None:
        saved = parse(str(agent), state)
        recorded = await self._recorded(agent)
        if saved is None or saved.stream != str(agent) or saved.version > recorded:
            problem = "no worker has its type, and only a state of its own past can be loaded without one"
            raise WorkerUnreachable(str(agent), self._patience, problem)
        if saved.version < recorded:
            await self._restore_in_log(agent, saved.version, point(version=saved.version))

    async def _restore_in_log(self, agent: AgentId, version: int, where: Point) -> RestoreReport:
        """Say that the agent goes on from a past version. Whoever brings it up next finds it so."""
        await self._recorded(agent)
        return await self._note_restored(agent, version, {"to_version": version, "point": str(where)})

    async def _note_restored(self, agent: AgentId, version: int, note: dict[str, Any]) -> RestoreReport:
        await self._log.start_writing()
        claim = await self._log.ownership.claim(str(agent))
        appender = StreamAppender(self._log.writer, claim)
        ticket = appender.append(
            EventData(
                id=self._ids.next(),
                type=EventType.STREAM_RESTORED,
                occurred_at=datetime.now(timezone.utc),
                metadata=note,
            )
        )
        done = await ticket
        await self._log.ownership.release(str(agent), claim.epoch)
        return RestoreReport(
            agent=agent,
            point=note["point"],
            version=version,
            recorded_at=done.recorded_at,
            events_replayed=0,
            snapshot_version=None,
            exact=True,
            abandoned_events=claim.version - version,
            continues_from=done.version,
            in_flight=(),
        )

    # -- answering ------------------------------------------------------------------------------------------------

    async def answer(self, request: AnyMessage, check: Any) -> Message | None:
        """What another worker, or anybody who speaks the control channel, asked; None: it was no such question."""
        save, load = unpacked(request, pb.SaveStateRequest), unpacked(request, pb.LoadStateRequest)
        if save is not None:
            return await self._answer_save(save, check)
        if load is not None:
            return await self._answer_load(load)
        asked = unpacked(request, StringValue)
        return None if asked is None else await self._answer_other(json.loads(asked.value))

    async def _answer_save(self, request: pb.SaveStateRequest, check: Any) -> Message:
        agent = AgentId(request.agentId.type, request.agentId.key)
        try:
            answer = pb.SaveStateResponse(state=_json(agent, await self._agents.travel.save(agent)))
            check(answer, f"state of {agent}")
            return answer
        except Exception as error:  # whatever it is, the asker must hear of it
            return pb.SaveStateResponse(error=self._said(error))

    async def _answer_load(self, request: pb.LoadStateRequest) -> Message:
        try:
            agent = AgentId(request.agentId.type, request.agentId.key)
            await self._agents.travel.load(agent, json.loads(request.state))
            return pb.LoadStateResponse()
        except Exception as error:
            return pb.LoadStateResponse(error=self._said(error))

    async def _answer_other(self, said: dict[str, Any]) -> Message:
        try:
            return StringValue(value=json.dumps({"answer": await self._done(said)}))
        except Exception as error:
            return StringValue(value=json.dumps({"error": self._said(error)}))

    async def _done(self, said: dict[str, Any]) -> Any:
        agent = AgentId.from_str(said["agent"])
        match said["op"]:
            case "there":
                return True
            case "metadata":
                return dict(await self._agents.shell_for(agent).description())
            case "restore":
                report = await self._agents.travel.restore(
                    agent, at=None, version=said["version"], position=None, timeout=said["timeout"]
                )
                return self._log.codec.encode(report).data.decode()
            case "cut":
                return await self.party.step(said)
            case unknown:
                raise WorkerUnreachable(
                    str(agent), 0.0, f"its worker knows no request {unknown!r}; it is of another version"
                )

    def _said(self, error: BaseException) -> str:
        text, marks = self._wire.pack_error(error)
        return json.dumps({"text": text, "type": marks[TYPE], "exact": marks[EXACT]})


def _agent(agent: AgentId) -> pb.AgentId:
    return pb.AgentId(type=agent.type, key=agent.key)


def _json(agent: AgentId, state: Mapping[str, Any]) -> str:
    try:
        return json.dumps(state)
    except (TypeError, ValueError) as error:
        raise InvalidState(
            str(agent), f"it can't go to another worker as JSON: {error}", "Make it JSON-clean"
        ) from None
