"""Lineage: which events lead to a version, across restores and forks.

A stream only grows. `StreamRestored` says that what follows continues from an earlier version, `StreamForked` that it
continues from another stream; the events between are a branch that was left, still readable, but no past of what follows.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from autogen_eventlog.errors import EventsMissing
from autogen_eventlog.events import RecordedEvent
from autogen_eventlog.postgres.reader import Reader


@dataclass(frozen=True, slots=True)
class Branch:
    """The event at `version` continues from `from_version` of `from_stream`."""

    version: int
    from_stream: str
    from_version: int


@dataclass(frozen=True, slots=True)
class Segment:
    """The events of a stream with after_version < version <= until_version."""

    stream: str
    after_version: int
    until_version: int

    @property
    def size(self) -> int:
        """How many events it has."""
        return self.until_version - self.after_version


@dataclass(frozen=True, slots=True)
class Lineage:
    """Segments in order: the whole past of one version."""

    stream: str
    version: int
    segments: tuple[Segment, ...]

    def after(self, stream: str, version: int) -> tuple[Segment, ...]:
        """What follows the given version of the lineage (a snapshot's)."""
        for index, segment in enumerate(self.segments):
            if segment.stream == stream and segment.after_version <= version <= segment.until_version:
                rest = Segment(stream, version, segment.until_version)
                return (rest, *self.segments[index + 1 :])
        raise ValueError(f"version {version} of {stream!r} is not in this lineage")

    def until(self, stream: str, version: int) -> tuple[Segment, ...]:
        """What leads to the given version of the lineage."""
        rest = self.after(stream, version)
        before = self.segments[: len(self.segments) - len(rest)]
        return (*before, Segment(stream, self.segments[len(before)].after_version, version))

    def size_after(self, stream: str, version: int) -> int:
        """How many events follow the given version."""
        return sum(segment.size for segment in self.after(stream, version))

    @property
    def size(self) -> int:
        """How many events it has."""
        return sum(segment.size for segment in self.segments)

    def holds(self, stream: str, version: int) -> bool:
        """Whether a version of a stream is in this past."""
        return any(
            segment.stream == stream and segment.after_version < version <= segment.until_version
            for segment in self.segments
        )


def cut(stream: str, version: int, branches: Sequence[Branch]) -> tuple[Branch | None, Segment]:
    """The last segment of the past of `version`, and the branch it begins with, if any.

    Args:
        branches: Those of the stream, ascending.
    """
    last = next((branch for branch in reversed(branches) if branch.version <= version), None)
    return last, Segment(stream, 0 if last is None else last.version - 1, version)


async def lineage(reader: Reader, stream: str, version: int) -> Lineage:
    """The whole past of a version."""
    known: dict[str, list[Branch]] = {}
    segments: list[Segment] = []
    at_stream, at_version = stream, version
    while at_version > 0:
        if at_stream not in known:
            known[at_stream] = await branches(reader, at_stream)
        branch, segment = cut(at_stream, at_version, known[at_stream])
        segments.append(segment)
        if branch is None:
            break
        at_stream, at_version = branch.from_stream, branch.from_version
    return Lineage(stream, version, tuple(reversed(segments)))


async def branches(reader: Reader, stream: str) -> list[Branch]:
    """Where a stream was restored or forked, ascending."""
    rows = await reader.pool.fetch("branches", {"stream": stream})
    return [Branch(*row) for row in rows]


async def events_of(
    reader: Reader, segments: Sequence[Segment], *, batch: int = 1000
) -> AsyncGenerator[RecordedEvent, None]:
    """The events of segments, in order; one page of `batch` events in memory.

    Raises:
        EventsMissing: The log does not hold all of them.
    """
    for segment in segments:
        following = segment.after_version + 1
        async for event in reader.read(
            segment.stream, after_version=segment.after_version, until_version=segment.until_version, batch=batch
        ):
            if event.version != following:
                raise EventsMissing.gone(segment.stream, following, event.version - 1, segment.until_version)
            following += 1
            yield event
        if following <= segment.until_version:
            raise EventsMissing.gone(segment.stream, following, segment.until_version, segment.until_version)
