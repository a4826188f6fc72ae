"""Snapshots of an agent's whole state, taken without its cooperation."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from autogen_core import Agent

from autogen_eventlog.codec import Codec
from autogen_eventlog.errors import PayloadCorrupt
from autogen_eventlog.incarnation.producer import producer_of
from autogen_eventlog.postgres.records import Snapshot
from autogen_eventlog.snapshots.clock import PRODUCER
from autogen_eventlog.state import CapturedState, load

KIND: Final = "captured"
DIGEST: Final = "digest"
"""In a snapshot's metadata: the state's digest, equal for equal states."""
BORROWED: Final = "borrowed"
"""Where on the agent what its constructor borrowed still was, as paths. Elsewhere there is an object of the agent's own."""
SUM: Final = "sum"
"""SHA-256 of its payload, in hex: whether it is what was stored."""


def facts_of(state: CapturedState, borrowed: Sequence[str]) -> dict[str, Any]:
    """What a snapshot's metadata say of a captured state.

    Args:
        borrowed: Where on the agent what its constructor borrowed still was.
    """
    return {DIGEST: state.digest, SUM: sha256(state.data).hexdigest(), **({BORROWED: [*borrowed]} if borrowed else {})}


def put(
    snapshot: Snapshot,
    agent: Agent,
    codec: Codec,
    outside: Collection[object],
    borrowed: Mapping[str, object],
) -> None:
    """Give a fresh instance a snapshot's state.

    Raises:
        PayloadCorrupt: It is not what was stored.
        What `state.load` raises; the instance is then as it was.
    """
    recorded, found = snapshot.metadata.get(SUM), sha256(snapshot.payload).hexdigest()
    if recorded != found:
        where = f"snapshot of stream {snapshot.stream!r} at version {snapshot.version}"
        raise PayloadCorrupt(where, f"its sum is {found}, and {recorded} was recorded")
    other_code = _is_of_other_code(snapshot, agent)
    still = snapshot.metadata.get(BORROWED, ())
    load(
        snapshot.payload,
        into=agent,
        codec=codec,
        outside=outside,
        borrowed=[*borrowed.values()],
        let_go=[value for path, value in borrowed.items() if path not in still],
        other_code=other_code,
    )


def _is_of_other_code(snapshot: Snapshot, agent: Agent) -> bool:
    """Whether the agent's class, or anything that it uses, is not what it was when the state was captured."""
    now, then = producer_of(agent), snapshot.metadata.get(PRODUCER)
    return snapshot.code_hash != now.code_hash or (then is not None and now.differs(then))
