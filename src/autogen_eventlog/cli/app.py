"""The commands: parse, call, render."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from enum import Enum
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from autogen_eventlog.cli import inquiry
from autogen_eventlog.cli.checks import add_checks, with_seed_of
from autogen_eventlog.cli.group import PIPE_CLOSED, EventLogApp, EventLogGroup, leave_pipe
from autogen_eventlog.cli.inquiry import EffectQuestion, MessageQuestion, Span
from autogen_eventlog.cli.moving import add_moving
from autogen_eventlog.cli.programs import add_programs
from autogen_eventlog.cli.settings import OWN_PROCESS, Settings, settings_of

app = EventLogApp(
    name="eventlog",
    cls=EventLogGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


class Outcome(str, Enum):
    """How a delivery ended, as an option."""

    replied = "replied"
    raised = "raised"
    cancelled = "cancelled"
    dropped = "dropped"
    running = "running"


class Branch(str, Enum):
    """Which branches, as an option."""

    all = "all"
    current = "current"


class By(str, Enum):
    """What to count by, as an option."""

    agent = "agent"
    type = "type"


Agent = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's id, TYPE/KEY.")]
Since = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Recorded at or after: ISO 8601 with a zone, or how long ago (10m, 2h, 1d)."),
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Recorded before: as --since.")]
After = Annotated[
    int | None, typer.Option(metavar="POSITION", help="Go on behind this position, the last of the page before.")
]
Full = Annotated[bool, typer.Option("--full", help="Everything of each, nothing cut.")]


def _version(asked: bool) -> None:
    if asked:
        try:
            found = distribution_version("autogen-eventlog")
        except PackageNotFoundError:  # run from a checkout
            found = "(not installed)"
        typer.echo(f"eventlog {found}")
        raise typer.Exit


@app.callback(epilog="Example: eventlog --dsn postgresql://localhost/shop messages --agent planner/7 --since 1h")
def shared(
    ctx: typer.Context,
    dsn: Annotated[
        str | None,
        typer.Option(
            envvar="EVENTLOG_DSN", show_envvar=True, metavar="DSN", help="The database. Default: the embedded Postgres."
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIRECTORY", help="Where the embedded Postgres keeps its data ($EVENTLOG_DATA_DIR)."),
    ] = None,
    schema: Annotated[str, typer.Option(metavar="NAME", help="The log's schema in the database.")] = "eventlog",
    json: Annotated[
        bool, typer.Option("--json", help="For programs: one JSON object a line, times in ISO 8601 UTC.")
    ] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colours (the same as $NO_COLOR).")] = False,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """What AutoGen agents have lived through: query the event log, and look at any agent as of then.

    The shared options below are understood before the command and behind it. Data goes to stdout, everything else to
    stderr. Exit code: 0 done, 1 the log refused (the reason is on stderr), 2 a mistake in the command line.
    """
    if data_dir is not None and dsn is not None:
        source: Any = ctx.get_parameter_source("dsn")
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter("give one of --dsn and --data-dir")
        dsn = None  # said on the command line, the directory comes before $EVENTLOG_DSN
    own_process = ctx.obj is OWN_PROCESS
    ctx.obj = Settings(dsn or None, data_dir, schema, json, color=not no_color, own_process=own_process)


@app.command(epilog="Example: eventlog init --dsn postgresql://localhost/shop")
def init(ctx: typer.Context) -> None:
    """Make the log, or migrate it.

    Doing it twice does no harm. Programs that open the log do the same by themselves; only reading commands need it to
    be there.
    """
    asyncio.run(inquiry.init(settings_of(ctx)))


@app.command(epilog="Example: eventlog agents --type planner")
def agents(
    ctx: typer.Context,
    type: Annotated[str | None, typer.Option(metavar="TYPE", help="Only agents of this type.")] = None,
    after: Annotated[str | None, typer.Option(metavar="AGENT", help="Go on behind this id.")] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many.")] = 1000,
    runtimes: Annotated[bool, typer.Option("--runtimes", help="Also the streams that are no agent's.")] = False,
) -> None:
    """Agents that the log knows.

    In order of their ids.
    """
    asyncio.run(inquiry.agents(settings_of(ctx), type, after, limit, runtimes=runtimes))


@app.command(epilog="Example: eventlog messages --agent planner/7 --outcome raised --since 2026-01-31T14:00:00Z")
def messages(
    ctx: typer.Context,
    agent: Annotated[str | None, typer.Option(metavar="AGENT", help="The recipient, TYPE/KEY.")] = None,
    agent_type: Annotated[str | None, typer.Option(metavar="TYPE", help="The recipient's type.")] = None,
    type: Annotated[
        str | None, typer.Option(metavar="CLASS", help="The message's class: Name, or module:Name to be exact.")
    ] = None,
    sender: Annotated[str | None, typer.Option(metavar="AGENT", help="Who sent it, TYPE/KEY.")] = None,
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Where it was published, TYPE/SOURCE.")] = None,
    message_id: Annotated[str | None, typer.Option(metavar="ID", help="AutoGen's message id; it may repeat.")] = None,
    since: Since = None,
    until: Until = None,
    outcome: Annotated[
        Outcome | None,
        typer.Option(
            metavar="OUTCOME",
            help="How it ended: replied, raised, cancelled, dropped (on the way), or running (it has not).",
        ),
    ] = None,
    correlation: Annotated[UUID | None, typer.Option(metavar="ID", help="The conversation.")] = None,
    cause: Annotated[UUID | None, typer.Option(metavar="ID", help="The event that led to the delivery.")] = None,
    branch: Annotated[
        Branch, typer.Option(metavar="BRANCH", help="all, or current: without what a restore has left behind.")
    ] = Branch.all,
    oldest_first: Annotated[
        bool, typer.Option("--oldest-first", help="The oldest first instead of the newest.")
    ] = False,
    after: After = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many.")] = 100,
    full: Full = False,
) -> None:
    """Messages and how they ended.

    One for each agent that was given it, and the messages that were dropped on the way; the newest first.
    """
    question = MessageQuestion(
        agent=agent,
        agent_type=agent_type,
        type=type,
        sender=sender,
        topic=topic,
        message_id=message_id,
        span=Span.of(since, until),
        outcome=None if outcome is None else outcome.value,
        correlation=correlation,
        cause=cause,
        branch="current" if branch is Branch.current else "all",
        newest_first=not oldest_first,
        after=after,
        limit=limit,
    )
    asyncio.run(inquiry.messages(settings_of(ctx), question, full=full))


@app.command(epilog="Example: eventlog show planner/7 --version 41")
def show(
    ctx: typer.Context,
    agent: Agent,
    version: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only the event at this version, everything of it.")
    ] = None,
    branch: Annotated[
        Branch, typer.Option(metavar="BRANCH", help="all, or current: without what a restore has left behind.")
    ] = Branch.all,
    before: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only events before this version.")] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="The last so many.")] = 100,
    full: Full = False,
) -> None:
    """The last events of one agent, in order."""
    shown = inquiry.show(
        settings_of(ctx), agent, version, branch is Branch.current, before=before, limit=limit, full=full
    )
    asyncio.run(shown)


@app.command(epilog="Example: eventlog tail --follow --json")
def tail(
    ctx: typer.Context,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with the events to come, until Ctrl-C.")
    ] = False,
    after: After = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, metavar="N", help="Begin with the last so many (without --after).")
    ] = 20,
) -> None:
    """The last events of all agents.

    In the order of the log; none is skipped and none comes twice.
    """
    asyncio.run(inquiry.tail(settings_of(ctx), after, limit, follow=follow))


@app.command(epilog="Example: eventlog restore planner/7 --at 2026-01-31T14:32:00Z --app shop.agents:register")
def restore(
    ctx: typer.Context,
    agent: Agent,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="As of then: ISO 8601 with a zone, or how long ago (10m).")
    ] = None,
    version: Annotated[int | None, typer.Option(metavar="N", help="As of this version of the agent.")] = None,
    position: Annotated[int | None, typer.Option(metavar="N", help="As of this position of the log.")] = None,
    app: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="The function, plain or async, that is given a runtime and registers the agents on it.",
        ),
    ] = None,
) -> None:
    """The state of an agent as of then.

    It is rebuilt from the log, as of a time, a version or a position (default: now), and nothing is touched. It needs
    the agent's code: name it with --app. Without it, the events up to the point are shown. Strings are hashed with the
    seed that was recorded last, unless PYTHONHASHSEED is set.
    """
    if app is not None:
        with_seed_of(settings_of(ctx), agent)
    asyncio.run(inquiry.restore(settings_of(ctx), agent, at, version, position, app))


@app.command(epilog="Example: eventlog workers --json")
def workers(
    ctx: typer.Context,
    alive: Annotated[bool, typer.Option("--alive", help="Only those that are there.")] = False,
) -> None:
    """Processes that opened the log to write, and which agents each owns.

    How many of each type, under which epoch at most, and its lag: how long ago its last heartbeat was. What a worker that
    is lost owned is its own until another takes it.
    """
    asyncio.run(inquiry.workers(settings_of(ctx), alive=alive))


@app.command("in-flight", epilog="Example: eventlog in-flight --agent planner/7")
def in_flight(
    ctx: typer.Context,
    agent: Annotated[str | None, typer.Option(metavar="AGENT", help="Only of this agent, TYPE/KEY.")] = None,
    after: After = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many.")] = 100,
    full: Full = False,
) -> None:
    """Messages whose handlers have not ended.

    They were started: they run, or their process is gone. The oldest first; abandoned branches are left out.
    """
    asyncio.run(inquiry.in_flight(settings_of(ctx), agent, after, limit, full=full))


@app.command(epilog="Example: eventlog undelivered --recipient planner/7")
def undelivered(
    ctx: typer.Context,
    recipient: Annotated[str | None, typer.Option(metavar="AGENT", help="To whom it was sent, TYPE/KEY.")] = None,
    sender: Annotated[str | None, typer.Option(metavar="AGENT", help="Who sent it, TYPE/KEY.")] = None,
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Where it was published, TYPE/SOURCE.")] = None,
    since: Since = None,
    until: Until = None,
    after: After = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many.")] = 100,
    full: Full = False,
) -> None:
    """Messages that have reached nobody.

    They were accepted, and nothing of them was delivered or dropped so far; the oldest first. What was published to a
    topic without subscribers is among them.
    """
    span = Span.of(since, until)
    asyncio.run(inquiry.undelivered(settings_of(ctx), recipient, sender, topic, span, after, limit, full=full))


@app.command(epilog="Example: eventlog effects --agent planner/7 --kind model.create")
def effects(
    ctx: typer.Context,
    agent: Annotated[str | None, typer.Option(metavar="AGENT", help="Only of this agent, TYPE/KEY.")] = None,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="What was asked, exactly: model.create, tool.run_json, …")
    ] = None,
    unanswered: Annotated[
        bool, typer.Option("--unanswered", help="Requests whose result the log does not hold.")
    ] = False,
    since: Since = None,
    until: Until = None,
    after: After = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many.")] = 100,
    full: Full = False,
) -> None:
    """What agents asked of models, tools and the runtime.

    With the results, the oldest first. What is unanswered is under way, or its process died: what became of it outside
    is unknown.
    """
    question = EffectQuestion(agent=agent, kind=kind, span=Span.of(since, until), after=after, limit=limit)
    asyncio.run(inquiry.effects(settings_of(ctx), question, unanswered=unanswered, full=full))


@app.command(epilog="Example: eventlog diff 6f1c2f0e-6c1b-4f0a-9d5b-0d6f3c1a2b3c 8a0e1d5c-2b7f-4c63-9f0e-5d1b7a9c4e21")
def diff(
    ctx: typer.Context,
    first: Annotated[UUID, typer.Argument(metavar="ID", help="A conversation: the correlation of its messages.")],
    second: Annotated[UUID, typer.Argument(metavar="ID", help="Another.")],
) -> None:
    """Where two conversations went different ways.

    Who did what, in which order, and what was said. Ids, times and agents' keys are not compared. Exit code 1 if they
    differ.
    """
    asyncio.run(inquiry.differences(settings_of(ctx), first, second))


@app.command(epilog="Example: eventlog stats --since 1d --by type")
def stats(
    ctx: typer.Context,
    since: Since = None,
    until: Until = None,
    by: Annotated[By, typer.Option(metavar="WHAT", help="What to count by, with --since: agent or type.")] = By.agent,
) -> None:
    """How large the log is, or what happened.

    With --since or --until: how many messages there were in that span, and how they ended.
    """
    asyncio.run(inquiry.stats(settings_of(ctx), Span.of(since, until), "type" if by is By.type else "agent"))


add_checks(app)
add_moving(app)
add_programs(app)


def main() -> None:
    """The entry point of the command."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        app(prog_name="eventlog", obj=OWN_PROCESS)
    except OSError as error:  # the reader of --help has left
        if error.errno != errno.EPIPE:
            raise
        leave_pipe()
        os._exit(PIPE_CLOSED)
