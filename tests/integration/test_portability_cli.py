"""`eventlog export` and `eventlog import`, as a user runs them."""

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

SAVED = Path(__file__).parent / "autogen_states"
SOURCE = str(Path(__file__).parents[2] / "src")
TEAM = "00000000-0000-0000-0000-000000000005"
SHOP = f"""
import uuid
from dataclasses import dataclass
from unittest import mock

from autogen_agentchat.agents import AssistantAgent, BaseChatAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import MessageContext, RoutedAgent, TopicId, message_handler
from autogen_core.models import ModelInfo
from autogen_ext.models.replay import ReplayChatCompletionClient

INFO = ModelInfo(vision=False, function_calling=True, json_output=True, family="unknown", structured_output=True)


@dataclass
class Order:
    pieces: int


class Clerk(RoutedAgent):
    def __init__(self):
        super().__init__("counts")
        self.orders = []

    @message_handler
    async def on_order(self, message: Order, ctx: MessageContext) -> int:
        self.orders.append(message.pieces)
        await self.publish_message(Order(message.pieces), TopicId("orders", self.id.key))
        return sum(self.orders)

    async def save_state(self):
        return {{"orders": list(self.orders)}}

    async def load_state(self, state):
        self.orders = list(state["orders"])


class Naming(Clerk):
    @message_handler
    async def on_order(self, message: Order, ctx: MessageContext) -> str:
        self.orders.append(message.pieces)
        return str(self.id)


class Mute(RoutedAgent):
    def __init__(self):
        super().__init__("mute")

    @message_handler
    async def on_order(self, message: Order, ctx: MessageContext) -> None: ...


async def register(runtime):
    await Clerk.register(runtime, "clerk", Clerk)
    await Naming.register(runtime, "naming", Naming)
    await Mute.register(runtime, "mute", Mute)


async def make_team(runtime):
    print("building")
    client = ReplayChatCompletionClient(["five", "six"], model_info=INFO)
    with mock.patch("uuid.uuid4", return_value=uuid.UUID("{TEAM}")):
        return RoundRobinGroupChat(
            [AssistantAgent("a", client), AssistantAgent("b", client)], max_turns=2, runtime=runtime
        )


def no_team(runtime):
    return 3
"""
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
        for agent in sys.argv[2:]:
            for pieces in (1, 2):
                print(await runtime.send_message(Order(pieces), AgentId.from_str(agent)))
        await runtime.stop_when_idle()

