"""Writing the present pasts of a session's agents into a file; nothing is touched."""

from __future__ import annotations

import asyncio
import heapq
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from autogen_core import AgentId

from autogen_eventlog.checking.history import package_version
from autogen_eventlog.errors import UnknownStream
from autogen_eventlog.events import RecordedEvent
from autogen_eventlog.ids import FIRST_AGENT
from autogen_eventlog.lineage import Lineage, events_of, lineage
from autogen_eventlog.log import EventLog
from autogen_eventlog.points import point
from autogen_eventlog.postgres.records import whole
from autogen_eventlog.transfer.session_file import Entry, SessionHeader, SessionLines

Progress = Callable[[int, int], None]
"""Called with the events done so far and their whole number."""

_PAGE = 256
_ATTEMPTS = 10
_TOLD_EVERY = 500


@dataclass(frozen=True, slots=True)
class ExportedSession:
    """What was written."""

    path: Path
    agents: tuple[tuple[str, int], ...]
    """Ids and versions."""
    events: int
    waiting: int
    """Messages in it that had not reached everybody they were for."""


async def export_session(
    log: EventLog,
    agents: Iterable[AgentId | str] | None,
    path: Path,
    *,
    correlation: UUID | None = None,
    on_progress: Progress | None = None,
) -> ExportedSession:
    """Write the present pasts of agents into a file, as they were at one moment (a consistent cut), every event exact.

    A file of that name is replaced once the new one is whole. What restores left behind is not in it.

    Args:
        agents: Ids. None: those that had a part in a conversation.
        correlation: The conversation.
        on_progress: Called now and then.

    Raises:
        UnknownStream: The log holds no event of an agent, or nothing of the conversation.
        EventsMissing: A past is not kept from its beginning on.
        PayloadCorrupt: The large payload of an event is gone or altered. No file is written.
        ValueError: Not one of `agents` and `correlation` was given.
        OSError: The file can't be written.
    """
    if (agents is None) is (correlation is None):
        raise ValueError("give one of agents and correlation")
    found = await _agents_of(log, correlation) if correlation is not None else {str(agent) for agent in agents or ()}
    if not found:
        raise UnknownStream(str(correlation or "no agent"), "now")
    pasts, waiting = await _at_one_moment(log, sorted(found))
    exported_by = f"autogen-eventlog {package_version()}"
    header = SessionHeader(tuple(pasts), waiting, None if correlation is None else str(correlation), exported_by)
    await _write(log, path, header, on_progress)
    return ExportedSession(path, tuple((one.stream, one.version) for one in pasts), header.events, len(waiting))


async def _agents_of(log: EventLog, correlation: UUID) -> set[str]:
    """The agents that had a part in a conversation."""
    events = await log.audit.conversation(correlation)
    return {event.stream for event in events if event.stream > FIRST_AGENT}


async def _at_one_moment(log: EventLog, agents: Sequence[str]) -> tuple[list[Lineage], frozenset[UUID]]:
    """The pasts, and which messages in them have not reached everybody.

    What waits is known of now. While the agents are at work the two don't belong together, and it is looked again.
    """
    for _ in range(_ATTEMPTS - 1):
        pasts = await _pasts(log, agents)
        waiting = await _waiting(log, pasts)
        if await _versions(log, agents) == {past.stream: past.version for past in pasts}:
            return pasts, waiting
    pasts = await _pasts(log, agents)
    return pasts, await _waiting(log, pasts)


async def _versions(log: EventLog, agents: Sequence[str]) -> dict[str, int]:
    heads = [await log.head(agent) for agent in agents]
    return {head.stream: head.version for head in heads if head is not None}


async def _waiting(log: EventLog, pasts: Sequence[Lineage]) -> frozenset[UUID]:
    """Messages of these pasts that were accepted and have not reached everybody they were for."""
    found: set[UUID] = set()
    for past in pasts:
        after: int | None = None
        while page := await log.audit.undelivered(sender=past.stream, after=after, limit=_PAGE):
            after = page[-1].position
            found.update(event.id for event in page if past.holds(event.stream, event.version))
    return frozenset(found)


async def _pasts(log: EventLog, agents: Sequence[str]) -> list[Lineage]:
    """The past of each at one position of the log."""
    heads = [await log.head(agent) for agent in agents]
    for agent, head in zip(agents, heads, strict=True):
        if head is None or head.version == 0:
            raise UnknownStream(agent, "now")
    newest = max(head.position for head in heads if head is not None)
    where = point(position=newest)
    await where.settle(log.reader)
    cut = point(position=await log.reader.whole_restored(newest))
    return [await lineage(log.reader, agent, await log.resolve(agent, cut)) for agent in agents]


async def _write(log: EventLog, path: Path, header: SessionHeader, on_progress: Progress | None) -> None:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
    lines = SessionLines()
    try:
        with await asyncio.to_thread(unfinished.open, "wb") as file:
            file.write(lines.header(header))
            done = 0
            async with aclosing(_merged(log, header.lineages)) as entries:
                async for entry in entries:
                    whole(entry.event)
                    file.write(lines.entry(entry))
                    done += 1
                    if on_progress is not None and done % _TOLD_EVERY == 0:
                        on_progress(done, header.events)
        await asyncio.to_thread(unfinished.replace, path)
    finally:
        unfinished.unlink(missing_ok=True)


async def _merged(log: EventLog, pasts: Sequence[Lineage]) -> AsyncGenerator[Entry, None]:
    """The events of all pasts in the order of the log; one page of each in memory."""
    async with AsyncExitStack() as stack:
        sources: list[AsyncIterator[RecordedEvent]] = [
            await stack.enter_async_context(aclosing(events_of(log.reader, past.segments, batch=_PAGE)))
            for past in pasts
        ]
        waiting = [
            (event.position, number, event) for number, source in enumerate(sources) async for event in _next(source)
        ]
        heapq.heapify(waiting)
        while waiting:
            _, number, event = heapq.heappop(waiting)
            yield Entry(pasts[number].stream, event)
            async for following in _next(sources[number]):
                heapq.heappush(waiting, (following.position, number, following))


async def _next(source: AsyncIterator[RecordedEvent]) -> AsyncGenerator[RecordedEvent, None]:
    """The next event, if there is one."""
    try:
        yield await anext(source)
    except StopAsyncIteration:
        return
