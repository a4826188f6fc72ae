"""The state service: `GetState` and `SaveState` of agents that keep no state themselves, backed by the log.

The rules are those of AutoGen's Orleans grain (AgentStateGrain.WriteState): nothing stored yet, or no ETag given: stored
unconditionally; else the two must be equal. What it answers is durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc
from autogen_core import AgentId

from autogen_eventlog.distributed.protos import state_pb2
from autogen_eventlog.distributed.state_data import LONGEST_ETAG, agent_of, etag, state_stream, stored, to_save
from autogen_eventlog.errors import DatabaseUnavailable, EventLogError, LogClosed, NotEncodable
from autogen_eventlog.events import LARGEST_PAYLOAD
from autogen_eventlog.log import EventLog
from autogen_eventlog.postgres.states import Refused, StateToSave

SERVICE = "autogen_eventlog.state.v1.AgentStateService"
OLD_SERVICE = "agents.AgentRpc"
"""AutoGen's service, which had these two methods once. It has them no more, so its own servicer can stay beside ours."""

STORED_ETAG = "eventlog-stored-etag"
"""Trailing metadata of a refused save."""

LARGEST_MESSAGE = 4 * 1024 * 1024
"""Bytes that gRPC lets in where nobody says otherwise."""

_ROOM = 64
"""Bytes of a GetStateResponse beside the state and its ETag, amply."""

_MANY_BYTES = 64 * 1024

T = TypeVar("T")
Context = grpc.aio.ServicerContext[Any, Any]


class _Abort(Exception):
    """The call ends with a status."""

    def __init__(self, code: grpc.StatusCode, details: str, **metadata: str) -> None:
        self.code = code
        self.details = details
        self.metadata = tuple(metadata.items())


class AgentStates:
    """What both services do.

    Args:
        largest_message: Bytes of a message that a client takes, as far as the host can know: its own limit. A state that
            could not be got again is refused. None: no limit.
    """

    def __init__(self, log: EventLog, *, largest_message: int | None = LARGEST_MESSAGE) -> None:
        self._log = log
        self._largest_message = largest_message

    async def get(self, agent: state_pb2.AgentId) -> state_pb2.AgentState:
        """The stored state, or one with the agent's id alone."""
        asked = _checked(agent)
        event = await self._log.states.last(state_stream(asked))
        size = 0 if event is None else len(event.payload or b"")
        return await _beside(size, lambda: stored(self._log.codec, asked, event))

    async def save(self, state: state_pb2.AgentState, request_id: bytes = b"") -> str:
        """Store a state; its ETag."""
        agent, given = _checked(state.agent_id), state.etag
        stream = state_stream(agent)
        proposed = await _beside(state.ByteSize(), lambda: to_save(self._log.codec, stream, state, request_id))
        self._check_size(agent, state, proposed)
        saved = await self._log.states.save(stream, proposed, admits=lambda before: given in ("", etag(before)))
        if isinstance(saved, Refused):
            raise _stale(agent, given, etag(saved.stored))
        return etag(saved)

    def _check_size(self, agent: AgentId, state: state_pb2.AgentState, proposed: StateToSave) -> None:
        encoded = len(proposed.payload or b"")
        if encoded > LARGEST_PAYLOAD:
            raise _too_large(agent, f"encoded it has {encoded} bytes, and the log takes {LARGEST_PAYLOAD}")
        answer = state.ByteSize() - len(state.etag.encode()) + LONGEST_ETAG + _ROOM
        if self._largest_message is not None and answer > self._largest_message:
            limit = f"the host takes and gives messages of up to {self._largest_message}"
            raise _too_large(agent, f"to get it again takes a message of {answer} bytes, and {limit}")


async def _beside(size: int, work: Callable[[], T]) -> T:
    """Work on so many bytes, in a thread if they are many: the loop has AutoGen's messages to hand on meanwhile."""
    return work() if size < _MANY_BYTES else await asyncio.to_thread(work)


def _checked(agent: state_pb2.AgentId) -> AgentId:
    try:
        return agent_of(agent)
    except ValueError as error:
        raise _Abort(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from None
    except NotEncodable as error:
        raise _Abort(grpc.StatusCode.INVALID_ARGUMENT, f"{error.path}: {error.reason}") from None


def _stale(agent: AgentId, given: str, found: str) -> _Abort:
    shown = given if len(given) <= 2 * LONGEST_ETAG else f"{given[: 2 * LONGEST_ETAG]}…"
    details = f"agent {str(agent)!r}: ETag does not match: expected {shown!r}, stored is {found!r}; nothing was changed"
    return _Abort(grpc.StatusCode.ABORTED, details, **{STORED_ETAG: found})


def _too_large(agent: AgentId, problem: str) -> _Abort:
    return _Abort(grpc.StatusCode.RESOURCE_EXHAUSTED, problem)


def add_state_service(server: grpc.aio.Server, log: EventLog, *, largest_message: int | None = LARGEST_MESSAGE) -> None:
    """Let a server answer for the states in a log, under the new name and the old one."""
    states = AgentStates(log, largest_message=largest_message)

    async def get(request: state_pb2.GetStateRequest) -> state_pb2.GetStateResponse:
        return state_pb2.GetStateResponse(agent_state=await states.get(request.agent_id))

    async def save(request: state_pb2.SaveStateRequest) -> state_pb2.SaveStateResponse:
        return state_pb2.SaveStateResponse(etag=await states.save(request.agent_state, request.request_id))

    async def get_old(request: state_pb2.AgentId) -> state_pb2.OldGetStateResponse:
        return state_pb2.OldGetStateResponse(agent_state=await states.get(request), success=True)

    async def save_old(request: state_pb2.AgentState) -> state_pb2.OldSaveStateResponse:
        await states.save(request)
        return state_pb2.OldSaveStateResponse(success=True)

    server.add_generic_rpc_handlers(
        (
            _handlers(SERVICE, (state_pb2.GetStateRequest, get), (state_pb2.SaveStateRequest, save)),
            _handlers(OLD_SERVICE, (state_pb2.AgentId, get_old), (state_pb2.AgentState, save_old)),
        )
    )


Method = tuple[type[Any], Callable[[Any], Awaitable[Any]]]
"""The class of the request, and what answers it."""


def _handlers(service: str, get: Method, save: Method) -> grpc.GenericRpcHandler:
    methods = {name: _handler(*method) for name, method in (("GetState", get), ("SaveState", save))}
    return grpc.method_handlers_generic_handler(service, methods)


def _handler(request: type[Any], answer: Callable[[Any], Awaitable[Any]]) -> grpc.RpcMethodHandler[Any, Any]:
    async def handle(asked: Any, context: Context) -> Any:
        try:
            return await answer(asked)
        except _Abort as error:
            await context.abort(error.code, error.details, error.metadata)
        except (DatabaseUnavailable, LogClosed) as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        except EventLogError as error:
            await context.abort(grpc.StatusCode.INTERNAL, str(error))

    return grpc.unary_unary_rpc_method_handler(
        handle, request_deserializer=request.FromString, response_serializer=_serialized
    )


def _serialized(answer: Any) -> bytes:
    return answer.SerializeToString()
