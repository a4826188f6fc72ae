"""stdout: data only, JSON for programs and tables for people. stderr: hints and errors."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from autogen_eventlog.cli.forms import Form
from autogen_eventlog.cli.settings import Settings

_MODULE = re.compile(r"[\w.]+:")
_GUESSABLE = 8
_TOLD_APART = 12
"""Of an id or a class: enough to tell one from the others."""
_PIPE_WIDTH = 200
"""Columns where stdout is no terminal: room enough for ids, since nobody reads it as it is."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column for people."""

    title: str
    width: int | None = None
    """At most; None: never cut."""
    style: str = ""
    least: int | None = None
    """It is content, cut before ids are, but no shorter than this while they can be. None: it is no content."""
    brief: Callable[[str], str] | None = None
    """What of a cell is shown where the screen is narrow; None: the same."""
    spare: bool = False
    """Left out where the screen is narrow."""


Lines = Sequence[Sequence[str]]


def fitted(columns: Sequence[Column], lines: Lines, screen: int) -> tuple[Sequence[Column], Lines, list[int]]:
    """Columns, lines and widths for a screen: all of it if only content has to be cut for that, else in brief."""
    widths = _widths(columns, lines, screen)
    over = _over(widths, screen)
    content = sum(max(0, width - (column.least or width)) for column, width in zip(columns, widths, strict=True))
    if over > content:
        columns, lines = _in_brief(columns, lines)
        widths = _widths(columns, lines, screen)
    return columns, lines, _cut(columns, widths, screen)


def _widths(columns: Sequence[Column], lines: Lines, screen: int) -> list[int]:
    """As wide as what is in them, up to what a column may have."""
    return [
        min(column.width or screen, max([len(column.title), *(cell_len(line[index]) for line in lines)]))
        for index, column in enumerate(columns)
    ]


def _over(widths: Sequence[int], screen: int) -> int:
    return sum(widths) + len(widths) - 1 - screen


def _cut(columns: Sequence[Column], widths: list[int], screen: int) -> list[int]:
    """Cut to the screen, from the last column on: content to what it needs at least, then ids, then what must be."""
    cuttable = [index for index, column in enumerate(columns) if column.width is not None][::-1]
    content = [(index, columns[index].least) for index in cuttable]
    ids = [(index, None if least else _TOLD_APART) for index, least in content]
    for index, floor in (*content, *ids, *((index, _GUESSABLE) for index in cuttable)):
        if floor is not None:
            widths[index] -= max(0, min(_over(widths, screen), widths[index] - floor))
    return widths


def _in_brief(columns: Sequence[Column], lines: Lines) -> tuple[Sequence[Column], Lines]:
    """Without columns that can be spared or have nothing in them, and with the others' cells in brief."""
    kept = [
        (index, column)
        for index, column in enumerate(columns)
        if not column.spare and (not lines or any(line[index] for line in lines))
    ]
    brief = [replace(column, title=column.title.removesuffix(" (UTC)")) for _, column in kept]
    return brief, [
        [column.brief(line[index]) if column.brief else line[index] for index, column in kept] for line in lines
    ]


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
        """Rows under a header; cells are cut where their column says so, and where the screen is narrow (`fitted`)."""
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        lines = [[printable(cell) for cell in row] for row in rows]
        columns, lines, widths = fitted(columns, lines, self._console.width)
        for column, width in zip(columns, widths, strict=True):
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


def present(*entries: tuple[str, object]) -> list[tuple[str, str]]:
    """The entries of a block that have something to show."""
    return [(name, str(value)) for name, value in entries if value not in (None, "")]


def readable(form: object) -> str:
    """A stored value on one line, in its own script."""
    return "" if form is None else json.dumps(form, ensure_ascii=False)


def class_name(stored_type: str) -> str:
    """A stored type without its modules, where there is little room."""
    return _MODULE.sub("", stored_type)


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
