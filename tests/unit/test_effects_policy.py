"""What becomes of an effect whose outcome is unknown, by kind."""

from __future__ import annotations

from typing import Any

import pytest

from autogen_eventlog.effects import UnknownEffects


@pytest.mark.parametrize(
    ("kind", "decision"),
    [
        ("model.create", "retry"),
        ("model.create_stream", "retry"),
        ("memory.query", "retry"),
        ("memory.update_context", "retry"),
        ("memory.add", "fail"),
        ("workbench.list_tools", "retry"),
        ("workbench.call_tool", "fail"),
        ("workbench.start", "retry"),
        ("tool.run_json", "fail"),
        ("executor.execute_code_blocks", "fail"),
        ("state.get", "retry"),
        ("state.save", "fail"),
        ("own.mail.send", "fail"),
        ("own.start", "fail"),
        ("something.else", "fail"),
    ],
)
def test_what_does_no_harm_twice_is_asked_again_by_default(kind: str, decision: str) -> None:
    assert UnknownEffects().decide(kind) == decision


def test_a_kind_goes_before_its_family_and_both_before_the_default() -> None:
    policy = UnknownEffects({"tool": "retry", "memory": "retry", "memory.add": "fail", "model": "fail"})
    decided = [policy.decide(kind) for kind in ("tool.run_json", "memory.clear", "memory.add", "model.create")]
    assert decided == ["retry", "retry", "fail", "fail"]


def test_a_kind_that_people_named_may_have_dots() -> None:
    policy = UnknownEffects({"own": "retry", "own.mail.send": "fail"})
    assert [policy.decide(kind) for kind in ("own.mail.send", "own.mail", "own.rates.get")] == [
        "fail",
        "retry",
        "retry",
    ]


def test_one_decision_for_all() -> None:
    assert UnknownEffects("retry").decide("executor.execute_code_blocks") == "retry"
    assert UnknownEffects("fail").decide("workbench.start") == "fail"


@pytest.mark.parametrize("setting", ["never", {"tool": "maybe"}, {"tols": "retry"}])
def test_what_is_no_decision_or_kind_is_refused(setting: Any) -> None:
    with pytest.raises(ValueError, match="effects_unknown"):
        UnknownEffects(setting)
