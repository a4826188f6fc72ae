"""(e) Questions to a large log, and reading it from end to end."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import uuid4

from autogen_eventlog import EventData, EventLog, EventType, RecordedEvent
from autogen_eventlog.audit import Audit
from autogen_eventlog.codec import Codec
from autogen_eventlog.ids import EventIds
from autogen_eventlog.postgres.pool import Pool, Row
from autogen_eventlog.postgres.sql import query
from benchmarks.agents import Add
from benchmarks.large_log import LargeLog, fill
from benchmarks.places import Connection, Place, fresh, value
from benchmarks.report import Cell, Report, Table
from benchmarks.sizes import Sizes

_GAP_SECONDS = 0.4
"""Between two events, long enough for a tailing reader to have slowed down."""
_WHOLE = "(every row)"
_NAMES = """
SELECT c.relname, CASE WHEN c.relkind = 'i' THEN p.relname WHEN c.reltuples > 0 THEN %s END
FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid JOIN pg_class AS p ON p.oid = i.inhparent
WHERE c.relnamespace = current_schema()::regnamespace
"""
"""What a plan reads of a partition: the name that its index has in all of them; a scan of one that holds anything."""

Question = Callable[[Audit, int], Awaitable[Sequence[object]]]


def run(dsn: str, sizes: Sizes) -> Report:
    return asyncio.run(_run(fresh(dsn, "auditing"), sizes))


async def _run(place: Place, sizes: Sizes) -> Report:
    large = await fill(place, agents=sizes.log_agents, events=sizes.log_events)
    async with place.log() as log, place.connection() as connection:
        log.register_types(Add)
        events = await value(connection, "SELECT count(*) FROM event")
        rows = [await _asked(log, connection, name, ask, sizes) for name, ask in _questions(large).items()]
        speed = await _whole(log, events)
        waits = await _waits(log, sizes.waits)
    columns = ("", "ms", "records", "indexes of `event`")
    tails: list[Sequence[Cell]] = [["from the beginning to the end, events/s", speed], *waits]
    return Report(
        [
            Table(f"Questions to a log of {events:,} events of {large.agents:,} agents.", columns, rows),
            Table("`log.tail`.", ("", ""), tails),
        ]
    )


def _questions(large: LargeLog) -> dict[str, Question]:
    """Each is asked about other agents and minutes, by number."""
    span = large.end - large.beginning - timedelta(minutes=1)

    def one(number: int) -> str:
        return f"ledger/{number * 37 % large.agents}"

    async def minute(audit: Audit, number: int) -> Sequence[object]:
        since = large.beginning + span * (number % 20 / 20)
        return await audit.messages(agent=one(number), since=since, until=since + timedelta(minutes=1))

    async def newest(audit: Audit, number: int) -> Sequence[object]:
        return await audit.messages()

    async def in_flight_of_one(audit: Audit, number: int) -> Sequence[object]:
        return await audit.in_flight(one(number))

    async def in_flight(audit: Audit, number: int) -> Sequence[object]:
        found = await audit.in_flight()
        if len(found) != large.under_way:
            raise AssertionError(f"{large.under_way} deliveries are under way, {len(found)} were found")
        return found

    return {
        "messages of an agent in a minute": minute,
        "newest 100 messages of all agents": newest,
        "deliveries of an agent in flight": in_flight_of_one,
        "all deliveries in flight": in_flight,
    }


async def _asked(log: EventLog, connection: Connection, name: str, ask: Question, sizes: Sizes) -> Sequence[Cell]:
    taken: list[float] = []
    records = 0
    await ask(log.audit, 0)
    for number in range(sizes.questions):
        began = time.perf_counter()
        records = len(await ask(log.audit, number))
        taken.append(time.perf_counter() - began)
        if sum(taken) > 10:
            break
    indexes = ", ".join(f"`{index}`" for index in await _indexes(log, connection, ask))
    return [name, statistics.median(taken) * 1000, records, indexes]


class _Noting(Pool):
    """A pool that remembers what it was asked."""

    def __init__(self, dsn: str, schema: str) -> None:
        super().__init__(dsn, schema)
        self.asked: list[tuple[str, Any]] = []

    async def fetch(self, name: str, parameters: Any = None, *, prepare: bool | None = None) -> list[Row]:
        self.asked.append((name, parameters))
        return await super().fetch(name, parameters, prepare=prepare)


async def _indexes(log: EventLog, connection: Connection, ask: Question) -> list[str]:
    """The indexes of `event` in the plans that Postgres chooses, or that it reads the table."""
    pool = _Noting(log.dsn, log.schema)
    async with pool:
        await ask(Audit(pool, Codec()), 1)
    cursor = await connection.execute(_NAMES.encode(), (_WHOLE,))
    names: dict[str, str | None] = {row[0]: row[1] for row in await cursor.fetchall()}
    found: set[str] = set()
    for name, parameters in pool.asked:
        statement = b"EXPLAIN (FORMAT JSON) " + query(name)
        row = await (await connection.execute(statement, parameters, prepare=False)).fetchone()
        assert row is not None
        found |= {name for node in _nodes(row[0][0]["Plan"]) if (name := names.get(_scanned(node))) is not None}
    return sorted(found)


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from _nodes(child)


def _scanned(node: dict[str, Any]) -> str:
    """The index or, read as a whole, the table."""
    whole = node["Node Type"] == "Seq Scan"
    return str(node.get("Index Name") or (node.get("Relation Name") if whole else ""))


async def _whole(log: EventLog, events: int) -> float:
    """Events a second of reading everything in global order."""
    began = time.perf_counter()
    read = 0
    async for _ in log.tail(follow=False):
        read += 1
    if read != events:
        raise AssertionError(f"the log holds {events} events, the tail read {read}")
    return read / (time.perf_counter() - began)


async def _waits(log: EventLog, times: int) -> list[Sequence[Cell]]:
    """Milliseconds from an append to its event, for a reader at the end of the log."""
    await log.start_writing()
    claim = await log.ownership.claim(f"ledger/{uuid4()}")
    ids, version = EventIds(), 0

    async def append() -> int:
        nonlocal version
        event = EventData(
            id=ids.next(),
            type=EventType.MESSAGE_DELIVERED,
            occurred_at=datetime.now(timezone.utc),
            delivery=version + 1,
        )
        committed = await log.writer.submit(claim.stream, claim.epoch, version, [event])
        version += 1
        return committed.position

    tail = log.tail(after_position=await append())
    busy = [await _wait(append, tail, 0) for _ in range(times)]
    idle = [await _wait(append, tail, _GAP_SECONDS) for _ in range(times)]
    return [["next event, after another, ms", _middle(busy)], ["next event, after a pause, ms", _middle(idle)]]


async def _wait(append: Callable[[], Awaitable[int]], tail: AsyncIterator[RecordedEvent], gap: float) -> float:
    arriving = asyncio.ensure_future(_next(tail))
    await asyncio.sleep(gap)
    began = time.perf_counter()
    position = await append()
    event = await arriving
    assert event.position == position
    return time.perf_counter() - began


async def _next(tail: AsyncIterator[RecordedEvent]) -> RecordedEvent:
    return await tail.__anext__()


def _middle(seconds: Sequence[float]) -> float:
    return statistics.median(seconds) * 1000
