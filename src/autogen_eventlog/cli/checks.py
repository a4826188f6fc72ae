"""The commands that hold recorded histories against the code at hand, and look after what is kept of them."""

from __future__ import annotations

import asyncio
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autogen_eventlog.cli.seed import fix_hash_seed, seed_is_open
from autogen_eventlog.cli.settings import Settings, settings_of

if TYPE_CHECKING:
    from autogen_eventlog.cli import checking

APP = "The function, plain or async, that is given a runtime and registers the agents on it."

Agents = Annotated[
    list[str] | None, typer.Argument(metavar="AGENT", help="Agents by their ids, TYPE/KEY.", show_default=False)
]
Every = Annotated[bool, typer.Option("--all", help="All agents that the log knows.")]
Type = Annotated[str | None, typer.Option(metavar="TYPE", help="All agents of this type.")]


class Mode(str, Enum):
    """How much is looked for, as an option."""

    strict = "strict"
    report = "report"


def check(
    ctx: typer.Context,
    app: Annotated[str, typer.Option(metavar="MODULE:FUNCTION", help=APP)],
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET",
            help="Agents by their ids (TYPE/KEY), histories by their files (*.history.jsonl).",
            show_default=False,
        ),
    ] = None,
    every: Every = False,
    type: Type = None,
    mode: Annotated[
        Mode,
        typer.Option(
            metavar="MODE",
            help="report: all that differs, as far as replay can go on behind it; strict: of each agent, the first.",
        ),
    ] = Mode.report,
    from_snapshot: Annotated[
        bool, typer.Option("--from-snapshot", help="Begin at the newest snapshot; what lies before is not looked at.")
    ] = False,
) -> None:
    """Whether the code at hand does what was recorded.

    Each agent's history is replayed with the code at hand, from the log or from a file, and nothing live is touched:
    nothing is written, owned or sent. It says which agents would send, publish, ask or answer something else, which would
    end in another state, and which can't be replayed. Exit code 1 if there is one, 0 if all are the same. Strings are
    hashed with the seed that was recorded last, unless PYTHONHASHSEED is set.
    """
    from autogen_eventlog.cli import checking

    asked = checking.Asked(tuple(targets or ()), every=every, type=type)
    with_seed(settings_of(ctx), asked)
    plan = checking.CheckPlan(app, "strict" if mode is Mode.strict else "report", from_snapshot=from_snapshot)
    asyncio.run(checking.check(settings_of(ctx), asked, plan))


def determinism(
    ctx: typer.Context,
    app: Annotated[str, typer.Option(metavar="MODULE:FUNCTION", help=APP)],
    agents: Agents = None,
    every: Every = False,
    type: Type = None,
) -> None:
    """Whether agents can be restored by replay, class by class.

    Found by running: each history is replayed twice with the code at hand, into fresh instances. A class is replay-safe, safe
    with the effects that are recorded of it, or not safe, because of the calls and places that are named. Nothing is
    written, owned or sent. Exit code 1 if a class is not safe, or an agent could not be judged.
    """
    from autogen_eventlog.cli import checking
    from autogen_eventlog.cli.determinism import determinism as judge

    asked = checking.Asked(tuple(agents or ()), every=every, type=type)
    with_seed(settings_of(ctx), asked)
    asyncio.run(judge(settings_of(ctx), asked, app))


def snapshot(
    ctx: typer.Context,
    app: Annotated[str, typer.Option(metavar="MODULE:FUNCTION", help=APP)],
    agents: Agents = None,
    every: Every = False,
    type: Type = None,
) -> None:
    """Take snapshots of agents as they are now, by replay, and prove them.

    Nothing live is touched, so agents may be at work. Recoveries and views begin there. Exit code 1 if an agent's could not
    be taken or was not proven; the table says why.
    """
    from autogen_eventlog.cli import checking, snapshotting

    asked = checking.Asked(tuple(agents or ()), every=every, type=type)
    with_seed(settings_of(ctx), asked)
    asyncio.run(snapshotting.snapshot(settings_of(ctx), asked, app))


def verify(
    ctx: typer.Context,
    app: Annotated[str, typer.Option(metavar="MODULE:FUNCTION", help=APP)],
    agents: Agents = None,
    every: Every = False,
    type: Type = None,
    again: Annotated[bool, typer.Option("--again", help="Those that are proven already, too.")] = False,
) -> None:
    """Prove snapshots that no process has proven yet.

    A shadow is replayed to each from the proven one before it, and must come to the same state. One that fails is never
    restored from. Exit code 1 if one does.
    """
    from autogen_eventlog.cli import checking, snapshotting

    asked = checking.Asked(tuple(agents or ()), every=every, type=type)
    with_seed(settings_of(ctx), asked)
    asyncio.run(snapshotting.verify(settings_of(ctx), asked, app, again=again))


def retention(
    ctx: typer.Context,
    before: Annotated[
        str, typer.Option(metavar="TIME", help="Months that ended by then: a time with a zone, or how long ago (90d).")
    ],
    apply: Annotated[bool, typer.Option("--apply", help="Remove them. Without it, only the plan is shown.")] = False,
    archive: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the events into files there before they are removed.")
    ] = None,
    parquet: Annotated[bool, typer.Option("--parquet", help="As Parquet, not as JSON Lines.")] = False,
) -> None:
    """Remove old months of events from the log, below proven snapshots.

    A month stays while a recovery, a branch or an undelivered message needs anything in it; the table says what. Restores to
    before what is kept are refused by name. What was removed is recorded. Exit code 1 if a month that is old enough stays.
    """
    from autogen_eventlog.cli import retaining
    from autogen_eventlog.cli.times import parse_time

    where = retaining.archive_in(archive, parquet=parquet)
    asyncio.run(retaining.retention(settings_of(ctx), parse_time(before), apply=apply, archive=where))


def with_seed_of(settings: Settings, agent: str) -> None:
    """Run anew with the seed under which an agent was recorded, where none was given."""
    from autogen_eventlog.cli import checking

    if settings.own_process and seed_is_open():
        fix_hash_seed(asyncio.run(checking.seed_of(settings, agent)))


def with_seed(settings: Settings, asked: checking.Asked) -> None:
    """The same, of several."""
    from autogen_eventlog.cli import checking

    if settings.own_process and seed_is_open():
        fix_hash_seed(asyncio.run(checking.recorded_seed(settings, asked)))


def add_checks(app: typer.Typer) -> None:
    """Make them commands of `app`."""
    app.command(epilog="Example: eventlog check --all --app shop.agents:register --json")(check)
    app.command(epilog="Example: eventlog snapshot --type planner --app shop.agents:register")(snapshot)
    app.command(epilog="Example: eventlog verify --all --app shop.agents:register --again")(verify)
    app.command(epilog="Example: eventlog retention --before 90d --archive /var/eventlog --apply")(retention)
    app.command(epilog="Example: eventlog determinism --all --app shop.agents:register")(determinism)
