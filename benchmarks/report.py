"""What a benchmark says: tables of numbers, and the project's aims beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

Cell = str | float | None


@dataclass(frozen=True, slots=True)
class Aim:
    """A number that the project wants."""

    what: str
    measured: float
    bound: float
    at_most: bool = False
    """The bound is an upper one."""

    @property
    def met(self) -> bool:
        return self.measured <= self.bound if self.at_most else self.measured >= self.bound

    def cells(self) -> list[Cell]:
        return [self.what, self.measured, f"{'≤' if self.at_most else '≥'} {self.bound:g}", _verdict(self.met)]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a line that says what they are."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True, slots=True)
class Report:
    """One benchmark's results."""

    tables: Sequence[Table]
    aims: Sequence[Aim] = ()

    def as_json(self) -> dict[str, Any]:
        aims = [asdict(aim) | {"met": aim.met} for aim in self.aims]
        return {"aims": aims, "tables": [asdict(table) for table in self.tables]}


def aims_table(aims: Sequence[Aim]) -> Table:
    return Table("", ("aim", "measured", "wanted", ""), [aim.cells() for aim in aims])


def as_markdown(table: Table) -> str:
    """A GitHub table; numbers stand right."""
    numeric = [any(not isinstance(row[i], str) for row in table.rows) for i in range(len(table.columns))]
    lines = [table.title, ""] if table.title else []
    lines.append(_line(table.columns))
    lines.append(_line(["---:" if number else "---" for number in numeric]))
    lines += [_line([_text(cell) for cell in row]) for row in table.rows]
    return "\n".join(lines)


def report_markdown(report: Report) -> str:
    tables = [*report.tables, *([aims_table(report.aims)] if report.aims else [])]
    return "\n\n".join(as_markdown(table) for table in tables)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int) or abs(cell) >= 100:
        return f"{cell:,.0f}"
    return f"{cell:.2f}" if abs(cell) < 10 else f"{cell:.1f}"


def _verdict(met: bool) -> str:
    return "met" if met else "**missed**"
