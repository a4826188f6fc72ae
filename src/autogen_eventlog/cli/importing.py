"""What `eventlog import` does: sessions, and states in AutoGen's own form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast

import typer
from autogen_core import AgentId

from autogen_eventlog.cli import findings
from autogen_eventlog.cli.at_hand import registered
from autogen_eventlog.cli.checking import DIFFERS
from autogen_eventlog.cli.group import Refused
from autogen_eventlog.cli.opening import acting
from autogen_eventlog.cli.output import Column, Output
from autogen_eventlog.cli.restoring import load_register
from autogen_eventlog.cli.settings import Settings
from autogen_eventlog.cli.teams import Built
from autogen_eventlog.cli.waiting import Bar
from autogen_eventlog.log import EventLog
from autogen_eventlog.transfer import ImportedSession, check_session, import_session, load_team_state
from autogen_eventlog.transfer.session_file import SUFFIX, SessionFile
from autogen_eventlog.transfer.team_forms import is_team_state

_SESSION = (Column("agent", 40, "bold"), Column("from", 40), Column("version"), Column("appended"))
_STATES = (Column("agent", 60, "bold"), Column("version"))


@dataclass(frozen=True, slots=True)
class Plan:
    """What `eventlog import` was told."""

    file: Path
    agent: str | None
    app: str | None
    team: str | None
    participant: str | None
    keep_unknown: bool
    rename: dict[str, str]
    key_prefix: str


def renames(texts: Iterable[str]) -> dict[str, str]:
    """Old names and new ones, of `OLD=NEW`.

    Raises:
        typer.BadParameter: One is not of that form, or an old name is given twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        old, equals, new = text.partition("=")
        if not (old and equals and new) or old in found:
            raise typer.BadParameter(f"--rename {text!r}: give each OLD=NEW once")
        found[old] = new
    return found


async def bring(settings: Settings, plan: Plan) -> None:
    """Import what the file is."""
    if plan.file.name.endswith(SUFFIX):
        if plan.agent is not None or plan.team is not None or plan.participant is not None or plan.keep_unknown:
            options = "--agent, --team, --participant and --keep-unknown"
            raise typer.BadParameter(f"{options} go with a state; a session names its agents")
        await _session(settings, plan)
    else:
        if plan.rename or plan.key_prefix:
            raise typer.BadParameter(f"--rename and --key-prefix go with a session (*{SUFFIX})")
        await _state(settings, plan, _read(plan.file))


# -- sessions -----------------------------------------------------------------------------------------------------


async def _session(settings: Settings, plan: Plan) -> None:
    output = Output(settings)
    register = None if plan.app is None else load_register(plan.app)
    try:
        total = SessionFile(plan.file).header.events
        async with acting(settings) as log:
            if register is not None:
                async with registered(log, register) as runtime:
                    report = await check_session(runtime, plan.file, plan.rename, key_prefix=plan.key_prefix)
                if not report.same:
                    findings.show(output, report)
                    output.hint("Nothing was imported.")
                    raise typer.Exit(DIFFERS)
            with Bar(settings, total) as bar:
                done = await import_session(
                    log,
                    plan.file,
                    plan.rename,
                    key_prefix=plan.key_prefix,
                    on_progress=lambda events, _: bar.at("events", events),
                )
    except OSError as error:
        raise Refused(f"{plan.file}: {error.strerror or error}") from error
    _show(output, done)


def _show(output: Output, done: ImportedSession) -> None:
    if output.for_programs:
        for one in done.agents:
            output.line(asdict(one))
        return
    output.table(_SESSION, [[one.agent, one.source, str(one.version), str(one.appended)] for one in done.agents])
    if done.appended == 0:
        output.hint("All of it was there already.")


# -- states -------------------------------------------------------------------------------------------------------


def _read(path: Path) -> Mapping[str, Any]:
    try:
        state: object = json.loads(path.read_bytes())
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path}: it is no state, which is JSON ({error})") from error
    if not isinstance(state, dict):
        raise Refused(f"{path}: it is no state: a JSON {type(state).__name__}, not an object")
    return cast("dict[str, Any]", state)


async def _state(settings: Settings, plan: Plan, state: Mapping[str, Any]) -> None:
    output = Output(settings)
    if plan.team is not None:
        if plan.agent is not None or plan.app is not None:
            raise typer.BadParameter("--team names its agents and their code itself: leave out --agent and --app")
        versions = await _into_team(settings, plan, Built(plan.team), state)
    else:
        versions = await _into_agents(settings, plan, state)
    if output.for_programs:
        for agent, version in versions.items():
            output.line({"agent": agent, "version": version})
        return
    output.table(_STATES, [[agent, str(version)] for agent, version in versions.items()])


async def _into_team(settings: Settings, plan: Plan, built: Built, state: Mapping[str, Any]) -> dict[str, int]:
    async with acting(settings) as log:
        async with registered(log, built.build):
            unknown: Literal["refuse", "keep"] = "keep" if plan.keep_unknown else "refuse"
            await load_team_state(built.team, state, participant=plan.participant, unknown_messages=unknown)
        return await built.known(log)


async def _into_agents(settings: Settings, plan: Plan, state: Mapping[str, Any]) -> dict[str, int]:
    if is_team_state(state):
        raise typer.BadParameter("it is the state of a team: name the function that builds it with --team")
    if plan.app is None or plan.participant is not None or plan.keep_unknown:
        raise typer.BadParameter("a state needs --app (and --agent), or --team")
    agents = [plan.agent] if plan.agent is not None else list(state)
    if plan.agent is None and not (state and all("/" in name for name in state)):
        raise typer.BadParameter("it is the state of one agent: name it with --agent TYPE/KEY")
    register = load_register(plan.app)
    async with acting(settings) as log:
        async with registered(log, register) as runtime:
            if plan.agent is not None:
                await runtime.agent_load_state(_agent(plan.agent), state)
            else:
                await runtime.load_state(state)
        return {agent: await _version(log, agent) for agent in agents}


def _agent(name: str) -> AgentId:
    try:
        return AgentId.from_str(name)
    except ValueError as error:
        raise typer.BadParameter(f"--agent {name!r}: give TYPE/KEY") from error


async def _version(log: EventLog, agent: str) -> int:
    head = await log.head(agent)
    return 0 if head is None else head.version
