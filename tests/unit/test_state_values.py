"""What a captured state keeps of values: types, order, identity, and how they behave afterwards."""

from __future__ import annotations

import array
import functools
import io
import ipaddress
import itertools
import json
import logging
import operator
import random
import re
import types
import uuid
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from autogen_core import AgentId, Image, TopicId
from autogen_core.models import AssistantMessage, UserMessage
from PIL.Image import new
from pydantic import SecretStr, ValidationError

from autogen_eventlog.codec import Codec
from autogen_eventlog.errors import NotCapturable, PayloadCorrupt
from autogen_eventlog.state import capture, load
from autogen_eventlog.testing.equality import difference
from tests.unit.state_agents import (
    Base,
    Box,
    ByContent,
    Colour,
    Derived,
    Failure,
    Holder,
    Item,
    Model,
    Name,
    Node,
    Pair,
    Point,
    Rights,
    Slotted,
    Table,
    Touchy,
    Words,
    loaded,
    round_trip,
)


def with_note(text: str) -> Name:
    name = Name(text)
    name.note = "a note"
    return name


def filled_model() -> Model:
    model = Model(name="n", other=[1])  # type: ignore[call-arg]
    model._cache["k"] = {1, 2}
    return model


VALUES: list[Any] = [
    None,
    [True, 0, -0.0, float("inf"), 10**700, 1e300, "text", "é\u2028", "\ud800", "\0"],
    (b"\0\xff", bytearray(b"ab"), Decimal("1.10"), Fraction(1, 3), 1 + 2j, range(3, 9, 2), slice(1, None, 2)),
    [uuid.UUID(int=7), Path("/tmp/x"), ..., NotImplemented, ipaddress.ip_address("10.0.0.1")],
    [
        datetime(2020, 2, 3, 4, 5, 6, 7, ZoneInfo("Europe/Paris")),
        datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=1))),
    ],
    {"a": 1, 2: "b", None: 3, (1, "x"): [4], frozenset({1, 2}): 5, Colour.RED: 6, 1.5: 7, b"k": 8, Point(1, 2): 9},
    OrderedDict(b=1, a=2),
    Counter("abracadabra"),
    defaultdict(list, {"a": [1]}),
    deque([1, [2], 3], maxlen=3),
    {1, "a", (2, "b"), frozenset({"c"}), Colour.BLUE, None, 2.5},
    set(range(100)),
    frozenset({(1, frozenset({"x", "y"})), "z"}),
    [Item("i", tags=["t"]), Point([1], (2,)), Slotted([1], {2}), Pair(1, [2])],
    Derived(["s"]),
    [Colour.RED, Rights.READ | Rights.WRITE, Rights(0)],
    filled_model(),
    Box[int](content=3),
    [Words(["a", "b"]), Table(a=[1])],
    with_note("text"),
    [AgentId("a", "k"), TopicId("t", "s"), SecretStr("hidden")],
    [UserMessage(content="hello", source="u"), AssistantMessage(content="hi", source="a")],
    types.SimpleNamespace(a=[1], b=types.SimpleNamespace()),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_the_same_afterwards(value: Any) -> None:
    assert difference(value, loaded(value)) is None


def test_shared_references_are_kept_through_every_kind_of_container() -> None:
    shared = [1]
    value = [
        shared,
        (shared,),
        {"k": shared},
        deque([shared]),
        Item("i", tags=shared),
        Point(shared, 1),
        Slotted(shared),
    ]  # type: ignore[arg-type]
    first, *others = loaded(value)
    assert others[0][0] is first
    assert others[1]["k"] is first
    assert others[2][0] is first
    assert others[3].tags is first
    assert others[4].x is first
    assert others[5].left is first


def test_equal_objects_that_are_two_stay_two() -> None:
    left, right = loaded([[1], [1]])
    assert left == right
    assert left is not right


def test_cycles_are_kept() -> None:
    value: list[Any] = [1]
    value.append(({"self": value},))
    node = Node(value)
    node.following = node
    value.append(node)
    copy = loaded(value)
    assert copy[1][0]["self"] is copy
    assert copy[2].following is copy[2]
    assert copy[2].value is copy


def test_a_cycle_through_the_agent_leads_to_the_fresh_one() -> None:
    live, fresh = Holder(), Holder()
    vars(live).update(me=live, call=live.method)
    round_trip(live, fresh)
    assert fresh.me is fresh  # type: ignore[attr-defined]
    assert fresh.call.__self__ is fresh  # type: ignore[attr-defined]
    assert fresh.call() == "method"  # type: ignore[attr-defined]


