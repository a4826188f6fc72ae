"""What an object is made of: attributes, items, pairs, elements, and plain data that hangs on nothing else.

Every kind of object gives its parts live and takes them back, so that walking, matching, comparing and naming a place are
written once. In the stored form the same parts stand under one letter each (see `form`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

PARTS: Final = {"i": "items", "k": "keys", "v": "values", "e": "elements", "w": "weak"}
"""The lists among the parts, by the letters under which they are stored."""
_TEXT: Final = (str, int, float, bytes, bool, type(None))


@dataclass(slots=True)
class Parts:
    """The parts of one object. None: objects of this kind have no such part."""

    attributes: dict[str, Any] | None = None
    items: list[Any] | None = None
    keys: list[Any] | None = None
    values: list[Any] | None = None
    elements: list[Any] | None = None
    """Of a set: without an order of their own."""
    order: list[int] | None = None
    """Positions of the elements in the order in which they came, where that is a matter of the set's past alone."""
    room: int | None = None
    """How many slots the table of a set has."""
    weak: list[Any] | None = None
    """What it refers to without keeping it alive."""
    unordered: bool = False
    """Whether what is weakly held has no order of its own."""
    lender: Any = None
    """An object whose memory it uses."""
    data: Any = None
    """JSON that the kind itself reads and writes."""

    def all(self) -> Iterator[Any]:
        """Every part that is an object, in order; weak ones are not among them."""
        for group in (self.items, self.keys, self.values, self.elements):
            if group is not None:
                yield from group
        if self.attributes is not None:
            yield from self.attributes.values()

    def step_to(self, part: object) -> str:
        """Where in it a part stands, as code says it: `.name`, `[3]`, `['key']`."""
        for name, value in (self.attributes or {}).items():
            if value is part:
                return attribute_step(name)
        for at, value in enumerate(self.items or ()):
            if value is part:
                return f"[{at}]"
        for key, value in zip(self.keys or (), self.values or (), strict=False):
            if value is part:
                return f"[{key_text(key)}]"
        kinds = ((self.keys, " (a key)"), (self.elements, " (an element)"), (self.weak, " (weakly held)"))
        return next((text for group, text in kinds if any(value is part for value in group or ())), "")


def attribute_step(name: str) -> str:
    """One attribute, as a step of a path."""
    return f".{name}" if name.isidentifier() else f".<{name}>"


def key_text(key: object) -> str:
    """A key of a dict, without asking a class of the agent's for its text."""
    if type(key) in _TEXT:
        text = repr(key)
        return text if len(text) <= 60 else f"{text[:57]}..."
    return f"a {type(key).__qualname__}"


class NotState(Exception):
    """An object is neither data nor wiring. It says why, and what can be done."""

    KEEP_OUT: ClassVar[str] = "Keep it out of the agent's attributes, or let the constructor make it from plain data"

    def __init__(self, reason: str, remedy: str = KEEP_OUT) -> None:
        super().__init__(reason, remedy)
        self.reason = reason
        self.remedy = remedy
