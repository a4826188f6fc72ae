"""A gate: what stands in the place of one of Python's functions."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

from autogen_eventlog.effects.ambient.callers import is_agents
from autogen_eventlog.effects.ambient.making import makes_boundary
from autogen_eventlog.incarnation.construction import Construction
from autogen_eventlog.replay.reading import READER, Reader
from autogen_eventlog.replay.standing import any_stands, whose


class Gate:
    """Stands in the place of a function; what is put there is `method`: `call`, bound, under the function's name.

    Bound, since a function that is found on a class would be bound to its instances, which the functions of C that gates
    replace are not.
    """

    def __init__(self, module: str, name: str, real: Callable[..., Any]) -> None:
        self.module = module
        self.name = name
        self.kind = f"{module}.{name}"
        self.real = real

    def call(self, *args: Any, **keywords: Any) -> Any:
        """What the caller gets. An agent's: the recorded value."""
        raise NotImplementedError

    @functools.cached_property
    def method(self) -> Callable[..., Any]:
        """What is put in the function's place."""
        call = type(self).call
        named = types.FunctionType(call.__code__, call.__globals__, self.name, call.__defaults__, call.__closure__)
        named.__module__, named.__qualname__, named.__doc__ = self.module, self.name, self.real.__doc__
        return types.MethodType(named, self)

    def __getattr__(self, name: str) -> Any:
        if name != self.__dict__.get("name"):
            raise AttributeError(name)
        return self.method  # where a pickled method is looked up

    def __repr__(self) -> str:
        return f"{self.kind} (recorded for agents)"

    def __copy__(self) -> Gate:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Gate:
        return self

    def __reduce__(self) -> Any:
        return gate_of, (self.module, self.name)


def gate_of(module: str, name: str) -> Any:
    """The gate at a name, or what is there: for copies that come by pickle."""
    found = getattr(sys.modules[module], name)
    gate = getattr(found, "__self__", None)
    return gate if isinstance(gate, Gate) else Passing(module, name, found)


class Passing(Gate):
    """A gate in a process that has none."""

    def call(self, *args: Any, **keywords: Any) -> Any:
        return self.real(*args, **keywords)


def asking(family: str, depth: int) -> Reader | None:
    """The agent whose code asks; None if it is not an agent's, or its log does not hold readings of this family.

    Args:
        depth: How many calls the asking code is above the caller.
    """
    reader = READER.get()
    if reader is None or not reader.running:
        return None
    frame = sys._getframe(depth + 1)  # pyright: ignore[reportPrivateUsage]
    if any_stands() and whose(frame):
        return None  # what a replay left is closed, being garbage, amid this agent's code
    if not is_agents(frame) or (isinstance(reader, Construction) and makes_boundary(frame, reader.own)):
        return None
    return reader if reader.records(family) else None
