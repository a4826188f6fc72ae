"""Messages in states that earlier versions of AgentChat saved, with what today's ask for and those left out.

Results of functions had no name before 0.4.8, and summaries of tool calls did not repeat the calls and their results. Both are
in the messages before them, and are taken from there. What is not there is left as it is: loading then refuses it by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

_THREAD, _BUFFER, _CONTEXT = "message_thread", "message_buffer", "messages"
_REQUEST, _EXECUTION, _SUMMARY = "ToolCallRequestEvent", "ToolCallExecutionEvent", "ToolCallSummaryMessage"

Form = Mapping[str, Any]


def completed(agent_states: Mapping[str, Form]) -> dict[str, Any]:
    """The states of a team's agents, by name, with the messages in them completed."""
    known = _Calls()
    for state in agent_states.values():
        known.learn(state.get(_THREAD) or ())
    return {name: known.complete(state) for name, state in agent_states.items()}


def completed_alone(state: Form) -> Any:
    """The same of one agent's state."""
    return _Calls().complete(state)


class _Calls:
    """What a thread says of tool calls."""

    def __init__(self) -> None:
        self._summed_up: dict[tuple[Any, Any], dict[str, Any]] = {}

    def learn(self, thread: Iterable[Form]) -> None:
        """Note the calls and results behind each summary."""
        last: dict[Any, dict[str, Any]] = {}
        for message in _forms(_named(thread)):
            source, kind, content = message.get("source"), message.get("type"), message.get("content")
            if kind == _REQUEST:
                last[source] = {"tool_calls": content}
            elif kind == _EXECUTION and source in last:
                last[source] |= {"results": content}
            elif kind == _SUMMARY and len(last.get(source, ())) == 2:
                self._summed_up[source, content] = last.pop(source)

    def complete(self, state: object) -> Any:
        """A state, or a part of one."""
        if not isinstance(state, Mapping):
            return state
        return {name: self._part(name, value) for name, value in cast("Form", state).items()}

    def _part(self, name: str, value: Any) -> Any:
        if name in (_THREAD, _BUFFER, _CONTEXT) and isinstance(value, list):
            return [self._message(message) for message in _named(cast("list[Form]", value))]
        if name == "agent_states":  # another team's, with a thread of its own
            return value
        return self.complete(value)

    def _message(self, message: Any) -> Any:
        if not isinstance(message, Mapping):
            return message
        said = cast("Form", message)
        if said.get("type") != _SUMMARY or "tool_calls" in said:
            return said
        return {**said, **self._summed_up.get((said.get("source"), said.get("content")), {})}


def _forms(messages: Iterable[Any]) -> list[Form]:
    return [cast("Form", one) for one in messages if isinstance(one, Mapping)]


def _named(messages: Iterable[Any]) -> list[Any]:
    """Messages whose results of functions say of which function, by the calls before them."""
    names: dict[Any, Any] = {}
    return [_with_names(cast("Form", one), names) if isinstance(one, Mapping) else one for one in messages]


def _with_names(message: Form, names: dict[Any, Any]) -> Form:
    content: Any = message.get("content")
    if not isinstance(content, list):
        return message
    parts = cast("list[Any]", content)
    names.update(
        {part["id"]: part["name"] for part in parts if isinstance(part, dict) and {"id", "name"} <= part.keys()}
    )
    return {**message, "content": [_with_name(part, names) for part in parts]}


def _with_name(part: Any, names: dict[Any, Any]) -> Any:
    if not isinstance(part, Mapping):
        return part
    said = cast("Form", part)
    if "name" not in said and said.get("call_id") in names:
        return {**said, "name": names[said["call_id"]]}
    return said
