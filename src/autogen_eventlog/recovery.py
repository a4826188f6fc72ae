"""Bringing an instance to a version: the nearest snapshot, then replay.

The same way serves an agent that comes up on a worker and goes live, one that is restored to the past, and a view. What
differs is what happens at the end of the journal (`Incarnation.continues`).
"""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from autogen_core import Agent, AgentId, MessageHandlerContext

from autogen_eventlog.errors import Divergence, EventLogError, NotRestorable, PayloadCorrupt, TypeNotAllowed
from autogen_eventlog.events import EventType, RecordedEvent
from autogen_eventlog.incarnation.construction import CONSTRUCTION, Construction
from autogen_eventlog.incarnation.incarnation import Incarnation
from autogen_eventlog.incarnation.producer import Producer, likely_cause, producer_of
from autogen_eventlog.lineage import Lineage, Segment, events_of, lineage
from autogen_eventlog.log import EventLog
from autogen_eventlog.postgres.records import Snapshot
from autogen_eventlog.replay.follow import follow, outside_tasks, trail
from autogen_eventlog.replay.journal import INPUTS
from autogen_eventlog.replay.machine import Machine, Mismatch
from autogen_eventlog.snapshots import UNUSABLE, restore_counters, usable

logger = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
"""Called with the events read so far and their whole number."""


class Build(Protocol):
    """Makes a fresh instance inside an incarnation."""

    def __call__(self, incarnation: Incarnation) -> Awaitable[Agent]: ...


@dataclass(frozen=True, slots=True)
class Recovered:
    """An incarnation at the end of a lineage."""

    incarnation: Incarnation
    events: int
    """Events that were replayed."""
    snapshot: Snapshot | None
    """What replay began from (None: the beginning)."""
    exact: bool
    """Whether all of it was followed tick by tick; else a part, recorded by other code, by order."""


