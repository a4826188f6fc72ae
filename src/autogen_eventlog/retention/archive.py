"""Where events go before they leave the log: files that hold every column of every event, exactly."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast
from uuid import uuid4

from autogen_eventlog.checking.lines import Chain, event_form
from autogen_eventlog.errors import RetentionRefused
from autogen_eventlog.events import RecordedEvent
from autogen_eventlog.postgres.partitions import Partition, Sums

_BATCH = 10_000
_PIECE = 1 << 20
_DIGITS = 16
"""Of a file's SHA-256 that are in its name: files that differ never have the same one, as far as chance goes."""


class Archive(Protocol):
    """Takes the events of a month. Yours may put them anywhere; once `write` returns they must be safe."""

    async def write(self, partition: Partition, sums: Sums, events: AsyncIterator[RecordedEvent]) -> str:
        """Keep them.

        Returns:
            Where they are, in words that are recorded in the log.
        """
        ...


class JsonLinesArchive:
    """One file a month, `event_2026_01-<digest>.events.jsonl`: a header, an event a line in global order, and their number.

    Each line is closed by a sum over itself and everything before it, as in a history file. A file is there whole, and was
    read back, or not at all; two that differ have different names, so months of several logs can lie in one directory.

    Args:
        directory: Made if it is not there.
    """

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)

    async def write(self, partition: Partition, sums: Sums, events: AsyncIterator[RecordedEvent]) -> str:
        """Keep them.

        Raises:
            RetentionRefused: There were more or fewer than planned, the file reads back otherwise than it was written, or
                another stands in its place.
            OSError: The directory does not take it.
        """
        with _part(self._directory, partition) as part:
            with _written(part) as file:
                chain, count = Chain(), 0
                file.write(chain.close({"format": 1, "events_of": partition.name, "events": sums.events}))
                async for event in events:
                    file.write(chain.close({**event_form(event, event.stream), "stream": event.stream}))
                    count += 1
                file.write(chain.close({"end": count}))
            _check_count(partition, sums, count)
            return await asyncio.to_thread(_keep, part, partition, sums, _lines_in, ".events.jsonl")


class ParquetArchive:
    """One file a month, `event_2026_01-<digest>.parquet`, a row an event in global order; needs `pyarrow` (extra `parquet`).

    Ids are text, `payload` is binary, `metadata` JSON text. Files as with `JsonLinesArchive`.

    Args:
        directory: Made if it is not there.

    Raises:
        ImportError: pyarrow is not installed.
    """

    def __init__(self, directory: str | Path) -> None:
        import pyarrow  # noqa: F401  # pyright: ignore

        self._directory = Path(directory)

    async def write(self, partition: Partition, sums: Sums, events: AsyncIterator[RecordedEvent]) -> str:
        """Keep them. Raises what `JsonLinesArchive.write` raises."""
        with _part(self._directory, partition) as part:
            with _written(part) as file:
                count = await _write_rows(file, events)
            _check_count(partition, sums, count)
            return await asyncio.to_thread(_keep, part, partition, sums, _rows_in, ".parquet")


# -- files --------------------------------------------------------------------------------------------------------


@contextmanager
def _part(directory: Path, partition: Partition) -> Generator[Path]:
    """A name for what is being written, which nobody else has; a file of it that was not kept is removed."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{partition.name}-{uuid4().hex}.part"
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def _written(path: Path) -> Generator[BinaryIO]:
    """A new file; safe on the disk at the end."""
    with path.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _keep(part: Path, partition: Partition, sums: Sums, count_in: Callable[[Path], int], suffix: str) -> str:
    """Give a file its name, once what is on the disk was read. Its name comes from what is in it, so it replaces nothing else.

    The same month of the same log gives the same file: one that is there already was written before, by a retention that
    ended before it had removed the month.
    """
    try:
        _check_count(partition, sums, count_in(part))
    except ValueError as error:  # pyarrow's own errors are such, too
        problem = f"what was written to {part.parent} reads back otherwise: {error}"
        raise RetentionRefused(partition.name, problem, "Look at the disk, and at what else writes there") from None
    digest = _digest(part)
    path = part.with_name(f"{partition.name}-{digest[:_DIGITS]}{suffix}")
    if path.exists() and _digest(path) != digest:
        problem = f"{path} is not what was written there, or not whole"
        raise RetentionRefused(partition.name, problem, "Move it away, and find out what became of it")
    part.replace(path)
    _sync(path.parent)
    return str(path)


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            found.update(piece)
    return found.hexdigest()


def _sync(directory: Path) -> None:
    """What names the directory has is safe on the disk."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _check_count(partition: Partition, sums: Sums, count: int) -> None:
    if count != sums.events:
        problem = f"{count} events were archived, and {sums.events} were planned"
        raise RetentionRefused(partition.name, problem, "Look again: plan anew")


def _lines_in(path: Path) -> int:
    """How many events a file of lines holds.

    Raises:
        ValueError: It is not what was written.
    """
    chain, said = Chain(), 0
    lines = 0
    with path.open("rb") as file:
        for line in file:
            said = chain.opened(line.rstrip(b"\n")).get("end")
            lines += 1
    if said != lines - 2:
        raise ValueError("its end is missing")
    return lines - 2


# -- rows ---------------------------------------------------------------------------------------------------------


async def _write_rows(file: BinaryIO, events: AsyncIterator[RecordedEvent]) -> int:
    from pyarrow import parquet  # pyright: ignore

    columns, count = _columns(), 0
    rows: list[dict[str, Any]] = []
    with cast(Any, parquet).ParquetWriter(file, columns, compression="zstd", write_page_checksum=True) as writer:
        async for event in events:
            rows.append(_row(event))
            count += 1
            if len(rows) == _BATCH:
                writer.write_table(_table(rows, columns))
                rows = []
        writer.write_table(_table(rows, columns))
    return count


def _rows_in(path: Path) -> int:
    """How many rows a file of them holds, every page of it read.

    Raises:
        ValueError: It is not what was written.
    """
    from pyarrow import parquet  # pyright: ignore

    try:
        with cast(Any, parquet).ParquetFile(path, page_checksum_verification=True) as file:
            return sum(batch.num_rows for batch in file.iter_batches(_BATCH))
    except OSError as error:  # what pyarrow says of a page that is damaged
        raise ValueError(str(error)) from None


def _columns() -> Any:
    import pyarrow  # pyright: ignore

    arrow = cast(Any, pyarrow)
    text, number, moment = arrow.string(), arrow.int64(), arrow.timestamp("us", tz="UTC")
    return arrow.schema(
        [
            *(("stream", text), ("version", number), ("position", number), ("epoch", number), ("recorded_at", moment)),
            *(("id", text), ("type", text), ("occurred_at", moment), ("delivery", number), ("call", number)),
            *(("sender", text), ("recipient", text), ("topic", text), ("message_id", text), ("message_type", text)),
            *(("payload", arrow.binary()), ("outcome", text), ("cause", text), ("correlation", text)),
            ("metadata", text),
        ]
    )


def _row(event: RecordedEvent) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(event, name) for name in RecordedEvent.__dataclass_fields__}
    row |= {"type": event.type.value, "metadata": json.dumps(event.metadata)}
    row["outcome"] = None if event.outcome is None else event.outcome.value
    for name in ("id", "cause", "correlation"):
        row[name] = None if row[name] is None else str(row[name])
    return row


def _table(rows: list[dict[str, Any]], columns: Any) -> Any:
    import pyarrow  # pyright: ignore

    return cast(Any, pyarrow).Table.from_pylist(rows, schema=columns)
