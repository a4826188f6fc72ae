"""What goes wrong when an agent's state is asked for or saved."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from autogen_eventlog.errors import EventLogError


class StateServiceError(EventLogError):
    """The state service did not do what a client asked. Base of the reasons below."""

    def __post_init__(self) -> None:
        own: Any = self  # each of the classes below is a dataclass
        Exception.__init__(self, *(getattr(self, field.name) for field in fields(own)))

    def __str__(self) -> str:
        return self.message()

    def message(self) -> str:
        """The whole sentence a person reads."""
        return super().__str__()


@dataclass(eq=False)
class StateConflict(StateServiceError):
    """Another state was stored since the one whose ETag was given. Nothing was changed."""

    agent: str
    given: str
    stored: str

    def message(self) -> str:
        return (
            f"agent {self.agent!r}: the given ETag {self.given!r} is not that of the stored state, {self.stored!r}; "
            "another one was saved since. Get the state, apply the change to it, and save it again"
        )


@dataclass(eq=False)
class StateTooLarge(StateServiceError):
    """The state, or the message that carries it, is over a limit of the host's or the client's. Nothing was stored."""

    agent: str
    problem: str

    def message(self) -> str:
        return (
            f"agent {self.agent!r}: the state is too large: {self.problem}. Keep a reference in it instead of the "
            "content, or raise grpc.max_receive_message_length on the host and its clients"
        )


@dataclass(eq=False)
class StateServiceUnavailable(StateServiceError):
    """No answer within the bound: from the host, or to the host from its database. A save may have been done."""

    host: str
    agent: str
    waited_seconds: float
    problem: str

    def message(self) -> str:
        return (
            f"agent {self.agent!r}: the state service at {self.host} did not answer within {self.waited_seconds:g} s: "
            f"{self.problem}. If it was a save, it may have been done: get the state before you save again"
        )


@dataclass(eq=False)
class StateRefused(StateServiceError):
    """The host answers, and not to this: an agent's id that can't be one, no state service there, a defect."""

    host: str
    agent: str
    code: str
    problem: str

    def message(self) -> str:
        remedy = " A host with a state service is EventSourcedGrpcWorkerAgentRuntimeHost"
        return (
            f"agent {self.agent!r}: the host at {self.host} refused with {self.code}: {self.problem}. Nothing was stored."
            f"{remedy if self.code == 'UNIMPLEMENTED' else ''}"
        )
