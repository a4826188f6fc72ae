"""Whether what an instance has borrowed is still what a stored state says of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

from autogen_eventlog.codec.wire import VERSION
from autogen_eventlog.state.form import ATTRIBUTES, Entry, Form, number_of
from autogen_eventlog.state.parts import PARTS
from autogen_eventlog.state.walk import Walk


def reached(walk: Walk, objects: Collection[object]) -> set[int]:
    """The numbers of these objects in a walk, and of all that hangs on them."""
    wanted = set(map(id, objects))
    found = {number for number, value in enumerate(walk.objects) if id(value) in wanted} if wanted else set[int]()
    pending = list(found)
    while pending:
        for form in _forms(walk.entries[pending.pop()]):
            number = number_of(form)
            if number is not None and number not in found:
                found.add(number)
                pending.append(number)
    return found


def equal(stored: list[Entry], one: int, fresh: list[Entry], other: int, same: dict[int, int]) -> bool:
    """Whether a stored object and a fresh one are alike, and so is all that hangs on them.

    Args:
        same: Pairs that are known to be, or are being looked at; those found are added.
    """
    pending = [(one, other)]
    while pending:
        left, right = pending.pop()
        if left in same:
            if same[left] != right:
                return False
            continue
        same[left] = right
        first, second = stored[left], fresh[right]
        names = (first.keys() | second.keys()) - {VERSION}
        for name in names:
            if name not in first or name not in second or not _alike(name, first[name], second[name], pending):
                return False
    return True


def _alike(name: str, one: Any, other: Any, pending: list[tuple[int, int]]) -> bool:
    if name not in (ATTRIBUTES, *PARTS):  # no references in it
        return one == other
    left, right = _listed(one), _listed(other)
    if len(left) != len(right) or (isinstance(one, dict) and cast("dict[str, Any]", one).keys() != other.keys()):
        return False
    for first, second in zip(left, right, strict=True):
        numbers = number_of(first), number_of(second)
        if numbers[0] is None or numbers[1] is None:
            if first != second:
                return False
        else:
            pending.append((numbers[0], numbers[1]))
    return True


def _listed(forms: Any) -> list[Form]:
    """The forms of a part; of attributes, by name."""
    if isinstance(forms, Mapping):
        named = cast("Mapping[str, Form]", forms)
        return [named[name] for name in sorted(named)]
    return list(forms)


def _forms(entry: Entry) -> Iterator[Form]:
    yield from entry.get(ATTRIBUTES, {}).values()
    for letter in PARTS:
        yield from entry.get(letter, ())
