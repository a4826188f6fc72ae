"""The command on a real log: what it prints, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from autogen_eventlog.cli import app
from autogen_eventlog.events import EventType, Outcome
from tests.integration.store import SCHEMA, an_event, fetch
from tests.integration.test_audit import TASK, Log, Task, open_log

SHOP = '''
from dataclasses import dataclass

from autogen_core import MessageContext, RoutedAgent, message_handler


@dataclass
class Order:
    item: str
    pieces: int


@dataclass
class Total:
    pieces: int


class Client:
    """Wiring: no data."""


class Clerk(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("counts")
        self.total = 0
        self._orders: list[Order] = []
        self.client = Client()

    @message_handler
    async def on_order(self, message: Order, ctx: MessageContext) -> Total:
        self.total += message.pieces
        self._orders.append(message)
        return Total(self.total)


async def register(runtime) -> None:
    await Clerk.register(runtime, "clerk", Clerk)


def register_nothing(runtime) -> None:
    pass
'''
SELLING = """
import asyncio, sys
from autogen_core import AgentId
from autogen_eventlog.log import EventLog
from autogen_eventlog.runtime.handler import EventLogHandler
from autogen_eventlog.runtime.in_process import EventSourcedAgentRuntime
from shop import Order, register

async def main() -> None:
    async with EventLog.open(sys.argv[1]) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await register(runtime)
        runtime.start()
        for pieces in (1, 2, 3):
            await runtime.send_message(Order("tea", pieces), AgentId("clerk", "a"))
        await runtime.stop_when_idle()

