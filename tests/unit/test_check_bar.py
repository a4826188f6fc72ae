"""How far a check has come, for a person alone."""

from __future__ import annotations

import io
import sys

import pytest

from autogen_eventlog.checking import CheckProgress
from autogen_eventlog.cli.settings import Settings
from autogen_eventlog.cli.waiting import Bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def settings(json: bool) -> Settings:
    return Settings(None, None, "eventlog", json, color=False)


@pytest.mark.parametrize(
    ("stream", "json", "shown"), [(Terminal(), False, True), (Terminal(), True, False), (io.StringIO(), False, False)]
)
def test_a_bar_is_shown_to_a_person_at_a_terminal_alone(
    stream: io.StringIO, json: bool, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with Bar(settings(json), 3) as bar:
        bar.show(CheckProgress("planner/7\x1b", 1, 3, 20, 40))
    assert ("planner/7\\x1b  20 of 40 events" in stream.getvalue()) is shown
    assert ("1/3" in stream.getvalue()) is shown
