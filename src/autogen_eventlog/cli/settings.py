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
    own_process: bool = False
    """The command line is that of this process, which may be run anew."""


OWN_PROCESS = object()
"""Given to the commands by `main`: they are all that this process is for."""


def settings_of(ctx: typer.Context) -> Settings:
    """What the command line said, for a command."""
    found = ctx.obj
    assert isinstance(found, Settings)
    return found