asyncio.run(main())
"""


@dataclass(frozen=True)
class Cli:
    """The command, on one log."""

    dsn: str

    def run(self, *arguments: str, columns: int = 250) -> Any:
        return CliRunner(env={"EVENTLOG_DSN": self.dsn, "COLUMNS": str(columns)}).invoke(app, list(arguments))

    def text(self, *arguments: str) -> str:
        result = self.run(*arguments)
        assert (result.exit_code, result.exception) == (0, None), result.output
        return result.stdout

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        result = self.run(*arguments, "--json")
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    def refused(self, *arguments: str) -> str:
        result = self.run(*arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "Traceback" not in result.stderr
        return result.stderr

    def start(self, *arguments: str, cwd: Path | None = None, **options: Any) -> subprocess.Popen[str]:
        """The real entry, in a process of its own."""
        source = str(Path(__file__).parents[2] / "src")
        path = os.pathsep.join(part for part in (source, os.environ.get("PYTHONPATH", "")) if part)
        return subprocess.Popen(
            [sys.executable, "-m", "autogen_eventlog", *arguments],
            cwd=cwd,
            env=os.environ | {"EVENTLOG_DSN": self.dsn, "PYTHONPATH": path, "COLUMNS": "250"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )


@pytest.fixture
def cli(dsn: str) -> Cli:
    return Cli(dsn)


def record(dsn: str, what: Callable[[Log], Awaitable[object]]) -> None:
    async def recording() -> None:
        async with open_log(dsn) as log:
            await what(log)

    asyncio.run(recording())


async def a_day_in_the_shop(log: Log) -> None:
    """Two handled messages, one failed, one running, one dropped, one queued; then taken back behind the first."""
    clerk, runtime = await log.agent("clerk/1"), await log.runtime()
    await clerk.activated()  # 1
    await clerk.handled("first", sender="boss/1")  # 2, 3
    await clerk.failed(await clerk.delivered("second"))  # 4, 5
    await clerk.restored(3)  # 6
    await clerk.delivered("third", message_id="m3")  # 7
    await runtime.dropped("spam", recipient="clerk/1")
    await runtime.add(EventType.MESSAGE_SUBMITTED, Task("queued"), recipient="clerk/2")


# -- every command, for programs and for people ---------------------------------------------------------------------


def test_messages_are_shown_with_their_ends(cli: Cli) -> None:
    record(cli.dsn, a_day_in_the_shop)
    spam, third, second, first = cli.lines("messages")
    assert (first["agent"], first["version"], first["outcome"], first["abandoned"]) == ("clerk/1", 2, "replied", False)
    assert first["message"] == {"$t": TASK, "text": "first"}
    assert (second["outcome"], second["error"], second["abandoned"]) == ("raised", "no such order", True)
    assert (third["outcome"], third["in_flight"], third["message_id"]) == (None, True, "m3")
    assert (spam["outcome"], spam["dropped_by"], spam["dropped_stage"]) == ("dropped", "shop.guards:Filter", "send")
    assert datetime.fromisoformat(first["delivered_at"]).tzinfo == timezone.utc
    assert {tuple(line) for line in (spam, third, second, first)} == {tuple(first)}
    header, *rows = cli.text("messages").splitlines()
    assert header.split()[:2] == ["delivered", "(UTC)"]
    assert [any(word in row for row in rows) for word in ("dropped", "in flight", "raised (abandoned)", "replied")]
    assert len(rows) == 4 and rows[0].split()[1].endswith("Z")


def test_messages_are_selected_by_every_filter(cli: Cli) -> None:
    record(cli.dsn, a_day_in_the_shop)
    for arguments, versions in (
        (["--agent", "clerk/1", "--outcome", "running"], [7]),
        (["--agent-type", "clerk", "--outcome", "raised"], [4]),
        (["--type", "Task", "--branch", "current", "--oldest-first"], [2, 7, 1]),
        (["--type", "Nothing"], []),
        (["--sender", "boss/1"], [2]),
        (["--topic", "news/x"], []),
        (["--message-id", "m3"], [7]),
        (["--since", "1h", "--limit", "1"], [1]),
        (["--until", "2020-01-01T00:00:00Z"], []),
        (["--correlation", str(uuid4())], []),
        (["--cause", str(uuid4())], []),
    ):
        assert [line["version"] for line in cli.lines("messages", *arguments)] == versions, arguments


def test_a_full_page_says_how_to_go_on(cli: Cli) -> None:
    record(cli.dsn, a_day_in_the_shop)
    first = cli.run("messages", "--limit", "2")
    option, cursor = first.stderr.split()[-2:]
    assert option == "--after"
    rest = cli.lines("messages", option, cursor)
    assert [line["version"] for line in rest] == [4, 2]


def test_an_export_is_not_bounded_by_a_page(cli: Cli) -> None:
    async def many(log: Log) -> None:
        producer = await log.store.claimed("clerk/1")
        await producer.submit(*(an_event(number + 1, message_id=str(number)) for number in range(1203)))

    record(cli.dsn, many)
    whole = cli.lines("messages", "--limit", "5000", "--oldest-first")
    assert [line["message_id"] for line in whole] == [str(number) for number in range(1203)]
    assert cli.lines("messages", "--limit", "1201", "--oldest-first") == whole[:1201]


def test_a_message_in_full_shows_everything_of_it(cli: Cli) -> None:
    record(cli.dsn, a_day_in_the_shop)
    text = cli.text("messages", "--full", "--outcome", "raised")
    for part in (
        "clerk/1  version 4",
        '"text": "second"',
        "shop:Missing",
        "no such order",
        "Traceback …",
        "event id",
    ):
        assert part in text


def test_a_message_whose_class_is_nowhere_to_be_found_is_shown(cli: Cli) -> None:
    async def gone(log: Log) -> None:
        clerk = await log.agent("clerk/1")
        payload = b'{"$t":"gone.module:Gone","deep":[{"$t":"gone.module:Too","n":1}]}'
        await clerk.delivered(message_type="gone.module:Gone", payload=payload)

    record(cli.dsn, gone)
    [line] = cli.lines("messages", "--type", "Gone")
    assert line["message"] == {"$t": "gone.module:Gone", "deep": [{"$t": "gone.module:Too", "n": 1}]}
    assert "gone.module:Too" in cli.text("messages", "--full")


def test_the_events_of_an_agent_are_shown_in_order(cli: Cli) -> None:
    record(cli.dsn, a_day_in_the_shop)
    events = cli.lines("show", "clerk/1")
    assert [event["version"] for event in events] == list(range(1, 8))
    assert [event["version"] for event in events if event["abandoned"]] == [4, 5]
    assert events[5]["metadata"] == {"to_version": 3}
    current = cli.lines("show", "clerk/1", "--branch", "current")
    assert [event["version"] for event in current] == [1, 2, 3, 6, 7]
    assert [event["version"] for event in cli.lines("show", "clerk/1", "--limit", "2")] == [6, 7]
    assert [event["version"] for event in cli.lines("show", "clerk/1", "--limit", "2", "--before", "6")] == [4, 5]
    assert "--before 6" in cli.run("show", "clerk/1", "--limit", "2").stderr
    assert "raised (abandoned)" in cli.text("show", "clerk/1")


def test_one_event_is_shown_in_full(cli: Cli) -> None:
    record(cli.dsn, a_day_in_the_shop)
    assert [event["version"] for event in cli.lines("show", "clerk/1", "--version", "5")] == [5]
    text = cli.text("show", "clerk/1", "--version", "5")
    assert "clerk/1  version 5  DeliveryCompleted" in text and "abandoned" in text
    assert cli.text("show", "clerk/1", "--full").count("event id") == 7
    assert "ends at version 7" in cli.refused("show", "clerk/1", "--version", "8")
    assert "The log knows no agent nobody/1: `eventlog agents` lists" in cli.refused("show", "nobody/1")


def test_an_agent_without_its_key_is_told_from_those_that_there_are(cli: Cli) -> None:
    record(cli.dsn, a_day_in_the_shop)
    said = "clerk is no agent: agents are TYPE/KEY, such as clerk/1"
    assert cli.refused("show", "clerk") == cli.refused("restore", "clerk") == f"eventlog: {said}\n"
    assert cli.run("messages", "--agent", "clerk").stderr == f"{said}.\n"
    assert "such as planner/default" in cli.refused("show", "planner")


def test_agents_are_listed_with_where_they_stand(cli: Cli) -> None:
    record(cli.dsn, a_day_in_the_shop)

    async def more(log: Log) -> None:
        await (await log.agent("boss/1")).handled()

    record(cli.dsn, more)
    assert [(line["agent"], line["version"]) for line in cli.lines("agents")] == [("boss/1", 2), ("clerk/1", 7)]
    assert [line["agent"] for line in cli.lines("agents", "--type", "clerk")] == ["clerk/1"]
    assert [line["agent"] for line in cli.lines("agents", "--after", "boss/1")] == ["clerk/1"]
    assert len(cli.lines("agents", "--runtimes")) == 3
    assert "--after boss/1" in cli.run("agents", "--limit", "1").stderr
    assert "clerk/1" in cli.text("agents")


def test_what_is_in_flight_and_what_reached_nobody_is_listed(cli: Cli) -> None:
    record(cli.dsn, a_day_in_the_shop)
    [running] = cli.lines("in-flight")
    assert (running["agent"], running["version"], running["in_flight"]) == ("clerk/1", 7, True)
    assert cli.lines("in-flight", "--agent", "clerk/2") == []
    assert "in flight" in cli.text("in-flight") and "m3" in cli.text("in-flight", "--full")
    [queued] = cli.lines("undelivered")
    assert (queued["type"], queued["recipient"], queued["payload"]) == (
        "MessageSubmitted",
        "clerk/2",
        {"$t": TASK, "text": "queued"},
    )
    assert cli.lines("undelivered", "--recipient", "clerk/3") == cli.lines("undelivered", "--topic", "a/b") == []
    assert cli.lines("undelivered", "--since", "1h", "--sender", "boss/1") == []
    assert "clerk/2" in cli.text("undelivered") and "queued" in cli.text("undelivered", "--full")


def test_the_tail_shows_the_last_events_of_all(cli: Cli) -> None:
    record(cli.dsn, a_day_in_the_shop)
    everything = cli.lines("tail")
    assert [event["position"] for event in everything] == sorted(event["position"] for event in everything)
    assert len(everything) == 9
    assert cli.lines("tail", "-n", "2") == everything[-2:]
    assert cli.lines("tail", "-n", "0") == []
    assert cli.lines("tail", "--after", str(everything[3]["position"])) == everything[4:]
    assert len(cli.text("tail").splitlines()) == 9


def test_the_log_is_summed_up(cli: Cli) -> None:
    record(cli.dsn, a_day_in_the_shop)
    [statistics] = cli.lines("stats")
    assert (statistics["agents"], statistics["events"], statistics["workers_alive"]) == (1, 9, 0)
    [clerk] = cli.lines("stats", "--since", "1h")
    assert (clerk["name"], clerk["deliveries"], clerk["raised"], clerk["running"]) == ("clerk/1", 3, 1, 1)
    [task] = cli.lines("stats", "--until", "0s", "--by", "type")
    assert (task["name"], task["deliveries"]) == (TASK, 3)
    assert "bytes on disk" in cli.text("stats") and "clerk/1" in cli.text("stats", "--since", "1h")


def test_workers_are_listed_and_looking_makes_none(cli: Cli) -> None:
    record(cli.dsn, a_day_in_the_shop)
    [worker] = cli.lines("workers")
    assert worker["alive"] is False and worker["stopped_at"] is not None and worker["process"] == os.getpid()
    assert "stopped" in cli.text("workers")
    for command in (["agents"], ["messages"], ["show", "clerk/1"], ["tail"], ["in-flight"], ["undelivered"], ["stats"]):
        cli.text(*command)
    assert len(cli.lines("workers")) == 1


def test_workers_are_listed_with_what_they_own(cli: Cli) -> None:
    async def owning(log: Log) -> None:
        for name in ("clerk/1", "clerk/2", "boss/1"):
            await (await log.agent(name)).handled()
        await log.store.ownership.claim("clerk/2")
        await log.runtime()
        [worker] = await asyncio.to_thread(cli.lines, "workers", "--alive")
        assert (worker["agents"], worker["owns"], worker["epoch"]) == ({"boss": 1, "clerk": 2}, 3, 2)
        assert 0 <= worker["lag_seconds"] < 60 and worker["alive"] is True
        text = await asyncio.to_thread(cli.text, "workers")
        assert "boss 1, clerk 2" in text and "alive" in text

    record(cli.dsn, owning)
    [worker] = cli.lines("workers")
    assert (worker["agents"], worker["owns"], worker["epoch"], worker["lag_seconds"]) == ({}, 0, 0, None)
    assert cli.lines("workers", "--alive") == []


def test_an_empty_log_has_nothing_to_show(cli: Cli) -> None:
    for command in ("agents", "messages", "tail", "workers", "in-flight", "undelivered"):
        assert cli.lines(command) == []


def test_an_empty_answer_says_whether_the_name_is_known(cli: Cli) -> None:
    record(cli.dsn, a_day_in_the_shop)
    for command in (["messages", "--agent"], ["in-flight", "--agent"], ["effects", "--agent"]):
        assert "The log knows no agent clerk/l: `eventlog agents` lists" in cli.run(*command, "clerk/l").stderr
    assert cli.run("messages", "--agent", "clerk/1", "--sender", "nobody/1").stderr == "Nothing matches.\n"
    assert cli.run("messages", "--agent", "clerk/1").stderr == ""


def test_a_narrow_screen_keeps_ids_and_content_readable(cli: Cli) -> None:
    record(cli.dsn, a_day_in_the_shop)
    for columns in (80, 100):
        for command in (["messages"], ["show", "clerk/1"], ["undelivered"], ["agents"], ["effects"], ["workers"]):
            lines = cli.run(*command, columns=columns).stdout.splitlines()
            assert all(len(line) <= columns for line in lines), (command, columns)
        header, *rows = cli.run("messages", columns=columns).stdout.splitlines()
        assert header.split() == ["delivered", "agent", "version", "from", "message", "outcome", "content"]
        assert all("clerk/1" in row and "Task" in row for row in rows)
        assert "boss/1" in rows[-1] and "no such order" in rows[-2] and rows[0][8] == "Z"


def test_why_a_message_was_dropped_is_shown(cli: Cli) -> None:
    why = "agent clerk/9: Agent with name clerk not found"

    async def dropping(log: Log) -> None:
        by = {"by": "autogen_eventlog.errors:UnknownAgent", "stage": "send", "error": why}
        await (await log.runtime()).add(EventType.MESSAGE_DROPPED, Task("lost"), recipient="clerk/9", metadata=by)

    record(cli.dsn, dropping)
    [dropped] = cli.lines("messages")
    assert (dropped["outcome"], dropped["error"]) == ("dropped", why)
    [head] = cli.lines("agents", "--runtimes")
    for arguments in (["messages"], ["messages", "--full"], ["show", head["agent"]], ["show", head["agent"], "--full"]):
        assert why in cli.text(*arguments), arguments


async def asked_of_the_world(log: Log) -> None:
    """A tool answered, and did not; a model failed."""
    clerk = await log.agent("clerk/1")
    order = await clerk.delivered()
    common: dict[str, Any] = {"delivery": order.delivery, "correlation": order.correlation}
    named = {"effect": 0, "kind": "tool.run_json", "request": "ed0e4b226632c13e"}
    request = {"kind": "tool.run_json", "request": {"tool": "search", "args": {"q": "tea"}}, "digest": "ed0e"}
    asked = await clerk.add(EventType.EFFECT_REQUESTED, request, metadata=named, cause=order.id, **common)
    await clerk.add(
        EventType.EFFECT_RECORDED, "a pot", outcome=Outcome.REPLIED, metadata=named, cause=asked.id, **common
    )
    await clerk.add(EventType.EFFECT_REQUESTED, request, metadata={**named, "effect": 1}, cause=order.id, **common)
    named = {"effect": 2, "kind": "model.create", "request": "77aa"}
    request = {"kind": "model.create", "request": {"messages": [{"content": "which tea?"}]}}
    asked = await clerk.add(EventType.EFFECT_REQUESTED, request, metadata=named, cause=order.id, **common)
    error = {"text": "too many requests", "args": []}
    await clerk.add(
        EventType.EFFECT_RECORDED,
        error,
        **(common | {"message_type": "shop:Busy", "outcome": Outcome.RAISED, "metadata": named, "cause": asked.id}),
    )


def test_effects_are_shown_in_full(cli: Cli) -> None:
    record(cli.dsn, asked_of_the_world)
    tool, model = cli.text("effects", "--full").strip().split("\n\n")
    assert tool.startswith("clerk/1  version 3  tool.run_json\n") and "clerk/1  version 6  model.create\n" in model
    for part in ("asked at", "version 2", '"q": "tea"\n', "outcome", "replied", "result", '"a pot"'):
        assert part in tool
    for part in ("version 5", '"content": "which tea?"', "raised", "shop:Busy", "too many requests"):
        assert part in model
    waiting = cli.text("effects", "--unanswered", "--full")
    assert "version 4" in waiting and "unknown" in waiting and '"tool": "search"' in waiting and "result" not in waiting


def test_a_kind_that_there_is_nothing_of_is_answered_with_those_there_are(cli: Cli) -> None:
    assert cli.run("effects", "--kind", "tool.search").stderr == "Nothing matches.\n"
    record(cli.dsn, asked_of_the_world)
    told = cli.run("effects", "--kind", "tool.search")
    assert "Nothing of kind tool.search matches" in told.stderr and "model.create, tool.run_json" in told.stderr
    assert cli.run("effects", "--kind", "tool.search", "--json").output == ""
    assert [line["version"] for line in cli.lines("effects", "--kind", "model.create")] == [6]


def test_requests_without_a_result_are_filtered_as_results_are(cli: Cli) -> None:
    record(cli.dsn, asked_of_the_world)
    [waiting] = cli.lines("effects", "--unanswered")
    for of in ([], ["--agent", "clerk/1"]):
        assert cli.lines("effects", "--unanswered", "--kind", waiting["kind"], "--since", "1h", *of) == [waiting]
        assert cli.lines("effects", "--unanswered", "--kind", "no.such", *of) == []
        assert cli.lines("effects", "--unanswered", "--until", "1h", *of) == []


def test_effects_are_shown_with_what_was_asked(cli: Cli) -> None:
    record(cli.dsn, asked_of_the_world)
    text = cli.text("effects")
    assert "which tea?" in text and "$t" not in text and "too many requests" in text
    assert "search" in text and '"tea"' in text and "a pot" in text and "ed0e" not in text
    [answered, _], [waiting] = cli.lines("effects"), cli.lines("effects", "--unanswered")
    assert answered["asked"] == waiting["asked"] == {"tool": "search", "args": {"q": "tea"}}
    assert answered["request"] == waiting["request"] == "ed0e4b226632c13e"


# -- how it ends ----------------------------------------------------------------------------------------------------


def test_a_log_is_made_by_init_and_by_nothing_else(empty_dsn: str) -> None:
    cli = Cli(empty_dsn)
    for command in (["messages"], ["restore", "a/1"], ["restore", "a/1", "--app", "builtins:repr"]):
        assert "Make one with `eventlog init`" in cli.refused(*command)
    assert "is ready" in cli.text("init")
    [again] = cli.lines("init")
    assert (again["schema"], again["ready"]) == ("eventlog", True)
    assert cli.lines("messages") == []
    assert "schema 'other'" in cli.refused("messages", "--schema", "other")
    assert cli.lines("workers") == []


def test_a_time_without_a_zone_is_refused_by_name(cli: Cli) -> None:
    for arguments in (["messages", "--since"], ["stats", "--until"], ["restore", "a/1", "--at"]):
        assert "it has no time zone" in cli.refused(*arguments, "2026-01-31T14:32:00")


def test_a_server_that_does_not_answer_is_named_without_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autogen_eventlog.cli.opening.UNAVAILABLE_AFTER", 0.1)
    message = Cli("postgresql://me:secret@localhost:1/db").refused("messages")
    assert "localhost:1/db did not answer" in message and "secret" not in message
    assert "The log was not opened; its dsn is that of $EVENTLOG_DSN. Check the dsn" in message
    assert "send again" not in message
    monkeypatch.setattr("autogen_eventlog.cli.inquiry.UNAVAILABLE_AFTER", 0.1)
    for command in ("messages", "init"):
        given = Cli("").refused(command, "--dsn", "postgresql://localhost:1/db")
        assert "its dsn is the one given" in given and "send again" not in given


def test_escapes_in_what_was_recorded_do_not_reach_the_terminal(cli: Cli) -> None:
    async def nasty(log: Log) -> None:
        clerk = await log.agent("clerk/\x1b[31m1")
        await clerk.delivered("\x1b]0;title\x07 \u202e", sender="boss/\x9b2J", message_id="\x1b[2J")
        await clerk.delivered("[red]markup[/red] :smile:")

    record(cli.dsn, nasty)
    for arguments in (["messages"], ["messages", "--full"], ["tail"], ["agents"], ["show", "clerk/\x1b[31m1"]):
        text = cli.text(*arguments)
        assert not any(character in text for character in "\x1b\x9b\x07\u202e"), arguments
    assert "[red]markup[/red] :smile:" in cli.text("messages")


def test_the_command_leaves_quietly_when_its_reader_has_enough(cli: Cli) -> None:
    async def much(log: Log) -> None:
        clerk = await log.agent("clerk/1")
        for _ in range(3):
            await clerk.delivered("x" * 400_000)

    record(cli.dsn, much)
    for arguments in (["messages", "--json"], ["messages", "--full"], ["tail"]):
        with cli.start(*arguments) as process:
            assert process.stdout is not None and process.stderr is not None
            assert process.stdout.read(10)
            process.stdout.close()
            assert (process.wait(30), process.stderr.read()) == (141, ""), arguments


def test_following_shows_what_comes_and_ends_cleanly_at_an_interrupt(cli: Cli) -> None:
    record(cli.dsn, a_day_in_the_shop)
    with cli.start("tail", "--follow", "--json", "-n", "1") as process:
        assert process.stdout is not None and process.stderr is not None
        assert json.loads(process.stdout.readline())["type"] == "MessageSubmitted"

        async def later(log: Log) -> None:
            await (await log.agent("clerk/3")).delivered()

        record(cli.dsn, later)
        assert json.loads(process.stdout.readline())["stream"] == "clerk/3"
        process.send_signal(signal.SIGINT)
        assert (process.wait(30), process.stderr.read()) == (130, "")


def test_the_embedded_log_is_used_where_no_dsn_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENTLOG_DSN", raising=False)
    runner = CliRunner()
    where = ["--data-dir", str(tmp_path / "log")]
    assert runner.invoke(app, [*where, "init"]).exit_code == 0
    result = runner.invoke(app, [*where, "--json", "stats"])
    assert json.loads(result.stdout)["events"] == 0


# -- programs that run until they are stopped (those that do: tests/acceptance/test_programs.py) ---------------------


@pytest.fixture
def taken() -> Iterator[str]:
    """An address that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_an_address_that_is_taken_or_none_is_refused_by_name(cli: Cli, taken: str) -> None:
    nowhere = ["worker", "builtins:repr", "--host", "127.0.0.1:1", "--connect-timeout", "0.1"]
    for arguments in (
        ["host", "--address", taken],
        ["host", "--plain", "--address", taken],
        [*nowhere, "--health", taken],
    ):
        assert cli.refused(*arguments) == f"eventlog: {taken} can't be listened on: Address already in use\n"
    for arguments in (["host", "--address", "50051"], [*nowhere, "--health", "8080"]):
        assert "is no address: give ADDRESS:PORT" in cli.refused(*arguments)
    assert "needs a port" in cli.refused("host", "--plain", "--address", "127.0.0.1:0")
    assert "can't be listened on" in cli.refused("host", "--address", "nowhere.invalid:1")
    assert "127.0.0.1:1 was not reached within 0.1 s" in cli.refused(*nowhere)


