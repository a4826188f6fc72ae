"""What a factory puts into every instance it makes, and how instances beside the live one get something of their own.

AgentChat's teams register factories that close over a participant, so each container they make holds the same one. The
instance that lives is given it, as on AutoGen's runtime; people hold references to it. A view, a trial or a replay that is
to take the live one's place is given a copy of what it was before it lived: what is done there must not reach the agent.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from autogen_core import Agent, AgentId, AgentRuntime

from autogen_eventlog.ids import EventIds
from autogen_eventlog.incarnation.incarnation import Incarnation, current_delivery
from autogen_eventlog.runtime.elsewhere import Making, own_parts, there_before, told_parts, topmost
from autogen_eventlog.runtime.pristine import Pristine, empty
from autogen_eventlog.runtime.reach import behind, led_to
from autogen_eventlog.runtime.replacing import Replacing, attribute_of, held_on

logger = logging.getLogger(__name__)

_TEAMS = "autogen_agentchat.teams."
"""Where the managers of AgentChat's teams come from; their queue is for who runs the team."""

_NOT_SHARED = (
    str,
    bytes,
    int,
    float,
    type(None),
    type,
    types.ModuleType,
    types.BuiltinFunctionType,
    AgentRuntime,
    AgentId,
)
_PLAIN = (list, dict, set, tuple, frozenset)
_CALLABLES = (types.FunctionType, types.MethodType, functools.partial)


class SharedObjects:
    """The objects that instances of one agent type get from their factory, by agent."""

    def __init__(self, factory: Callable[[], Any]) -> None:
        self._factory = factory
        self._captured = {id(value): value for value in captured(factory)}
        self._made: type[Agent] | None = None
        self._pristine: dict[AgentId, Pristine] = {}
        self._common: Pristine | None = None
        """Of all agents that hold nothing but what is in it."""
        self._given: set[AgentId] = set()
        self._outputs: set[str] = set()
        self._unseen: frozenset[str] = frozenset()
        """Paths to what the constructor found somewhere, where its code does not say so."""
        self._live: dict[AgentId, weakref.ref[Agent]] = {}
        self._warned: set[str] = set()
        self.any = False
        """Whether an instance was seen that has one the factory has at hand, itself. (Plain containers don't count.)"""

    def at_hand(self, agent_id: AgentId, own: tuple[type, ...]) -> dict[int, Any] | None:
        """What the factory has at hand before it makes another instance of an agent; None before the first.

        For that one, it is looked at afterwards: a factory may keep what it makes for each agent. Of the others that would
        be too much: a constructor may note its instance's parts somewhere, and they are shared with nobody.

        Args:
            own: Classes of boundaries that are the agent's own state.
        """
        if self._made is None or agent_id not in self._pristine:
            return None
        there = behind(led_to(self._factory, self._made), but=None, own=own).held
        return there | self._pristine[agent_id].known | self._captured

    @property
    def is_first(self) -> bool:
        """Whether no instance of the type has been made yet."""
        return self._made is None

    def separate(
        self,
        agent: Agent,
        agent_id: AgentId,
        incarnation: Incarnation,
        at_hand: dict[int, Any] | None,
        making: Making | None,
    ) -> frozenset[str]:
        """Give a new instance its own copies, unless it is the first that is to live.

        Nothing is copied but what it has in common with others: a helper that is made for each instance stays as it is, and
        is given a copy of the store that all of their helpers have.

        Returns:
            The names of the attributes that lead to something that is shared.

        Raises:
            NotRestorable: A copy is needed, and what the factory shares can't be copied.
        """
        self._made, own = type(agent), incarnation.effects_own
        if at_hand is None:
            at_hand = behind(led_to(self._factory, self._made), but=agent, own=own).held | self._captured
            at_hand |= self._found_elsewhere(agent, at_hand, making)
        held = held_on(agent, at_hand, own)
        self._separate_from_live(agent, agent_id, incarnation, at_hand)
        if agent_id not in self._pristine:
            if not held:
                return frozenset()
            self._pristine[agent_id] = self._pristine_of(agent, held, own)
        direct = {name: value for name, value in vars(agent).items() if id(value) in self._captured}
        self.any = self.any or any(type(value) not in _PLAIN for value in direct.values())
        queues = _queues(direct)
        self._outputs.update(queues)
        if not incarnation.continues or agent_id in self._given:
            instead = self._pristine[agent_id].again(agent, agent_id, held)
            Replacing(instead, own).run(agent)
            borrowed = {path: instead[id(value)] for path, value in held.items()}
        else:
            borrowed = dict(held)
        if not _is_of_team(agent):  # whose participants and conditions hang on it alone, whoever made them
            incarnation.borrowed = borrowed
        if incarnation.continues:
            self._given.add(agent_id)
            _only_when_live(agent, queues, incarnation)
        else:
            of_its_own = {name: vars(agent)[name] for name in queues}
            vars(agent).update(_for_readers(agent, of_its_own, incarnation))
        return frozenset(attribute_of(path) for path in (*held, *self._pristine[agent_id].paths))

    def _found_elsewhere(self, agent: Agent, at_hand: dict[int, Any], making: Making | None) -> dict[int, Any]:
        """What the constructor found somewhere, where its code does not say so: it was there before the instance was.

        Which it is, is seen of the type's first instance; of others it is taken to be at the same places.
        """
        if making is not None:
            found = there_before(agent, making.made, at_hand)
            self._unseen = frozenset(found)
        else:
            found = {path: value for path, value in own_parts(agent, at_hand) if path in self._unseen}
        return {id(value): value for value in found.values()}

    def _separate_from_live(
        self, agent: Agent, agent_id: AgentId, incarnation: Incarnation, at_hand: dict[int, Any]
    ) -> None:
        """The last resort: what an instance has in common with the one that lives, whichever way it came to it.

        What it was before that one lived, nobody knows any more: it is copied as it is now.
        """
        live = self._live[agent_id]() if agent_id in self._live else None
        if incarnation.continues:
            self._live[agent_id] = weakref.ref(agent)
        if live is None:
            return
        its = {id(value) for _, value in told_parts(live, at_hand)}
        common = topmost({path: value for path, value in told_parts(agent, at_hand) if id(value) in its})
        if not common:
            return
        own = incarnation.effects_own
        Replacing(Pristine(agent, common, own).again(agent, agent_id, common), own).run(agent)
        for path in common.keys() - self._warned:
            self._warned.add(path)
            logger.warning(
                "%s: each instance is given the same %s, in a way that can't be seen. Views, proofs of snapshots and restores "
                "have a copy of it as it is now, and may be wrong. Let the factory give it to the constructor",
                agent_id,
                path,
            )

    def _pristine_of(self, agent: Agent, held: dict[str, Any], own: tuple[type, ...]) -> Pristine:
        """One for all agents of the type that hold the same: it is what a new process would give to each."""
        if self._common is not None and self._common.is_of(held):
            return self._common
        made = Pristine(agent, held, own)
        if not made.leads_back:
            self._common = made
        return made

    def outputs(self, agent: Agent) -> tuple[object, ...]:
        """The queues to others that an instance was given, or those that stand in their place."""
        return tuple(vars(agent)[name] for name in sorted(self._outputs) if name in vars(agent))


