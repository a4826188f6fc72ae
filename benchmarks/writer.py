"""How fast the writer is, against plain psycopg that inserts the same rows by unnest of binary arrays.

Both sides batch whatever arrived while the commit before was under way, through one connection. The plain side checks
nothing: no owner, no version, no head; its table has the columns and the indexes of `event`. Rounds alternate, so that
a noisy machine is noisy to both.

    python benchmarks/writer.py --dsn postgresql://...     a database of yours (uses schemas of its own)
    python benchmarks/writer.py                            the embedded server
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql

from autogen_eventlog.events import EventData, EventType
from autogen_eventlog.ids import EventIds
from autogen_eventlog.postgres.ownership import Ownership
from autogen_eventlog.postgres.schema import prepare
from autogen_eventlog.postgres.writer import Writer

SCHEMA = "eventlog_benchmark"
IDS = EventIds()
PAYLOAD = b'{"content": "' + b"x" * 596 + b'"}'

PLAIN_TABLE = """
CREATE TABLE plain (LIKE event INCLUDING INDEXES);
ALTER TABLE plain ALTER position ADD GENERATED ALWAYS AS IDENTITY, ALTER recorded_at SET DEFAULT clock_timestamp();
"""
COLUMNS = {
    "version": "bigint", "epoch": "bigint", "id": "uuid", "occurred_at": "timestamptz", "delivery": "bigint",
    "call": "bigint", "stream": "text", "type": "text", "sender": "text", "recipient": "text", "topic": "text",
    "message_id": "text", "message_type": "text", "outcome": "text", "cause": "uuid", "correlation": "uuid",
    "metadata": "text", "payload": "bytea",
}  # fmt: skip


@dataclass(frozen=True)
class Round:
    """One measurement."""

    events_per_second: float
    cpu_microseconds: float
    """Of this process, an event; the producers included."""
    batch: float


def an_event(number: int, cause: EventData | None) -> EventData:
    """A delivery such as a runtime records."""
    return EventData(
        id=IDS.next(),
        type=EventType.MESSAGE_DELIVERED,
        occurred_at=datetime.now(timezone.utc),
        delivery=number,
        sender="planner/7",
        topic="default/planner",
        message_id=str(number),
        message_type="benchmarks.writer:Message",
        payload=PAYLOAD,
        cause=cause.id if cause else None,
        correlation=cause.correlation if cause and cause.correlation else IDS.next(),
        metadata={"tick": number},
    )


class Plain:
    """The other side: a queue, a task, one INSERT a batch."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection
        self._queue: list[tuple[str, int, EventData, asyncio.Future[None]]] = []
        self._wake = asyncio.Event()
        self.commits = 0
        names = ", ".join(COLUMNS)
        arrays = ", ".join(f"%b::{kind}[]" for kind in COLUMNS.values())
        selected = names.replace("metadata", "metadata::json")
        self._insert = f"INSERT INTO plain ({names}) SELECT {selected} FROM unnest({arrays}) AS e ({names})".encode()

    async def append(self, stream: str, version: int, event: EventData) -> None:
        done = asyncio.get_running_loop().create_future()
        self._queue.append((stream, version, event, done))
        self._wake.set()
        await done

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                batch, self._queue = self._queue[:1000], self._queue[1000:]
                await self._connection.execute(self._insert, self._arrays(batch))
                self.commits += 1
                for *_, done in batch:
                    done.set_result(None)

    def _arrays(self, batch: list[tuple[str, int, EventData, asyncio.Future[None]]]) -> list[list[Any]]:
        rows = [
            (
                version, 1, e.id, e.occurred_at, e.delivery, e.call, stream, e.type.value, e.sender, e.recipient,
                e.topic, e.message_id, e.message_type, e.outcome and e.outcome.value, e.cause, e.correlation,
                f'{{"tick":{e.metadata["tick"]}}}', e.payload,
            )
            for stream, version, e, _ in batch
        ]  # fmt: skip
        return [list(column) for column in zip(*rows, strict=True)]


