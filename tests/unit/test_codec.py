"""The codec's contract: exact or refused, and safe to read."""

from __future__ import annotations

import asyncio
import copy
import enum
import json
import math
import subprocess
import sys
import threading
import types
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal
from zoneinfo import ZoneInfo

import pytest
from autogen_core import AgentId, FunctionCall, Image, TopicId
from autogen_core._serialization import UnknownPayload
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from PIL import Image as Pillow
from pydantic import BaseModel, ConfigDict, HttpUrl, TypeAdapter, create_model

from autogen_eventlog.codec import Codec, Encoded, Opaque, TypeRegistry
from autogen_eventlog.errors import NotEncodable, PayloadCorrupt, TypeNotAllowed
from autogen_eventlog.testing.equality import difference
from tests.unit import codec_messages

m: Any = codec_messages  # the tests do to these classes what no type checker would let pass


def round_trip(value: object, codec: Codec | None = None) -> Any:
    codec = Codec() if codec is None else codec
    encoded = codec.encode(value)
    assert encoded.data.isascii()
    assert b"\0" not in encoded.data
    decoded = codec.decode(encoded.data)
    assert difference(value, decoded) is None
    assert codec.encode(decoded) == encoded
    return decoded


def elsewhere(*registered: type) -> Codec:
    """A codec of another process: it has met nothing."""
    registry = TypeRegistry()
    registry.register(*registered)
    return Codec(registry)


ASIDE = timezone(timedelta(hours=-3, minutes=-30), "ASIDE")

