"""What a factory made, told from what it makes later."""

from __future__ import annotations

from typing import Any

import pytest
from autogen_core import AgentId, AgentInstantiationContext, RoutedAgent, SingleThreadedAgentRuntime

from autogen_eventlog.codec import Codec
from autogen_eventlog.incarnation.making import in_words, remade, summary
from autogen_eventlog.state.fresh import made_of


class Settings:
    def __init__(self, retries: int) -> None:
        self.retries = retries


class Worker(RoutedAgent):
    def __init__(self, retries: int = 3, secret: str = "s3cret", **more: Any) -> None:
        super().__init__("works")
        self._retries = retries
        self._secret = secret
        self._settings = Settings(retries * 2)
        self._limits = {"a": 1, "b": [1.5, True]}
        self._seen: set[str] = set()
        self._loops = [self._limits]
        for name, value in more.items():
            setattr(self, name, value)


def made(key: str = "k", /, **parameters: Any) -> dict[str, Any]:
    where = (SingleThreadedAgentRuntime(), AgentId("worker", key))
    with AgentInstantiationContext.populate_context(where):  # type: ignore[arg-type]
        return made_of(Worker(**parameters), Codec())


def test_the_same_factory_makes_the_same_under_any_key() -> None:
    assert made() == made("other") != {}


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"retries": 0}, ["self._retries: 3 and 0", "self._settings.retries: 6 and 0"]),
        ({"secret": "another"}, ["self._secret"]),
        ({"extra": None}, ["self.extra: nothing and null"]),
    ],
)
def test_what_differs_is_named_with_numbers_and_without_secrets(parameters: dict[str, Any], words: list[str]) -> None:
    assert remade(made(), made(**parameters)) == words
    assert "s3cret" not in str(made())


def test_a_summary_that_is_not_there_says_nothing() -> None:
    assert remade({}, made()) == remade(made(), {}) == []


def test_many_values_have_one_digest_together() -> None:
    many: dict[str, Any] = {f"value_{number}": number for number in range(200)}
    first, second = made(**many), made(**{**many, "value_199": 0})
    assert len(first) == 41
    assert remade(first, second) == ["others"]
    assert remade(first, made(**{**many, "retries": 1}))[0] == "self._retries: 3 and 1"


def test_large_instances_and_such_as_are_no_data_are_not_looked_at() -> None:
    class Large(Worker):
        pass

    where = (SingleThreadedAgentRuntime(), AgentId("worker", "k"))
    with AgentInstantiationContext.populate_context(where):  # type: ignore[arg-type]
        assert made_of(Large(text=["x" * 30_000]), Codec()) == {}
        assert made_of(Large(), Codec()) == {}


def test_words_are_few() -> None:
    assert in_words(["a: 1 and 2"]) == "its factory now makes it with other parameters (a: 1 and 2)"
    assert in_words(list("abcde")) == "its factory now makes it with other parameters (a, b, c, and 2 more)"
    assert summary([("a", 1), ("b", "text")])["a"] == 1
