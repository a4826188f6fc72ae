"""A pytest plugin: every `*.history.jsonl` file is a test, which replays it with the code at hand.

It is switched on by the setting `eventlog_app = MODULE:FUNCTION`, the function that registers the agents. pytest loads this
module in every run of an environment that has the package, so it imports nothing of it until a history is run.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    from autogen_eventlog.checking import AgentCheck

SUFFIX = ".history.jsonl"
_APP, _MODE = "eventlog_app", "eventlog_mode"
_MODES = ("report", "strict")


class HistoryDiffers(Exception):
    """The code at hand does not do what was recorded, or ends in another state."""

    def __init__(self, check: AgentCheck) -> None:
        super().__init__(check.agent, check.outcome.value)
        self.check = check


def pytest_addoption(parser: pytest.Parser) -> None:
    """The settings, and the option that overrides the first."""
    group = parser.getgroup("autogen-eventlog")
    group.addoption(
        "--eventlog-app",
        metavar="MODULE:FUNCTION",
        help="replay *.history.jsonl files with the agents that this function registers",
    )
    parser.addini(_APP, "MODULE:FUNCTION that registers the agents of *.history.jsonl files")
    parser.addini(_MODE, "report: all that differs; strict: the first divergence", default="report")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> HistoryFile | None:
    """Histories, where it is known which function registers their agents."""
    if not file_path.name.endswith(SUFFIX) or not _app(parent.config):
        return None
    made: HistoryFile = cast("Any", HistoryFile).from_parent(parent, path=file_path)
    return made


def _app(config: pytest.Config) -> str:
    return str(config.getoption("--eventlog-app") or config.getini(_APP) or "")


class HistoryFile(pytest.File):
    """One history."""

    def collect(self) -> Iterable[pytest.Item]:
        yield cast("Any", HistoryItem).from_parent(self, name="replay")


class HistoryItem(pytest.Item):
    """Its replay."""

    def runtest(self) -> None:
        from autogen_eventlog.cli.checking import check_file
        from autogen_eventlog.cli.restoring import import_function

        mode = str(self.config.getini(_MODE))
        if mode not in _MODES:
            raise pytest.UsageError(f"{_MODE} is one of {', '.join(_MODES)}, not {mode!r}")
        root = str(self.config.rootpath)
        if root not in sys.path:
            sys.path.insert(0, root)
        try:
            register = import_function(_app(self.config))
        except ValueError as error:
            raise pytest.UsageError(f"{_APP}: {error}") from error
        check = asyncio.run(check_file(self.path, register, mode="strict" if mode == "strict" else "report"))
        if not check.same:
            raise HistoryDiffers(check)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What differs, and why it may; no traceback, which would be of this package alone."""
        from autogen_eventlog.cli.findings import text
        from autogen_eventlog.errors import EventLogError

        if isinstance(excinfo.value, HistoryDiffers):
            return text(excinfo.value.check)
        if isinstance(excinfo.value, (EventLogError, pytest.UsageError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"history {self.path.name}"
