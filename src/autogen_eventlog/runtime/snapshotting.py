"""When snapshots are taken of a live agent, and how its state is read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol
from uuid import UUID

from autogen_core import Agent

from autogen_eventlog.codec.names import type_name
from autogen_eventlog.errors import EventLogError, NotCapturable
from autogen_eventlog.incarnation.incarnation import Incarnation
from autogen_eventlog.incarnation.producer import code_hash
from autogen_eventlog.log import EventLog
from autogen_eventlog.postgres.records import Snapshot
from autogen_eventlog.recovery import Recovered, Recovery
from autogen_eventlog.runtime.appender import StreamAppender
from autogen_eventlog.runtime.replacing import still_at
from autogen_eventlog.snapshots import (
    PRODUCER,
    PROVEN,
    TAKEN,
    SnapshotPolicy,
    differences,
    has_own_state,
    standing_of,
)
from autogen_eventlog.snapshots.captured import KIND as CAPTURED
from autogen_eventlog.snapshots.captured import facts_of
from autogen_eventlog.snapshots.cooperative import KIND as SAVED
from autogen_eventlog.state import CapturedState, capture

logger = logging.getLogger(__name__)

_SECONDS_AN_EVENT: Final = 0.0001
"""What replay takes for an event beside the agent's own code (docs/explanation/benchmarks.md)."""
_AT_ONCE_BYTES: Final = 50_000
"""A state up to this size is read at once, in about a millisecond; a larger one in a thread, while others are served."""


@dataclass(frozen=True, slots=True)
class State:
    """An agent's state, read."""

    kind: str
    payload: bytes
    facts: dict[str, Any]
    """For the snapshot's metadata."""
    status: str


class Maker(Protocol):
    """Who makes instances of the agent."""

    @property
    def recovery(self) -> Recovery: ...

    async def scratch(self) -> tuple[Agent, dict[str, object]]:
        """A fresh instance that is no agent, and what it has borrowed, by path."""
        ...

    def outside(self, agent: Agent) -> tuple[object, ...]:
        """What hangs on an instance and is no part of its state."""
        ...

    def no_snapshots(self, why: str) -> None:
        """No snapshot of it can be loaded: none is taken any more by itself."""
        ...


