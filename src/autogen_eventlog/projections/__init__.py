"""Read models built from the log with the eventsourcing library, which tracks how far each has read."""

from autogen_eventlog.postgres.blocking import BlockingCall
from autogen_eventlog.projections.application import EventLogApplication, RecordedEventMapper, log_environment
from autogen_eventlog.projections.errors import (
    EventNotStorable,
    NotAnApplicationStream,
    OriginatorConflict,
    RecorderUnavailable,
)
from autogen_eventlog.projections.notifications import EventNotification, recorded_event
from autogen_eventlog.projections.recorder import EventLogRecorder
from autogen_eventlog.projections.subscription import EventLogSubscription
from autogen_eventlog.projections.supervisor import ProjectionStatistics, ProjectionSupervisor
from autogen_eventlog.projections.views import open_view

__all__ = [
    "BlockingCall",
    "EventLogApplication",
    "EventLogRecorder",
    "EventLogSubscription",
    "EventNotStorable",
    "EventNotification",
    "NotAnApplicationStream",
    "OriginatorConflict",
    "ProjectionStatistics",
    "ProjectionSupervisor",
    "RecordedEventMapper",
    "RecorderUnavailable",
    "log_environment",
    "open_view",
    "recorded_event",
]
