"""Where an instance's boundaries hang: in attributes, slots and containers of the agent and of what is its own."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import types
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from autogen_core import Agent, BaseAgent, CancellationToken, ComponentBase
from pydantic import BaseModel

from autogen_eventlog.effects.boundaries import family_of, is_own_state
from autogen_eventlog.incarnation.boundary import Boundary

LIMIT: Final = 20_000
"""Objects that are looked at. An agent that is made with more is not searched to its end."""

AUTOGEN: Final = frozenset({"autogen_core", "autogen_agentchat", "autogen_ext"})
"""AutoGen's packages."""
_NO_STATE: Final = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.MethodType,
    types.BuiltinFunctionType,
    CancellationToken,
)
_PLAIN: Final = (str, bytes, int, float, complex, type(None))
_NAMING: Final = (str, int, bool, type(None))
"""Keys that show in paths as they are; others by their class and their number."""
_CONTAINERS: Final = (list, tuple, dict, deque)


@dataclasses.dataclass(slots=True)
class Found:
    """What hangs on an instance."""

    holders: list[Any] = dataclasses.field(default_factory=list[Any])
    """The agent and what is its own: objects whose attributes may be set."""
    containers: dict[int, Any] = dataclasses.field(default_factory=dict[int, Any])
    """Built-in containers, by id."""
    boundaries: dict[int, Any] = dataclasses.field(default_factory=dict[int, Any])
    """Objects that stand-ins take the place of, by id."""
    places: dict[int, str] = dataclasses.field(default_factory=dict[int, str])
    """The first path to each boundary and stand-in, by id; the same in every process that makes the instance so."""
    stand_ins: list[Any] = dataclasses.field(default_factory=list[Any])
    """Stand-ins that hang there already, on an AgentChat agent that other instances have too."""
    threaded: list[Any] = dataclasses.field(default_factory=list[Any])
    """Tools of the agent's own code whose function AutoGen runs in a thread, which replay can't repeat."""
    beside: list[str] = dataclasses.field(default_factory=list[str])
    """Boundaries that the agent's code reaches past its attributes, in words: nothing can take their place."""
    complete: bool = True


def find(agent: Agent, own: tuple[type, ...] = ()) -> Found:
    """Search an instance, each object once, in a fixed order.

    Args:
        own: Classes of boundaries that are the agent's own state.
    """
    return _Search(own).run(agent)


class _Search:
    def __init__(self, own: tuple[type, ...]) -> None:
        self._own = own
        self._found = Found()
        self._packages: set[str] = set()
        self._seen: dict[int, Any] = {}
        self._pending: deque[tuple[str, Any]] = deque()

    def run(self, agent: Agent) -> Found:
        self._hold(agent, "self")
        while self._pending:
            path, value = self._pending.popleft()
            for step, child in _steps(value):
                self._meet(child, path, step)
            if len(self._seen) > LIMIT:
                self._found.complete = False
                break
        return self._found

    def _meet(self, value: Any, path: str, step: str) -> None:
        if isinstance(value, _PLAIN) or id(value) in self._seen:
            return
        self._seen[id(value)] = value  # kept, so that no other object gets its id
        path += step
        if isinstance(value, Boundary):
            self._found.stand_ins.append(value)
            self._found.places[id(value)] = path
        elif type(value) in _CONTAINERS or isinstance(value, tuple):
            self._found.containers[id(cast("Any", value))] = value
            self._pending.append((path, cast("Any", value)))
        elif family_of(value) is not None:
            self._meet_boundary(value, path)
        elif self._is_own(value):
            self._hold(value, path)

    def _meet_boundary(self, value: Any, path: str) -> None:
        agents = list(agents_behind(value))
        if isinstance(value, self._own) or is_own_state(value) or agents:
            if agents and runs_in_thread(value):
                self._found.threaded.append(value)
            self._hold(value, path)
            for at, agent in enumerate(agents):
                self._meet(agent, path, f".agent[{at}]")
        else:
            self._found.boundaries[id(value)] = value
            self._found.places[id(value)] = path

    def _hold(self, value: Any, path: str) -> None:
        self._seen[id(value)] = value
        self._packages |= {package_of(base) for base in own_classes(cast("type[Any]", type(value)))}
        self._found.holders.append(value)
        self._found.beside.extend(reached_beside(value))
        self._pending.append((path, value))

    def _is_own(self, value: Any) -> bool:
        """Whether it is a part of the agent: of AutoGen's, of the packages that the agent's classes are of, or plain."""
        cls = cast("type[Any]", type(value))
        if isinstance(value, _NO_STATE) or _is_runtime(cls):
            return False
        if isinstance(value, BaseModel):
            return package_of(cls) in self._packages
        if isinstance(value, types.SimpleNamespace) or dataclasses.is_dataclass(value):
            return True
        packages = {package_of(base) for base in cls.__mro__}
        return bool(packages & AUTOGEN) or package_of(cls) in self._packages


