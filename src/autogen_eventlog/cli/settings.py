"""The options that every command shares, as the commands get them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer


@dataclass(frozen=True, slots=True)
class Settings:
    """Which log, and how to show it."""

    dsn: str | None
    """None: the embedded Postgres."""
    data_dir: Path | None
    schema: str
    json: bool
    color: bool


def settings_of(ctx: typer.Context) -> Settings:
    """What the command line said, for a command."""
    found = ctx.obj
    assert isinstance(found, Settings)
    return found