PLAIN: list[Any] = [
    None,
    True,
    0,
    -1,
    2**63,
    10**400,
    10**700,
    -(10**5000),
    0.1,
    -0.0,
    5e-324,
    1.7976931348623157e308,
    math.inf,
    -math.inf,
    math.nan,
    -math.nan,
    "",
    "é 😀 \u2028",
    "nul \0 inside",
    "\ud800",
    "\ud83d\ude00",
    b"",
    b"\0\xff",
    bytearray(b"abc"),
    [],
    [1, [True, 1.0]],
    (),
    (1, (2,)),
    set[int](),
    {1, "a", (2, 3), None},
    {True},
    {1.0},
    frozenset({frozenset({1})}),
    {},
    {"a": 1, "b": {"c": None}},
    {"$t": "tuple", "v": [1]},
    {"$t": "os:system"},
    {"$unset": 1, "$.a": 2},
    {1: "int", "1": "str", 1.5: "float", None: "none", (1, 2): "tuple"},
    {True: "bool"},
    {"\ud800": 1},
    {"ключ": 1},
    OrderedDict([("b", 1), ("a", 2)]),
    Counter("hello"),
    Counter({(1, 2): -3}),
    deque([1, 2]),
    deque([1, 2], maxlen=2),
    deque(maxlen=0),
    defaultdict(None, {1: 2}),
    defaultdict(list, {"a": [1]}),
    defaultdict(int),
    range(3),
    range(10**700, 0, -(10**650)),
    slice(None, (1, 2), "x"),
    complex(-0.0, math.inf),
    Decimal("1.10"),
    Decimal("-0E-7"),
    Decimal("NaN"),
    Decimal("-sNaN123"),
    Decimal("Infinity"),
    Decimal("1E+999999"),
    Fraction(-1, 3),
    Fraction(10**700, 3),
    uuid.UUID(int=7),
    uuid.UUID(int=8, is_safe=uuid.SafeUUID.safe),
    PurePosixPath("/a/b"),
    PureWindowsPath("C:\\a"),
    Path("x") / "y",
    PurePosixPath("bad\udcff"),
    date(1, 1, 1),
    datetime(2024, 2, 29, 1, 2, 3, 4),  # noqa: DTZ001
    datetime(2024, 2, 29, tzinfo=timezone.utc),
    datetime(2024, 2, 29, tzinfo=ASIDE),
    datetime(2024, 2, 29, tzinfo=timezone(timedelta(seconds=1, microseconds=5))),
    datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime(2024, 10, 27, 2, 30, fold=0, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime(2024, 1, 1, fold=1),  # noqa: DTZ001
    datetime.max,  # noqa: DTZ901
    time(1, 2, 3, 4),
    time(1, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
    time(1, tzinfo=timezone.utc),
    timedelta(days=-1, microseconds=1),
    timedelta.max,
    timezone.utc,
    ASIDE,
    ZoneInfo("UTC"),
    TypeAdapter(datetime).validate_json('"2024-01-01T00:00:00+05:30"'),
]


@pytest.mark.parametrize("value", PLAIN, ids=[type(value).__name__ for value in PLAIN])
def test_plain_values_come_back_the_same(value: object) -> None:
    round_trip(value)
    round_trip([value, {"k": value}, (value,)])


OWN: list[Any] = [
    m.Color.RED,
    m.Color.CRIMSON,
    m.Color.BLUE,
    m.Level.HIGH,
    m.Tone.CALM,
    m.Permission.READ,
    m.Permission(0),
    m.Permission.ALL,
    m.Permission.READ | m.Permission.RUN,
    m.Bits.ONE | m.Bits.TWO,
    m.Bits(8 | 1),
    ~m.Bits.ONE,
    m.Item("a", 1.5),
    m.SpecialItem("a", discount=3),
    m.Order(1, [m.Item("a"), m.SpecialItem("b")], {"x": m.Item("c")}, (m.Item("d"), 1), m.Color.BLUE),
    m.Point(1, 2),
    {m.Point(1, 2): m.Point(3, 4)},
    m.Slotted(1, [2]),
    m.SlottedChild(),
    m.Keywords(a=1, seed=2),
    m.Tree("r", [m.Tree("l"), m.Tree("m", [m.Tree("n")])]),
    m.Pair(1, ["x"]),
    m.MyStr("ключ\ud800"),
    m.MyInt(10**700),
    m.MyFloat("-inf"),
    m.MyBytes(b"x"),
    m.MyList([1, m.MyList()]),
    m.MyDict({"a": 1, 2: m.MyDict()}),
    m.MyTuple((1, [2])),
    m.MySet({1, "a"}),
    m.MyCounter("hello"),
    m.MyDeque([1], 5),
    m.Base(a=1),
    m.Holder(item=m.Sub(a=1, b=2), others=[m.Sub(a=3), m.Base(a=4)]),
    m.Aliased(PUBLIC=3, more=[m.Item("extra")], **{"$t": "x"}),
    m.Frozen(a=1),
    m.GenericBox[int](content=1),
    m.GenericBox[m.Base](content=m.Sub(a=1, b=2)),
    m.GenericBox(content="free"),
    m.Names(["a", "b"]),
    m.Login(user="u", password="open sesame"),
    AgentId("planner", "7/8"),
    TopicId("t", "s"),
    UnknownPayload("x", "y", b"\0"),
    FunctionCall(id="1", arguments="{}", name="f"),
    TypeAdapter(HttpUrl).validate_python("https://example.org/a?b=c"),
]


@pytest.mark.parametrize("value", OWN, ids=[type(value).__name__ for value in OWN])
def test_values_of_own_classes_come_back_the_same(value: object) -> None:
    round_trip(value)
    round_trip({"deep": [value]})


def test_the_type_name_is_module_and_qualname() -> None:
    codec = Codec()
    assert codec.encode("x").type_name == "builtins:str"
    assert codec.encode(None).type_name == "builtins:NoneType"
    assert codec.encode([]).type_name == "builtins:list"
    assert codec.encode(m.Item("a")).type_name == "tests.unit.codec_messages:Item"
    assert codec.encode(m.GenericBox[m.Base](content=m.Base(a=1))).type_name == (
        "tests.unit.codec_messages:GenericBox[tests.unit.codec_messages:Base]"
    )
    assert codec.encode(m.GenericBox[list[int]](content=[])).type_name.endswith(":GenericBox[list[int]]")


def test_a_dataclass_is_stored_as_an_object_of_its_fields() -> None:
    encoded = Codec().encode(m.Item("a", 1.5))
    assert encoded == Encoded(
        "tests.unit.codec_messages:Item", b'{"$t":"tests.unit.codec_messages:Item","name":"a","price":1.5}'
    )


def test_equal_sets_give_equal_bytes_whatever_their_order() -> None:
    one, other = {0, 8}, {8, 0}
    assert list(one) != list(other)
    assert Codec().encode(one) == Codec().encode(other)
    assert Codec().encode({"b", "a", "ä"}).data == b'{"$t":"set","v":["a","b","\\u00e4"]}'


def test_two_nans_in_a_set_stay_two() -> None:
    codec = Codec()
    decoded: Any = codec.decode(codec.encode({float("nan"), float("nan")}).data)
    assert len(decoded) == 2


def test_an_ordered_dict_keeps_its_own_order() -> None:
    value = m.MyOrdered([("a", 1), ("b", 2)])
    value.move_to_end("a")
    assert list(round_trip(value)) == ["b", "a"]
    plain = OrderedDict([("a", 1), ("b", 2)])
    plain.move_to_end("a")
    assert list(round_trip(plain)) == ["b", "a"]


def test_attributes_set_outside_the_fields_are_kept_in_order() -> None:
    item: Any = m.Item("a")
    item.note = [1]
    setattr(item, "not an identifier", 2)
    assert [*vars(round_trip(item))] == ["name", "price", "note", "not an identifier"]
    cached = m.Cached(2)
    assert cached.double == 4
    assert vars(round_trip(cached)) == {"a": 2, "double": 4}


def test_attributes_of_subclasses_of_built_in_types_are_kept() -> None:
    text = m.MyStr("x")
    text.note = "slot"
    assert round_trip(text).note == "slot"
    items = m.MyList([1])
    items.note = items_note = [2]
    assert round_trip(items).note == items_note


def test_a_deleted_field_stays_deleted() -> None:
    item = m.Item("a", 2.0)
    del item.price
    assert vars(round_trip(item)) == {"name": "a"}
    slotted = m.SlottedChild()
    del slotted.c
    with pytest.raises(AttributeError):
        _ = round_trip(slotted).c


def test_decoding_runs_no_code_of_the_class() -> None:
    codec = Codec()
    data = codec.encode(m.Trap(1)).data
    m.CALLS.clear()
    assert vars(codec.decode(data)) == {"a": 1}
    assert m.CALLS == []


def test_a_generic_dataclass_loses_only_typings_remark_on_how_it_was_built() -> None:
    codec = Codec()
    decoded: Any = codec.decode(codec.encode(m.Box[int](1)).data)
    assert type(decoded) is m.Box
    assert vars(decoded) == {"content": 1}


def test_a_model_keeps_private_attributes_extras_and_the_fields_that_were_given() -> None:
    value = m.Aliased(PUBLIC=1, extra={"x": (1, 2)})
    value._count = 5
    decoded = round_trip(value)
    assert decoded._count == 5
    assert decoded.model_fields_set == {"public", "extra"}
    assert decoded.__pydantic_extra__ == {"extra": {"x": (1, 2)}}
    assert not hasattr(decoded, "_unset")


def test_a_model_built_without_validation_stays_as_it_is() -> None:
    value = m.Base.model_construct(a="not a number")
    assert round_trip(value).a == "not a number"
    assert vars(round_trip(m.Base.model_construct())) == {}


def test_a_secret_is_stored_in_clear() -> None:
    login = m.Login(user="u", password="open sesame")
    assert b"open sesame" in Codec().encode(login).data


def test_protobuf_messages_come_back_with_their_class() -> None:
    struct = Struct()
    struct.update({"b": 1, "a": [True, None]})
    for message in (Timestamp(seconds=5, nanos=7), struct):
        decoded = round_trip(message)
        assert type(decoded) is type(message)
        assert decoded == message
    assert elsewhere(Timestamp).decode(Codec().encode(Timestamp(seconds=5)).data) == Timestamp(seconds=5)


@dataclass
class WithPicture:
    picture: Image


def test_an_image_keeps_its_pixels_and_what_it_saves() -> None:
    pixels = Pillow.frombytes("RGB", (3, 2), bytes(range(18)))
    pixels.info["icc_profile"] = b"profile"
    pixels.info["strange"] = object()
    image = Image(pixels)
    decoded: Any = elsewhere(WithPicture).decode(Codec().encode(WithPicture(image)).data)
    assert type(decoded.picture) is Image
    assert type(decoded.picture.image) is Pillow.Image
    assert decoded.picture.image.tobytes() == bytes(range(18))
    assert decoded.picture.to_base64() == image.to_base64()
    assert pixels.info["icc_profile"] == b"profile"


def test_an_image_whose_picture_was_replaced_is_refused() -> None:
    image = Image(Pillow.new("RGB", (1, 1)))
    image.image = Pillow.new("L", (1, 1))
    with pytest.raises(NotEncodable, match="plain RGB"):
        Codec().encode(image)


def test_an_object_held_twice_comes_back_as_one() -> None:
    item = m.Item("a")
    shared: list[Any] = [1]
    value = {"a": item, "b": [item, shared], "c": (shared, deque([shared]))}
    decoded = round_trip(value)
    assert decoded["a"] is decoded["b"][0]
    decoded["b"][1].append(2)
    assert decoded["c"] == ([1, 2], deque([[1, 2]]))


def test_temporaries_made_while_encoding_are_never_taken_for_one_object() -> None:
    registry = TypeRegistry()
    registry.register_custom(m.Shapeless, lambda value: [[value.a]], lambda data: m.Shapeless(data[0][0]))
    values = [m.Aliased(PUBLIC=1), *(m.Holder.model_construct(item=i) for i in range(50)), *map(m.Shapeless, range(50))]
    assert b'"ref"' not in Codec(registry).encode(values).data


def test_equal_objects_stay_separate() -> None:
    values: list[Any] = [m.Item("a"), m.Item("a"), [], []]
    decoded = round_trip(values)
    assert decoded[0] is not decoded[1]
    assert decoded[2] is not decoded[3]


def test_identity_of_a_class_that_compares_by_identity_is_kept_in_a_set() -> None:
    token = m.Token("a")
    decoded = round_trip({"all": {token, m.Token("b")}, "first": token})
    assert decoded["first"] in decoded["all"]


def test_values_are_not_references_even_where_they_are_one_object() -> None:
    point, moment = m.Point(1, 2), datetime(2024, 1, 1)  # noqa: DTZ001
    assert b'"ref"' not in Codec().encode([point, point, moment, moment, (1,), m.Color.RED, m.Color.RED]).data


def test_a_cycle_is_refused_where_it_closes() -> None:
    root = m.Tree("root")
    root.children.append(m.Tree("leaf", parent=root))
    with pytest.raises(NotEncodable, match="contains itself") as caught:
        Codec().encode(root)
    assert caught.value.path == "message.children[0].parent"
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(NotEncodable, match="contains itself"):
        Codec().encode({"x": loop})
    token = m.Token("t")
    token.label = {token}
    with pytest.raises(NotEncodable, match="contains itself"):
        Codec().encode(token)


WRAPPINGS: list[Callable[[Any], Any]] = [
    lambda value: [value],
    lambda value: (value,),
    lambda value: m.Box(value),
    lambda value: {"a": value},
    lambda value: {1: value},
]


@pytest.mark.parametrize("depth", [250, 5_000])
def test_too_deep_nesting_is_refused(depth: int) -> None:
    for wrap in WRAPPINGS:
        value: Any = 1
        for _ in range(depth):
            value = wrap(value)
        with pytest.raises(NotEncodable, match="nested deeper"):
            Codec().encode(value)


def test_nesting_within_the_bound_is_read_back_even_where_every_level_is_shared() -> None:
    value: Any = [1]
    for _ in range(95):
        value = [value, value]
    codec = Codec()
    assert codec.encode(codec.decode(codec.encode(value).data)).data == codec.encode(value).data


@pytest.mark.parametrize(
    "data", [b"[" * 300 + b"]" * 300, b"[" * 100_000, b'{"a":' * 100_000, b'{"$t":"def","id":0,"v":' * 900]
)
def test_too_deep_stored_data_is_corrupt(data: bytes) -> None:
    if data.startswith(b"[[") and data.endswith(b"]]"):
        assert Codec().decode(data)
        return
    with pytest.raises(PayloadCorrupt):
        Codec().decode(data)


class FakeZone(tzinfo):
    def utcoffset(self, dt: datetime | None) -> timedelta:
        return timedelta(0)


class FakeDate(datetime):
    pass


class Finaliser:
    def __del__(self) -> None:
        raise AssertionError("never built")


@dataclass
class OwnsSomething(Finaliser):
    a: int = 1

    def __del__(self) -> None: ...


def _refused() -> list[tuple[object, str]]:
    return [
        (lambda: 1, "code"),
        (len, "code"),
        (int, "code"),
        (list[int], "code"),
        (m.Color, "code"),
        (threading.Lock(), "registry.register_custom"),
        (object(), "registry.register_custom"),
        (m.Shapeless(1), "registry.register_custom"),
        (ValueError("x"), "exception"),
        (NotEncodable("a", "b", "c"), "exception"),
        (sys.stderr, "registry.register_custom"),
        (iter([]), "registry.register_custom"),
        (memoryview(b""), "registry.register_custom"),
        (FakeDate(2024, 1, 1), "registry.register_custom"),
        (datetime(2024, 1, 1, tzinfo=FakeZone()), "time zone"),
        (defaultdict(lambda: 1), "factory"),
        (types.SimpleNamespace(a=1), "registry.register_custom"),
        (OwnsSomething(), "finaliser"),
    ]


@pytest.mark.parametrize(("value", "reason"), _refused(), ids=lambda part: type(part).__name__)
def test_what_is_not_data_is_refused_with_its_place_and_reason(value: object, reason: str) -> None:
    with pytest.raises(NotEncodable) as caught:
        Codec().encode(m.Order(1, [m.Item("a"), m.Item("b", value)]), where="message")
    assert caught.value.path == "message.items[1].price"
    assert reason in caught.value.reason
    assert "The message was not delivered" in str(caught.value)
    with pytest.raises(NotEncodable) as caught:
        Codec().encode(value, where="reply")
    assert caught.value.path == "reply"


async def test_a_future_is_refused() -> None:
    with pytest.raises(NotEncodable) as caught:
        Codec().encode({"f": [asyncio.get_running_loop().create_future()]})
    assert caught.value.path == "message['f'][0]"


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ([0, (1, object())], "message[1][1]"),
        ({"a": object()}, "message['a']"),
        ({(1, 2): object()}, "message[(1, 2)]"),
        ({1: {2: [object()]}}, "message[1][2][0]"),
        (m.Pair(1, [object()]), "message.right[0]"),
        (m.Slotted(1, object()), "message.b"),
        (m.GenericBox(content=object()), "message.content"),
        (m.MyList([object()]), "message[0]"),
        (deque([object()]), "message[0]"),
        (m.Aliased.model_construct(public=1, other=object()), "message.other"),
    ],
)
def test_a_refusal_says_where(value: object, path: str) -> None:
    with pytest.raises(NotEncodable) as caught:
        Codec().encode(value)
    assert caught.value.path == path
    assert caught.value.type_name == "builtins:object"


