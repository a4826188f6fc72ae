"""Event sourcing for Microsoft AutoGen agents: record, restore by replay, query the audit log."""

from typing import TYPE_CHECKING, Any

from autogen_eventlog.codec import renamed, upcaster
from autogen_eventlog.effects import Answer, UnknownEffect, effect, effect_of
from autogen_eventlog.errors import EventLogError
from autogen_eventlog.events import EventData, EventType, Outcome, RecordedEvent
from autogen_eventlog.log import EventLog
from autogen_eventlog.runtime.handler import EventLogHandler
from autogen_eventlog.runtime.in_process import EventSourcedAgentRuntime
from autogen_eventlog.runtime.reports import RestoreReport, SnapshotReport
from autogen_eventlog.snapshots import SnapshotPolicy

if TYPE_CHECKING:
    from autogen_eventlog.distributed import (
        EventSourcedGrpcWorkerAgentRuntime,
        EventSourcedGrpcWorkerAgentRuntimeHost,
    )

_DISTRIBUTED = ("EventSourcedGrpcWorkerAgentRuntime", "EventSourcedGrpcWorkerAgentRuntimeHost")
"""Imported when they are used, so that a program without gRPC never loads it."""

__all__ = [
    "Answer",
    "EventData",
    "EventLog",
    "EventLogError",
    "EventLogHandler",
    "EventSourcedAgentRuntime",
    "EventSourcedGrpcWorkerAgentRuntime",
    "EventSourcedGrpcWorkerAgentRuntimeHost",
    "EventType",
    "Outcome",
    "RecordedEvent",
    "RestoreReport",
    "SnapshotPolicy",
    "SnapshotReport",
    "UnknownEffect",
    "effect",
    "effect_of",
    "renamed",
    "upcaster",
]


def __getattr__(name: str) -> Any:
    if name not in _DISTRIBUTED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from autogen_eventlog import distributed

    return getattr(distributed, name)
