"""The stored form of a state: JSON, one table of objects, in which every object stands once.

    {"format": 1, "root": [0], "objects": [{"$t": "shop:Agent", "a": {"_open": [1]}}, {"$t": "list", "i": ["x", [0]]}]}

A form is a JSON scalar (text, number, true, false, null), a reference `[n]` to the n-th object of the table, or an object
with `$t` for any other value without parts (a date, a Decimal, an enum's member, a class), as the codec writes it. An
entry of the table has its kind or class in `$t`, and its parts under the letters below. Objects that have an identity
are numbered as they are met, so that one object referred to twice is one entry, and cycles end. Values that have none
(tuples, frozensets, frozen dataclasses that compare by content) are entries too, equal ones the same. The table is flat,
however deep the state is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

from autogen_eventlog.codec.primitives import BIG, INFINITY, encode_float, encode_int, encode_text
from autogen_eventlog.codec.wire import TAG, VERSION, Malformed, dumps, refuse_constant
from autogen_eventlog.errors import PayloadCorrupt
from autogen_eventlog.state.parts import PARTS

FORMAT: Final = 1
ATTRIBUTES: Final = "a"
ITEMS: Final = "i"
KEYS: Final = "k"
VALUES: Final = "v"
ELEMENTS: Final = "e"
WEAK: Final = "w"
DATA: Final = "d"
ORDER: Final = "o"
"""In which order a set gave its elements, where their hashes tell and it would not by itself. No part of the digest."""
ROOM: Final = "r"
"""How many slots the table of such a set had. No part of the digest either."""
LISTS: Final = frozenset(PARTS)
WIRING: Final = "wiring"
"""The kind of an entry that stands for something outside; its data is its class, and what tells it from others."""
SHOWN: Final = "shown"
"""The kind of an entry that stands for an object without data; its data is the name that shows it: `module:qualname`."""

Form = Any
Entry = dict[str, Any]

__all__ = ["BIG", "INFINITY", "TAG", "Malformed", "dumps", "encode_float", "encode_int", "encode_text"]


def document(root: Form, objects: list[Entry]) -> bytes:
    """The bytes of a state."""
    return dumps({"format": FORMAT, "root": root, "objects": objects}).encode("ascii")


def number_of(form: Form) -> int | None:
    """The number that a reference gives; None of any other form."""
    return cast("list[int]", form)[0] if type(form) is list else None


def unordered(objects: list[Entry]) -> list[Entry]:
    """The table without what the digest leaves out."""
    return [{key: part for key, part in entry.items() if key not in (ORDER, ROOM)} for entry in objects]


@dataclass(frozen=True, slots=True)
class Stored:
    """A state as it was read: well-formed, nothing decoded.

    Attributes:
        root: the number of the agent.
        entries: the table of objects.
        references: for each entry, the numbers of the objects that it refers to, in order.
    """

    root: int
    entries: list[Entry]
    references: list[list[int]]


def parsed(data: bytes, where: str) -> Stored:
    """A stored state.

    Raises:
        PayloadCorrupt: it is not the stored form of a state.
    """
    try:
        stored: Any = json.loads(str(data, "utf-8"), parse_constant=refuse_constant)
        return _stored(stored)
    except Malformed as problem:
        raise PayloadCorrupt(where, problem.problem) from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise PayloadCorrupt(where, f"{type(error).__name__}: {error}") from None


def _stored(stored: Any) -> Stored:
    if not isinstance(stored, dict):
        raise Malformed("it is not an object")
    found = cast("dict[str, Any]", stored)
    if found.get("format") != FORMAT:
        raise Malformed(f"its format is {found.get('format')!r}, this version reads {FORMAT}")
    root, entries = found["root"], found["objects"]
    if type(entries) is not list or type(root) is not list:
        raise Malformed("its objects are not a list, or its root is no reference")
    entries = cast("list[Entry]", entries)
    references = [_references(entry) for entry in entries]
    references.append(_numbers([root]))
    if any(not 0 <= number < len(entries) for numbers in references for number in numbers):
        raise Malformed("it refers to an object that is not there")
    return Stored(references.pop()[0], entries, references)


def _references(entry: Any) -> list[int]:
    if type(entry) is not dict or type(cast(Entry, entry).get(TAG)) is not str:
        raise Malformed(f"{entry!r} is no object")
    entry = cast(Entry, entry)
    found: list[int] = []
    for letter, part in entry.items():
        if letter in LISTS and type(part) is list:
            found += _numbers(cast("list[Form]", part))
        elif letter == ATTRIBUTES and type(part) is dict:
            found += _numbers(cast("dict[str, Form]", part).values())
        elif letter not in (TAG, DATA, ORDER, ROOM, VERSION):
            raise Malformed(f"an object of {entry[TAG]!r} has {letter!r}")
    if len(entry.get(KEYS, ())) != len(entry.get(VALUES, ())):
        raise Malformed("it has not as many keys as values")
    return found


def _numbers(forms: Iterable[Form]) -> list[int]:
    found: list[int] = []
    for form in forms:
        if type(form) is list:
            (number,) = cast("list[Any]", form)
            if type(number) is not int:
                raise Malformed(f"{form!r} is no reference")
            found.append(number)
    return found