def test_a_private_attribute_that_is_not_data_is_named() -> None:
    value = m.Aliased(PUBLIC=1)
    value._count = [threading.Lock()]
    with pytest.raises(NotEncodable) as caught:
        Codec().encode(value)
    assert caught.value.path == "message._count[0]"


def test_encoding_changes_nothing_and_shares_nothing() -> None:
    for value in OWN:
        before = copy.deepcopy(value)
        Codec().encode(value)
        assert difference(before, value) is None
    order = m.Order(1, [m.Item("a")])
    decoded = round_trip(order)
    decoded.items[0].name = "changed"
    decoded.items.append(1)
    assert order == m.Order(1, [m.Item("a")])


def test_an_error_raised_by_a_class_while_it_is_read_is_a_refusal() -> None:
    class Sly(m.Shapeless):
        pass

    def burn(value: object) -> object:
        raise ValueError("burnt")

    registry = TypeRegistry()
    registry.register_custom(Sly, burn, lambda data: Sly(1))
    with pytest.raises(NotEncodable, match="burnt"):
        Codec(registry).encode([Sly(1)])


# -- names and the allow-list -------------------------------------------------------------------------------------


def test_an_unregistered_type_is_named_and_nothing_is_imported() -> None:
    data = Codec().encode(m.Order(1, [m.Item("a")])).data
    with pytest.raises(TypeNotAllowed) as caught:
        elsewhere().decode(data, where="event 7")
    assert (caught.value.type_name, caught.value.path) == ("tests.unit.codec_messages:Item", "event 7.items[0]")


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "builtins:eval",
        "builtins:object",
        "builtins:type",
        "subprocess:Popen",
        "antigravity:x",
        "this:s",
        ":",
        "a:b:c",
        "threading:Thread",
        "builtins:list",
        "tests.unit.codec_messages:Shapeless",
        "pydantic.networks:os",
        "autogen_core._image:PILImage",
        "collections:abc",
        "pydantic.main:BaseModel",
        "tests.unit.codec_messages:GenericBox[os:system]",
    ],
)
def test_code_named_in_stored_data_is_refused_without_import(name: str) -> None:
    codec = elsewhere(m.Order, m.GenericBox)
    before = set(sys.modules)
    for node in ({}, {"v": ["id"]}, {"name": "x"}, {"a": 1}):
        for data in ({"$t": name, **node}, {"k": [{"$t": name, **node}]}):
            with pytest.raises(TypeNotAllowed):
                codec.decode(json.dumps(data).encode())
    assert set(sys.modules) == before


