"""What one agent is given in common with others, as it was before any instance lived."""

from __future__ import annotations

import asyncio
import copy
import threading
import types
import weakref
from collections import deque
from collections.abc import Callable, Collection
from typing import Any, Final

from autogen_core import Agent, AgentId

from autogen_eventlog.effects.finding import find
from autogen_eventlog.effects.standins import cell_of
from autogen_eventlog.errors import NotRestorable
from autogen_eventlog.incarnation.boundary import Boundary
from autogen_eventlog.runtime.reach import attributes, behind
from autogen_eventlog.state.constants import Constants

_CONTAINERS: Final = (list, dict, set, deque, bytearray, asyncio.Queue)
_LOCKS: Final[dict[type, Callable[[], Any]]] = {type(make()): make for make in (threading.Lock, threading.RLock)}


class Pristine:
    """Copies of objects as they are now, from which others are made that hang together as these do.

    Args:
        agent: The instance on which they hang.
        held: The objects, by their paths on it.
        own: Classes of boundaries that are the agent's own state.
    """

    def __init__(self, agent: Agent, held: dict[str, Any], own: tuple[type, ...]) -> None:
        self._first = weakref.ref(agent)
        self.leads_back = id(agent) in behind(held.values(), but=None, own=own).held
        """Whether the instance hangs on what it holds: the copies are for this agent alone then."""
        self._at = dict(held)
        reach = behind(held.values(), but=agent, own=own)
        self._outside = {**_outside(agent), **_behind_stand_ins(reach.outside), **_constants(agent, reach.held)}
        self._cells = [value for value in reach.held.values() if isinstance(value, types.CellType)]
        self._empty = [value for value in reach.held.values() if _is_copied_empty(value, held)]
        self.known: dict[int, Any] = {}
        """The copies, by the ids of the originals. (A memo of `deepcopy`, which keeps those alive.)"""
        try:
            self._copy(agent, held)
        except Exception:  # a socket, a thread, whatever it holds: said when a copy is needed
            self._copy(agent, {path: value for path, value in held.items() if self._is_possible(agent, value)})
        self.known.pop(id(agent), None)  # else the first instance would stay for ever

    def is_of(self, held: dict[str, Any]) -> bool:
        """Whether these very objects were copied, from the same places."""
        return held.keys() == self._at.keys() and all(self._at[path] is value for path, value in held.items())

    @property
    def paths(self) -> Collection[str]:
        """Where the originals hung on the first instance."""
        return self._at.keys()

    def again(self, agent: Agent, agent_id: AgentId, held: dict[str, Any]) -> dict[int, Any]:
        """Copies for another instance, by the ids of what they take the place of.

        What the factory had not got before, the instance is given as it was at the same place, or as it is now.

        Raises:
            NotRestorable: One can't be copied.
        """
        memo = self._memo(agent, {id(self.known[id(value)]): empty(value) for value in self._empty})
        cells = [self.known[id(cell)] for cell in self._cells if id(cell) in self.known]
        memo.update({id(cell): types.CellType() for cell in cells})
        first = self._first()
        if first is not None:
            memo[id(first)] = agent
        instead: dict[int, Any] = {}
        for path, value in held.items():
            try:
                instead[id(value)] = copy.deepcopy(self._then(path, value), memo)
            except Exception:  # as above
                raise _not_copied(agent_id, path, value) from None
        _fill(cells, memo)
        return instead | {id(cell): memo[id(self.known[id(cell)])] for cell in self._cells if id(cell) in self.known}

    def _then(self, path: str, value: Any) -> Any:
        if id(value) in self.known:
            return self.known[id(value)]
        before = self._at.get(path, value)
        return self.known.get(id(before), before)

    def _memo(self, agent: Agent, empty: dict[int, Any]) -> dict[int, Any]:
        """What is not copied: the instance itself, what it asks of the outside, the running loop."""
        loop = asyncio.get_running_loop()
        return {**self._outside, **empty, id(agent): agent, id(loop): loop}

    def _copy(self, agent: Agent, held: dict[str, Any]) -> None:
        self.known = self._memo(agent, {id(value): empty(value) for value in self._empty})
        self.known.update({id(cell): types.CellType() for cell in self._cells})
        copy.deepcopy(list(held.values()), self.known)
        _fill(self._cells, self.known)

    def _is_possible(self, agent: Agent, value: Any) -> bool:
        try:
            copy.deepcopy(value, self._memo(agent, {id(one): empty(one) for one in self._empty}))
        except Exception:  # as above
            return False
        return True


def _fill(cells: Collection[types.CellType], memo: dict[int, Any]) -> None:
    """Give the copies of variables that functions rebind what a copy of their content is."""
    for cell in cells:
        for value in attributes(cell).values():
            memo[id(cell)].cell_contents = copy.deepcopy(value, memo)


def empty(value: Any) -> Any:
    """A queue without its content, or a lock that nobody has."""
    return _LOCKS[type(value)]() if type(value) in _LOCKS else type(value)(value.maxsize)


def _is_copied_empty(value: Any, held: dict[str, Any]) -> bool:
    """A queue that instances are given is an output: one that does not live has one of its own, which nobody reads."""
    return type(value) in _LOCKS or (isinstance(value, asyncio.Queue) and any(value is one for one in held.values()))


def _outside(agent: Agent) -> dict[int, Any]:
    """The models, tools and the like that hang on an instance, by id: copies ask the same ones."""
    found = find(agent)
    return {**found.boundaries, **_behind_stand_ins({id(one): one for one in found.stand_ins})}


def _constants(agent: Agent, held: dict[int, Any]) -> dict[int, Any]:
    """Sentinels among these, by id: without data, and shown under a constant's name. A copy would not be told to be one."""
    names = Constants()
    names.look_in(agent)
    bare = {key: one for key, one in held.items() if not isinstance(one, _CONTAINERS) and not attributes(one)}
    return {key: one for key, one in bare.items() if _is_constants((names.named(one) or "").rpartition(":")[2])}


def _is_constants(name: str) -> bool:
    return name.rpartition(".")[2].isupper()


def _behind_stand_ins(outside: dict[int, Any]) -> dict[int, Any]:
    """Of stand-ins, what is behind them: a copy of one has another cell."""
    real = [cell_of(value).wrapped if isinstance(value, Boundary) else value for value in outside.values()]
    return {id(value): value for value in real}


def _not_copied(agent_id: AgentId, path: str, value: Any) -> NotRestorable:
    problem = f"its factory gives every instance the same {path} ({type(value).__name__}), of which no copy can be made"
    return NotRestorable(str(agent_id), "a fresh instance", problem, "Let the factory make them anew")
