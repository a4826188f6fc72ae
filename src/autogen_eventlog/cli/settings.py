"""The options that every command shares. They are understood before the command and behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from typer.core import TyperGroup

_WITH_VALUE = ("--dsn", "--data-dir", "--schema")
_FLAGS = ("--json", "--no-color")


@dataclass(frozen=True, slots=True)
class Settings:
    """Which log, and how to show it."""

    dsn: str | None
    """None: the embedded Postgres."""
    data_dir: Path | None
    schema: str
    json: bool
    color: bool


class Anywhere(TyperGroup):
    """Takes the shared options wherever they stand: `eventlog messages --json` as well as `eventlog --json messages`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        return super().parse_args(ctx, shared_first(args))


def shared_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with the shared options moved to the front; what stands behind `--` is left alone."""
    shared: list[str] = []
    others: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            others += [argument, *rest]
        elif argument in _FLAGS or argument.startswith(tuple(f"{name}=" for name in _WITH_VALUE)):
            shared.append(argument)
        elif argument in _WITH_VALUE:
            shared += [argument, *(value for value in [next(rest, None)] if value is not None)]
        else:
            others.append(argument)
    return shared + others


def settings_of(ctx: typer.Context) -> Settings:
    """What the command line said, for a command."""
    found = ctx.obj
    assert isinstance(found, Settings)
    return found
