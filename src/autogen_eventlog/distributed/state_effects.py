"""What an agent asks of the state service, as effects: recorded live, answered by the log in replay.

AutoGen's boundaries get stand-ins; the client is ours and looks itself whether an agent's handler asks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from autogen_core import CancellationToken
from google.protobuf.any_pb2 import Any as PackedMessage

from autogen_eventlog.effects.asking import ask
from autogen_eventlog.effects.requests import request
from autogen_eventlog.incarnation.incarnation import Incarnation
from autogen_eventlog.replay.loop import SESSION

FAMILY: Final = "state"


async def recorded(
    method: str, arguments: Mapping[str, Any], call: Callable[[], Awaitable[Any]], *answers: type[Any]
) -> Any:
    """What `call` gives: made live, and in replay of a handler the recorded outcome. Outside of any, simply made.

    Args:
        answers: The classes that an answer may be made of.

    Raises:
        EffectOutcomeUnknown: A process that ended before it recorded the outcome had asked.
        EventLogError: The instance is no longer the agent; nothing was asked.
        Whatever the call raised, as recorded.
    """
    session = SESSION.get()
    incarnation = None if session is None else getattr(session, "owner", None)
    if not isinstance(incarnation, Incarnation):
        return await call()
    incarnation.codec.registry.register(*answers, PackedMessage)

    async def do(token: CancellationToken) -> Any:
        return await call()

    kind = f"{FAMILY}.{method}"
    return await ask(incarnation, kind, request(incarnation.codec, kind, arguments), do)
