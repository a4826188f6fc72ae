"""What one commit costs: the two rows of a message, inserted and committed, over and over, through one connection."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

from autogen_core import AgentId
from psycopg.types.json import Json

from autogen_eventlog import EventData, EventLogHandler, EventSourcedAgentRuntime, EventType
from autogen_eventlog.events import RecordedEvent
from autogen_eventlog.ids import EventIds
from autogen_eventlog.log import EventLog
from benchmarks.agents import Add, register
from benchmarks.places import Place

_COLUMNS = (
    "version", "position", "recorded_at", "epoch", "id", "occurred_at", "delivery", "stream", "type", "message_id",
    "message_type", "outcome", "cause", "correlation", "metadata", "payload",
)  # fmt: skip
_ROW = f"({', '.join(['%s'] * len(_COLUMNS))})"
_INSERT = f"INSERT INTO bare ({', '.join(_COLUMNS)}) VALUES {_ROW}, {_ROW}".encode()


def bare(place: Place, seconds: float) -> float:
    """Commits a second of plain psycopg: no owner, no version, no head; a table with the columns and indexes of `event`."""
    return asyncio.run(_bare(place, seconds))


def by_writer(place: Place, seconds: float) -> float:
    """Commits a second of the log's writer."""
    return asyncio.run(_by_writer(place, seconds))


async def _bare(place: Place, seconds: float) -> float:
    async with place.log() as log, place.connection() as connection:
        pair = await _a_message(log)
        await connection.execute(b"CREATE TABLE IF NOT EXISTS bare (LIKE event INCLUDING INDEXES)")
        ids = EventIds()
        began, done = time.perf_counter(), 0
        while time.perf_counter() - began < seconds or done == 0:
            await connection.execute(_INSERT, [cell for event in pair for cell in _row(event, ids)])
            done += 1
        return done / (time.perf_counter() - began)


async def _by_writer(place: Place, seconds: float) -> float:
    async with place.log() as log:
        pair = [_proposed(event) for event in await _a_message(log)]
        claim = await log.ownership.claim(f"ledger/{uuid4()}")
        ids = EventIds()
        began, done = time.perf_counter(), 0
        while time.perf_counter() - began < seconds or done == 0:
            events = [replace(event, id=ids.next()) for event in pair]
            await log.writer.submit(claim.stream, claim.epoch, 2 * done, events)
            done += 1
        return done / (time.perf_counter() - began)


async def _a_message(log: EventLog) -> list[RecordedEvent]:
    """The events of one message, as they were recorded: the delivery, and how it ended."""
    runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
    await register(runtime)
    runtime.start()
    agent = AgentId("ledger", uuid4().hex[:8])
    await runtime.send_message(Add(1, "a small note"), agent)
    await runtime.stop_when_idle()
    kinds = (EventType.MESSAGE_DELIVERED, EventType.DELIVERY_COMPLETED)
    return [event async for event in log.read(agent) if event.type in kinds]


def _proposed(event: RecordedEvent) -> EventData:
    return EventData(**{name: getattr(event, name) for name in EventData.__dataclass_fields__})


def _row(event: RecordedEvent, ids: EventIds) -> list[Any]:
    fresh = {
        "id": ids.next(),
        "recorded_at": datetime.now(timezone.utc),
        "type": event.type.value,
        "outcome": event.outcome and event.outcome.value,
        "metadata": Json(event.metadata),
    }
    return [fresh[name] if name in fresh else getattr(event, name) for name in _COLUMNS]
