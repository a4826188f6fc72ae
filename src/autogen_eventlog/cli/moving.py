"""The commands that write agents into files, and bring them from files into the log."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from autogen_eventlog.cli.checks import APP, Every, Type, with_seed
from autogen_eventlog.cli.settings import Settings, settings_of

if TYPE_CHECKING:
    from autogen_eventlog.cli import exporting

_TEAM = "The function, plain or async, that is given a runtime and returns a team of AgentChat's on it."

Team = Annotated[str | None, typer.Option(metavar="MODULE:FUNCTION", help=_TEAM)]


def export(
    ctx: typer.Context,
    agents: Annotated[
        list[str] | None,
        typer.Argument(metavar="[AGENT]...", help="Agents by their ids, TYPE/KEY.", show_default=False),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="One agent's history; with --all or --type a directory, with one file for each agent.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The pasts of several agents, to go on in another log.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The state in AutoGen's own form, of one agent or a team.")
    ] = None,
    session: Annotated[
        UUID | None, typer.Option(metavar="ID", help="With --out: the agents of this conversation (a correlation).")
    ] = None,
    every: Every = False,
    type: Type = None,
    app: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION", help=f"{APP} With --history, the state is kept, too; --state needs it."
        ),
    ] = None,
    team: Team = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="With --state, as of then: ISO 8601 with a zone, or how long ago (10m)."),
    ] = None,
    version: Annotated[
        int | None, typer.Option(metavar="N", help="With --state, as of this version of the agent.")
    ] = None,
    position: Annotated[
        int | None, typer.Option(metavar="N", help="With --state, as of this position of the log.")
    ] = None,
) -> None:
    """Write agents into files.

    --history: for tests. A file holds the present past of an agent, every event of it, and with --app the state that the code
    at hand ends in. `eventlog check FILE` and the pytest plugin replay it without a database. The same history gives the same
    file.

    --out: to go on elsewhere. The file holds the present pasts of all named agents, or of those of a conversation, as they
    were at one moment. `eventlog import FILE` brings them into another log.

    --state: back to AutoGen. The file holds what the agent's own save_state says, or the team's, now or as of then; AutoGen's
    runtime and teams load it.
    """
    from autogen_eventlog.cli import exporting

    asked = exporting.Asking(
        tuple(agents or ()), every, type, session, history, out, state, app, team, (at, version, position)
    )
    asked.check()
    _with_seed(settings_of(ctx), asked)
    asyncio.run(exporting.export(settings_of(ctx), asked))


def import_(
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="What `eventlog export --out` wrote, or a state in AutoGen's own form."),
    ],
    agent: Annotated[str | None, typer.Option(metavar="AGENT", help="A state: the agent it is for, TYPE/KEY.")] = None,
    app: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION", help=f"{APP} A state needs it; a session is checked against the code first."
        ),
    ] = None,
    team: Team = None,
    participant: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --team: the state is one agent's, for this participant.")
    ] = None,
    keep_unknown: Annotated[
        bool,
        typer.Option(
            "--keep-unknown",
            help="With --team: messages of types that the team does not know are kept as text, not refused.",
        ),
    ] = False,
    rename: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OLD=NEW", help="A session: a key, or an agent's id TYPE/KEY, and the new one. May be repeated."
        ),
    ] = None,
    key_prefix: Annotated[str, typer.Option(metavar="TEXT", help="A session: put before every other key.")] = "",
) -> None:
    """Bring agents from a file into the log.

    A session (`eventlog export --out`): its events are appended under new ids, in their order. A second import of the same
    file under the same names appends nothing, and completes one that was interrupted. With --app, each agent is replayed under
    its new id first, and nothing is imported if one does something else.

    A state of AutoGen's (a JSON file of what save_state gave: an agent's, a runtime's, or with --team a team's of AutoGen 0.4.0
    or later) is loaded with agent_load_state, and recorded. What does not fit is refused before anything is changed.
    """
    from autogen_eventlog.cli import importing

    plan = importing.Plan(
        file, agent, app, team, participant, keep_unknown, importing.renames(rename or ()), key_prefix
    )
    asyncio.run(importing.bring(settings_of(ctx), plan))


def _with_seed(settings: Settings, asked: exporting.Asking) -> None:
    """Run anew with the seed under which it was recorded, where the program's code is run."""
    from autogen_eventlog.cli import checking

    if asked.app is not None:
        with_seed(settings, checking.Asked(asked.agents, every=asked.every, type=asked.type))
    elif asked.team is not None:
        with_seed(settings, checking.Asked((), every=True, type=None))


def add_moving(app: typer.Typer) -> None:
    """Make them commands of `app`."""
    app.command(epilog="Example: eventlog export planner/7 expert/7 --out talk.session.jsonl")(export)
    app.command(
        "import", epilog="Example: eventlog import talk.session.jsonl --rename 7=copy-of-7 --app shop.agents:register"
    )(import_)