def test_a_chain_of_ten_thousand_is_no_matter() -> None:
    node: Any = None
    for number in range(10_000):
        node = Node(number, node)
    nested: Any = ()
    for _ in range(10_000):
        nested = (nested,)
    node, nested = loaded([node, nested])
    found = []
    while node is not None:
        found.append(node.value)
        node = node.following
    assert found == list(range(9_999, -1, -1))
    depth = 0
    while nested:
        (nested,) = nested
        depth += 1
    assert depth == 10_000


def test_tuples_that_share_do_not_grow() -> None:
    value: Any = (1,)
    for _ in range(60):
        value = (value, value)
    assert len(capture(Holder(value=value), Codec()).data) < 5_000
    copy = loaded(value)
    for _ in range(60):
        assert copy[0] is copy[1]
        copy = copy[0]


def test_private_slots_of_both_classes_are_kept() -> None:
    value = Derived([1])
    value.extra = "e"  # type: ignore[attr-defined]
    copy = loaded(value)
    assert copy.secret == [1]
    assert copy._Derived__secret == "derived"
    assert (copy.twice, Base.twice.__get__(copy), copy.extra) == ("inner", "outer", "e")  # type: ignore[attr-defined]


def test_a_slot_that_was_never_set_stays_so() -> None:
    value = Slotted.__new__(Slotted)
    value.left = 1
    copy = loaded(value)
    assert copy.left == 1
    with pytest.raises(AttributeError):
        _ = copy.right


def test_capturing_runs_no_code_of_the_classes_that_it_meets() -> None:
    live = Holder()
    touchy: Any = Touchy.__new__(Touchy)
    object.__setattr__(touchy, "value", 1)
    vars(live)["value"] = [touchy, Words(["a"]), Table(a=1)]
    assert b'"value":1' in capture(live, Codec()).data


def test_containers_behave_as_before() -> None:
    counts, order, factory, bound = loaded(
        [Counter("ab"), OrderedDict.fromkeys("abc"), defaultdict(list), deque([1, 2], maxlen=2)]
    )
    counts.update("b")
    assert counts.most_common() == [("b", 2), ("a", 1)]
    order.move_to_end("a")
    assert list(order) == ["b", "c", "a"]
    factory["new"].append(1)
    assert factory == {"new": [1]}
    bound.append(3)
    assert list(bound) == [2, 3]


def test_ties_of_a_counter_stay_in_order() -> None:
    assert loaded(Counter("zayx")).most_common() == [(letter, 1) for letter in "zayx"]


def test_an_ordered_dict_keeps_its_own_order() -> None:
    value = OrderedDict.fromkeys("abc")
    value.move_to_end("a")
    assert list(loaded(value)) == ["b", "c", "a"]


def test_models_validate_as_before() -> None:
    model, box = loaded([filled_model(), Box[int](content=1)])
    assert model.model_fields_set == {"name", "other"}
    assert model.model_extra == {"other": [1]}
    assert model._cache == {"k": {1, 2}}
    assert type(box) is Box[int]
    with pytest.raises(ValidationError):
        type(box)(content="no number")


def test_keys_that_hash_by_content_are_found() -> None:
    key = ByContent([1, 2])
    table, group, whole = loaded([{key: "found"}, {key}, frozenset({key})])
    assert table[ByContent([1, 2])] == "found"
    assert ByContent([1, 2]) in group
    assert ByContent([1, 2]) in whole


def test_a_key_that_holds_its_own_dict_is_found() -> None:
    key = ByContent([1])
    table: dict[Any, Any] = {key: 1}
    key.table = table  # type: ignore[attr-defined]
    copy = loaded([key, table])
    assert copy[1][copy[0]] == 1
    assert copy[0].table is copy[1]


def test_weak_references_to_what_is_held_are_kept() -> None:
    node, gone = Node(1), Node(2)
    dead = weakref.ref(gone)
    del gone
    value = [
        *(weakref.ref(node), dead, node, weakref.WeakSet([node])),
        *(weakref.WeakKeyDictionary({node: [1]}), weakref.WeakValueDictionary({"k": node})),
    ]
    copy: Any = loaded(value)
    assert copy[0]() is copy[2]
    assert copy[1]() is None
    assert set(copy[3]) == {copy[2]}
    assert copy[4][copy[2]] == [1]
    assert copy[5]["k"] is copy[2]


