"""An agent's whole state, taken without its cooperation."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, cast
from weakref import WeakKeyDictionary, WeakSet

from autogen_eventlog.codec import Codec
from autogen_eventlog.codec.names import type_name
from autogen_eventlog.errors import NotCapturable
from autogen_eventlog.state.form import document, unordered
from autogen_eventlog.state.kinds import Kinds, two_of
from autogen_eventlog.state.parts import NotState
from autogen_eventlog.state.pause import undisturbed
from autogen_eventlog.state.shown import Shown
from autogen_eventlog.state.walk import Walk


@dataclass(frozen=True, slots=True)
class CapturedState:
    """A state as it is stored.

    Attributes:
        data: JSON in ASCII; the same bytes for the same state in every process, whatever the seed of hashes.
        digest: SHA-256 of it, in hex, but for the order in which sets of numbers give their elements.
        wiring: paths of what stands for the outside, and is left to the instance that the state is loaded into.
    """

    data: bytes
    digest: str
    wiring: tuple[str, ...]


def capture(
    agent: object, codec: Codec, *, outside: Collection[object] = (), wiring: tuple[type, ...] = ()
) -> CapturedState:
    """The whole state of an agent: every attribute, nested, with shared references and cycles (G3).

    It runs at once, without awaiting, and runs no code of the agent's classes.

    Args:
        codec: knows the classes that the program registered functions for.
        outside: objects that the agent was given and shares with others, such as a queue to them: wiring.
        wiring: classes whose objects are wiring, beside those that are known.

    Raises:
        NotCapturable: something in it is neither data nor wiring. All such places are named, up to a bound (G11).
    """
    kinds = Kinds(codec, wiring)
    walk = Walk(kinds, outside)
    with undisturbed():
        root = walk.run(agent)
        if kinds.hidden and not walk.problems:
            _check_names(agent, walk, kinds, codec)
        data = document(root, walk.entries)
        digested = document(root, unordered(walk.entries)) if walk.has_orders else data
    if walk.problems:
        places = tuple((one.path, one.found, one.reason, one.remedy) for one in walk.problems)
        raise NotCapturable(type_name(type(agent)), places)
    return CapturedState(
        data, sha256(digested).hexdigest(), tuple(walk.path(walk.objects[number]) for number in walk.wiring)
    )


_clear: WeakKeyDictionary[type, WeakSet[type]] = WeakKeyDictionary()
"""By class of agent, classes that no module shows and to which their names were found to lead; loading looks again."""


def _check_names(agent: object, walk: Walk, kinds: Kinds, codec: Codec) -> None:
    """That the agent's code leads from the name of a class that no module shows to that class only, as on loading."""
    clear = _clear.setdefault(type(agent), WeakSet())
    if all(cls in clear for cls in kinds.hidden.values()):
        return
    shown = Shown(agent, walk, kinds, codec)
    doubled = {cls: NotState(*two_of(name)) for name, cls in kinds.hidden.items() if shown.others(name, cls)}
    clear.update(cls for cls in kinds.hidden.values() if cls not in doubled)
    for number, value in enumerate(walk.objects if doubled else ()):
        if (problem := doubled.pop(cast("type[Any]", type(value)), None)) is not None:
            walk.refuse(number, problem)
    for problem in doubled.values():  # of classes that are referred to, or whose objects are leaves
        walk.refuse(0, problem)
