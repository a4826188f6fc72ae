"""The other intervention handlers of a worker: what they make of messages that leave it, and of those of plain workers."""

from __future__ import annotations

from typing import Any

from autogen_core import AgentId, DropMessage, MessageContext
from autogen_core.exceptions import MessageDroppedException

from autogen_eventlog.codec import Codec, Encoded
from autogen_eventlog.runtime.interventions import InterventionChain


class Screening:
    """Passes messages by the handlers; without any, it changes nothing.

    Raises (everywhere):
        MessageDroppedException: One of them dropped it.
        NotEncodable: What they made of it can't be recorded.
        Whatever a handler raises.
    """

    def __init__(self, chain: InterventionChain | None, codec: Codec) -> None:
        self._chain = chain
        self._codec = codec

    @property
    def is_on(self) -> bool:
        """Whether there is a handler."""
        return self._chain is not None

    async def leaving(self, message: Encoded, context: MessageContext, recipient: AgentId | None = None) -> Encoded:
        """What they make of a message that leaves this worker; without a recipient, of a publication."""
        if self._chain is None:
            return message
        return await self.made_of(self._codec.decode(message.data, where="message"), context, recipient)

    async def made_of(self, message: Any, context: MessageContext, recipient: AgentId | None) -> Encoded:
        """What they make of a message object."""
        if self._chain is None:
            return self._codec.encode(message)
        made = (
            await self._chain.on_publish(message, message_context=context)
            if recipient is None
            else await self._chain.on_send(message, message_context=context, recipient=recipient)
        )
        if made is DropMessage:
            raise MessageDroppedException
        return self._codec.encode(made)

    async def answer(self, reply: Any, recipient: AgentId, sender: AgentId | None) -> Any:
        """What they make of the answer that `recipient` gave to `sender`."""
        if self._chain is None:
            return reply
        made = await self._chain.on_response(reply, sender=recipient, recipient=sender)
        if made is DropMessage:
            raise MessageDroppedException
        return made
