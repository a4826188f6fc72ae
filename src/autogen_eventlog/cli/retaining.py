"""What `eventlog retention` does, and how it shows it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import typer

from autogen_eventlog.cli.checking import DIFFERS
from autogen_eventlog.cli.forms import Form
from autogen_eventlog.cli.opening import acting
from autogen_eventlog.cli.output import Column, Output
from autogen_eventlog.cli.settings import Settings
from autogen_eventlog.retention import Archive, JsonLinesArchive, ParquetArchive, Part, Retention

_MONTHS = (
    Column("month", 20, "bold"),
    Column("events"),
    Column("streams"),
    Column("bytes"),
    Column("what becomes of it"),
    Column("why", 90, least=20),
)
_NAMED = 5


async def retention(settings: Settings, before: datetime, *, apply: bool, archive: Archive | None) -> None:
    """Show the plan and, if wanted, carry it out; exit code 1 if a month that is old enough stays."""
    output = Output(settings)
    async with acting(settings) as log:
        keeper = Retention(log)
        parts = await keeper.plan(before)
        dropped = await keeper.drop(before, archive=archive) if apply else []
    gone = {one.name: one.archive for one in dropped}
    if output.for_programs:
        for part in parts:
            output.line(_form(part, gone))
    else:
        output.table(_MONTHS, [_row(part, gone, first=_goes(parts, part)) for part in parts])
        output.hint(_hint(parts, apply=apply))
    if any(not part.may_go for part in parts):
        raise typer.Exit(DIFFERS)


def archive_in(directory: Path | None, *, parquet: bool) -> Archive | None:
    """Where events go, if anywhere.

    Raises:
        typer.BadParameter: pyarrow is not installed.
    """
    if directory is None:
        return None
    if not parquet:
        return JsonLinesArchive(directory)
    try:
        return ParquetArchive(directory)
    except ImportError as error:
        raise typer.BadParameter("--parquet needs pyarrow: pip install 'autogen-eventlog[parquet]'") from error


def _goes(parts: list[Part], part: Part) -> bool:
    """Whether no older month stays."""
    return all(one.may_go for one in parts[: parts.index(part) + 1])


def _form(part: Part, gone: dict[str, str | None]) -> Form:
    name = part.partition.name
    return {
        "partition": name,
        "starts": part.partition.starts.isoformat(),
        "ends": part.partition.ends.isoformat(),
        "events": part.sums.events,
        "streams": part.sums.streams,
        "bytes": part.partition.bytes,
        "may_go": part.may_go,
        "blocked_streams": part.blocked_streams,
        "blocked": [{"stream": one.stream, "version": one.version, "why": one.why} for one in part.blocked],
        "dropped": name in gone,
        "archive": gone.get(name),
    }


def _row(part: Part, gone: dict[str, str | None], *, first: bool) -> list[str]:
    name = part.partition.name
    if name in gone:
        said, why = "removed", f"archived in {gone[name]}" if gone[name] else ""
    elif part.may_go:
        said, why = ("may go", "") if first else ("stays", "an older month stays")
    else:
        said, why = "stays", _blocked(part)
    numbers = [str(number) for number in (part.sums.events, part.sums.streams, part.partition.bytes)]
    return [part.partition.starts.strftime("%Y-%m"), *numbers, said, why]


def _blocked(part: Part) -> str:
    named = "; ".join(f"{one.stream}: {one.why}" for one in part.blocked[:_NAMED])
    more = part.blocked_streams - min(_NAMED, len(part.blocked))
    return named + (f"; and {more} more streams" if more > 0 else "")


def _hint(parts: list[Part], *, apply: bool) -> str:
    if not parts:
        return "No month is old enough."
    remedies = {one.remedy for part in parts for one in part.blocked}
    todo = "" if apply else "Nothing was removed. Say --apply, and --archive DIR to keep the events in files. "
    return todo + " ".join(sorted(remedies))
