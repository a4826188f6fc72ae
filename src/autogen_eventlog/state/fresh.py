"""What a factory has just made: the data in a fresh instance, where reading it costs next to nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from autogen_eventlog.codec import Codec
from autogen_eventlog.errors import NotCapturable
from autogen_eventlog.incarnation.making import summary
from autogen_eventlog.state.capture import capture
from autogen_eventlog.state.form import (
    ATTRIBUTES,
    DATA,
    ITEMS,
    KEYS,
    TAG,
    VALUES,
    WIRING,
    Form,
    Stored,
    number_of,
    parsed,
)
from autogen_eventlog.state.parts import attribute_step
from autogen_eventlog.state.places import key_text

_LARGEST = 20_000
"""Bytes of a state that is looked at."""
_LONGEST_SECONDS = 0.05
"""Of the processor, for one instance; the first of a class takes longer than those after it."""
_OWN_ID = "self._id"
"""The same in all instances of an agent, and another in those that have its past under another id."""

_dear: set[type] = set()


def made_of(agent: object, codec: Codec) -> dict[str, Any]:
    """The values in a fresh instance, by path; nothing of a class whose instances are large, or are no data.

    It runs no code of the agent's classes.
    """
    if type(agent) in _dear:
        return {}
    began = time.thread_time()
    try:
        data = capture(agent, codec).data
        values = summary(_leaves(parsed(data, "fresh instance"))) if len(data) <= _LARGEST else {}
    except NotCapturable:
        values = {}
    if not values or time.thread_time() - began > _LONGEST_SECONDS:
        _dear.add(type(agent))
    return values


def _leaves(stored: Stored) -> Iterator[tuple[str, Form]]:
    """Values without parts, by path, the nearest to the agent first."""
    seen = {stored.root}
    pending = [("self", stored.root)]
    while pending:
        path, number = pending.pop(0)
        entry = stored.entries[number]
        if DATA in entry:  # of any shape, that of a reference too
            yield f"{path} ({entry[TAG]})", entry[DATA]
        for place, form in _parts(path, entry):
            inner = number_of(form)
            if place == _OWN_ID or inner in seen:
                continue
            if inner is None:
                yield place, form
            elif stored.entries[inner][TAG] != WIRING:
                seen.add(inner)
                pending.append((place, inner))


def _parts(path: str, entry: dict[str, Any]) -> Iterator[tuple[str, Form]]:
    for name, form in entry.get(ATTRIBUTES, {}).items():
        yield path + attribute_step(name), form
    for key, form in zip(entry.get(KEYS, ()), entry.get(VALUES, ()), strict=True):
        if number_of(key) is None:
            yield f"{path}[{key_text(key)}]", form
    for at, form in enumerate(entry.get(ITEMS, ())):
        yield f"{path}[{at}]", form
