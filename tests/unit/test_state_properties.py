"""Random graphs of objects, with sharing and cycles, are the same afterwards; two oracles that know nothing of the form."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autogen_eventlog.codec import Codec
from autogen_eventlog.state import capture, difference
from autogen_eventlog.testing.equality import difference as unlike
from tests.unit.state_agents import Holder, Item, Node, Pair, Point, Slotted, round_trip

MAKERS: list[Any] = [
    list,
    dict,
    deque,
    OrderedDict,
    set,
    lambda: defaultdict(list),
    lambda: deque(maxlen=50),
    lambda: Node(None),
    lambda: Item("i"),
    lambda: Slotted(None),
]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.decimals(allow_nan=False),
)
KEYS = st.one_of(st.text(max_size=3), st.integers(-3, 300), st.tuples(st.integers(0, 3), st.text(max_size=1)))


@st.composite
def graphs(draw: st.DrawFn) -> list[Any]:
    """Some mutable objects, linked at random: through attributes, items, keys' values, tuples and frozen values."""
    objects: list[Any] = [draw(st.sampled_from(MAKERS))() for _ in range(draw(st.integers(1, 12)))]
    for _ in range(draw(st.integers(0, 30))):
        holder = objects[draw(st.integers(0, len(objects) - 1))]
        part = draw(LEAVES) if draw(st.booleans()) else objects[draw(st.integers(0, len(objects) - 1))]
        for wrap in draw(
            st.lists(st.sampled_from([lambda x: (x, 1), lambda x: Pair(x, 2), lambda x: Point(x, "p")]), max_size=2)
        ):
            part = wrap(part)
        link(holder, draw(KEYS), part)
    return objects


def link(holder: Any, key: Any, part: Any) -> None:
    if isinstance(holder, (list, deque)):
        holder.append(part)
    elif isinstance(holder, dict):
        holder[key] = part
    elif isinstance(holder, set):
        holder.add(key)
    elif isinstance(holder, Node):
        holder.value, holder.following = part, holder.value
    elif isinstance(holder, Item):
        holder.tags.append(part)
    else:
        holder.left, holder.right = part, holder.left


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs())
def test_a_graph_is_the_same_afterwards(graph: list[Any]) -> None:
    fresh = Holder()
    round_trip(Holder(graph=graph), fresh)
    copy: list[Any] = vars(fresh)["graph"]
    assert unlike(graph, copy) is None
    assert shape(graph) == shape(copy)
    assert not {id(one) for one in mutable(graph)} & {id(one) for one in mutable(copy)}


@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs(), graphs())
def test_a_graph_replaces_another_whole(graph: list[Any], other: list[Any]) -> None:
    """Whatever the fresh instance has at the same places."""
    fresh = Holder(graph=other, more=[other, other[0]])
    round_trip(Holder(graph=graph), fresh)
    assert unlike(graph, vars(fresh)["graph"]) is None
    assert shape(graph) == shape(vars(fresh)["graph"])


@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs(), graphs())
def test_states_are_told_apart_exactly_where_the_oracle_tells_them_apart(graph: list[Any], other: list[Any]) -> None:
    left, right = capture(Holder(graph=graph), Codec()), capture(Holder(graph=other), Codec())
    same = unlike(graph, other) is None and shape(graph) == shape(other)
    assert (left.digest == right.digest) == same
    assert (difference(left.data, right.data) == []) == same


def parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple, deque)):
        return list(value)
    if isinstance(value, (Node, Item)):
        return list(vars(value).values())
    if isinstance(value, Slotted):
        return [value.left, value.right]
    return [value.x, value.y] if isinstance(value, Point) else []


def mutable(graph: Any) -> list[Any]:
    """Every object that has an identity, in the order of a walk."""
    found: list[Any] = []
    pending, seen = [graph], set[int]()
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if not isinstance(value, (tuple, Point)) and (parts(value) or isinstance(value, (list, dict, set, deque))):
            found.append(value)
        pending.extend(parts(value))
    return found


def shape(graph: Any) -> list[list[Any]]:
    """Which object hangs where: the second oracle, which looks at identity alone."""
    numbers = {id(value): number for number, value in enumerate(mutable(graph))}
    return [
        [type(value).__name__, [numbers.get(id(part), leaf(part)) for part in parts(value)]] for value in mutable(graph)
    ]


def leaf(part: Any) -> str:
    return type(part).__name__ if not isinstance(part, Decimal) else str(part)
