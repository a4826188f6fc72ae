"""Messages that were sent and whose arrival the log does not show yet.

The log is the acknowledgement. What a message led to on any event-sourced worker names it as its cause; so whoever sent
it looks, now and then, for what became of it: an answer that was lost is read from the log, a message that never arrived is
sent again (to event-sourced workers only: others could not tell a second from a first), and one whose agent's
worker died is sent again to the worker that took its place. Nobody waits for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from autogen_core import AgentId, TopicId

from autogen_eventlog.codec import Encoded
from autogen_eventlog.distributed.wire import Origin
from autogen_eventlog.errors import EventLogError, InstanceEnded, MessageTooLarge, Undeliverable
from autogen_eventlog.incarnation.incarnation import Incarnation
from autogen_eventlog.postgres.reader import Reader
from autogen_eventlog.postgres.records import Progress

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Between two looks into the log, and how long a message may be on its way before it is sent again."""
_HURRY_SECONDS = 0.05
"""Between two looks when the worker is about to stop."""
_AT_ONCE = 1000
_TIMES_TAKEN = 3


@dataclass(eq=False, slots=True)
class Sent:
    """A message that left this worker."""

    origin: Origin
    message: Encoded
    sender: AgentId | None
    since: float
    """By the loop's clock. Moves on with every sign of life."""
    sent_at: datetime
    """For whom a publication is: those that were subscribed by then."""
    recipient: AgentId | None = None
    topic: TopicId | None = None
    answer: asyncio.Future[Any] | None = None
    """Of a call. None: a publication, which has none."""
    acknowledged: bool = False
    """A worker said that it has it in hand."""
    caller: Incarnation | None = None
    """Of an agent's call."""
    given_up: bool = False
    """Of a call: nobody waits for the answer any more. As in AutoGen, what was sent arrives."""
    taken: dict[AgentId, list[float]] = field(default_factory=dict[AgentId, list[float]])
    """When workers took it for an agent that did not get it."""


SendAgain = Callable[[Sent, AgentId], Awaitable[str]]
"""Sends a message again to an agent on an event-sourced worker: `taken` now, `held` already, or empty: none is there."""
Subscribers = Callable[[TopicId, datetime], Awaitable[list[AgentId]]]
ReadAnswer = Callable[[Progress], Awaitable[tuple[Any, BaseException | None]]]


