"""`eventlog check`, `eventlog export`, and the pytest plugin, as a user runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from autogen_eventlog.cli import app
from autogen_eventlog.cli.checking import file_of

SHOP = """
from dataclasses import dataclass

from autogen_core import MessageContext, RoutedAgent, TopicId, message_handler
from wording import spelled


@dataclass
class Order:
    item: str
    pieces: int


class Clerk(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("counts")
        self.orders: list[Order] = []

    @message_handler
    async def on_order(self, message: Order, ctx: MessageContext) -> int:
        print("handling", message.item)
        self.orders.append(message)
        await self.publish_message(Order(spelled(message.item), message.pieces), TopicId("orders", "all"))
        return sum(order.pieces for order in self.orders)


async def register(runtime) -> None:
    await Clerk.register(runtime, "clerk", Clerk)


def register_nothing(runtime) -> None:
    pass


async def register_and_send(runtime) -> None:
    await register(runtime)
    await runtime.publish_message(Order("tea", 1), TopicId("orders", "all"))
"""
WORDING = "def spelled(text):\n    return text\n"
LOUDER = "def spelled(text):\n    return text.upper()\n"
SELLING = """
import asyncio, sys
from autogen_core import AgentId
from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from shop import Order, register

async def main() -> None:
    async with EventLog.open(sys.argv[1]) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await register(runtime)
        runtime.start()
        for key in sys.argv[2:]:
            for pieces in (1, 2):
                await runtime.send_message(Order("tea", pieces), AgentId("clerk", key))
        await runtime.stop_when_idle()

asyncio.run(main())
"""
SOURCE = str(Path(__file__).parents[2] / "src")


@dataclass(frozen=True)
class Shop:
    """A program in a directory of its own, and a log that it has written into."""

    directory: Path
    dsn: str
    seed: str | None = "0"
    """Of the hashes of strings; a command that is given none looks for it, and begins anew."""

    def change(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text, "utf-8")

    def python(self, *arguments: str, seed: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": SOURCE, "COLUMNS": "250", **variables}
        for name in ("PYTHONHASHSEED", "CI", "BUILD_NUMBER"):  # under CI, pytest prints each failure a second time
            environment.pop(name, None)
        if seed or self.seed:
            environment["PYTHONHASHSEED"] = seed or str(self.seed)
        return subprocess.run(
            [sys.executable, *arguments], cwd=self.directory, env=environment, capture_output=True, text=True
        )

    def sell(self, *keys: str, seed: str | None = None) -> None:
        done = self.python("selling.py", self.dsn, *keys, seed=seed)
        assert done.returncode == 0, done.stderr

    def eventlog(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "autogen_eventlog", *arguments, EVENTLOG_DSN=self.dsn)

    def look(self, *arguments: str) -> str:
        """What a command that needs none of the program's code prints, without a process of its own."""
        return CliRunner(env={"EVENTLOG_DSN": self.dsn}).invoke(app, [*arguments, "--json"]).stdout

    def checked(self, *arguments: str, code: int) -> list[dict[str, Any]]:
        done = self.eventlog("check", *arguments, "--app", "shop:register", "--json")
        assert done.returncode == code, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def shop(dsn: str, tmp_path: Path) -> Shop:
    made = Shop(tmp_path, dsn)
    for name, text in (("shop.py", SHOP), ("wording.py", WORDING), ("selling.py", SELLING)):
        made.change(name, text)
    made.sell("a", "b")
    return made


# -- check --------------------------------------------------------------------------------------------------------


def test_a_check_ends_with_0_where_all_is_the_same_and_with_1_where_it_is_not(shop: Shop) -> None:
    done = shop.eventlog("check", "--all", "--app", "shop:register")
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines()[1:]] == [
        ["clerk/a", "7", "7", "exactly", "same", "same"],
        ["clerk/b", "7", "7", "exactly", "same", "same"],
    ]
    assert "2 agents: 2 same." in done.stderr
    assert "handling tea" in done.stderr  # what the agents print is no data
    shop.change("wording.py", LOUDER)
    done = shop.eventlog("check", "clerk/a", "--app", "shop:register")
    assert done.returncode == 1
    assert "message.item" in done.stdout
    assert '"TEA"' in done.stdout
    assert "code that is used by shop:Clerk has changed since it recorded this" in done.stdout
    assert "1 agent: 1 diverges." in done.stderr


