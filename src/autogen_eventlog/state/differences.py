"""How two captured states differ, for people."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from autogen_eventlog.codec.upcasting import UPCASTING
from autogen_eventlog.state.form import (
    ATTRIBUTES,
    DATA,
    ELEMENTS,
    ITEMS,
    KEYS,
    TAG,
    VALUES,
    WEAK,
    Entry,
    Form,
    Stored,
    dumps,
    number_of,
    parsed,
)
from autogen_eventlog.state.parts import attribute_step
from autogen_eventlog.state.places import entry_words, key_text, shortened, words

_BOUND: Final = 100
_ABSENT: Final = "absent"


def _of_today(data: bytes) -> bytes:
    """With the names that classes have today."""
    if UPCASTING.empty:
        return data
    return dumps(_renamed(json.loads(data))).encode("ascii")


def _renamed(form: Any) -> Any:
    if isinstance(form, str):
        owner, dot, method = form.rpartition(".")
        name = UPCASTING.today(form) if ":" in form else form
        return f"{UPCASTING.today(owner)}.{method}" if name == form and dot and ":" in owner else name
    if isinstance(form, list):
        return [_renamed(item) for item in cast("list[Any]", form)]
    if isinstance(form, dict):
        return {key: _renamed(value) for key, value in cast("dict[str, Any]", form).items()}
    return form


@dataclass(frozen=True, slots=True)
class StateDifference:
    """One place in which two states differ.

    Attributes:
        path: as code says it: `self._open['a'].price`.
        left: what is there in the first, in words.
        right: what is there in the second.
    """

    path: str
    left: str
    right: str


def difference(left: bytes, right: bytes, *, limit: int = _BOUND) -> list[StateDifference]:
    """Where two states differ, nearest to the agent first, up to `limit` places; empty if they are the same.

    Raises:
        PayloadCorrupt: one of them is not a captured state.
    """
    if left == right:
        return []
    left, right = _of_today(left), _of_today(right)
    found: list[StateDifference] = []
    for one in _Comparison(parsed(left, "left state"), parsed(right, "right state")).run():
        if len(found) == limit:
            break
        found.append(one)
    return found


class _Comparison:
    def __init__(self, left: Stored, right: Stored) -> None:
        self._left = left.entries
        self._right = right.entries
        self._partners: dict[int, int] = {}
        self._taken: dict[int, int] = {}
        self._paths: dict[int, str] = {}
        self._pending: deque[tuple[str, Form, Form]] = deque([("self", [left.root], [right.root])])

    def run(self) -> Iterator[StateDifference]:
        while self._pending:
            path, left, right = self._pending.popleft()
            one, other = number_of(left), number_of(right)
            if one is not None and other is not None:
                yield from self._objects(path, one, other)
            elif type(left) is not type(right) or dumps(left) != dumps(right):
                yield self._told(path, left, right)

    def _told(self, path: str, left: Form, right: Form) -> StateDifference:
        return StateDifference(path, words(self._left, left), words(self._right, right))

    def _objects(self, path: str, left: int, right: int) -> Iterator[StateDifference]:
        partner, taken = self._partners.get(left), self._taken.get(right)
        if partner == right and taken == left:
            return
        one, other = self._left[left], self._right[right]
        if one[TAG] != other[TAG]:
            yield StateDifference(path, entry_words(one), entry_words(other))
        elif partner is not None or taken is not None:
            yield StateDifference(
                path, self._same_as(partner, left), self._same_as(taken, left if taken is None else taken)
            )
        else:
            self._partners[left], self._taken[right], self._paths[left] = right, left, path
            yield from self._parts(path, one, other)

    def _same_as(self, met: int | None, number: int) -> str:
        return "an object of its own" if met is None else f"the same object as {self._paths[number]}"

    def _parts(self, path: str, left: Entry, right: Entry) -> Iterator[StateDifference]:
        if dumps(left.get(DATA)) != dumps(right.get(DATA)):
            yield StateDifference(path, _data(left), _data(right))
        yield from self._named(path, left.get(ATTRIBUTES, {}), right.get(ATTRIBUTES, {}), attribute_step)
        yield from self._pairs(path, left, right)
        yield from self._ordered(path, left.get(ITEMS, []), right.get(ITEMS, []))
        yield from self._elements(path, left.get(ELEMENTS, []), right.get(ELEMENTS, []))
        yield from self._ordered(f"{path} (weakly held)", left.get(WEAK, []), right.get(WEAK, []))

    def _named(self, path: str, left: dict[str, Form], right: dict[str, Form], step: Any) -> Iterator[StateDifference]:
        for name in [*left, *(name for name in right if name not in left)]:
            place = path + step(name)
            if name not in right:
                yield StateDifference(place, words(self._left, left[name]), _ABSENT)
            elif name not in left:
                yield StateDifference(place, _ABSENT, words(self._right, right[name]))
            else:
                self._pending.append((place, left[name], right[name]))
        if list(left) != list(right) and set(left) == set(right):
            yield StateDifference(f"{path} (order)", _names(left), _names(right))

    def _pairs(self, path: str, left: Entry, right: Entry) -> Iterator[StateDifference]:
        mine, others = _plain(left), _plain(right)
        yield from self._named(path, mine, others, "[{}]".format)
        keys = [_objects(entry.get(KEYS, [])) for entry in (left, right)]
        values = [_of_objects(entry) for entry in (left, right)]
        yield from self._ordered(f"{path} (keys)", *keys)
        yield from self._ordered(f"{path} (values of such keys)", *values)

    def _ordered(self, path: str, left: list[Form], right: list[Form]) -> Iterator[StateDifference]:
        for at, (one, other) in enumerate(zip(left, right, strict=False)):
            self._pending.append((f"{path}[{at}]", one, other))
        for at in range(len(right), len(left)):
            yield StateDifference(f"{path}[{at}]", words(self._left, left[at]), _ABSENT)
        for at in range(len(left), len(right)):
            yield StateDifference(f"{path}[{at}]", _ABSENT, words(self._right, right[at]))

    def _elements(self, path: str, left: list[Form], right: list[Form]) -> Iterator[StateDifference]:
        mine = {dumps(form): form for form in left if type(form) is not list}
        others = {dumps(form): form for form in right if type(form) is not list}
        for text, form in mine.items():
            if text not in others:
                yield StateDifference(f"{path} (an element)", words(self._left, form), _ABSENT)
        for text, form in others.items():
            if text not in mine:
                yield StateDifference(f"{path} (an element)", _ABSENT, words(self._right, form))
        yield from self._ordered(f"{path} (elements)", _objects(left), _objects(right))


def _objects(forms: list[Form]) -> list[Form]:
    return [form for form in forms if number_of(form) is not None]


def _plain(entry: Entry) -> dict[str, Form]:
    pairs = zip(entry.get(KEYS, ()), entry.get(VALUES, ()), strict=True)
    return {key_text(key): value for key, value in pairs if type(key) is not list}


def _of_objects(entry: Entry) -> list[Form]:
    pairs = zip(entry.get(KEYS, ()), entry.get(VALUES, ()), strict=True)
    return [value for key, value in pairs if type(key) is list]


def _data(entry: Entry) -> str:
    return shortened(f"{entry[TAG]} {dumps(entry.get(DATA))}", 200)


def _names(named: dict[str, Form]) -> str:
    return shortened(", ".join(named), 200)
