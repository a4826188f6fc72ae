"""The stored form: JSON, in which one reserved key marks what JSON can't say.

An object without `TAG` is a plain dict. With it, `TAG` is either a short word of this package (`tuple`, `datetime`) or
the `module:qualname` of a class; a dict that itself holds `TAG` is stored as pairs, so the two can't be confused.
"""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable
from typing import Any, TypeVar, cast

TAG = "$t"
DATA = "v"
EXTRA = "$."
"""Before the name of an instance attribute that is not a field: no identifier begins with `$`."""
SET = "$set"
"""`model_fields_set` of a pydantic model, where it isn't all fields."""
VERSION = "$v"
"""The version of a class, where it has had more than one."""
UPCAST = "$up"
"""Never stored: upcasters have made this node, and know nothing of the order in which attributes were set."""
UNSET = "$unset"
"""Names of the fields that the instance did not have (deleted, or `init=False` and never set)."""

MAX_NESTING = 200
"""Levels of JSON. A pass uses at most two Python frames a level: under the usual 1,000, with room for callers."""

Node = dict[str, Any]
"""A tagged JSON object without its tag, its children already decoded."""
Decode = Callable[[Node], object]

T = TypeVar("T")


def _refuse_form(form: object) -> object:
    raise TypeError(f"no stored form has a {type(form).__name__} in it")


_ENCODER = json.JSONEncoder(
    ensure_ascii=True, check_circular=False, allow_nan=False, separators=(",", ":"), default=_refuse_form
)


def _make_dumps() -> Callable[[object], str]:
    # JSONEncoder.encode builds the C encoder again on every call: 40 % of the time of a small message
    make = cast(
        "Callable[..., Callable[[object, int], tuple[str, ...]]] | None", getattr(json.encoder, "c_make_encoder", None)
    )
    if make is None:
        return _ENCODER.encode
    encode = make(None, _refuse_form, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, False)
    return lambda form: "".join(encode(form, 0))


dumps = _make_dumps()
"""A stored form as JSON: ASCII only, no spaces, no NaN."""


class Refusal(Exception):
    """A value can't be stored exactly. Each container on the way out adds its step to `path`, innermost first."""

    def __init__(self, type_name: str, reason: str) -> None:
        super().__init__(type_name, reason)
        self.type_name = type_name
        self.reason = reason
        self.path: list[int | str] = []

    def name_step(self, names: list[str]) -> None:
        """Replace the position in the outermost container by its name; none if that container itself is at fault."""
        if self.path and isinstance(position := self.path[-1], int):
            self.path[-1] = names[position]


class Malformed(Exception):
    """A stored value is not what this package writes."""

    def __init__(self, problem: str, remedy: str | None = None) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy
        self.path: list[int | str] = []


class ShapeMismatch(Malformed):
    """What is stored is another shape of a class than today's, and nothing leads from one to the other."""


class Unknown(Exception):
    """A stored value names a class that may not be decoded here."""

    def __init__(self, type_name: str) -> None:
        super().__init__(type_name)
        self.type_name = type_name
        self.path: list[int | str] = []


def joined(root: str, path: list[int | str]) -> str:
    """`message.items[3].price` of a path that is innermost first."""
    return root + "".join(f"[{step}]" if isinstance(step, int) else step for step in reversed(path))


def sole(node: Node, kind: type[T]) -> T:
    """The one value that a node of a simple type carries; anything else in the node is corruption."""
    value = node.get(DATA)
    if len(node) != 1 or type(value) is not kind:
        raise Malformed(
            f"expected {DATA!r} of type {kind.__name__} alone, found {type(value).__name__} in {list(node)}"
        )
    return value


def sole_list(node: Node, kind: type[T], *, length: int | None = None) -> list[T]:
    """The list that a node carries, each item exactly of `kind` (`object`: of any type)."""
    values = cast("list[T]", sole(node, list))
    if length is not None and len(values) != length:
        raise Malformed(f"expected {length} items, found {len(values)}")
    if kind is not object and any(type(value) is not kind for value in values):
        raise Malformed(f"expected items of type {kind.__name__}")
    return values


def refuse_constant(name: str) -> object:
    """JSON has no NaN and no Infinity; this package stores them tagged."""
    raise Malformed(f"found {name}, which is not JSON")
