"""How the cause of a message travels through AutoGen's runtime: on its message id, which the runtime passes on as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

from autogen_eventlog.codec import Encoded
from autogen_eventlog.incarnation.incarnation import Incarnation
from autogen_eventlog.runtime.submissions import Submission


@dataclass(frozen=True, slots=True)
class Identity:
    """Where a message comes from."""

    cause: UUID | None = None
    """The event that says it was sent, published or submitted."""
    correlation: UUID | None = None
    again: bool = False
    """The same message may have been delivered before, to an incarnation that is no more."""
    submission: Submission | None = None
    """The message came from outside any agent; its cause is known at its delivery."""
    recorded: tuple[object, Encoded] | None = None
    """The message as it was recorded when it was sent, and the object that travels for it. Where no intervention handler
    can have changed it, what was recorded is what is delivered, and need not be encoded again."""
    sender: Incarnation | None = None
    """The instance that sent or published it, if it was an agent's here."""
    void: Callable[[], Awaitable[bool]] | None = None
    """Whether the past that it comes from was abandoned meanwhile, of a message from another worker."""

    def origin(self) -> UUID | None:
        """The event to name as the cause of what becomes of the message now: it has arrived."""
        return self.cause if self.submission is None else self.submission.delivered()


class TracedId(str):
    """A message id that carries an identity. AutoGen's ids may repeat, so they can't be the key to one."""

    identity: Identity
    given_up: bool = False
    """Nobody waits for the answer any more."""
    arrived: asyncio.Event | None = None
    """Set, if somebody waits for that, once the message is recorded as delivered, or can't be."""

    def __new__(cls, text: str, identity: Identity) -> TracedId:
        traced = super().__new__(cls, text)
        traced.identity = identity
        return traced


def identity_of(message_id: str) -> Identity:
    return message_id.identity if isinstance(message_id, TracedId) else Identity()
