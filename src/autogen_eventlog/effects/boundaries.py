"""AutoGen's boundaries: which of their methods ask the outside, and what in them is special."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final

from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult
from autogen_core.memory import ListMemory, Memory, MemoryContent, MemoryQueryResult, UpdateContextResult
from autogen_core.model_context import ChatCompletionContext, UnboundedChatCompletionContext
from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage, RequestUsage
from autogen_core.tools import BaseTool, StaticStreamWorkbench, StaticWorkbench, ToolResult, Workbench

from autogen_eventlog.effects.asking import ask
from autogen_eventlog.effects.requests import is_tool, request
from autogen_eventlog.effects.standins import Family, cell_of, lifecycle, reading
from autogen_eventlog.errors import NotEncodable
from autogen_eventlog.incarnation.incarnation import Incarnation

logger = logging.getLogger(__name__)

RESULTS: Final = (
    CreateResult,
    ToolResult,
    CodeBlock,
    CodeResult,
    MemoryContent,
    MemoryQueryResult,
    UpdateContextResult,
    LLMMessage,
)
"""What boundaries answer with."""


@dataclass(frozen=True, slots=True)
class ToolText:
    """What a tool returned, as text, where the value itself can't be recorded. The agent is given this, live too."""

    text: str
    type_name: str

    def __str__(self) -> str:
        return self.text


_said: set[str] = set()


def _recordable(incarnation: Incarnation, tool: Any, value: Any) -> Any:
    try:
        incarnation.codec.encode(value, where=f"result of {tool.name}")
    except NotEncodable as refused:
        if refused.type_name not in _said:
            _said.add(refused.type_name)
            logger.warning("tool %r: agents are given its result as text, live as in replay: %s", tool.name, refused)
        return ToolText(str(tool.return_value_as_string(value)), refused.type_name)
    return value


def _return_value_as_string(self: Any, value: Any) -> str:
    return value.text if isinstance(value, ToolText) else cell_of(self).wrapped.return_value_as_string(value)


def _usage(name: str) -> Any:
    return reading(
        name, lambda usage: [usage.prompt_tokens, usage.completion_tokens], lambda v: RequestUsage(*v), [0, 0]
    )


async def _update_context(self: Any, model_context: ChatCompletionContext) -> UpdateContextResult:
    """Let the memory change a copy of the context outside; then change the context itself, live as in replay."""
    cell = cell_of(self)
    incarnation = cell.asking()
    if incarnation is None:
        return await cell.wrapped.update_context(model_context)
    before = await model_context.get_messages()

    async def do(token: CancellationToken) -> list[Any]:
        stand_in = UnboundedChatCompletionContext([message.model_copy(deep=True) for message in before])
        result = await cell.wrapped.update_context(stand_in)
        return [result, *_change(before, await stand_in.get_messages())]

    kind = "memory.update_context"
    asked = request(incarnation.codec, kind, {**cell.identity, "messages": before})
    result, replaced, messages = await ask(incarnation, kind, asked, do)
    if replaced:
        await model_context.clear()
    for message in messages:
        await model_context.add_message(message)
    return result


def _change(before: list[LLMMessage], after: list[LLMMessage]) -> tuple[bool, list[LLMMessage]]:
    """Whether the messages were replaced, and by what; otherwise what was added."""
    if after[: len(before)] == before:
        return False, after[len(before) :]
    return True, after


MODEL: Final = Family(
    "model",
    ChatCompletionClient,
    calls=frozenset({"create", "close"}),
    streams=frozenset({"create_stream"}),
    instead={
        "actual_usage": _usage("actual_usage"),
        "total_usage": _usage("total_usage"),
        "count_tokens": reading("count_tokens", int, int, 0),
        "remaining_tokens": reading("remaining_tokens", int, int, 0),
    },
)
TOOL: Final = Family(
    "tool",
    BaseTool,
    calls=frozenset({"run", "run_json", "save_state_json"}),
    streams=frozenset({"run_stream", "run_json_stream"}),
    keep={"run": _recordable, "run_json": _recordable},
    instead={"return_value_as_string": _return_value_as_string},
)
WORKBENCH: Final = Family(
    "workbench",
    Workbench,
    calls=frozenset({"list_tools", "call_tool", "reset", "save_state"}),
    streams=frozenset({"call_tool_stream"}),
    instead={"start": lifecycle("start", starts=True), "stop": lifecycle("stop", starts=False)},
)
EXECUTOR: Final = Family(
    "executor",
    CodeExecutor,
    calls=frozenset({"execute_code_blocks", "restart"}),
    instead={"start": lifecycle("start", starts=True), "stop": lifecycle("stop", starts=False)},
)
MEMORY: Final = Family(
    "memory",
    Memory,
    calls=frozenset({"query", "add", "clear", "close"}),
    instead={"update_context": _update_context},
)


def family_of(value: object) -> Family | None:
    """The kind of boundary that an object is, if it is one."""
    if isinstance(value, ChatCompletionClient):
        return MODEL
    if isinstance(value, Workbench):
        return WORKBENCH
    if isinstance(value, CodeExecutor):
        return EXECUTOR
    if isinstance(value, Memory):
        return MEMORY
    return TOOL if isinstance(value, BaseTool) or is_tool(value) else None


def is_own_state(value: object) -> bool:
    """Whether a boundary of AutoGen's is no more than data and code of the agent's: replay runs it again.

    A `ListMemory` is a list in the agent, and a `StaticWorkbench` a list of tools, each of which is a boundary.
    """
    cls: Any = type(value)
    if isinstance(value, ListMemory):
        return _as_in(cls, ListMemory, "update_context", "query", "add", "clear")
    if isinstance(value, StaticStreamWorkbench):
        return _as_in(cls, StaticStreamWorkbench, "list_tools", "call_tool", "call_tool_stream")
    return isinstance(value, StaticWorkbench) and _as_in(cls, StaticWorkbench, "list_tools", "call_tool")


def _as_in(cls: type, base: type, *methods: str) -> bool:
    return all(getattr(cls, name) is getattr(base, name) for name in methods)
