"""States in AutoGen's own form: looked at before one is loaded, and saved in it as of any point.

AutoGen's teams save and load by asking the runtime for each of their agents. What is wanted of the runtime beyond that (only
look; give AutoGen's form, as of then) travels in a context variable, so that a team's own methods do it.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, cast

from autogen_core import Agent

from autogen_eventlog.errors import InvalidState, MessageTypesMissing
from autogen_eventlog.points import Point
from autogen_eventlog.runtime.unknown_messages import Unknown, unknown_messages
from autogen_eventlog.snapshots import has_own_state

logger = logging.getLogger(__name__)

_STATES = frozenset(
    {
        "AssistantAgentState",
        "BaseGroupChatManagerState",
        "BaseState",
        "ChatAgentContainerState",
        "MagenticOneOrchestratorState",
        "RoundRobinManagerState",
        "SelectorManagerState",
        "SocietyOfMindAgentState",
        "SwarmManagerState",
        "TeamState",
    }
)
"""AgentChat's own kinds of states. Its classes take each other's without a word, and lose what is in them; what other
classes take is their own affair."""
_VERSION = "1.0.0"

_AGENTCHAT = "custom_message_types=[…] of the team, or produced_message_types of a participant,"


@dataclass(slots=True)
class Trial:
    """States are looked at and not loaded."""

    missing: dict[str, list[Unknown]] = field(default_factory=dict[str, list[Unknown]])
    """Messages of types that are not known here, by agent."""

    @property
    def messages(self) -> list[Unknown]:
        """Those of all agents."""
        return [one for found in self.missing.values() for one in found]

    def raise_missing(self) -> None:
        """Say which are missing, of all agents.

        Raises:
            MessageTypesMissing: Some are.
        """
        if self.missing:
            raise missing_types(", ".join(self.missing), self.messages)


_TRIAL: ContextVar[Trial | None] = ContextVar("trial", default=None)
_AS_OF: ContextVar[Point | None] = ContextVar("as_of", default=None)


@contextmanager
def trial() -> Generator[Trial]:
    """Inside, `agent_load_state` looks at each state and loads none."""
    tried = Trial()
    token = _TRIAL.set(tried)
    try:
        yield tried
    finally:
        _TRIAL.reset(token)


@contextmanager
def autogen_form(where: Point) -> Generator[None]:
    """Inside, `agent_save_state` gives what the agent's own `save_state` said at a point; nothing is touched."""
    token = _AS_OF.set(where)
    try:
        yield
    finally:
        _AS_OF.reset(token)


def current_trial() -> Trial | None:
    """Whether states are only looked at."""
    return _TRIAL.get()


def wanted_point() -> Point | None:
    """As of when states are saved in AutoGen's form; None: in ours, now."""
    return _AS_OF.get()


async def check(agent: str, instance: Agent, state: Mapping[str, Any]) -> None:
    """Look at a state of AutoGen's form before it is loaded into an agent.

    Args:
        instance: The agent, or one like it. Nothing of it is changed.

    Raises:
        InvalidState: It says that it is the state of something else, or of another version, or a message in it is none.
        MessageTypesMissing: It holds messages of types that are not known here.
    """
    if has_own_state(instance):
        _compare(agent, "", await _said(agent, instance), state)
    missing = list(unknown_messages(agent, instance, state))
    tried = current_trial()
    if missing and tried is not None:
        tried.missing[agent] = missing
    elif missing:
        raise missing_types(agent, missing)


def missing_types(agent: str, messages: Iterable[Unknown]) -> MessageTypesMissing:
    """The error that names the types of these messages."""
    types = sorted({one.type for one in messages})
    problem = f"it holds messages of types that are not known here: {', '.join(types)}"
    remedy = f"Import them and name them ({_AGENTCHAT} in AgentChat). Nothing was changed"
    return MessageTypesMissing(agent, problem, remedy, tuple(types))


async def _said(agent: str, instance: Agent) -> Mapping[str, Any]:
    try:
        return await instance.save_state()
    except Exception as error:  # the class's own code: that it can't save is no reason not to load
        logger.warning("%s: what kind of state it keeps is not known: save_state raised %r", agent, error)
        return {}


def _compare(agent: str, path: str, own: object, given: object) -> None:
    """Whether each part of a state is of the kind, of AgentChat's, that this agent saves there."""
    if not (isinstance(own, Mapping) and isinstance(given, Mapping)):
        return
    mine, theirs = cast("Mapping[str, object]", own), cast("Mapping[str, object]", given)
    if mine.get("type") not in _STATES or mine.get("version") != _VERSION:
        return
    for name in ("type", "version"):
        expected, found = mine[name], theirs.get(name)
        if found is not None and found != expected:
            where = f"at {path} its" if path else "its"
            problem = f"{where} {name} is {found!r}, and this agent's states have {name} {expected!r}"
            raise InvalidState(agent, problem, "Load it into an agent of the kind that saved it. Nothing was changed")
    for name, value in mine.items():
        _compare(agent, f"{path}.{name}" if path else name, value, theirs.get(name))
