"""The client of the state service, for agents that keep no state themselves and still carry a stateful workflow."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from uuid import uuid4

import grpc
from autogen_core import AgentId
from google.protobuf.any_pb2 import Any as PackedMessage
from google.protobuf.message import Message
from typing_extensions import Self

from autogen_eventlog.distributed.protos import state_pb2, state_pb2_grpc
from autogen_eventlog.distributed.state_effects import recorded
from autogen_eventlog.distributed.state_errors import (
    StateConflict,
    StateRefused,
    StateServiceError,
    StateServiceUnavailable,
    StateTooLarge,
)
from autogen_eventlog.distributed.state_service import STORED_ETAG

_CHANNEL: dict[str, Any] = {
    "grpc.max_receive_message_length": -1,  # what the host has accepted can be got
    "grpc.initial_reconnect_backoff_ms": 50,
    "grpc.min_reconnect_backoff_ms": 50,
    "grpc.max_reconnect_backoff_ms": 1000,  # gRPC's own grows to two minutes, past any bound of ours
}
_FIRST_DELAY_SECONDS = 0.05
_LONGEST_DELAY_SECONDS = 1.0
_AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


class _Connection:
    """A channel, made when it is first used."""

    def __init__(self, host: str, options: list[tuple[str, Any]], credentials: grpc.ChannelCredentials | None) -> None:
        self._host = host
        self._options = options
        self._credentials = credentials
        self._channel: grpc.aio.Channel | None = None

    def method(self, name: str) -> Callable[..., Any]:
        if self._channel is None:
            self._channel = (
                grpc.aio.insecure_channel(self._host, options=self._options)
                if self._credentials is None
                else grpc.aio.secure_channel(self._host, self._credentials, options=self._options)
            )
        stub: Any = state_pb2_grpc.AgentStateServiceStub(self._channel)
        return getattr(stub, name)

    async def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()


@dataclass(frozen=True, slots=True)
class StoredState:
    """An agent's state, as it was saved."""

    agent: AgentId
    etag: str
    """Opaque; another one with every save."""
    data: bytes | str | PackedMessage | None
    """What was saved, of the same kind. A message comes back packed: `state.data.Unpack(message)`. None: somebody
    saved a state without data."""


