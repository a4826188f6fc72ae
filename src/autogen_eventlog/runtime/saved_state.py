"""Saved states: small, JSON-clean mappings that name a stream and a version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from autogen_eventlog.errors import InvalidState

FORMAT = "autogen-eventlog/1"


@dataclass(frozen=True, slots=True)
class SavedState:
    """An agent's state as `agent_save_state` gives it."""

    stream: str
    version: int
    """0: the agent had no past."""
    state: dict[str, Any] | None
    """What the agent's own `save_state` said at that version, if its class has one and it was at rest."""

    def as_mapping(self) -> dict[str, Any]:
        return {"format": FORMAT, "stream": self.stream, "version": self.version, "state": self.state}


def parse(agent: str, state: Mapping[str, Any]) -> SavedState | None:
    """A saved state of ours; None if the mapping is a plain state of AutoGen's.

    Raises:
        InvalidState: It says that it is ours and is not whole, or it is of a later format.
    """
    written = state.get("format")
    if not (isinstance(written, str) and written.startswith("autogen-eventlog/")):
        return None
    if written != FORMAT:
        remedy = "Load it with the version of autogen-eventlog that saved it"
        raise InvalidState(agent, f"its format is {written!r}, this version reads {FORMAT!r}", remedy)
    stream, version, own = state.get("stream"), state.get("version"), state.get("state")
    if not (isinstance(stream, str) and isinstance(version, int) and version >= 0):
        raise InvalidState(agent, f"stream {stream!r}, version {version!r} name no state", "Save the agent again")
    if not (own is None or isinstance(own, dict)):
        raise InvalidState(
            agent, f"the state it carries is a {type(own).__name__}, not a mapping", "Save the agent again"
        )
    return SavedState(stream, version, cast("dict[str, Any] | None", own))
