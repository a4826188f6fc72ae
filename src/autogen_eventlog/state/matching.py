"""Which objects of a stored state the fresh instance has already.

Those at the same place, of the same class; wiring wherever it is, by where the constructor put it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from autogen_eventlog.state.form import ATTRIBUTES, DATA, ITEMS, KEYS, TAG, VALUES, WIRING, Entry, Form, dumps

MADE_AS: Final = "made as "
"""Before the place at which a constructor put a piece of wiring, where that tells it from others of its class."""


def match(stored: list[Entry], root: int, fresh: list[Entry], fresh_root: int) -> dict[int, int]:
    """From numbers of stored objects to numbers of the fresh instance's.

    One object is one object: where a list hung in two places and hangs there apart in the fresh instance, the first place
    met decides.
    """
    found: dict[int, int] = {root: fresh_root, **dict(_wiring(stored, fresh))}
    taken = set(found.values())
    pending: deque[tuple[int, int]] = deque([(root, fresh_root)])
    while pending:
        left, right = pending.popleft()
        for one, other in _beside(stored[left], fresh[right]):
            if one in found or other in taken or not _alike(stored[one], fresh[other]):
                continue
            found[one] = other
            taken.add(other)
            pending.append((one, other))
    return found


def _wiring(stored: list[Entry], fresh: list[Entry]) -> Iterator[tuple[int, int]]:
    """Wiring that is known by its place when it was made."""
    theirs = {dumps(entry[DATA]): number for number, entry in enumerate(fresh) if _is_placed(entry)}
    for number, entry in enumerate(stored):
        if _is_placed(entry) and (other := theirs.pop(dumps(entry[DATA]), None)) is not None:
            yield number, other


def _is_placed(entry: Entry) -> bool:
    return entry[TAG] == WIRING and str(entry[DATA][1]).startswith(MADE_AS)


def _alike(stored: Entry, fresh: Entry) -> bool:
    if stored[TAG] != fresh[TAG]:
        return False
    return stored.get(DATA) == fresh.get(DATA) if stored[TAG] in (WIRING, "function") else True


def _beside(stored: Entry, fresh: Entry) -> Iterator[tuple[int, int]]:
    for one, other in _pairs(stored, fresh):
        if type(one) is list and type(other) is list:
            yield one[0], other[0]


def _pairs(stored: Entry, fresh: Entry) -> Iterator[tuple[Form, Form]]:
    theirs = fresh.get(ATTRIBUTES, {})
    for name, form in stored.get(ATTRIBUTES, {}).items():
        if name in theirs:
            yield form, theirs[name]
    yield from zip(stored.get(ITEMS, ()), fresh.get(ITEMS, ()), strict=False)
    if KEYS in stored and KEYS in fresh:
        values = {
            dumps(key): value for key, value in zip(fresh[KEYS], fresh[VALUES], strict=True) if type(key) is not list
        }
        for key, value in zip(stored[KEYS], stored[VALUES], strict=True):
            if type(key) is not list and (text := dumps(key)) in values:
                yield value, values[text]
