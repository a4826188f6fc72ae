"""What `eventlog export` does: histories, sessions, states in AutoGen's own form."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import typer
from autogen_core import AgentId

from autogen_eventlog.cli import checking
from autogen_eventlog.cli.at_hand import registered
from autogen_eventlog.cli.checking import Asked, agents_of
from autogen_eventlog.cli.group import Refused
from autogen_eventlog.cli.opening import looking
from autogen_eventlog.cli.output import Output, printable
from autogen_eventlog.cli.restoring import load_register
from autogen_eventlog.cli.settings import Settings
from autogen_eventlog.cli.teams import Built, keep_nothing
from autogen_eventlog.cli.times import optional_time
from autogen_eventlog.cli.waiting import Bar
from autogen_eventlog.transfer import autogen_state, export_session, save_team_state


@dataclass(frozen=True, slots=True)
class Asking:
    """What `eventlog export` was told."""

    agents: tuple[str, ...]
    every: bool
    type: str | None
    session: UUID | None
    history: Path | None
    out: Path | None
    state: Path | None
    app: str | None
    team: str | None
    point: tuple[str | None, int | None, int | None]

    def check(self) -> None:
        """
        Raises:
            typer.BadParameter: What was told does not go together.
        """
        if sum(one is not None for one in (self.history, self.out, self.state)) != 1:
            raise typer.BadParameter("give one of --history, --out, --state")
        if self.history is not None and len(self.agents) > 1:
            raise typer.BadParameter("--history takes one agent, or --all or --type: for several in one file, --out")
        if self.session is not None and (self.out is None or self.agents or self.every or self.type):
            raise typer.BadParameter("--session goes with --out, and names its agents itself")
        if self.state is None and (self.team is not None or any(one is not None for one in self.point)):
            raise typer.BadParameter("--team, --at, --version and --position go with --state")
        if self.state is not None:
            self._check_state()

    def _check_state(self) -> None:
        if self.every or self.type is not None or (self.team is None and (len(self.agents) != 1 or self.app is None)):
            raise typer.BadParameter("--state takes one agent and --app, or --team")
        if self.team is not None and (self.agents or self.app is not None or self.point[1] is not None):
            raise typer.BadParameter("--team names its agents and their code itself, and takes --at or --position")

    @property
    def asked(self) -> Asked:
        """Of which agents."""
        return Asked(self.agents, every=self.every, type=self.type)


async def export(settings: Settings, asking: Asking) -> None:
    """Write what was asked for."""
    if asking.history is not None:
        await checking.export(settings, asking.asked, asking.history, asking.app)
    elif asking.out is not None:
        await _session(settings, asking, asking.out)
    elif asking.state is not None:
        await _state(settings, asking, asking.state)


async def _session(settings: Settings, asking: Asking, path: Path) -> None:
    output = Output(settings)
    async with looking(settings) as log:
        agents = None if asking.session is not None else await agents_of(log.reader, asking.asked)
        with Bar(settings, 1) as bar:
            try:
                done = await export_session(
                    log,
                    agents,
                    path,
                    correlation=asking.session,
                    on_progress=lambda events, total: bar.at(f"{events} of {total} events", 0),
                )
            except OSError as error:
                raise Refused(f"{path}: {error.strerror or error}") from error
    if output.for_programs:
        versions = dict(done.agents)
        output.line({"file": str(path), "agents": versions, "events": done.events, "waiting": done.waiting})
        return
    output.text(printable(f"{path}: {done.events} events of {', '.join(agent for agent, _ in done.agents)}"))
    if done.waiting:
        output.hint(
            f"{done.waiting} messages in it have not reached everybody they were for; they wait in the other log too."
        )


async def _state(settings: Settings, asking: Asking, path: Path) -> None:
    output = Output(settings)
    name, state = await (_team_state(settings, asking) if asking.team is not None else _agent_state(settings, asking))
    try:
        await asyncio.to_thread(path.write_bytes, _encoded(state))
    except (TypeError, ValueError) as error:
        raise Refused(f"{name}: its save_state gave what JSON can't hold ({error})") from error
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}") from error
    silent = keep_nothing(state)
    if output.for_programs:
        output.line({"file": str(path), "of": name, "keep_nothing": silent})
        return
    output.text(printable(f"{path}: the state of {name}"))
    for one in silent:
        output.hint(f"{one} saves nothing of itself: what it knows is in the log only (--history, --out).")


def _encoded(state: Mapping[str, Any]) -> bytes:
    """
    Raises:
        TypeError, ValueError: JSON can't hold it.
    """
    text = json.dumps(state, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        return text.encode()
    except UnicodeEncodeError:  # half a character, which JSON takes escaped only
        return (json.dumps(state, indent=1, allow_nan=False) + "\n").encode()


async def _agent_state(settings: Settings, asking: Asking) -> tuple[str, Mapping[str, Any]]:
    [agent] = asking.asked.agents
    register = load_register(asking.app or "")
    at, version, position = asking.point
    async with looking(settings) as log, registered(log, register) as runtime:
        state = await autogen_state(
            runtime, AgentId.from_str(agent), at=optional_time(at), version=version, position=position
        )
    return agent, state


async def _team_state(settings: Settings, asking: Asking) -> tuple[str, Mapping[str, Any]]:
    built = Built(asking.team or "")
    at, _, position = asking.point
    async with looking(settings) as log, registered(log, built.build):
        state = await save_team_state(built.team, at=optional_time(at), position=position)
        known = await built.known(log)
    if not known:
        team = f"team {built.team.name!r}"
        raise Refused(
            f"{team}: the log knows none of its agents. Its id decides which they are: build it with the id it had"
        )
    return f"team {built.team.name}", state
