"""All agents of all workers brought to one instant: a consistent cut (G7).

Whoever asks for it leads; every worker that has agents takes part, by the control channel. First each tries, in views, that its
agents can be brought there. Then all are held at rest at once, or none (a handler that runs may need an agent on another
worker to end); put at the point; and only when all are there, let go. What was still on its way from the abandoned
branches is refused where it arrives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from autogen_core import AgentId

from autogen_eventlog.errors import AgentBusy, WorkerUnreachable
from autogen_eventlog.log import EventLog
from autogen_eventlog.runtime.agents import RecordedAgents
from autogen_eventlog.runtime.reports import RestoreReport
from autogen_eventlog.runtime.timetravel import Target, let_go
from autogen_eventlog.runtime.together import held_at_rest

_ATTEMPT_SECONDS = 1.0
"""How long a worker waits for its agents to be at rest, before all are let go for a moment."""
_HELD_SECONDS = 60.0
"""After this, a worker lets its agents go by itself: who leads is gone."""
_PAUSE_SECONDS = 0.1

Step = dict[str, Any]
Known = Callable[[], Awaitable[list[AgentId]]]
"""All agents that the log knows."""
AskType = Callable[[str, Step], Any]
"""Asks the worker that has an agent type to do a step; its answer, or None if no worker has the type."""


@dataclass(eq=False)
class _Held:
    """Agents of one type, at rest until let go."""

    targets: list[Target]
    go: asyncio.Event
    task: asyncio.Task[None]
    replaced: list[Any]


class CutParty:
    """A worker's part.

    Args:
        on_put: Told the cut and the ids of the agents that are about to be put at it.
    """

    def __init__(self, agents: RecordedAgents, on_put: Callable[[int, list[AgentId]], None]) -> None:
        self._agents = agents
        self._travel = agents.travel
        self._on_put = on_put
        self._held: dict[tuple[str, str], _Held] = {}

    async def step(self, said: Step) -> Any:
        """Do one step of a cut for one agent type."""
        agent_type, cut, token = said["type"], int(said["cut"]), said["token"]
        match said["step"]:
            case "check":
                targets = await self._targets(agent_type, cut)
                await self._travel.check(targets)
                return len(targets)
            case "hold":
                return await self._hold((token, agent_type), cut)
            case "put":
                return await self._put(self._held[token, agent_type], cut, token)
            case _:
                await self._release((token, agent_type))
                return True

    async def close(self) -> None:
        """Let everything go."""
        for key in list(self._held):
            await self._release(key)

    async def _targets(self, agent_type: str, cut: int) -> list[Target]:
        found = await self._travel.targets([agent_type], cut)
        return [target for target in found if target[0].id.type == agent_type]

    async def _hold(self, key: tuple[str, str], cut: int) -> bool:
        targets = await self._targets(key[1], cut)
        at_rest, go = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            async with held_at_rest([shell for shell, _ in targets], _ATTEMPT_SECONDS):
                at_rest.set()
                try:
                    await asyncio.wait_for(go.wait(), _HELD_SECONDS)
                except (asyncio.TimeoutError, TimeoutError):
                    await self._let_go(self._held.pop(key))

        task = asyncio.create_task(hold())
        resting = asyncio.create_task(at_rest.wait())
        await asyncio.wait([task, resting], return_when=asyncio.FIRST_COMPLETED)
        resting.cancel()
        if at_rest.is_set():
            self._held[key] = _Held(targets, go, task, [])
            return True
        if not isinstance(task.exception(), AgentBusy):
            task.result()
        return False

    async def _put(self, held: _Held, cut: int, token: str) -> str:
        self._on_put(cut, [shell.id for shell, _ in held.targets])
        held.replaced = await self._travel.put_together(held.targets, cut, token)
        reports = await self._travel.reports(held.targets, held.replaced, cut)
        return self._agents.log.codec.encode(reports).data.decode()

    async def _release(self, key: tuple[str, str]) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            await self._let_go(held)
            held.go.set()
            await asyncio.wait([held.task])

    async def _let_go(self, held: _Held) -> None:
        let_go(held.replaced)


class CutLeader:
    """Leads one restore of all agents.

    Args:
        ask: Asks the worker of a type.
        put_in_log: Says in the log that an agent of a type that no worker has goes on from a version.
    """

    def __init__(
        self, log: EventLog, agents: RecordedAgents, ask: AskType, put_in_log: Callable[[AgentId, int, int, str], Any]
    ) -> None:
        self._log = log
        self._travel = agents.travel
        self._ask = ask
        self._put_in_log = put_in_log

    async def restore_all(
        self, known: Known, *, at: datetime | None, position: int | None, timeout: float
    ) -> list[RestoreReport]:
        """See `EventSourcedGrpcWorkerAgentRuntime.restore_all`."""
        cut = await self._travel.cut(at=at, position=position)
        token, loop = uuid4().hex, asyncio.get_running_loop()
        ends = loop.time() + timeout
        agents, here = await known(), list[str]()
        reports: list[RestoreReport] = []
        try:
            while True:
                here, nowhere = await self._checked(agents, cut, token)
                await self._hold_all(here, cut, token, timeout)
                before, agents = set(agents), await known()
                if before.issuperset(agents):
                    break
                await self._release_all(here, cut, token)  # the deliveries that were waited for made agents
                if loop.time() > ends:
                    raise AgentBusy(", ".join(map(str, set(agents) - before)), 0, timeout)
            for agent in nowhere:
                version = await self._log.reader.version_at(str(agent), position=cut)
                reports.append(await self._put_in_log(agent, version, cut, token))
            for agent_type in here:
                answer = await self._step("put", agent_type, cut, token)
                if answer is None:
                    raise WorkerUnreachable(agent_type, 0.0, "its worker died in the middle of a restore of all agents")
                found: Any = self._log.codec.decode(answer.encode())
                reports += found
        finally:
            await self._release_all(here, cut, token)
        return sorted(reports, key=lambda report: str(report.agent))

    async def _checked(self, agents: Iterable[AgentId], cut: int, token: str) -> tuple[list[str], list[AgentId]]:
        """The types that workers have, whose agents can be brought to the cut, and the agents of the others."""
        by_type: dict[str, list[AgentId]] = {}
        for agent in agents:
            by_type.setdefault(agent.type, []).append(agent)
        checked = {agent_type: await self._step("check", agent_type, cut, token) for agent_type in by_type}
        nowhere = [agent for agent_type, answer in checked.items() if answer is None for agent in by_type[agent_type]]
        return [agent_type for agent_type, answer in checked.items() if answer is not None], nowhere

    async def _hold_all(self, types: list[str], cut: int, token: str, timeout: float) -> None:
        loop = asyncio.get_running_loop()
        ends = loop.time() + timeout
        while True:
            held = await asyncio.gather(*(self._step("hold", one, cut, token) for one in types), return_exceptions=True)
            if all(answer is True for answer in held):
                return
            await self._release_all(types, cut, token)
            for answer in held:
                if isinstance(answer, BaseException):
                    raise answer
            if loop.time() > ends:
                busy = [one for one, answer in zip(types, held, strict=True) if answer is not True]
                raise AgentBusy(", ".join(busy), len(busy), timeout)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _release_all(self, types: list[str], cut: int, token: str) -> None:
        await asyncio.gather(*(self._step("release", one, cut, token) for one in types), return_exceptions=True)

    async def _step(self, step: str, agent_type: str, cut: int, token: str) -> Any:
        return await self._ask(
            agent_type, {"op": "cut", "step": step, "type": agent_type, "cut": str(cut), "token": token}
        )
