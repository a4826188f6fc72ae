"""What workers that are gone left behind: publications on their way, and handlers in the middle of their work.

Who called somebody looks after its call itself (`outstanding`), but of a worker that died nobody looks after anything any more.
So each worker watches the others, and takes over what was published shortly before one ended; what arrived meanwhile is seen
in the log, and several that send the same again do no harm. A worker that registers a type brings up the agents that were
left in the middle of a handler, so that the handler goes on.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta, timezone
from uuid import UUID

from autogen_core import AgentId

from autogen_eventlog.distributed.traffic import Traffic
from autogen_eventlog.errors import EventLogError
from autogen_eventlog.runtime.agents import RecordedAgents
from autogen_eventlog.runtime.given_up import cancel_given_up

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
_BEFORE_ITS_END = timedelta(seconds=60)
"""What a worker published earlier than this before its end, it has looked after itself."""
_LONG_GONE = timedelta(hours=1)
"""Workers that ended earlier than this are no concern of a worker that starts."""
_AT_ONCE = 8
"""Agents that are brought up at the same time."""


class Orphans:
    """Looks after what others left behind."""

    def __init__(self, agents: RecordedAgents, traffic: Traffic) -> None:
        self._agents = agents
        self._log = agents.log
        self._traffic = traffic
        self._seen: set[UUID] = set()
        self._watching: asyncio.Task[None] | None = None
        self._bringing_up: set[asyncio.Task[None]] = set()
        self._coming_up: set[str] = set()

    def start(self) -> None:
        """Watch the other workers."""
        self._watching = asyncio.create_task(self._watch(), name="eventlog-orphans")

    async def stop(self) -> None:
        """Watch no more; what is being brought up comes to its end."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
            self._watching = None
        if self._bringing_up:
            await asyncio.wait(list(self._bringing_up))

    @property
    def coming_up(self) -> frozenset[str]:
        """The agents that are still to be brought up, and the types of which it is not known yet which they are."""
        return frozenset(self._coming_up)

    async def brought_up(self) -> None:
        """Return once no agent is to be brought up any more."""
        while self._bringing_up:
            await asyncio.wait(list(self._bringing_up))

    def bring_up(self, agent_type: str) -> None:
        """Let the handlers go on that a worker which is gone left in agents of this type."""
        self._coming_up.add(agent_type)
        task = asyncio.create_task(self._bring_up(agent_type))
        self._bringing_up.add(task)
        task.add_done_callback(self._bringing_up.discard)

    async def _bring_up(self, agent_type: str) -> None:
        some = asyncio.Semaphore(_AT_ONCE)

        async def one(stream: str) -> None:
            async with some:
                try:
                    agent = AgentId.from_str(stream)
                    await self._agents.shell_for(agent).live()
                    await cancel_given_up(self._agents, await self._log.audit.in_flight(agent=agent))
                    logger.info("%s was left in the middle of a handler, which goes on here", stream)
                except Exception as error:  # its factory's own too; the next message for it says so to its sender
                    logger.warning("%s was left in the middle of a handler and can't go on here: %s", stream, error)
                finally:
                    self._coming_up.discard(stream)

        try:
            left = await self._log.subscriptions.left_in_flight(agent_type)
        except EventLogError as error:
            logger.warning("agents of type %r that were left in a handler can't be looked up: %s", agent_type, error)
            return
        finally:
            self._coming_up.discard(agent_type)
        self._coming_up.update(left)
        await asyncio.gather(*map(one, left))

    async def _watch(self) -> None:
        while True:
            try:
                await self._look()
            except EventLogError as error:  # the database is away; so it is for the others
                logger.debug("other workers can't be looked at: %s", error)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _look(self) -> None:
        now = datetime.now(timezone.utc)
        ended = [
            worker
            for worker in await self._log.workers()
            if not worker.alive and worker.id not in self._seen and now - worker.heartbeat_at < _LONG_GONE
        ]
        if ended:
            await self._take_over(min(worker.heartbeat_at for worker in ended) - _BEFORE_ITS_END)
            self._seen.update(worker.id for worker in ended)

    async def _take_over(self, since: datetime) -> None:
        after = 0
        while page := await self._log.subscriptions.publications(since=since, after=after):
            after = page[-1].position
            for event in page:
                self._traffic.look_after(event)
