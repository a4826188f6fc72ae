"""A state that was captured under other code: what its classes have today, and what may have another name now."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

import pytest

from autogen_eventlog import upcaster
from autogen_eventlog.codec import Codec
from autogen_eventlog.codec.upcasting import UPCASTING
from autogen_eventlog.errors import ShapeChanged
from autogen_eventlog.state import capture, load

NAME = "shapes_of_then_and_now"
TOP = """
from __future__ import annotations
import functools
from dataclasses import dataclass, field
from typing import ClassVar
from pydantic import BaseModel

class Holder:
    def __init__(self):
        self.things = []

    def uses(self):
        return Thing
"""


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    steps = dict(UPCASTING._steps)
    yield
    UPCASTING._steps = steps
    UPCASTING.generation += 1
    sys.modules.pop(NAME, None)


def module(source: str) -> Any:
    """The module as its source is now."""
    found = ModuleType(NAME)
    sys.modules[NAME] = found
    exec(TOP + textwrap.dedent(source), vars(found))
    return found


def reloaded(then: str, now: str, make: str, before: Callable[[], object] = lambda: None) -> Any:
    """What a handler made under the code of then, loaded under today's (and what that does as it is imported)."""
    old = module(then)
    live = old.Holder()
    live.things.append(eval(make, vars(old)))
    data = capture(live, Codec()).data
    fresh = module(now).Holder()
    before()
    load(data, into=fresh, codec=Codec(), other_code=True)
    return fresh.things[0]


DATACLASS = """
    @dataclass
    class Thing:
        name: str
        qty: int = 0
"""
FROZEN = DATACLASS.replace("@dataclass", "@dataclass(frozen=True)")
SLOTTED = DATACLASS.replace("@dataclass", "@dataclass(slots=True)")
MODEL = """
    class Thing(BaseModel):
        name: str = ""
        qty: int = 0
"""
PLAIN = """
    class Thing:
        qty = 0

        def __init__(self, name, qty):
            self.name, self.qty = name, qty
"""
BY_HELPER = """
    class Base:
        def __init__(self, name):
            self.name = name

    class Thing(Base):
        def __init__(self, name, qty):
            super().__init__(name)
            self._begin(qty)

        def _begin(self, qty):
            object.__setattr__(self, "unused", 1)
            self.qty = qty
"""
BARE = """
    class Thing:
        qty = 0
"""
SLOTS = """
    class Thing:
        __slots__ = ("name", "qty")

        def __init__(self, name, qty):
            self.name, self.qty = name, qty
"""
MADE = "Thing('a', 5)"
MADE_MODEL = "Thing(name='a', qty=5)"
MADE_BARE = "(lambda one: (vars(one).update(qty=5), one)[1])(Thing())"
ALIAS = "\n        @property\n        def qty(self):\n            return self.count\n"


@pytest.mark.parametrize(
    ("then", "make"),
    [
        *((source, MADE) for source in (DATACLASS, FROZEN, SLOTTED, PLAIN, BY_HELPER, SLOTS)),
        (MODEL, MADE_MODEL),
        (BARE, MADE_BARE),
    ],
)
@pytest.mark.parametrize("more", ["", ALIAS])
def test_a_renamed_attribute_of_what_a_handler_made_is_not_taken_for_a_new_one(then: str, make: str, more: str) -> None:
    with pytest.raises(ShapeChanged, match=r"qty of class '\w+:Thing' is stored.* count is not.*upcaster"):
        reloaded(then, then.replace("qty", "count") + more, make)


def called_otherwise(fields: dict[str, Any]) -> None:
    fields["count"] = fields.pop("qty")


@pytest.mark.parametrize(
    ("then", "make"),
    [*((source, MADE) for source in (DATACLASS, FROZEN, SLOTTED, PLAIN, BY_HELPER, SLOTS)), (MODEL, MADE_MODEL)],
)
def test_an_upcaster_says_what_became_of_it(then: str, make: str) -> None:
    register = partial(upcaster(f"{NAME}:Thing", version=1), called_otherwise)
    assert reloaded(then, then.replace("qty", "count"), make, register).count == 5


@pytest.mark.parametrize(
    ("then", "now", "make"),
    [
        (DATACLASS, DATACLASS + "        more: int = 7\n", MADE),
        (MODEL, MODEL + "        more: int = 7\n", MADE_MODEL),
        (PLAIN, PLAIN + "\n        more = 7\n", MADE),
        (BARE, BARE + "        more = 7\n", MADE_BARE),
    ],
)
def test_an_attribute_that_is_new_has_its_default(then: str, now: str, make: str) -> None:
    thing = reloaded(then, now, make)
    assert (thing.qty, thing.more) == (5, 7)


@pytest.mark.parametrize(
    ("then", "now", "make"),
    [
        (DATACLASS, DATACLASS.replace("qty: int = 0", "LIMIT: ClassVar[int] = 3"), MADE),
        (MODEL, MODEL.replace("qty: int = 0", "LIMIT: ClassVar[int] = 3"), MADE_MODEL),
        (
            PLAIN,
            PLAIN.replace("qty = 0", "LIMIT = 3").replace("self.name, self.qty = name, qty", "self.name = name"),
            MADE,
        ),
    ],
)
def test_an_attribute_that_is_gone_asks_for_nothing(then: str, now: str, make: str) -> None:
    assert reloaded(then, now, make).name == "a"


INHERITED = (
    PLAIN.replace("class Thing", "class First")
    + """
    class Thing(First):
        pass
"""
)
OF_GENERIC = """
    from typing import Generic, TypeVar

    T = TypeVar("T")

    class First(BaseModel, Generic[T]):
        name: T
        qty: int = 0

    class Thing(First[str]):
        pass
"""


@pytest.mark.parametrize(("then", "make"), [(INHERITED, MADE), (OF_GENERIC, MADE_MODEL)])
def test_an_upcaster_of_a_base_class_reaches_what_no_codec_knows(then: str, make: str) -> None:
    register = partial(upcaster(f"{NAME}:First", version=1), called_otherwise)
    assert reloaded(then, then.replace("qty", "count"), make, register).count == 5


WITH_CACHE = """
    @dataclass
    class Thing:
        name: str
        qty: int = 0

        def __post_init__(self):
            self._seen = {self.qty}
            object.__setattr__(self, "_given", 1)

        def read(self):
            self._reads = 1
            return self

        @functools.cached_property
        def double(self):
            return 2 * self.qty
"""


def test_what_methods_set_beside_the_fields_is_not_gone() -> None:
    make = "(lambda one: (one.double, one)[1])(Thing('a', 5).read())"
    thing = reloaded(WITH_CACHE, WITH_CACHE.replace("qty: int = 0", "qty: int = 0\n        more: int = 7"), make)
    assert vars(thing) == {"name": "a", "qty": 5, "more": 7, "_seen": {5}, "_given": 1, "_reads": 1, "double": 10}


@pytest.mark.parametrize(
    ("then", "now", "make"),
    [
        (
            DATACLASS,
            DATACLASS.replace("qty: int = 0", "qty: int = 0\n        when: int = field(default_factory=id)"),
            MADE,
        ),
        (MODEL, MODEL + "        when: int\n", MADE_MODEL),
    ],
)
def test_a_field_that_is_new_and_has_no_plain_default_is_asked_for(then: str, now: str, make: str) -> None:
    with pytest.raises(ShapeChanged, match=r"when of class .* has no plain default"):
        reloaded(then, now, make)
