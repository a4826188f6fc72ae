"""What is said of who recorded, and of why code and log may disagree."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from autogen_eventlog.incarnation.producer import Producer, likely_cause

NOW = Producer("shop:Agent", "abc", "3.12.1", "random", "5f")
PRINT = """
import dataclasses, json
from autogen_eventlog.incarnation.producer import producer_of
print(json.dumps(producer_of(object()).as_metadata()))
"""


def recorded(**changes: Any) -> dict[str, Any]:
    return {**NOW.as_metadata(), **changes}


def test_nothing_is_said_of_the_order_of_sets_where_it_is_the_same() -> None:
    for seed in ("random", "3", None):
        assert "PYTHONHASHSEED" not in likely_cause(recorded(hash_seed=seed), NOW)


def test_another_order_of_sets_is_a_likely_cause_with_its_remedy() -> None:
    cause = likely_cause(recorded(string_hash="6a", hash_seed="3"), NOW)
    assert "a set of strings has another order here" in cause
    assert "set PYTHONHASHSEED=3, as there" in cause
    cause = likely_cause(recorded(string_hash="6a"), NOW)
    assert "it was random and can't be had again, so sort" in cause


@pytest.mark.parametrize(("then", "now", "said"), [("1", "1", False), ("1", "2", True), ("random", "random", True)])
def test_of_an_older_release_only_the_seed_is_known(then: str, now: str, said: bool) -> None:
    old = recorded(hash_seed=then)
    del old["string_hash"]
    assert ("PYTHONHASHSEED" in likely_cause(old, dataclasses.replace(NOW, hash_seed=now))) is said


def test_another_code_is_the_cause_before_any_order() -> None:
    assert "has changed" in likely_cause(recorded(code_hash="x", string_hash="6a"), NOW)


def described(seed: str) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    out = subprocess.run([sys.executable, "-c", PRINT], env=environment, check=True, capture_output=True)
    return json.loads(out.stdout)


def test_processes_that_hash_alike_say_so() -> None:
    first, again, other, drawn = described("7"), described("7"), described("8"), described("random")
    assert (first["hash_seed"], drawn["hash_seed"]) == ("7", "random")
    assert first["string_hash"] == again["string_hash"]
    assert len({first["string_hash"], other["string_hash"], drawn["string_hash"]}) == 3
