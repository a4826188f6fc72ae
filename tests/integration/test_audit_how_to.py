"""docs/how-to/query-the-audit-log.md: its snippets run, in order, on a log with something in it."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import shlex
import textwrap
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from autogen_eventlog.cli import app
from autogen_eventlog.events import EventType, Outcome
from tests.integration.test_audit import Log, Task, open_log

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "query-the-audit-log.md"
BLOCK = re.compile(r"```(python|console)\n(.*?)```", re.DOTALL)


async def fill(dsn: str) -> None:
    async with open_log(dsn) as log:
        await _fill(log)


async def _fill(log: Log) -> None:
    planner, runtime = await log.agent("planner/7"), await log.runtime()
    root = await runtime.add(EventType.MESSAGE_SUBMITTED, Task("plan"), recipient="planner/7")
    await planner.failed(await planner.delivered(cause=root))
    await planner.handled("again")
    stuck = await planner.delivered("stuck")
    within = {"delivery": stuck.delivery, "correlation": stuck.correlation}
    for number, fruit in enumerate(("pears", "plums")):  # the second is not answered
        asked = {"kind": "tool.run_json", "request": {"tool": "price", "args": {"fruit": fruit}}, "digest": "d"}
        named = {"effect": number, "kind": "tool.run_json", "request": "d"}
        request = await planner.add(EventType.EFFECT_REQUESTED, asked, metadata=named, cause=stuck.id, **within)
        if number == 0:
            replied = {"outcome": Outcome.REPLIED, "metadata": named, "cause": request.id, **within}
            await planner.add(EventType.EFFECT_RECORDED, 3, **replied)
    await runtime.add(EventType.MESSAGE_SUBMITTED, Task("lost"), recipient="planner/8")


def test_the_snippets_of_the_page_run(
    dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(fill(dsn))
    monkeypatch.setenv("EVENTLOG_DSN", dsn)
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    namespace: dict[str, Any] = {}
    for language, text in blocks:
        if language == "python":
            asyncio.run(_run(text, namespace))
        else:
            for line in (line for line in text.splitlines() if line.startswith("$ ")):
                result = CliRunner().invoke(app, shlex.split(line.removeprefix("$ eventlog ")))
                assert result.exit_code == 0, (line, result.output)
                assert result.stdout, line
    printed = capsys.readouterr().out
    for part in ("Outcome.REPLIED", "Opaque", "no such order", "MessageSubmitted", "planner/8"):
        assert part in printed
    assert {language for language, _ in blocks} == {"python", "console"}


async def _run(text: str, namespace: dict[str, Any]) -> None:
    compiled = compile(textwrap.dedent(text), str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    running = eval(compiled, namespace)
    if inspect.isawaitable(running):
        await running
