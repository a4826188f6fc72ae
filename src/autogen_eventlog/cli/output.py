"""stdout: data only, JSON for programs and tables for people. stderr: hints and errors."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from autogen_eventlog.cli.forms import Form
from autogen_eventlog.cli.settings import Settings

_GUESSABLE = 8
_PIPE_WIDTH = 200
"""Columns where stdout is no terminal: room enough for ids, since nobody reads it as it is."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column for people."""

    title: str
    width: int | None = None
    """At most; None: never cut."""
    style: str = ""


def _widths(columns: Sequence[Column], lines: Sequence[Sequence[str]], screen: int) -> list[int]:
    """As wide as what is in them, but for the columns that may be cut: from the last on, until it fits the screen."""
    widths = [
        min(column.width or screen, max([len(column.title), *(cell_len(line[index]) for line in lines)]))
        for index, column in enumerate(columns)
    ]
    over = sum(widths) + len(widths) - 1 - screen
    for index in reversed(range(len(columns))):
        if over > 0 and columns[index].width is not None:
            cut = min(over, max(0, widths[index] - _GUESSABLE))
            widths[index] -= cut
            over -= cut
    return widths


class Output:
    """Where a command writes."""

    def __init__(self, settings: Settings) -> None:
        self._json = settings.json
        width = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else _PIPE_WIDTH
        self._console = Console(
            width=width, no_color=None if settings.color else True, highlight=False, emoji=False, markup=False
        )

    @property
    def for_programs(self) -> bool:
        return self._json

    def line(self, form: Form) -> None:
        """One JSON object."""
        sys.stdout.write(json.dumps(form) + "\n")
        sys.stdout.flush()

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
        """Rows under a header; cells are cut where their column says so, and where the screen is narrow the last first."""
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        lines = [[printable(cell) for cell in row] for row in rows]
        for column, width in zip(columns, _widths(columns, lines, self._console.width), strict=True):
            table.add_column(column.title, style=column.style, width=width, no_wrap=True, overflow="ellipsis")
        for line in lines:
            table.add_row(*(Text(cell) for cell in line))
        self._write(table)

    def block(self, title: str, entries: Iterable[tuple[str, str]]) -> None:
        """One record in full: a title, then names and values, values whole and over several lines if need be."""
        found = list(entries)
        width = max((len(name) for name, _ in found), default=0) + 2
        self._write(Text(printable(title), style="bold"))
        for name, value in found:
            lines = printable(value, lines=True).splitlines() or [""]
            self.text("\n".join([f"{name:{width}}{lines[0]}", *(" " * width + line for line in lines[1:])]))
        self.text("")

    def text(self, line: str) -> None:
        """Printable text, whole: the terminal wraps it."""
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def hint(self, text: str) -> None:
        """To stderr, and only for people."""
        if not self._json:
            sys.stderr.write(printable(text) + "\n")

    def _write(self, *parts: Any) -> None:
        # Captured and written by us, so that a closed pipe looks the same here as everywhere.
        with self._console.capture() as captured:
            for part in parts:
                self._console.print(part)
        sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))
        sys.stdout.flush()


def readable(form: object) -> str:
    """A stored value on one line, in its own script."""
    return "" if form is None else json.dumps(form, ensure_ascii=False)


def indented(form: object) -> str:
    """A stored value over several lines."""
    return "" if form is None else json.dumps(form, ensure_ascii=False, indent=2)


def printable(text: str, *, lines: bool = False) -> str:
    """Text from the log made harmless to a terminal: what can't be printed is shown as an escape.

    Args:
        lines: leave line ends and tabs.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or (lines and character in "\n\t") else _escaped(character)
        for character in text
    )


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
