"""An agent's history as a file: the past of its last version, replayed without a database.

JSON Lines. The first line says whose it is and who recorded it, then come the events in order, with every column exact,
and the last line has the state that the code at hand ended in when it was exported. See `lines` for how a line is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from autogen_eventlog.checking.lines import Chain, event_form, event_of
from autogen_eventlog.checking.states import KeptState
from autogen_eventlog.errors import InvalidHistory
from autogen_eventlog.events import EventType, RecordedEvent
from autogen_eventlog.lineage import Lineage, Segment
from autogen_eventlog.past import Activation, Past, Place, makes_first
from autogen_eventlog.postgres.records import whole

SUFFIX = ".history.jsonl"
_FORMAT = "autogen-eventlog history"
_FORMAT_VERSION = 1

_NEWER = "Read it with the version of autogen-eventlog that wrote it, or a later one"
_NO_HISTORY = "Give a file that `eventlog export --history` wrote"


@dataclass(frozen=True, slots=True)
class History:
    """A history in memory: a `Past` that needs no log."""

    path: str
    agent: str
    producer: dict[str, Any]
    """Who recorded its last part; empty if that is not known."""
    lineage: Lineage
    recorded: tuple[RecordedEvent, ...]
    """Its events, in order."""
    state: KeptState | None
    """What the code ended in that was at hand when it was exported; None: none was kept."""

    @property
    def version(self) -> int:
        """Of its last event."""
        return self.lineage.version

    async def events(self, after: Place | None = None) -> AsyncGenerator[RecordedEvent, None]:
        size = self.lineage.size if after is None else self.lineage.size_after(*after)
        for event in self.recorded[len(self.recorded) - size :]:
            yield event

    async def first_activation(self) -> RecordedEvent | None:
        return next((event for event in self.recorded if makes_first(event)), None)

    async def last_activation(self, until: Place | None = None) -> Activation | None:
        size = 0 if until is None else self.lineage.size_after(*until)
        for event in reversed(self.recorded[: len(self.recorded) - size]):
            if event.type is EventType.AGENT_ACTIVATED:
                return Activation(event.version, event.metadata.get("producer") or {})
        return None

    async def next_event(self) -> RecordedEvent | None:
        return None


# -- writing ------------------------------------------------------------------------------------------------------


async def write_history(path: Path, past: Past, state: KeptState | None) -> int:
    """Write a past into a file, in one piece: a file of that name is replaced once the new one is whole.

    Returns:
        The number of events in it.

    Raises:
        OSError: The file can't be written.
        PayloadCorrupt: The log has lost the payload of an event; no file is left.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
    try:
        with await asyncio.to_thread(unfinished.open, "wb") as file:
            async for line in _lines(past, state):
                file.write(line)
        await asyncio.to_thread(unfinished.replace, path)
    finally:
        unfinished.unlink(missing_ok=True)
    return past.lineage.size


async def _lines(past: Past, state: KeptState | None) -> AsyncIterator[bytes]:
    chain, agent = Chain(), past.lineage.stream
    yield chain.close(await _header(past))
    async with contextlib.aclosing(past.events()) as events:
        async for event in events:
            yield chain.close(event_form(whole(event), agent))
    kept: dict[str, Any] = {"state": None, "digest": None}
    if state is not None:
        kept = {"state": state.form, "digest": state.digest}
    yield chain.close(kept)


async def _header(past: Past) -> dict[str, Any]:
    last = await past.last_activation()
    producer = {} if last is None else {name: value for name, value in last.producer.items() if name != "worker"}
    return {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        "agent": past.lineage.stream,
        "version": past.lineage.version,
        "events": past.lineage.size,
        "lineage": [[one.stream, one.after_version, one.until_version] for one in past.lineage.segments],
        "recorded_by": producer,
        "exported_by": f"autogen-eventlog {package_version()}",
    }


def package_version() -> str:
    """Of this package."""
    try:
        return version("autogen-eventlog")
    except PackageNotFoundError:  # run from a checkout
        return "(not installed)"


