"""From a command's coroutine to its exit code: 0 done, 1 refused by the log, 2 a mistake in the command line."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine
from typing import Any

import typer

from autogen_eventlog.cli.output import printable
from autogen_eventlog.errors import EventLogError

REFUSED = 1
INTERRUPTED = 130
PIPE_CLOSED = 141
"""What a shell shows for a program that was ended by SIGINT, or by SIGPIPE."""


def run(command: Coroutine[Any, Any, None]) -> None:
    """Run a command to its end.

    Raises:
        typer.Exit: It did not end well; what the log says stands on stderr. Nobody is shown a traceback of ours.
        typer.BadParameter: The command line was wrong.
    """
    try:
        asyncio.run(command)
    except EventLogError as error:
        typer.echo(f"eventlog: {printable(str(error), lines=True)}", err=True)
        raise typer.Exit(REFUSED) from error
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        leave_pipe()
        raise typer.Exit(PIPE_CLOSED) from None


def leave_pipe() -> None:
    """Whoever read stdout has enough. What is still buffered goes nowhere, so that the exit is quiet."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # stdout is no file here
        pass
