"""How the command line is read, and how a command ends.

Exit codes: 0 done, 1 the log refused, 2 a mistake in the command line; 130 and 141 as a shell shows a program that was
ended by Ctrl-C or by a closed pipe.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from autogen_eventlog.cli.output import printable
from autogen_eventlog.errors import EventLogError

_F = TypeVar("_F", bound=Callable[..., Any])

REFUSED = 1
INTERRUPTED = 130
PIPE_CLOSED = 141

_WITH_VALUE = ("--dsn", "--data-dir", "--schema")
_FLAGS = ("--json", "--no-color")


class Refused(Exception):
    """A command can't do what it should; what it says is told to the person, and nothing else."""


class EventLogCommand(TyperCommand):
    """Says in its help which options it shares with the others."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        super().format_options(ctx, formatter)
        with formatter.section("Shared options"):
            names = " ".join((*_WITH_VALUE, *_FLAGS))
            formatter.write_text(f"{names} go with every command, before or behind it: see `eventlog --help`.")


class EventLogApp(typer.Typer):
    """Makes every command one that says in its help what it shares."""

    def command(self, *names: Any, **settings: Any) -> Callable[[_F], _F]:
        return super().command(*names, cls=EventLogCommand, **settings)


class EventLogGroup(TyperGroup):
    """Takes the shared options wherever they stand, and tells the log's errors without a traceback."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, shared_first(args))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (EventLogError, Refused) as error:
            typer.echo(f"eventlog: {printable(str(error), lines=True)}", err=True)
            raise typer.Exit(REFUSED) from error
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            leave_pipe()
            raise typer.Exit(PIPE_CLOSED) from None


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


def leave_pipe() -> None:
    """Whoever read stdout has enough. What is still buffered goes nowhere, so that the exit is quiet."""
    with contextlib.suppress(OSError, ValueError):  # stdout may be no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
