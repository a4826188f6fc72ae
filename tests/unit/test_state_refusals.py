"""What can't be restored exactly is refused by name when a state is captured, and never captured as something else."""

from __future__ import annotations

import array
import collections
import contextvars
import csv
import dataclasses
import decimal
import enum
import hashlib
import io
import itertools
import json
import logging
import random
import re
import sqlite3
import ssl
import struct
import threading
import weakref
import zlib
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, ValidationError, create_model

from autogen_eventlog.codec import Codec
from autogen_eventlog.errors import NotCapturable, NotLoadable, PayloadCorrupt, TypeNotAllowed
from autogen_eventlog.state import capture, load
from tests.unit.state_agents import ByContent, Holder, Node, loaded, round_trip


def reason(value: Any) -> str:
    """Why a value that an agent holds is refused: class and reason of the only place."""
    with pytest.raises(NotCapturable) as caught:
        capture(Holder(value=value), Codec())
    ((path, found, why, _),) = caught.value.places
    assert path.startswith("self.value")
    return f"{found}: {why}"


# -- what is written in C -----------------------------------------------------------------------------------------


class Database(sqlite3.Connection):
    """A subclass in Python, with attributes of its own."""

    name = "d"


class Local(threading.local):
    pass


class Settings(decimal.Context):
    pass


class Closer:
    def __del__(self) -> None:
        return


class Slots:
    __slots__ = ("left", "right")


class Both(Slots):
    def __init__(self) -> None:
        self.left, self.right, self.third = 1, 2, 3


class Odd(KeyError, AttributeError):
    pass


class Drawn(random.Random):
    pass


class Typed(BaseModel):
    number: int


def invalid() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        Typed(number="x")  # type: ignore[arg-type]
    return caught.value


def of_c() -> list[Any]:
    connection, own = sqlite3.connect(":memory:"), sqlite3.connect(":memory:", factory=Database)
    own.row_factory = sqlite3.Row
    (row,) = own.execute("SELECT 1 AS one")
    return [
        *(connection, connection.cursor(), own, row),
        *(csv.reader([]), csv.writer(io.StringIO()), zlib.compressobj(), zlib.decompressobj(), hashlib.sha256(b"x")),
        *(re.match("a", "ab"), re.finditer("a", "ab"), struct.Struct("<i"), Local()),
        *(decimal.Context(), Settings(), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), iter(collections.deque([1]))),
        *(itertools.chain([1]), itertools.islice([1], 1), map(str, [1]), enumerate([1]), reversed([1]), iter({1: 2})),
        *(contextvars.copy_context(), invalid(), memoryview(b"ab")[1:], {}.keys()),
    ]


@pytest.mark.parametrize("value", of_c(), ids=lambda value: type(value).__name__)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_is_written_in_c_is_refused_by_the_name_of_its_class(value: Any) -> None:
    assert reason(value).startswith(f"{type(value).__module__}:{type(value).__qualname__}: ")


def test_what_a_class_statement_adds_is_seen() -> None:
    both, odd, drawn = Both(), Odd("k"), Drawn(3)
    drawn.random()
    odd.name = "n"
    copy = loaded([both, odd, drawn, [Node(1)]])
    assert (copy[0].left, copy[0].right, copy[0].third) == (1, 2, 3)
    assert (copy[1].args, copy[1].name) == (("k",), "n")
    assert copy[2].random() == drawn.random()


def test_an_object_with_a_finaliser_is_seen_through() -> None:
    capture(Holder(value=Closer()), Codec())


# -- classes of one name ------------------------------------------------------------------------------------------


def made_class(factor: int) -> type[Any]:
    class Made:
        times = factor

        def __init__(self, number: int = 1) -> None:
            self.number = number

    return Made


def made_place(size: int) -> type[Any]:
    return type("Place", (tuple,), {"__slots__": (), "size": size})


