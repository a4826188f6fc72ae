"""A runtime's work on snapshots, beside the messages: taking them, proving them, and those of agents that pause."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any, Protocol

from autogen_eventlog.log import EventLog
from autogen_eventlog.replay.loop import outside_context
from autogen_eventlog.runtime.proving import Proof, Prover
from autogen_eventlog.runtime.snapshotting import Maker
from autogen_eventlog.runtime.submissions import Submissions
from autogen_eventlog.snapshots import SnapshotPolicy

logger = logging.getLogger(__name__)


class Pausing(Maker, Protocol):
    """An agent that may get a snapshot while nothing happens to it."""

    @property
    def stream(self) -> str: ...

    async def take_snapshot(self) -> None:
        """Take one if anything has happened since the last one."""
        ...


class SnapshotWork:
    """Tasks that no message waits for.

    Args:
        policy: None: there are no snapshots.
    """

    def __init__(self, log: EventLog, policy: SnapshotPolicy | None, submissions: Submissions) -> None:
        self.policy = policy
        kept = policy or SnapshotPolicy()
        self.prover = Prover(log, kept.proving, kept.keep, self._failed)
        self._submissions = submissions
        self._tasks: set[asyncio.Task[None]] = set()
        self._pausing: dict[str, tuple[float, Pausing]] = {}
        self._sweep: asyncio.TimerHandle | None = None

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it beside the messages."""
        task = outside_context().run(asyncio.get_running_loop().create_task, work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def touched(self, agent: Pausing) -> None:
        """Something has happened to an agent: it gets a snapshot once it has paused for as long as the policy says."""
        if self.policy is None or self.policy.idle is None:
            return
        loop = asyncio.get_running_loop()
        self._pausing.pop(agent.stream, None)  # the longest pause comes first
        self._pausing[agent.stream] = (loop.time() + self.policy.idle, agent)
        if self._sweep is None:
            self._sweep = loop.call_later(self.policy.idle, self._look)

    async def settled(self) -> None:
        """Return once nothing is being taken or proven."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))
        await self.prover.settled()

    async def at_stop(self, agents: Iterable[Pausing]) -> None:
        """What the policy wants at the end; then nothing more is taken or proven."""
        if self.policy is not None and self.policy.at_stop:
            for agent in agents:
                await agent.take_snapshot()
        await self.stop()

    async def stop(self) -> None:
        """Take and prove no more. Candidates that are not proven yet are proven when their agents come up again."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        self._pausing.clear()
        while self._tasks:
            await asyncio.wait(list(self._tasks))
        await self.prover.stop()

    # -- inside ---------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        loop, self._sweep = asyncio.get_running_loop(), None
        now = loop.time()
        while self._pausing:
            due, agent = next(iter(self._pausing.values()))
            if due > now:
                self._sweep = loop.call_at(due, self._look)
                return
            del self._pausing[agent.stream]
            self.begin(agent.take_snapshot())

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.warning("a snapshot was not taken: %r", task.exception())

    async def _failed(self, proof: Proof) -> None:
        await self._submissions.keep_failed_proof(proof.snapshot, proof.differing)
