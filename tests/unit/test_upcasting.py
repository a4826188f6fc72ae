"""Old shapes of stored classes become today's: by default, by upcaster, under another name; or the error says why not."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import pytest
from pydantic import BaseModel, Field

from autogen_eventlog import renamed, upcaster
from autogen_eventlog.codec import Codec, TypeRegistry
from autogen_eventlog.codec.names import type_name
from autogen_eventlog.codec.upcasting import UPCASTING
from autogen_eventlog.errors import NotEncodable, PayloadCorrupt, ShapeChanged, TypeNotAllowed

T = TypeVar("T")


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """What a test registers is gone after it."""
    steps, names = dict(UPCASTING._steps), dict(UPCASTING._renamed)
    yield
    UPCASTING._steps, UPCASTING._renamed = steps, names
    UPCASTING.generation += 1


@dataclass
class Order:
    number: int
    currency: str
    items: list[str] = field(default_factory=list)


@dataclass
class Line:
    order: Order
    note: str = "none"


class Bill(BaseModel):
    total: int
    currency: str = "EUR"
    lines: list[str] = Field(default_factory=list)
    _seen: int = 0


class Box(BaseModel, Generic[T]):
    content: T


class Pair(NamedTuple):
    left: int
    right: int = 7


class Color(Enum):
    CRIMSON = 1


class Name(str):
    nickname: str


class Versioned(BaseModel):
    class_version: ClassVar[int] = 3
    first: str
    last: str

    @staticmethod
    def upcast_v1_v2(state: dict[str, Any]) -> None:
        state["name"] = state.pop("fullname")

    @staticmethod
    def upcast_v2_v3(state: dict[str, Any]) -> None:
        state["first"], state["last"] = state.pop("name").split(" ")


@dataclass
class Fleeting:
    id: str = field(default_factory=lambda: uuid.uuid4().hex)


def reading(stored: object, *classes: Any) -> Any:
    """What stored JSON is, in a process that knows these classes."""
    registry = TypeRegistry()
    registry.register(*(classes or (Order, Line, Bill, Box[Order], Pair, Color, Name, Versioned, Fleeting)))
    return Codec(registry).decode(json.dumps(stored).encode(), where="event 7")


def old(cls: type | str, **fields: object) -> dict[str, object]:
    return {"$t": cls if isinstance(cls, str) else type_name(cls), **fields}


def written(value: object) -> dict[str, Any]:
    return json.loads(Codec().encode(value).data)  # type: ignore[no-any-return]


# -- defaults -----------------------------------------------------------------------------------------------------


def test_a_new_field_with_a_plain_default_gets_it() -> None:
    line = reading(old(Line, order=old(Order, number=1, currency="USD")))
    assert line == Line(Order(1, "USD", []), "none")
    assert list(vars(line.order)) == ["number", "currency", "items"]


def test_a_new_field_in_the_middle_stands_where_a_constructor_puts_it() -> None:
    bill = reading(old(Bill, total=1, lines=["a"]))
    assert bill == Bill(total=1, lines=["a"])
    assert bill.model_fields_set == {"total", "lines"}
    assert list(vars(bill)) == ["total", "currency", "lines"]
    assert reading(old(Bill, total=1, **{"$set": ["total"]})).model_fields_set == {"total"}
    assert reading(old(Bill, total=1)).lines is not reading(old(Bill, total=1)).lines


def test_a_named_tuple_gets_its_defaults() -> None:
    assert reading(old(Pair, left=1)) == Pair(1, 7)


def test_a_default_that_is_made_anew_each_time_is_no_default_for_an_old_object() -> None:
    with pytest.raises(ShapeChanged, match="'id'"):
        reading(old(Fleeting))


def test_a_field_without_a_default_is_an_error_that_names_it() -> None:
    with pytest.raises(ShapeChanged, match=r"event 7: .*field 'currency' of class .*Order.*upcaster"):
        reading(old(Order, number=1))
    with pytest.raises(ShapeChanged, match=r"'color'.*no such field"):
        reading(old(Order, number=1, currency="EUR", color="red"))


def test_private_attributes_get_their_defaults_unless_they_were_deleted() -> None:
    assert reading(old(Bill, total=1))._seen == 0
    assert reading(old(Bill, total=1, **{"$private": {}}))._seen == 0
    bill = Bill(total=1)
    del bill._seen
    with pytest.raises(AttributeError):
        reading(written(bill))._seen  # noqa: B018


# -- upcasters ----------------------------------------------------------------------------------------------------


def test_upcasters_chain_by_version_and_what_is_written_says_its_version() -> None:
    assert "$v" not in written(Order(1, "EUR"))

    @upcaster(Order, version=1)
    def _(fields: dict[str, Any]) -> None:
        fields["currency"] = "DEM"

    @upcaster(Order, version=2)
    def _(fields: dict[str, Any]) -> dict[str, Any]:
        return {"items": ["first"], **fields, "currency": {"DEM": "EUR"}[fields["currency"]]}

    assert written(Order(1, "EUR"))["$v"] == 3
    assert reading(old(Order, number=1)) == Order(1, "EUR", ["first"])
    assert reading({**old(Order, number=1, currency="DEM"), "$v": 2}) == Order(1, "EUR", ["first"])
    assert reading(written(Order(1, "USD", ["a"]))) == Order(1, "USD", ["a"])
    assert written(reading(old(Order, number=1))) == written(Order(1, "EUR", ["first"]))


def test_what_stands_inside_is_of_today_when_the_upcaster_sees_it() -> None:
    @upcaster(Order, version=1)
    def _(fields: dict[str, Any]) -> None:
        fields["currency"] = "EUR"

    @upcaster(Line, version=1)
    def _(fields: dict[str, Any]) -> None:
        fields["note"] = f"paid in {fields['order'].currency}"

    assert reading(old(Line, order=old(Order, number=1))) == Line(Order(1, "EUR"), "paid in EUR")


def test_private_attributes_and_extras_stay_where_they_are() -> None:
    @upcaster(Bill, version=1)
    def _(fields: dict[str, Any]) -> None:
        assert set(fields) == {"sum"}
        fields["total"] = fields.pop("sum")

    bill = reading(old(Bill, sum=4, **{"$private": {"_seen": 9}, "$set": ["total"]}))
    assert (bill.total, bill._seen, bill.model_fields_set) == (4, 9, {"total"})


def test_eventsourcings_way_works_too() -> None:
    assert reading(old(Versioned, fullname="Ada Lovelace")) == Versioned(first="Ada", last="Lovelace")
    assert reading({**old(Versioned, name="Ada Lovelace"), "$v": 2}) == Versioned(first="Ada", last="Lovelace")
    assert written(Versioned(first="a", last="b"))["$v"] == 3


def test_a_version_that_no_upcaster_knows_is_named() -> None:
    UPCASTING.upcaster(Order, version=2)(lambda fields: fields)
    with pytest.raises(ShapeChanged, match="of version 1 is stored; today's is version 3"):
        reading(old(Order, number=1, currency="EUR"))
    with pytest.raises(ShapeChanged, match="of version 9 is stored; this code knows versions up to 3"):
        reading({**old(Order, number=1, currency="EUR"), "$v": 9})
    with pytest.raises(ShapeChanged, match="a later version of class"):
        reading({**old(Bill, total=1), "$v": 2})


@pytest.mark.parametrize("version", [0, -1, "2", True, None, 1.0])
def test_a_version_that_is_none_is_corrupt(version: object) -> None:
    UPCASTING.upcaster(Order, version=1)(lambda fields: fields)
    with pytest.raises(PayloadCorrupt):
        reading({**old(Order, number=1, currency="EUR"), "$v": version})


def test_an_upcaster_that_fails_is_named() -> None:
    @upcaster(Order, version=1)
    def _(fields: dict[str, Any]) -> Any:
        return fields["gone"]

    with pytest.raises(ShapeChanged, match=r"upcaster of .*Order.* for version 1 raised KeyError: 'gone'"):
        reading(old(Order, number=1))

    @upcaster(Bill, version=1)
    def _(fields: dict[str, Any]) -> Any:
        return 5

    with pytest.raises(ShapeChanged, match="gave no fields by name: 5"):
        reading(old(Bill, total=1))


def test_one_version_has_one_upcaster() -> None:
    UPCASTING.upcaster(Order, version=1)(lambda fields: fields)
    with pytest.raises(ValueError, match="already"):
        upcaster(Order, version=1)
    with pytest.raises(ValueError, match="from 1 on"):
        upcaster(Order, version=0)
    with pytest.raises(ValueError, match="module:qualname"):
        upcaster("Order", version=1)


# -- other names --------------------------------------------------------------------------------------------------


def test_a_renamed_class_is_found_under_its_old_names() -> None:
    renamed("shop.old:Order", "shop.new:Order")
    renamed("shop.new:Order", Order)
    assert reading(old("shop.old:Order", number=1, currency="EUR")) == Order(1, "EUR")
    assert reading(old(Line, order=old("shop.new:Order", number=1, currency="EUR"))).order == Order(1, "EUR")
    assert "$v" not in written(Order(1, "EUR"))


def test_a_class_that_was_renamed_and_changed_goes_both_ways() -> None:
    renamed("shop:Auftrag", Order)

    @upcaster("shop:Auftrag", version=1)
    def _(fields: dict[str, Any]) -> dict[str, Any]:
        return {"number": fields["nummer"]}

    @upcaster(Order, version=2)
    def _(fields: dict[str, Any]) -> None:
        fields["currency"] = "EUR"

    assert reading(old("shop:Auftrag", nummer=1)) == Order(1, "EUR")
    assert reading({**old(Order, number=1), "$v": 2}) == Order(1, "EUR")
    assert written(Order(1, "EUR"))["$v"] == 3


def test_arguments_of_a_generic_class_may_be_renamed() -> None:
    renamed("shop.old:Order", Order)
    name = type_name(Box[Order]).replace(type_name(Order), "shop.old:Order")
    box = reading(old(name, content=old(Order, number=1, currency="EUR")))
    assert type(box) is Box[Order] and box.content == Order(1, "EUR")


def test_members_of_an_enum_may_be_renamed() -> None:
    @upcaster(Color, version=1)
    def _(fields: dict[str, Any]) -> dict[str, Any]:
        return {"name": {"RED": "CRIMSON"}[fields["name"]]}

    assert reading(old(Color, name="RED")) is Color.CRIMSON
    assert reading(written(Color.CRIMSON)) is Color.CRIMSON


def test_a_subclass_of_a_builtin_type_may_change() -> None:
    @upcaster(Name, version=1)
    def _(fields: dict[str, Any]) -> dict[str, Any]:
        return {"v": fields["v"].title()}

    assert reading(old(Name, v="ada")) == Name("Ada")
    assert type(reading(written(Name("ada")))) is Name


def test_a_rename_to_what_is_not_allowed_here_names_it() -> None:
    renamed("shop:Gone", "shop:Elsewhere")
    with pytest.raises(TypeNotAllowed, match="shop:Elsewhere"):
        reading(old("shop:Gone", a=1))


def test_renames_don_t_go_in_circles_and_don_t_contradict() -> None:
    renamed("a:A", "b:B")
    with pytest.raises(ValueError, match="itself"):
        renamed("b:B", "a:A")
    with pytest.raises(ValueError, match="already"):
        renamed("a:A", "c:C")
    renamed("a:A", "b:B")


def test_two_classes_of_one_short_name_never_mix() -> None:
    @dataclass
    class Inner:
        a: int

    first = Inner

    @dataclass
    class Inner:  # type: ignore[no-redef]
        b: int

    renamed("x.y:Inner", first)
    registry = TypeRegistry()
    registry.register(first)
    codec = Codec(registry)
    assert codec.decode(b'{"$t":"x.y:Inner","a":1}') == first(1)
    with pytest.raises(TypeNotAllowed):
        codec.decode(b'{"$t":"z:Inner","b":1}')


def test_a_codec_that_has_read_the_class_before_reads_old_ones_once_an_upcaster_is_there() -> None:
    registry = TypeRegistry()
    registry.register(Order)
    codec = Codec(registry)
    stored = json.dumps(old(Order, number=1)).encode()
    with pytest.raises(ShapeChanged):
        codec.decode(stored)
    codec.encode(Order(1, "EUR"))

    @upcaster(Order, version=1)
    def _(fields: dict[str, Any]) -> None:
        fields["currency"] = "EUR"

    assert codec.decode(stored) == Order(1, "EUR")
    assert b'"$v":2' in codec.encode(Order(1, "EUR")).data


class Price(BaseModel, Generic[T]):
    amount: T


def in_cents(fields: dict[str, Any]) -> None:
    fields["amount"] = int(fields["amount"] * 100)


def test_an_upcaster_of_a_generic_model_holds_for_all_that_it_is_parametrised_with() -> None:
    codec = Codec(TypeRegistry())
    codec.registry.register(Price, Price[float])
    stored = codec.encode(Price[float](amount=2.5)).data
    upcaster(Price, version=1)(in_cents)
    assert codec.decode(stored) == Price[float].model_construct(amount=250)
    again = codec.encode(Price[float](amount=250.0)).data
    assert json.loads(again)["$v"] == 2
    assert codec.decode(again) == Price[float](amount=250.0)


class PriceOfTwo(Price[float]):
    pass


def test_an_upcaster_of_a_generic_model_holds_for_subclasses_of_what_it_is_parametrised_with() -> None:
    codec = Codec(TypeRegistry())
    codec.registry.register(PriceOfTwo)
    stored = codec.encode(PriceOfTwo(amount=2.5)).data
    upcaster(Price, version=1)(in_cents)
    assert codec.decode(stored) == PriceOfTwo.model_construct(amount=250)
    again = codec.encode(PriceOfTwo(amount=250.0)).data
    assert json.loads(again)["$v"] == 2
    assert codec.decode(again) == PriceOfTwo(amount=250.0)


@dataclass
class Fee:
    amount: float


@dataclass
class Tax(Fee):
    rate: int = 19


@dataclass
class Toll(Fee):
    road: str = ""


def test_an_upcaster_of_a_base_class_holds_for_subclasses_that_have_none_of_their_own() -> None:
    codec = Codec(TypeRegistry())
    codec.registry.register(Tax, Toll)
    tax, toll = codec.encode(Tax(2.5)).data, codec.encode(Toll(2.5)).data
    upcaster(Fee, version=1)(in_cents)

    @upcaster(Toll, version=1)
    def _(fields: dict[str, Any]) -> None:
        fields["road"] = "A1"

    assert codec.decode(tax) == Tax(250)
    assert codec.decode(toll) == Toll(2.5, "A1")
    assert json.loads(codec.encode(Tax(3)).data)["$v"] == 2
    assert codec.decode(codec.encode(Tax(3)).data) == Tax(3)


def test_an_upcaster_for_an_old_name_holds_for_subclasses_and_for_what_was_stored_under_the_new_one() -> None:
    codec = Codec(TypeRegistry())
    codec.registry.register(Fee, Tax)
    tax, fee = codec.encode(Tax(2.5)).data, codec.encode(Fee(2.5)).data
    renamed("shop:Charge", Fee)
    upcaster("shop:Charge", version=1)(in_cents)
    assert codec.decode(tax) == Tax(250)
    assert codec.decode(fee) == Fee(250)


def test_what_was_set_of_a_model_goes_along_with_what_an_upcaster_makes_of_it() -> None:
    codec = Codec(TypeRegistry())
    codec.registry.register(Bill)
    old = json.loads(codec.encode(Bill(total=5)).data)
    assert old["$set"] == ["total"]
    old["sum"] = old.pop("total")
    old["$set"] = ["sum"]

    @upcaster(Bill, version=1)
    def _(fields: dict[str, Any]) -> None:
        fields["total"] = fields.pop("sum")

    bill = codec.decode(json.dumps(old).encode())
    assert isinstance(bill, Bill)
    assert (bill.model_fields_set, bill.model_dump(exclude_unset=True)) == ({"total"}, {"total": 5})


class Open(BaseModel, extra="allow"):
    a: int
    b: int = 9


def test_what_was_an_extra_field_is_the_field_that_the_class_has_since() -> None:
    stored = {"$t": type_name(Open), "a": 1, "$extra": {"b": 2, "c": 3}, "$set": ["a", "b", "c"]}
    codec = Codec(TypeRegistry())
    codec.registry.register(Open)
    found = codec.decode(json.dumps(stored).encode())
    assert isinstance(found, Open)
    assert (found.b, found.model_extra, found.model_dump()) == (2, {"c": 3}, {"a": 1, "b": 2, "c": 3})


def test_a_class_whose_name_is_that_of_another_s_past_is_not_recorded() -> None:
    codec = Codec(TypeRegistry())
    codec.registry.register(Line, Order)
    renamed(type_name(Order), Line)
    with pytest.raises(NotEncodable, match="give the class another name"):
        codec.encode(Order(1, "EUR"))
    assert codec.decode(codec.encode(Pair(1)).data)  # others are
