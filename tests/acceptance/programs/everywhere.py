"""Processes that live until a given event: each is killed -9 as the log has it, or just before.

    python -m tests.acceptance.programs.everywhere

A life is ordered by a line of JSON on the standard input (`Life`), and lived in a fork of this process, which has all imported
already. How it ended is a line on the standard output: an exit code, or the negative number of a signal.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import logging
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autogen_core import AgentId

from autogen_eventlog import (
    Answer,
    EventLog,
    EventLogHandler,
    EventSourcedAgentRuntime,
    EventType,
    SnapshotPolicy,
    UnknownEffect,
)
from autogen_eventlog.errors import UnknownMessage
from autogen_eventlog.events import EventData, RecordedEvent
from autogen_eventlog.postgres.backlog import Backlog
from autogen_eventlog.postgres.link import Answer as Answered
from autogen_eventlog.postgres.link import Link
from autogen_eventlog.postgres.ticket import Ticket
from autogen_eventlog.postgres.writer import Writer
from autogen_eventlog.replay.journal import MORE
from autogen_eventlog.state.capture import capture

from ..asking import until
from .everywhere_agents import PROGRAMS, Outside, Request

_LONGEST_LIFE_SECONDS = 60


@dataclass(frozen=True)
class Life:
    """What one process is to live through."""

    dsn: str
    program: str
    directory: str
    """Where the outside keeps what was done; `result` of it is what this life came to."""
    end: str = ""
    """`committed` or `submitted`: when it is killed. Empty: it comes to its end."""
    number: int = 0
    """At which event, of those that this process records."""
    unknown: str = ""
    """What becomes of effects whose outcome is unknown: `retry`, `ask`; empty: the default."""
    told_unknown: Sequence[str] = ()
    """Requests whose outcome is unknown, though nobody was killed."""
    snapshots: bool = False
    durability: str = "output"

    def line(self) -> str:
        return json.dumps(asdict(self)) + "\n"


def kill_at(end: str, number: int) -> None:
    """Let this process be killed as its n-th event is in the log (`committed`), or in memory only (`submitted`).

    Events are committed one by one, so that between any two of them there is a moment to be killed at.
    """
    seen = 0

    def count(more: int) -> None:
        nonlocal seen
        seen += more
        if seen >= number:
            os.kill(os.getpid(), signal.SIGKILL)

    take, append, submit = Backlog.take, Link.append, Writer.submit

    def take_one(self: Backlog, max_events: int, max_bytes: int) -> list[Ticket]:
        return take(self, 1, max_bytes)

    async def append_and_count(self: Link, tickets: Sequence[Ticket], timeout: float) -> Answered:
        answer = await append(self, tickets, timeout)
        count(len(tickets))
        return answer

    def submit_and_count(self: Writer, stream: str, epoch: int, version: int, events: Sequence[EventData]) -> Ticket:
        ticket = submit(self, stream, epoch, version, events)
        count(len(events))
        return ticket

    Backlog.take = take_one  # type: ignore[method-assign]
    if end == "committed":
        Link.append = append_and_count  # type: ignore[method-assign]
    else:
        Writer.submit = submit_and_count  # type: ignore[method-assign]


async def answered(runtime: EventSourcedAgentRuntime, request: Request) -> str:
    """What became of a request from outside, which is made if it was not accepted yet."""
    try:
        try:
            reply = await runtime.reply_to(request.id, request.agent)
        except UnknownMessage:
            reply = await runtime.send_message(request.message, request.agent, message_id=request.id)
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"
    return f"replied {type(reply).__name__}"


def key(event: RecordedEvent) -> str:
    """What an effect was asked for, as the outside notes it."""
    request: Any = json.loads(event.payload or b"")["request"]
    if event.metadata["kind"].startswith("model."):
        messages: list[Any] = request["messages"]
        asked = [message["content"] for message in messages if message["type"] == "UserMessage"]
        return f"model {messages[0]['content']} {len(messages)} {asked[-1]}"
    return (request.get("args") or request)["what"]


async def unanswered(log: EventLog) -> list[str]:
    """What was asked, and whose outcome no log holds; of a stream, whose end."""
    asked: dict[Any, str] = {}
    for head in await log.agents():
        async for event in log.read(head.stream):
            if event.type is EventType.EFFECT_REQUESTED:
                asked[event.id] = key(event)
            elif event.type is EventType.EFFECT_RECORDED and MORE not in event.metadata:
                asked.pop(event.cause, None)
    return list(asked.values())


async def agents_of(log: EventLog) -> list[AgentId]:
    """Those that have lived through anything."""
    heads = [head for head in await log.agents() if head.version and not head.stream.startswith("$")]
    return [AgentId.from_str(head.stream) for head in heads]


async def live(life: Life) -> dict[str, Any]:
    """Take up what was left, ask what was not asked yet, and come to rest."""
    program = PROGRAMS[life.program]
    async with EventLog.open(life.dsn) as log:
        for what in await unanswered(log):
            Outside.note(what, into="unknown")
        runtime = EventSourcedAgentRuntime(intervention_handlers=[handler_of(life, log)])
        await program.register(runtime)
        for agent in await agents_of(log):
            await runtime.view(agent)  # what was left is whole before anybody takes it up
        runtime.start()
        replies = [await asyncio.gather(*(answered(runtime, request) for request in step)) for step in program.steps]
        await at_rest(runtime, log)
        outcome = await _outcome(runtime, log)
        await runtime.stop_when_idle()
    return {"replies": replies, **outcome}


def handler_of(life: Life, log: EventLog) -> EventLogHandler:
    settings: dict[str, Any] = {"retry": {"effects_unknown": "retry"}}.get(life.unknown, {})
    if life.unknown == "ask":
        settings = {"effects_unknown": {"tool": "ask", "own": "ask"}, "ask_unknown": _find_out}
    if life.snapshots:
        settings["snapshots"] = SnapshotPolicy(every=2, proving=1.0)
    return EventLogHandler(log, durability="strict" if life.durability == "strict" else "output", **settings)


async def _find_out(unknown: UnknownEffect) -> Answer:
    request: Any = unknown.request
    what = (request.get("args") or request)["what"]
    return Answer(f"{what} is done")


async def at_rest(runtime: EventSourcedAgentRuntime, log: EventLog) -> None:
    """Wait until nothing is under way.

    Raises:
        TimeoutError: Something still is.
    """
    try:
        await until(lambda: _rests(runtime, log), "nothing is under way", timeout=15)
    except TimeoutError as error:
        left = [await log.audit.in_flight(), await log.audit.undelivered(), await unanswered(log)]
        raise TimeoutError(f"{error}; still are: {left}") from None


async def _rests(runtime: EventSourcedAgentRuntime, log: EventLog) -> bool:
    if await log.audit.in_flight() or await log.audit.undelivered():
        return False
    instances = [await runtime.try_get_underlying_agent_instance(agent) for agent in await agents_of(log)]
    return not any(getattr(instance, "tasks", None) for instance in instances)


async def _outcome(runtime: EventSourcedAgentRuntime, log: EventLog) -> dict[str, Any]:
    await log.writer.flush()
    states: dict[str, Any] = {}
    differing: list[str] = []
    deliveries: dict[str, int] = {}
    for agent in await agents_of(log):
        head = await log.head(str(agent))
        assert head is not None
        instance = capture(await runtime.try_get_underlying_agent_instance(agent), log.codec)
        states[str(agent)] = json.loads(instance.data)
        if capture(await runtime.view(agent), log.codec).digest != instance.digest:
            differing.append(f"{agent} version {head.version}")
        for version in range(1, head.version, max(1, head.version // 5)):
            await runtime.view(agent, version=version)
        events = [event async for event in log.read(agent)]
        deliveries[str(agent)] = sum(event.type is EventType.MESSAGE_DELIVERED for event in events)
    return {
        "states": states,
        "differing": differing,
        "deliveries": deliveries,
        "events": log.statistics().events,
        "unanswered": await unanswered(log),
        "in_flight": [str(one) for one in await log.audit.in_flight()],
        "undelivered": [str(one) for one in await log.audit.undelivered()],
        "unsettled": len(await log.unsettled_workers()),
    }


def _live_in_fork(life: Life) -> None:
    """Never returns."""
    status = 1
    try:
        signal.alarm(_LONGEST_LIFE_SECONDS)  # ends it by a signal of its own, should it hang
        directory = Path(life.directory)
        errors = os.open(directory / "errors", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(errors, 2)
        Outside.directory, Outside.unknown = directory, frozenset(life.told_unknown)
        logging.basicConfig(level=logging.WARNING)
        faulthandler.dump_traceback_later(_LONGEST_LIFE_SECONDS - 5)
        if life.end:
            kill_at(life.end, life.number)
        outcome = asyncio.run(live(life))
        (directory / "result").write_text(json.dumps(outcome))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _live_in_fork(Life(**json.loads(line)))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    from tests.acceptance.programs import everywhere  # its classes by their importable name, not as __main__'s

    everywhere.main()
