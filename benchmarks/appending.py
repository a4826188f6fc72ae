"""(b) The writer beside plain psycopg: the measurement of `writer`, with its memory."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
from collections.abc import AsyncGenerator, Sequence

import psycopg
from psycopg import sql

from autogen_eventlog.postgres.ownership import Ownership
from autogen_eventlog.postgres.writer import Writer
from benchmarks import writer as measurement
from benchmarks.memory import resident_mib
from benchmarks.report import Aim, Cell, Report, Table
from benchmarks.rounds import ratio
from benchmarks.sizes import Sizes

_WANTED = 0.8
_FLAT = 1.1


def run(dsn: str, sizes: Sizes) -> Report:
    return asyncio.run(_run(dsn, sizes))


async def _run(dsn: str, sizes: Sizes) -> Report:
    await measurement.recreate(dsn)
    rows: list[Sequence[Cell]] = []
    aims: list[Aim] = []
    async with Ownership(dsn, measurement.SCHEMA) as ownership, Writer(dsn, measurement.SCHEMA) as writer:
        async with _plain(dsn) as plain:
            for producers in (1, 16, 256):
                pairs = [
                    (
                        await measurement.ours(writer, ownership, producers, sizes.writer_seconds),
                        await measurement.plain(plain, producers, sizes.writer_seconds),
                    )
                    for _ in range(sizes.writer_rounds)
                ]
                row, found = _compare(producers, pairs)
                rows.append(row)
                aims.append(Aim(f"writer, producers: {producers}: ours ÷ plain", found, _WANTED))
        memory = await _memory(writer, ownership, sizes)
    aims.append(Aim("writer, producers: 256: resident memory, last ÷ first", memory[-1] / memory[0], _FLAT, True))
    columns = ("producers", "ours, events/s", "a commit", "plain, events/s", "a commit", "ours ÷ plain")
    resident = Table(
        "Resident memory after each of three times that work, MiB.", ("first", "second", "third"), [memory]
    )
    return Report([Table("Appends of one event.", columns, rows), resident], aims)


@contextlib.asynccontextmanager
async def _plain(dsn: str) -> AsyncGenerator[measurement.Plain]:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(measurement.SCHEMA)))
        await connection.execute(measurement.PLAIN_TABLE.encode())
        side = measurement.Plain(connection)
        task = asyncio.create_task(side.run())
        yield side
        task.cancel()
        await asyncio.wait([task])


def _compare(
    producers: int, pairs: Sequence[tuple[measurement.Round, measurement.Round]]
) -> tuple[Sequence[Cell], float]:
    ours, plain = [mine for mine, _ in pairs], [other for _, other in pairs]
    found = ratio([one.events_per_second for one in ours], [one.events_per_second for one in plain])
    return [producers, *_medians(ours), *_medians(plain), found], found


def _medians(turns: Sequence[measurement.Round]) -> list[float]:
    speed = statistics.median(turn.events_per_second for turn in turns)
    return [speed, float(statistics.median(turn.batch for turn in turns))]


async def _memory(writer: Writer, ownership: Ownership, sizes: Sizes) -> list[float]:
    readings: list[float] = []
    for _ in range(3):
        await measurement.ours(writer, ownership, 256, sizes.writer_seconds)
        readings.append(resident_mib())
    return readings