def captured(factory: Callable[[], Any]) -> Iterator[Any]:
    """The objects that a factory has at hand before it is called: in its closure, arguments, `self` and globals."""
    pending: list[Any] = [factory]
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, _CALLABLES):
            pending.extend(_behind(value))
        elif not isinstance(value, _NOT_SHARED):
            yield value


def _behind(function: Any) -> Iterator[Any]:
    if isinstance(function, functools.partial):
        yield from (function.func, *function.args, *function.keywords.values())
    elif isinstance(function, types.MethodType):
        yield from (function.__func__, function.__self__)
    else:
        for cell in function.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # a name that is not assigned yet
                continue
        yield from (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        for name in function.__code__.co_names:
            value = function.__globals__.get(name)
            if not isinstance(value, _CALLABLES):
                yield value


def _queues(held: dict[str, Any]) -> dict[str, asyncio.Queue[Any]]:
    """A queue to others is an output: an instance that does not live has one of its own, which nobody reads."""
    return {name: value for name, value in held.items() if isinstance(value, asyncio.Queue)}


class _OfRunsHere:
    """The queue in which an AgentChat team finds what its run has to say, as the team's manager has it.

    Who ran the team in a process that is gone waits no more. What that run still says before the team is run here is in the
    log; in the queue, the next run would take it for its own, up to the end that it finds there. From when the team is
    run here everything goes through: a run that begins while the old one goes on is one with it in the manager.
    """

    def __init__(self, queue: asyncio.Queue[Any], incarnation: Incarnation) -> None:
        self._queue = queue
        self._incarnation = incarnation

    async def put(self, item: Any) -> None:
        if self._is_awaited(item):
            await self._queue.put(item)

    def put_nowait(self, item: Any) -> None:
        if self._is_awaited(item):
            self._queue.put_nowait(item)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def _is_awaited(self, item: Any) -> bool:
        delivery = current_delivery()
        here = delivery is None or delivery.correlation is None or EventIds.made_here(delivery.correlation)
        if here or self._incarnation.heard_here:
            return True
        logger.info(
            "%s: a run of an earlier process goes on, and said: %s", self._incarnation.stream, type(item).__name__
        )
        return False


def _is_of_team(agent: Agent) -> bool:
    return any(cls.__module__.startswith(_TEAMS) for cls in type(agent).__mro__)


def _for_readers(agent: Agent, queues: dict[str, asyncio.Queue[Any]], incarnation: Incarnation) -> dict[str, Any]:
    """Queues to others, as an agent is to have them."""
    if not _is_of_team(agent):
        return dict(queues)
    return {name: _OfRunsHere(queue, incarnation) for name, queue in queues.items()}


def _only_when_live(agent: Agent, queues: dict[str, asyncio.Queue[Any]], incarnation: Incarnation) -> None:
    """Replay fills no queue that others read."""
    to_readers = _for_readers(agent, queues, incarnation)
    if incarnation.live:
        vars(agent).update(to_readers)
    elif queues:
        to_nobody = {name: empty(queue) for name, queue in queues.items()}
        vars(agent).update(_for_readers(agent, to_nobody, incarnation))
        incarnation.when_live.append(lambda: vars(agent).update(to_readers))
