"""This process's resident memory."""

from __future__ import annotations

import contextlib
import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def resident_mib() -> float:
    return _field("VmRSS")


def peak_mib() -> float:
    """The most since the process began, or since `forget_peak`."""
    return _field("VmHWM")


def forget_peak() -> None:
    """Begin to look for the peak now, where the system can do that (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _field(name: str) -> float:
    if not _STATUS.exists():
        unit = 2**20 if sys.platform == "darwin" else 2**10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) / 1024
