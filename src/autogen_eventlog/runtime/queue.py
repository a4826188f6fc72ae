"""AutoGen's message queue, with an end that loses nothing and a beginning that knows nothing of the run before.

AutoGen's `stop` throws away what waits in its queue: callers then wait for ever. And a handler that ends after the stop
puts its response into the queue of the next run, and counts itself as done there a second time (T6).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID
from weakref import WeakSet

from autogen_core._single_threaded_agent_runtime import ResponseMessageEnvelope, SendMessageEnvelope

from autogen_eventlog.errors import MessageNotDelivered
from autogen_eventlog.runtime.identity import identity_of

if sys.version_info >= (3, 13):  # as AutoGen's runtime has it: an error of the other's is none of this one's
    from asyncio import Queue
else:
    from autogen_core._queue import Queue

Tasks = WeakSet[asyncio.Task[Any]]


class RunQueue(Queue[Any]):
    """The queue of one run.

    Args:
        strangers: Tasks of runs that were stopped, which go on to their end.
    """

    def __init__(self, strangers: Tasks) -> None:
        super().__init__()
        self._strangers = strangers
        self._ends = False
        self.left: list[Any] = []
        """What waited when the queue was shut down, or came later."""

    async def put(self, item: Any) -> None:
        # AutoGen shuts the queue down, waits for its run to end, and makes the next one only then. Who came in between got
        # QueueShutDown; a response was lost, and its caller waited for ever.
        if isinstance(item, ResponseMessageEnvelope) and (self._ends or self._is_stranger):
            _answer(item)
        elif self._ends:
            self.left.append(item)
            _tell(item)
        else:
            await super().put(item)

    def task_done(self) -> None:
        if not self._is_stranger:
            super().task_done()

    def shutdown(self, immediate: bool = False) -> None:
        self._ends = True
        while immediate and not self.empty():
            self.left.append(self.get_nowait())
            super().task_done()
        super().shutdown(immediate)

    @property
    def _is_stranger(self) -> bool:
        return bool(self._strangers) and asyncio.current_task() in self._strangers


def settle(left: Iterable[Any]) -> Iterator[UUID]:
    """Tell whoever waits what became of it; the events of what was not delivered.

    Responses are given to their callers. Who sends from outside is told. An agent that called another from a handler ends as
    at a kill: when it is needed next, it comes up from the log, the handler goes on, and asks again.
    """
    for envelope in left:
        if isinstance(envelope, ResponseMessageEnvelope):
            _answer(envelope)
            continue
        _tell(envelope)
        identity = identity_of(envelope.message_id)
        event = identity.cause if identity.submission is None else identity.submission.id
        if event is not None:
            yield event


def _tell(envelope: Any) -> None:
    if isinstance(envelope, SendMessageEnvelope):
        error, sender = MessageNotDelivered(str(envelope.recipient)), identity_of(envelope.message_id).sender
        if sender is not None:
            sender.end(error)
        if not envelope.future.done():
            envelope.future.set_exception(error)


def _answer(response: ResponseMessageEnvelope) -> None:
    if not response.future.done():
        response.future.set_result(response.message)
