"""Objects that a message holds in more than one place: one definition, then references to it.

A handler that changes an object through one of its places sees the change through the others. Replay has to show it the
same (G3), so identity is part of the value. Only messages that share pay for this.
"""

from __future__ import annotations

from typing import cast

from autogen_eventlog.codec.wire import DATA, EXTRA, TAG, Node, Refusal

DEFINITION = "def"
REFERENCE = "ref"
NUMBER = "id"


def number(form: object, shared: set[int]) -> object:
    """A copy of `form` in which every form whose `id()` is in `shared` stands once and is referred to after that.

    Raises:
        Refusal: a form contains itself.
    """
    return _Numbering(shared).copy(form)


class _Numbering:
    def __init__(self, shared: set[int]) -> None:
        self._shared = shared
        self._numbers: dict[int, int] = {}
        self._open: set[int] = set()

    def copy(self, form: object) -> object:
        key = id(form)
        if key not in self._shared:
            return self._children(form)
        if key in self._open:
            raise Refusal(_kind(form), "it contains itself")
        if key in self._numbers:
            return {TAG: REFERENCE, NUMBER: self._numbers[key]}
        self._numbers[key] = defined = len(self._numbers)
        self._open.add(key)
        content = self._children(form)
        self._open.discard(key)
        return {TAG: DEFINITION, NUMBER: defined, DATA: content}

    def _children(self, form: object) -> object:
        if isinstance(form, list):
            return self._list(cast("list[object]", form))
        if isinstance(form, dict):
            return self._object(cast(Node, form))
        return form

    def _list(self, form: list[object]) -> list[object]:
        out: list[object] = []
        try:
            for item in form:
                out.append(self.copy(item))
        except Refusal as refusal:
            refusal.path.append(len(out))
            raise
        return out

    def _object(self, form: Node) -> Node:
        out: Node = {}
        key = ""
        try:
            for key, item in form.items():
                out[key] = self.copy(item)
        except Refusal as refusal:
            if TAG not in form or key != DATA:
                refusal.path.append("." + key.removeprefix(EXTRA))
            raise
        return out


def _kind(form: object) -> str:
    if isinstance(form, dict):
        return str(cast(Node, form).get(TAG, "dict"))
    return type(form).__name__
