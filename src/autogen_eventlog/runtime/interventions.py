"""The other intervention handlers of a runtime, run as one.

AutoGen gives every handler the original message and delivers what the last one returned, so that a redaction by the first
is lost. Here each is given what the one before made of the message. What any of them drops is recorded, and counted
as done, without which AutoGen's `stop_when_idle` never returns.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from autogen_core import AgentId, DropMessage, InterventionHandler, MessageContext

Dropped = Callable[..., Awaitable[None]]
Step = Callable[[InterventionHandler, Any], Awaitable[Any]]


class InterventionChain(InterventionHandler):
    """Several handlers in a row."""

    def __init__(
        self, handlers: Sequence[InterventionHandler], on_dropped: Dropped, on_discarded: Callable[[], None]
    ) -> None:
        """
        Args:
            on_dropped: Records a dropped message.
            on_discarded: Told that the message at hand will go no further in AutoGen's runtime.
        """
        self._handlers = list(handlers)
        self._on_dropped = on_dropped
        self._on_discarded = on_discarded

    async def on_send(
        self, message: Any, *, message_context: MessageContext, recipient: AgentId
    ) -> Any | type[DropMessage]:
        async def step(handler: InterventionHandler, given: Any) -> Any:
            return await handler.on_send(given, message_context=message_context, recipient=recipient)

        return await self._run("send", message, step, context=message_context, recipient=recipient)

    async def on_publish(self, message: Any, *, message_context: MessageContext) -> Any | type[DropMessage]:
        async def step(handler: InterventionHandler, given: Any) -> Any:
            return await handler.on_publish(given, message_context=message_context)

        return await self._run("publish", message, step, context=message_context, topic=message_context.topic_id)

    async def on_response(self, message: Any, *, sender: AgentId, recipient: AgentId | None) -> Any | type[DropMessage]:
        async def step(handler: InterventionHandler, given: Any) -> Any:
            return await handler.on_response(given, sender=sender, recipient=recipient)

        return await self._run("response", message, step, sender=sender, recipient=recipient)

    async def _run(self, stage: str, message: Any, step: Step, **where: Any) -> Any:
        given = result = message
        try:
            for handler in self._handlers:
                result = await step(handler, given)
                if result is DropMessage or isinstance(result, DropMessage):
                    await self._on_dropped(stage=stage, by=type(handler).__qualname__, message=given, **where)
                    self._on_discarded()
                    return DropMessage
                # AutoGen delivers a None that the last handler returned; one in between means "no change".
                given = given if result is None else result
        except BaseException:
            self._on_discarded()
            raise
        return result