def test_for_programs_there_is_one_object_an_agent(shop: Shop) -> None:
    [same] = shop.checked("clerk/a", code=0)
    assert same == same | {"agent": "clerk/a", "outcome": "same", "version": 7, "events": 7, "exact": True}
    assert same["code"] == {**same["code"], "version": 1, "changed": False}
    shop.change("wording.py", LOUDER)
    [other] = shop.checked("--type", "clerk", "--mode", "strict", code=1)[:1]
    [divergence] = other["divergences"]
    assert divergence["differences"] == [{"path": "message.item", "recorded": "tea", "produced": "TEA"}]
    assert (divergence["version"], divergence["delivery"]) == (3, 2)
    assert divergence["code"]["changed"] and divergence["code"]["version"] == 1
    assert len(shop.checked("clerk/a", code=1)[0]["divergences"]) == 2


def test_a_type_that_the_function_does_not_register_is_no_success(shop: Shop) -> None:
    done = shop.eventlog("check", "clerk/a", "--app", "shop:register_nothing")
    assert done.returncode == 1
    assert "unknown type" in done.stdout
    assert "--app" in done.stdout


def test_a_function_that_sends_is_refused_and_nothing_is_written(shop: Shop) -> None:
    before = shop.look("stats")
    done = shop.eventlog("check", "clerk/a", "--app", "shop:register_and_send")
    assert (done.returncode, done.stdout) == (1, "")
    assert "opened for reading only" in done.stderr
    assert shop.look("stats") == before


