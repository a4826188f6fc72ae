"""AutoGen's distributed runtime on the log: the host with its state service, workers, and what speaks gRPC with them.

Names are imported when they are used, so that a program without gRPC never loads it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autogen_eventlog.distributed.health import WorkerHealth
    from autogen_eventlog.distributed.host import EventSourcedGrpcWorkerAgentRuntimeHost
    from autogen_eventlog.distributed.state_client import AgentStateClient, StoredState
    from autogen_eventlog.distributed.state_data import state_stream
    from autogen_eventlog.distributed.state_errors import (
        StateConflict,
        StateRefused,
        StateServiceError,
        StateServiceUnavailable,
        StateTooLarge,
    )
    from autogen_eventlog.distributed.worker import EventSourcedGrpcWorkerAgentRuntime

_MODULES = {
    "AgentStateClient": "state_client",
    "EventSourcedGrpcWorkerAgentRuntime": "worker",
    "EventSourcedGrpcWorkerAgentRuntimeHost": "host",
    "StateConflict": "state_errors",
    "StateRefused": "state_errors",
    "StateServiceError": "state_errors",
    "StateServiceUnavailable": "state_errors",
    "StateTooLarge": "state_errors",
    "StoredState": "state_client",
    "WorkerHealth": "health",
    "state_stream": "state_data",
}
"""Where each public name lives."""

__all__ = [
    "AgentStateClient",
    "EventSourcedGrpcWorkerAgentRuntime",
    "EventSourcedGrpcWorkerAgentRuntimeHost",
    "StateConflict",
    "StateRefused",
    "StateServiceError",
    "StateServiceUnavailable",
    "StateTooLarge",
    "StoredState",
    "WorkerHealth",
    "state_stream",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
