"""The command line without a log: times, arguments, what a terminal is shown, the reference."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from autogen_eventlog.cli import app
from autogen_eventlog.cli.effects import asked_in_short
from autogen_eventlog.cli.forms import stored
from autogen_eventlog.cli.group import shared_first
from autogen_eventlog.cli.output import Column, class_name, fitted, printable
from autogen_eventlog.cli.restoring import attribute, attributes_of
from autogen_eventlog.cli.seed import SEED, fix_hash_seed
from autogen_eventlog.cli.stopping import stop_signals, unless
from autogen_eventlog.cli.times import brief, iso, parse_time, shown
from autogen_eventlog.codec import Codec
from autogen_eventlog.errors import InvalidPoint

DOCS = Path(__file__).parents[2] / "docs"
NOW = datetime(2026, 1, 31, 14, 32, tzinfo=timezone.utc)


# -- times ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31T14:32:00Z", NOW),
        ("2026-01-31T14:32:00+00:00", NOW),
        ("2026-01-31 16:32+02:00", NOW),
        ("2026-01-31T14:32:00.250z", NOW + timedelta(milliseconds=250)),
        ("10m", NOW - timedelta(minutes=10)),
        ("1h30m", NOW - timedelta(minutes=90)),
        ("2d", NOW - timedelta(days=2)),
        (" 1.5w ", NOW - timedelta(days=10.5)),
        ("0s", NOW),
    ],
)
def test_a_time_is_iso_with_a_zone_or_how_long_ago(text: str, expected: datetime) -> None:
    assert parse_time(text, NOW) == expected


@pytest.mark.parametrize("text", ["2026-01-31T14:32:00", "2026-01-31"])
def test_a_time_without_a_zone_is_an_invalid_point(text: str) -> None:
    with pytest.raises(InvalidPoint) as caught:
        parse_time(text)
    assert caught.value.problem == "it has no time zone"


@pytest.mark.parametrize("text", ["", "yesterday", "10", "10x", "m", "-10m", "2026-13-01T00:00Z", "9999999999w"])
def test_what_is_no_time_is_a_mistake_in_the_command_line(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_time(text)


def test_times_are_shown_in_utc_with_the_zone() -> None:
    there = NOW.astimezone(timezone(timedelta(hours=2))) + timedelta(microseconds=123_999)
    assert shown(there) == "2026-01-31 14:32:00.123Z"
    assert iso(there) == "2026-01-31T14:32:00.123999+00:00"
    assert (shown(None), iso(None)) == ("", None)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (NOW - timedelta(hours=2), "12:32:00Z"),
        (NOW - timedelta(days=1), "01-30 14:32:00Z"),
        (NOW - timedelta(days=365), "2025-01-31 14:32Z"),
        (None, ""),
    ],
)
def test_where_there_is_little_room_a_time_is_without_what_goes_without_saying(
    time: datetime | None, expected: str
) -> None:
    assert brief(shown(time), NOW) == expected


# -- arguments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["messages", "--json"], ["--json", "messages"]),
        (["messages", "--dsn", "x", "--limit", "3"], ["--dsn", "x", "messages", "--limit", "3"]),
        (["show", "a/1", "--schema=s"], ["--schema=s", "show", "a/1"]),
        (["show", "--version", "3"], ["show", "--version", "3"]),
        (["show", "--", "--json"], ["show", "--", "--json"]),
        (["messages", "--dsn"], ["--dsn", "messages"]),
    ],
)
def test_shared_options_are_understood_wherever_they_stand(given: list[str], read: list[str]) -> None:
    assert shared_first(given) == read


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["messages", "--outcome", "done"],
        ["messages", "--limit", "0"],
        ["messages", "--cause", "7"],
        ["show"],
    ],
)
def test_a_mistake_in_the_command_line_ends_with_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Usage: " in result.stderr


def test_a_dsn_and_a_directory_at_once_are_refused() -> None:
    result = CliRunner().invoke(app, ["agents", "--dsn", "host=h", "--data-dir", "d"])
    assert result.exit_code == 2
    assert "give one of --dsn and --data-dir" in result.stderr


def test_a_dsn_that_can_not_be_read_is_not_repeated() -> None:
    result = CliRunner().invoke(app, ["agents", "--dsn", "postgresql://me:secret@host/db?nonsense=1"])
    assert result.exit_code == 2
    assert "libpq" in result.stderr and "secret" not in result.output


def test_reading_makes_no_embedded_log(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["--data-dir", str(tmp_path / "none"), "messages"])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"eventlog: embedded Postgres in {tmp_path / 'none'}: there is no event log in it")
    assert "eventlog init" in result.stderr
    assert not (tmp_path / "none").exists()


def test_the_directory_comes_before_the_dsn_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTLOG_DSN", "host=nowhere.invalid")
    result = CliRunner().invoke(app, ["--data-dir", str(tmp_path / "none"), "messages"])
    assert "there is no event log in it" in result.stderr


def test_the_version_is_told() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout.split()[0]) == (0, "eventlog")


# -- what is shown --------------------------------------------------------------------------------------------------


def test_text_from_the_log_can_not_steer_a_terminal() -> None:
    assert printable("plain ü 漢 🐘") == "plain ü 漢 🐘"
    assert printable("\x1b[31mred\x9b2J\r\u202e\ud800") == "\\x1b[31mred\\x9b2J\\r\\u202e\\ud800"
    assert printable("a\n\tb\x07") == "a\\n\\tb\\x07"
    assert printable("a\n\tb\x07", lines=True) == "a\n\tb\\x07"


def test_payloads_are_shown_as_stored_and_altered_bytes_as_bytes() -> None:
    assert stored(b'{"$t":"m:T","n":1}') == {"$t": "m:T", "n": 1}
    assert stored(None) is None
    assert stored(b"\xff{") == {"$t": "bytes", "v": "/3s="}


MESSAGES = (
    Column("delivered (UTC)", brief=lambda _: "14:32:00Z"),
    Column("agent", 32),
    Column("version"),
    Column("from", 32),
    Column("message", 40, brief=class_name),
    Column("spare", spare=True),
    Column("content", 80, least=20),
)
LINE = (shown(NOW), "assistant/1234567890", "17", "", "shop.messages:Order", "spared", "x" * 80)


@pytest.mark.parametrize(
    ("screen", "titles", "widths"),
    [
        (200, [column.title for column in MESSAGES], [24, 20, 7, 4, 19, 6, 80]),
        (120, [column.title for column in MESSAGES], [24, 20, 7, 4, 19, 6, 34]),
        (100, ["delivered", "agent", "version", "message", "content"], [9, 20, 7, 7, 53]),
        (60, ["delivered", "agent", "version", "message", "content"], [9, 13, 7, 7, 20]),
        (50, ["delivered", "agent", "version", "message", "content"], [9, 12, 7, 7, 11]),
        (10, ["delivered", "agent", "version", "message", "content"], [9, 8, 7, 7, 8]),
    ],
)
def test_a_narrow_table_keeps_ids_and_content_readable(screen: int, titles: list[str], widths: list[int]) -> None:
    columns, lines, found = fitted(MESSAGES, [LINE], screen)
    assert ([column.title for column in columns], found) == (titles, widths)
    assert all(len(line) == len(columns) for line in lines)


def test_an_empty_table_keeps_its_header() -> None:
    columns, lines, _ = fitted(MESSAGES, [], 20)
    assert (len(columns), lines) == (6, [])


USER: dict[str, Any] = {"$t": "autogen_core.models:UserMessage", "content": "How is it in Oslo?", "source": "user"}


@pytest.mark.parametrize(
    ("kind", "asked", "said"),
    [
        ("model.create", {"messages": [{"content": "Be brief."}, USER], "tools": []}, "How is it in Oslo?"),
        (
            "model.create",
            {"messages": [{"content": ["What is this?", {"$t": "Image"}]}]},
            'What is this?, {"$t": "Image"}',
        ),
        ("model.create", {"messages": [{"content": [{"content": "rain", "call_id": "1"}]}]}, "rain"),
        ("model.create", {"messages": [{"content": [{"name": "weather", "arguments": "{}"}]}]}, "weather {}"),
        ("model.create", {"messages": []}, '{"messages": []}'),
        ("model.create", "an excerpt", "an excerpt"),
        ("tool.run_json", {"tool": "search", "args": {"q": "tea"}}, 'search {"q": "tea"}'),
        ("tool.run_json", {"tool": "now"}, "now"),
        ("memory.query", {"query": "x"}, '{"query": "x"}'),
    ],
)
def test_a_request_is_shown_by_what_was_said_in_it(kind: str, asked: object, said: str) -> None:
    assert asked_in_short(kind, asked) == said


class Slotted:
    __slots__ = ("__dict__", "_count", "never_set")

    def __init__(self) -> None:
        self._count = 3


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError


class Wired:
    def __repr__(self) -> str:
        return "Wired(to='db')"


def test_attributes_are_values_where_they_can_be_and_wiring_where_not() -> None:
    instance = Slotted()
    instance.items = [(1, "a")]  # type: ignore[attr-defined]
    instance.plain, instance.broken, instance.wired = object(), Broken(), Wired()  # type: ignore[attr-defined]
    found = attributes_of(instance, Codec())
    assert found["_count"] == 3 and "never_set" not in found
    assert found["items"] == [{"$t": "tuple", "v": [1, "a"]}]
    assert found["plain"] == {"$object": "builtins:object", "repr": None}
    assert found["broken"] == {"$object": f"{__name__}:Broken", "repr": "<repr raised RuntimeError>"}
    assert attribute(found["wired"]) == f"<{__name__}:Wired> Wired(to='db')"
    assert attribute(found["plain"]) == "<builtins:object>"
    assert (attribute(None), attribute(3)) == ("null", "3")
    assert attribute(list(range(40))).count("\n") == 41
    json.dumps(found)


# -- the reference --------------------------------------------------------------------------------------------------


def commands() -> Iterator[Any]:
    root: Any = get_command(app)
    yield root
    yield from root.commands.values()


def test_the_reference_is_what_the_commands_say() -> None:
    spec = importlib.util.spec_from_file_location("generate_cli", DOCS / "generate_cli.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text("utf-8") == module.page(), "run: python docs/generate_cli.py"


def test_every_command_and_option_is_in_the_reference_and_has_help_and_an_example() -> None:
    text = (DOCS / "reference" / "cli.md").read_text("utf-8")
    for command in commands():
        assert command.help and command.epilog.startswith("Example: eventlog "), command.name
        assert command.epilog.removeprefix("Example: ") in text
        for parameter in command.params:
            assert parameter.help, (command.name, parameter.name)
            assert parameter.help in text or "--help" in parameter.opts
            assert all(
                f"`{option}`" in text for option in parameter.opts if option.startswith("--") and option != "--help"
            )


@pytest.mark.parametrize("name", [command.name for command in commands()])
def test_every_command_shows_its_help(name: str) -> None:
    result = CliRunner().invoke(app, ["--help"] if name == "eventlog" else [name, "--help"])
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Example: eventlog" in result.stdout
    assert all(option in result.stdout for option in ("--dsn", "--data-dir", "--schema", "--json", "--no-color"))


# -- programs that run until they are stopped -------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "runs_anew"), [(None, True), ("", True), ("7", False), ("random", False)])
def test_a_program_is_run_anew_with_a_seed_if_it_has_none(
    monkeypatch: pytest.MonkeyPatch, given: str | None, runs_anew: bool
) -> None:
    anew: list[tuple[str, list[str], str]] = []

    def execve(path: str, argv: list[str], env: dict[str, str]) -> None:
        anew.append((path, argv, env[SEED]))

    monkeypatch.setattr(os, "execve", execve)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "autogen_eventlog", "worker"])
    monkeypatch.delenv(SEED, raising=False)
    if given is not None:
        monkeypatch.setenv(SEED, given)
    fix_hash_seed()
    expected = (sys.executable, [sys.executable, "-m", "autogen_eventlog", "worker"], "0")
    assert anew == ([expected] if runs_anew else [])


async def test_the_first_signal_asks_and_leaves_the_second_to_the_system() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_signals() as told:
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(told.wait(), 10)
        assert signal.getsignal(signal.SIGTERM) == signal.getsignal(signal.SIGINT) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) == before


async def test_what_is_under_way_ends_when_it_is_told_to() -> None:
    told, ends = asyncio.Event(), list[str]()

    async def work(name: str) -> None:
        try:
            if name == "long":
                await asyncio.Event().wait()
        finally:
            ends.append(name)

    assert await unless(told, work("short")) is True
    asyncio.get_running_loop().call_soon(told.set)
    assert await unless(told, work("long")) is False
    assert ends == ["short", "long"]

    async def fails() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await unless(asyncio.Event(), fails())