class AgentStateClient:
    """Gets and saves states of agents at an `EventSourcedGrpcWorkerAgentRuntimeHost`.

    It connects when it is first used; close it, or use it in an `async with`. One client serves any number of agents and
    tasks. A call that finds the host or its database away is made again until its bound is over, and a save is done once
    however often it is sent.

    An agent on an event-sourced runtime may use it in a handler as well: what it asks is recorded then, and in replay
    answered from the log.

    Args:
        host_address: As a `GrpcWorkerAgentRuntime` takes it.
        extra_grpc_config: Channel arguments, as a `GrpcWorkerAgentRuntime` takes them.
        channel_credentials: Speaks TLS with them.
        timeout: Bound of a call, in seconds.

    Raises (everywhere):
        StateServiceUnavailable: No answer within the bound. A save may have been done.
        StateRefused: The host has no state service, or the agent's id can't be one.
    """

    def __init__(
        self,
        host_address: str,
        *,
        extra_grpc_config: Sequence[tuple[str, Any]] | None = None,
        channel_credentials: grpc.ChannelCredentials | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._host = host_address
        self._timeout = timeout
        connection = _Connection(
            host_address, list((_CHANNEL | dict(extra_grpc_config or ())).items()), channel_credentials
        )
        self._method, self._disconnect = connection.method, connection.close

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __copy__(self) -> Self:
        return self  # a copy of an agent asks the same service: a connection is no state of the agent's

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    async def close(self) -> None:
        """Close the connection; calls on their way fail. Idempotent, and a later call connects anew."""
        await self._disconnect()

    async def get(self, agent: AgentId, *, timeout: float | None = None) -> StoredState | None:
        """The stored state; None if none was ever saved.

        Args:
            timeout: Bound of this call, in seconds.

        Raises:
            StateTooLarge: The state is over a limit that `extra_grpc_config` sets.
            StateServiceUnavailable, StateRefused: As everywhere.
        """
        return await recorded("get", {"agent": str(agent)}, lambda: self._get(agent, timeout), StoredState, AgentId)

    async def save(
        self, agent: AgentId, data: bytes | str | Message, *, etag: str | None = None, timeout: float | None = None
    ) -> str:
        """Store a state. It is durable when this returns.

        Args:
            data: Comes back as it is, of the same kind. A message is packed into an `Any`, unless it is one.
            etag: That of the state which this one replaces: it must be the stored one. None: whatever is stored is
                replaced. While nothing is stored, any is accepted.
            timeout: Bound of this call, in seconds.

        Returns: The new ETag.

        Raises:
            StateConflict: Another state was stored meanwhile.
            StateTooLarge: The state is over a limit of the host's or the log's.
            StateServiceUnavailable, StateRefused: As everywhere.
        """
        asked = {"agent": str(agent), "data": data, "etag": etag}
        return await recorded("save", asked, lambda: self._save(agent, data, etag, timeout))

    async def _get(self, agent: AgentId, timeout: float | None) -> StoredState | None:
        request = state_pb2.GetStateRequest(agent_id=_id(agent))
        response: state_pb2.GetStateResponse = await self._call("GetState", request, agent, "", timeout)
        state = response.agent_state
        if not state.etag:
            return None
        arm = state.WhichOneof("data")
        return StoredState(agent, state.etag, None if arm is None else getattr(state, arm))

    async def _save(self, agent: AgentId, data: bytes | str | Message, etag: str | None, timeout: float | None) -> str:
        state = state_pb2.AgentState(agent_id=_id(agent), etag=etag or "")
        _put(state, data)
        request = state_pb2.SaveStateRequest(agent_state=state, request_id=uuid4().bytes)
        response: state_pb2.SaveStateResponse = await self._call("SaveState", request, agent, etag or "", timeout)
        return response.etag

    async def _call(self, method: str, request: Message, agent: AgentId, given: str, timeout: float | None) -> Any:
        bound = self._timeout if timeout is None else timeout
        now = asyncio.get_running_loop().time
        ends = now() + bound
        delay = _FIRST_DELAY_SECONDS
        problem = ""
        while True:
            try:
                return await self._method(method)(request, timeout=max(ends - now(), 0.001))
            except grpc.aio.AioRpcError as error:
                pause = delay * random.uniform(0.5, 1.0)
                if error.code() is grpc.StatusCode.UNAVAILABLE:
                    problem = error.details() or problem
                if error.code() is not grpc.StatusCode.UNAVAILABLE or now() + pause >= ends:
                    raise self._told(error, agent, given, bound, problem) from error
            await asyncio.sleep(pause)
            delay = min(2 * delay, _LONGEST_DELAY_SECONDS)

    def _told(
        self, error: grpc.aio.AioRpcError, agent: AgentId, given: str, bound: float, away: str
    ) -> StateServiceError:
        """Args:
        away: What the last answer that there was said of being away, if one did: more than that time is over.
        """
        code, problem = error.code(), error.details() or "no details"
        if code is grpc.StatusCode.ABORTED:
            return StateConflict(str(agent), given, _stored_etag(error))
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            return StateTooLarge(str(agent), problem)
        if code in _AWAY:
            return StateServiceUnavailable(self._host, str(agent), bound, away or problem)
        return StateRefused(self._host, str(agent), code.name, problem)


def _id(agent: AgentId) -> state_pb2.AgentId:
    return state_pb2.AgentId(type=agent.type, key=agent.key)


def _put(state: state_pb2.AgentState, data: bytes | str | Message) -> None:
    if isinstance(data, bytes):
        state.binary_data = data
    elif isinstance(data, str):
        state.text_data = data
    elif isinstance(data, PackedMessage):
        state.proto_data.CopyFrom(data)
    else:
        state.proto_data.Pack(data)


def _stored_etag(error: grpc.aio.AioRpcError) -> str:
    trailing: Any = error.trailing_metadata()  # None in gRPC's own types as well, if the host sent none
    return "" if trailing is None else trailing.get(STORED_ETAG, "")