TWICE, THRICE = made_class(2), made_class(3)
ROW, WIDE_ROW = create_model("Row", a=(int, 1)), create_model("Row", a=(int, 1), b=(int, 2))
PAIR, TRIPLE = made_place(2), made_place(3)
SIGNAL, LIGHT = enum.Enum("Signal", "GO STOP"), enum.Enum("Signal", "STOP GO")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ([TWICE(), THRICE()], "made_class.<locals>.Made"),
        ([TWICE, THRICE], "made_class.<locals>.Made"),
        ([TWICE(), THRICE], "made_class.<locals>.Made"),
        ([ROW(), WIDE_ROW()], "Row"),
        ((PAIR((1, 2)), TRIPLE((1, 2, 3))), "Place"),
        ({SIGNAL.GO: LIGHT.GO}, "Signal"),
    ],
)
def test_objects_of_two_classes_of_one_name_are_refused(value: Any, name: str) -> None:
    assert f"there are two classes called 'tests.unit.test_state_refusals:{name}'" in reason(value)


def test_a_class_that_its_module_does_not_show_any_more_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    value = ByContent([1])
    monkeypatch.setattr(
        "tests.unit.state_agents.ByContent", type("ByContent", (), {"__module__": ByContent.__module__})
    )
    assert "there are two classes called 'tests.unit.state_agents:ByContent'" in reason(value)


def test_a_class_is_refused_whose_name_the_codec_gives_to_another() -> None:
    codec = Codec()
    codec.registry.register(ROW)
    with pytest.raises(NotCapturable, match="there are two classes called"):
        capture(Holder(value=WIDE_ROW()), codec)


class Choosing:
    """Whose code names both."""

    def __init__(self, kind: type[Any]) -> None:
        self.made = kind()

    def choose(self) -> None:
        self.made = THRICE()

    def change(self) -> None:
        self.made = TWICE()


def test_a_class_is_refused_whose_name_leads_to_another_in_the_agents_code() -> None:
    with pytest.raises(NotCapturable) as caught:
        capture(Choosing(THRICE), Codec())
    assert [place[:2] for place in caught.value.places] == [
        ("self.made", "tests.unit.test_state_refusals:made_class.<locals>.Made")
    ]


def test_a_state_is_not_loaded_where_its_class_is_another_by_that_name() -> None:
    data = capture(Holder(value=TWICE()), Codec()).data
    with pytest.raises(PayloadCorrupt, match="there are two classes called"):
        load(data, into=Holder(value=[TWICE(), THRICE()]), codec=Codec())


# -- what is told by its identity ----------------------------------------------------------------------------------


MISSING: Any = object()


class Unset:
    """The usual sentinel with a name for messages."""


UNSET: Any = Unset()


@dataclass(frozen=True)
class Nothing:
    pass


NOTHING: Any = Nothing()


class Shop:
    CLOSED: Any = object()

    class Till:
        EMPTY: Any = object()


class Level:
    HIGH: ClassVar[Level]

    def __init__(self, number: int) -> None:
        self.number = number


Level.HIGH = Level(3)


class Single:
    _one: ClassVar[Any] = None

    def __new__(cls) -> Any:
        if cls._one is None:
            cls._one = object.__new__(cls)
            cls._one.count = 0
        return cls._one


class Bare:
    _one: ClassVar[Any] = None

    def __new__(cls) -> Any:
        cls._one = cls._one or object.__new__(cls)
        return cls._one


class Once(type):
    made: ClassVar[dict[str, Any]] = {}

    def __call__(cls, *arguments: Any) -> Any:
        if cls.__name__ not in Once.made:
            Once.made[cls.__name__] = super().__call__(*arguments)
        return Once.made[cls.__name__]


class Kept(metaclass=Once):
    def __init__(self) -> None:
        self.count = 0


@pytest.mark.parametrize(
    "value",
    [MISSING, UNSET, NOTHING, Shop.CLOSED, Shop.Till.EMPTY, Bare(), dataclasses.MISSING],
    ids=lambda value: type(value).__name__,
)
def test_a_sentinel_is_the_same_one_afterwards(value: Any) -> None:
    """Also where the constructor puts it, and handlers put it elsewhere later."""
    live = Holder(first=value, table={"k": None, value: 1}, group=set[Any]())
    fresh = Holder(first=value, table={"k": None, value: 1}, group=set[Any]())
    vars(live).update(first=None, table={"k": value, value: 2}, group={value, 1})
    round_trip(live, fresh)
    assert vars(fresh)["table"]["k"] is value
    assert vars(fresh)["table"][value] == 2
    assert any(one is value for one in vars(fresh)["group"])


