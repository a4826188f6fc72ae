"""What is told by its identity alone: sentinels, and the one instance that a class hands out.

A sentinel has no data, so a copy of it is another one. It is stored by the name under which a module or a class shows it, and
found again under that name, without importing anything.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final, cast

from autogen_eventlog.state.callables import static
from autogen_eventlog.state.parts import NotState

_ONLY: Final = (
    "Keep what tells it in the state instead (a name, a key, a member of an enum), and look it up where it is used"
)
_BARE: Final = NotState(
    "it is an object() that no module or class shows under a name, so that nothing afterwards could be told to be it",
    "Keep it as a constant of its module, or use a member of an enum",
)


class Constants:
    """Finds under which names the objects of one state are shown."""

    def __init__(self) -> None:
        self._modules: list[str] = []
        self._in_module: dict[str, dict[int, str]] = {}

    def look_in(self, agent: object) -> None:
        """Look in the modules of the agent's classes too."""
        self._modules = [cls.__module__ for cls in type(agent).__mro__ if cls is not object]

    def named(self, value: Any) -> str | None:
        """The name of an object that has no data; None if nothing shows it.

        Raises:
            NotState: it is a bare `object()`, and nothing shows it.
        """
        own = cast("type[Any]", type(value))
        bare = own is object
        for module in (*(() if bare else (own.__module__,)), *self._modules):
            name = self._of_module(module).get(id(value))
            if name is not None:
                return name
        if not bare:
            return None
        name = _bare(value)
        if name is None:
            raise _BARE
        return name

    def method(self, value: Any) -> str | None:
        """The name under which a module shows this very bound method, such as `random:choice`; None if none does."""
        for module in (value.__module__, type(value.__self__).__module__, *self._modules):
            if static(module, value.__name__) is value:
                return f"{module}:{value.__name__}"
        return None

    def _of_module(self, module: str) -> dict[int, str]:
        if module not in self._in_module:
            self._in_module[module] = {id(value): name for name, value in _shown(module)}
        return self._in_module[module]


_found: dict[int, str] = {}


def _bare(value: object) -> str | None:
    """Where any loaded module shows a bare `object()`. All are looked through, which takes some 10 ms, if none is known."""
    name = _found.get(id(value))
    if name is None or static(*name.split(":")) is not value:
        _found.clear()
        for module in sorted(sys.modules):
            _found.update({id(one): where for where, one in _shown(module) if type(one) is object})
    return _found.get(id(value))


def _shown(module: str) -> Iterator[tuple[str, Any]]:
    """Everything that a module's namespace shows, and those of its classes."""
    pending: list[tuple[str, Any]] = [("", sys.modules.get(module))]
    while pending:
        path, holder = pending.pop()
        for name, value in list(_namespace(holder).items()):
            if isinstance(value, type):
                if value.__module__ == module and value.__qualname__ == path + name:
                    pending.append((f"{path}{name}.", value))
            else:
                yield f"{module}:{path}{name}", value


def _namespace(place: Any) -> Mapping[str, Any]:
    return vars(place) if isinstance(place, (type, ModuleType)) else {}  # anything may stand among the loaded modules


def only_instances(cls: type) -> dict[int, NotState]:
    """Instances of a class that have an identity beyond one state, by id: constants of it, and what it gives out again.

    A class gives out what it has if its `__new__` or the `__call__` of its metaclass is written in Python. Then instances in
    its namespace, its metaclass's and its module's, and in dicts there, are taken for such.
    """
    gives = _gives_out(cls)
    places = [*cls.__mro__, type(cls), sys.modules.get(cls.__module__)] if gives else cls.__mro__
    found: dict[int, NotState] = {}
    for place in places:
        for name, value in _namespace(place).items():
            for one in _within(value) if gives and isinstance(value, dict) else (value,):
                if type(one) is cls and (gives or name.isupper()):
                    found[id(one)] = NotState(
                        f"it is the one that {_words(place)} shows as {name}, as no copy is", _ONLY
                    )
    return found


def _within(table: Any) -> Iterable[Any]:
    return list(cast("dict[Any, Any]", table).values())


def _words(place: Any) -> str:
    return f"class {place.__qualname__}" if isinstance(place, type) else f"module {place.__name__}"


def _gives_out(cls: type) -> bool:
    metaclass = cast("type[Any]", type(cls))
    makers = [vars(base).get("__new__") for base in cls.__mro__]
    makers += [vars(base).get("__call__") for base in metaclass.__mro__]
    return any(isinstance(maker, (FunctionType, MethodType, staticmethod)) for maker in makers)
