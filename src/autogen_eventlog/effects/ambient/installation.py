"""Putting the gates in place, once for the process."""

from __future__ import annotations

import logging
import os
import sys
import threading
import timeit
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from autogen_eventlog.effects.ambient import clocks, dates, ids, randomness
from autogen_eventlog.effects.ambient.captured import Captured
from autogen_eventlog.effects.ambient.gates import Gate

logger = logging.getLogger(__name__)

_ALSO_IN: Final[tuple[ModuleType, ...]] = (timeit, sys.modules[os.name])
"""Modules of Python's that give some of the functions under other names: `timeit.default_timer`, `posix.urandom`."""


class _Installation:
    def __init__(self) -> None:
        self.families: frozenset[str] = frozenset()
        self._undo: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    def install(self) -> frozenset[str]:
        with self._lock:
            if not self._undo:
                self._undo = [ids.install(), randomness.install()]
                self._put_dates()
                self._put([*clocks.gates(), *randomness.gates()])
            return self.families

    def _put_dates(self) -> None:
        families = {clocks.FAMILY, ids.FAMILY, randomness.FAMILY}
        undo = dates.install()
        if undo is not None:
            self._undo.append(undo)
            families.add(dates.FAMILY)
        else:
            logger.warning("this Python does not let datetime.now be recorded; agents should use time.time")
        self.families = frozenset(families)

    def _put(self, gates: list[Gate]) -> None:
        by_id: dict[int, Callable[..., Any]] = {id(gate.real): gate.method for gate in gates}
        self._undo.append(Captured(gates).replace())
        for gate in gates:
            self._set(sys.modules[gate.module], gate.name, by_id[id(gate.real)])
        for module in _ALSO_IN:
            for name, value in list(vars(module).items()):
                if id(value) in by_id:
                    self._set(module, name, by_id[id(value)])

    def _set(self, module: ModuleType, name: str, value: Any) -> None:
        before = getattr(module, name)
        setattr(module, name, value)
        self._undo.append(lambda: setattr(module, name, before))

    def remove(self) -> None:
        while self._undo:
            self._undo.pop()()
        self.families = frozenset()


_installation: Final = _Installation()


def install() -> frozenset[str]:
    """Let what agents read of clocks, ids and randomness be recorded, from now on, in this process.

    Returns:
        The families of readings that are recorded.
    """
    return _installation.install()


def remove() -> None:
    """Take the gates out again (for measurements). Names that were imported meanwhile keep theirs, which pass on."""
    _installation.remove()
