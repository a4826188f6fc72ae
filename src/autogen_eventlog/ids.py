"""Identities: streams, topics, event ids."""

from __future__ import annotations

import os
from typing import ClassVar
from uuid import UUID

from autogen_core import AgentId, TopicId

from autogen_eventlog.errors import NotEncodable

RUNTIME_STREAM_PREFIX = "$runtime/"
"""Streams of runtimes, for what concerns no single agent. An agent type can't begin with `$`, so none can collide."""

STATE_STREAM_PREFIX = "$state/"
"""Streams of what the state service keeps for agents that keep nothing themselves: `$state/<agent's id>`."""

FIRST_AGENT = "%"
"""Comes before every agent's id and after every other stream's, which begins with `$`, in the order of the log."""


class EventIds:
    """Unique event ids, cheaply: 64 random bits for the process, then a counter.

    An id needs to be unique, not secret; drawing 16 random bytes for each event costs more than writing the event.
    """

    _ours: ClassVar[set[int]] = set()

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        first = int.from_bytes(os.urandom(8), "big")
        self._ours.add(first)
        self._next = first << 64

    @classmethod
    def made_here(cls, event_id: UUID) -> bool:
        """Whether this process gave an event its id (or one that it was forked from)."""
        return event_id.int >> 64 in cls._ours

    def next(self) -> UUID:
        self._next += 1
        return UUID(int=self._next)


LONGEST_STREAM = 1024
"""Bytes of an agent's id; an index entry in Postgres can't be much larger than twice that."""


def check_text(field: str, text: str | None, *, longest: int | None = None) -> None:
    """Refuse a name that Postgres can't hold, before anything happens.

    Raises:
        NotEncodable: It holds U+0000 or a lone surrogate, or has more than `longest` bytes.
    """
    if text is None:
        return
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise NotEncodable(field, "str", f"{text!r} holds a lone surrogate ({error.reason})") from None
    if "\0" in text:
        raise NotEncodable(field, "str", f"{text!r} holds U+0000, which Postgres' text can't")
    if longest is not None and size > longest:
        raise NotEncodable(field, "str", f"it has {size} bytes, more than {longest}")


def parse_topic(text: str) -> TopicId:
    """The TopicId of `type/source`, as `str(TopicId)` writes it; a topic's type holds no `/`."""
    topic_type, _, source = text.partition("/")
    return TopicId(topic_type, source)


def agent_id(agent: AgentId | str) -> AgentId:
    """An agent's id, also of `type/key`, as `str(AgentId)` writes it.

    Raises:
        ValueError: The text is no id.
        TypeError: It is neither an id nor a text.
        NotEncodable: No agent can have it: Postgres can't hold it.
    """
    if isinstance(agent, AgentId):
        check_text("agent id", str(agent), longest=LONGEST_STREAM)
        return agent
    if not isinstance(agent, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"an agent is named by its AgentId or by 'type/key', not by a {type(agent).__name__}: {agent!r}"
        )
    try:
        return agent_id(AgentId.from_str(agent))
    except ValueError:
        raise ValueError(f"{agent!r} is no agent's id: give an AgentId, or 'type/key'") from None