@dataclass(eq=False)
class Outstanding:
    """Looks after what was sent.

    Args:
        reader: Of the log.
        send_again, subscribers, read_answer: What looking after takes.
        has_arrived: Told of a call that was given up before it had arrived.
        give_up: Told of a message that reached nobody within `patience` seconds, and of whom it did not reach.
    """

    reader: Reader
    send_again: SendAgain
    subscribers: Subscribers
    read_answer: ReadAnswer
    has_arrived: Callable[[Sent], None]
    give_up: Callable[[Sent, list[AgentId], str], None]
    patience: float
    _sent: dict[UUID, Sent] = field(default_factory=dict[UUID, Sent])
    _task: asyncio.Task[None] | None = None
    _pause: float = LOOK_SECONDS
    _something: asyncio.Event = field(default_factory=asyncio.Event)
    _look_now: asyncio.Event = field(default_factory=asyncio.Event)
    _nothing: asyncio.Event = field(default_factory=asyncio.Event)

    def start(self) -> None:
        """Begin to look."""
        self._pause = LOOK_SECONDS
        self._settle()
        self._task = asyncio.create_task(self._look_for_ever(), name="eventlog-outstanding")

    async def stop(self, timeout: float) -> list[Sent]:
        """Wait until nothing is outstanding, at most `timeout` seconds, and look no more; what is left."""
        self._pause = _HURRY_SECONDS
        self._look_now.set()
        with contextlib.suppress(asyncio.TimeoutError, TimeoutError):
            await asyncio.wait_for(self._nothing.wait(), timeout)
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        left = list(self._sent.values())
        self._sent.clear()
        self._settle()
        return left

    def add(self, sent: Sent) -> None:
        """Look after a message. A publication that is looked after already stays as it is.

        A call that is asked again takes the place of the one before, whose asker is no longer the agent.
        """
        before = self._sent.get(sent.origin.cause)
        if before is not None and before.answer is None:
            return
        if before is not None and before.answer is not None:
            _settle_future(before.answer, None, InstanceEnded(str(before.sender)))
        self._sent[sent.origin.cause] = sent
        self._something.set()
        self._nothing.clear()

    def done(self, sent: Sent) -> None:
        """It was answered, or nobody waits for the answer."""
        if self._sent.get(sent.origin.cause) is sent:
            del self._sent[sent.origin.cause]
        self._settle()

    def forget(self, senders: set[AgentId]) -> None:
        """What these sent was not sent: they were brought back to before it."""
        for cause, sent in list(self._sent.items()):
            if sent.sender in senders:
                del self._sent[cause]
                if sent.answer is not None:
                    _settle_future(sent.answer, None, InstanceEnded(str(sent.sender)))
        self._settle()

    @property
    def number(self) -> int:
        """How many messages are looked after."""
        return len(self._sent)

    def look_now(self) -> None:
        """The connection was lost or is back: what was on its way may be lost."""
        self._look_now.set()

    def _settle(self) -> None:
        if not self._sent:
            self._something.clear()
            self._nothing.set()

    async def _look_for_ever(self) -> None:
        while True:
            await self._something.wait()
            with contextlib.suppress(asyncio.TimeoutError, TimeoutError):
                await asyncio.wait_for(self._look_now.wait(), self._pause)
            self._look_now.clear()
            try:
                await self._look()
            except EventLogError as error:  # the database or the host is away: what is outstanding stays so until then
                logger.warning("what became of %d messages can't be looked up: %s", len(self._sent), error)
            except Exception:  # a defect must not stop the looking after everything else
                logger.exception("what became of %d messages can't be looked up", len(self._sent))

    async def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        old = [sent for sent in self._sent.values() if now - sent.since >= self._pause or sent.acknowledged]
        for start in range(0, len(old), _AT_ONCE):
            some = old[start : start + _AT_ONCE]
            found: dict[UUID, list[Progress]] = {}
            for one in await self.reader.progress([sent.origin.cause for sent in some]):
                found.setdefault(one.cause, []).append(one)
            await asyncio.gather(*(self._look_after(sent, found.get(sent.origin.cause, [])) for sent in some))

    async def _look_after(self, sent: Sent, deliveries: list[Progress]) -> None:
        if sent.origin.cause not in self._sent:
            return
        if sent.answer is not None:
            await self._look_after_call(sent, deliveries)
        else:
            await self._look_after_publication(sent, deliveries)

    async def _look_after_call(self, sent: Sent, deliveries: list[Progress]) -> None:
        assert sent.answer is not None and sent.recipient is not None
        if sent.given_up and deliveries:
            self.done(sent)
            self.has_arrived(sent)
            return
        ended = [one for one in deliveries if one.completed]
        if ended:
            reply, error = await self.read_answer(ended[-1])
            _settle_future(sent.answer, reply, error)
            return
        lost = [sent.recipient] if not any(one.alive for one in deliveries) else []
        await self._again(sent, lost, bool(deliveries))

    async def _look_after_publication(self, sent: Sent, deliveries: list[Progress]) -> None:
        assert sent.topic is not None
        had = Counter(one.stream for one in deliveries)
        lacking: list[AgentId] = []
        for recipient in await self.subscribers(sent.topic, sent.sent_at):
            if had[str(recipient)] > 0:
                had[str(recipient)] -= 1
            elif recipient != sent.sender:
                lacking.append(recipient)
        abandoned = [AgentId.from_str(one.stream) for one in deliveries if not (one.completed or one.alive)]
        if not lacking and all(one.completed for one in deliveries):
            self.done(sent)
            return
        await self._again(sent, lacking + abandoned, bool(deliveries))

    async def _again(self, sent: Sent, lost: Iterable[AgentId], begun: bool) -> None:
        """Send it again to those that lack it, or give it up if that has not helped for long enough."""
        loop = asyncio.get_running_loop()
        if loop.time() - sent.since < 0.9 * LOOK_SECONDS:
            return
        recipients = list(lost)
        problems = await asyncio.gather(*(self._once_more(sent, one, begun) for one in recipients))
        still = [one for one, problem in zip(recipients, problems, strict=True) if problem]
        if not still:
            sent.acknowledged = True
            sent.since = loop.time()
        elif loop.time() - sent.since > self.patience and sent.origin.cause in self._sent:
            problem = next(filter(None, problems))
            self.done(sent)
            self.give_up(sent, still, problem)
            if sent.answer is not None:
                _settle_future(sent.answer, None, Undeliverable(str(sent.recipient), self.patience, problem))

    async def _once_more(self, sent: Sent, recipient: AgentId, begun: bool) -> str:
        """Send it again; why that was in vain, or nothing."""
        try:
            said = await self.send_again(sent, recipient)
        except MessageTooLarge as error:  # the second way takes a few bytes more than the first
            return str(error)
        if said == "taken" and self._in_vain(sent.taken.setdefault(recipient, [])):
            return "its worker can't deliver it; that worker's log says why"
        if said:
            return ""
        if begun:
            return "the worker that ran its handler is gone, and no other has taken the agent over"
        return "no event-sourced worker has its type, or none can be reached"

    def _in_vain(self, taken: list[float]) -> bool:
        """Whether it was taken, and nothing came of it, again and again. A worker may well die over it once."""
        taken.append(asyncio.get_running_loop().time())
        return len(taken) > _TIMES_TAKEN and taken[-1] - taken[0] > self.patience


def _settle_future(future: asyncio.Future[Any], reply: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(reply)
    else:
        future.set_exception(error)
