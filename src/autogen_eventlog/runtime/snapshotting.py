"""When snapshots are taken of a live agent, and the proof that each must pass before it is believed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from autogen_core import Agent

from autogen_eventlog.errors import EventLogError
from autogen_eventlog.incarnation.incarnation import Incarnation
from autogen_eventlog.incarnation.producer import code_hash
from autogen_eventlog.log import EventLog
from autogen_eventlog.postgres.records import Snapshot
from autogen_eventlog.recovery import Recovered
from autogen_eventlog.runtime.appender import StreamAppender
from autogen_eventlog.snapshots import KIND, counters, differences, has_own_state
from autogen_eventlog.snapshots.cooperative import PROVEN

logger = logging.getLogger(__name__)


class Snapshotting:
    """Takes a snapshot of one agent every so many events, where its class says how."""

    def __init__(self, log: EventLog, stream: str, every: int | None, scratch: Callable[[], Awaitable[Agent]]) -> None:
        self._log = log
        self._stream = stream
        self._every = every
        self._scratch = scratch
        self._last = 0
        self._unfit = False

    def recovered(self, recovered: Recovered) -> None:
        """The next one is due so many events after the one that recovery began from."""
        self._last = 0 if recovered.snapshot is None else recovered.snapshot.version

    def due(self, incarnation: Incarnation, appender: StreamAppender | None) -> bool:
        """Whether one is to be taken now: so many events, an agent that can, and that is at rest."""
        if self._every is None or self._unfit or appender is None or appender.version - self._last < self._every:
            return False
        agent = incarnation.agent
        return agent is not None and has_own_state(agent) and incarnation.live and _at_rest(incarnation)

    async def take(self, incarnation: Incarnation, appender: StreamAppender | None, gate: asyncio.Lock) -> None:
        """Take one; new deliveries wait while the agent's state is read and proven."""
        agent = incarnation.agent
        assert agent is not None and appender is not None and self._every is not None
        version, self._last = appender.version, appender.version
        async with gate:
            if appender.version != version or not _at_rest(incarnation):
                self._last = version - self._every
                return
            state, clock = await self._read(agent), counters(incarnation)
            proof = None if state is None else await self._prove(agent, state)
        if state is not None and proof is not None:
            await self._keep(incarnation, version, state, clock, proof)

    async def _read(self, agent: Agent) -> Any:
        try:
            return dict(await agent.save_state())
        except Exception as error:
            self._give_up(f"its save_state raised {error!r}")
            return None

    async def _prove(self, agent: Agent, state: Any) -> list[str] | None:
        """Where a fresh instance that loads the state differs from the live one; None if it can't load it."""
        try:
            encoded = self._log.codec.encode(state, where="state")
            fresh = await self._scratch()
            await fresh.load_state(self._log.codec.decode(encoded.data, where="state"))  # type: ignore[arg-type]
            return differences(self._log.codec, agent, fresh)
        except Exception as error:
            self._give_up(f"a fresh instance could not load its own state: {error!r}")
            return None

    async def _keep(
        self, incarnation: Incarnation, version: int, state: Any, clock: dict[str, Any], differing: list[str]
    ) -> None:
        if differing:
            self._give_up(f"its save_state leaves out {', '.join(differing[:5])}")
            return
        try:
            committed = await incarnation.durable
            await self._log.snapshots.put_snapshot(
                Snapshot(
                    stream=self._stream,
                    version=version,
                    position=committed.position,
                    taken_at=None,
                    kind=KIND,
                    code_hash=code_hash(type(incarnation.agent)),
                    payload=self._log.codec.encode(state, where="state").data,
                    metadata=clock,
                    status=PROVEN,
                )
            )
        except EventLogError as error:  # a snapshot is a cache: the log is complete without it
            logger.warning("%s: no snapshot at version %d: %s", self._stream, version, error)

    def _give_up(self, why: str) -> None:
        """The agent is restored by full replay instead; said once (G11)."""
        self._unfit = True
        logger.warning(
            "%s: no snapshots are taken of this agent, it is restored by replay alone: %s", self._stream, why
        )


def _at_rest(incarnation: Incarnation) -> bool:
    """Whether nothing is under way, and nothing has happened that only the next event will tell."""
    return incarnation.quiet and not incarnation.session.observations