async def produce(
    producers: int,
    seconds: float,
    append: Callable[[int, int, EventData], Awaitable[object]],
    commits: Callable[[], int],
) -> Round:
    """Each producer has one append on its way; so many events a second, at so much client CPU an event."""
    ends = time.perf_counter() + seconds
    done = 0

    async def producer(number: int) -> None:
        nonlocal done
        event: EventData | None = None
        version = 0
        while time.perf_counter() < ends:
            event = an_event(version + 1, event)
            await append(number, version, event)
            version += 1
            done += 1

    before, began, cpu = commits(), time.perf_counter(), time.process_time()
    await asyncio.gather(*(producer(number) for number in range(producers)))
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    return Round(done / wall, cpu / done * 1e6, done / max(1, commits() - before))


async def ours(writer: Writer, ownership: Ownership, producers: int, seconds: float) -> Round:
    claims = [await ownership.claim(f"agent/{uuid4()}") for _ in range(producers)]

    async def append(number: int, version: int, event: EventData) -> object:
        return await writer.submit(claims[number].stream, claims[number].epoch, version, [event])

    return await produce(producers, seconds, append, lambda: writer.statistics().commits)


async def plain(side: Plain, producers: int, seconds: float) -> Round:
    streams = [f"agent/{uuid4()}" for _ in range(producers)]

    async def append(number: int, version: int, event: EventData) -> object:
        return await side.append(streams[number], version + 1, event)

    return await produce(producers, seconds, append, lambda: side.commits)


async def overhead(seconds: float) -> float:
    """Client CPU of the producers alone, in microseconds an event: making the event and one turn of the loop."""

    async def append(number: int, version: int, event: EventData) -> None:
        await asyncio.sleep(0)

    return (await produce(256, seconds, append, lambda: 0)).cpu_microseconds


async def run(dsn: str, seconds: float, rounds: int) -> bool:
    await recreate(dsn)
    async with (
        await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection,
        Ownership(dsn, SCHEMA) as ownership,
        Writer(dsn, SCHEMA) as writer,
    ):
        await connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(SCHEMA)))
        await connection.execute(PLAIN_TABLE.encode())
        side = Plain(connection)
        task = asyncio.create_task(side.run())
        alone = await overhead(min(seconds, 0.5))
        print(f"producers alone: {alone:.1f} µs of client CPU an event (in the figures below)")
        print("producers |  ours ev/s  batch  µs/ev |  plain ev/s  batch  µs/ev | ours / plain")
        good = True
        for producers in (1, 16, 256):
            pairs = [
                (await ours(writer, ownership, producers, seconds), await plain(side, producers, seconds))
                for _ in range(rounds)
            ]
            good &= report(producers, pairs) >= 0.8
        await flat(writer, ownership, seconds)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    return good


def report(producers: int, pairs: list[tuple[Round, Round]]) -> float:
    ratio = statistics.median(mine.events_per_second / other.events_per_second for mine, other in pairs)
    columns = " | ".join(
        f"{statistics.median(r.events_per_second for r in side):11,.0f} "
        f"{statistics.median(r.batch for r in side):6.1f} "
        f"{statistics.median(r.cpu_microseconds for r in side):6.1f}"
        for side in zip(*pairs, strict=True)
    )
    print(f"{producers:9} | {columns} | {ratio:.2f}", flush=True)
    return ratio


async def flat(writer: Writer, ownership: Ownership, seconds: float) -> None:
    """Memory after much more work than before, with back-pressure on."""
    readings: list[int] = []
    for _ in range(3):
        await ours(writer, ownership, 256, seconds)
        readings.append(resident_kib())
    print(
        f"resident memory after each of 3 rounds of 256 producers: {', '.join(f'{r / 1024:.0f} MiB' for r in readings)}"
    )


def resident_kib() -> int:
    status = Path("/proc/self/status")
    if status.exists():
        return int(next(line for line in status.read_text().splitlines() if line.startswith("VmRSS")).split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def recreate(dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(SCHEMA)))
    await prepare(dsn, SCHEMA)


@contextlib.contextmanager
def server(dsn: str | None) -> Generator[str, None, None]:
    if dsn is not None:
        yield dsn
        return
    from autogen_eventlog.postgres.embedded import open_embedded

    with tempfile.TemporaryDirectory() as directory, contextlib.closing(open_embedded(Path(directory))) as embedded:
        yield embedded.dsn


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dsn")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with server(options.dsn) as dsn:
        return 0 if asyncio.run(run(dsn, options.seconds, options.rounds)) else 1


if __name__ == "__main__":
    sys.exit(main())
