"""Other objects in the place of some that hang on an instance, wherever they do, with all else as it is."""

from __future__ import annotations

import copy
import functools
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from autogen_eventlog.runtime.reach import (
    HELD,
    LIMIT,
    NEITHER,
    attributes,
    named_parts,
    own_dict,
    parts,
    slots_of,
    sort_of,
)


def held_on(agent: Any, targets: Mapping[int, Any], own: tuple[type, ...] = ()) -> dict[str, Any]:
    """Which of the targets hang on an instance, by the first path to each; what hangs on them is not entered.

    Args:
        targets: By id.
        own: Classes of boundaries that are the agent's own state.
    """
    found: dict[str, Any] = {}
    seen = {id(agent): agent}
    pending: deque[tuple[str, Any]] = deque([("self", agent)])
    while pending and len(seen) <= LIMIT:
        path, holder = pending.popleft()
        for step, value in named_parts(holder):
            if id(value) in seen or sort_of(value, own) in NEITHER:
                continue
            seen[id(value)] = value
            if id(value) in targets:
                found[path + step] = value
            else:
                pending.append((path + step, value))
    return found


def still_at(agent: Any, objects: Mapping[str, Any], own: tuple[type, ...] = ()) -> list[str]:
    """The paths at which these very objects still hang on an instance. The content would not tell: a copy has the same."""
    if not objects:
        return []
    found = held_on(agent, {id(value): value for value in objects.values()}, own)
    return sorted(path for path, value in found.items() if objects.get(path) is value)


def attribute_of(path: str) -> str:
    """The attribute of the instance with which a path begins."""
    return path.split(".", 2)[1].partition("[")[0]


