"""Bringing an instance to a version: the nearest snapshot, then replay.

The same way serves an agent that comes up on a worker and goes live, one that is restored to the past, and a view. What
differs is what happens at the end of the journal (`Incarnation.continues`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from autogen_core import Agent, AgentId, MessageHandlerContext

from autogen_eventlog.errors import (
    Divergence,
    EventLogError,
    NotLoadable,
    NotRestorable,
    PayloadCorrupt,
    TypeNotAllowed,
    UnrecordedEffect,
    way_back,
)
from autogen_eventlog.events import EventType, RecordedEvent
from autogen_eventlog.incarnation.construction import CONSTRUCTION, Construction
from autogen_eventlog.incarnation.incarnation import Incarnation
from autogen_eventlog.incarnation.making import PARAMETERS, in_words, remade
from autogen_eventlog.incarnation.producer import Producer, likely_cause, producer_of
from autogen_eventlog.log import EventLog
from autogen_eventlog.past import LogPast, Past, Place
from autogen_eventlog.postgres.records import Snapshot
from autogen_eventlog.replay.follow import follow, outside_tasks, trail
from autogen_eventlog.replay.journal import READINGS
from autogen_eventlog.replay.machine import Machine, Mismatch
from autogen_eventlog.snapshots import FAILED, MADE, PRODUCER, TAKEN, put, set_clock, usable

logger = logging.getLogger(__name__)

warned: set[type] = set()
"""Classes of which it was said that their factories make something else now."""

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


@dataclass(frozen=True, slots=True)
class _Way:
    """How a replay goes: what `Recovery.along` says of each."""

    continues: bool
    prepare: Callable[[Incarnation], None]
    on_progress: Progress | None
    pace: Callable[[], Awaitable[None]] | None


class Recovery:
    """Brings instances of one agent to a version of its past."""

    def __init__(
        self,
        log: EventLog,
        agent_id: AgentId,
        build: Build,
        new_incarnation: Callable[..., Incarnation],
        today: Callable[[RecordedEvent], RecordedEvent],
        outside: Callable[[Agent], Collection[object]],
    ) -> None:
        """
        Args:
            today: Gives a recorded output in the shape that its message's class has today.
            outside: What hangs on an instance and is no part of its state.
        """
        self._log = log
        self._id = agent_id
        self._stream = str(agent_id)
        self._build = build
        self._new = new_incarnation
        self._today = today
        self.outside = outside
        """What hangs on an instance and is no part of its state."""
        self._now: Producer | None = None
        self._made: dict[str, Any] = {}

    @property
    def producer(self) -> Producer | None:
        """The code at hand; None until an instance was made."""
        return self._now

    async def fresh(self) -> Incarnation:
        """A new instance with no past."""
        return await self._incarnate(None, None, None, continues=True)

    async def to(
        self,
        version: int,
        *,
        stream: str | None = None,
        continues: bool,
        below: int | None = None,
        prepare: Callable[[Incarnation], None] = lambda _: None,
        on_progress: Progress | None = None,
        pace: Callable[[], Awaitable[None]] | None = None,
    ) -> Recovered:
        """An instance with the past of `version` of `stream` (by default the agent's own).

        A snapshot that can't be used is set aside, with a warning, for an older one or the beginning.

        Args:
            continues: Whether the instance goes on where the journal ends; otherwise it stands still there.
            below: Snapshots up to this version are used; None: up to `version`.
            prepare: Called before replay, with the incarnation (to connect it, should it go live by itself).
            pace: Awaited now and then, by whom has time (`follow`).

        Raises:
            Divergence: The code does something else than the log says.
            NotRestorable: The past holds something that replay can't answer.
            TypeNotAllowed, PayloadCorrupt: An event can't be decoded here.
        """
        past = await self.past(version, stream=stream)
        below = version if below is None else below
        while True:
            snapshot = await self.snapshot(past, below)
            try:
                return await self.along(
                    past, snapshot, continues=continues, prepare=prepare, on_progress=on_progress, pace=pace
                )
            except (Divergence, NotLoadable, NotRestorable, TypeNotAllowed, PayloadCorrupt) as error:
                if snapshot is None:
                    raise
                logger.warning("%s; trying without the snapshot at version %d", error, snapshot.version)
                below = snapshot.version - 1

    async def past(self, version: int, *, stream: str | None = None) -> LogPast:
        """What led to a version of `stream` (by default the agent's own), in the log."""
        return await LogPast.of(self._log.reader, stream or self._stream, version)

    async def along(
        self,
        past: Past,
        snapshot: Snapshot | None = None,
        *,
        continues: bool = False,
        prepare: Callable[[Incarnation], None] = lambda _: None,
        on_progress: Progress | None = None,
        differing: list[Divergence] | None = None,
        pace: Callable[[], Awaitable[None]] | None = None,
    ) -> Recovered:
        """An instance with this past, by replay from a snapshot of it or from the beginning.

        Exactly, by ticks; where other code or another Python recorded it and ticks differ, by order if that settles it.

        Args:
            continues, prepare, pace: As for `to`.
            differing: Takes outputs of which only the content is another than recorded. Replay then goes past them with
                what was recorded, so that what differs later is found too. None: the first one ends it.

        Raises:
            What `to` raises.
        """
        run = partial(self._replay, past, snapshot, _Way(continues, prepare, on_progress, pace))
        try:
            return await run(None, differing)
        except Divergence as divergence:
            if not divergence.other_code:
                raise
            by_order: list[Divergence] | None = None if differing is None else []
            try:
                recovered = await run(self._recorded_elsewhere, by_order)
            except Divergence:
                raise divergence from None
        if differing is not None and by_order is not None:
            differing[:] = by_order
        logger.warning("%s was recorded by other code or another Python, and replayed by order", self._stream)
        return recovered

    # -- inside ---------------------------------------------------------------------------------------------------

    def _recorded_elsewhere(self, recorded: dict[str, Any]) -> bool:
        return self._now is not None and self._now.differs(recorded)

    async def _replay(
        self,
        past: Past,
        snapshot: Snapshot | None,
        way: _Way,
        by_order: Callable[[dict[str, Any]], bool] | None,
        differing: list[Divergence] | None,
    ) -> Recovered:
        def note(mismatch: Mismatch) -> None:
            assert differing is not None
            differing.append(self._divergence(mismatch, machine, past))

        machine = Machine(by_order=by_order, on_difference=None if differing is None else note, today=self._today)
        activation = None if snapshot is not None and MADE in snapshot.metadata else await past.first_activation()
        incarnation = await self._incarnate(machine, activation, snapshot, continues=way.continues)
        after: Place | None = None
        try:
            if snapshot is not None:
                await self._load(incarnation, machine, snapshot)
                after = (snapshot.stream, snapshot.version)
            way.prepare(incarnation)
            read = await self._follow(incarnation, machine, past, after, snapshot, way)
            if not way.continues:
                await self._stand(incarnation, machine, past)
        except BaseException:
            incarnation.end()
            raise
        self._warn_of_other_making(incarnation, machine, past, snapshot)
        return Recovered(incarnation, read, snapshot, exact=not machine.followed_by_order)

    def _other_making(self, made: dict[str, Any], machine: Machine, past: Past) -> list[str]:
        """What the same code makes otherwise than it did when the end of the past was recorded; under its own id only."""
        recorded = machine.producer
        if recorded is None or self._now is None or self._now.against(recorded).changed:
            return []
        own = all(one.stream == self._stream for one in past.lineage.segments)
        return remade(recorded.get(PARAMETERS) or {}, made) if own else []

    def _warn_of_other_making(
        self, incarnation: Incarnation, machine: Machine, past: Past, snapshot: Snapshot | None
    ) -> None:
        differing = self._other_making(incarnation.made, machine, past) if incarnation.continues else []
        if differing and type(incarnation.agent) not in warned:
            warned.add(type(incarnation.agent))
            which = "it has those of now" if snapshot is None else "from its snapshot it has those of then"
            logger.warning("%s: %s; %s (docs/explanation/snapshots.md)", self._stream, in_words(differing), which)

    async def _follow(
        self,
        incarnation: Incarnation,
        machine: Machine,
        past: Past,
        after: Place | None,
        snapshot: Snapshot | None,
        way: _Way,
    ) -> int:
        total = past.lineage.size if after is None else past.lineage.size_after(*after)
        if after is not None:  # the producer of the events that follow a snapshot is named before it
            before = await past.last_activation(after)
            if before is not None:
                machine.recorded_by(before.producer, before.version)
            elif snapshot is not None and PRODUCER in snapshot.metadata:  # where retention has removed the activation
                machine.recorded_by(snapshot.metadata[PRODUCER])
        seen = _Seen()

        def report(read: int) -> None:
            if way.on_progress is not None:
                way.on_progress(read, total)

        try:
            with MessageHandlerContext.populate_context(self._id):
                await follow(incarnation, machine, seen.watch(past.events(after)), report, way.pace)
        except Mismatch as mismatch:
            raise self._explain(mismatch, machine, past) from None
        return seen.events

    def _explain(self, mismatch: Mismatch, machine: Machine, past: Past) -> EventLogError:
        before = _before(mismatch.delivery, past)
        if isinstance(mismatch.error, UnrecordedEffect):
            return replace(mismatch.error, before=_before(mismatch.error.delivery, past))
        if isinstance(mismatch.error, EventLogError):
            return mismatch.error
        if mismatch.foreign:
            return NotRestorable(
                self._stream,
                f"version {mismatch.version}",
                f"the agent depends on something that is not recorded, such as a socket, a thread or an object shared "
                f"with other code (recorded: {mismatch.recorded}; the code: {mismatch.produced})",
                "Let the agent reach the world through messages, or give it save_state and load_state and restore from "
                f"a snapshot. {way_back(before)}",
            )
        return self._divergence(mismatch, machine, past)

    def _divergence(self, mismatch: Mismatch, machine: Machine, past: Past) -> Divergence:
        assert self._now is not None
        delivery, recorded = mismatch.delivery, machine.producer
        if delivery is None and machine.last is not None:
            delivery = machine.last.delivery
        cause = likely_cause(recorded, self._now)
        others = next((one.stream for one in past.lineage.segments if one.stream != self._stream), None)
        if others is not None:
            cause = f"the past is that of {others}, and what the code makes of its agent's id differs; or {cause}"
        differing = self._other_making(self._made, machine, past)
        if differing:
            cause = f"{in_words(differing)}; or {cause}"
        return Divergence(
            self._stream,
            mismatch.version,
            delivery,
            mismatch.recorded,
            mismatch.produced,
            cause,
            other_code=recorded is not None and self._now.differs(recorded),
            differences=mismatch.differences,
            code=None if recorded is None else self._now.against(recorded, machine.activation),
            before=_before(delivery, past),
        )

    async def _stand(self, incarnation: Incarnation, machine: Machine, past: Past) -> None:
        """Let what the last completed handler left behind run out, then stop for good."""
        completed = machine.last is not None and machine.last.type is EventType.DELIVERY_COMPLETED
        if completed and incarnation.session.machine is machine:
            free = machine.first_tick_free(await past.next_event())
            await outside_tasks(incarnation.session.loop, lambda: trail(incarnation.session, machine, free))
            found = incarnation.session.mismatch
            if found is not None and found.error is not None:
                raise found.error
        incarnation.end()

    async def _incarnate(
        self, machine: Machine | None, activation: RecordedEvent | None, snapshot: Snapshot | None, *, continues: bool
    ) -> Incarnation:
        incarnation = self._new(machine)
        incarnation.continues = continues
        if snapshot is not None and MADE in snapshot.metadata:
            producer: dict[str, Any] = snapshot.metadata.get(PRODUCER) or {}
            families = frozenset(producer.get(READINGS) or ())
            incarnation.construction.follow_record(snapshot.metadata[MADE], families)
        else:
            incarnation.construction.follow(activation)
        incarnation.agent = await self._build(incarnation)
        self._now, self._made = producer_of(incarnation.agent), incarnation.made
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
            code=now.against(recorded, activation.version) if recorded else None,
        )

    # -- snapshots ------------------------------------------------------------------------------------------------

    async def snapshot(self, past: Past, below: int) -> Snapshot | None:
        """The newest usable snapshot in this past at or below a version, of the agent's own stream."""
        while below > 0:
            found = await self._log.snapshots.latest_snapshot(
                past.lineage.stream, below, without_status=(TAKEN, FAILED)
            )
            if found is None:
                return None
            if past.lineage.holds(found.stream, found.version) and usable(found):
                return found
            below = found.version - 1
        return None

    async def _load(self, incarnation: Incarnation, machine: Machine, snapshot: Snapshot) -> None:
        assert incarnation.agent is not None
        set_clock(incarnation, machine, snapshot)
        agent = incarnation.agent
        await put(snapshot, agent, self._log.codec, self.outside(agent), incarnation.borrowed)


def _before(delivery: int | None, past: Past) -> int | None:
    """The version of the agent to which it can go back from a delivery that can't be replayed, where there is one.

    In the past of a fork, deliveries are numbered as in the stream that it came from, and so say nothing of its own.
    """
    forked = any(one.stream != past.lineage.stream for one in past.lineage.segments)
    return None if delivery is None or delivery < 2 or forked else delivery - 1


class _Seen:
    """Counts events as they go by."""

    def __init__(self) -> None:
        self.events = 0

    async def watch(self, events: AsyncIterator[RecordedEvent]) -> AsyncIterator[RecordedEvent]:
        async for event in events:
            self.events += 1
            yield event