def _steps(value: Any) -> Iterator[tuple[str, Any]]:
    """What hangs directly on an object or in a container, with the step to it, in which no address or hash shows."""
    if isinstance(value, dict):
        for at, (key, child) in enumerate(cast("dict[Any, Any]", value).items()):
            yield f"[{key!r}]" if type(key) in _NAMING else f"[{type(key).__name__} {at}]", child
    elif isinstance(value, list | tuple | deque):
        yield from ((f"[{at}]", child) for at, child in enumerate(cast("list[Any]", value)))
    else:
        yield from ((f".{name}", child) for name, child in attributes(value).items())


def children(value: Any) -> Iterator[Any]:
    """What hangs directly on an object or in a container."""
    if isinstance(value, dict):
        yield from cast("dict[Any, Any]", value).values()
    elif isinstance(value, list | tuple | deque):
        yield from cast("list[Any]", value)
    else:
        yield from attributes(value).values()


def attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object: in `__dict__`, in slots, and boundaries and containers that its own classes give it."""
    found: dict[str, Any] = {**_class_attributes(cast("type[Any]", type(value))), **getattr(value, "__dict__", {})}
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            private = slot.startswith("__") and not slot.endswith("__")
            name = f"_{cls.__name__.lstrip('_')}{slot}" if private else slot
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found[name] = getattr(value, name)
    return found


def own_classes(cls: type) -> list[type]:
    """The classes of an object that are neither AutoGen's nor Python's."""
    return [
        base
        for base in cls.__mro__
        if package_of(base) not in AUTOGEN and package_of(base) not in sys.stdlib_module_names
    ]


def _class_attributes(cls: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(own_classes(cls)):
        for name, value in vars(base).items():
            if not name.startswith("__") and (type(value) in _CONTAINERS or _is_boundary(value)):
                found[name] = value
    return found


def reached_beside(holder: Any) -> list[str]:
    """Boundaries that the functions of an object use as globals or out of a closure."""
    found = list(_beside_class(cast("type[Any]", type(holder))))
    for value in getattr(holder, "__dict__", {}).values():
        if isinstance(value, types.FunctionType):
            found.extend(_used_by(value))
    return found


@functools.lru_cache(maxsize=1024)
def _beside_class(cls: type) -> tuple[str, ...]:
    functions = [value for base in own_classes(cls) for value in vars(base).values()]
    unwrapped = [inspect.unwrap(value) for value in functions if isinstance(value, types.FunctionType)]
    return tuple(text for function in unwrapped for text in _used_by(function))


def _used_by(function: types.FunctionType) -> Iterator[str]:
    known = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    known |= dict(zip(function.__code__.co_freevars, _bound_to(function), strict=False))
    for name, value in known.items():
        if _is_boundary(value):
            yield f"{function.__qualname__} uses {name} ({type(value).__name__})"


def _is_boundary(value: Any) -> bool:
    return not isinstance(value, (*_PLAIN, *_NO_STATE)) and family_of(value) is not None and not is_own_state(value)


def agents_behind(boundary: Any) -> Iterator[Any]:
    """Agents and teams that a tool (or other boundary) works on: one that does is their own code, not the outside."""
    for value in attributes(boundary).values():
        if _is_agent(value):
            yield value
        elif callable(value) and not isinstance(value, type):
            yield from _agents_of_function(value, depth=3)


def runs_in_thread(tool: Any) -> bool:
    """Whether AutoGen's FunctionTool runs the tool's function in a thread: those that are not coroutine functions."""
    function = getattr(tool, "_func", None)
    return function is not None and not _is_coroutine_function(function)


def _is_coroutine_function(function: Any) -> bool:
    if isinstance(function, functools.partial):
        return _is_coroutine_function(cast("functools.partial[Any]", function).func)
    return inspect.iscoroutinefunction(function)


def _agents_of_function(function: Any, depth: int) -> Iterator[Any]:
    if depth == 0:
        return
    for value in _bound_to(function):
        if _is_agent(value):
            yield value
        elif callable(value) and not isinstance(value, type):
            yield from _agents_of_function(value, depth - 1)


def _bound_to(function: Any) -> Iterator[Any]:
    if isinstance(function, functools.partial):
        partial = cast("functools.partial[Any]", function)
        yield from (partial.func, *partial.args, *partial.keywords.values())
    if isinstance(function, types.MethodType):
        yield function.__self__
        function = function.__func__
    for cell in getattr(cast("Any", function), "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a variable that is not set yet
            continue


def _is_agent(value: Any) -> bool:
    if isinstance(value, BaseAgent):
        return True
    is_component = issubclass(cast("type[Any]", type(value)), ComponentBase)
    return is_component and getattr(value, "component_type", None) in ("agent", "team")


def _is_runtime(cls: type) -> bool:
    return all(hasattr(cls, name) for name in ("register_factory", "send_message", "add_subscription"))


def package_of(cls: type) -> str:
    """The first part of the name of the module that a class is of."""
    return cls.__module__.partition(".")[0]


def reached(found: Found, targets: Mapping[int, Any]) -> set[int]:
    """The ids of the containers in which, at any depth of containers, one of the targets lies."""
    above: dict[int, list[int]] = {}
    for key, container in found.containers.items():
        for child in children(container):
            if id(child) in found.containers or id(child) in targets:
                above.setdefault(id(child), []).append(key)
    pending, done = list(targets), set[int]()
    while pending:
        for key in above.get(pending.pop(), ()):
            if key not in done:
                done.add(key)
                pending.append(key)
    return done