@pytest.mark.parametrize("address", ["localhost", "host.internal:", "localhost:http", "10.0.0.1"])
def test_a_host_without_a_port_is_a_mistake_in_the_command_line(cli: Cli, address: str) -> None:
    result = cli.run("worker", "builtins:repr", "--host", address)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "has no port" in result.stderr and "ADDRESS:PORT" in result.stderr


@pytest.mark.parametrize(
    ("register", "said"),
    [
        ("missing.shop:register", "ModuleNotFoundError: No module named 'missing'"),
        ("os:missing", "has no attribute 'missing'"),
        ("os:environ", "it is a _Environ, not a function"),
        ("os", "give MODULE:FUNCTION"),
        ("os:getcwd", "it is called with the runtime, and nothing else: too many positional arguments"),
    ],
)
def test_a_worker_without_a_program_is_refused_by_name(cli: Cli, register: str, said: str) -> None:
    refused = cli.refused("worker", register)
    assert refused.startswith(f"eventlog: {register!r}: ") and said in refused and len(refused.splitlines()) == 1


def test_a_worker_that_does_not_answer_is_not_healthy(cli: Cli, taken: str) -> None:
    assert "no worker tells its health at 127.0.0.1:1: " in cli.refused("health", "127.0.0.1:1")
    assert "no worker tells its health at nonsense:x" in cli.refused("health", "nonsense:x")


