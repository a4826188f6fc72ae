"""How fresh instances of an agent are made."""

from __future__ import annotations

import copy
import inspect
import logging
import sys
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, Protocol

from autogen_core import EVENT_LOGGER_NAME, ROOT_LOGGER_NAME, Agent, AgentId, AgentInstantiationContext, AgentRuntime
from autogen_core.logging import AgentConstructionExceptionEvent

from autogen_eventlog.codec import Codec, TypeRegistry
from autogen_eventlog.effects import boundaries_of, capture
from autogen_eventlog.effects.ambient import install
from autogen_eventlog.effects.boundaries import RESULTS
from autogen_eventlog.effects.hermetic import watch
from autogen_eventlog.errors import NotRestorable
from autogen_eventlog.incarnation.facade import RuntimeFacade
from autogen_eventlog.incarnation.incarnation import Incarnation
from autogen_eventlog.runtime.elsewhere import Making
from autogen_eventlog.runtime.sharing import SharedObjects
from autogen_eventlog.state.fresh import made_of

_root_logger = logging.getLogger(ROOT_LOGGER_NAME)
_event_logger = logging.getLogger(EVENT_LOGGER_NAME)


class Blueprint(Protocol):
    """Makes instances of one agent type."""

    @property
    def agent_class(self) -> type | None:
        """The class, as far as it is known before an instance is made."""
        ...

    @property
    def shares(self) -> bool:
        """Whether instances seen so far share objects that the factory gives to each."""
        ...

    async def build(self, agent_id: AgentId, incarnation: Incarnation, runtime: AgentRuntime) -> Agent: ...

    def outside(self, agent: Agent) -> tuple[object, ...]:
        """What an instance was given and is no part of its state: queues to others."""
        ...


class FactoryBlueprint:
    """Instances come from the factory that the user registered."""

    def __init__(
        self, factory: Callable[[], Agent | Awaitable[Agent]], expected_class: type | None, types: TypeRegistry
    ) -> None:
        self._factory = factory
        self._expected = expected_class
        self._types = types
        self._shared = SharedObjects(factory)
        self._known: set[type] = set()
        if expected_class is not None:
            self._allow(expected_class)

    @property
    def agent_class(self) -> type | None:
        return self._expected

    @property
    def shares(self) -> bool:
        return self._shared.any

    async def build(self, agent_id: AgentId, incarnation: Incarnation, runtime: AgentRuntime) -> Agent:
        """Call the factory, with AutoGen's instantiation context.

        Raises:
            ValueError: The instance is not of the expected class (AutoGen's own message).
            NotRestorable: The factory gives every instance the same object, and it can't be copied.
        """
        facade = RuntimeFacade(runtime)
        facade.attach(incarnation)
        incarnation.record_readings(install())
        if incarnation.session.hermetic:
            watch()
        incarnation.construction.own = incarnation.effects_own
        at_hand = self._shared.at_hand(agent_id, incarnation.effects_own)
        making = Making() if self._shared.is_first else None
        try:
            with AgentInstantiationContext.populate_context((facade, agent_id)), making or nullcontext():
                made: Any = await incarnation.construction.run(self._factory)
        except BaseException as error:
            _say_not_constructed(agent_id, error)
            raise
        if self._expected is not None and not isinstance(made, self._expected):
            raise ValueError(
                f"Factory registered using the wrong type: expected {self._expected.__name__}, got {type(made).__name__}"
            )
        agent: Agent = made
        self._allow(type(agent))
        shared = self._shared.separate(agent, agent_id, incarnation, at_hand, making)
        capture(agent, incarnation)
        incarnation.made = _made_but(shared, agent, incarnation.codec)
        return agent

    def outside(self, agent: Agent) -> tuple[object, ...]:
        return self._shared.outputs(agent)

    def _allow(self, cls: type) -> None:
        if cls not in self._known:
            self._known.add(cls)
            allow_messages_of(cls, self._types)


class InstanceBlueprint:
    """The first instance is the one that the user registered; others are copies of it as it was then."""

    def __init__(self, instance: Agent, runtime: AgentRuntime, types: TypeRegistry) -> None:
        self.facade = RuntimeFacade(runtime)
        """The runtime that the registered instance is bound to."""
        self._instance: Agent | None = instance
        self._pristine = _copy(instance)
        self._class = type(instance)
        allow_messages_of(self._class, types)

    @property
    def agent_class(self) -> type | None:
        return self._class

    @property
    def shares(self) -> bool:
        return False

    async def build(self, agent_id: AgentId, incarnation: Incarnation, runtime: AgentRuntime) -> Agent:
        """The registered instance, the first time that it is to live; after that, and for views, a copy.

        Raises:
            NotRestorable: The instance can't be copied.
        """
        incarnation.record_readings(install())
        if incarnation.session.hermetic:
            watch()
        if self._instance is not None and incarnation.continues:
            first, self._instance = self._instance, None
            self.facade.attach(incarnation)
            capture(first, incarnation)
            return first
        copied = _copy(self._pristine)
        if copied is None:
            problem = f"it was registered as an instance, and a {self._class.__name__} can't be copied"
            raise NotRestorable(str(agent_id), "a fresh instance", problem, "Register a factory for this agent instead")
        facade = RuntimeFacade(runtime)
        facade.attach(incarnation)
        await copied.bind_id_and_runtime(agent_id, facade)
        capture(copied, incarnation)
        return copied

    def outside(self, agent: Agent) -> tuple[object, ...]:
        return ()


def allow_messages_of(cls: type, types: TypeRegistry) -> None:
    """Register what an agent class shows it works with: the types its handlers name, and its module's message classes.

    AutoGen's results of models and tools come along: AgentChat's messages hold them in classes that no handler names.
    """
    types.register(*RESULTS)
    for base in cls.__mro__:
        module = sys.modules.get(base.__module__)
        if module is not None and base is not object:
            types.register_module(module)
    for name in dir(cls):
        handler = inspect.getattr_static(cls, name, None)
        named = [*getattr(handler, "target_types", ()), *getattr(handler, "produces_types", ())]
        _register_each(types, named)
    _register_each(types, [message_type for message_type, _ in getattr(cls, "internal_extra_handles_types", ())])


def _register_each(types: TypeRegistry, named: list[Any]) -> None:
    for found in named:
        try:
            types.register(found)
        except TypeError:
            continue  # str, None, Any and the like need no registration


def _made_but(shared: frozenset[str], agent: Agent, codec: Codec) -> dict[str, Any]:
    """What the factory made, but for attributes that lead to what it shares: that has lived already."""
    if not shared:
        return made_of(agent, codec)
    cls = type(agent)
    if hasattr(cls, "__del__"):  # it would run for what is no agent
        return {}
    rest = object.__new__(cls)
    vars(rest).update({name: value for name, value in vars(agent).items() if name not in shared})
    return made_of(rest, codec)


def _say_not_constructed(agent_id: AgentId, error: BaseException) -> None:
    """In the words of AutoGen's runtime, which sees no more than a shell being made."""
    _event_logger.info(AgentConstructionExceptionEvent(agent_id=agent_id, exception=error))
    _root_logger.error(f"Error constructing agent {agent_id}", exc_info=True)


def _copy(instance: Agent | None) -> Agent | None:
    if instance is None:
        return None
    try:
        return copy.deepcopy(instance, boundaries_of(instance))
    except Exception:  # a client, a lock, whatever it holds: said when a copy is needed (InstanceBlueprint.build)
        return None
