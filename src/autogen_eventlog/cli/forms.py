"""Records as plain JSON, with keys that stay: what `--json` writes."""

from __future__ import annotations

import base64
import json
from typing import Any
from uuid import UUID

from autogen_eventlog.audit import Activity, Difference, EffectRecord, Holding, MessageRecord, Statistics
from autogen_eventlog.cli.times import iso
from autogen_eventlog.events import RecordedEvent
from autogen_eventlog.postgres.records import StreamHead, WorkerRecord

Form = dict[str, Any]


def stored(payload: bytes | None) -> Any:
    """A payload as it is stored; bytes that are no JSON (an altered row) in the way the codec writes bytes."""
    if payload is None:
        return None
    try:
        return json.loads(payload)
    except ValueError:
        return {"$t": "bytes", "v": base64.b64encode(payload).decode()}


def message_form(record: MessageRecord) -> Form:
    """One delivery or dropped message."""
    return {
        "agent": record.agent,
        "version": record.version,
        "position": record.position,
        "delivered_at": iso(record.delivered_at),
        "sender": record.sender,
        "topic": record.topic,
        "message_id": record.message_id,
        "message_type": record.message_type,
        "message": stored(record.payload),
        "is_rpc": record.is_rpc,
        "outcome": None if record.outcome is None else record.outcome.value,
        "in_flight": record.in_flight,
        "completed_at": iso(record.completed_at),
        "reply_type": record.reply_type,
        "reply": stored(record.reply_payload),
        "error_type": record.error_type,
        "error": record.error_text,
        "traceback": record.traceback,
        "dropped_by": record.dropped_by,
        "dropped_stage": record.dropped_stage,
        "correlation": _id(record.correlation),
        "cause": _id(record.cause),
        "id": str(record.id),
        "stream": record.stream,
        "epoch": record.epoch,
        "worker": record.worker,
        "abandoned": record.abandoned,
    }


def difference_form(difference: Difference) -> Form:
    """One step that two runs do not share."""
    first, second = difference.first, difference.second
    return {
        "change": difference.change,
        "first": None if first is None else event_form(first),
        "second": None if second is None else event_form(second),
    }


def effect_form(record: EffectRecord) -> Form:
    """One result from outside."""
    return {
        "agent": record.agent,
        "version": record.version,
        "position": record.position,
        "recorded_at": iso(record.recorded_at),
        "kind": record.kind,
        "request": record.request,
        "asked": record.asked,
        "outcome": None if record.outcome is None else record.outcome.value,
        "result_type": record.result_type,
        "result": stored(record.payload),
        "cause": _id(record.cause),
        "correlation": _id(record.correlation),
        "id": str(record.id),
    }


def event_form(event: RecordedEvent) -> Form:
    """One event, in full."""
    return {
        "stream": event.stream,
        "version": event.version,
        "position": event.position,
        "recorded_at": iso(event.recorded_at),
        "type": event.type.value,
        "delivery": event.delivery,
        "call": event.call,
        "sender": event.sender,
        "recipient": event.recipient,
        "topic": event.topic,
        "message_id": event.message_id,
        "message_type": event.message_type,
        "payload": stored(event.payload),
        "outcome": None if event.outcome is None else event.outcome.value,
        "cause": _id(event.cause),
        "correlation": _id(event.correlation),
        "id": str(event.id),
        "epoch": event.epoch,
        "occurred_at": iso(event.occurred_at),
        "metadata": event.metadata,
    }


def head_form(head: StreamHead) -> Form:
    """One agent."""
    return {
        "agent": head.stream,
        "version": head.version,
        "position": head.position,
        "recorded_at": iso(head.recorded_at),
        "epoch": head.epoch,
        "owner": _id(head.owner),
        "created_at": iso(head.created_at),
    }


def holding_form(holding: Holding) -> Form:
    """One process that writes or wrote, and what it owns."""
    return {
        **worker_form(holding.worker),
        "lag_seconds": None if holding.lag is None else round(holding.lag, 3),
        "owns": sum(holding.agents.values()),
        "agents": dict(holding.agents),
        "epoch": holding.epoch,
    }


def worker_form(worker: WorkerRecord) -> Form:
    """One process that writes or wrote."""
    return {
        "id": str(worker.id),
        "alive": worker.alive,
        "host": worker.host,
        "process": worker.process,
        "identity": worker.identity,
        "started_at": iso(worker.started_at),
        "heartbeat_at": iso(worker.heartbeat_at),
        "stopped_at": iso(worker.stopped_at),
    }


def statistics_form(statistics: Statistics) -> Form:
    """The log as a whole."""
    return {
        "agents": statistics.agents,
        "events": statistics.events,
        "first_at": iso(statistics.first_at),
        "last_at": iso(statistics.last_at),
        "last_position": statistics.last_position,
        "workers_alive": statistics.workers_alive,
        "bytes": statistics.bytes,
    }


def activity_form(activity: Activity) -> Form:
    """One agent or type, summed up."""
    return {
        "name": activity.name,
        "deliveries": activity.deliveries,
        "replied": activity.replied,
        "raised": activity.raised,
        "cancelled": activity.cancelled,
        "running": activity.running,
        "first_at": iso(activity.first_at),
        "last_at": iso(activity.last_at),
    }


def _id(given: UUID | None) -> str | None:
    return None if given is None else str(given)
