"""A session as a file: the present pasts of several agents, each event exact, in the order of the log.

JSON Lines, closed as those of a history (`checking.lines`). The first line says whose pasts they are, then come the events of
all of them in the order in which they were recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from autogen_eventlog.checking.lines import Chain, event_form, event_of
from autogen_eventlog.errors import InvalidHistory
from autogen_eventlog.events import RecordedEvent
from autogen_eventlog.lineage import Lineage, Segment

SUFFIX = ".session.jsonl"
_FORMAT = "autogen-eventlog session"
_FORMAT_VERSION = 1

_NEWER = "Read it with the version of autogen-eventlog that wrote it, or a later one"
_NO_SESSION = "Give a file that `eventlog export --out` wrote"
_AGAIN = "Export it again (eventlog export --out)"


@dataclass(frozen=True, slots=True)
class SessionHeader:
    """What the first line says."""

    lineages: tuple[Lineage, ...]
    """The past of each agent, in order of their ids."""
    waiting: frozenset[UUID] = frozenset()
    """Events of them that are messages which had not reached everybody they were for."""
    correlation: str | None = None
    """The conversation that the agents were found by."""
    exported_by: str = ""

    @property
    def events(self) -> int:
        """How many there are in all."""
        return sum(one.size for one in self.lineages)


@dataclass(frozen=True, slots=True)
class Entry:
    """One event in the past of one agent."""

    agent: str
    event: RecordedEvent


class SessionLines:
    """Makes the lines of one file, in their order."""

    def __init__(self) -> None:
        self._chain = Chain()

    def header(self, header: SessionHeader) -> bytes:
        """The first line."""
        agents = [
            {
                "agent": one.stream,
                "version": one.version,
                "lineage": [[each.stream, each.after_version, each.until_version] for each in one.segments],
            }
            for one in header.lineages
        ]
        return self._chain.close(
            {
                "format": _FORMAT,
                "format_version": _FORMAT_VERSION,
                "agents": agents,
                "events": header.events,
                "waiting": sorted(map(str, header.waiting)),
                "correlation": header.correlation,
                "exported_by": header.exported_by,
            }
        )

    def entry(self, entry: Entry) -> bytes:
        """An event's line."""
        return self._chain.close({"agent": entry.agent, **event_form(entry.event, entry.agent)})


class SessionFile:
    """A session's file, read line by line as often as it is asked; each line is checked each time."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            InvalidHistory: It is no session.
            OSError: It can't be read.
        """
        self.path = path
        with path.open("rb") as file:
            self.header = self._header(self._opened(Chain(), 1, file.readline()))

    def entries(self) -> Iterator[Entry]:
        """Its events in order.

        Raises:
            InvalidHistory: A line is not what was written: truncated, edited, reordered.
        """
        chain = Chain()
        places = {one.stream: _places(one) for one in self.header.lineages}
        with self.path.open("rb") as file:
            self._opened(chain, 1, file.readline())
            for number in range(2, self.header.events + 2):
                yield self._entry(number, self._opened(chain, number, file.readline()), places)
            if file.readline():
                raise self._invalid(self.header.events + 2, "there is more behind the end of the session")

    # -- inside ---------------------------------------------------------------------------------------------------

    def _opened(self, chain: Chain, number: int, line: bytes) -> dict[str, Any]:
        if not line.endswith(b"\n"):
            raise self._invalid(number, "the file ends in it or before it: it was truncated")
        try:
            return chain.opened(line[:-1].removesuffix(b"\r"))
        except (ValueError, RecursionError) as error:
            if number == 1:
                raise self._invalid(1, f"it is not the first line of a session ({error})", _NO_SESSION) from None
            raise self._invalid(number, str(error)) from None

    def _header(self, said: dict[str, Any]) -> SessionHeader:
        if said.get("format") != _FORMAT:
            raise self._invalid(1, f"its format is {said.get('format')!r}, not {_FORMAT!r}", _NO_SESSION)
        if said.get("format_version") != _FORMAT_VERSION:
            problem = f"its format has version {said.get('format_version')!r}, and {_FORMAT_VERSION} is known here"
            raise self._invalid(1, problem, _NEWER)
        try:
            lineages = tuple(
                Lineage(one["agent"], one["version"], tuple(Segment(*each) for each in one["lineage"]))
                for one in said["agents"]
            )
            waiting = frozenset(map(UUID, said["waiting"]))
            return SessionHeader(lineages, waiting, said.get("correlation"), said.get("exported_by") or "")
        except (KeyError, TypeError, ValueError) as error:
            raise self._invalid(1, f"it does not say what a session's first line says ({error!r})") from None

    def _entry(self, number: int, form: dict[str, Any], places: dict[str, Iterator[tuple[str, int]]]) -> Entry:
        try:
            agent = str(form["agent"])
            event = event_of(form, agent)
            expected = next(places[agent], None)
        except (KeyError, TypeError, ValueError) as error:
            raise self._invalid(number, f"it is no event ({error!r})") from None
        if (event.stream, event.version) != expected:
            raise self._invalid(
                number, f"version {event.version} of {event.stream!r} is not what follows for {agent!r}"
            )
        return Entry(agent, event)

    def _invalid(self, line: int, problem: str, remedy: str = _AGAIN) -> InvalidHistory:
        return InvalidHistory(str(self.path), line, problem, remedy)


def _places(lineage: Lineage) -> Iterator[tuple[str, int]]:
    for segment in lineage.segments:
        for number in range(segment.after_version + 1, segment.until_version + 1):
            yield segment.stream, number
