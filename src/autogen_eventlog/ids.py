"""Identities: streams, topics, event ids."""

from __future__ import annotations

import os
from uuid import UUID

from autogen_core import TopicId

RUNTIME_STREAM_PREFIX = "$runtime/"
"""Streams of runtimes, for what concerns no single agent. An agent type can't begin with `$`, so none can collide."""


class EventIds:
    """Unique event ids, cheaply: 64 random bits for the process, then a counter.

    An id needs to be unique, not secret; drawing 16 random bytes for each event costs more than writing the event.
    """

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._next = int.from_bytes(os.urandom(8), "big") << 64

    def next(self) -> UUID:
        self._next += 1
        return UUID(int=self._next)


def parse_topic(text: str) -> TopicId:
    """The TopicId of `type/source`, as `str(TopicId)` writes it; a topic's type holds no `/`."""
    topic_type, _, source = text.partition("/")
    return TopicId(topic_type, source)
