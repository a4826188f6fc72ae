"""Which columns people see of which record, and what they see in full."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autogen_eventlog.audit import Activity, Difference, Holding, MessageRecord, Statistics
from autogen_eventlog.cli.forms import stored
from autogen_eventlog.cli.output import Column, Output, class_name, indented, present, printable, readable
from autogen_eventlog.cli.times import brief, shown
from autogen_eventlog.events import EventType, RecordedEvent
from autogen_eventlog.postgres.records import StreamHead, WorkerRecord

_MESSAGES = (
    Column("delivered (UTC)", brief=brief),
    Column("agent", 32, "bold"),
    Column("version"),
    Column("from", 32),
    Column("message", 40, brief=class_name),
    Column("outcome"),
    Column("content", 80, least=20),
)
_EVENTS = (
    Column("version"),
    Column("recorded (UTC)", brief=brief),
    Column("event", style="bold"),
    Column("delivery", spare=True),
    Column("with", 32),
    Column("message", 40, brief=class_name),
    Column("outcome"),
    Column("content", 80, least=20),
)


def show_messages(output: Output, records: Iterable[MessageRecord]) -> None:
    """One line each."""
    output.table(_MESSAGES, [_message_row(record) for record in records])


def show_message(output: Output, record: MessageRecord) -> None:
    """One message in full."""
    output.block(
        f"{record.agent or record.topic or ''}  version {record.version}",
        present(
            ("delivered", shown(record.delivered_at)),
            ("position", str(record.position)),
            ("sender", record.sender),
            ("topic", record.topic),
            ("message id", record.message_id),
            ("message type", record.message_type),
            ("message", indented(stored(record.payload))),
            ("outcome", _outcome(record)),
            ("dropped by", record.dropped_by),
            ("dropped at", record.dropped_stage),
            ("completed", shown(record.completed_at)),
            ("reply type", record.reply_type),
            ("reply", indented(stored(record.reply_payload))),
            ("error type", record.error_type),
            ("error", record.error_text),
            ("traceback", record.traceback),
            ("event id", str(record.id)),
            ("cause", record.cause),
            ("correlation", record.correlation),
            ("epoch", str(record.epoch)),
            ("worker", record.worker),
        ),
    )


def show_events(output: Output, events: Iterable[RecordedEvent], *, left: set[int] | None = None) -> None:
    """One line each.

    Args:
        left: versions on an abandoned branch, marked as such.
    """
    output.table(_EVENTS, [_event_row(event, event.version in (left or ())) for event in events])


def show_event(output: Output, event: RecordedEvent, *, left: bool = False) -> None:
    """One event in full."""
    output.block(
        f"{event.stream}  version {event.version}  {event.type.value}",
        present(
            ("recorded", shown(event.recorded_at)),
            ("occurred", shown(event.occurred_at)),
            ("position", str(event.position)),
            ("delivery", event.delivery),
            ("call", event.call),
            ("sender", event.sender),
            ("recipient", event.recipient),
            ("topic", event.topic),
            ("message id", event.message_id),
            ("message type", event.message_type),
            ("payload", indented(stored(event.payload))),
            ("outcome", None if event.outcome is None else event.outcome.value),
            ("branch", "abandoned" if left else None),
            ("event id", str(event.id)),
            ("cause", event.cause),
            ("correlation", event.correlation),
            ("epoch", str(event.epoch)),
            ("metadata", indented(event.metadata)),
        ),
    )


def event_line(event: RecordedEvent) -> str:
    """One event on one line, for following."""
    parts = (
        shown(event.recorded_at),
        str(event.position),
        f"{event.stream}@{event.version}",
        event.type.value,
        f"delivery {event.delivery}" if event.delivery is not None else "",
        _with(event),
        event.message_type or "",
        "" if event.outcome is None else event.outcome.value,
        readable(stored(event.payload)),
    )
    return "  ".join(part for part in parts if part)


def show_differences(output: Output, differences: Iterable[Difference]) -> None:
    """A line for each side of a step: `-` of the first run, `+` of the second."""
    for difference in differences:
        for sign, event in (("-", difference.first), ("+", difference.second)):
            if event is not None:
                output.text(printable(f"{sign} {event_line(event)}"))


def show_undelivered(output: Output, events: Iterable[RecordedEvent]) -> None:
    """One line each."""
    columns = (
        Column("accepted (UTC)", brief=brief),
        Column("position"),
        Column("event", style="bold"),
        Column("from", 32),
        Column("to", 32),
        Column("message", 40, brief=class_name),
        Column("content", 80, least=20),
    )
    output.table(
        columns,
        [
            (
                shown(event.recorded_at),
                str(event.position),
                event.type.value,
                event.sender or event.stream,
                event.recipient or f"topic {event.topic}",
                event.message_type or "",
                readable(stored(event.payload)),
            )
            for event in events
        ],
    )


def show_agents(output: Output, heads: Iterable[StreamHead]) -> None:
    """One line each."""
    columns = (
        Column("agent", style="bold"),
        Column("events"),
        Column("last event (UTC)", brief=brief),
        Column("epoch"),
        Column("owner", 40),
    )
    output.table(
        columns,
        [
            (head.stream, str(head.version), shown(head.recorded_at), str(head.epoch), _text(head.owner))
            for head in heads
        ],
    )


def show_workers(output: Output, holdings: Iterable[Holding]) -> None:
    """One line each."""
    columns = (
        Column("worker", style="bold"),
        Column("state"),
        Column("host", 32),
        Column("process"),
        Column("owns", 48),
        Column("epoch"),
        Column("lag"),
        Column("started (UTC)", brief=brief),
        Column("last heartbeat (UTC)", brief=brief),
    )
    output.table(
        columns,
        [
            (
                str(holding.worker.id),
                worker_state(holding.worker),
                holding.worker.host,
                str(holding.worker.process),
                ", ".join(f"{type} {number}" for type, number in holding.agents.items()),
                str(holding.epoch) if holding.epoch else "",
                "" if holding.lag is None else f"{holding.lag:.1f} s",
                shown(holding.worker.started_at),
                shown(holding.worker.heartbeat_at),
            )
            for holding in holdings
        ],
    )


def worker_state(worker: WorkerRecord) -> str:
    """Alive, stopped in good order, or lost."""
    if worker.alive:
        return "alive"
    return "lost" if worker.stopped_at is None else "stopped"


def show_statistics(output: Output, statistics: Statistics) -> None:
    """One value a line."""
    output.block(
        "event log",
        (
            ("agents", str(statistics.agents)),
            ("events", str(statistics.events)),
            ("first", shown(statistics.first_at)),
            ("last", shown(statistics.last_at)),
            ("last position", str(statistics.last_position)),
            ("workers alive", str(statistics.workers_alive)),
            ("bytes on disk", str(statistics.bytes)),
        ),
    )


def show_activity(output: Output, name: str, rows: Iterable[Activity]) -> None:
    """One line each."""
    titles = ("deliveries", "replied", "raised", "cancelled", "running", "first (UTC)", "last (UTC)")
    output.table(
        (
            Column(name, style="bold"),
            *(Column(title, brief=brief if title.endswith("(UTC)") else None) for title in titles),
        ),
        [
            (
                row.name,
                *(str(n) for n in (row.deliveries, row.replied, row.raised, row.cancelled, row.running)),
                shown(row.first_at),
                shown(row.last_at),
            )
            for row in rows
        ],
    )


def _message_row(record: MessageRecord) -> Sequence[str]:
    return (
        shown(record.delivered_at),
        record.agent or "",
        str(record.version),
        record.sender or (f"topic {record.topic}" if record.topic else ""),
        record.message_type or "",
        _outcome(record),
        record.error_text or readable(stored(record.payload)),
    )


def _outcome(record: MessageRecord) -> str:
    ended = "in flight" if record.in_flight else ("" if record.outcome is None else record.outcome.value)
    return f"{ended} (abandoned)".strip() if record.abandoned else ended


def _event_row(event: RecordedEvent, left: bool) -> Sequence[str]:
    outcome = "" if event.outcome is None else event.outcome.value
    return (
        str(event.version),
        shown(event.recorded_at),
        event.type.value,
        _text(event.delivery),
        _with(event),
        event.message_type or str(event.metadata.get("kind", "")),
        f"{outcome} (abandoned)".strip() if left else outcome,
        _content(event),
    )


def _content(event: RecordedEvent) -> str:
    """Of a dropped message why it was, where that is known."""
    why = event.metadata.get("error") if event.type is EventType.MESSAGE_DROPPED else None
    return str(why) if why else readable(stored(event.payload)) or _remark(event)


def _with(event: RecordedEvent) -> str:
    if event.recipient is not None:
        return f"to {event.recipient}"
    if event.sender is not None:
        return f"from {event.sender}"
    return "" if event.topic is None else f"topic {event.topic}"


def _remark(event: RecordedEvent) -> str:
    kept = ("to_version", "from_stream", "from_version", "producer", "by", "point")
    remark = {name: event.metadata[name] for name in kept if name in event.metadata}
    return readable(remark) if remark else ""


def _text(value: object) -> str:
    return "" if value is None else str(value)