def test_an_object_without_data_that_nothing_shows_is_made_anew() -> None:
    left, right = Unset(), Unset()
    copy = loaded([left, right, left])
    assert [type(one) for one in copy] == [Unset] * 3
    assert copy[0] is copy[2] is not copy[1]


def test_a_bare_object_that_nothing_shows_is_refused() -> None:
    assert reason({"k": object()}).startswith("builtins:object: it is an object() that no module or class shows")


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (Single, "class Single shows as _one"),
        (Kept, "class Once shows as made"),
        (lambda: Level.HIGH, "class Level shows as HIGH"),
    ],
)
def test_the_only_instance_of_a_class_is_refused_if_it_has_data(make: Any, name: str) -> None:
    assert name in reason([make()])


def test_other_instances_of_such_a_class_are_data() -> None:
    assert loaded(Level(4)).number == 4


@pytest.mark.parametrize("name", ["os:environ", "tests.unit.test_state_refusals:Level.HIGH", "os:path", "gone:X", 7])
def test_a_stored_name_stands_for_nothing_that_has_data(name: Any) -> None:
    data = capture(Holder(value=MISSING), Codec()).data
    stored = json.loads(data)
    (entry,) = [one for one in stored["objects"] if one["$t"] == "shown"]
    entry["d"] = name
    with pytest.raises(TypeNotAllowed):
        load(json.dumps(stored).encode(), into=Holder(value=MISSING), codec=Codec())


class Registry:
    def __init__(self) -> None:
        self.entries: list[int] = []

    def register(self, number: int) -> None:
        self.entries.append(number)


_registry = Registry()
register = _registry.register


class Drawing:
    def __init__(self) -> None:
        self.pick: Any = random.choice
        self.draw: Any = random.random
        self.add: Any = register

    def use(self) -> Any:
        return random.choice, random.random, register


def test_a_method_that_a_module_shows_is_that_method_and_not_what_it_is_bound_to() -> None:
    live, fresh = Drawing(), Drawing()
    vars(fresh).update(pick=None, draw=None, add=None)
    register(1)
    captured = capture(live, Codec())
    register(2)
    random.seed(1)
    before = random.getstate()
    load(captured.data, into=fresh, codec=Codec())
    assert (fresh.pick, fresh.draw, fresh.add) == (random.choice, random.random, register)
    assert fresh.pick is random.choice
    assert random.getstate() == before
    assert _registry.entries == [1, 2]
    assert capture(fresh, Codec()) == captured


def test_such_a_method_is_found_where_the_fresh_one_holds_it() -> None:
    class Calling(Holder):
        pass

    fresh = Calling(first=random.choice, second=None)
    load(capture(Calling(first=1, second=random.choice), Codec()).data, into=fresh, codec=Codec())
    assert vars(fresh) == {"first": 1, "second": random.choice}


def test_the_generator_of_the_process_is_refused() -> None:
    shared: Any = vars(random)["_inst"]
    assert "the whole process shares" in reason([shared])
    assert "the whole process shares" in reason([shared.choice])


# -- memory that is shared ----------------------------------------------------------------------------------------


def shared_memory() -> list[list[Any]]:
    numpy = pytest.importorskip("numpy")
    content, numbers, plain = bytearray(8), array.array("d", [0.0] * 4), numpy.zeros(6)
    records, hidden = numpy.zeros(3, dtype=[("x", "i4")]), numpy.zeros(6)
    between = numpy.frombuffer(memoryview(content), numpy.uint8)
    return [
        [content, numpy.frombuffer(content, numpy.uint8)],
        [content, numpy.asarray(memoryview(content))],
        [memoryview(content), between[1:].reshape(7, 1)],
        [numbers, numpy.frombuffer(numbers)],
        [plain, numpy.lib.stride_tricks.sliding_window_view(plain, 3)],
        [plain, numpy.broadcast_to(plain, (2, 6))],
        [hidden[1:], numpy.lib.stride_tricks.sliding_window_view(hidden, 3)],
        [records, records[0]],
        [records[0], records[1]],
        [[records["x"]], {"k": records[:1]}],
    ]


