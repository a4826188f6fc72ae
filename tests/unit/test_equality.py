"""The measure itself: what it calls the same, and what not."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from autogen_eventlog.testing.equality import difference, same
from tests.unit import codec_messages

m: Any = codec_messages  # the tests do to these classes what no type checker would let pass


def with_attribute(value: Any, name: str, content: object) -> Any:
    object.__setattr__(value, name, content)
    return value


SHARED: list[int] = [1]

DIFFERENT: list[tuple[Any, Any]] = [
    (1, True),
    (1, 1.0),
    (0.0, -0.0),
    (float("nan"), -float("nan")),
    (float("nan"), 0.0),
    ("a", "b"),
    ("a", m.MyStr("a")),
    (b"a", bytearray(b"a")),
    ([1], (1,)),
    ([1], [1, 2]),
    ([1, 2], [2, 1]),
    ({1}, {True}),
    ({1}, frozenset({1})),
    ({1, 2}, {1}),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({1: 1}, {True: 1}),
    ({}, OrderedDict()),
    (deque([1], 2), deque([1], 3)),
    (defaultdict(list), defaultdict(int)),
    (Decimal("1.0"), Decimal("1.00")),
    (datetime(2024, 1, 1), datetime(2024, 1, 1, fold=1)),  # noqa: DTZ001
    (datetime(2024, 1, 1, tzinfo=timezone.utc), datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC"))),
    (timezone(timedelta(hours=1)), timezone(timedelta(hours=1), "A")),
    (complex(0.0, 0.0), complex(0.0, -0.0)),
    (PurePosixPath("a"), PureWindowsPath("a")),
    (PurePosixPath("a"), PurePosixPath("b")),
    (slice(1), slice(True)),
    (m.Color.RED, m.Color.BLUE),
    (m.Item("a"), m.SpecialItem("a")),
    (m.Item("a", 1), m.Item("a", 1.0)),
    (m.Item("a"), with_attribute(m.Item("a"), "note", 1)),
    (m.Slotted(1, [2]), m.Slotted(1, [3])),
    (m.MyStr("a"), with_attribute(m.MyStr("a"), "note", 1)),
    (m.Base(a=1), m.Base.model_construct({"other"}, a=1)),
    (m.Aliased(PUBLIC=1), with_attribute(m.Aliased(PUBLIC=1), "_count", 2)),
    (Timestamp(seconds=1), Timestamp(seconds=2)),
    ([SHARED, SHARED], [[1], [1]]),
    ([[1], [1]], [SHARED, SHARED]),
    ([SHARED, [1], SHARED], [SHARED, SHARED, [1]]),
]


@pytest.mark.parametrize(("left", "right"), DIFFERENT, ids=range(len(DIFFERENT)))
def test_what_a_program_could_tell_apart_is_different(left: object, right: object) -> None:
    assert not same(left, right)
    assert not same(right, left)
    assert not same([{"k": left}], [{"k": right}])


@pytest.mark.parametrize("left", [side for pair in DIFFERENT for side in pair], ids=range(2 * len(DIFFERENT)))
def test_everything_is_the_same_as_itself(left: object) -> None:
    assert same(left, left)


def test_equal_values_built_apart_are_the_same() -> None:
    def build() -> list[object]:
        shared = m.Item("a", float("nan"))
        return [shared, shared, {(1, "x"): {2, "b"}}, m.Holder(item=m.Sub(a=1)), deque([Decimal("NaN")])]

    assert difference(build(), build()) is None


def test_a_difference_says_where_and_what() -> None:
    assert (
        difference(m.Order(1, [m.Item("a", 1.0)]), m.Order(1, [m.Item("a", 2.0)]))
        == "value.items[0].price: 1.0 is not 2.0"
    )


def test_cycles_are_compared() -> None:
    def loop() -> list[Any]:
        inner: list[Any] = []
        inner.append([inner])
        return inner

    assert same(loop(), loop())
