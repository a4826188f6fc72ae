"""Where the numbers were measured."""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psycopg

_PAGE = 8192


@dataclass(frozen=True, slots=True)
class Machine:
    """What a number depends on besides the code."""

    cpu: str
    cores: int
    python: str
    postgres: str
    fdatasync_milliseconds: float
    """Of one page at the end of a file, the median, in the directory for temporary files."""
    measured_at: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def look(dsn: str) -> Machine:
    """Describe this machine and the server at `dsn`."""
    return Machine(
        cpu=_cpu(),
        cores=os.cpu_count() or 1,
        python=platform.python_version(),
        postgres=_postgres(dsn),
        fdatasync_milliseconds=round(_fdatasync_seconds() * 1000, 3),
        measured_at=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    )


def described(machine: dict[str, Any]) -> str:
    return (
        f"{machine['cpu']}, {machine['cores']} cores; Python {machine['python']}, Postgres {machine['postgres']}; "
        f"fdatasync {machine['fdatasync_milliseconds']:g} ms; {machine['measured_at']}."
    )


def _cpu() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _postgres(dsn: str) -> str:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SHOW server_version").fetchone()
    assert row is not None
    return str(row[0]).partition(" ")[0]


def _fdatasync_seconds(times: int = 200) -> float:
    sync = getattr(os, "fdatasync", os.fsync)
    taken: list[float] = []
    with tempfile.TemporaryFile() as file:
        for _ in range(times):
            file.write(b"\0" * _PAGE)
            file.flush()
            began = time.perf_counter()
            sync(file.fileno())
            taken.append(time.perf_counter() - began)
    return statistics.median(taken)