asyncio.run(main())
"""


@dataclass(frozen=True)
class Shop:
    """A program in a directory of its own, and two logs."""

    directory: Path
    dsn: str
    other: str

    def python(self, *arguments: str, dsn: str) -> subprocess.CompletedProcess[str]:
        variables = {"PYTHONPATH": SOURCE, "COLUMNS": "250", "EVENTLOG_DSN": dsn, "PYTHONHASHSEED": "0"}
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.directory,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
        )

    def sell(self, *agents: str, dsn: str | None = None) -> list[str]:
        done = self.python("selling.py", dsn or self.dsn, *agents, dsn=self.dsn)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    def eventlog(self, *arguments: str, other: bool = False, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = self.python("-m", "autogen_eventlog", *arguments, dsn=self.other if other else self.dsn)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def lines(self, *arguments: str, other: bool = False) -> list[dict[str, Any]]:
        """What it says to programs."""
        return [json.loads(line) for line in self.eventlog(*arguments, "--json", other=other).stdout.splitlines()]

    def read(self, name: str) -> Any:
        return json.loads((self.directory / name).read_text("utf-8"))

    def write(self, name: str, value: Any) -> None:
        (self.directory / name).write_text(json.dumps(value), "utf-8")


@pytest.fixture
def shop(dsn: str, empty_dsn: str, tmp_path: Path) -> Shop:
    made = Shop(tmp_path, dsn, empty_dsn)
    for name, text in (("shop.py", SHOP), ("selling.py", SELLING)):
        (tmp_path / name).write_text(text, "utf-8")
    made.eventlog("init", other=True)
    return made


# -- sessions -----------------------------------------------------------------------------------------------------


def test_a_session_goes_from_one_log_into_another_once(shop: Shop) -> None:
    assert shop.sell("clerk/a", "clerk/b") == ["1", "3", "1", "3"]
    [written] = shop.lines("export", "clerk/a", "clerk/b", "--out", "talk.session.jsonl")
    assert (written["agents"], written["events"]) == ({"clerk/a": 7, "clerk/b": 7}, 14)
    command = ("import", "talk.session.jsonl", "--rename", "a=new", "--key-prefix", "p-", "--app", "shop:register")
    assert shop.lines(*command, other=True) == [
        {"source": "clerk/a", "agent": "clerk/new", "version": 7, "appended": 7},
        {"source": "clerk/b", "agent": "clerk/p-b", "version": 7, "appended": 7},
    ]
    assert [one["appended"] for one in shop.lines(*command, other=True)] == [0, 0]
    assert shop.sell("clerk/new", dsn=shop.other) == ["4", "6"]
    shown = shop.eventlog("import", "talk.session.jsonl", "--rename", "a=second", "--rename", "b=third", other=True)
    assert [line.split() for line in shown.stdout.splitlines()] == [
        ["agent", "from", "version", "appended"],
        ["clerk/second", "clerk/a", "7", "7"],
        ["clerk/third", "clerk/b", "7", "7"],
    ]


def test_a_session_is_exported_by_its_conversation(shop: Shop) -> None:
    shop.sell("clerk/a", "clerk/b")
    [conversation, *_] = {
        one["correlation"] for one in shop.lines("messages", "--agent", "clerk/a") if one["correlation"]
    }
    [written] = shop.lines("export", "--session", conversation, "--out", "talk.session.jsonl")
    assert list(written["agents"]) == ["clerk/a"]


def test_an_agent_that_would_do_something_else_is_shown_and_nothing_is_imported(shop: Shop) -> None:
    assert shop.sell("naming/a") == ["naming/a", "naming/a"]
    shop.eventlog("export", "naming/a", "--out", "talk.session.jsonl")
    command = ("import", "talk.session.jsonl", "--rename", "a=new", "--app", "shop:register")
    done = shop.eventlog(*command, other=True, code=1)
    assert "naming/new" in done.stdout and "diverges" in done.stdout
    assert "Nothing was imported." in done.stderr
    assert shop.lines("agents", other=True) == []
    shop.eventlog("import", "talk.session.jsonl", "--app", "shop:register", other=True)
    assert shop.sell("naming/a", dsn=shop.other) == ["naming/a", "naming/a"]


def test_what_does_not_fit_is_told_in_one_line(shop: Shop) -> None:
    shop.sell("clerk/a")
    shop.eventlog("export", "clerk/a", "--out", "talk.session.jsonl")
    refused = shop.eventlog("import", "talk.session.jsonl", code=1)
    assert refused.stderr.startswith("eventlog: agent 'clerk/a' can't be imported as 'clerk/a'")
    refused = shop.eventlog("import", "talk.session.jsonl", "--rename", "zoe=ann", other=True, code=1)
    assert refused.stderr.startswith("eventlog: rename 'zoe' to 'ann'")
    refused = shop.eventlog("import", "none.session.jsonl", other=True, code=1)
    assert refused.stderr == "eventlog: none.session.jsonl: No such file or directory\n"
    (shop.directory / "talk.session.jsonl").write_text("{}\n")
    refused = shop.eventlog("import", "talk.session.jsonl", other=True, code=1)
    assert "it is not the first line of a session" in refused.stderr


# -- states -------------------------------------------------------------------------------------------------------


def test_a_state_of_autogens_goes_in_and_out_again(shop: Shop) -> None:
    shop.write("clerk.json", {"orders": [40]})
    [loaded] = shop.lines("import", "clerk.json", "--agent", "clerk/a", "--app", "shop:register")
    assert loaded["agent"] == "clerk/a"
    assert shop.sell("clerk/a") == ["41", "43"]
    shop.eventlog("export", "clerk/a", "--state", "now.json", "--app", "shop:register")
    shop.eventlog(
        "export", "clerk/a", "--state", "then.json", "--app", "shop:register", "--version", str(loaded["version"])
    )
    assert (shop.read("now.json"), shop.read("then.json")) == ({"orders": [40, 1, 2]}, {"orders": [40]})
    shop.write("runtime.json", {"clerk/a": {"orders": [7]}, "clerk/b": {"orders": [8]}})
    shown = shop.lines("import", "runtime.json", "--app", "shop:register")
    assert [one["agent"] for one in shown] == ["clerk/a", "clerk/b"]
    assert shop.sell("clerk/a", "clerk/b") == ["8", "10", "9", "11"]


def test_an_agent_without_a_state_of_its_own_is_named(shop: Shop) -> None:
    shop.sell("mute/a")
    refused = shop.eventlog("export", "mute/a", "--state", "mute.json", "--app", "shop:register", code=1)
    assert "agent 'mute/a': its class shop:Mute has no save_state of its own" in refused.stderr
    assert not (shop.directory / "mute.json").exists()


@pytest.mark.parametrize("version", ["0.4.0", "0.4.8", "0.4.9"])
def test_a_team_of_any_autogen_goes_in_and_out_again(shop: Shop, version: str) -> None:
    file = str(SAVED / f"round_robin-{version}.json")
    loaded = shop.lines("import", file, "--team", "shop:make_team")
    assert [one["agent"].partition("_")[0] for one in loaded] == ["a", "b", "RoundRobinGroupChatManager"]
    [written] = shop.lines("export", "--team", "shop:make_team", "--state", "team.json")
    assert written == {"file": "team.json", "of": "team RoundRobinGroupChat", "keep_nothing": []}
    states = shop.read("team.json")["agent_states"]
    assert list(states) == ["a", "b", "RoundRobinGroupChatManager"]
    assert [one["type"] for one in states["RoundRobinGroupChatManager"]["message_thread"]][:4] == [
        "TextMessage",
        "TextMessage",
        "ToolCallRequestEvent",
        "ToolCallExecutionEvent",
    ]
    agent = str(SAVED / f"assistant-{version}.json")
    shop.eventlog("import", agent, "--team", "shop:make_team", "--participant", "b")
    shop.eventlog("export", "--team", "shop:make_team", "--state", "team.json")
    messages = shop.read("team.json")["agent_states"]["b"]["agent_state"]["llm_context"]["messages"]
    assert [one["content"] for one in messages] == ["hello", "one"]


def test_a_team_that_the_log_does_not_know_is_not_exported_as_new(shop: Shop) -> None:
    refused = shop.eventlog("export", "--team", "shop:make_team", "--state", "team.json", code=1)
    assert "the log knows none of its agents" in refused.stderr
    assert not (shop.directory / "team.json").exists()


def test_a_state_that_is_none_is_refused(shop: Shop) -> None:
    (shop.directory / "text.json").write_text("hello")
    (shop.directory / "deep.json").write_text("[" * 100_000)
    shop.write("list.json", [1])
    for name, said in (
        ("text.json", "JSON ("),
        ("deep.json", "JSON ("),
        ("list.json", "a JSON list"),
        ("none.json", "No such file"),
    ):
        refused = shop.eventlog("import", name, "--agent", "clerk/a", "--app", "shop:register", code=1)
        assert said in refused.stderr
    state = json.loads((SAVED / "round_robin-0.4.8.json").read_text())
    state["agent_states"] = {name.replace("a/", "zoe/"): one for name, one in state["agent_states"].items()}
    shop.write("team.json", state)
    refused = shop.eventlog("import", "team.json", "--team", "shop:make_team", code=1)
    assert "the form of AutoGen 0.4.0 to 0.4.8" in refused.stderr and "'zoe'" in refused.stderr
    refused = shop.eventlog("import", "team.json", "--team", "shop:no_team", code=2)
    assert "it returned a int, not a team" in refused.stderr


MANAGER = "RoundRobinGroupChatManager"


def test_a_team_with_something_that_is_no_message_is_refused_in_one_line(shop: Shop) -> None:
    state = json.loads((SAVED / "round_robin-0.4.9.json").read_text())
    for thread, said in (
        (["hello"], "message_thread[0] is no message, but a str"),
        (5, "in a form that none of AgentChat's has"),
    ):
        state["agent_states"][MANAGER]["message_thread"] = thread
        shop.write("team.json", state)
        refused = shop.eventlog("import", "team.json", "--team", "shop:make_team", "--keep-unknown", code=1)
        [_building, line] = refused.stderr.splitlines()
        assert line.startswith("eventlog: ") and said in line


def test_messages_that_are_kept_are_in_the_state_that_is_exported(shop: Shop) -> None:
    """Half a character, as a model's answer that was cut may end in, is written as JSON can hold it."""
    state = json.loads((SAVED / "round_robin-0.4.9.json").read_text())
    odd = {"type": "Odd", "source": "a", "created_at": "yesterday", "content": {"text": "half \ud83d"}}
    forged = {"type": "TextMessage", "source": "a", "content": "x", "metadata": {"autogen_eventlog.kept": "oops"}}
    state["agent_states"][MANAGER]["message_thread"] = [odd, forged]
    shop.write("team.json", state)
    shop.eventlog("import", "team.json", "--team", "shop:make_team", "--keep-unknown")
    shop.eventlog("export", "--team", "shop:make_team", "--state", "back.json")
    kept, own = shop.read("back.json")["agent_states"][MANAGER]["message_thread"]
    assert kept == odd
    assert own["metadata"] == forged["metadata"]


OUT, STATE = ("--out", "o"), ("--state", "s")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("export", "a/b"), "--history, --out, --state"),
        (("export", "a/b", *OUT, *STATE), "--history, --out, --state"),
        (("export", "a/b", "a/c", "--history", "h"), "takes one agent"),
        (("export", "a/b", "--session", TEAM, *OUT), "--session goes with --out"),
        (("export", "a/b", *OUT, "--version", "3"), "go with --state"),
        (("export", "a/b", *STATE), "--state takes one agent and --app"),
        (("export", "a/b", *STATE, "--team", "x:y"), "--team names its agents"),
        (("import", "f.session.jsonl", "--agent", "a/b"), "go with a state"),
        (("import", "f.json", "--rename", "a=b"), "go with a session"),
        (("import", "f.session.jsonl", "--rename", "a"), "OLD=NEW"),
    ],
)
def test_a_mistake_in_the_command_line_is_told(arguments: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 2
    assert said in " ".join(done.output.replace("│", " ").split())
