"""Coroutines that a replay left are known until the collection that ends them is over, and others are not taken for them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from autogen_eventlog.replay import standing
from autogen_eventlog.replay.standing import any_stands, stand, whose

found: list[str | None] = []


@pytest.fixture(autouse=True)
def nothing_stands() -> Iterator[None]:
    """What other tests of this process have left is not looked at, and what goes meanwhile is not there afterwards."""
    before = dict(standing._standing)
    standing._standing.clear()
    yield
    standing._standing.update({key: one for key, one in before.items() if one[2]() is not None})


class Suspended:
    def __await__(self) -> Generator[None]:
        yield


def look() -> None:
    found.append(whose(sys._getframe(1)))


async def inner(holder: Any) -> None:
    try:
        await Suspended()
    finally:
        look()


async def outer(holder: Any) -> None:
    try:
        await inner(holder)
    finally:
        look()


def suspended(*, circle: bool) -> Any:
    holder: dict[str, Any] = {}
    coroutine = outer(holder)
    coroutine.send(None)
    if circle:
        holder["coroutine"] = coroutine
    return coroutine


def test_what_stands_is_known_as_it_is_collected() -> None:
    found.clear()
    coroutines = [suspended(circle=True) for _ in range(50)]
    for coroutine in coroutines:
        stand(coroutine, "a/b")
    assert any_stands()
    del coroutine
    coroutines.clear()
    gc.collect()
    assert found == ["a/b"] * 100
    assert not any_stands()


def test_what_is_over_is_not_known_any_more_though_its_place_is_used_again() -> None:
    """Frames are made where others were: a handler of the same class that lives must not be taken for one that stood."""
    gc.disable()
    try:
        for _ in range(200):
            found.clear()
            stood = suspended(circle=False)
            stand(stood, "a/b")
            del stood
            suspended(circle=False).close()
            assert found[2:] == [None, None]
            assert not any_stands()
    finally:
        gc.enable()


def test_one_that_was_closed_and_is_held_still_leaves_its_place_to_others() -> None:
    """Its frame is gone, though it is not: what a live handler reads in the next one must be recorded."""
    kept: list[Any] = []
    for _ in range(500):
        stood = suspended(circle=False)
        stand(stood, "a/b")
        stood.close()
        kept.append(stood)
        found.clear()
        suspended(circle=False).close()
        assert found == [None, None]


def test_others_are_not_taken_for_it() -> None:
    found.clear()
    kept = suspended(circle=False)
    stand(kept, "a/b")
    for _ in range(50):
        suspended(circle=True)
        suspended(circle=False).close()
    gc.collect()
    assert found == [None] * 200
    look()
    assert found[-1] is None
    kept.close()
    assert found[-2:] == ["a/b", "a/b"]
    del kept
    gc.collect()
