"""An agent's state as it is kept to be compared: in a history file, or in the log as a snapshot.

The one place where checking knows how states are captured, and how they differ.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from autogen_core import Agent

from autogen_eventlog.codec import Codec
from autogen_eventlog.errors import FieldDifference, NotCapturable
from autogen_eventlog.postgres.records import Snapshot
from autogen_eventlog.replay.differing import LARGEST, bytes_differences, named
from autogen_eventlog.snapshots import KIND
from autogen_eventlog.state import capture, difference

_ABSENT = "absent"
_CODE = "self._handlers"
"""Which method handles what: code, that stands in an attribute."""


@dataclass(frozen=True, slots=True)
class KeptState:
    """A captured state."""

    data: bytes

    @classmethod
    def of(cls, form: Any) -> KeptState:
        """From its JSON value, as a file holds it."""
        return cls(json.dumps(form, separators=(",", ":")).encode())

    @property
    def form(self) -> Any:
        """As a JSON value."""
        return json.loads(self.data)

    @property
    def digest(self) -> str:
        """Equal for equal states, in every process."""
        return sha256(self.data).hexdigest()


def keep(agent: Agent, codec: Codec, outside: Collection[object] = ()) -> KeptState:
    """The state of an instance now. Nothing of the instance is run.

    Args:
        outside: What hangs on it and is no part of its state.

    Raises:
        NotCapturable: It holds something that is no data, or that is in use.
    """
    return KeptState(capture(agent, codec, outside=outside).data)


def state_differences(
    recorded: KeptState, agent: Agent, codec: Codec, outside: Collection[object]
) -> tuple[FieldDifference, ...]:
    """Where the state of an instance differs from one that was kept.

    Raises:
        PayloadCorrupt: What was kept is no state.
    """
    try:
        now = keep(agent, codec, outside)
    except NotCapturable as error:
        return (named("self", "a state that was captured", str(error)),)
    return tuple(
        FieldDifference(one.path, _present(one.left), _present(one.right))
        for one in difference(recorded.data, now.data, limit=LARGEST)
        if not one.path.startswith(_CODE)
    )


async def snapshot_differences(
    snapshot: Snapshot, agent: Agent, codec: Codec, outside: Collection[object]
) -> tuple[FieldDifference, ...]:
    """Where the state that a snapshot holds differs from that of an instance at its version."""
    if snapshot.kind != KIND:
        return state_differences(KeptState(snapshot.payload), agent, codec, outside)
    try:
        state = codec.encode(dict(await agent.save_state()), where="state").data
    except Exception as error:  # the class's own code
        return (named("state", "what save_state gave", f"save_state raised {error!r}"),)
    return bytes_differences("state", snapshot.payload, state)


def _present(words: str) -> str | None:
    """What stands in one state, in words; None where nothing does."""
    return None if words == _ABSENT else words
