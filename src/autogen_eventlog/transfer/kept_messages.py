"""Messages of types that a team does not know, kept in its state: as text that agents can read, and whole, to be given back."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

_MESSAGES = ("message_thread", "message_buffer")
_WHOLE = "autogen_eventlog.kept"
"""In the metadata of a text message: the message in whose place it stands, as JSON."""

Form = Mapping[str, Any]


def kept(state: Form, types: Collection[str]) -> dict[str, Any]:
    """A state of AgentChat in which a text message stands for each message of these types."""
    return _changed(state, lambda message: _as_text(message) if message.get("type") in types else message)


def given_back(state: Form) -> dict[str, Any]:
    """The state again, with the messages that were kept."""
    return _changed(state, _whole)


def _changed(state: Form, change: Callable[[Form], Form]) -> dict[str, Any]:
    return {name: _part(name, value, change) for name, value in state.items()}


def _part(name: str, value: Any, change: Callable[[Form], Form]) -> Any:
    if name in _MESSAGES and isinstance(value, list):
        messages = cast("list[Any]", value)
        return [change(cast("Form", one)) if isinstance(one, Mapping) else one for one in messages]
    return _changed(cast("Form", value), change) if isinstance(value, Mapping) else value


def _as_text(message: Form) -> Form:
    content, source = message.get("content", message), message.get("source")
    return {
        "type": "TextMessage",
        "source": source if isinstance(source, str) else "unknown",
        "content": content if isinstance(content, str) else json.dumps(content, ensure_ascii=False),
        "metadata": {_WHOLE: json.dumps(message)},
        **{name: message[name] for name in ("id", "created_at") if isinstance(message.get(name), str)},
    }


def _whole(message: Form) -> Form:
    metadata = message.get("metadata")
    whole = metadata.get(_WHOLE) if isinstance(metadata, Mapping) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return json.loads(whole) if isinstance(whole, str) else message