class Snapshotting:
    """Knows when one agent's next snapshot is due, and takes it."""

    def __init__(self, log: EventLog, stream: str, policy: SnapshotPolicy | None, maker: Maker) -> None:
        self._log = log
        self._maker = maker
        self._stream = stream
        self.policy = policy
        self._last = 0
        self._busy_then = 0.0
        self._size = 0
        self._unfit = False
        self._why = ""
        self._pauses = False
        self._in_vain = 0
        """Pauses since the last one, in which the agent did not come to rest."""
        self._waiting: list[UUID | None] = []
        """Of the messages that wait for a pause or something else to be over, the conversations."""
        self._given_way: asyncio.Future[None] | None = None

    def began(self, recovered: Recovered) -> None:
        """An instance came up: the next snapshot is due so long after what its recovery began from."""
        self._last = 0 if recovered.snapshot is None else recovered.snapshot.version
        self._busy_then = 0.0

    def due(self, incarnation: Incarnation, appender: StreamAppender | None) -> bool:
        """Whether one is to be taken now: by the policy, of an agent that can, and that is at rest."""
        return self._is_ripe(incarnation, appender, 1) and can_be_read(incarnation)

    def long_due(self, incarnation: Incarnation, appender: StreamAppender | None) -> bool:
        """Whether its messages are to wait for once, because it is never at rest."""
        if self.policy is None or not self.policy.pause or self._pauses:
            return False
        return self._is_ripe(incarnation, appender, 2 << self._in_vain)

    def overdue(self, appender: StreamAppender | None) -> bool:
        """Whether anything has happened since the last one, for those that are taken at the end, or after a pause."""
        return self.policy is not None and not self._unfit and appender is not None and appender.version > self._last

    async def take_in_a_pause(
        self, incarnation: Incarnation, appender: StreamAppender, gate: asyncio.Lock
    ) -> Snapshot | None:
        """`take`, of an agent that is never at rest: new deliveries wait, within the policy's bound, for those that run."""
        assert self.policy is not None
        self._pauses = True
        try:
            snapshot = await self.take(incarnation, appender, gate, pause=self.policy.pause)
        finally:
            self._pauses = False
        if snapshot is None:
            self._in_vain += 1
        return snapshot

    async def take(
        self,
        incarnation: Incarnation,
        appender: StreamAppender,
        gate: asyncio.Lock,
        *,
        wanted: bool = False,
        pause: float | None = None,
    ) -> Snapshot | None:
        """Take one; new deliveries to this agent wait while its state is read.

        Args:
            wanted: Somebody asked for it: what can't be done is raised.
            pause: Seconds to wait for running deliveries to end.

        Returns:
            What was kept, as a candidate; None if the agent was not at rest after all, or can't be read.

        Raises:
            NotCapturable: Something in it is neither data nor wiring, or its own methods leave something out (`wanted`).
            DatabaseUnavailable: It could not be kept (`wanted`).
        """
        async with gate:
            if pause is not None:
                await self._rest(incarnation, pause)
            version = appender.version
            if not can_be_read(incarnation):
                return None
            before, self._last = self._last, version
            agent = incarnation.agent
            assert agent is not None
            standing = standing_of(incarnation)
            try:
                state = await self._read(incarnation, agent, wanted)
            except NotCapturable:
                self._last = before
                raise
            if appender.version != version or standing_of(incarnation) != standing:
                self._last = before
                logger.warning("%s: no snapshot at version %d: it went on while it was read", self._stream, version)
                return None
        if state is None:
            if wanted:
                name = type_name(type(agent))
                raise NotCapturable(name, (("self", name, self._why, "It is restored by replay alone"),))
            return None
        self._in_vain = 0
        self._busy_then = incarnation.session.busy
        try:
            return await self._keep(incarnation, code_hash(type(agent)), version, standing, state)
        except EventLogError as error:  # a snapshot is a cache: the log is complete without it
            if wanted:
                raise
            logger.warning("%s: no snapshot at version %d: %s", self._stream, version, error)
            return None

    async def _keep(
        self, incarnation: Incarnation, code: str, version: int, standing: dict[str, Any], state: State
    ) -> Snapshot:
        """Put what was read into the log, once all that led to it is there."""
        committed = await incarnation.durable
        last = await (await self._maker.recovery.past(version)).last_activation()
        snapshot = Snapshot(
            stream=self._stream,
            version=version,
            position=committed.position,
            taken_at=None,
            kind=state.kind,
            code_hash=code,
            payload=state.payload,
            metadata={**standing, **({} if last is None else {PRODUCER: last.producer}), **state.facts},
            status=state.status,
        )
        await self._log.snapshots.put_snapshot(snapshot)
        return snapshot

    @contextmanager
    def waiting(self, incarnation: Incarnation | None, conversation: UUID | None) -> Generator[None]:
        """A message waits: a pause ends if one of the handlers that it is made for waits for that very message."""
        self._waiting.append(conversation)
        if self._given_way is not None and not self._given_way.done() and self._would_stall(incarnation):
            self._given_way.set_result(None)
        try:
            yield
        finally:
            self._waiting.remove(conversation)

    def _would_stall(self, incarnation: Incarnation | None) -> bool:
        return incarnation is not None and any(map(incarnation.is_in, self._waiting))

    async def _rest(self, incarnation: Incarnation, pause: float) -> None:
        """Wait until its handlers have ended, until one can't before the pause is over, or for so many seconds."""
        running = [delivery.done for delivery in incarnation.deliveries.values()]
        if not running or self._would_stall(incarnation):
            return
        self._given_way = asyncio.get_running_loop().create_future()
        ended = asyncio.ensure_future(asyncio.wait(running))
        try:
            await asyncio.wait([ended, self._given_way], timeout=pause, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            self._given_way = None

    def give_up(self, why: str) -> None:
        """The agent is restored by full replay instead; said once (G11)."""
        self._why = why
        if not self._unfit:
            self._unfit = True
            logger.warning(
                "%s: no snapshots are taken of this agent, it is restored by replay alone: %s", self._stream, why
            )

    # -- inside ---------------------------------------------------------------------------------------------------

    def _is_ripe(self, incarnation: Incarnation, appender: StreamAppender | None, times: int) -> bool:
        """Whether so many times as much has happened since the last one as the policy allows."""
        policy = self.policy
        if policy is None or self._unfit or appender is None:
            return False
        events = appender.version - self._last
        by_number = policy.every is not None and events >= policy.every * times
        by_time = policy.within is not None and self._seconds(incarnation, events) >= policy.within * times
        return (by_number or by_time) and events > 0

    def _seconds(self, incarnation: Incarnation, events: int) -> float:
        """What replaying all since the last one would take."""
        return incarnation.session.busy - self._busy_then + events * _SECONDS_AN_EVENT

    async def _read(self, incarnation: Incarnation, agent: Agent, wanted: bool) -> State | None:
        kind = "either" if self.policy is None else self.policy.kind
        if kind != "save_state":
            try:
                return await self._captured(incarnation, agent)
            except NotCapturable as error:
                if kind == "captured" or not has_own_state(agent):
                    if wanted:
                        raise
                    self.give_up(str(error))
                    return None
        if not has_own_state(agent):
            self.give_up("its class has no save_state and load_state of its own")
            return None
        return await self._saved(agent)

    async def _captured(self, incarnation: Incarnation, agent: Agent) -> State:
        outside, borrowed, own = self._maker.outside(agent), incarnation.borrowed, incarnation.effects_own

        def read() -> tuple[CapturedState, list[str]]:
            return capture(agent, self._log.codec, outside=outside), still_at(agent, borrowed, own)

        state, still = read() if self._size <= _AT_ONCE_BYTES else await asyncio.to_thread(read)
        self._size = len(state.data)
        return State(CAPTURED, state.data, facts_of(state, still), TAKEN)

    async def _saved(self, agent: Agent) -> State | None:
        """By `save_state`, proven at once: a fresh instance that loads it must be in the same state."""
        try:
            state: Any = dict(await agent.save_state())
        except Exception as error:  # the agent's own code
            self.give_up(f"its save_state raised {error!r}")
            return None
        try:
            encoded = self._log.codec.encode(state, where="state")
            fresh, _ = await self._maker.scratch()
            await fresh.load_state(self._log.codec.decode(encoded.data, where="state"))  # type: ignore[arg-type]
            differing = differences(self._log.codec, agent, fresh)
        except Exception as error:
            self.give_up(f"a fresh instance could not load its own state: {error!r}")
            return None
        if differing:
            self.give_up(f"its save_state leaves out {', '.join(differing[:5])}")
            return None
        return State(SAVED, encoded.data, {}, PROVEN)


def can_be_read(incarnation: Incarnation) -> bool:
    """Whether the agent is live, nothing is under way, and nothing has happened that only the next event will tell."""
    rests = incarnation.quiet and not incarnation.session.observations
    return incarnation.agent is not None and incarnation.live and rests
