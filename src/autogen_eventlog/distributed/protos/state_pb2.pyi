from google.protobuf import any_pb2 as _any_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AgentId(_message.Message):
    __slots__ = ("type", "key")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    type: str
    key: str
    def __init__(self, type: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class AgentState(_message.Message):
    __slots__ = ("agent_id", "etag", "binary_data", "text_data", "proto_data")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    BINARY_DATA_FIELD_NUMBER: _ClassVar[int]
    TEXT_DATA_FIELD_NUMBER: _ClassVar[int]
    PROTO_DATA_FIELD_NUMBER: _ClassVar[int]
    agent_id: AgentId
    etag: str
    binary_data: bytes
    text_data: str
    proto_data: _any_pb2.Any
    def __init__(self, agent_id: _Optional[_Union[AgentId, _Mapping]] = ..., etag: _Optional[str] = ..., binary_data: _Optional[bytes] = ..., text_data: _Optional[str] = ..., proto_data: _Optional[_Union[_any_pb2.Any, _Mapping]] = ...) -> None: ...

class GetStateRequest(_message.Message):
    __slots__ = ("agent_id",)
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    agent_id: AgentId
    def __init__(self, agent_id: _Optional[_Union[AgentId, _Mapping]] = ...) -> None: ...

class GetStateResponse(_message.Message):
    __slots__ = ("agent_state",)
    AGENT_STATE_FIELD_NUMBER: _ClassVar[int]
    agent_state: AgentState
    def __init__(self, agent_state: _Optional[_Union[AgentState, _Mapping]] = ...) -> None: ...

class SaveStateRequest(_message.Message):
    __slots__ = ("agent_state", "request_id")
    AGENT_STATE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    agent_state: AgentState
    request_id: bytes
    def __init__(self, agent_state: _Optional[_Union[AgentState, _Mapping]] = ..., request_id: _Optional[bytes] = ...) -> None: ...

class SaveStateResponse(_message.Message):
    __slots__ = ("etag",)
    ETAG_FIELD_NUMBER: _ClassVar[int]
    etag: str
    def __init__(self, etag: _Optional[str] = ...) -> None: ...

class OldGetStateResponse(_message.Message):
    __slots__ = ("agent_state", "success")
    AGENT_STATE_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    agent_state: AgentState
    success: bool
    def __init__(self, agent_state: _Optional[_Union[AgentState, _Mapping]] = ..., success: bool = ...) -> None: ...

class OldSaveStateResponse(_message.Message):
    __slots__ = ("success",)
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    success: bool
    def __init__(self, success: bool = ...) -> None: ...
