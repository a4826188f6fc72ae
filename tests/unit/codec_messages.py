"""Message classes of the codec's tests: one of each kind that agents send."""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict, deque
from dataclasses import InitVar, dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, RootModel, SecretStr, field_serializer

T = TypeVar("T")


class Color(enum.Enum):
    RED = "r"
    CRIMSON = "r"
    BLUE = ("b", 2)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Tone(str, enum.Enum):
    CALM = "calm"


class Permission(enum.Flag):
    READ = 1
    WRITE = 2
    RUN = 4
    ALL = 7


class Bits(enum.IntFlag):
    ONE = 1
    TWO = 2


@dataclass
class Item:
    name: str
    price: float = 0.0


@dataclass
class SpecialItem(Item):
    discount: int = 0


@dataclass
class Order:
    id: int
    items: list[Item] = field(default_factory=list[Item])
    by_name: dict[str, Item] = field(default_factory=dict[str, Item])
    pair: tuple[Item, int] | None = None
    color: Color = Color.RED
    placed_at: datetime | None = None


@dataclass(frozen=True)
class Point:
    x: int
    y: int


@dataclass(eq=False)
class Token:
    label: str


@dataclass(frozen=True, slots=True)
class Slotted:
    a: int
    b: list[int]


@dataclass(slots=True, kw_only=True)
class SlottedChild:
    c: str = "c"


@dataclass(kw_only=True)
class Keywords:
    a: int
    seed: InitVar[int] = 0
    derived: int = field(init=False)
    constant: int = field(init=False, default=9)

    def __post_init__(self, seed: int) -> None:
        self.derived = self.a + seed


@dataclass
class Trap:
    """Says so if any of its code runs on decoding."""

    a: int

    def __post_init__(self) -> None:
        CALLS.append("__post_init__")

    def __setattr__(self, name: str, value: object) -> None:
        CALLS.append(f"__setattr__ {name}")
        object.__setattr__(self, name, value)


CALLS: list[str] = []


@dataclass
class Cached:
    a: int

    @cached_property
    def double(self) -> int:
        return self.a * 2


@dataclass
class Box(Generic[T]):
    content: T


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=lambda: list[Tree]())
    parent: Tree | None = None


class Pair(NamedTuple):
    left: int
    right: list[str]


class MyStr(str):
    __slots__ = ("note",)


class MyInt(int):
    pass


class MyFloat(float):
    pass


class MyBytes(bytes):
    pass


class MyList(list[Any]):
    pass


class MyDict(dict[Any, Any]):
    def __getitem__(self, key: Any) -> Any:
        return "overridden"


class MyTuple(tuple[Any, ...]):
    pass


class MySet(set[Any]):
    pass


class MyOrdered(OrderedDict[Any, Any]):
    pass


class MyCounter(Counter[Any]):
    pass


class MyDeque(deque[Any]):
    pass


class Base(BaseModel):
    a: int


class Sub(Base):
    b: int = 0


class Holder(BaseModel):
    item: Base
    others: list[Base] = Field(default_factory=list[Base])


class Aliased(BaseModel):
    model_config = ConfigDict(extra="allow")
    public: int = Field(alias="PUBLIC")
    hidden: str = Field(default="h", exclude=True)
    _count: int = PrivateAttr(default=0)
    _unset: str = PrivateAttr()

    @field_serializer("public")
    def _wrong(self, value: int) -> str:
        return "serialisers must not be asked"


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)
    a: int


class GenericBox(BaseModel, Generic[T]):
    content: T


class Names(RootModel[list[str]]):
    pass


class Login(BaseModel):
    user: str
    password: SecretStr


class Shapeless:
    def __init__(self, a: int) -> None:
        self.a = a
