"""What `eventlog check` and `eventlog export` do, and how they show it."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import typer
from autogen_core import AgentId

from autogen_eventlog.checking.history import SUFFIX, History, read_history, write_history
from autogen_eventlog.checking.read_only import ReadOnlyLog
from autogen_eventlog.checking.report import AgentCheck, CheckMode, CheckReport
from autogen_eventlog.checking.states import KeptState, keep
from autogen_eventlog.cli import findings
from autogen_eventlog.cli.at_hand import registered
from autogen_eventlog.cli.group import Refused
from autogen_eventlog.cli.opening import looking, reading
from autogen_eventlog.cli.output import Output, printable
from autogen_eventlog.cli.restoring import load_register
from autogen_eventlog.cli.seed import usable_seed
from autogen_eventlog.cli.settings import Settings
from autogen_eventlog.cli.waiting import Bar
from autogen_eventlog.errors import NotCapturable, UnknownStream
from autogen_eventlog.ids import FIRST_AGENT
from autogen_eventlog.past import LogPast
from autogen_eventlog.postgres.reader import Reader
from autogen_eventlog.postgres.records import StreamHead

if TYPE_CHECKING:
    from autogen_eventlog.runtime.in_process import EventSourcedAgentRuntime

DIFFERS = 1

_LONGEST_NAME = 180


@dataclass(frozen=True, slots=True)
class Asked:
    """Of which agents: named ones, files, those of a type, or all."""

    named: tuple[str, ...]
    every: bool
    type: str | None

    def __post_init__(self) -> None:
        given = [bool(self.named), self.every, self.type is not None]
        if sum(given) != 1:
            raise typer.BadParameter("give one of: agents or files, --all, --type")
        for name in self.agents:
            if not all(name.partition("/")[::2]):
                raise typer.BadParameter(f"{name!r}: give an agent as TYPE/KEY, or a file *{SUFFIX}")

    @property
    def files(self) -> list[str]:
        """Those named that are files."""
        return [name for name in self.named if name.endswith(SUFFIX)]

    @property
    def agents(self) -> list[str]:
        """Those named that are agents."""
        return [name for name in self.named if not name.endswith(SUFFIX)]

    @property
    def needs_log(self) -> bool:
        """Whether anything but files is asked for."""
        return not self.named or bool(self.agents)


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """What `eventlog check` was told."""

    app: str
    mode: CheckMode
    from_snapshot: bool


async def check(settings: Settings, asked: Asked, plan: CheckPlan) -> None:
    """Check and show; exit code 1 if an agent is not the same."""
    output = Output(settings)
    register = load_register(plan.app)
    histories = {name: _read(name) for name in asked.files}
    async with _log(settings, asked) as log:
        agents = await agents_of(log.reader, asked) if asked.needs_log else []
        named: list[str | History] = [histories.get(name, name) for name in asked.named]
        targets = named or [*agents]
        async with registered(log, register) as runtime:
            with Bar(settings, len(targets)) as bar:
                report = await runtime.check(
                    targets, mode=plan.mode, from_snapshot=plan.from_snapshot, on_progress=bar.show
                )
    findings.show(output, report)
    if not report.same:
        raise typer.Exit(DIFFERS)


async def check_file(path: Path, register: Callable[[Any], Any], *, mode: CheckMode = "report") -> AgentCheck:
    """One history, without a log.

    Raises:
        InvalidHistory: The file is none.
    """
    history = read_history(path)
    async with registered(ReadOnlyLog.nowhere(), register) as runtime:
        report: CheckReport = await runtime.check([history], mode=mode)
        return report.agents[0]


async def export(settings: Settings, asked: Asked, path: Path, app: str | None) -> None:
    """Write the files."""
    if asked.files:
        raise typer.BadParameter(f"{asked.files[0]!r} is a file: give an agent as TYPE/KEY")
    output = Output(settings)
    register = None if app is None else load_register(app)
    async with looking(settings) as log:
        agents = await agents_of(log.reader, asked)
        async with AsyncExitStack() as stack:
            runtime = None if register is None else await stack.enter_async_context(registered(log, register))
            written: list[dict[str, Any]] = []
            with Bar(settings, len(agents)) as bar:
                for number, agent in enumerate(agents):
                    bar.at(agent, number)
                    file = path if asked.named else path / file_of(agent)
                    written.append(await _export(log, runtime, agent, file))
    _say(output, written)


async def recorded_seed(settings: Settings, asked: Asked) -> str:
    """The hash seed under which the last event of what is asked for was recorded, if it was a number."""
    for name in asked.files:
        if seed := _read(name).producer.get("hash_seed"):
            return usable_seed(seed)
    async with reading(settings) as log:
        heads = [await _head(log.reader, name) for name in asked.agents] or await _heads(log.reader, asked)
        return await _seed(log.reader, max(heads, key=lambda head: head.position, default=None))


async def seed_of(settings: Settings, agent: str) -> str:
    """The same, of one agent, which the log may not know."""
    async with reading(settings) as log:
        return await _seed(log.reader, await log.reader.head(agent))


def file_of(agent: str) -> Path:
    """The file of an agent in a directory of histories: TYPE/KEY.history.jsonl, in names that every file system takes."""
    agent_type, _, key = agent.partition("/")
    name = quote(key, safe=" @+=,").replace("~", "%7E")
    if len(name) > _LONGEST_NAME or key != key.lower():
        # Where names that differ in case alone are one, two keys would be one file.
        name = f"{name[:_LONGEST_NAME]}~{hashlib.sha256(key.encode()).hexdigest()[:8]}"
    return Path(quote(agent_type, safe="")) / f"{name}{SUFFIX}"


# -- inside -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _log(settings: Settings, asked: Asked) -> AsyncGenerator[ReadOnlyLog]:
    if not asked.needs_log:
        yield ReadOnlyLog.nowhere()
        return
    async with looking(settings) as log:
        yield log


def _read(name: str) -> History:
    try:
        return read_history(Path(name))
    except OSError as error:
        raise Refused(f"{name}: {error.strerror or error}") from error


async def agents_of(reader: Reader, asked: Asked) -> list[str]:
    """The ids, each known to the log."""
    heads = [await _head(reader, name) for name in asked.agents] or await _heads(reader, asked)
    return [head.stream for head in heads]


async def _head(reader: Reader, agent: str) -> StreamHead:
    head = await reader.head(agent)
    if head is None or head.version == 0:
        raise UnknownStream(agent, "any version")
    return head


async def _heads(reader: Reader, asked: Asked) -> list[StreamHead]:
    """The heads of all agents with events, or of those of a type."""
    found: list[StreamHead] = []
    after = FIRST_AGENT if asked.type is None else None
    while page := await reader.heads(type=asked.type, after=after):
        after = page[-1].stream
        found += [head for head in page if head.version > 0]
    return found


async def _seed(reader: Reader, head: StreamHead | None) -> str:
    if head is None or head.version == 0:
        return usable_seed(None)
    last = await (await LogPast.of(reader, head.stream, head.version)).last_activation()
    return usable_seed(None if last is None else last.producer.get("hash_seed"))


async def _export(log: ReadOnlyLog, runtime: EventSourcedAgentRuntime | None, agent: str, file: Path) -> dict[str, Any]:
    head = await _head(log.reader, agent)
    past = await LogPast.of(log.reader, agent, head.version)
    state, why = None, "no --app was given"
    if runtime is not None:
        state, why = await _state(log, runtime, past)
    try:
        events = await write_history(file, past, state)
    except OSError as error:
        raise Refused(f"{file}: {error.strerror or error}") from error
    return {
        "agent": agent,
        "version": head.version,
        "events": events,
        "file": str(file),
        "state": None if state is None else state.digest,
        "no_state": why if state is None else None,
    }


async def _state(log: ReadOnlyLog, runtime: EventSourcedAgentRuntime, past: LogPast) -> tuple[KeptState | None, str]:
    """What the code at hand ends in, from the beginning on, or why that can't be kept."""
    try:
        recovery = runtime.recorded_agents.recovery_for(AgentId.from_str(past.lineage.stream))
        instance = (await recovery.along(past)).incarnation.agent
        assert instance is not None
        return keep(instance, log.codec, recovery.outside(instance)), ""
    except LookupError as error:
        raise Refused(f"{error}. Without --app, histories are exported without a state") from error
    except NotCapturable as error:
        return None, str(error)


def _say(output: Output, written: Sequence[dict[str, Any]]) -> None:
    for one in written:
        if output.for_programs:
            output.line(one)
        else:
            kept = "with its state" if one["state"] else f"without a state: {one['no_state']}"
            output.text(printable(f"{one['file']}: {one['agent']}, {one['events']} events, {kept}"))
