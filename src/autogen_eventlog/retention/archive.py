"""Where events go before they leave the log: files that hold every column of every event, exactly."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol, cast

from autogen_eventlog.checking.lines import Chain, event_form
from autogen_eventlog.errors import RetentionRefused
from autogen_eventlog.events import RecordedEvent
from autogen_eventlog.postgres.partitions import Partition, Sums

_BATCH = 10_000


class Archive(Protocol):
    """Takes the events of a month. Yours may put them anywhere; once `write` returns they must be safe."""

    async def write(self, partition: Partition, sums: Sums, events: AsyncIterator[RecordedEvent]) -> str:
        """Keep them.

        Returns:
            Where they are, in words that are recorded in the log.
        """
        ...


class JsonLinesArchive:
    """One file a month, `event_2026_01.events.jsonl`: a header, an event a line in global order, and how many there were.

    Each line is closed by a sum over itself and everything before it, as in a history file. A file is there whole or not at
    all.

    Args:
        directory: Made if it is not there.
    """

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)

    async def write(self, partition: Partition, sums: Sums, events: AsyncIterator[RecordedEvent]) -> str:
        path = _file(self._directory, partition, ".events.jsonl")
        chain, count = Chain(), 0
        with _whole(path) as file:
            file.write(chain.close({"format": 1, "events_of": partition.name, "events": sums.events}))
            async for event in events:
                file.write(chain.close({**event_form(event, event.stream), "stream": event.stream}))
                count += 1
            file.write(chain.close({"end": count}))
            _check_count(partition, sums, count)
            file.keep()
        return str(path)


class ParquetArchive:
    """One file a month, `event_2026_01.parquet`, a row an event in global order; needs `pyarrow` (the extra `parquet`).

    Ids are text, `payload` is binary, `metadata` JSON text.

    Args:
        directory: Made if it is not there.

    Raises:
        ImportError: pyarrow is not installed.
    """

    def __init__(self, directory: str | Path) -> None:
        import pyarrow  # noqa: F401  # pyright: ignore

        self._directory = Path(directory)

    async def write(self, partition: Partition, sums: Sums, events: AsyncIterator[RecordedEvent]) -> str:
        from pyarrow import parquet  # pyright: ignore

        path = _file(self._directory, partition, ".parquet")
        columns, count = _columns(), 0
        with _whole(path) as file:
            writer: Any = cast(Any, parquet).ParquetWriter(file.raw, columns, compression="zstd")
            rows: list[dict[str, Any]] = []
            async for event in events:
                rows.append(_row(event))
                count += 1
                if len(rows) == _BATCH:
                    writer.write_table(_table(rows, columns))
                    rows = []
            writer.write_table(_table(rows, columns))
            writer.close()
            _check_count(partition, sums, count)
            file.keep()
        return str(path)


def _file(directory: Path, partition: Partition, suffix: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory / f"{partition.name}{suffix}"


def _check_count(partition: Partition, sums: Sums, count: int) -> None:
    if count != sums.events:
        problem = f"{count} events were archived, and {sums.events} were planned"
        raise RetentionRefused(partition.name, problem, "Look again: plan anew")


class _whole:
    """A file that is there whole, and safe on the disk, or not at all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._kept = False

    def __enter__(self) -> _whole:
        self.raw = self._part.open("wb")
        return self

    def write(self, data: bytes) -> None:
        self.raw.write(data)

    def keep(self) -> None:
        self._kept = True

    def __exit__(self, *exc_info: object) -> None:
        if self._kept:
            self.raw.flush()
            os.fsync(self.raw.fileno())
        self.raw.close()
        if not self._kept:
            self._part.unlink()
            return
        self._part.replace(self._path)
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


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
