"""The order in which a set gives its elements, and how to make a set that gives them so.

A set gives its elements as they lie in its table. Each lies in the first slot of its own row of slots that was free when it
came, so the order tells of the set's past: what came first, what was removed since, how large the set has been. To get the
order again, a table of that size is filled in an order that leads every element to a slot behind that of the one before it;
where something removed has to have been in the way, a filler is, and goes.

The rows and the growth are those of CPython's `Objects/setobject.c`. What comes out is looked at, never trusted.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from autogen_eventlog.codec.bases import own
from autogen_eventlog.state.parts import NotState
from autogen_eventlog.state.seedless import Standin, seedless_hashes

_FEW: Final = 5
_LINEAR: Final = 9
"""Slots that are looked at behind one before jumping (LINEAR_PROBES)."""
_SHIFT: Final = 5
"""PERTURB_SHIFT."""
_LARGEST: Final = 1 << 22
"""Slots that a stored state may ask for: 64 MB."""
_CHECKED: Final = 100
_SMALLEST: Final = 8
"""Slots of a table that lies in the set itself (PySet_MINSIZE)."""
_LOOKED_AT: Final = (_LINEAR + 1, 50)
"""Slots of its row in which an element is thought of: first those where nearly all are, which takes a fifth of the time."""
_WORD: Final = 2 * sys.maxsize + 1
_MARK: Final = 1 << 45
"""In the hash of fillers, above what the table looks at."""
_PER_SLOT: Final = 16
"""Bytes of a slot: a hash and a pointer."""


def room(value: set[Any]) -> int:
    """How many slots the table of a set has."""
    return (own(set, "__sizeof__")(value) - _EMPTY) // _PER_SLOT or _SMALLEST


_EMPTY: Final = set[int]().__sizeof__()


def is_room(slots: object) -> bool:
    """Whether the table of a set may have so many slots."""
    return type(slots) is int and _SMALLEST <= slots <= _LARGEST and slots & (slots - 1) == 0


def order_of(came: list[Any], ordered: list[Any], slots: int | None) -> list[int] | None:
    """In which order, in positions of `ordered`, a set gave its elements; None if a new one does so, or a seed decides.

    Args:
        slots: of its table; None of a frozenset, whose table never grows.

    Raises:
        NotState: it can't be had again. Of more than 100 elements only making the set tells.
    """
    hashes = seedless_hashes(ordered) if len(ordered) > 1 else None
    if hashes is None:
        return None
    at = {id(element): position for position, element in enumerate(ordered)}
    order = [at[id(element)] for element in came]
    alike = ordered if _are_plain(ordered) else _standins(hashes)
    new = set(alike)
    if slots in (None, room(new)) and _is_in_order(new, [alike[position] for position in order]):
        return None
    unlikely = slots is not None and not is_room(slots)
    if unlikely or (len(order) <= _CHECKED and not _can_be_had([hashes[position] for position in order], slots)):
        raise NotState("the order in which it gives its elements can't be had again", "Use a list, or a dict with None")
    return order


def _are_plain(elements: list[Any]) -> bool:
    return all(type(element) in (int, bool, float) for element in elements)


def _can_be_had(hashes: list[int], slots: int | None) -> bool:
    elements = _standins(hashes)
    if slots is None:
        return frozen_source(elements, hashes) is not None
    return arrange(set[Any](), elements, hashes, slots)


def frozen_source(elements: list[Any], hashes: list[int]) -> Any:
    """What a frozenset has to be made of to give elements in the order of the list; None if nothing is known to do it."""
    for order in _ways(len(elements)):
        alike = _standins(hashes)
        if _is_in_order(frozenset(_of(order, alike)), alike):
            return _of(order, elements)
    return None


def arrange(instance: Any, elements: list[Any], hashes: list[int], slots: int | None) -> bool:
    """Fill a set with elements, so that it gives them in the order of the list; whether that was possible.

    Args:
        slots: of its table; any if None.
    """
    for order in _ways(len(elements)):
        _hold(instance, _of(order, elements))
        if slots in (None, room(instance)) and _is_in_order(instance, elements):
            return True
    slots = room(instance) if slots is None else slots
    plans = (_plan(hashes, slots, looked_at) for looked_at in _LOOKED_AT)
    return any(plan is not None and _carried_out(plan, instance, elements, slots) for plan in plans)


def _hold(instance: Any, elements: Any) -> None:
    own(set, "clear")(instance)
    own(set, "update")(instance, elements)


def _is_in_order(instance: Any, elements: list[Any]) -> bool:
    iterate = own(frozenset if isinstance(instance, frozenset) else set, "__iter__")
    return all(one is other for one, other in zip(iterate(instance), elements, strict=False))


def _standins(hashes: list[int]) -> list[Any]:
    return list(map(Standin, hashes))


_Way = tuple[Callable[[Any], Any], "tuple[int, ...] | range"]


def _ways(count: int) -> Iterator[_Way]:
    """One by one, backwards where hashes collide, all at once into a table made for them, and of a few in any order."""
    there = range(count)
    yield list, there
    yield list, there[::-1]
    yield set, there
    yield dict.fromkeys, there
    yield dict.fromkeys, there[::-1]
    if count <= _FEW:
        yield from ((list, order) for order in itertools.permutations(there))


def _of(way: _Way, elements: list[Any]) -> Any:
    gather, order = way
    return gather([elements[position] for position in order])


# -- a table of one's own ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Plan:
    """Positions of elements in the order in which they have to come, and slots that have to be taken before."""

    order: list[int]
    fillers: list[int]


class _Stop(Exception):
    """The table has its size."""


class _Stopper(Standin):
    """Stops the set that asks whether it is there already."""

    __slots__ = ()
    __hash__ = Standin.__hash__

    def __eq__(self, other: object) -> bool:
        raise _Stop


def _carried_out(plan: _Plan, instance: Any, elements: list[Any], slots: int) -> bool:
    fillers = [Standin(slot | _MARK) for slot in plan.fillers]
    first = (fillers or [elements[plan.order[0]]])[0]
    own(set, "clear")(instance)
    own(set, "add")(instance, first)
    _make_room(instance, first, slots)
    own(set, "update")(instance, fillers)
    for position in plan.order:
        own(set, "add")(instance, elements[position])
    own(set, "difference_update")(instance, fillers)
    return room(instance) == slots and _is_in_order(instance, elements)


def _make_room(instance: Any, first: Any, slots: int) -> None:
    """Give a set of one element a table of so many slots: it makes room for a whole dict before it takes the first key."""
    if slots > _SMALLEST:
        start = abs(hash(first)) % _MARK + 1  # of numbers that have other hashes than the first one
        many = dict.fromkeys([_Stopper(hash(first)), *range(start, start + slots // 2 - 3)])
        try:
            own(set, "update")(instance, many)
        except _Stop:
            return


def _row(hash_: int, slots: int, looked_at: int) -> list[int]:
    """The first slots in which an element is looked for, in order."""
    mask, perturb = slots - 1, hash_ & _WORD
    at, found = perturb & mask, list[int]()
    for _ in range(looked_at):
        found += range(at, at + 1 + (_LINEAR if at + _LINEAR <= mask else 0))
        if len(found) >= looked_at:
            break
        perturb >>= _SHIFT
        at = (at * 5 + 1 + perturb) & mask
    return found if len(found) == _LINEAR + 1 else list(dict.fromkeys(found))


def _plan(hashes: list[int], slots: int, looked_at: int) -> _Plan | None:
    rows = [_row(hash_, slots, looked_at) for hash_ in hashes]
    places = _places(rows)
    if places is None:
        return None
    held = {slot: position for position, slot in enumerate(places)}
    before = [row[: row.index(slot)] for row, slot in zip(rows, places, strict=True)]
    order = _sorted([[held[slot] for slot in row if slot in held] for row in before])
    fillers = dict.fromkeys(slot for row in before for slot in row if slot not in held)
    return None if order is None else _Plan(order, list(fillers))


_Step = tuple[int, int, Any]
"""A slot for an element, how many slots of rows were passed over up to it, and the step before."""


def _places(rows: list[list[int]]) -> list[int] | None:
    """For each element a slot of its row, each behind the last, such that the least slots are passed over."""
    steps: list[_Step] = [(-1, 0, None)]
    for row in rows:
        steps = _next(steps, row)
        if not steps:
            return None
    slot, _, before = min(steps, key=lambda step: step[1])
    found: list[int] = []
    while before is not None:
        found.append(slot)
        slot, _, before = before
    return found[::-1]


def _next(steps: list[_Step], row: list[int]) -> list[_Step]:
    """The best way to each slot of a row, by the slots."""
    found: list[_Step] = []
    best: _Step | None = None
    at = 0
    for slot, passed in sorted(zip(row, range(len(row)), strict=True)):
        while at < len(steps) and steps[at][0] < slot:
            best = steps[at] if best is None or steps[at][1] < best[1] else best
            at += 1
        if best is not None:
            found.append((slot, best[1] + passed, best))
    return found


def _sorted(needs: list[list[int]]) -> list[int] | None:
    """Every position after those that it needs; None if they need each other."""
    missing, needed_by = [len(need) for need in needs], [list[int]() for _ in needs]
    for position, need in enumerate(needs):
        for other in need:
            needed_by[other].append(position)
    ready = [position for position, count in enumerate(missing) if not count]
    for position in ready:
        for other in needed_by[position]:
            missing[other] -= 1
            if not missing[other]:
                ready.append(other)
    return ready if len(ready) == len(needs) else None
