"""Event sourcing for Microsoft AutoGen agents: record, restore by replay, query the audit log."""

from autogen_eventlog.errors import EventLogError
from autogen_eventlog.events import EventData, EventType, Outcome, RecordedEvent
from autogen_eventlog.log import EventLog
from autogen_eventlog.runtime.handler import EventLogHandler
from autogen_eventlog.runtime.in_process import EventSourcedAgentRuntime
from autogen_eventlog.runtime.reports import RestoreReport

__all__ = [
    "EventData",
    "EventLog",
    "EventLogError",
    "EventLogHandler",
    "EventSourcedAgentRuntime",
    "EventType",
    "Outcome",
    "RecordedEvent",
    "RestoreReport",
]
