"""A runtime's own stream: messages that entered from outside any agent, and messages that were dropped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any
from uuid import UUID

from autogen_eventlog.codec import Encoded
from autogen_eventlog.errors import AppendRefused, DatabaseUnavailable, EventLogError, LogClosed
from autogen_eventlog.events import EventData, EventType
from autogen_eventlog.ids import RUNTIME_STREAM_PREFIX, EventIds
from autogen_eventlog.log import EventLog
from autogen_eventlog.postgres.records import Snapshot
from autogen_eventlog.runtime.appender import StreamAppender

logger = logging.getLogger(__name__)

WITHHELD = "withheld"

HOLD_SECONDS = 0.1
"""How long a message may be on its way to its agent before the log says that it was submitted."""


@dataclass(slots=True, eq=False)
class Submission:
    """A message from outside, for one agent, that may be on its way still."""

    id: UUID
    message: Encoded
    sender: str | None
    message_id: str
    recipient: str
    occurred_at: datetime
    submissions: Submissions
    metadata: dict[str, Any]
    arrived: bool = False

    def delivered(self) -> UUID | None:
        """The agent has it: the event to name as its cause, if the log has one."""
        self.arrived = True
        return None if self.submissions.let_go(self) else self.id

    def failed(self, error: BaseException) -> None:
        """Its sender was given an error. If it never arrived, the log says so, as far as it can be written at all."""
        if self.arrived:
            return
        self.arrived = True
        held = self.submissions.let_go(self)
        if held and isinstance(error, (DatabaseUnavailable, LogClosed)):
            return
        if held:
            self.submissions.append(self.event())
        self.submissions.undeliverable(self, error)

    def event(self) -> EventData:
        """That it was submitted, as the beginning of a conversation."""
        return EventData(
            id=self.id,
            type=EventType.MESSAGE_SUBMITTED,
            occurred_at=self.occurred_at,
            sender=self.sender,
            recipient=self.recipient,
            message_id=self.message_id,
            message_type=self.message.type_name,
            payload=self.message.data,
            correlation=self.id,
            metadata=dict(self.metadata),
        )


class Submissions:
    """Appends to `$runtime/<worker>`, which this process alone owns."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._ids = EventIds()
        self._appender: StreamAppender | None = None
        self.withhold = False
        """Whether contents stay out: other intervention handlers see a message after it was submitted, and what one of them
        redacts must not be in the log. What is delivered then is."""
        self._opening = asyncio.Lock()
        self._held: dict[UUID, Submission] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._keeping: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        """The stream's id, for errors."""
        return RUNTIME_STREAM_PREFIX if self._appender is None else self._appender.stream

    @property
    def is_open(self) -> bool:
        return self._appender is not None and not self._appender.refused

    async def open(self) -> None:
        """Claim the stream, once; again after a refused append.

        Raises:
            DatabaseUnavailable: The database did not answer within the bound.
        """
        if self.is_open:
            return
        async with self._opening:
            if not self.is_open:
                await self._log.start_writing()
                stream = f"{RUNTIME_STREAM_PREFIX}{self._log.ownership.worker_id}/{self._ids.next().hex[:8]}"
                claim = await self._log.ownership.claim(stream)
                self._appender = StreamAppender(self._log.writer, claim)

    def submit(
        self,
        message: Encoded,
        *,
        sender: str | None,
        message_id: str | None,
        recipient: str | None = None,
        topic: str | None = None,
        fan_out: int | None = None,
    ) -> tuple[EventData, Awaitable[Any]]:
        """Append that a message entered the runtime, as the beginning of a conversation.

        Args:
            fan_out: For how many it is, if that is known.
        """
        event_id = self._ids.next()
        event = EventData(
            id=event_id,
            type=EventType.MESSAGE_SUBMITTED,
            occurred_at=datetime.now(timezone.utc),
            sender=sender,
            message_id=message_id or str(event_id),
            message_type=message.type_name,
            payload=self._kept(message).data,
            correlation=event_id,
            recipient=recipient,
            topic=topic,
            metadata=self._metadata() | ({} if fan_out is None else {"fan_out": fan_out}),
        )
        return event, self.append(event)

    def hold(self, message: Encoded, *, sender: str | None, message_id: str | None, recipient: str) -> Submission:
        """Append it only if it is not delivered soon: its delivery then says all there is to say.

        Whoever submits a message that is answered knows by the answer that it was accepted, so nothing is lost with it.
        """
        event_id = self._ids.next()
        now = datetime.now(timezone.utc)
        submission = Submission(
            event_id,
            self._kept(message),
            sender,
            message_id or str(event_id),
            recipient,
            now,
            self,
            self._metadata(),
        )
        self._held[event_id] = submission
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HOLD_SECONDS, self._append_held)
        return submission

    def _kept(self, message: Encoded) -> Encoded:
        return Encoded(message.type_name, b"null") if self.withhold else message

    def _metadata(self) -> dict[str, Any]:
        return {WITHHELD: True} if self.withhold else {}

    def let_go(self, submission: Submission) -> bool:
        """Forget a held submission; False if it was appended already."""
        return self._held.pop(submission.id, None) is not None

    def undeliverable(self, submission: Submission, error: BaseException) -> None:
        """Append that a submitted message reached nobody, and why."""
        self.record(
            EventType.MESSAGE_DROPPED,
            message=submission.message,
            metadata={
                "by": f"{type(error).__module__}:{type(error).__qualname__}",
                "stage": "send",
                "error": str(error),
            },
            sender=submission.sender,
            recipient=submission.recipient,
            message_id=submission.message_id,
            cause=submission.id,
            correlation=submission.id,
        )

    def keep_refused(self, error: AppendRefused, events: Sequence[tuple[int, EventData]]) -> None:
        """Append, as evidence, what an instance would have recorded that was no longer the agent (G6)."""
        if not events:
            return
        would_be = [
            {
                "version": version,
                "type": event.type.value,
                "delivery": event.delivery,
                "recipient": event.recipient,
                "topic": event.topic,
                "message_type": event.message_type,
                "outcome": None if event.outcome is None else event.outcome.value,
                "payload": event.payload,
            }
            for version, event in events
        ]
        task = asyncio.get_running_loop().create_task(self._keep_refused(error, would_be))
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)

    async def keep_failed_proof(self, snapshot: Snapshot, differing: Sequence[str]) -> None:
        """Append that a snapshot was not proven, and where it differs."""
        try:
            await self.open()
            metadata = {"version": snapshot.version, "kind": snapshot.kind, "differences": list(differing)}
            _, ticket = self.record(
                EventType.SNAPSHOT_FAILED,
                message=self._log.codec.encode(None),
                recipient=snapshot.stream,
                metadata=metadata,
            )
            await ticket
        except EventLogError as problem:
            logger.warning("%s: that a snapshot failed could not be kept: %s", snapshot.stream, problem)

    async def _keep_refused(self, error: AppendRefused, would_be: list[dict[str, Any]]) -> None:
        try:
            await self.open()
            message = self._log.codec.encode(would_be)
            metadata = {"expected": error.expected, "found": error.found, "events": len(would_be)}
            self.record(EventType.WRITES_REFUSED, message=message, recipient=error.stream, metadata=metadata)
        except EventLogError as problem:
            logger.warning("%s: what the log refused could not be kept: %s", error.stream, problem)

    def append_held(self) -> None:
        """Append what is held now: it will not be delivered soon."""
        if self._timer is not None:
            self._timer.cancel()
            self._append_held()

    def _append_held(self) -> None:
        self._timer = None
        held, self._held = self._held, {}
        for submission in held.values():
            self.append(submission.event())

    def append(self, event: EventData) -> Awaitable[Any]:
        """Append an event without waiting for its commit."""
        assert self._appender is not None
        return self._appender.append(event)

    def record(
        self, event_type: EventType, *, message: Encoded, metadata: dict[str, Any] | None = None, **columns: Any
    ) -> tuple[EventData, Awaitable[Any]]:
        """Append an event without waiting for its commit."""
        event = EventData(
            id=self._ids.next(),
            type=event_type,
            occurred_at=datetime.now(timezone.utc),
            message_type=message.type_name,
            payload=message.data,
            metadata=metadata or {},
            **columns,
        )
        return event, self.append(event)
