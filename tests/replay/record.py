"""Records the histories of this folder: `python -m tests.replay.record`, once per Python version and program file.

A recorded history is never edited. It must replay as it was recorded for as long as this package supports the Python
version that recorded it.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import sys
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from autogen_eventlog.events import EventType, Outcome, RecordedEvent
from tests.replay.programs_1 import Programmed, random_program
from tests.unit.bench import ListAppender, RandomWorld, connect, envelope, incarnate

FOLDER = Path(__file__).parent / "histories"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
SEEDS = (1, 2, 3, 5, 8)


def to_json(event: RecordedEvent) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for field in fields(event):
        value = getattr(event, field.name)
        if isinstance(value, UUID):
            value = value.hex
        elif isinstance(value, datetime):
            value = value.isoformat()
        elif isinstance(value, bytes):
            value = value.decode("ascii")
        if value is not None:
            plain[field.name] = value
    return plain


def from_json(plain: dict[str, Any]) -> RecordedEvent:
    values = dict(plain)
    for name in ("id", "cause", "correlation"):
        if name in values:
            values[name] = UUID(values[name])
    for name in ("occurred_at", "recorded_at"):
        values[name] = datetime.fromisoformat(values[name])
    if "payload" in values:
        values["payload"] = values["payload"].encode("ascii")
    if "outcome" in values:
        values["outcome"] = Outcome(values["outcome"])
    values["type"] = EventType(values["type"])
    return RecordedEvent(**values)


def read(path: Path) -> tuple[list[RecordedEvent], list[Any]]:
    """The events of a history, and the `repr` of each thing that the live agent saw."""
    stored = json.loads(gzip.decompress(path.read_bytes()))
    return [from_json(plain) for plain in stored["events"]], stored["trace"]


async def record(seed: int) -> dict[str, Any]:
    rnd = random.Random(seed)
    incarnation = incarnate(Programmed)
    agent = incarnation.agent
    assert isinstance(agent, Programmed)
    appender = ListAppender()
    connect(incarnation, appender, RandomWorld(seed))
    deliveries = []
    for number in range(12):
        delivery, _ = incarnation.deliver(envelope(incarnation.codec, random_program(rnd)), deferred=number % 5 == 4)
        deliveries.append(delivery)
        await asyncio.sleep(rnd.choice([0, 0, 0.0005, 0.001, 0.003]))
        if number % 5 == 4:
            incarnation.start(delivery)
        if number % 4 == 3:
            incarnation.cancel(rnd.choice(deliveries), by=rnd.choice(["token", "task"]))
    await asyncio.wait([delivery.done for delivery in deliveries])
    while agent.background or not incarnation.quiet:
        await asyncio.sleep(0.001)
    last, _ = incarnation.deliver(envelope(incarnation.codec, [("change", -1)]))
    await last.done
    return {"events": [to_json(event) for event in appender.events], "trace": [repr(seen) for seen in agent.trace]}


async def main() -> None:
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # programs raise in background tasks on purpose
    for seed in SEEDS:
        path = FOLDER / f"programs_1-python{PYTHON}-{seed}.json.gz"
        path.parent.mkdir(exist_ok=True)
        stored = json.dumps(await record(seed), separators=(",", ":"))
        path.write_bytes(gzip.compress(stored.encode(), mtime=0))


if __name__ == "__main__":
    asyncio.run(main())