# -- state as of then -----------------------------------------------------------------------------------------------


@pytest.fixture
def shop(cli: Cli, tmp_path: Path) -> Path:
    """A program that has sold something, and is gone."""
    (tmp_path / "shop.py").write_text(SHOP)
    source = str(Path(__file__).parents[2] / "src")
    path = os.pathsep.join((str(tmp_path), source))
    environment = os.environ | {"PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", SELLING, cli.dsn], env=environment, check=True, timeout=60)
    return tmp_path


def restored(cli: Cli, shop: Path, *arguments: str) -> tuple[int, str, str]:
    with cli.start("restore", *arguments, cwd=shop) as process:
        stdout, stderr = process.communicate(timeout=60)
        return process.returncode, stdout, stderr


def test_the_state_of_an_agent_is_shown_as_of_then_and_nothing_is_touched(cli: Cli, shop: Path) -> None:
    before = asyncio.run(fetch(cli.dsn, f"SELECT count(*), max(position) FROM {SCHEMA}.event"))
    workers = cli.lines("workers")
    first, second, third = [line for line in cli.lines("messages", "--oldest-first") if line["agent"] == "clerk/a"]
    for point, total in (
        ([], 6),
        (["--version", str(second["version"] + 1)], 3),
        (["--position", str(first["position"] + 1)], 1),
        (["--at", third["delivered_at"]], 6),
    ):
        code, stdout, stderr = restored(cli, shop, "clerk/a", "--app", "shop:register", "--json", *point)
        assert (code, stderr) == (0, "")
        viewed = json.loads(stdout)
        assert (viewed["agent"], viewed["class"], viewed["attributes"]["total"]) == ("clerk/a", "shop:Clerk", total)
    assert viewed["attributes"]["_orders"][0] == {"$t": "shop:Order", "item": "tea", "pieces": 1}
    assert viewed["attributes"]["client"] == {"$object": "shop:Client", "repr": None}
    assert asyncio.run(fetch(cli.dsn, f"SELECT count(*), max(position) FROM {SCHEMA}.event")) == before
    assert cli.lines("workers") == workers