def test_registering_a_class_allows_what_its_annotations_name() -> None:
    registry = TypeRegistry()
    registry.register(m.Order)
    assert registry.names() == [
        "tests.unit.codec_messages:Color",
        "tests.unit.codec_messages:Item",
        "tests.unit.codec_messages:Order",
    ]
    value = m.Order(1, [m.SpecialItem("a")], color=m.Color.BLUE)
    assert difference(Codec(registry).decode(Codec().encode(value).data), value) is None


def test_annotations_are_followed_through_every_kind_of_type() -> None:
    from typing import Annotated, Optional, Union

    Wrapped = make_dataclass(
        "Wrapped",
        [
            ("a", Optional[m.Item]),  # noqa: UP045
            ("b", Union[m.Point, int]),  # noqa: UP007
            ("c", "dict[str, list[m.Pair]]"),
            ("d", Annotated[m.Slotted, "note"]),
            ("e", Literal[m.Level.LOW]),
            ("f", "m.Box[m.Token]"),
            ("g", "NotResolvable"),
            ("h", type[m.Base]),
        ],
    )
    Wrapped.__module__ = __name__
    registry = TypeRegistry()
    registry.register(Wrapped)
    short = {name.rpartition(":")[2] for name in registry.names()}
    assert short >= {"Item", "Point", "Pair", "Slotted", "Level", "Box", "Token", "Base", "Wrapped"}
    assert "T" not in short