def test_exceptions_keep_cause_context_and_attributes() -> None:
    try:
        try:
            raise KeyError("k")
        except KeyError as error:
            raise Failure(3, hint="h") from error
    except Failure as error:
        copy = loaded([error, OSError(2, "no", "file"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")])
    failure, missing, decoding = copy
    assert type(failure) is Failure
    assert (failure.args, failure.hint, failure.__suppress_context__) == (("code 3",), "h", True)
    assert isinstance(failure.__cause__, KeyError)
    assert failure.__cause__ is failure.__context__
    assert failure.__traceback__ is None
    assert (missing.errno, missing.strerror, missing.filename, str(missing)) == (
        2,
        "no",
        "file",
        "[Errno 2] no: 'file'",
    )
    assert type(missing) is FileNotFoundError
    assert (decoding.object, decoding.start, str(decoding)) == (
        b"\xff",
        0,
        str(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")),
    )


def test_objects_written_in_c_go_on_where_they_stood() -> None:
    text, binary = io.StringIO("abcdef"), io.BytesIO(b"abcdef")
    text.read(2)
    binary.read(3)
    count, chosen, steps = itertools.count(5, 2), random.Random(7), iter([1, 2, 3])
    next(count)
    next(steps)
    chosen.gauss(0, 1)
    copy = loaded([text, binary, count, chosen, array.array("d", [1.5, -0.0]), steps, re.compile("a(b)", re.I)])
    assert copy[0].read() == "cdef"
    assert copy[1].read() == b"def"
    assert [next(copy[2]), next(copy[2])] == [7, 9]
    assert [copy[3].gauss(0, 1), copy[3].random()] == [chosen.gauss(0, 1), chosen.random()]
    assert copy[4] == array.array("d", [1.5, -0.0])
    assert list(copy[5]) == [2, 3]
    assert copy[6].fullmatch("AB")


def test_a_round_goes_on_where_it_stood() -> None:
    members = ["a", "b", "c"]
    begun, gone_round, never = itertools.cycle(members), itertools.cycle(tuple(members)), itertools.cycle(members)
    next(begun)
    for _ in range(5):
        next(gone_round)
    copy = loaded([begun, gone_round, never])
    assert [[next(one) for _ in range(5)] for one in copy] == [list("bcabc"), list("cabca"), list("abcab")]
    assert [next(begun), next(gone_round), next(never)] == ["b", "c", "a"]


def test_callables_of_data_can_be_called() -> None:
    def build() -> Holder:
        return Holder(keep=[functools.partial, int, operator.add])

    arguments = [1]
    copy = loaded([functools.partial(int, "11", base=2), operator.itemgetter(1), operator.attrgetter("a.b")], build)
    assert copy[0]() == 3
    assert copy[1]("xy") == "y"
    assert arguments == [1]


def test_a_call_of_a_method_keeps_its_arguments() -> None:
    method = operator.methodcaller
    calls = [method("format", 1, x=2), method("append", {"x": 1}), method("get", {"x": 1}, 3), method("sort", key=int)]
    copies = loaded(calls)
    assert [one.__reduce__()[1] for one in copies] == [one.__reduce__()[1] for one in calls]
    assert copies[0]("{} {x}") == "1 2"
    kept: list[Any] = []
    copies[1](kept)
    assert kept == [{"x": 1}]
    kept = ["10", "9"]
    copies[3](kept)
    assert kept == ["9", "10"]


def test_views_of_what_is_held_show_it() -> None:
    inner, content = {"a": 1}, bytearray(b"abc")
    proxy, table, view, buffer = loaded([types.MappingProxyType(inner), inner, memoryview(content), content])
    table["b"] = 2
    buffer[0] = 120
    assert proxy["b"] == 2
    assert bytes(view) == b"xbc"
    del view, buffer


def test_an_image_and_a_logger_are_kept() -> None:
    image, logger = loaded([Image(new("RGB", (2, 2), (1, 2, 3))), logging.getLogger("shop.orders")])
    assert image.image.getpixel((1, 1)) == (1, 2, 3)
    assert logger is logging.getLogger("shop.orders")


def test_numpy_arrays_are_exact() -> None:
    numpy = pytest.importorskip("numpy")
    fortran = numpy.asfortranarray(numpy.arange(6, dtype="<i4").reshape(2, 3))
    fixed = numpy.array([1.5, numpy.nan, -0.0], dtype=">f4")
    fixed.flags.writeable = False
    record = numpy.array([(1, b"ab")], dtype=[("n", "<u2"), ("s", "S3")])
    generator = numpy.random.default_rng(3)
    generator.random()
    values = [fortran, fixed, record, numpy.float64(1.5), numpy.datetime64("2020-01-01"), numpy.zeros(()), generator]
    copies = loaded(values)
    for value, copy in zip(values[:6], copies[:6], strict=True):
        assert type(value) is type(copy)
        assert value.dtype == copy.dtype
        assert value.dtype.byteorder == copy.dtype.byteorder
        assert value.tobytes() == copy.tobytes()
        assert getattr(value, "flags", None) is None or str(value.flags).replace(" ", "") != ""
    assert copies[0].flags.f_contiguous
    assert not copies[1].flags.writeable
    assert copies[6].random() == generator.random()


def test_the_same_array_twice_is_one_array() -> None:
    numpy = pytest.importorskip("numpy")
    value = numpy.zeros(3)
    left, right = loaded([value, value])
    left[0] = 1
    assert right[0] == 1


def test_loading_sets_every_attribute_anew() -> None:
    """What the fresh one has and the other has not is gone."""
    live, fresh = Holder(a=1, shared=[1, 2]), Holder(a=2, b=3, shared=[9])
    kept = vars(fresh)["shared"]
    load(capture(live, Codec()).data, into=fresh, codec=Codec())
    assert list(vars(fresh)) == ["a", "shared"]
    assert vars(fresh)["shared"] is kept == [1, 2]


def test_a_set_of_numbers_gives_them_in_the_same_order() -> None:
    for value in ({8, 0}, {0, 8}, {24, 16, 8, 0, 3}, set(range(1000)), {True, 64, 8}):
        assert list(loaded(value)) == list(value)


def test_the_order_of_a_set_is_no_part_of_the_digest() -> None:
    left, right = capture(Holder(value={8, 0}), Codec()), capture(Holder(value={0, 8}), Codec())
    assert left.data != right.data
    assert left.digest == right.digest


def grown(elements: list[Any], *, without: int = 0) -> set[Any]:
    """A set that elements came to one by one, and some were taken from, the last of which comes again."""
    value = set[Any]()
    for element in elements:
        value.add(element)
    for element in elements[:without]:
        value.discard(element)
    value.update(elements[without - 1 : without])
    return value


LATTICE = [(x, y) for x in range(9) for y in range(9)]
SEEDLESS: list[set[Any]] = [
    {(5, 1), (1, 5), (2, 2), (0, 7), (9, 9), (4, 4)},
    grown(LATTICE, without=70),
    grown([8.0 * number for number in range(40, 0, -1)], without=36),
    grown([8 * number for number in range(1000)], without=880),
    grown([1e18, 0.5, 2.0**61 - 1, 8.0, 16.0, 0.0, -8.0], without=2),
    {uuid.UUID(int=8 * number) for number in (5, 3, 1, 4, 2)},
    grown([Decimal(8 * number) / 3 for number in range(30)], without=20),
    {Fraction(1, 3), 8, 0, 1 + 2j, True, timedelta(1)},
    grown([Point(x, y) for x, y in LATTICE], without=60),
    grown([Pair(x, (y, frozenset({8, 0, x}))) for x, y in LATTICE], without=60),
    grown([frozenset({x, y}) for x, y in LATTICE], without=60),
    grown([number << 70 for number in range(50)], without=30),
    {-1, -2, 7, 15},
    {-2, -1, 15, 7},
    set(grown(list(range(100)), without=90)),
    grown(list(range(100)), without=97),
]


@pytest.mark.parametrize("value", SEEDLESS, ids=lambda value: f"{len(value)}{type(next(iter(value))).__name__}")
def test_a_set_whose_hashes_follow_no_seed_gives_its_elements_in_the_same_order(value: set[Any]) -> None:
    copy = loaded(value)
    assert list(copy) == list(value)
    assert copy.__sizeof__() == value.__sizeof__()
    codec = Codec()
    data = capture(Holder(value=value), codec).data
    again = Holder(value={1, 2})
    load(data, into=again, codec=codec)
    assert list(vars(again)["value"]) == list(value)


@pytest.mark.parametrize("order", list(itertools.permutations([8, 0, 16, 24])))
def test_a_frozenset_of_numbers_gives_them_in_the_same_order(order: tuple[int, ...]) -> None:
    value = {"group": frozenset(order), "other": frozenset(grown([*order, *range(20)], without=3))}
    copy = loaded(value)
    assert [list(one) for one in copy.values()] == [list(one) for one in value.values()]


@pytest.mark.parametrize("seed", range(60))
def test_a_set_with_any_past_gives_its_elements_in_the_same_order(seed: int) -> None:
    chance = random.Random(seed)
    draw = chance.choice(
        [
            lambda: 8 * chance.randrange(300),
            lambda: chance.getrandbits(64),
            lambda: chance.uniform(-9, 9),
            lambda: (chance.randrange(20), chance.randrange(20)),
            lambda: Point(chance.randrange(20), chance.randrange(20)),
        ]
    )
    value = set[Any]()
    for _ in range(chance.choice([5, 30, 120, 500])):
        if chance.random() < 0.6 or not value:
            value.add(draw())
        elif chance.random() < 0.9:
            value.discard(chance.choice(list(value)))
        else:
            value |= {draw() for _ in range(chance.randrange(9))}
    assert list(loaded(value)) == list(value)


@pytest.mark.parametrize(
    ("value", "changed"),
    [
        (frozenset({8, 0}), {"e": [1, 2], "o": [1, 0]}),
        ({8, 0}, {"o": [0, 0]}),
        ({8, 0}, {"r": 7}),
        ({8, 0}, {"r": 1 << 40}),
    ],
)
def test_an_order_that_cannot_be_had_is_refused_when_it_is_loaded(value: Any, changed: dict[str, Any]) -> None:
    stored = json.loads(capture(Holder(value=value), Codec()).data)
    (entry,) = [entry for entry in stored["objects"] if entry["$t"] == type(value).__name__]
    entry.update(changed)
    with pytest.raises(PayloadCorrupt, match=r"self\.value"):
        load(json.dumps(stored).encode(), into=Holder(value=value), codec=Codec())


def test_sets_of_texts_have_no_order() -> None:
    data = capture(
        Holder(value=[set("abcdefgh"), {("a", 1), ("b", 2)}, {1, "a"}, {Point(1, "a"), Point(2, "b")}]), Codec()
    ).data
    assert b'"o":' not in data


def test_numpys_order_in_memory_is_kept() -> None:
    numpy = pytest.importorskip("numpy")
    cube = numpy.arange(24).reshape(2, 3, 4)
    values = [
        *(cube.transpose(2, 0, 1).copy(order="K"), cube.transpose(1, 0, 2).copy(order="K"), numpy.asfortranarray(cube)),
        *(numpy.str_(""), numpy.bytes_(b""), numpy.zeros((0, 3)), numpy.array(3.5)),
    ]
    for value, copy in zip(values, loaded(values), strict=True):
        assert type(copy) is type(value)
        assert copy.tolist() == value.tolist()
        assert (copy.strides, copy.ravel("K").tolist()) == (value.strides, value.ravel("K").tolist())


def test_numpys_arrays_own_their_memory_afterwards() -> None:
    numpy = pytest.importorskip("numpy")
    cube = numpy.arange(24).reshape(2, 3, 4)
    values = [numpy.arange(3), numpy.asfortranarray(cube), cube.transpose(1, 0, 2).copy(order="K"), numpy.zeros(())]
    copies = loaded(values)
    assert [copy.flags.owndata for copy in copies] == [value.flags.owndata for value in values] == [True] * 4
    copies[0].resize(4, refcheck=False)
    assert copies[0].tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize("seed", [42, [1, 2], (3, 4)])
def test_numpys_generators_spawn_the_same_afterwards(seed: Any) -> None:
    numpy = pytest.importorskip("numpy")
    generator = numpy.random.default_rng(seed)
    generator.spawn(2)
    values = [generator, generator.spawn(1)[0]]
    for value, copy in zip(values, loaded(values), strict=True):
        assert [one.random() for one in copy.spawn(2)] == [one.random() for one in value.spawn(2)]
        assert copy.random() == value.random()


def test_a_generator_of_numpys_whose_seed_is_no_number_is_refused() -> None:
    numpy = pytest.importorskip("numpy")
    holder = Holder(value=numpy.random.default_rng(numpy.random.SeedSequence((1, [2, 3]))))
    with pytest.raises(NotCapturable, match="neither a number nor a list of numbers"):
        capture(holder, Codec())


def test_a_view_that_may_not_write_may_not_afterwards() -> None:
    content = bytearray(b"abc")
    copy = loaded([memoryview(content).toreadonly(), memoryview(content)])
    assert [one.readonly for one in copy] == [True, False]


def test_a_weak_set_of_many_is_the_same_afterwards() -> None:
    nodes = [Node(number) for number in range(20)]
    kept, group = loaded([nodes, weakref.WeakSet(nodes[::-2])])
    assert set(group) == set(kept[1::2])


def test_an_order_that_was_stored_without_the_room_of_its_set_is_kept_too() -> None:
    stored = json.loads(capture(Holder(value={8, 0}), Codec()).data)
    for entry in stored["objects"]:
        entry.pop("r", None)
    fresh = Holder(value=set[int]())
    load(json.dumps(stored).encode(), into=fresh, codec=Codec())
    assert list(vars(fresh)["value"]) == [8, 0]
