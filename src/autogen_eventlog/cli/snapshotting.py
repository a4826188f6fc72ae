"""What `eventlog snapshot` and `eventlog verify` do, and how they show it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

import typer
from autogen_core import AgentId

from autogen_eventlog.cli.at_hand import registered
from autogen_eventlog.cli.checking import DIFFERS, Asked, agents_of
from autogen_eventlog.cli.opening import acting
from autogen_eventlog.cli.output import Column, Output
from autogen_eventlog.cli.restoring import load_register
from autogen_eventlog.cli.settings import Settings
from autogen_eventlog.cli.waiting import Bar
from autogen_eventlog.errors import EventLogError
from autogen_eventlog.runtime.agents import RecordedAgents
from autogen_eventlog.runtime.reports import SnapshotReport

_SNAPSHOTS = (
    Column("agent", 40, "bold"),
    Column("version"),
    Column("kind"),
    Column("bytes"),
    Column("proof"),
    Column("where it differs", 90, least=20),
)


@dataclass(frozen=True, slots=True)
class _Refused:
    agent: str
    problem: str


Work = Callable[[RecordedAgents, AgentId], Awaitable[list[SnapshotReport]]]


async def snapshot(settings: Settings, asked: Asked, app: str) -> None:
    """Take and show; exit code 1 if one could not be, or was not proven."""

    async def one(agents: RecordedAgents, agent: AgentId) -> list[SnapshotReport]:
        return [await agents.snapshot_from_log(agent)]

    await _each(settings, asked, app, one)


async def verify(settings: Settings, asked: Asked, app: str, *, again: bool) -> None:
    """Prove and show; exit code 1 if one failed."""

    async def one(agents: RecordedAgents, agent: AgentId) -> list[SnapshotReport]:
        return await agents.verify_snapshots(agent, again=again)

    await _each(settings, asked, app, one)


async def _each(settings: Settings, asked: Asked, app: str, work: Work) -> None:
    output, register = Output(settings), load_register(app)
    found: list[SnapshotReport | _Refused] = []
    async with acting(settings) as log:
        names = await agents_of(log.reader, asked)
        async with registered(log, register) as runtime:
            with Bar(settings, len(names)) as bar:
                for done, name in enumerate(names):
                    bar.at(name, done)
                    try:
                        found += await work(runtime.recorded_agents, AgentId.from_str(name))
                    except EventLogError as error:
                        found.append(_Refused(name, str(error)))
    _show(output, found)
    if not all(isinstance(one, SnapshotReport) and one.proven for one in found):
        raise typer.Exit(DIFFERS)


def _show(output: Output, found: list[SnapshotReport | _Refused]) -> None:
    if output.for_programs:
        for one in found:
            output.line(asdict(one) | {"agent": str(one.agent)})
        return
    output.table(_SNAPSHOTS, [_row(one) for one in found])


def _row(one: SnapshotReport | _Refused) -> list[str]:
    if isinstance(one, _Refused):
        return [one.agent, "", "", "", "none", one.problem]
    said: Any = "proven" if one.proven else "failed"
    return [str(one.agent), str(one.version), one.kind, str(one.bytes), said, "; ".join(one.differing)]
