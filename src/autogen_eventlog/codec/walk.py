"""One pass through a live value: the hot loop of encoding."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from autogen_eventlog.codec.primitives import BIG, INFINITY, encode_float, encode_int, encode_text
from autogen_eventlog.codec.wire import MAX_NESTING, Refusal

Live = Any
"""A live value, of the class that the encoder was compiled for."""


class Walk:
    """The state of one pass.

    `seen` maps the `id()` of each mutable object to its stored form. An encoder enters the form before it fills it, so
    cycles end; an object met again gives the same form again, and `sharing.number` makes references of those in
    `shared`.
    """

    __slots__ = ("_encoders", "_kept", "seen", "shared")

    def __init__(self, encoders: dict[type, Encode]) -> None:
        self._encoders = encoders
        self._kept: list[object] = []
        self.seen: dict[int, object] = {}
        self.shared: set[int] = set()

    def again(self, value: object) -> object:
        """The form of an object that was met before, which is thereby shared."""
        form = self.seen[id(value)]
        self.shared.add(id(form))
        return form

    def one(self, value: Live, depth: int) -> object:
        """The stored form of one value, which may be made for the purpose; adds no step to a refusal's path."""
        self._kept.append(value)  # were a temporary freed before the pass ends, another object could get its id()
        try:
            return self.fill([], (value,), depth)[0]
        except Refusal as refusal:
            del refusal.path[-1:]
            raise

    def fill(self, out: list[object], values: Iterable[Live], depth: int) -> list[object]:
        """Append the stored form of each of `values`, which stand at nesting level `depth`, and return `out`.

        The commonest types are told apart here rather than looked up: a call a value would double the time.

        Raises:
            Refusal: with the position of the value in its path.
        """
        if depth > MAX_NESTING:
            raise _too_deep(out)
        append, encoders = out.append, self._encoders
        try:
            for value in values:
                kind = type(value)  # pyright: ignore[reportUnknownVariableType]
                if kind is str:
                    append(value if value.isascii() else encode_text(value))
                elif kind is int:
                    append(value if -BIG < value < BIG else encode_int(value))
                elif value is None or kind is bool:
                    append(value)
                elif kind is float:
                    append(value if -INFINITY < value < INFINITY else encode_float(value))
                else:
                    append(encoders[kind](value, self, depth))
        except Refusal as refusal:
            refusal.path.append(len(out))
            raise
        return out


Encode = Callable[[Live, Walk, int], object]
"""Value, pass, the nesting level at which the form stands."""


def _too_deep(out: list[object]) -> Refusal:
    return Refusal(type(out).__name__, f"it is nested deeper than {MAX_NESTING} levels of JSON")
