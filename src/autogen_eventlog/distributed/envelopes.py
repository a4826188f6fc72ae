"""AutoGen's protobuf messages, made of what a worker knows and read back to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autogen_core import JSON_DATA_CONTENT_TYPE, PROTOBUF_DATA_CONTENT_TYPE, AgentId, TopicId
from autogen_core._telemetry import get_telemetry_grpc_metadata
from autogen_ext.runtimes.grpc import _constants as names
from autogen_ext.runtimes.grpc.protos import agent_worker_pb2 as pb
from autogen_ext.runtimes.grpc.protos import cloudevent_pb2
from google.protobuf.any_pb2 import Any as AnyMessage

from autogen_eventlog.distributed.wire import Origin, Packed, origin_of
from autogen_eventlog.ids import parse_topic

_TOPIC = "eventlogtopic"
"""In a request: it is a publication, sent again to one agent that lacks it."""

Attribute = cloudevent_pb2.CloudEvent.CloudEventAttributeValue


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message as it came from the host."""

    packed: Packed
    sender: AgentId | None
    topic: TopicId | None
    is_rpc: bool
    message_id: str
    origin: Origin | None
    """None: a plain worker sent it."""
    trace: Mapping[str, str]


def request_of(
    packed: Packed,
    recipient: AgentId,
    *,
    request_id: str,
    sender: AgentId | None,
    origin: Origin,
    topic: TopicId | None = None,
) -> pb.RpcRequest:
    """A call; with a topic, a publication for one agent alone."""
    metadata = {**get_telemetry_grpc_metadata(), **packed.marks, **origin.marks()}
    if topic is not None:
        metadata[_TOPIC] = str(topic)
    return pb.RpcRequest(
        request_id=request_id,
        target=_agent(recipient),
        source=None if sender is None else _agent(sender),
        metadata=metadata,
        payload=_payload(packed),
    )


def arrived_request(request: pb.RpcRequest) -> Arrived:
    """What a request brings."""
    marks = dict(request.metadata)
    topic = parse_topic(marks[_TOPIC]) if _TOPIC in marks else None
    origin = origin_of(marks)
    return Arrived(
        packed=_packed(request.payload, marks),
        sender=AgentId(request.source.type, request.source.key) if request.HasField("source") else None,
        topic=topic,
        is_rpc=topic is None,
        message_id=request.request_id if origin is None else origin.message_id,
        origin=origin,
        trace=marks,
    )


def packed_reply(response: pb.RpcResponse) -> Packed:
    """The reply that a response brings."""
    return _packed(response.payload, dict(response.metadata))


def reply_response(request_id: str, packed: Packed) -> pb.RpcResponse:
    """The response to a request that was answered."""
    metadata = {**get_telemetry_grpc_metadata(), **packed.marks}
    return pb.RpcResponse(request_id=request_id, payload=_payload(packed), metadata=metadata)


def error_response(request_id: str, text: str, marks: Mapping[str, str]) -> pb.RpcResponse:
    """The response to a request that failed."""
    return pb.RpcResponse(request_id=request_id, error=text, metadata={**get_telemetry_grpc_metadata(), **marks})


def event_of(packed: Packed, topic: TopicId, *, sender: AgentId | None, origin: Origin) -> cloudevent_pb2.CloudEvent:
    """A publication. One without a sender has none on the other side either (T12)."""
    said = {
        names.DATA_CONTENT_TYPE_ATTR: packed.content_type,
        names.DATA_SCHEMA_ATTR: packed.data_type,
        names.MESSAGE_KIND_ATTR: names.MESSAGE_KIND_VALUE_PUBLISH,
        **get_telemetry_grpc_metadata(),
        **packed.marks,
        **origin.marks(),
    }
    if sender is not None:
        said |= {names.AGENT_SENDER_TYPE_ATTR: sender.type, names.AGENT_SENDER_KEY_ATTR: sender.key}
    data: dict[str, Any] = {"binary_data": packed.data}
    if packed.content_type == PROTOBUF_DATA_CONTENT_TYPE:
        data = {"proto_data": AnyMessage.FromString(packed.data)}
    return cloudevent_pb2.CloudEvent(
        id=origin.message_id,
        spec_version="1.0",
        type=topic.type,
        source=topic.source,
        attributes={name: Attribute(ce_string=text) for name, text in said.items()},
        **data,
    )


def arrived_event(event: cloudevent_pb2.CloudEvent) -> Arrived:
    """What a publication brings."""
    said = {name: _text(value) for name, value in event.attributes.items()}
    sender = None
    if names.AGENT_SENDER_TYPE_ATTR in said and names.AGENT_SENDER_KEY_ATTR in said:
        sender = AgentId(said[names.AGENT_SENDER_TYPE_ATTR], said[names.AGENT_SENDER_KEY_ATTR])
    content_type = said.get(names.DATA_CONTENT_TYPE_ATTR, JSON_DATA_CONTENT_TYPE)
    data = event.proto_data.SerializeToString() if content_type == PROTOBUF_DATA_CONTENT_TYPE else event.binary_data
    return Arrived(
        packed=Packed(said.get(names.DATA_SCHEMA_ATTR, ""), content_type, data, said),
        sender=sender,
        topic=TopicId(event.type, event.source),
        # As AutoGen's worker has it: by the suffix of the topic's type.
        is_rpc=event.type.partition(":")[2] == names.MESSAGE_KIND_VALUE_RPC_REQUEST,
        message_id=event.id,
        origin=origin_of(said),
        trace=said,
    )


def _agent(agent: AgentId) -> pb.AgentId:
    return pb.AgentId(type=agent.type, key=agent.key)


def _payload(packed: Packed) -> pb.Payload:
    return pb.Payload(data_type=packed.data_type, data=packed.data, data_content_type=packed.content_type)


def _packed(payload: pb.Payload, marks: dict[str, str]) -> Packed:
    return Packed(payload.data_type, payload.data_content_type, payload.data, marks)


def _text(value: cloudevent_pb2.CloudEvent.CloudEventAttributeValue) -> str:
    kind = value.WhichOneof("attr")
    return "" if kind is None else str(getattr(value, kind))
