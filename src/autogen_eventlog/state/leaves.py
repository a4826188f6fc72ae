"""Stored forms of values without parts, back to values."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, cast

from autogen_eventlog.codec import primitives, scalars, times
from autogen_eventlog.codec.enums import enum_plan
from autogen_eventlog.codec.wire import TAG, Malformed, Unknown, sole
from autogen_eventlog.state.form import Form
from autogen_eventlog.state.kinds import CONSTANTS
from autogen_eventlog.state.shown import Shown

_PLAIN: Final = {**primitives.DECODERS, **scalars.DECODERS, **times.DECODERS}


class Leaves:
    """Decodes the leaves of one state.

    Args:
        own_id: what the agent's own id is here.
    """

    def __init__(self, shown: Shown, own_id: Any) -> None:
        self._shown = shown
        self._special: dict[str, Callable[[dict[str, Any]], Any]] = {
            "id": lambda node: own_id,
            "class": self._referred,
            "function": self._referred,
            "module": _module,
            "constant": lambda node: CONSTANTS[sole(node, str)],
            "logger": lambda node: logging.getLogger(sole(node, str)),
        }

    def value(self, form: Form) -> Any:
        """The value of a form that is no reference.

        Raises:
            Malformed: it is not what is written.
            Unknown: it names what may not be named.
        """
        if type(form) is list:
            return [self.value(one) for one in cast("list[Form]", form)]
        if type(form) is not dict:
            return form
        node = dict(cast("dict[str, Any]", form))
        tag = node.pop(TAG, None)
        if tag in self._special:
            return self._special[tag](node)
        node = {key: self.value(one) for key, one in node.items()}
        if tag in _PLAIN:
            return _PLAIN[tag](node)
        return self._member(str(tag), node)

    def _member(self, name: str, node: dict[str, Any]) -> Any:
        cls = self._shown.made(name) if ":" in name else None
        if cls is None:
            raise Unknown(name)
        if not issubclass(cls, Enum):
            raise Malformed(f"class {name!r} is no enum")
        return enum_plan(cls, name).decode(node)

    def _referred(self, node: dict[str, Any]) -> Any:
        name = sole(node, str)
        found = self._shown.referred(name)
        if found is None:
            raise Unknown(name)
        return found


def _module(node: dict[str, Any]) -> Any:
    name = sole(node, str)
    if name not in sys.modules:
        raise Unknown(name)
    return sys.modules[name]
