"""Bringing a session's file into a log, under new ids: whole, and not twice."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from autogen_eventlog.checking.history import History
from autogen_eventlog.checking.report import CheckReport
from autogen_eventlog.errors import AlreadyLives
from autogen_eventlog.events import EventData, RecordedEvent, new_recorded_event
from autogen_eventlog.lineage import Lineage, Segment
from autogen_eventlog.log import EventLog
from autogen_eventlog.postgres.ticket import Ticket
from autogen_eventlog.transfer.copying import Copies
from autogen_eventlog.transfer.renaming import Renaming
from autogen_eventlog.transfer.session_file import SessionFile

if TYPE_CHECKING:
    from autogen_eventlog.runtime.in_process import EventSourcedAgentRuntime

Progress = Callable[[int, int], None]
"""Called with the events done so far and their whole number."""

_LARGEST_RUN = 500
"""Events in one append, and fewer if they are large."""
_EVENT_BYTES = 8192
_IN_FLIGHT = 2000
"""Appends that are under way before the oldest is waited for."""


@dataclass(frozen=True, slots=True)
class ImportedAgent:
    """One agent of an imported session."""

    source: str
    """Its id in the log that it comes from."""
    agent: str
    """Its id here."""
    version: int
    """Of its last imported event."""
    appended: int
    """Events that this import appended; the others were there."""


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """What an import did."""

    agents: tuple[ImportedAgent, ...]

    @property
    def appended(self) -> int:
        """How many events this import appended; 0: all were there."""
        return sum(one.appended for one in self.agents)


async def import_session(
    log: EventLog,
    path: Path,
    rename: Mapping[str, str] | None = None,
    *,
    key_prefix: str = "",
    on_progress: Progress | None = None,
) -> ImportedSession:
    """Append a session's events to this log, in the order in which they were recorded, under new ids.

    Ids follow from the ids in the file and from the renaming, so a second import appends nothing, and one that was killed is
    completed by the next. Events keep `occurred_at`, message ids and payloads, byte for byte; `recorded_at` and positions are
    those of the import; `metadata["imported_from"]` of each says where it comes from. Nothing is read of the agents' code.

    Args:
        rename: Old names to new ones, of keys or of agents (`type/key`). A key's new name is that of every agent with it, of
            topics with this source, and of a team of AgentChat's with this id.
        key_prefix: Put before every other key.
        on_progress: Called now and then.

    Raises:
        InvalidHistory: The file is none, or was changed; nothing was appended.
        InvalidRenaming: The renaming does not fit the session; nothing was appended.
        AlreadyLives: An agent of that id has another past here; nothing was appended.
        StreamOwned: A live worker has an agent of that id; nothing was appended.
        OSError: The file can't be read.
    """
    file = SessionFile(path)
    copies = Copies(file.header, Renaming(rename, key_prefix=key_prefix))
    for _ in file.entries():  # a file that is not whole changes nothing
        pass
    # A worker of its own: what a runtime on this log has under way is no matter of the import's.
    async with EventLog.open(log.dsn, schema=log.schema) as own:
        return await _Import(own, file, copies, on_progress).run()


async def check_session(
    runtime: EventSourcedAgentRuntime, path: Path, rename: Mapping[str, str] | None = None, *, key_prefix: str = ""
) -> CheckReport:
    """Whether the agents of a session, under their new ids, can be restored with the code at hand. Nothing is written.

    An agent that makes its id, or that of another, into what it sends does something else under a new one: that is a
    divergence.

    Raises:
        InvalidHistory, InvalidRenaming, OSError: As `import_session`.
        RecordingIncomplete: The runtime has no `EventLogHandler`.
    """
    file = SessionFile(path)
    copies = Copies(file.header, Renaming(rename, key_prefix=key_prefix))
    found: dict[str, list[RecordedEvent]] = {agent: [] for agent in copies.names}
    for entry in file.entries():
        made = copies.copy(entry)
        found[entry.agent].append(_recorded(made, copies.names[entry.agent], len(found[entry.agent]) + 1, entry.event))
    return await runtime.check([_history(str(path), copies.names[agent], events) for agent, events in found.items()])


def _recorded(made: EventData, stream: str, version: int, source: RecordedEvent) -> RecordedEvent:
    columns: dict[str, Any] = {each.name: getattr(made, each.name) for each in fields(EventData)}
    return new_recorded_event(
        **columns,
        stream=stream,
        version=version,
        position=source.position,
        epoch=source.epoch,
        recorded_at=source.recorded_at,
    )


def _history(path: str, agent: str, events: Sequence[RecordedEvent]) -> History:
    past = Lineage(agent, len(events), (Segment(agent, 0, len(events)),))
    return History(path, agent, {}, past, tuple(events), None)


class _Import:
    """One run."""

    def __init__(self, log: EventLog, file: SessionFile, copies: Copies, on_progress: Progress | None) -> None:
        self._log = log
        self._file = file
        self._copies = copies
        self._tell = on_progress
        self._there: dict[str, list[UUID]] = {}
        self._epochs: dict[str, int] = {}

    async def run(self) -> ImportedSession:
        sizes = {one.stream: one.size for one in self._file.header.lineages}
        for agent, name in self._copies.names.items():
            self._there[agent] = [event.id async for event in self._present(name, sizes[agent])]
        if any(self._there.values()):
            self._compare()
        lacking = [agent for agent, there in self._there.items() if len(there) < sizes[agent]]
        if lacking:
            await self._log.start_writing()
            await self._claim(lacking)
            await self._append()
        agents = [
            ImportedAgent(agent, name, sizes[agent], sizes[agent] - len(self._there[agent]))
            for agent, name in self._copies.names.items()
        ]
        return ImportedSession(tuple(agents))

    async def _present(self, stream: str, size: int) -> AsyncGenerator[RecordedEvent, None]:
        """What stands where the import would."""
        async with aclosing(self._log.reader.read(stream, until_version=size)) as events:
            async for event in events:
                yield event

    def _compare(self) -> None:
        """Whether what stands there is what an import before this one put there."""
        copies = self._copies.again()
        seen = dict.fromkeys(self._there, 0)
        for entry in self._file.entries():
            there, number = self._there[entry.agent], seen[entry.agent]
            if number < len(there) and there[number] != copies.copy(entry).id:
                raise AlreadyLives(copies.names[entry.agent], entry.agent, number + 1)
            seen[entry.agent] += 1

    async def _claim(self, agents: Sequence[str]) -> None:
        for agent in agents:
            name = self._copies.names[agent]
            claim = await self._log.ownership.claim(name)
            if claim.version != len(self._there[agent]):
                raise AlreadyLives(name, agent, len(self._there[agent]) + 1)
            self._epochs[agent] = claim.epoch

    async def _append(self) -> None:
        total, done = self._file.header.events, 0
        tickets: list[Ticket] = []
        for agent, after, events in self._runs():
            done += len(events)
            if agent in self._epochs:
                stream = self._copies.names[agent]
                tickets.append(self._log.writer.submit(stream, self._epochs[agent], after, events))
            if len(tickets) >= _IN_FLIGHT or self._log.writer.full:
                for ticket in tickets:
                    await ticket
                tickets.clear()
                if self._tell is not None:
                    self._tell(done, total)
        for ticket in tickets:
            await ticket

    def _runs(self) -> Iterator[tuple[str, int, list[EventData]]]:
        """What is to be appended, in the order of the file: stretches of one agent, and the version that each follows."""
        copies = self._copies.again()
        seen = dict.fromkeys(self._there, 0)
        agent, size, events = "", 0, list[EventData]()
        for entry in self._file.entries():
            made = copies.copy(entry)
            seen[entry.agent] += 1
            if seen[entry.agent] <= len(self._there[entry.agent]):
                continue
            if events and (entry.agent != agent or size >= _LARGEST_RUN):
                yield agent, seen[agent] - len(events) - (entry.agent == agent), events
                events, size = [], 0
            agent = entry.agent
            events.append(made)
            size += 1 + len(made.payload or b"") // _EVENT_BYTES
        if events:
            yield agent, seen[agent] - len(events), events
