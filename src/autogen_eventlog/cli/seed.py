"""The order of sets of strings, the same in every worker: a handler that goes through one must do so again in replay (G5)."""

from __future__ import annotations

import os
import sys

SEED = "PYTHONHASHSEED"
_LARGEST = 2**32 - 1


def seed_is_open() -> bool:
    """Whether this process was given no seed, and can be run anew with one."""
    return not (os.environ.get(SEED) or sys.flags.ignore_environment or not sys.executable)


def fix_hash_seed(seed: str = "0") -> None:
    """Run this program anew with a seed, unless it was given one. Does not return if it does.

    Python reads the seed when it starts. The process stays the same one, so whoever started it notices nothing.
    """
    if seed_is_open():
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, SEED: seed})


def usable_seed(recorded: object) -> str:
    """The seed that a producer recorded, if it is a number; else 0: what was random can't be had again."""
    text = str(recorded)
    return text if text.isdigit() and int(text) <= _LARGEST else "0"
