"""The log as an application of eventsourcing's, for `ApplicationSubscription` and the projection runners."""

from __future__ import annotations

from typing import Any, cast

from eventsourcing.application import Application
from eventsourcing.domain import DomainEventProtocol
from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    InfrastructureFactory,
    Mapper,
    NotSupportedError,
    ProcessRecorder,
    StoredEvent,
    TrackingRecorder,
    Transcoder,
)
from eventsourcing.utils import Environment, EnvType

from autogen_eventlog.projections.notifications import recorded_event
from autogen_eventlog.projections.recorder import EventLogRecorder

DSN = "EVENTLOG_DSN"
SCHEMA = "EVENTLOG_SCHEMA"
_UNAVAILABLE_AFTER = "EVENTLOG_UNAVAILABLE_AFTER"


class RecordedEventMapper(Mapper[str]):
    """Gives a notification's `RecordedEvent`, where eventsourcing's mapper would import a class by its stored name (G10)."""

    def to_domain_event(self, stored_event: StoredEvent) -> DomainEventProtocol[str]:
        """The `RecordedEvent` (which is what a projection gets; the declared type is the library's)."""
        return cast(Any, recorded_event(stored_event))

    def to_stored_event(self, domain_event: DomainEventProtocol[str]) -> StoredEvent:
        raise NotSupportedError("agents' events are recorded by a runtime that the log is switched on for")


class EventLogFactory(InfrastructureFactory[TrackingRecorder]):
    """Builds what `EventLogApplication` needs. A projection's view keeps its tracking in a store of its own."""

    def __init__(self, env: Environment | EnvType | None) -> None:
        super().__init__(env)
        self._recorders: list[EventLogRecorder] = []

    def application_recorder(self) -> ApplicationRecorder:
        dsn = self.env.get(DSN)
        if not dsn:
            raise NotSupportedError(f"{DSN} is not set: give `log_environment(log.dsn)` to the runner")
        bound = float(self.env.get(_UNAVAILABLE_AFTER) or 30.0)
        recorder = EventLogRecorder(dsn, schema=self.env.get(SCHEMA) or "eventlog", unavailable_after=bound)
        self._recorders.append(recorder)
        return recorder

    def close(self) -> None:
        """Closes the recorders' connections."""
        for recorder in self._recorders:
            recorder.close()

    def mapper(
        self, transcoder: Transcoder | None = None, mapper_class: type[Mapper[Any]] | None = None
    ) -> Mapper[Any]:
        return RecordedEventMapper(transcoder or self.transcoder())

    def aggregate_recorder(self, purpose: str = "events") -> AggregateRecorder:
        raise NotSupportedError(f"an event log has no recorder for {purpose}")

    def tracking_recorder(self, tracking_recorder_class: type[TrackingRecorder] | None = None) -> TrackingRecorder:
        raise NotSupportedError("an event log keeps no tracking: a view keeps its own, in its own transactions")

    def process_recorder(self) -> ProcessRecorder:
        raise NotSupportedError("an event log is no process recorder: use eventsourcing's own over other tables")


class EventLogApplication(Application[str]):
    """The agents of a log as one application. Its name stands in every view's tracking table.

    It is made with `env=log_environment(log.dsn)`, as a rule by a projection runner. Its notifications are read;
    aggregates and snapshots it has none.
    """

    name = "EventLog"

    def construct_factory(self, env: Environment) -> InfrastructureFactory[Any]:
        return EventLogFactory(env)


def log_environment(dsn: str, *, schema: str = "eventlog", unavailable_after: float = 30.0) -> dict[str, str]:
    """The environment by which a runner's `EventLogApplication` finds the log."""
    return {DSN: dsn, SCHEMA: schema, _UNAVAILABLE_AFTER: str(unavailable_after)}
