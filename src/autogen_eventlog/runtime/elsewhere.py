"""What a constructor took from somewhere, where no code says so: whatever hangs on an instance and was there before it.

An attribute of a metaclass, a function of another module, a context variable, a cache: there are more ways to an object than
can be read off code. Only containers and objects of the user's own classes are told so; what libraries keep is theirs.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from types import FrameType, FunctionType
from typing import Any, Final, cast

from autogen_eventlog.effects.finding import AUTOGEN, package_of
from autogen_eventlog.runtime.reach import HELD, LIMIT, NEITHER, attributes, named_parts, own_dict, sort_of
from autogen_eventlog.runtime.users import is_users

_HERE: Final = 5
"""References to a value from the tables and variables of whoever counts them here."""
_CONTAINERS: Final = (list, dict, set, deque, bytearray)


class Making:
    """Tells what was made while it went on, in no time: the collector's youngest, as long as it does not collect."""

    def __init__(self) -> None:
        self.made: set[int] = set()
        """Ids of all that was made, and that the collector knows."""
        self._collects = gc.isenabled()

    def __enter__(self) -> Making:
        gc.collect(0)
        gc.disable()
        return self

    def __exit__(self, *_: object) -> None:
        self.made = set(map(id, gc.get_objects(generation=0)))
        if self._collects:
            gc.enable()


def there_before(agent: Any, made: set[int], but: Mapping[int, Any]) -> dict[str, Any]:
    """What hangs on an instance and was there before it, by path.

    Args:
        made: Ids of what was made with it.
        but: By id: what is known already.
    """
    told = dict(told_parts(agent, but))
    unknown = {id(value): value for value in told.values() if not gc.is_tracked(value)}
    before = {id(value) for value in told.values() if id(value) not in made} - unknown.keys()
    before |= _held_elsewhere(agent, unknown, made, but)
    return topmost({path: value for path, value in told.items() if id(value) in before})


def _held_elsewhere(agent: Any, values: dict[int, Any], made: set[int], but: Mapping[int, Any]) -> set[int]:
    """Of dicts without objects in them, and bytes, the collector does not know: those are older that another holds too."""
    own = [agent, *(value for _, value in own_parts(agent, but))]
    edges = Counter(id(part) for holder in own for _, part in named_parts(holder) if id(part) in values)
    more = [value for value in values.values() if sys.getrefcount(value) > edges[id(value)] + _HERE]
    if not more:
        return set()
    no_others = made | {id(values), id(more), *(id(own_dict(holder)) for holder in own)}
    holders = [one for one in gc.get_referrers(*more) if id(one) not in no_others and not isinstance(one, FrameType)]
    return {id(held) for holder in holders for held in gc.get_referents(holder) if id(held) in values}


def topmost(found: dict[str, Any]) -> dict[str, Any]:
    """Parts by their paths, without what hangs on another of them."""
    kept: dict[str, Any] = {}
    for path, value in found.items():  # the nearest come first
        if not any(path.startswith(above) and path[len(above)] in ".[" for above in kept):
            kept[path] = value
    return kept


def told_parts(agent: Any, but: Mapping[int, Any]) -> Iterator[tuple[str, Any]]:
    """Of `own_parts`, containers and objects of the user's classes that have data."""
    return ((path, value) for path, value in own_parts(agent, but) if _is_told(value))


def own_parts(agent: Any, but: Mapping[int, Any]) -> Iterator[tuple[str, Any]]:
    """What may change and hangs on an instance, with its path, as far as it is of the user's or AutoGen's making.

    Args:
        but: By id: what is not entered, nor given.
    """
    seen = {id(agent): agent}
    pending: deque[tuple[str, Any]] = deque([("self", agent)])
    while pending and len(seen) <= LIMIT:
        path, holder = pending.popleft()
        for step, value in named_parts(holder):
            if id(value) in seen or id(value) in but or isinstance(value, FunctionType) or sort_of(value) in NEITHER:
                continue
            seen[id(value)] = value
            if sort_of(value) is HELD:
                yield path + step, value
            if _is_entered(value):
                pending.append((path + step, value))


def _is_told(value: Any) -> bool:
    cls = cast("type[Any]", type(value))
    return issubclass(cls, _CONTAINERS) or (is_users(cls.__module__) and bool(attributes(value)))


def _is_entered(value: Any) -> bool:
    cls = cast("type[Any]", type(value))
    return issubclass(cls, (*_CONTAINERS, tuple, frozenset)) or package_of(cls) in AUTOGEN or is_users(cls.__module__)