def test_a_check_leaves_the_log_as_it_was(shop: Shop) -> None:
    def looked() -> list[dict[str, Any]]:
        found = [json.loads(line) for look in ("stats", "workers", "agents") for line in shop.look(look).splitlines()]
        return [{name: value for name, value in one.items() if name not in ("bytes", "lag_seconds")} for one in found]

    before = looked()
    assert len(before) == 4
    shop.checked("--all", code=0)
    assert looked() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "clerk/a"),
        ("check", "--app", "shop:register"),
        ("check", "clerk/a", "--all", "--app", "shop:register"),
        ("check", "clerk", "--app", "shop:register"),
        ("check", "clerk/a", "--app", "shop:missing"),
        ("check", "clerk/a", "--app", "shop:register", "--mode", "lenient"),
        ("export", "clerk/a"),
        ("export", "--history", "x"),
        ("export", "a.history.jsonl", "--history", "x"),
    ],
)
def test_a_mistake_in_the_command_line_ends_with_2(
    arguments: tuple[str, ...], dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner(env={"EVENTLOG_DSN": dsn}).invoke(app, list(arguments))
    assert result.exit_code == 2, result.output
    assert list(tmp_path.iterdir()) == []


def test_an_agent_that_the_log_does_not_know_is_refused(shop: Shop) -> None:
    done = shop.eventlog("check", "clerk/nobody", "--app", "shop:register")
    assert (done.returncode, done.stdout) == (1, "")
    assert "clerk/nobody" in done.stderr


def test_a_check_makes_no_log_where_there_is_none(shop: Shop, empty_dsn: str) -> None:
    done = Shop(shop.directory, empty_dsn).eventlog("check", "--all", "--app", "shop:register")
    assert done.returncode == 1
    assert "eventlog init" in done.stderr
    assert CliRunner(env={"EVENTLOG_DSN": empty_dsn}).invoke(app, ["stats"]).exit_code == 1


# -- the seed of hashes -------------------------------------------------------------------------------------------

TAGGED = """
from dataclasses import dataclass

from autogen_core import MessageContext, RoutedAgent, message_handler


@dataclass
class Order:
    item: str
    pieces: int


class Clerk(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("counts")
        self.order = ""

    @message_handler
    async def on_order(self, message: Order, ctx: MessageContext) -> str:
        self.order = " ".join({f"{message.item}{number}" for number in range(20)})
        return self.order


async def register(runtime) -> None:
    await Clerk.register(runtime, "clerk", Clerk)
"""


def test_check_and_restore_hash_strings_as_they_were_when_it_was_recorded(dsn: str, tmp_path: Path) -> None:
    tagged = Shop(tmp_path, dsn, seed=None)
    tagged.change("shop.py", TAGGED)
    tagged.change("selling.py", SELLING)
    tagged.sell("a", seed="7")
    assert tagged.checked("clerk/a", code=0)[0]["outcome"] == "same"
    assert tagged.checked("--all", code=0)[0]["outcome"] == "same"
    shown = tagged.eventlog("restore", "clerk/a", "--app", "shop:register", "--json")
    assert shown.returncode == 0, shown.stderr
    assert (
        tagged.eventlog("export", "clerk/a", "--history", "a.history.jsonl", "--app", "shop:register").returncode == 0
    )
    assert tagged.checked("a.history.jsonl", code=0)[0]["outcome"] == "same"
    other = tagged.python(
        "-m", "autogen_eventlog", "check", "clerk/a", "--app", "shop:register", seed="8", EVENTLOG_DSN=dsn
    )
    assert other.returncode == 1
    assert "set PYTHONHASHSEED=7, as there" in other.stdout


# -- export -------------------------------------------------------------------------------------------------------


def test_a_history_is_checked_from_its_file_without_the_log(shop: Shop) -> None:
    done = shop.eventlog("export", "clerk/a", "--history", "kept/a.history.jsonl", "--app", "shop:register", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said == {**said, "agent": "clerk/a", "version": 7, "events": 7, "no_state": None}
    gone = Shop(shop.directory, "postgresql://127.0.0.1:1/none")
    [same] = gone.checked("kept/a.history.jsonl", code=0)
    assert (same["source"], same["state_version"]) == ("kept/a.history.jsonl", 7)
    shop.change("shop.py", SHOP.replace("self.orders.append(message)", "self.orders.insert(0, message)"))
    [other] = gone.checked("kept/a.history.jsonl", code=1)
    assert (other["outcome"], other["divergences"]) == ("other_state", [])
    assert {one["path"].partition("[")[0] for one in other["state"]} == {"self.orders"}


def test_all_agents_are_exported_into_a_directory_the_same_each_time(shop: Shop) -> None:
    for directory in ("one", "two"):
        done = shop.eventlog("export", "--all", "--history", directory, "--app", "shop:register")
        assert done.returncode == 0, done.stderr
        assert "2 events" not in done.stdout
    names = ["clerk/a.history.jsonl", "clerk/b.history.jsonl"]
    for name in names:
        first = (shop.directory / "one" / name).read_bytes()
        assert first == (shop.directory / "two" / name).read_bytes()
    found = shop.checked(*(f"one/{name}" for name in names), "clerk/a", code=0)
    assert [one["agent"] for one in found] == ["clerk/a", "clerk/b", "clerk/a"]


def test_without_the_code_a_history_has_no_state(shop: Shop) -> None:
    done = shop.eventlog("export", "clerk/a", "--history", "a.history.jsonl")
    assert done.returncode == 0, done.stderr
    assert "without a state" in done.stdout
    [same] = shop.checked("a.history.jsonl", code=0)
    assert (same["outcome"], same["state_version"]) == ("same", None)


def test_code_that_diverges_can_not_say_in_which_state_it_ends(shop: Shop) -> None:
    shop.change("wording.py", LOUDER)
    done = shop.eventlog("export", "clerk/a", "--history", "a.history.jsonl", "--app", "shop:register")
    assert (done.returncode, done.stdout) == (1, "")
    assert "message.item" in done.stderr
    assert not (shop.directory / "a.history.jsonl").exists()


@pytest.mark.parametrize("change", ["cut", "edit"])
def test_a_damaged_file_is_refused_by_its_line(shop: Shop, change: str) -> None:
    shop.eventlog("export", "clerk/a", "--history", "a.history.jsonl")
    path = shop.directory / "a.history.jsonl"
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"\n", 2000) + 1] if change == "cut" else data.replace(b"tea", b"ten", 1))
    done = shop.eventlog("check", "a.history.jsonl", "--app", "shop:register")
    assert (done.returncode, done.stdout) == (1, "")
    assert "a.history.jsonl, line" in done.stderr
    assert "Export it again" in done.stderr


