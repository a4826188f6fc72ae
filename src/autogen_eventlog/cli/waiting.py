"""How far long work has come, on stderr, for a person who looks on."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from autogen_eventlog.checking import CheckProgress
from autogen_eventlog.cli.output import printable
from autogen_eventlog.cli.settings import Settings


class Bar:
    """A bar of agents; nothing where stderr is no terminal, or is read by a program."""

    def __init__(self, settings: Settings, total: int) -> None:
        self._total = total
        self._progress: Progress | None = None
        self._task: Any = None
        if sys.stderr.isatty() and not settings.json:
            self._progress = Progress(
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}", markup=False),
                console=Console(stderr=True, no_color=None if settings.color else True),
                transient=True,
            )

    def __enter__(self) -> Bar:
        if self._progress is not None:
            self._progress.start()
            self._task = self._progress.add_task("", total=self._total)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, progress: CheckProgress) -> None:
        """How far a check has come."""
        where = f"{progress.events} of {progress.events_total} events" if progress.events_total else ""
        self.at(f"{progress.agent}  {where}", progress.done)

    def at(self, what: str, done: int) -> None:
        """What is being done, and how many are."""
        if self._progress is not None:
            self._progress.update(self._task, description=printable(what), completed=done)
