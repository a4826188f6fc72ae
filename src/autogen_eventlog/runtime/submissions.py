"""A runtime's own stream: messages that entered from outside any agent, and messages that were dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import datetime, timezone
from typing import Any

from autogen_eventlog.codec import Encoded
from autogen_eventlog.events import EventData, EventType
from autogen_eventlog.ids import RUNTIME_STREAM_PREFIX, EventIds
from autogen_eventlog.log import EventLog
from autogen_eventlog.runtime.appender import StreamAppender


class Submissions:
    """Appends to `$runtime/<worker>`, which this process alone owns."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._ids = EventIds()
        self._appender: StreamAppender | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """Claim the stream, once; again after a refused append.

        Raises:
            DatabaseUnavailable: The database did not answer within the bound.
        """
        if self._appender is not None and not self._appender.refused:
            return
        async with self._opening:
            if self._appender is None or self._appender.refused:
                await self._log.start_writing()
                stream = f"{RUNTIME_STREAM_PREFIX}{self._log.ownership.worker_id}/{self._ids.next().hex[:8]}"
                claim = await self._log.ownership.claim(stream)
                self._appender = StreamAppender(self._log.writer, claim)

    def submit(
        self, message: Encoded, *, sender: str | None, message_id: str | None, **where: str | None
    ) -> tuple[EventData, Awaitable[Any]]:
        """Append that a message entered the runtime, as the beginning of a conversation."""
        assert self._appender is not None
        event_id = self._ids.next()
        event = EventData(
            id=event_id,
            type=EventType.MESSAGE_SUBMITTED,
            occurred_at=datetime.now(timezone.utc),
            sender=sender,
            message_id=message_id or str(event_id),
            message_type=message.type_name,
            payload=message.data,
            correlation=event_id,
            **where,
        )
        return event, self._appender.append(event)

    def record(
        self, event_type: EventType, *, message: Encoded, metadata: dict[str, Any] | None = None, **columns: Any
    ) -> tuple[EventData, Awaitable[Any]]:
        """Append an event without waiting for its commit."""
        assert self._appender is not None
        event = EventData(
            id=self._ids.next(),
            type=event_type,
            occurred_at=datetime.now(timezone.utc),
            message_type=message.type_name,
            payload=message.data,
            metadata=metadata or {},
            **columns,
        )
        return event, self._appender.append(event)
