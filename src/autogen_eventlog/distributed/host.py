"""AutoGen's host, with the state service beside what it does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
from autogen_ext.runtimes.grpc import GrpcWorkerAgentRuntimeHost, GrpcWorkerAgentRuntimeHostServicer
from autogen_ext.runtimes.grpc.protos import agent_worker_pb2_grpc

from autogen_eventlog.distributed.state_service import LARGEST_MESSAGE, add_state_service
from autogen_eventlog.log import EventLog

_RECEIVE_LIMIT = "grpc.max_receive_message_length"


class EventSourcedGrpcWorkerAgentRuntimeHost(GrpcWorkerAgentRuntimeHost):
    """A `GrpcWorkerAgentRuntimeHost` that also serves `GetState` and `SaveState`, backed by a log.

    Messages go through AutoGen's own servicer, unchanged. Any number of hosts may serve the states of one log.

    Args:
        address: Where it listens, as AutoGen's host takes it; port 0: a free one, see `address`.
        log: The open log. It must stay open until the host has stopped.
        extra_grpc_config: Channel arguments, as AutoGen's host takes them. `grpc.max_receive_message_length` also
            bounds a state.
        server_credentials: Serves TLS with them, and nothing in the clear. AutoGen's own workers speak no TLS.

    Raises:
        RuntimeError: The address can't be listened on.
    """

    def __init__(
        self,
        address: str,
        log: EventLog,
        extra_grpc_config: Sequence[tuple[str, Any]] | None = None,
        *,
        server_credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        # AutoGen's constructor opens an insecure port itself and doesn't say which: so it is not called, and these are the
        # attributes that its methods use (a test compares them).
        self._server = grpc.aio.server(options=extra_grpc_config)
        self._servicer = GrpcWorkerAgentRuntimeHostServicer()
        self._serve_task: asyncio.Task[None] | None = None
        serve_agents: Any = agent_worker_pb2_grpc.add_AgentRpcServicer_to_server
        serve_agents(self._servicer, self._server)
        add_state_service(self._server, log, largest_message=_receive_limit(extra_grpc_config))
        self._address = _listen(self._server, address, server_credentials)

    @property
    def address(self) -> str:
        """Where workers and clients reach it, if they are where it is: the given address with the port that it has."""
        return self._address


def _listen(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None) -> str:
    insecure = credentials is None
    port = server.add_insecure_port(address) if insecure else server.add_secure_port(address, credentials)
    name, colon, given = address.rpartition(":")
    return f"{name}{colon}{port}" if given == "0" else address


def _receive_limit(config: Sequence[tuple[str, Any]] | None) -> int | None:
    limit = dict(config or ()).get(_RECEIVE_LIMIT, LARGEST_MESSAGE)
    return None if limit < 0 else limit
