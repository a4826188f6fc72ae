"""What people see of effects: in a line what was said, in full all of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from autogen_eventlog.audit import EffectRecord
from autogen_eventlog.cli.forms import stored
from autogen_eventlog.cli.output import Column, Output, indented, present, readable
from autogen_eventlog.cli.times import brief, shown
from autogen_eventlog.events import Outcome

_EFFECTS = (
    Column("recorded (UTC)", brief=brief),
    Column("position", spare=True),
    Column("agent", 32, "bold"),
    Column("version"),
    Column("kind"),
    Column("outcome"),
    Column("request", 60, least=20),
    Column("result", 60, least=20),
)


def show_effects(output: Output, records: Iterable[EffectRecord]) -> None:
    """One line each."""
    output.table(_EFFECTS, [_row(record) for record in records])


def show_effect(output: Output, record: EffectRecord) -> None:
    """One in full."""
    failed, result = _failed(record), stored(record.payload)
    output.block(
        f"{record.agent}  version {record.version}  {record.kind}",
        present(
            ("recorded", shown(record.recorded_at)),
            ("position", record.position),
            ("delivery", record.delivery),
            ("asked at", None if record.asked_version is None else f"version {record.asked_version}"),
            ("asked", record.request if record.asked is None else indented(record.asked)),
            ("outcome", _outcome(record)),
            ("error type" if failed else "result type", record.result_type),
            ("error", _error(result) if failed else None),
            ("error as data" if failed else "result", indented(result)),
            ("event id", record.id),
            ("cause", record.cause),
            ("correlation", record.correlation),
        ),
    )


def asked_in_short(kind: str, asked: object) -> str:
    """What was asked, on one line: of a model the last message, of a tool its name and arguments, else all of it."""
    if isinstance(asked, Mapping):
        given = cast("Mapping[str, Any]", asked)
        messages: object = given.get("messages")
        if kind.startswith("model.") and isinstance(messages, list) and messages:
            return _said(cast("list[Any]", messages)[-1])
        if kind.startswith("tool.") and isinstance(given.get("tool"), str):
            return f"{given['tool']} {readable(given.get('args'))}".rstrip()
    return asked if isinstance(asked, str) else readable(cast("object", asked))


def _row(record: EffectRecord) -> Sequence[str]:
    return (
        shown(record.recorded_at),
        str(record.position),
        record.agent,
        str(record.version),
        record.kind,
        _outcome(record),
        record.request if record.asked is None else asked_in_short(record.kind, record.asked),
        _came_of(record),
    )


def _came_of(record: EffectRecord) -> str:
    """Of a model what it said, of an error its text, else all of the result."""
    result = stored(record.payload)
    if _failed(record):
        return _error(result) or readable(result)
    return _said(result) if record.kind.startswith("model.") and result is not None else readable(result)


def _outcome(record: EffectRecord) -> str:
    return "unknown" if record.outcome is None else record.outcome.value


def _failed(record: EffectRecord) -> bool:
    return record.outcome in (Outcome.RAISED, Outcome.CANCELLED)


def _error(result: object) -> str:
    """The text of an exception, as it was recorded."""
    text = cast("Mapping[str, Any]", result).get("text") if isinstance(result, Mapping) else None
    return text if isinstance(text, str) else ""


def _said(part: object) -> str:
    """The text in a message, an answer or a part of one; as it is stored where there is none."""
    if isinstance(part, str):
        return part
    if isinstance(part, list):
        return ", ".join(_said(one) for one in cast("list[object]", part))
    if isinstance(part, Mapping):
        found = cast("Mapping[str, Any]", part)
        if "content" in found:
            return _said(found["content"])
        if "arguments" in found:  # a call that a model asks for
            return f"{found.get('name', '')} {found['arguments']}"
    return readable(cast("object", part))
