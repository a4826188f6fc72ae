"""How objects of one class are taken apart and put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from autogen_eventlog.codec.upcasting import UPCASTING
from autogen_eventlog.codec.wire import TAG, VERSION
from autogen_eventlog.state.form import Entry, Form
from autogen_eventlog.state.parts import NotState, Parts


class Kind:
    """One class of objects that are more than a leaf.

    `take` runs no code of the class. `fill` sets everything anew, in an empty instance or in one that is in use.
    """

    shared: ClassVar[bool] = True
    """Whether identity is part of what its objects are. Otherwise they are made whole, by `make`."""
    composed: ClassVar[bool] = False
    """Whether they have an identity, and yet are made whole, by `make`: there is no empty one to be filled."""
    in_place: ClassVar[bool] = True
    """Whether `fill` can set everything in an object that exists."""
    fixed: ClassVar[bool] = False
    """Whether an object that exists can't be given other data, so that only one with the same is filled."""
    late: ClassVar[bool] = False
    """Whether its parts are visited last: their order is not their own, or it does not keep them alive."""
    hashes: ClassVar[bool] = False
    """Whether filling it asks its parts for their hash, so that they have to be filled before."""

    def __init__(self, name: str, cls: type) -> None:
        self.name = name
        self.cls = cls
        version = UPCASTING.version_of(cls)
        self._entry: Entry = {TAG: name} if version == 1 else {TAG: name, VERSION: version}

    def entry(self) -> Entry:
        """The beginning of an entry of the table."""
        return dict(self._entry)

    def take(self, value: Any) -> Parts:
        """The parts of an object, live.

        Raises:
            NotState: this one is in use, or holds what can't be taken.
        """
        raise NotImplementedError

    def empty(self, data: Any) -> Any:
        """A new object, to be filled."""
        raise NotImplementedError

    def fill(self, instance: Any, parts: Parts) -> None:
        """Give an object its parts, and nothing else."""
        raise NotImplementedError

    def make(self, parts: Parts) -> Any:
        """A whole object, where identity is no part of it."""
        instance = self.empty(parts.data)
        self.fill(instance, parts)
        return instance


class Leaf:
    """Objects without parts, which stand in the form of their holder."""

    __slots__ = ("encode",)

    def __init__(self, encode: Callable[[Any], Form]) -> None:
        self.encode = encode
        """Its form. Raises NotState if it can't be stored."""


class Outside:
    """Objects that stand for something outside: the fresh instance brings its own."""

    __slots__ = ("describe",)

    def __init__(self, describe: Callable[[Any], Any] = lambda value: None) -> None:
        self.describe = describe
        """JSON that the fresh one's must be equal to. Raises NotState if it is in use."""


class Refused:
    """Objects that are neither."""

    __slots__ = ("problem",)

    def __init__(self, reason: str, remedy: str = NotState.KEEP_OUT) -> None:
        self.problem = NotState(reason, remedy)


AnyKind = Kind | Leaf | Outside | Refused