class Recovery:
    """Brings instances of one agent to a version of its past."""

    def __init__(
        self, log: EventLog, agent_id: AgentId, build: Build, new_incarnation: Callable[..., Incarnation]
    ) -> None:
        self._log = log
        self._id = agent_id
        self._stream = str(agent_id)
        self._build = build
        self._new = new_incarnation
        self._now: Producer | None = None

    async def fresh(self) -> Incarnation:
        """A new instance with no past."""
        return await self._incarnate(None, None, continues=True)

    async def to(
        self,
        version: int,
        *,
        stream: str | None = None,
        continues: bool,
        prepare: Callable[[Incarnation], None] = lambda _: None,
        on_progress: Progress | None = None,
    ) -> Recovered:
        """An instance with the past of `version` of `stream` (by default the agent's own).

        A snapshot that can't be used is set aside, with a warning, for an older one or the beginning.

        Args:
            continues: Whether the instance goes on where the journal ends; otherwise it stands still there.
            prepare: Called before replay, with the incarnation (to connect it, should it go live by itself).

        Raises:
            Divergence: The code does something else than the log says.
            NotRestorable: The past holds something that replay can't answer.
            TypeNotAllowed, PayloadCorrupt: An event can't be decoded here.
        """
        stream = stream or self._stream
        past = await lineage(self._log.reader, stream, version)
        below = version
        while True:
            snapshot = await self._snapshot(past, below)
            try:
                return await self._follow_past(past, snapshot, continues, prepare, on_progress)
            except (Divergence, NotRestorable, TypeNotAllowed, PayloadCorrupt) as error:
                if snapshot is None:
                    raise
                logger.warning("%s; trying without the snapshot at version %d", error, snapshot.version)
                below = snapshot.version - 1

    # -- inside ---------------------------------------------------------------------------------------------------

    async def _follow_past(
        self,
        past: Lineage,
        snapshot: Snapshot | None,
        continues: bool,
        prepare: Callable[[Incarnation], None],
        on_progress: Progress | None,
    ) -> Recovered:
        """Exactly, by ticks; where other code or another Python recorded and ticks differ, by order if that settles it."""
        rest = (past, snapshot, continues, prepare, on_progress)
        try:
            return await self._replay(Machine(), *rest)
        except Divergence as divergence:
            if not divergence.other_code:
                raise
            try:
                recovered = await self._replay(Machine(by_order=self._recorded_elsewhere), *rest)
            except Divergence:
                raise divergence from None
        logger.warning("%s was recorded by other code or another Python, and replayed by order", self._stream)
        return recovered

    def _recorded_elsewhere(self, recorded: dict[str, Any]) -> bool:
        return self._now is not None and self._now.differs(recorded)

    async def _replay(
        self,
        machine: Machine,
        past: Lineage,
        snapshot: Snapshot | None,
        continues: bool,
        prepare: Callable[[Incarnation], None],
        on_progress: Progress | None,
    ) -> Recovered:
        activation = await self._first_activation(past.segments)
        incarnation = await self._incarnate(machine, activation, continues=continues)
        segments = past.segments
        try:
            if snapshot is not None:
                await self._load(incarnation, machine, snapshot)
                segments = past.after(snapshot.stream, snapshot.version)
            prepare(incarnation)
            read = await self._follow(incarnation, machine, segments, on_progress)
            if not continues:
                await self._stand(incarnation, machine, past)
        except BaseException:
            incarnation.end()
            raise
        return Recovered(incarnation, read, snapshot, exact=not machine.followed_by_order)

    async def _follow(
        self, incarnation: Incarnation, machine: Machine, segments: tuple[Segment, ...], on_progress: Progress | None
    ) -> int:
        total = sum(segment.until_version - segment.after_version for segment in segments)
        before = await self._producer_before(segments)
        if before is not None:
            machine.recorded_by(before)
        seen = _Seen(before)

        def report(read: int) -> None:
            if on_progress is not None:
                on_progress(read, total)

        try:
            with MessageHandlerContext.populate_context(self._id):
                await follow(incarnation, machine, seen.watch(events_of(self._log.reader, segments)), report)
        except Mismatch as mismatch:
            others = next((segment.stream for segment in segments if segment.stream != self._stream), None)
            raise self._explain(mismatch, machine, seen.producer, producer_of(incarnation.agent), others) from None
        return seen.events

    async def _producer_before(self, segments: tuple[Segment, ...]) -> dict[str, Any] | None:
        """The producer of the events that follow a snapshot is named before it."""
        if not segments or segments[0].after_version == 0:
            return None
        first = segments[0]
        rows = await self._log.reader.pool.fetch(
            "last_producer", {"stream": first.stream, "version": first.after_version}
        )
        return rows[0][0] if rows else None

    def _explain(
        self,
        mismatch: Mismatch,
        machine: Machine,
        recorded: dict[str, Any] | None,
        now: Producer,
        others: str | None,
    ) -> EventLogError:
        if isinstance(mismatch.error, EventLogError):
            return mismatch.error
        if mismatch.foreign:
            return NotRestorable(
                self._stream,
                f"version {mismatch.version}",
                f"the agent depends on something that is not recorded, such as a socket, a thread or an object shared "
                f"with other code (recorded: {mismatch.recorded}; the code: {mismatch.produced})",
                "Let the agent reach the world through messages, or give it save_state and load_state and restore from "
                "a snapshot",
            )
        delivery = None if machine.last is None else machine.last.delivery
        cause = likely_cause(recorded, now)
        if others is not None:
            cause = f"the past is that of {others}, and what the code makes of its agent's id differs; or {cause}"
        return Divergence(
            self._stream,
            mismatch.version,
            delivery,
            mismatch.recorded,
            mismatch.produced,
            cause,
            other_code=recorded is not None and now.differs(recorded),
        )

    async def _stand(self, incarnation: Incarnation, machine: Machine, past: Lineage) -> None:
        """Let what the last completed handler left behind run out, then stop for good."""
        completed = machine.last is not None and machine.last.type is EventType.DELIVERY_COMPLETED
        if completed and incarnation.session.machine is machine:
            free = machine.first_tick_free(await self._event_after(past))
            await outside_tasks(incarnation.session.loop, lambda: trail(incarnation.session, machine, free))
            found = incarnation.session.mismatch
            if found is not None and found.error is not None:
                raise found.error
        incarnation.end()

    async def _event_after(self, past: Lineage) -> RecordedEvent | None:
        async for event in self._log.reader.read(past.stream, after_version=past.version, batch=1):
            return None if event.type in (EventType.STREAM_RESTORED, EventType.STREAM_FORKED) else event
        return None

    async def _first_activation(self, segments: tuple[Segment, ...]) -> RecordedEvent | None:
        """What says how the first instance with this past was made. None: it was not made yet."""
        async with contextlib.aclosing(events_of(self._log.reader, segments, batch=4)) as events:
            async for event in events:
                if event.type is EventType.AGENT_ACTIVATED or event.type in INPUTS:
                    return event
        return None

    async def _incarnate(
        self, machine: Machine | None, activation: RecordedEvent | None, *, continues: bool
    ) -> Incarnation:
        incarnation = self._new(machine)
        incarnation.continues = continues
        incarnation.construction.follow(activation)
        incarnation.agent = await self._build(incarnation)
        self._now = producer_of(incarnation.agent)
        if activation is not None and incarnation.construction.differs:
            try:
                self._judge_construction(incarnation.construction, activation, self._now)
            except Divergence:
                incarnation.end()
                raise
        return incarnation

    def _judge_construction(self, made: Construction, activation: RecordedEvent, now: Producer) -> None:
        """New code may draw other things for its instances; what it has drawn is then new. The same code must not."""
        recorded: dict[str, Any] = activation.metadata.get("producer") or {}
        before = ", ".join(kind for kind, _ in activation.metadata.get(CONSTRUCTION) or ()) or "nothing"
        if now.differs(recorded):
            logger.warning(
                "%s: while an instance is made, its code now reads %s, and read %s when it was recorded",
                self._stream,
                made.asked,
                before,
            )
            return
        raise Divergence(
            self._stream,
            activation.version,
            None,
            f"that the making of the instance reads {before}",
            f"readings of {made.asked}",
            likely_cause(recorded, now),
        )

    # -- snapshots ------------------------------------------------------------------------------------------------

    async def _snapshot(self, past: Lineage, below: int) -> Snapshot | None:
        """The newest usable snapshot in this past, of the agent's own stream."""
        while below > 0:
            found = await self._log.snapshots.latest_snapshot(past.stream, below, without_status=UNUSABLE)
            if found is None:
                return None
            if past.holds(found.stream, found.version) and usable(found):
                return found
            below = found.version - 1
        return None

    async def _load(self, incarnation: Incarnation, machine: Machine, snapshot: Snapshot) -> None:
        agent = incarnation.agent
        assert agent is not None
        try:
            restore_counters(incarnation, machine, snapshot)
            state = self._log.codec.decode(snapshot.payload, where=f"snapshot at version {snapshot.version}")
            loaded = agent.load_state(state)  # type: ignore[arg-type]
            if inspect.isawaitable(loaded):
                await loaded
        except EventLogError:
            raise
        except Exception as error:
            remedy = "An older snapshot or the whole history is used instead"
            where = f"snapshot at version {snapshot.version}"
            raise NotRestorable(self._stream, where, f"load_state raised {error!r}", remedy) from error


class _Seen:
    """Watches events go by: how many, and which code recorded the latest."""

    def __init__(self, producer: dict[str, Any] | None) -> None:
        self.producer = producer
        self.events = 0

    async def watch(self, events: AsyncIterator[RecordedEvent]) -> AsyncIterator[RecordedEvent]:
        async for event in events:
            self.events += 1
            if event.type is EventType.AGENT_ACTIVATED:
                self.producer = event.metadata.get("producer")
            yield event