def test_names_of_files_are_those_that_every_file_system_takes() -> None:
    assert file_of("planner/7").as_posix() == "planner/7.history.jsonl"
    assert file_of("planner/a/b:c").as_posix() == "planner/a%2Fb%3Ac.history.jsonl"
    names = {str(file_of(f"planner/{key}")).lower() for key in ("a", "A", "..", "a~b", "%41", "x" * 900, "x" * 901)}
    assert len(names) == 7
    assert all(len(Path(name).name) < 250 and Path(name).parts[:-1] == ("planner",) for name in names)


# -- the pytest plugin --------------------------------------------------------------------------------------------


def run_tests(shop: Shop, *arguments: str) -> subprocess.CompletedProcess[str]:
    plugins = ("-p", "pytest_autogen_eventlog", "-p", "no:cacheprovider", "-p", "no:randomly")
    return shop.python("-m", "pytest", *plugins, *arguments, EVENTLOG_DSN="postgresql://127.0.0.1:1/none")


@pytest.fixture
def histories(shop: Shop) -> Shop:
    done = shop.eventlog("export", "--all", "--history", "histories", "--app", "shop:register")
    assert done.returncode == 0, done.stderr
    shop.change("pytest.ini", "[pytest]\neventlog_app = shop:register\n")
    return shop


def test_each_history_is_a_test_that_passes_where_all_is_the_same(histories: Shop) -> None:
    done = run_tests(histories, "-v")
    assert done.returncode == 0, done.stdout
    assert "histories/clerk/a.history.jsonl::replay PASSED" in done.stdout
    assert "2 passed" in done.stdout


def test_a_test_that_fails_says_what_differs_and_why_it_may(histories: Shop) -> None:
    histories.change("wording.py", LOUDER)
    done = run_tests(histories)
    assert done.returncode == 1
    assert "2 failed" in done.stdout
    assert "message.item" in done.stdout
    assert '"TEA"' in done.stdout
    assert "likely cause:" in done.stdout
    assert "Traceback" not in done.stdout
    histories.change("wording.py", WORDING)
    histories.change("shop.py", SHOP.replace("self.orders: list[Order] = []", "self.orders = []\n        self.tax = 1"))
    done = run_tests(histories, "histories/clerk/a.history.jsonl")
    assert done.returncode == 1
    assert "other state" in done.stdout and "self.tax" in done.stdout


def test_strict_shows_the_first_alone(histories: Shop) -> None:
    histories.change("wording.py", LOUDER)
    assert run_tests(histories, "histories/clerk/a.history.jsonl").stdout.count("diverges:") == 2
    histories.change("pytest.ini", "[pytest]\neventlog_app = shop:register\neventlog_mode = strict\n")
    assert run_tests(histories, "histories/clerk/a.history.jsonl").stdout.count("diverges:") == 1


def test_a_damaged_file_fails_with_its_line(histories: Shop) -> None:
    path = histories.directory / "histories" / "clerk" / "a.history.jsonl"
    path.write_bytes(path.read_bytes().replace(b"tea", b"ten", 1))
    done = run_tests(histories)
    assert "1 failed, 1 passed" in done.stdout
    assert "line 3" in done.stdout


def test_without_the_setting_histories_are_no_tests_and_nothing_is_imported(histories: Shop) -> None:
    histories.change("pytest.ini", "[pytest]\n")
    histories.change(
        "test_plain.py",
        "import sys\n\n\ndef test_plain():\n"
        "    assert not [name for name in sys.modules if name.startswith('autogen')]\n",
    )
    done = run_tests(histories)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    done = run_tests(histories, "--eventlog-app", "shop:register", "histories")
    assert "2 passed" in done.stdout
    done = run_tests(histories, "--eventlog-app", "shop:missing", "histories")
    assert "2 failed" in done.stdout
    assert "shop:missing" in done.stdout
