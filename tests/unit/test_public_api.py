"""What users may rely on: names, their documentation, and which errors they are told of."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import autogen_eventlog
from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime, distributed, errors, projections
from autogen_eventlog.audit import Audit
from autogen_eventlog.distributed import AgentStateClient

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"

PUBLIC = [
    "Answer",
    "EventData",
    "EventLog",
    "EventLogError",
    "EventLogHandler",
    "EventSourcedAgentRuntime",
    "EventSourcedGrpcWorkerAgentRuntime",
    "EventSourcedGrpcWorkerAgentRuntimeHost",
    "EventType",
    "Outcome",
    "RecordedEvent",
    "RestoreReport",
    "SnapshotPolicy",
    "SnapshotReport",
    "UnknownEffect",
    "effect",
    "effect_of",
    "renamed",
    "upcaster",
]

DISTRIBUTED = [
    "AgentStateClient",
    "EventSourcedGrpcWorkerAgentRuntime",
    "EventSourcedGrpcWorkerAgentRuntimeHost",
    "StateConflict",
    "StateRefused",
    "StateServiceError",
    "StateServiceUnavailable",
    "StateTooLarge",
    "StoredState",
    "WorkerHealth",
    "state_stream",
]

INTERNAL = {
    "EventLogHandler.attached_to",
    "EventLogHandler.incomplete",
    "EventSourcedAgentRuntime.ask",
    "EventSourcedAgentRuntime.fan_out",
    "EventSourcedAgentRuntime.publish",
}
"""Public for the package's own modules alone."""

RAISE_NOTHING = {
    "EventLog.writes",
    "EventLog.writing",
    "EventLog.statistics",
    "EventLog.writer",
    "EventLog.ownership",
    "EventLogHandler.allow",
}

NOT_YET_SAID = {
    "EventLog.register_types",
    "EventLog.message",
    "EventLog.read",
    "EventLog.tail",
    "EventLog.head",
    "EventLog.agents",
    "EventLog.workers",
    "EventLog.version_at",
    "EventLog.start_writing",
    "EventSourcedAgentRuntime.save_state",
}
"""Whose docstrings do not say yet which errors they raise. It may only shrink."""


def error_classes() -> dict[str, type[Exception]]:
    every = dict(vars(errors))
    for module in (projections, distributed):
        every |= {name: getattr(module, name) for name in module.__all__}
    found = {name: one for name, one in every.items() if isinstance(one, type) and not name.startswith("_")}
    return {name: one for name, one in found.items() if issubclass(one, Exception)}


def methods() -> Iterator[tuple[str, Any]]:
    """Public methods that this package describes; AutoGen's, where nothing differs, have no docstring of ours."""
    for cls in (EventLog, EventLogHandler, EventSourcedAgentRuntime, Audit, AgentStateClient):
        for name, value in vars(cls).items():
            function = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
            function = function.fget if isinstance(function, property) else function
            told = inspect.isfunction(function) and function.__doc__ and not name.startswith("_")
            if told and f"{cls.__name__}.{name}" not in INTERNAL:
                yield f"{cls.__name__}.{name}", function


def says_errors(name: str, function: Any) -> bool:
    everywhere = "Raises (everywhere):" in (getattr(autogen_eventlog, name.split(".")[0], Audit).__doc__ or "")
    return everywhere or "Raises:" in function.__doc__


def test_the_public_names_are_these() -> None:
    assert sorted(autogen_eventlog.__all__) == PUBLIC
    assert all(hasattr(autogen_eventlog, name) for name in PUBLIC)


def test_the_public_names_of_the_distributed_runtime_are_these() -> None:
    assert distributed.__all__ == DISTRIBUTED == sorted(DISTRIBUTED, key=lambda name: (name[0].islower(), name))
    assert all(hasattr(distributed, name) for name in DISTRIBUTED)
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        _ = distributed.missing


@pytest.mark.parametrize("name", sorted(error_classes()))
def test_an_error_has_the_one_base(name: str) -> None:
    assert issubclass(error_classes()[name], errors.EventLogError)


@pytest.mark.parametrize("name", [name for name in PUBLIC if name != "EventLogError"])
def test_a_public_name_is_documented(name: str) -> None:
    assert f"\n### {name}\n" in (REFERENCE / "api.md").read_text("utf-8")


@pytest.mark.parametrize("name", sorted(error_classes()))
def test_an_error_is_documented(name: str) -> None:
    assert f"\n## {name}\n" in (REFERENCE / "errors.md").read_text("utf-8")
    assert inspect.getdoc(error_classes()[name])


@pytest.mark.parametrize("name", [name for name, _ in methods()])
def test_a_public_method_says_which_errors_it_raises(name: str) -> None:
    assert says_errors(name, dict(methods())[name]) or name in RAISE_NOTHING | NOT_YET_SAID


def test_an_error_named_in_a_docstring_exists() -> None:
    known = set(error_classes()) | {"ValueError", "TypeError", "LookupError", "RuntimeError", "MessageDroppedException"}
    for name, function in methods():
        raises = function.__doc__.partition("Raises:")[2]
        named = {one for entry in re.findall(r"^\s+([\w, ]+):", raises, re.MULTILINE) for one in entry.split(", ")}
        assert {one for one in named if one[0].isupper() and " " not in one} <= known, name