@pytest.mark.parametrize("value", shared_memory())
def test_numpys_memory_is_never_shared_unseen(value: list[Any]) -> None:
    with pytest.raises(NotCapturable) as caught:
        capture(Holder(value=value), Codec())
    assert all("memory of another" in place[2] for place in caught.value.places)


def test_numpys_memory_that_nothing_else_of_the_state_has_is_copied() -> None:
    numpy = pytest.importorskip("numpy")
    whole, fixed = numpy.arange(10), numpy.frombuffer(b"abcd", numpy.uint8)
    record = numpy.zeros(3, dtype=[("x", "i4")])[1]
    copy = loaded([whole[2:4], fixed, fixed[1:], record, record, memoryview(b"ab")])
    assert [list(one) for one in copy[:3]] == [[2, 3], [97, 98, 99, 100], [98, 99, 100]]
    assert not copy[1].flags.writeable
    copy[3]["x"] = 5
    assert copy[4]["x"] == 5


def test_a_record_of_a_class_of_its_own_is_refused() -> None:
    numpy = pytest.importorskip("numpy")
    (record,) = numpy.rec.array([(1, 2)], dtype=[("x", "i4"), ("y", "i4")])
    assert "can't be described" in reason(record)


# -- weakly held, and handlers -------------------------------------------------------------------------------------


def test_what_calls_back_when_an_object_goes_is_refused() -> None:
    node = Node(1)
    end = weakref.finalize(node, print)
    end.atexit = False
    with pytest.raises(NotCapturable, match=r"self\.end \(weakref:finalize\)"):
        capture(Holder(node=node, end=end), Codec())


def test_a_handler_that_was_given_another_level_is_no_wiring() -> None:
    live, fresh = logging.NullHandler(), logging.NullHandler()
    live.setLevel(logging.ERROR)
    data = capture(Holder(value=live), Codec()).data
    with pytest.raises(NotLoadable, match=r"wiring of class 'logging:NullHandler' \(NullHandler of level 40\)"):
        load(data, into=Holder(value=fresh), codec=Codec())
    fresh.setLevel(logging.ERROR)
    load(data, into=Holder(value=fresh), codec=Codec())


class Label(str):
    note: str


class Group(tuple[int, ...]):
    note: str


@pytest.mark.parametrize("make", [lambda: Label("l"), lambda: Group((1, 2))])
def test_two_equal_values_with_attributes_are_refused_and_one_is_not(make: Any) -> None:
    left, right = make(), make()
    left.note = right.note = "n"
    assert "another one of the state is equal to it" in reason([left, right])
    copy = loaded([left, left, make()])
    assert copy[0] is copy[1]
    assert (copy[0], copy[0].note, vars(copy[2])) == (left, "n", {})


def test_a_bare_object_that_an_older_version_stored_is_not_loaded() -> None:
    stored = json.loads(capture(Holder(value=MISSING), Codec()).data)
    stored["objects"] = [{"$t": "builtins:object"} if one["$t"] == "shown" else one for one in stored["objects"]]
    with pytest.raises(PayloadCorrupt, match=r"self\.value.*a bare object"):
        load(json.dumps(stored).encode(), into=Holder(value=MISSING), codec=Codec())


def test_an_agent_whose_class_has_the_name_of_another_is_captured_and_loaded() -> None:
    """As where the class as it will be stands beside the one that is."""
    later: type[Any] = type("Holder", (Holder,), {"__module__": Holder.__module__, "later": True})
    fresh = later(value=2)
    load(capture(Holder(value=1), Codec()).data, into=fresh, codec=Codec())
    assert vars(fresh) == {"value": 1}
    round_trip(later(value=3), fresh)
    assert vars(fresh) == {"value": 3}
