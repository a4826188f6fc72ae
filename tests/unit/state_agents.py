"""What the tests of captured states capture: an object with attributes, classes of many sorts, and the way there and back."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, PrivateAttr

from autogen_eventlog.codec import Codec
from autogen_eventlog.state import CapturedState, capture, difference, load

T = TypeVar("T")


class Holder:
    """In the place of an agent."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def method(self) -> str:
        return "method"


@dataclass
class Item:
    name: str
    price: float = 1.5
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Point:
    x: Any
    y: Any


@dataclass(slots=True)
class Slotted:
    left: Any
    right: Any = None


class Base:
    __slots__ = ("__secret", "shown", "twice")

    def __init__(self, secret: Any) -> None:
        self.__secret = secret
        self.shown = "base"
        self.twice = "outer"

    @property
    def secret(self) -> Any:
        return self.__secret


class Derived(Base):
    __slots__ = ("__dict__", "__secret", "twice")

    def __init__(self, secret: Any) -> None:
        super().__init__(secret)
        self.__secret = "derived"
        self.twice = "inner"
        Base.twice.__set__(self, "outer")  # type: ignore[attr-defined]

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


class Pair(NamedTuple):
    first: Any
    second: Any


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Rights(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


class Model(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str
    count: int = 3
    _cache: dict[str, Any] = PrivateAttr(default_factory=dict)


class Box(BaseModel, Generic[T]):
    content: T


class Words(list[str]):
    """Overrides what the state must not ask."""

    def __iter__(self) -> Any:
        raise AssertionError("asked")

    def __len__(self) -> int:
        raise AssertionError("asked")


class Table(dict[str, Any]):
    def items(self) -> Any:
        raise AssertionError("asked")

    def __getitem__(self, key: str) -> Any:
        raise AssertionError("asked")


class Name(str):
    note: str


class Touchy:
    """Whose code must not run when its state is captured."""

    def __init__(self) -> None:
        self.value = 1

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError("asked")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("asked")

    def __hash__(self) -> int:
        raise AssertionError("asked")

    def __repr__(self) -> str:
        raise AssertionError("asked")

    def __bool__(self) -> bool:
        raise AssertionError("asked")


class Node:
    def __init__(self, value: Any, following: Any = None) -> None:
        self.value = value
        self.following = following


class ByContent:
    """Hashable by what it holds."""

    def __init__(self, key: list[int]) -> None:
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByContent) and other.key == self.key

    def __hash__(self) -> int:
        return hash(tuple(self.key))


class Failure(Exception):
    def __init__(self, code: int, *, hint: str) -> None:
        super().__init__(f"code {code}")
        self.hint = hint


def round_trip(live: Any, fresh: Any, codec: Codec | None = None) -> CapturedState:
    """Capture one, load it into the other, and check that the other is captured alike."""
    codec = codec or Codec()
    captured = capture(live, codec)
    load(captured.data, into=fresh, codec=codec)
    again = capture(fresh, codec)
    assert difference(captured.data, again.data) == []
    assert (captured.digest, captured.wiring) == (again.digest, again.wiring)
    return captured


def loaded(value: Any, make: Callable[[], Any] = Holder) -> Any:
    """A value as an attribute of a fresh object that loaded it."""
    live, fresh = make(), make()
    vars(live)["value"] = value
    round_trip(live, fresh)
    return vars(fresh)["value"]
