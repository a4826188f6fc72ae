"""From stored JSON to values.

`Decoders` is the table from tag to function; the C parser calls it for each object as it closes, so children come first
and no Python code walks lists. `Reader` does the same by hand, more slowly: it knows where it is, follows references
and can leave unknown types opaque.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import cast

from autogen_eventlog.codec.kinds import BUILTIN_DECODERS
from autogen_eventlog.codec.opaque import Opaque
from autogen_eventlog.codec.sharing import DEFINITION, NUMBER, REFERENCE
from autogen_eventlog.codec.wire import (
    DATA,
    EXTRA,
    MAX_NESTING,
    TAG,
    Decode,
    Malformed,
    Node,
    Unknown,
    dumps,
    refuse_constant,
)

_ABSENT = object()
_DEEPEST = 2 * MAX_NESTING + 2
"""Each level of a message may be wrapped into a definition."""


class Decoders(dict[object, Decode]):
    """From tag to decoder; finds the class of a name that it meets the first time."""

    def __init__(self, find: Callable[[str], Decode | None]) -> None:
        super().__init__()
        self.forget()
        self._find = find

    def __missing__(self, tag: object) -> Decode:
        if not isinstance(tag, str) or ":" not in tag:
            raise Malformed(f"unknown tag {tag!r}")
        found = self._find(tag)
        if found is None:
            raise Unknown(tag)
        self[tag] = found
        return found

    def forget(self) -> None:
        """Drop what was found, because the registry changed."""
        self.clear()
        self.update(BUILTIN_DECODERS)


def parser(decoders: Decoders) -> Callable[[str], object]:
    """JSON text to the value it stands for. Raises anything at all if it isn't what the codec writes."""

    def close(node: Node) -> object:
        tag = node.pop(TAG, _ABSENT)
        return node if tag is _ABSENT else decoders[tag](node)

    return json.JSONDecoder(object_hook=close, parse_constant=refuse_constant).decode


class Reader:
    """Reads one payload by hand."""

    def __init__(self, decoders: Decoders, *, opaque: bool) -> None:
        self._decoders = decoders
        self._opaque = opaque
        self._defined: dict[int, object] = {}

    def read(self, stored: object, depth: int = 0) -> object:
        """The value that parsed JSON stands for.

        Raises:
            Malformed: it isn't what the codec writes.
            Unknown: it names a class that is not allowed here.
        """
        if depth > _DEEPEST:
            raise Malformed(f"it is nested deeper than {_DEEPEST} levels")
        if isinstance(stored, list):
            return self._list(cast("list[object]", stored), depth + 1)
        if isinstance(stored, dict):
            return self._object(cast(Node, stored), depth + 1)
        return stored

    def _list(self, stored: list[object], depth: int) -> list[object]:
        out: list[object] = []
        try:
            for item in stored:
                out.append(self.read(item, depth))
        except (Malformed, Unknown) as problem:
            problem.path.append(len(out))
            raise
        return out

    def _object(self, stored: Node, depth: int) -> object:
        children: Node = {}
        key = ""
        try:
            for key, item in stored.items():
                children[key] = self.read(item, depth)
        except (Malformed, Unknown) as problem:
            if TAG not in stored:
                problem.path.append(f"[{key!r}]")
            elif key != DATA:
                problem.path.append("." + key.removeprefix(EXTRA))
            raise
        tag = children.pop(TAG, _ABSENT)
        return children if tag is _ABSENT else self._tagged(tag, children, stored)

    def _tagged(self, tag: object, children: Node, stored: Node) -> object:
        if tag == DEFINITION:
            return self._define(children)
        if tag == REFERENCE:
            return self._refer(children)
        try:
            return self._decoders[tag](children)
        except Unknown:
            if not self._opaque:
                raise
            return Opaque(str(tag), dumps(stored).encode("ascii"))
        except Malformed:
            raise
        except Exception as error:
            raise Malformed(f"{type(error).__name__}: {error} in {tag!r}") from error

    def _define(self, node: Node) -> object:
        if set(node) != {NUMBER, DATA} or type(node[NUMBER]) is not int or node[NUMBER] in self._defined:
            raise Malformed("a shared object is defined wrongly")
        self._defined[node[NUMBER]] = node[DATA]
        return node[DATA]

    def _refer(self, node: Node) -> object:
        if set(node) != {NUMBER} or type(node[NUMBER]) is not int or node[NUMBER] not in self._defined:
            raise Malformed("a reference to a shared object that is not defined before it")
        return self._defined[node[NUMBER]]