def test_a_loaded_subclass_of_a_registered_class_is_allowed() -> None:
    value = m.Holder(item=m.Sub(a=1, b=2))
    assert difference(elsewhere(m.Holder).decode(Codec().encode(value).data), value) is None
    assert TypeRegistry().resolve("tests.unit.codec_messages:Sub") is None


def test_a_base_of_everything_allows_nothing() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        item: BaseModel
        any: object
        error: Exception | None = None

    registry = TypeRegistry()
    registry.register(Open)
    assert registry.names() == [f"{__name__}:{Open.__qualname__}"]
    assert registry.resolve("tests.unit.codec_messages:Base") is None


def test_what_is_no_data_cannot_be_registered() -> None:
    with pytest.raises(TypeError):
        TypeRegistry().register(len)
    with pytest.raises(TypeError):
        TypeRegistry().register(ValueError)


def test_built_in_types_need_no_registering_and_may_be_given() -> None:
    registry = TypeRegistry()
    registry.register(str, list[datetime], type(None))
    assert registry.names() == []


def test_a_module_s_message_classes_are_allowed_and_nothing_else() -> None:
    registry = TypeRegistry()
    registry.register_module(m)
    names = {name.rpartition(":")[2] for name in registry.names()}
    assert {"Order", "Color", "Pair", "Base", "MyStr", "Names"} <= names
    assert not {"Shapeless", "datetime", "BaseModel", "Enum", "Any", "cached_property"} & names
    for value in OWN:
        assert difference(Codec(registry).decode(Codec().encode(value).data), value) is None


