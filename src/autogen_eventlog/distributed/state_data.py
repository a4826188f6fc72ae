"""An agent's state as the service speaks of it and as the log keeps it, one for one."""

from __future__ import annotations

import hashlib
from typing import Any, cast
from uuid import UUID, uuid4

from autogen_core import AgentId
from google.protobuf.any_pb2 import Any as PackedMessage

from autogen_eventlog.codec import Codec
from autogen_eventlog.distributed.protos import state_pb2
from autogen_eventlog.errors import PayloadCorrupt
from autogen_eventlog.events import RecordedEvent
from autogen_eventlog.ids import LONGEST_STREAM, STATE_STREAM_PREFIX, check_text
from autogen_eventlog.postgres.states import SavedAs, StateToSave

LONGEST_ETAG = 64
"""Characters; see `etag`."""

_ARM = "data"
"""In the metadata: which arm of the message's `oneof data` it was. None: none of them was set."""


def etag(saved: SavedAs) -> str:
    """The ETag of a state: the version and id of its event, so that no two states ever have the same."""
    return f"{saved.version}-{saved.id.hex}"


def state_stream(agent: AgentId | str) -> str:
    """The stream in which the log keeps what the state service stored for an agent: `log.read(state_stream(agent))`."""
    return f"{STATE_STREAM_PREFIX}{agent}"


def agent_of(message: state_pb2.AgentId) -> AgentId:
    """The agent that a message names.

    Raises:
        ValueError: No agent's type can be that.
        NotEncodable: The log can't hold the id.
    """
    agent = AgentId(message.type, message.key)
    check_text("agent id", str(agent), longest=LONGEST_STREAM)
    return agent


def to_save(codec: Codec, stream: str, state: state_pb2.AgentState, request_id: bytes) -> StateToSave:
    """What is appended for a state."""
    arm = state.WhichOneof("data")
    if arm is None:
        return StateToSave(_event_id(stream, request_id, state), None, None)
    encoded = codec.encode(_plain(state, arm), where="state")
    return StateToSave(_event_id(stream, request_id, state), encoded.type_name, encoded.data, {_ARM: arm})


def stored(codec: Codec, agent: AgentId, event: RecordedEvent | None) -> state_pb2.AgentState:
    """The state that an event holds: the same arm, byte for byte. Of no event: no ETag, no data.

    Raises:
        PayloadCorrupt: The event was not written by `to_save`.
    """
    state = state_pb2.AgentState(agent_id=state_pb2.AgentId(type=agent.type, key=agent.key))
    if event is None:
        return state
    state.etag = etag(SavedAs(event.version, event.id))
    where = f"stream {event.stream!r}, version {event.version}"
    arm = event.metadata.get(_ARM)
    value: Any = None if event.payload is None else codec.decode(event.payload, where=where)
    if arm == "proto_data":
        state.proto_data.CopyFrom(PackedMessage(type_url=value["type_url"], value=value["value"]))
    elif arm in ("binary_data", "text_data"):
        setattr(state, cast(str, arm), value)
    elif arm is not None:
        raise PayloadCorrupt(where, f"unknown kind of state {arm!r}")
    return state


def _plain(state: state_pb2.AgentState, arm: str) -> Any:
    """As plain data, which everybody can read who can read the log; a message inside stays packed."""
    if arm == "proto_data":
        return {"type_url": state.proto_data.type_url, "value": state.proto_data.value}
    return getattr(state, arm)


def _event_id(stream: str, request_id: bytes, state: state_pb2.AgentState) -> UUID:
    """The same for a save that is sent again, and for no other: a request id of a client's never is an event's id."""
    if not request_id:
        return uuid4()
    parts = (stream.encode(), request_id, state.SerializeToString(deterministic=True))
    digest = hashlib.sha256(b"".join(b"%d:%s" % (len(part), part) for part in parts)).digest()
    return UUID(bytes=digest[:16], version=5)
