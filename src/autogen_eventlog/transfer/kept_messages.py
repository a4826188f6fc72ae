"""Messages of types that a team does not know, kept in its state: as text that agents can read, and whole, to be given back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from autogen_eventlog.runtime.unknown_messages import MESSAGES, Unknown, Where

_WHOLE = "autogen_eventlog.kept"
"""In the metadata of a text message: the message in whose place it stands, as JSON."""
_TIME = TypeAdapter(datetime)
"""What AgentChat takes for a time."""

Form = Mapping[str, Any]
Change = Callable[[Where, Form], Form]


def kept(state: Form, unknown: Iterable[Unknown]) -> dict[str, Any]:
    """A team's state in which a text message stands for each of these messages of its agents.

    Raises:
        TypeError, ValueError, RecursionError: JSON can't hold one.
    """
    types: dict[Where, list[str]] = {}
    for one in unknown:
        types.setdefault(one.where, []).append(one.type)

    def change(where: Where, message: Form) -> Form:
        if message.get("type") not in types.get(where, ()):
            return message
        return _as_text(json.loads(json.dumps(message)))  # as it will be read again

    return {**state, "agent_states": {name: _part((), one, change) for name, one in state["agent_states"].items()}}


def given_back(state: Form) -> dict[str, Any]:
    """The state of a team, or of an agent of AgentChat, again, with the messages that were kept."""
    return _changed((), state, lambda _, message: _whole(message))


def _changed(where: Where, state: Form, change: Change) -> dict[str, Any]:
    return {name: _part((*where, name), value, change) for name, value in state.items()}


def _part(where: Where, value: Any, change: Change) -> Any:
    if where and where[-1] in MESSAGES and isinstance(value, (list, tuple)):
        messages = enumerate(cast("Iterable[Any]", value))
        return [
            change((*where, number), cast("Form", one)) if isinstance(one, Mapping) else one for number, one in messages
        ]
    return _changed(where, cast("Form", value), change) if isinstance(value, Mapping) else value


# -- the text that stands for a message ----------------------------------------------------------------------------


def _as_text(message: Form) -> Form:
    """What AgentChat takes as a text message, whatever is odd about this one: the whole has it as it was."""
    content, source = message.get("content", message), message.get("source")
    text = {
        "type": "TextMessage",
        "source": source if isinstance(source, str) else "unknown",
        "content": content if isinstance(content, str) else json.dumps(content, ensure_ascii=False),
        "metadata": {_WHOLE: json.dumps(message)},
    }
    if isinstance(message.get("id"), str):
        text["id"] = message["id"]
    if _time(message.get("created_at")) is not None:
        text["created_at"] = message["created_at"]
    return text


def _time(value: object) -> datetime | None:
    """Of a text; None: it is none."""
    try:
        return _TIME.validate_python(value) if isinstance(value, str) else None
    except ValidationError:
        return None


# -- and back ------------------------------------------------------------------------------------------------------


def _whole(message: Form) -> Form:
    """The message for which this one stands; itself, if it stands for none, whatever its metadata have under our name."""
    metadata = message.get("metadata")
    text = cast("Form", metadata).get(_WHOLE) if isinstance(metadata, Mapping) else None
    if not isinstance(text, str):
        return message
    try:
        whole: object = json.loads(text)
        stands = isinstance(whole, Mapping) and _same(message, _as_text(cast("Form", whole)))
    except (ValueError, RecursionError):  # not of ours
        return message
    return cast("Form", whole) if stands else message


def _same(message: Form, text: Form) -> bool:
    """Whether a message that AgentChat saved is what a text was loaded as. It writes times in its own way."""
    return all(message.get(name) == text[name] for name in text if name != "created_at") and (
        "created_at" not in text or _time(message.get("created_at")) == _time(text["created_at"])
    )
