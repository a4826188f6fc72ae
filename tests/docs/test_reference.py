"""The generated reference is what the code says today."""

from __future__ import annotations

import importlib.util
import re
import sys
from types import ModuleType

import pytest

from autogen_eventlog.events import EventType, Outcome

from .pages import ROOT

REFERENCE = ROOT / "docs" / "reference"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_reference", ROOT / "docs" / "generate_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_api_page_is_as_generated(generator: ModuleType) -> None:
    written = (REFERENCE / "api.md").read_text("utf-8")
    assert written == generator.api_page(), "run python docs/generate_reference.py"


def test_the_errors_page_is_as_generated(generator: ModuleType) -> None:
    written = (REFERENCE / "errors.md").read_text("utf-8")
    assert written == generator.errors_page(), "run python docs/generate_reference.py"


def test_every_event_type_and_outcome_has_its_place_on_the_events_page() -> None:
    page = (REFERENCE / "events.md").read_text("utf-8")
    assert {kind.value for kind in EventType} == set(re.findall(r"^### (\w+)", page, re.MULTILINE))
    assert all(f"`{outcome.value}`" in page for outcome in Outcome)


def test_the_glossary_has_every_word_in_order() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    words = re.findall(r"^\*\*(.+?)\*\*", page, re.MULTILINE)
    assert words == sorted(words, key=str.lower)
    assert {"event", "stream", "version", "position", "epoch", "snapshot", "view", "divergence"} <= set(words)
