"""The proof that a captured state must pass before it is believed.

A shadow, replayed from the proven snapshot before it or from the beginning, must come to the same state at the same tick.
And a fresh instance that is given the snapshot must then be in that state. Proofs run in the background, one after the
other, and take no more than their share of the processor.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from autogen_core import Agent

from autogen_eventlog.errors import (
    AgentBusy,
    DatabaseUnavailable,
    EventLogError,
    EventsMissing,
    LogClosed,
    NotCapturable,
    NotLoadable,
    NotRestorable,
    UnrecordedEffect,
)
from autogen_eventlog.incarnation.producer import Producer, code_hash
from autogen_eventlog.log import EventLog
from autogen_eventlog.postgres.records import Snapshot, StreamHead
from autogen_eventlog.recovery import Recovered
from autogen_eventlog.replay.follow import SLICE_SECONDS
from autogen_eventlog.runtime.replacing import still_at
from autogen_eventlog.runtime.snapshotting import Maker
from autogen_eventlog.snapshots import FAILED, PRODUCER, PROVEN, TAKEN, clock_of, kept, put, standing_of
from autogen_eventlog.snapshots.captured import DIGEST, facts_of
from autogen_eventlog.snapshots.captured import KIND as CAPTURED
from autogen_eventlog.state import capture, difference

logger = logging.getLogger(__name__)

_OTHER_CODE: Final = (
    "not judged, it stays as it was: the code has changed since it was taken, and comes to something else"
)
_FIRST: Final = 20
"""Differences that are named."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What became of a proof."""

    snapshot: Snapshot
    status: str
    """`proven` or `failed`; as it was before, where it could not be judged."""
    differing: tuple[str, ...]
    """Where the states differ, or why there is no proof."""