def test_classes_of_one_short_name_never_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = [types.ModuleType(name) for name in ("shop_a", "shop_b")]
    for module in modules:
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec("from dataclasses import dataclass\n@dataclass\nclass Order:\n    x: int\n", module.__dict__)
    orders = [module.Order for module in modules]
    codec = elsewhere(*orders)
    for order in orders:
        assert type(codec.decode(Codec().encode(order(1)).data)) is order
    boxes = [m.GenericBox[order] for order in orders]
    assert boxes[0].__name__ == boxes[1].__name__
    for box, order in zip(boxes, orders, strict=True):
        assert round_trip(box(content=order(1)), Codec()).__class__ is box


def test_a_generic_model_is_found_by_its_origin_and_arguments() -> None:
    Fresh = create_model("Fresh", __module__=__name__, a=(int, ...))
    name = f"tests.unit.codec_messages:GenericBox[{__name__}:Fresh]"
    registry = TypeRegistry()
    registry.register(m.GenericBox)
    assert registry.resolve(name) is None
    registry.register(Fresh)
    assert registry.resolve(name) is m.GenericBox[Fresh]
    assert registry.resolve("tests.unit.codec_messages:GenericBox[builtins:str]") is m.GenericBox[str]
    nested = "tests.unit.codec_messages:GenericBox[tests.unit.codec_messages:GenericBox[builtins:int]]"
    assert registry.resolve(nested) is m.GenericBox[m.GenericBox[int]]
    assert registry.resolve("tests.unit.codec_messages:GenericBox[builtins:int, builtins:int]") is None
    assert registry.resolve("tests.unit.codec_messages:GenericBox[os:system]") is None
    assert registry.resolve("tests.unit.codec_messages:GenericBox[") is None


def test_a_local_class_is_decoded_by_the_process_that_encoded_it() -> None:
    @dataclass
    class Local:
        a: int

    codec = Codec()
    encoded = codec.encode(Local(1))
    assert "<locals>" in encoded.type_name
    assert codec.decode(encoded.data) == Local(1)
    with pytest.raises(TypeNotAllowed):
        Codec().decode(encoded.data)
    assert elsewhere(Local).decode(encoded.data) == Local(1)


def test_a_codec_that_does_not_learn_needs_the_class_registered() -> None:
    codec = Codec(learn=False)
    data = codec.encode(m.Point(1, 2)).data
    with pytest.raises(TypeNotAllowed):
        codec.decode(data)
    codec.registry.register(m.Point)
    assert codec.decode(data) == m.Point(1, 2)