class Replacing:
    """Puts objects in the place of others, in all that is an instance's own.

    What may change is changed where it is; of what can't (a tuple, a closure, a bound method), another is made.

    Args:
        instead: The objects to put, by the ids of those whose place they take.
        own: Classes of boundaries that are the agent's own state.
    """

    def __init__(self, instead: dict[int, Any], own: tuple[type, ...] = ()) -> None:
        self._instead = dict(instead)
        self._own = own
        self._held: dict[int, Any] = {}
        self._pending: deque[Any] = deque()
        self._cells: dict[int, types.CellType] = {}
        self._kept: list[Any] = []

    def run(self, agent: Any) -> None:
        self._of(agent)
        if any(isinstance(new, types.CellType) for new in self._instead.values()):
            self._pending.extend([*self._instead.values()])  # copies hold the functions that their originals hold
        while self._pending:
            self._within(self._pending.popleft())

    def _of(self, value: Any) -> Any:
        """What is to stand where `value` stands."""
        if id(value) in self._instead:
            return self._instead[id(value)]
        sort = sort_of(value, self._own)
        if sort is HELD:
            if id(value) not in self._held and len(self._held) <= LIMIT:
                self._held[id(value)] = value
                self._pending.append(value)
        elif sort not in NEITHER:
            self._kept.append(value)  # so that no other gets its id
            if not self._leads(value):
                self._instead[id(value)] = value
            else:
                return self._remade(value)
        return value

    def _leads(self, value: Any) -> bool:
        """Whether something that is replaced hangs on what can't change; what may, and hangs on it, waits for its turn."""
        pending, seen, leads = [value], {id(value)}, False
        while pending:
            holder = pending.pop()
            cells = (holder.__closure__ or ()) if isinstance(holder, types.FunctionType) else ()
            leads = leads or any(self._instead.get(id(cell), cell) is not cell for cell in cells)
            for part in parts(holder):
                sort = sort_of(part, self._own)
                if id(part) in self._instead:
                    leads = leads or self._instead[id(part)] is not part
                elif sort is HELD:
                    self._of(part)
                elif sort not in NEITHER and id(part) not in seen:
                    seen.add(id(part))
                    pending.append(part)
        return leads

    # -- what can't change ------------------------------------------------------------------------------------------

    def _remade(self, value: Any) -> Any:
        if isinstance(value, types.FunctionType):
            return self._function(value)
        made = self._instead[id(value)] = self._like(value)
        return made

    def _like(self, value: Any) -> Any:
        if isinstance(value, types.MethodType):
            return types.MethodType(self._of(value.__func__), self._of(value.__self__))
        if isinstance(value, (types.BuiltinFunctionType, types.MethodWrapperType)):
            return getattr(self._of(value.__self__), value.__name__)
        if isinstance(value, functools.partial):
            bound = cast("functools.partial[Any]", value)
            keywords = {name: self._of(one) for name, one in bound.keywords.items()}
            return type(bound)(self._of(bound.func), *map(self._of, bound.args), **keywords)
        if isinstance(value, (tuple, frozenset)):
            return self._collection(cast("tuple[Any, ...]", value))
        made = copy.copy(value)  # a frozen dataclass
        for name, one in attributes(value).items():
            object.__setattr__(made, name, self._of(one))
        return made

    def _collection(self, value: Any) -> Any:
        make: Callable[[Any], Any] = getattr(value, "_make", functools.partial(type(value).__new__, type(value)))
        made = make([self._of(one) for one in value])
        own_dict(made).update({name: self._of(one) for name, one in own_dict(value).items()})
        return made

    def _function(self, function: types.FunctionType) -> types.FunctionType:
        """One like it. It is known before what it closes over is looked at: that may be the function itself."""
        closure = function.__closure__ or ()
        fresh = [cell for cell in closure if id(cell) not in self._cells and not self._stays(cell)]
        self._cells.update({id(cell): types.CellType() for cell in fresh})
        cells = tuple(self._cells.get(id(cell)) or self._of(cell) for cell in closure)
        made = types.FunctionType(function.__code__, function.__globals__, function.__name__, None, cells)
        self._instead[id(function)] = made
        for cell in fresh:
            self._fill(cell, self._cells[id(cell)])
        made.__defaults__, made.__kwdefaults__ = self._of(function.__defaults__), self._of(function.__kwdefaults__)
        made.__dict__.update({name: self._of(value) for name, value in function.__dict__.items()})
        for name in _NAMES:
            setattr(made, name, getattr(function, name))
        return made

    def _stays(self, cell: types.CellType) -> bool:
        """Whether it is a variable that functions rebind: others that have it must go on to see that."""
        return id(cell) in self._instead or id(cell) in self._held

    def _fill(self, cell: types.CellType, new: types.CellType) -> None:
        for value in attributes(cell).values():  # none: a name that is not assigned yet
            new.cell_contents = self._of(value)

    # -- what can ---------------------------------------------------------------------------------------------------

    def _within(self, holder: Any) -> None:
        if isinstance(holder, types.CellType):
            self._fill(holder, holder)
            return
        own, slots = own_dict(holder), slots_of(cast("type[Any]", type(holder)))
        for name, value in attributes(holder).items():
            if (new := self._of(value)) is not value:
                if name in own:
                    own[name] = new
                else:
                    slots[name].__set__(holder, new)
        for kind, put in _PUT:
            if isinstance(holder, kind):
                put(holder, self._of)
                return


def _put_into_list(holder: list[Any] | deque[Any], of: Callable[[Any], Any]) -> None:
    kind: Any = list if isinstance(holder, list) else deque
    for at, value in enumerate([*holder]):
        if (new := of(value)) is not value:
            kind.__setitem__(holder, at, new)


def _put_into_dict(holder: dict[Any, Any], of: Callable[[Any], Any]) -> None:
    kind: Any = OrderedDict if isinstance(holder, OrderedDict) else dict
    before = [*holder.items()]
    now = [(of(key), of(value)) for key, value in before]
    if any(new is not key for (key, _), (new, _) in zip(before, now, strict=True)):
        kind.clear(holder)
    for (_, value), (new_key, new) in zip(before, now, strict=True):
        if new is not value or new_key not in holder:
            kind.__setitem__(holder, new_key, new)


def _put_into_set(holder: set[Any], of: Callable[[Any], Any]) -> None:
    kind: Any = set
    for value in [*holder]:
        if (new := of(value)) is not value:
            kind.discard(holder, value)
            kind.add(holder, new)


_PUT: Final[tuple[tuple[Any, Callable[[Any, Callable[[Any], Any]], None]], ...]] = (
    ((list, deque), _put_into_list),
    (dict, _put_into_dict),
    (set, _put_into_set),
)
_NAMES: Final = ("__module__", "__qualname__", "__doc__", "__annotations__")
