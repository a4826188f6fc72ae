"""The order of sets of strings, the same in every worker: a handler that goes through one must do so again in replay (G5)."""

from __future__ import annotations

import os
import sys

SEED = "PYTHONHASHSEED"


def fix_hash_seed() -> None:
    """Run this program anew with the seed 0, unless it was given a seed. Does not return if it does.

    Python reads the seed when it starts. The process stays the same one, so whoever started it notices nothing.
    """
    if os.environ.get(SEED) or sys.flags.ignore_environment or not sys.executable:
        return
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, SEED: "0"})
