"""What holds of any value and of any bytes."""

from __future__ import annotations

import copy
import json
import sys
from collections import OrderedDict, defaultdict, deque
from datetime import timezone
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autogen_eventlog.codec import Codec, TypeRegistry
from autogen_eventlog.errors import NotEncodable, PayloadCorrupt, TypeNotAllowed
from autogen_eventlog.testing.equality import difference
from tests.unit import codec_messages

m: Any = codec_messages  # the tests do to these classes what no type checker would let pass

TEXT = st.text(st.characters(codec=None, exclude_categories=())) | st.sampled_from(
    ["$t", "v", "$.a", "$unset", "\0", "\ud83d\ude00"]
)
ZONES = (
    st.none() | st.just(timezone.utc) | st.timezones() | st.sampled_from([ZoneInfo("Europe/Berlin"), ZoneInfo("UTC")])
)
HASHABLE_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**3000), 2**3000),
    st.floats(),
    TEXT,
    st.binary(),
    st.complex_numbers(),
    st.decimals(allow_nan=True),
    st.fractions(),
    st.uuids(),
    st.dates(),
    st.datetimes(timezones=ZONES, allow_imaginary=True),
    st.times(),
    st.timedeltas(),
    st.sampled_from([*m.Color, *m.Level, *m.Tone]),
    st.integers(0, 7).map(m.Permission),
    st.builds(m.MyStr, TEXT),
    st.builds(m.MyInt, st.integers()),
    st.builds(m.Point, st.integers(), st.integers()),
    st.builds(m.Frozen, a=st.integers()),
).filter(lambda value: not (type(value).__name__ == "Decimal" and value.is_snan()))  # its hash raises


def hashables(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return children | st.lists(children, max_size=3).map(tuple) | st.frozensets(children, max_size=3)


HASHABLE = st.recursive(HASHABLE_SCALARS, hashables, max_leaves=4)


def _with_extras(first: object, second: object) -> object:
    return m.Aliased(PUBLIC=1, **{"extra": first, "$t": second})


def _unvalidated(item: object) -> object:
    return m.Holder.model_construct(item=item)


def _node(tag: object, rest: dict[str, object]) -> dict[str, object]:
    return {"$t": tag, **rest}


def containers(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(children, max_size=4)
    dicts = st.dictionaries(TEXT, children, max_size=4) | st.dictionaries(HASHABLE, children, max_size=4)
    return st.one_of(
        lists,
        lists.map(tuple),
        dicts,
        st.sets(HASHABLE, max_size=4),
        dicts.map(OrderedDict),
        dicts.map(lambda value: defaultdict(list, value)),
        lists.map(deque),
        lists.map(lambda value: deque(value, 4)),
        lists.map(m.MyList),
        dicts.map(m.MyDict),
        st.builds(m.Order, st.integers(), children, children),
        st.builds(m.Box, children),
        st.builds(m.Slotted, children, children),
        st.builds(m.Pair, children, children),
        st.builds(_with_extras, children, children),
        st.builds(_unvalidated, children),
        children.map(lambda value: [value, value, {"again": value}]),
    )


VALUES = st.recursive(HASHABLE_SCALARS | st.binary().map(bytearray), containers, max_leaves=12)
REGISTRY = TypeRegistry()
REGISTRY.register_module(m)
LEARNER, READER = Codec(), Codec(REGISTRY, learn=False)


@given(VALUES)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_value_comes_back_the_same_here_and_elsewhere(value: object) -> None:
    encoded = LEARNER.encode(value)
    for codec in (LEARNER, READER):
        decoded = codec.decode(encoded.data)
        assert difference(value, decoded) is None
        assert codec.encode(decoded) == encoded


@given(VALUES)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_stored_data_is_json_that_postgres_can_keep(value: object) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    data = LEARNER.encode(value).data
    assert data.isascii()
    assert b"\0" not in data
    json.dumps(json.loads(data, parse_constant=refuse), ensure_ascii=False).encode()  # fails on a lone surrogate


@given(VALUES)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_encoding_any_value_leaves_it_as_it_was(value: object) -> None:
    before = copy.deepcopy(value)
    LEARNER.encode(value)
    assert difference(before, value) is None


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    data = bytearray(LEARNER.encode(draw(VALUES)).data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        cut = draw(st.integers(0, 8))
        other = draw(
            st.binary(max_size=3)
            | st.sampled_from([b'"', b"{", b"]", b'"$t":', b"null", b",", b"[]", b"{}", b"1", b'"v":'])
        )
        data[at : at + cut] = other
    return bytes(data)


def decode_or_refuse(codec: Codec, data: bytes, *, opaque: bool) -> None:
    try:
        value = codec.decode(data, opaque=opaque)
    except (PayloadCorrupt, TypeNotAllowed):
        return
    try:
        again = codec.encode(value)
    except NotEncodable:
        return  # a class filled with what its own code would not have put there
    assert difference(codec.decode(again.data, opaque=opaque), value) is None


@given(mutated(), st.booleans())
@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_altered_bytes_are_refused_or_read_but_never_crash_or_import(data: bytes, opaque: bool) -> None:
    before = {name for name in sys.modules if not name.startswith(("tzdata", "hypothesis"))}
    decode_or_refuse(READER, data, opaque=opaque)
    assert {name for name in sys.modules if not name.startswith(("tzdata", "hypothesis"))} == before


@st.composite
def rearranged(draw: st.DrawFn) -> bytes:
    """Well-formed JSON with the codec's own tags in the wrong places."""
    tags = st.sampled_from(
        [
            "tuple",
            "set",
            "dict",
            "bytes",
            "float",
            "int",
            "str",
            "datetime",
            "time",
            "zone",
            "timezone",
            "decimal",
            "fraction",
            "complex",
            "uuid",
            "path",
            "range",
            "slice",
            "deque",
            "defaultdict",
            "def",
            "ref",
            "os:system",
            *REGISTRY.names(),
            "collections:Counter",
            "autogen_core._agent_id:AgentId",
        ]
    )
    keys = st.sampled_from(
        ["v", "id", "name", "names", "bits", "a", "b", "price", "$set", "$extra", "$private", "$unset", "$.x", "tz"]
    )
    leaves = (
        st.none()
        | st.booleans()
        | st.integers(-2, 3)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=3)
    )

    def grow(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        nodes = st.builds(_node, tags | children, st.dictionaries(keys, children, max_size=3))
        return st.lists(children, max_size=3) | nodes

    return json.dumps(draw(st.recursive(leaves, grow, max_leaves=10))).encode()


@given(rearranged(), st.booleans())
@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_tags_in_wrong_places_are_refused_or_read_but_never_crash(data: bytes, opaque: bool) -> None:
    decode_or_refuse(READER, data, opaque=opaque)