# -- reading ------------------------------------------------------------------------------------------------------


def read_history(path: Path) -> History:
    """A history from its file, every line checked.

    Raises:
        InvalidHistory: It is none, or was truncated, edited or reordered.
        OSError: The file can't be read.
    """
    return _Reading(str(path), path.read_bytes()).history()


class _Reading:
    """Reads one file, line by line."""

    def __init__(self, path: str, data: bytes) -> None:
        self._path = path
        self._lines = data.split(b"\n")
        self._ended = self._lines[-1] == b""
        if self._ended:
            self._lines.pop()
        self._chain = Chain()

    def history(self) -> History:
        header = self._form(1)
        agent, lineage = self._checked(header)
        places = list(_places(lineage))
        events = tuple(self._event(number, agent, place) for number, place in enumerate(places, 2))
        state = self._state(len(places) + 2)
        if len(self._lines) > len(places) + 2:
            raise self._invalid(len(places) + 3, "there is more behind the end of the history")
        return History(self._path, agent, header.get("recorded_by") or {}, lineage, events, state)

    def _form(self, number: int) -> dict[str, Any]:
        if len(self._lines) < number:
            raise self._invalid(number, f"the file ends before it, after {len(self._lines)} lines: it was truncated")
        if len(self._lines) == number and not self._ended:
            raise self._invalid(number, "the file ends in the middle of it: it was truncated")
        try:
            return self._chain.opened(self._lines[number - 1].removesuffix(b"\r"))
        except (ValueError, RecursionError) as error:
            if number == 1:
                raise self._invalid(1, f"it is not the first line of a history ({error})", _NO_HISTORY) from None
            raise self._invalid(number, str(error)) from None

    def _checked(self, header: dict[str, Any]) -> tuple[str, Lineage]:
        if header.get("format") != _FORMAT:
            raise self._invalid(1, f"its format is {header.get('format')!r}, not {_FORMAT!r}", _NO_HISTORY)
        if header.get("format_version") != _FORMAT_VERSION:
            problem = f"its format has version {header.get('format_version')!r}, and {_FORMAT_VERSION} is known here"
            raise self._invalid(1, problem, _NEWER)
        try:
            segments = tuple(Segment(*one) for one in header["lineage"])
            past = Lineage(header["agent"], header["version"], segments)
            if past.size != header["events"]:
                raise ValueError(f"{header['events']} events are said, the lineage has {past.size}")
        except (KeyError, TypeError, ValueError) as error:
            raise self._invalid(1, f"it does not say what a history's first line says ({error})") from None
        return past.stream, past

    def _event(self, number: int, agent: str, place: Place) -> RecordedEvent:
        form = self._form(number)
        try:
            event = event_of(form, agent)
        except (KeyError, TypeError, ValueError) as error:
            raise self._invalid(number, f"it is no event ({error!r})") from None
        if (event.stream, event.version) != place:
            found = f"version {event.version} of {event.stream!r}"
            raise self._invalid(number, f"expected version {place[1]} of {place[0]!r}, found {found}")
        return event

    def _state(self, number: int) -> KeptState | None:
        form = self._form(number)
        if "state" not in form:
            raise self._invalid(number, "it is not the last line of a history")
        if form["state"] is None:
            return None
        state = KeptState.of(form["state"])
        if state.digest != form.get("digest"):
            raise self._invalid(number, "the state is not the one that its digest is of")
        return state

    def _invalid(self, line: int, problem: str, remedy: str | None = None) -> InvalidHistory:
        if remedy is None:
            return InvalidHistory(self._path, line, problem)
        return InvalidHistory(self._path, line, problem, remedy)


def _places(lineage: Lineage) -> Iterator[Place]:
    """Which event stands on each line."""
    for segment in lineage.segments:
        for number in range(segment.after_version + 1, segment.until_version + 1):
            yield segment.stream, number
