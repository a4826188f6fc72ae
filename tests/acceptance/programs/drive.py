"""Drives the town and notes each answer on the disk, until it is killed.

    python -m tests.acceptance.programs.drive DSN NOTES DURABILITY DRIVERS

Each driver sends orders with numbers of its own, one after the other. Before it sends one it notes `tried`, and when it has
the answer, before it sends the next, `answered`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autogen_core import AgentId

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime

from .town import Order, found

PER_DRIVER = 1_000_000


class Notes:
    """Lines on the disk, each there before the next thing is done."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("ab", buffering=0)

    def note(self, what: str, number: int) -> None:
        self._file.write(f"{what} {number}\n".encode())
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def noted(path: Path, what: str) -> list[int]:
    """The numbers noted as `what`, in order. A line that a kill cut short was not noted."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    return [int(line.split()[1]) for line in lines if line.split()[0] == what.encode()]


@contextmanager
def notes(path: Path) -> Iterator[Notes]:
    made = Notes(path)
    try:
        yield made
    finally:
        made.close()


def next_number(tried: list[int], driver: int) -> int:
    return max((number for number in tried if number // PER_DRIVER == driver), default=driver * PER_DRIVER) + 1


async def drive(runtime: EventSourcedAgentRuntime, driver: int, on_disk: Notes, first: int) -> None:
    number = first
    while True:
        on_disk.note("tried", number)
        receipt = await runtime.send_message(Order(number), AgentId("clerk", str(driver % 2)))
        assert receipt.number == number
        on_disk.note("answered", number)
        number += 1


async def main(dsn: str, path: Path, durability: str, drivers: int) -> None:
    tried = noted(path, "tried")
    async with EventLog.open(dsn) as log:
        handler = EventLogHandler(log, durability="strict" if durability == "strict" else "output")
        runtime = EventSourcedAgentRuntime(intervention_handlers=[handler])
        await found(runtime)
        runtime.start()
        with notes(path) as on_disk:
            on_disk.note("started", os.getpid())
            firsts = [next_number(tried, driver) for driver in range(1, drivers + 1)]
            await asyncio.gather(
                *(drive(runtime, driver, on_disk, first) for driver, first in enumerate(firsts, start=1))
            )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
