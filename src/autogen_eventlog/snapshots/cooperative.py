"""Snapshots by the agent's own `save_state` and `load_state`."""

from __future__ import annotations

import inspect
from typing import Any, Final

from autogen_core import Agent, BaseAgent, ClosureAgent

from autogen_eventlog.codec import Codec
from autogen_eventlog.errors import EventLogError, NotRestorable
from autogen_eventlog.postgres.records import Snapshot

KIND: Final = "save_state"


def has_own_state(agent: Agent) -> bool:
    """Whether the class says itself how its state is saved and loaded.

    A ClosureAgent does not: its `save_state` keeps nothing, whatever the closure holds.
    """
    if isinstance(agent, ClosureAgent):
        return False
    cls = type(agent)
    return (
        getattr(cls, "save_state", None) is not BaseAgent.save_state
        and getattr(cls, "load_state", None) is not BaseAgent.load_state
    )


async def put(snapshot: Snapshot, agent: Agent, codec: Codec) -> None:
    """Give a fresh instance a snapshot's state.

    Raises:
        PayloadCorrupt, TypeNotAllowed: It can't be decoded here.
        NotRestorable: The agent's `load_state` raised.
    """
    where = f"snapshot at version {snapshot.version}"
    state: Any = codec.decode(snapshot.payload, where=where)
    try:
        loaded: Any = agent.load_state(state)
        if inspect.isawaitable(loaded):
            await loaded
    except EventLogError:
        raise
    except Exception as error:
        remedy = "An older snapshot or the whole history is used instead"
        raise NotRestorable(snapshot.stream, where, f"load_state raised {error!r}", remedy) from error
