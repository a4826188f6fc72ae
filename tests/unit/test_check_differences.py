"""What two stored values differ in, field by field."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autogen_eventlog.codec import Codec
from autogen_eventlog.errors import Divergence, FieldDifference
from autogen_eventlog.events import EventData, EventType, Outcome
from autogen_eventlog.replay.differing import LARGEST, bytes_differences, form_differences, named
from autogen_eventlog.replay.machine import Production, output_differences
from tests.unit.test_machine import delivered


@dataclass
class Item:
    price: float
    name: str = ""


@dataclass
class Order:
    items: list[Item]
    tags: tuple[str, ...] = ()


def stored(value: object) -> bytes:
    return Codec().encode(value).data


def paths(*differences: FieldDifference) -> list[str]:
    return [one.path for one in differences]


def test_a_field_deep_in_a_message_is_named_with_both_values() -> None:
    then = stored(Order([Item(1.0), Item(2.0), Item(3.5)], ("a", "b")))
    now = stored(Order([Item(1.0), Item(2.0), Item(4.5)], ("a", "c")))
    assert bytes_differences("message", then, now) == (
        FieldDifference("message.items[2].price", "3.5", "4.5"),
        FieldDifference("message.tags[1]", '"b"', '"c"'),
    )


def test_what_is_there_on_one_side_alone_has_nothing_on_the_other() -> None:
    found = bytes_differences("message", stored({"a": 1, "gone": 2}), stored({"a": 1, "new": [1]}))
    assert found == (FieldDifference("message.gone", "2", None), FieldDifference("message.new", None, "[1]"))
    longer = bytes_differences("reply", stored([1]), stored([1, 2, 3]))
    assert longer == (FieldDifference("reply[1]", None, "2"), FieldDifference("reply[2]", None, "3"))


@pytest.mark.parametrize(("then", "now"), [(1, 1.0), (1, True), (0.0, -0.0), (None, False), ("1", 1), ([], {})])
def test_values_that_python_calls_equal_are_told_apart(then: object, now: object) -> None:
    [found] = bytes_differences("message", stored({"x": then}), stored({"x": now}))
    assert found.path == "message.x"
    assert found.recorded != found.produced


def test_another_class_and_another_order_of_keys_are_differences() -> None:
    renamed = stored(Item(1.0)).replace(b":Item", b":Article")
    [found] = bytes_differences("message", stored(Item(1.0)), renamed)
    assert found.path == "message (type)"
    [ordered] = bytes_differences("message", b'{"a":1,"b":2}', b'{"b":2,"a":1}')
    assert ordered == FieldDifference("message (order)", '["a", "b"]', '["b", "a"]')


def test_a_key_that_is_no_name_is_quoted() -> None:
    [found] = form_differences("message", {"a b": 1}, {"a b": 2})
    assert found.path == 'message["a b"]'


def test_bytes_that_are_no_json_are_shown_whole() -> None:
    [found] = bytes_differences("message", b"\xff{", b'{"a":1}')
    assert found == FieldDifference("message", '"\ufffd{"', '{"a": 1}')
    assert bytes_differences("message", None, b"1") == (FieldDifference("message", None, "1"),)


def test_the_number_of_differences_is_bounded() -> None:
    assert len(form_differences("message", list(range(5000)), [one + 1 for one in range(5000)])) == LARGEST


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_there_is_a_difference_exactly_where_the_bytes_differ(then: object, now: object) -> None:
    left, right = json.dumps(then).encode(), json.dumps(now).encode()
    found = bytes_differences("message", left, right)
    assert bool(found) is (left != right)
    assert len(set(paths(*found))) == len(found)


def test_an_output_is_compared_by_its_columns_and_its_payload() -> None:
    recorded = EventData(
        id=delivered(1, 0).id,
        type=EventType.MESSAGE_SENT,
        occurred_at=delivered(1, 0).occurred_at,
        delivery=2,
        recipient="a/1",
        message_type="m:A",
        payload=b'{"text":"one"}',
    )
    made = Production(
        EventType.MESSAGE_SENT, recipient="a/2", message_type="m:A", payload=b'{"text":"two"}', delivery=2
    )
    assert output_differences(recorded, made) == (
        FieldDifference("recipient", '"a/1"', '"a/2"'),
        FieldDifference("message.text", '"one"', '"two"'),
    )
    ended = Production(EventType.DELIVERY_COMPLETED, payload=b"1", outcome=Outcome.REPLIED, delivery=2)
    assert paths(*output_differences(recorded, ended)) == ["type", "outcome", "recipient", "message_type"]


def test_the_text_of_a_divergence_names_the_first_fields() -> None:
    fields = tuple(named(f"message.f{number}", 1, 2) for number in range(5))
    error = Divergence("a/b", 3, 2, "x", "y", "why", differences=fields)
    assert "the code produced y (they differ in message.f0, message.f1, message.f2 and 2 more)" in str(error)
    assert "differ in" not in str(Divergence("a/b", 3, 2, "x", "y", "why", differences=(named("type", "A", "B"),)))
    assert "differ in" not in str(Divergence("a/b", 3, 2, "x", "y", "why"))


def test_an_error_says_how_to_go_on_where_that_is_known() -> None:
    known = Divergence("a/b", 9, 7, "x", "y", "why", before=6)
    page = "docs/how-to/troubleshoot-divergence.md"
    assert str(known).endswith(f"why. To go on from before it: runtime.restore(agent, version=6); see {page}")
    assert str(Divergence("a/b", 9, None, "x", "y", "why")).endswith(f"why. See {page}")
