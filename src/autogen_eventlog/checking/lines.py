"""The lines of a history file: JSON objects, each closed by a sum over itself and everything before it.

So a line that was edited, left out or moved is found where it stands. The same history gives the same bytes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from datetime import datetime, timezone
from typing import Any
from uuid import UUID

from autogen_eventlog.events import EventType, Outcome, RecordedEvent

_SUM = ',"sum":"'
_SUM_DIGITS = 16
_END = '"}'
_TEXTS = ("sender", "recipient", "topic", "message_id", "message_type")
_NUMBERS = ("delivery", "call")
_IDS = ("cause", "correlation")


class Chain:
    """Closes lines, or checks them, one after the other."""

    def __init__(self) -> None:
        self._sum = ""

    def close(self, form: dict[str, Any]) -> bytes:
        """An object as a line, with its end."""
        body = json.dumps(form, separators=(",", ":"), allow_nan=False)[:-1]
        return f"{body}{_SUM}{self._next(body.encode())}{_END}\n".encode()

    def opened(self, line: bytes) -> dict[str, Any]:
        """The object of a line.

        Raises:
            ValueError: It is not what `close` gave here.
        """
        tail = len(_SUM) + _SUM_DIGITS + len(_END)
        body, said = line[:-tail], line[-tail:]
        if said[: len(_SUM)] != _SUM.encode() or said[-len(_END) :] != _END.encode():
            raise ValueError("it does not end as a line of a history does")
        if said[len(_SUM) : -len(_END)].decode("ascii", "replace") != self._next(body):
            raise ValueError("it is not the line that was written here: it, or one before it, was changed")
        form: dict[str, Any] = json.loads(body + b"}")
        return form

    def _next(self, body: bytes) -> str:
        self._sum = hashlib.sha256(self._sum.encode() + body).hexdigest()[:_SUM_DIGITS]
        return self._sum


def event_form(event: RecordedEvent, agent: str) -> dict[str, Any]:
    """An event with every column exact; what it does not have is left out."""
    form: dict[str, Any] = {"version": event.version, "type": event.type.value}
    if event.stream != agent:
        form["stream"] = event.stream
    form |= {name: value for name in (*_NUMBERS, *_TEXTS) if (value := getattr(event, name)) is not None}
    form |= _payload_form(event.payload)
    if event.outcome is not None:
        form["outcome"] = event.outcome.value
    form["id"] = str(event.id)
    form |= {name: str(value) for name in _IDS if (value := getattr(event, name)) is not None}
    form |= {
        "occurred_at": _time(event.occurred_at),
        "recorded_at": _time(event.recorded_at),
        "position": event.position,
        "epoch": event.epoch,
        "metadata": event.metadata,
    }
    return form


def event_of(form: dict[str, Any], agent: str) -> RecordedEvent:
    """The event of a line.

    Raises:
        ValueError, KeyError, TypeError: It is none.
    """
    return RecordedEvent(
        stream=form.get("stream", agent),
        version=form["version"],
        type=EventType(form["type"]),
        **{name: form.get(name) for name in (*_NUMBERS, *_TEXTS)},
        payload=_payload(form),
        outcome=None if "outcome" not in form else Outcome(form["outcome"]),
        id=UUID(form["id"]),
        cause=_id(form.get("cause")),
        correlation=_id(form.get("correlation")),
        occurred_at=datetime.fromisoformat(form["occurred_at"]),
        recorded_at=datetime.fromisoformat(form["recorded_at"]),
        position=form["position"],
        epoch=form["epoch"],
        metadata=form["metadata"],
    )


def _payload_form(payload: bytes | None) -> dict[str, str]:
    """As text where it is UTF-8, else in base64: a stored row may have been altered."""
    if payload is None:
        return {}
    try:
        return {"payload": payload.decode()}
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(payload).decode()}


def _payload(form: dict[str, Any]) -> bytes | None:
    if "payload_base64" in form:
        try:
            return base64.b64decode(form["payload_base64"], validate=True)
        except binascii.Error as error:
            raise ValueError(str(error)) from None
    text: str | None = form.get("payload")
    return None if text is None else text.encode()


def _time(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).isoformat()


def _id(text: str | None) -> UUID | None:
    return None if text is None else UUID(text)