class Prover:
    """Proves candidates in the background.

    Args:
        share: Of one processor, above 0 and up to 1.
        keep: How many proven snapshots of an agent stay, at least.
        on_failure: Told of each that failed.
    """

    def __init__(self, log: EventLog, share: float, keep: int, on_failure: Callable[[Proof], Awaitable[None]]) -> None:
        self._log = log
        self._pause = SLICE_SECONDS * (1 - share) / share
        self._keep = keep
        self._on_failure = on_failure
        self._waiting: dict[str, tuple[Maker, Snapshot]] = {}
        self._task: asyncio.Task[None] | None = None

    def submit(self, agent: Maker, snapshot: Snapshot) -> None:
        """Prove it when its turn comes; a newer one of the same agent takes its place until then."""
        self._waiting[snapshot.stream] = (agent, snapshot)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="eventlog-prover")

    async def settled(self) -> None:
        """Return once nothing waits for its proof."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    async def stop(self) -> None:
        """Prove no more; what is not proven stays a candidate."""
        self._waiting.clear()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def prove(self, agent: Maker, snapshot: Snapshot, pace: Callable[[], Awaitable[None]] | None = None) -> Proof:
        """Prove one now, and keep what was learnt.

        Raises:
            DatabaseUnavailable, LogClosed: The log could not be read.
        """
        proof = await self._judged(agent, snapshot, pace)
        if proof.status == FAILED and self._by_other_code(agent, snapshot):
            return Proof(snapshot, snapshot.status, (f"{_OTHER_CODE}: {proof.differing[0]}",))
        if proof.status == snapshot.status and proof.differing:
            return proof
        await self._log.snapshots.mark_snapshot(snapshot, proof.status)
        if proof.status == PROVEN:
            await self._forget_some(snapshot.stream)
        else:
            logger.warning(
                "%s: the snapshot at version %d is not used: %s",
                snapshot.stream,
                snapshot.version,
                "; ".join(proof.differing),
            )
            await self._on_failure(proof)
        return proof

    async def make(self, agent: Maker, head: StreamHead) -> Proof:
        """Take a snapshot at the end of a stream without a live instance, by replay, and prove it by another one.

        Raises:
            AgentBusy: A handler is in the middle of its work there.
            NotCapturable: The agent holds something that is neither data nor wiring.
            What `Recovery.to` raises.
        """
        found = (await agent.recovery.to(head.version, continues=False)).incarnation
        running = len(found.deliveries) + len(found.calls) + len(found.effects)
        if running or found.agent is None:
            raise AgentBusy(head.stream, running, 0.0)
        state = capture(found.agent, self._log.codec, outside=agent.outside(found.agent))
        last = await (await agent.recovery.past(head.version)).last_activation()
        snapshot = Snapshot(
            stream=head.stream,
            version=head.version,
            position=head.position,
            taken_at=None,
            kind=CAPTURED,
            code_hash=code_hash(type(found.agent)),
            payload=state.data,
            metadata={
                **standing_of(found),
                **({} if last is None else {PRODUCER: last.producer}),
                **facts_of(state, still_at(found.agent, found.borrowed, found.effects_own)),
            },
            status=TAKEN,
        )
        await self._log.snapshots.put_snapshot(snapshot)
        return await self.prove(agent, snapshot)

    # -- inside ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while self._waiting:
            stream = next(iter(self._waiting))
            agent, snapshot = self._waiting.pop(stream)
            try:
                await self.prove(agent, snapshot, self._breathe)
            except LogClosed:
                return
            except EventLogError as error:
                logger.warning("%s: the snapshot at version %d is not proven: %s", stream, snapshot.version, error)

    async def _breathe(self) -> None:
        await asyncio.sleep(self._pause)

    async def _judged(self, agent: Maker, snapshot: Snapshot, pace: Callable[[], Awaitable[None]] | None) -> Proof:
        differing: list[str] = []
        try:
            shadow = await self._shadow(agent, snapshot, pace)
        except EventsMissing as error:
            return Proof(snapshot, snapshot.status, (f"not judged, it stays as it was: {error.problem}",))
        except (NotRestorable, UnrecordedEffect) as error:
            # Replay can't tell: such an agent is restored from snapshots or not at all. What it was is what was captured.
            logger.info("%s: the snapshot at version %d is proven by loading alone: %s", *_names(snapshot), error)
        except EventLogError as error:
            if isinstance(error, (LogClosed, DatabaseUnavailable)):
                raise
            return Proof(snapshot, FAILED, (f"replay does not come to it: {error}",))
        else:
            differing += self._against_shadow(agent, snapshot, shadow)
        if not differing:
            differing += await self._when_loaded(agent, snapshot)
        return Proof(snapshot, FAILED if differing else PROVEN, tuple(differing[:_FIRST]))

    def _by_other_code(self, agent: Maker, snapshot: Snapshot) -> bool:
        """Whether the code at hand is not that which took it: what it comes to says nothing of the snapshot then."""
        now: Producer | None = agent.recovery.producer
        taken_by = snapshot.metadata.get(PRODUCER)
        return now is not None and (
            now.code_hash != snapshot.code_hash or (taken_by is not None and now.differs(taken_by))
        )

    async def _shadow(self, agent: Maker, snapshot: Snapshot, pace: Callable[[], Awaitable[None]] | None) -> Recovered:
        """The agent as recovery would bring it there without this snapshot."""
        version = snapshot.version
        return await agent.recovery.to(version, below=version - 1, continues=False, pace=pace)

    def _against_shadow(self, agent: Maker, snapshot: Snapshot, shadow: Recovered) -> list[str]:
        assert shadow.incarnation.agent is not None
        reached = clock_of(shadow.incarnation)
        said = snapshot.metadata
        differing = [
            f"clock.{name}: {said.get(name)!r} and {reached[name]!r}"
            for name in reached
            if said.get(name) != reached[name]
        ]
        return differing + self._state_differences(agent, snapshot, shadow.incarnation.agent)

    def _state_differences(self, agent: Maker, snapshot: Snapshot, instance: Agent) -> list[str]:
        try:
            found = capture(instance, self._log.codec, outside=agent.outside(instance))
        except NotCapturable as error:
            return [str(error)]
        if found.digest == snapshot.metadata.get(DIGEST):
            return []
        differing = difference(snapshot.payload, found.data, limit=_FIRST)
        return [f"{one.path}: {one.left} and {one.right}" for one in differing] or ["the digests differ"]

    async def _when_loaded(self, agent: Maker, snapshot: Snapshot) -> list[str]:
        """Where a fresh instance differs that was given the snapshot."""
        try:
            fresh, borrowed = await agent.scratch()
            await put(snapshot, fresh, self._log.codec, agent.outside(fresh), borrowed)
        except NotLoadable as error:
            agent.no_snapshots(str(error))
            return [f"a fresh instance could not load it: {error}"]
        except Exception as error:  # the factory's own code
            return [f"a fresh instance could not load it: {error!r}"]
        return self._state_differences(agent, snapshot, fresh)

    async def _forget_some(self, stream: str) -> None:
        """Delete all but the newest snapshots, and ever fewer older ones."""
        there = await self._log.snapshots.list_snapshots(stream)
        proven = [one.version for one in there if one.status == PROVEN]
        stay = kept(proven, self._keep)
        first = await self._log.reader.first_version(stream)
        if first > 1:  # what retention removed can't be replayed: the oldest snapshot is where the kept part begins
            stay.update(sorted(version for version in proven if version >= first - 1)[:1])
        newest = max(proven, default=0)
        for one in there:
            old_candidate = one.status != PROVEN and one.status != FAILED and one.version < newest
            if old_candidate or (one.status == PROVEN and one.version not in stay):
                await self._log.snapshots.delete_snapshot(one)


def _names(snapshot: Snapshot) -> tuple[str, int]:
    return snapshot.stream, snapshot.version