def test_the_state_is_readable_for_people(cli: Cli, shop: Path) -> None:
    code, stdout, stderr = restored(cli, shop, "clerk/a", "--app", "shop:register")
    assert (code, stderr) == (0, "")
    title, *attributes = stdout.splitlines()
    assert title.startswith("clerk/a as of version ")
    shown = dict(line.split(None, 1) for line in attributes if line and not line.startswith(" "))
    assert (shown["total"], shown["client"]) == ("6", "<shop:Client>")


def test_without_the_code_the_events_are_shown_and_what_is_missing_is_said(cli: Cli, shop: Path) -> None:
    code, stdout, stderr = restored(cli, shop, "clerk/a", "--version", "3")
    assert code == 0
    assert "DeliveryCompleted" in stdout and len(stdout.splitlines()) == 4
    assert "up to version 3" in stderr and "--app MODULE:FUNCTION" in stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["clerk/a", "--app", "shop:nothing"], 2, "no attribute 'nothing'"),
        (["clerk/a", "--app", "shop"], 2, "give MODULE:FUNCTION"),
        (["clerk/a", "--app", "shop.missing:register"], 2, "ModuleNotFoundError"),
        (["clerk/a", "--app", "shop:__doc__"], 2, "not a function"),
        (["clerk/a", "--app", "shop:register_nothing"], 1, "its type is not registered"),
        (["clerk/b", "--app", "shop:register"], 1, "holds no event of this agent"),
        (["clerk/a", "--app", "shop:register", "--version", "99"], 1, "ends at version"),
        (["clerk/a", "--version", "1", "--position", "1"], 1, "more than one was given"),
    ],
)
def test_what_can_not_be_restored_is_refused_by_name(
    cli: Cli, shop: Path, arguments: list[str], code: int, said: str
) -> None:
    result = restored(cli, shop, *arguments)
    assert (result[0], result[1]) == (code, "")
    assert said in result[2] and "Traceback" not in result[2]
