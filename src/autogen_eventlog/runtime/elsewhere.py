"""What a constructor took from somewhere, where no code says so: whatever hangs on an instance and was there before it.

An attribute of a metaclass, a function of another module, a context variable, a cache: there are more ways to an object than
can be read off code. Only containers and objects of the user's own classes are told so; what libraries keep is theirs.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any, Final, cast

from autogen_eventlog.effects.finding import AUTOGEN, package_of
from autogen_eventlog.runtime.reach import HELD, LIMIT, NEITHER, attributes, named_parts, sort_of
from autogen_eventlog.runtime.users import is_users

_CONTAINERS: Final = (list, dict, set, deque, bytearray)


def there_before(agent: Any, before: list[Any], but: Mapping[int, Any]) -> dict[str, Any]:
    """What hangs on an instance and was there before it, by path; what hangs on that is not looked at.

    Args:
        before: All that was there. (While it is held, nothing else gets the id of one of them.)
        but: By id: what is known already.
    """
    ids = set(map(id, before))
    there = dict(told_parts(agent, but, ids))
    unknown = {id(value): value for value in there.values() if not gc.is_tracked(value)}
    ids |= _held_elsewhere(unknown, ids)
    return {path: value for path, value in there.items() if id(value) in ids}


def _held_elsewhere(values: dict[int, Any], before: set[int]) -> set[int]:
    """Of dicts without objects in them, and bytes, the collector does not know: those are older that an older one holds."""
    holders = [holder for holder in gc.get_referrers(*values.values()) if id(holder) in before] if values else []
    return {id(held) for holder in holders for held in gc.get_referents(holder) if id(held) in values}


def told_parts(
    agent: Any, but: Mapping[int, Any], ends: set[int] | frozenset[int] = frozenset()
) -> Iterator[tuple[str, Any]]:
    """Of `own_parts`, containers and objects of the user's classes that have data."""
    return ((path, value) for path, value in own_parts(agent, but, ends) if _is_told(value))


def own_parts(
    agent: Any, but: Mapping[int, Any], ends: set[int] | frozenset[int] = frozenset()
) -> Iterator[tuple[str, Any]]:
    """What may change and hangs on an instance, with its path, as far as it is of the user's or AutoGen's making.

    Args:
        but: By id: what is not entered, nor given.
        ends: Ids of what is given and not entered.
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
            if id(value) not in ends and _is_entered(value):
                pending.append((path + step, value))


def _is_told(value: Any) -> bool:
    cls = cast("type[Any]", type(value))
    return issubclass(cls, _CONTAINERS) or (is_users(cls.__module__) and bool(attributes(value)))


def _is_entered(value: Any) -> bool:
    cls = cast("type[Any]", type(value))
    return issubclass(cls, (*_CONTAINERS, tuple, frozenset)) or package_of(cls) in AUTOGEN or is_users(cls.__module__)