def test_of_two_classes_of_one_name_the_latest_registered_wins() -> None:
    old = make_dataclass("Twin", [("a", int)])
    new = make_dataclass("Twin", [("a", int)])
    old.__module__ = new.__module__ = "somewhere"
    codec = elsewhere(old)
    data = codec.encode(old(1)).data
    assert type(codec.decode(data)) is old
    codec.registry.register(new)
    assert type(codec.decode(data)) is new
    assert type(codec.decode(codec.encode(old(2)).data)) is new
    learner = Codec()
    for cls in (old, new):
        assert type(learner.decode(learner.encode(cls(1)).data)) is cls


def test_a_custom_class_goes_through_its_two_functions() -> None:
    registry = TypeRegistry()
    registry.register_custom(m.Shapeless, lambda value: {"a": (value.a,)}, lambda data: m.Shapeless(data["a"][0]))
    codec = Codec(registry)
    shapeless = m.Shapeless(5)
    decoded: Any = codec.decode(codec.encode([shapeless, shapeless]).data)
    assert decoded[0].a == 5
    assert decoded[0] is decoded[1]
    registry.register_custom(m.Shapeless, lambda value: 1, lambda data: "wrong")
    with pytest.raises(PayloadCorrupt, match="from_data"):
        codec.decode(codec.encode(shapeless).data)
    registry.register_custom(m.Shapeless, lambda value: 1, lambda data: 1 // 0)
    with pytest.raises(PayloadCorrupt, match="ZeroDivisionError"):
        codec.decode(codec.encode(shapeless).data)


def test_what_a_custom_class_cannot_store_is_placed() -> None:
    registry = TypeRegistry()
    registry.register_custom(m.Shapeless, lambda value: [0, value.a], m.Shapeless)
    with pytest.raises(NotEncodable) as caught:
        Codec(registry).encode([m.Shapeless(object())])
    assert caught.value.path == "message[0][1]"


# -- opaque values ------------------------------------------------------------------------------------------------


def test_an_unknown_type_can_be_read_as_opaque() -> None:
    order = m.Order(1, [m.Item("a")], by_name={"x": m.Item("b")})
    data = Codec().encode(order).data
    opaque: Any = elsewhere().decode(data, opaque=True)
    assert type(opaque) is Opaque
    assert opaque.type_name == "tests.unit.codec_messages:Order"
    assert opaque.data == data
    plain: Any = opaque.json()
    assert plain["items"][0]["name"] == "a"


def test_an_opaque_value_stands_in_its_place_and_encodes_to_what_it_was() -> None:
    codec = Codec()
    data = codec.encode({"known": (1, 2), "unknown": [m.Item("é")]}).data
    decoded: Any = elsewhere().decode(data, opaque=True)
    assert decoded["known"] == (1, 2)
    assert decoded["unknown"][0].type_name == "tests.unit.codec_messages:Item"
    assert elsewhere().encode(decoded).data == data
    assert codec.encode(decoded["unknown"][0]).type_name == "tests.unit.codec_messages:Item"


def test_an_opaque_value_that_shares_objects_is_read_but_not_stored_again() -> None:
    shared = [1]
    data = Codec().encode([m.Box(shared), shared]).data
    decoded: Any = elsewhere().decode(data, opaque=True)
    assert isinstance(decoded[0], Opaque)
    assert decoded[1] == [1]
    with pytest.raises(NotEncodable, match="opaque"):
        elsewhere().encode(decoded)


# -- corruption and change ----------------------------------------------------------------------------------------

NAME = "tests.unit.codec_messages:"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"nul",
        b"\xff",
        b'"\0"',
        b"[1,]",
        b"NaN",
        b"[Infinity]",
        b'{"$t":null}',
        b'{"$t":[]}',
        b'{"$t":"nonsense"}',
        b'{"$t":"tuple"}',
        b'{"$t":"tuple","v":1}',
        b'{"$t":"tuple","v":[],"w":1}',
        b'{"$t":"set","v":[1,1]}',
        b'{"$t":"set","v":[[]]}',
        b'{"$t":"dict","v":[[1]]}',
        b'{"$t":"dict","v":["ab"]}',
        b'{"$t":"dict","v":[[1,2],[true,3]]}',
        b'{"$t":"bytes","v":"?"}',
        b'{"$t":"bytes","v":"a"}',
        b'{"$t":"float","v":"1.5"}',
        b'{"$t":"int","v":"x"}',
        b'{"$t":"datetime","v":"yesterday"}',
        b'{"$t":"datetime","v":"2024-01-01T00:00:00","tz":"utc"}',
        b'{"$t":"zone","v":"No/Where"}',
        b'{"$t":"zone","v":"../../etc/passwd"}',
        b'{"$t":"timedelta","v":[1]}',
        b'{"$t":"decimal","v":"one"}',
        b'{"$t":"uuid","v":"7"}',
        b'{"$t":"fraction","v":[1,0]}',
        b'{"$t":"range","v":[1,2,0]}',
        b'{"$t":"path","v":"a","kind":"Path"}',
        b'{"$t":"deque","v":[1,2],"maxlen":1}',
        b'{"$t":"defaultdict","v":[],"factory":"eval"}',
        b'{"$t":"ref","id":0}',
        b'{"$t":"def","id":0}',
        b'{"$t":"def","id":"0","v":1}',
        b'[{"$t":"def","id":0,"v":1},{"$t":"def","id":0,"v":1}]',
        b'{"$t":"str","v":"4pyT"} ',
        b'{"$t":"str","v":"/w=="}',
    ],
)
def test_what_the_codec_does_not_write_is_corrupt(data: bytes) -> None:
    if data.endswith(b" "):
        assert elsewhere().decode(data) == "✓"
        return
    with pytest.raises(PayloadCorrupt) as caught:
        elsewhere().decode(data, where="event 7")
    assert caught.value.where.startswith("event 7")
    assert "altered or truncated" in str(caught.value) or "tzdata" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "node", "problem"),
    [
        ("Item", {"price": 1.0}, "field 'name' of class"),
        ("Item", {"name": "a", "price": 1.0, "colour": 2}, "has no such field"),
        ("Base", {}, "field 'a' of class"),
        ("Base", {"a": 1, "b": 2}, "has no such field"),
        ("Slotted", {"a": 1, "b": [], "$.c": 3}, "no room for attribute"),
        ("Color", {"name": "GREEN"}, "no member 'GREEN'"),
    ],
)
def test_a_class_that_changed_since_is_told_by_field(name: str, node: dict[str, object], problem: str) -> None:
    codec = elsewhere(m.Order, m.Base, m.Slotted)
    with pytest.raises(PayloadCorrupt) as caught:
        codec.decode(json.dumps([{"$t": NAME + name, **node}]).encode(), where="event 7")
    assert problem in caught.value.problem
    assert name in caught.value.problem
    assert caught.value.where == "event 7[0]"
    assert "altered" not in str(caught.value)
    assert "upcaster" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("Pair", {"left": 1}),
        ("Pair", {"left": 1, "right": [], "middle": 2}),
        ("Color", {"value": "r"}),
        ("Color", {"names": ["RED"], "bits": 0}),
        ("Permission", {"names": ["READ"], "bits": "1"}),
        ("Permission", {"names": ["READ"], "bits": 1024}),
        ("MyStr", {"v": 1}),
        ("MyDict", {"v": [1]}),
        ("MyDeque", {"v": [1], "maxlen": "x"}),
        ("Base", {"a": 1, "$set": "a"}),
        ("Base", {"a": 1, "$private": []}),
        ("Base", {"a": 1, "$extra": {"$t": "dict", "v": [[1, 2]]}}),
        ("Item", {"name": "a", "$unset": "price"}),
    ],
)
def test_a_wrong_shape_is_corrupt(name: str, node: dict[str, object]) -> None:
    registry = TypeRegistry()
    registry.register_module(m)
    with pytest.raises(PayloadCorrupt):
        Codec(registry).decode(json.dumps({"$t": NAME + name, **node}).encode())


def test_a_member_of_an_enum_made_at_run_time_is_kept_by_name() -> None:
    Made = enum.Enum("Made", "A B", module=__name__)
    assert round_trip(Made.B) is Made.B


BARE_IMPORT = """
import importlib.util, sys, types
package = types.ModuleType("autogen_eventlog")  # without its __init__, which imports all of it
package.__path__ = importlib.util.find_spec("autogen_eventlog").submodule_search_locations
sys.modules["autogen_eventlog"] = package
import autogen_eventlog.codec
print(*{name.partition(".")[0] for name in sys.modules})
"""


def test_importing_the_codec_imports_no_autogen_no_protobuf_and_no_pillow() -> None:
    found = subprocess.run([sys.executable, "-c", BARE_IMPORT], capture_output=True, text=True, check=True).stdout
    assert "pydantic" in found.split()
    assert not {"autogen_core", "psycopg", "google", "PIL", "grpc"} & set(found.split())
