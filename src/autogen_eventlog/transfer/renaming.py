"""Under which names the agents of a session go on in another log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from uuid import UUID, uuid5

from autogen_core import AgentId

from autogen_eventlog.errors import InvalidRenaming
from autogen_eventlog.ids import LONGEST_STREAM, check_text

_EVENTS = UUID("6d6a0f0e-5a55-4a0e-9a43-2f7a4a4f6f0b")
"""The namespace of ids of imported events. It never changes: importing twice finds the same ids."""


class Renaming:
    """Old names to new ones: of keys, or of single agents.

    The name of a key is that of every agent with this key, of topics with this source, and, because AgentChat makes the types
    of a team's agents and topics of the team's id, of types that end in `_` and the key.

    Args:
        rename: Old to new. An old name is a key, or an agent's id `type/key`; the new one is of the same kind.
        key_prefix: Put before every other key.
    """

    def __init__(self, rename: Mapping[str, str] | None = None, *, key_prefix: str = "") -> None:
        self._rename = dict(rename or {})
        self._prefix = key_prefix
        self._agents: dict[str, str] = {}
        self._keys: dict[str, str] = {}
        spec = json.dumps([sorted(self._rename.items()), key_prefix])
        self._namespace = uuid5(_EVENTS, spec)

    def over(self, agents: Iterable[str]) -> dict[str, str]:
        """Settle the names of a session's agents.

        Returns:
            The new id of each.

        Raises:
            InvalidRenaming: It names what is not in the session, or makes two agents one, or an id that can't be.
            NotEncodable: A new id holds what Postgres can't.
        """
        old = [AgentId.from_str(agent) for agent in agents]
        ids, keys = {str(agent) for agent in old}, {agent.key for agent in old}
        for name, new in self._rename.items():
            if name in ids:
                self._agents[name] = new
            elif name in keys:
                self._keys[name] = new
            else:
                raise InvalidRenaming(name, new, "the session has no such agent, and no agent with such a key")
        if self._prefix:
            self._keys = {key: f"{self._prefix}{key}" for key in keys} | self._keys
        return self._checked({str(agent): self.agent(str(agent)) for agent in old})

    def agent(self, name: str) -> str:
        """The new id of an agent."""
        if name in self._agents:
            return self._agents[name]
        kind, slash, key = name.partition("/")
        return f"{self._type(kind, key)}{slash}{self._keys.get(key, key)}"

    def topic(self, name: str) -> str:
        """The new name of a topic, `type/source`."""
        kind, slash, source = name.partition("/")
        return f"{self._type(kind, source)}{slash}{self._keys.get(source, source)}"

    def id(self, old: UUID, within: str = "") -> UUID:
        """The new id of an event or a conversation.

        Args:
            within: The agent into whose past it was copied from another's.
        """
        return uuid5(self._namespace, f"{within}:{old}")

    def _type(self, kind: str, key: str) -> str:
        if key in self._keys and kind.endswith(f"_{key}"):
            return f"{kind[: -len(key)]}{self._keys[key]}"
        return kind

    def _checked(self, names: dict[str, str]) -> dict[str, str]:
        taken: dict[str, str] = {}
        for old, new in names.items():
            check_text("agent id", new, longest=LONGEST_STREAM)
            try:
                AgentId.from_str(new)
            except ValueError as error:
                raise InvalidRenaming(old, new, f"it is no agent's id ({error})") from None
            if new in taken:
                raise InvalidRenaming(old, new, f"{taken[new]!r} would have it too")
            taken[new] = old
        return names
