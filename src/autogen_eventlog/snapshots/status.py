"""What is known of a snapshot, and whether it may be restored from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from autogen_core import Agent

from autogen_eventlog.codec import Codec
from autogen_eventlog.postgres.records import Snapshot
from autogen_eventlog.snapshots import captured, cooperative

TAKEN: Final = "taken"
"""A candidate: not proven yet."""
PROVEN: Final = "proven"
FAILED: Final = "failed"
"""The proof came to another state. It stays, to be looked at, and is never restored from."""


def usable(snapshot: Snapshot) -> bool:
    """Whether it is of a kind that is known here, and proven."""
    return snapshot.kind in (captured.KIND, cooperative.KIND) and snapshot.status == PROVEN


async def put(
    snapshot: Snapshot,
    agent: Agent,
    codec: Codec,
    outside: Collection[object],
    borrowed: Mapping[str, object],
) -> None:
    """Give a fresh instance a snapshot's state, whatever its kind.

    Args:
        outside: What hangs on the instance and is no part of its state.
        borrowed: What hangs on it and others have too, by path.

    Raises:
        PayloadCorrupt, TypeNotAllowed, NotLoadable, NotRestorable: It can't be.
    """
    if snapshot.kind == captured.KIND:
        captured.put(snapshot, agent, codec, outside, borrowed)
    else:
        await cooperative.put(snapshot, agent, codec)
