"""The audit log: what was delivered, how it ended, what led to what."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import FrozenInstanceError, dataclass, make_dataclass
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID, uuid4

import pytest
from autogen_core import AgentId, TopicId

from autogen_eventlog.audit import Audit, MessageRecord
from autogen_eventlog.codec import Codec, Opaque, TypeRegistry
from autogen_eventlog.errors import InvalidPoint, PayloadCorrupt
from autogen_eventlog.events import EventData, EventType, Outcome
from autogen_eventlog.lineage import lineage
from tests.integration.store import SCHEMA, Producer, Store, fetch, open_store

WORKER = UUID(int=77)
TASK = f"{__name__}:Task"
ANSWER = f"{__name__}:Answer"


@dataclass
class Task:
    text: str


@dataclass
class Answer:
    number: int


class Life:
    """Records what a runtime would record of one agent, or of itself."""

    def __init__(self, producer: Producer) -> None:
        self.stream = producer.stream
        self._producer = producer
        self._codec = Codec()

    @property
    def version(self) -> int:
        return self._producer.version

    async def add(self, type: EventType, message: object = None, **fields: Any) -> EventData:
        if message is not None:
            encoded = self._codec.encode(message)
            fields = {"message_type": encoded.type_name, "payload": encoded.data} | fields
        event = EventData(id=uuid4(), type=type, occurred_at=datetime.now(timezone.utc), **fields)
        await self._producer.submit(event)
        return event

    async def activated(self) -> EventData:
        return await self.add(EventType.AGENT_ACTIVATED, metadata={"producer": {"worker": str(WORKER)}})

    async def delivered(self, text: str = "do", cause: EventData | None = None, **fields: Any) -> EventData:
        led = {} if cause is None else {"cause": cause.id, "correlation": cause.correlation}
        return await self.add(
            EventType.MESSAGE_DELIVERED, Task(text), **({"delivery": self.version + 1} | led | fields)
        )

    async def sent(self, recipient: str, within: EventData, text: str = "help") -> EventData:
        return await self.add(
            EventType.MESSAGE_SENT, Task(text), recipient=recipient, call=self.version + 1, **_within(within)
        )

    async def published(self, topic: str, within: EventData) -> EventData:
        return await self.add(EventType.MESSAGE_PUBLISHED, Task("news"), topic=topic, **_within(within))

    async def answered(self, call: EventData, number: int = 1) -> EventData:
        return await self.add(
            EventType.REPLY_RECEIVED,
            Answer(number),
            outcome=Outcome.REPLIED,
            call=call.call,
            delivery=call.delivery,
            cause=call.id,
            correlation=call.correlation,
        )

    async def completed(self, delivery: EventData, number: int = 1) -> EventData:
        return await self.add(
            EventType.DELIVERY_COMPLETED, Answer(number), outcome=Outcome.REPLIED, **_within(delivery)
        )

    async def failed(self, delivery: EventData, outcome: Outcome = Outcome.RAISED) -> EventData:
        error = {"text": "no such order", "args": ["no such order"]}
        return await self.add(
            EventType.DELIVERY_COMPLETED,
            error,
            **({"message_type": "shop:Missing", "outcome": outcome, "metadata": {"traceback": "Traceback …"}}),
            **_within(delivery),
        )

    async def dropped(self, text: str = "bad", **fields: Any) -> EventData:
        by = {"by": "shop.guards:Filter", "stage": "send"}
        return await self.add(EventType.MESSAGE_DROPPED, Task(text), metadata=by, **fields)

    async def restored(self, to_version: int) -> EventData:
        return await self.add(EventType.STREAM_RESTORED, metadata={"to_version": to_version})

    async def handled(self, text: str = "do", **fields: Any) -> EventData:
        delivery = await self.delivered(text, **fields)
        await self.completed(delivery)
        return delivery


def _within(delivery: EventData) -> dict[str, Any]:
    return {"delivery": delivery.delivery, "cause": delivery.id, "correlation": delivery.correlation}


class Log:
    """A store and the questions to it."""

    def __init__(self, store: Store, codec: Codec) -> None:
        self.store = store
        self.audit = Audit(store.reader.pool, codec)

    async def agent(self, stream: str) -> Life:
        return Life(await self.store.claimed(stream))

    async def runtime(self) -> Life:
        return await self.agent(f"$runtime/{WORKER}/1")


@asynccontextmanager
async def open_log(dsn: str, *types: type, codec: Codec | None = None) -> AsyncIterator[Log]:
    registry = TypeRegistry()
    if types:
        registry.register(*types)
    async with open_store(dsn) as store:
        yield Log(store, codec or Codec(registry))


def versions(records: list[MessageRecord]) -> list[int]:
    return [record.version for record in records]


# -- one record ---------------------------------------------------------------------------------------------------


async def test_a_delivery_and_its_reply_are_one_record(dsn: str) -> None:
    async with open_log(dsn, Task, Answer) as log:
        clerk = await log.agent("clerk/a/b")
        await clerk.activated()
        cause, conversation = uuid4(), uuid4()
        delivery = await clerk.delivered(
            "do", sender="boss/1", message_id="m1", correlation=conversation, metadata={"tick": 3}
        )
        delivery_cause = await clerk.delivered("next", topic="news/x", cause=None, correlation=conversation)
        await clerk.completed(delivery, 42)
        stored = await log.store.stored("clerk/a/b")
        newest, record = await log.audit.messages()
    assert newest.id == delivery_cause.id and newest.is_rpc is False and newest.topic == "news/x"
    assert (record.id, record.agent, record.stream, record.version) == (delivery.id, "clerk/a/b", "clerk/a/b", 2)
    assert (record.position, record.delivered_at) == (stored[1].position, stored[1].recorded_at)
    assert (record.sender, record.topic, record.message_id) == ("boss/1", None, "m1")
    assert (record.message_type, record.message, record.payload) == (TASK, Task("do"), delivery.payload)
    assert record.is_rpc is True
    assert (record.outcome, record.completed_at) == (Outcome.REPLIED, stored[3].recorded_at)
    assert (record.reply_type, record.reply, record.reply_payload) == (ANSWER, Answer(42), stored[3].payload)
    assert (record.error_type, record.error_text, record.traceback) == (None, None, None)
    assert (record.correlation, record.cause, record.epoch, record.worker) == (conversation, None, 1, str(WORKER))
    assert (record.in_flight, record.abandoned, record.dropped_by, record.dropped_stage) == (False, False, None, None)
    assert cause is not None


async def test_an_error_is_told_by_type_and_text(dsn: str) -> None:
    async with open_log(dsn) as log:
        clerk = await log.agent("clerk/1")
        await clerk.failed(await clerk.delivered())
        await clerk.failed(await clerk.delivered(), Outcome.CANCELLED)
        cancelled, raised = await log.audit.messages()
    assert (raised.outcome, cancelled.outcome) == (Outcome.RAISED, Outcome.CANCELLED)
    assert (raised.error_type, raised.error_text, raised.traceback) == ("shop:Missing", "no such order", "Traceback …")
    assert (raised.reply, raised.reply_type, raised.in_flight) == (None, None, False)


async def test_a_started_delivery_without_an_end_is_in_flight(dsn: str) -> None:
    async with open_log(dsn) as log:
        clerk, other = await log.agent("clerk/1"), await log.agent("clerk/2")
        first = await clerk.delivered()
        await clerk.handled()
        second = await other.delivered()
        found = await log.audit.in_flight()
        assert [record.id for record in found] == [first.id, second.id]
        assert all(record.in_flight and record.outcome is None for record in found)
        assert [record.id for record in await log.audit.in_flight(AgentId("clerk", "2"))] == [second.id]
        assert await log.audit.in_flight(after=found[0].position) == found[1:]
        assert await log.audit.in_flight(limit=1) == found[:1]
        assert await log.audit.messages(outcome="running", newest_first=False) == found
        await clerk.completed(first)
        assert [record.id for record in await log.audit.in_flight()] == [second.id]


async def test_a_dropped_message_names_who_dropped_it(dsn: str) -> None:
    async with open_log(dsn, Task) as log:
        clerk, runtime = await log.agent("clerk/1"), await log.runtime()
        await clerk.handled("good")
        submitted = await runtime.add(EventType.MESSAGE_SUBMITTED, Task("bad"), recipient="clerk/1")
        await runtime.dropped("bad", recipient="clerk/1", sender="boss/1", cause=submitted.id)
        await runtime.dropped("noise", topic="news/x")
        noise, bad, good = await log.audit.messages()
        assert (bad.outcome, bad.agent, bad.sender, bad.message) == (Outcome.DROPPED, "clerk/1", "boss/1", Task("bad"))
        assert (bad.dropped_by, bad.dropped_stage) == ("shop.guards:Filter", "send")
        assert (bad.worker, bad.stream, bad.cause) == (str(WORKER), runtime.stream, submitted.id)
        assert (noise.agent, noise.topic, noise.outcome) == (None, "news/x", Outcome.DROPPED)
        assert await log.audit.messages(agent="clerk/1") == [bad, good]
        assert await log.audit.messages(agent="clerk/1", newest_first=False) == [good, bad]
        assert await log.audit.messages(agent_type="clerk") == [bad, good]
        assert await log.audit.messages(outcome=Outcome.DROPPED) == [noise, bad]
        assert await log.audit.messages(outcome="dropped", agent="clerk/1") == [bad]
        assert await log.audit.undelivered() == []


async def test_a_record_can_not_be_changed(dsn: str) -> None:
    async with open_log(dsn) as log:
        await (await log.agent("clerk/1")).handled()
        [record] = await log.audit.messages()
    with pytest.raises(FrozenInstanceError):
        record.version = 3  # type: ignore[misc]
    assert not hasattr(record, "__dict__")


# -- messages that nobody can decode any more -----------------------------------------------------------------------


async def test_a_message_whose_class_is_gone_is_still_shown(dsn: str) -> None:
    async with open_log(dsn) as log:
        clerk = await log.agent("clerk/1")
        await clerk.handled("do")
        [record] = await log.audit.messages(type="Task")
    assert isinstance(record.message, Opaque)
    assert record.message.type_name == TASK
    assert record.message.json() == {"$t": TASK, "text": "do"}
    assert isinstance(record.reply, Opaque)


async def test_a_message_whose_class_has_other_fields_now_is_shown_as_stored(dsn: str) -> None:
    changed = make_dataclass("Task", [("title", str)])
    changed.__module__, changed.__qualname__ = Task.__module__, Task.__qualname__
    async with open_log(dsn, changed) as log:
        await (await log.agent("clerk/1")).delivered("do")
        [record] = await log.audit.messages(type=changed)
    assert record.message == Opaque(TASK, record.payload or b"")


async def test_altered_bytes_are_reported_and_do_not_hide_the_record(dsn: str) -> None:
    async with open_log(dsn, Task) as log:
        clerk = await log.agent("clerk/1")
        await clerk.add(EventType.MESSAGE_DELIVERED, message_type=TASK, payload=b'{"$t":', delivery=1)
        [record] = await log.audit.messages()
    with pytest.raises(PayloadCorrupt) as caught:
        _ = record.message
    assert "clerk/1" in caught.value.where and "version 1" in caught.value.where


# -- filters and pages ----------------------------------------------------------------------------------------------


async def test_each_filter_selects_what_it_says(dsn: str) -> None:
    conversation, cause = uuid4(), uuid4()
    async with open_log(dsn, Task, Answer) as log:
        one, two, other = [await log.agent(name) for name in ("clerk/1", "clerk/2", "clerks/1")]
        await one.failed(await one.delivered(sender="boss/1", message_id="m1"))
        await one.handled(topic="news/x", correlation=conversation)
        await two.delivered(cause=None, message_id="m2", **{"correlation": conversation})
        await two.add(EventType.MESSAGE_DELIVERED, Answer(3), delivery=2, cause=cause)
        await other.handled(sender="boss/2")
        everything = await log.audit.messages(newest_first=False)
        first, second, third, fourth, fifth = everything

        async def found(**filters: Any) -> list[MessageRecord]:
            newest = await log.audit.messages(**filters)
            oldest = await log.audit.messages(newest_first=False, **filters)
            assert newest == oldest[::-1]
            return oldest

        assert await found(agent="clerk/1") == [first, second]
        assert await found(agent=AgentId("clerk", "2")) == [third, fourth]
        assert await found(agent_type="clerk") == [first, second, third, fourth]
        assert await found(agent="clerk/1", agent_type="clerk") == [first, second]
        assert await found(agent="clerk/1", agent_type="clerks") == []
        assert await found(type=Answer) == await found(type=ANSWER) == await found(type="Answer") == [fourth]
        assert await found(type="nswer") == await found(type="Task:Answer") == []
        assert await found(sender="boss/1") == await found(sender=AgentId("boss", "1")) == [first]
        assert await found(topic="news/x") == await found(topic=TopicId("news", "x")) == [second]
        assert await found(message_id="m2") == [third]
        assert await found(outcome="raised") == await found(outcome=Outcome.RAISED) == [first]
        assert await found(outcome="replied") == [second, fifth]
        assert await found(outcome="cancelled") == await found(outcome="dropped") == []
        assert await found(outcome="running") == [third, fourth]
        assert await found(correlation=conversation) == [second, third]
        assert await found(cause=cause) == [fourth]
        assert await found(since=third.delivered_at) == [third, fourth, fifth]
        assert await found(until=third.delivered_at) == [first, second]
        assert await found(agent="clerk/1", since=second.delivered_at) == [second]
        assert await found(agent="clerk/1", until=second.delivered_at, outcome="raised", sender="boss/1") == [first]
        assert await found(agent="nobody/1") == []


@pytest.mark.parametrize("name", ["shop:Box[shop:Item]", "shop:Outer.Box", "shop:Box"])
async def test_a_short_name_finds_the_class_in_any_module_nested_or_parametrised(dsn: str, name: str) -> None:
    async with open_log(dsn) as log:
        clerk = await log.agent("clerk/1")
        await clerk.delivered(message_type=name)
        await clerk.delivered(message_type="shop:Mailbox")
        assert [record.message_type for record in await log.audit.messages(type="Box")] == [name]
        assert [record.message_type for record in await log.audit.messages(type=name)] == [name]


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("filters", [{}, {"agent": "clerk/1"}, {"agent_type": "clerk"}])
async def test_pages_show_every_record_once_and_in_order(dsn: str, filters: dict[str, Any], newest_first: bool) -> None:
    async with open_log(dsn) as log:
        clerk, runtime = await log.agent("clerk/1"), await log.runtime()
        for number in range(12):
            await clerk.handled()
            if number % 3 == 0:
                await runtime.dropped(recipient="clerk/1")
        whole = await log.audit.messages(newest_first=newest_first, **filters)
        assert len(whole) == 16
        assert [r.position for r in whole] == sorted((r.position for r in whole), reverse=newest_first)
        for page in (1, 4, 16, 17):
            paged = log.audit.iterate(newest_first=newest_first, page=page, **filters)
            assert [record async for record in paged] == whole
        behind = await log.audit.messages(after=whole[4].position, limit=3, newest_first=newest_first, **filters)
        assert behind == whole[5:8]


async def test_a_time_without_a_zone_is_refused(dsn: str) -> None:
    naive = datetime(2026, 1, 31, 14, 32, tzinfo=timezone.utc).replace(tzinfo=None)
    async with open_log(dsn) as log:
        audit = log.audit
        for asked in (
            audit.messages(since=naive),
            audit.messages(until=naive),
            audit.undelivered(since=naive),
            audit.recorded_effects(until=naive),
            audit.activity(naive, datetime.now(timezone.utc)),
        ):
            with pytest.raises(InvalidPoint) as caught:
                await asked
            assert caught.value.point == "2026-01-31T14:32:00"
            assert caught.value.problem == "it has no time zone"
        with pytest.raises(InvalidPoint):
            [_ async for _ in audit.iterate(since=naive)]
        for words in (audit.messages(since="1m"), audit.undelivered(until="now"), audit.unanswered_effects(since="1m")):  # type: ignore[arg-type]
            with pytest.raises(InvalidPoint, match=r"it is a str.*Give a datetime with a zone"):
                await words


async def test_what_can_not_be_meant_is_refused(dsn: str) -> None:
    now = datetime.now(timezone.utc)
    async with open_log(dsn) as log:
        audit = log.audit
        for asked, what in (
            (audit.messages(outcome="done"), "outcome 'done'"),
            (audit.messages(branch="old"), "branch 'old'"),  # type: ignore[arg-type]
            (audit.messages(limit=0), "limit 0"),
            (audit.in_flight(limit=0), "limit 0"),
            (audit.undelivered(limit=-1), "limit -1"),
            (audit.causes(uuid4(), limit=0), "limit 0"),
            (audit.activity(now, now, by="day"), "by 'day'"),  # type: ignore[arg-type]
        ):
            with pytest.raises(ValueError, match=what):
                await asked


# -- branches -------------------------------------------------------------------------------------------------------


async def test_what_a_restore_left_behind_is_marked(dsn: str) -> None:
    async with open_log(dsn) as log:
        clerk = await log.agent("clerk/1")
        await clerk.handled("kept")  # 1, 2
        await clerk.handled("left")  # 3, 4
        await clerk.delivered("left running")  # 5
        await clerk.restored(2)  # 6
        await clerk.handled("new")  # 7, 8
        everything = await log.audit.messages(newest_first=False)
        assert [(r.version, r.abandoned) for r in everything] == [(1, False), (3, True), (5, True), (7, False)]
        assert everything[1].outcome is Outcome.REPLIED
        assert everything[2].outcome is None and not everything[2].in_flight
        for filters in ({}, {"agent": "clerk/1"}):
            assert versions(await log.audit.messages(branch="current", **filters)) == [7, 1]
        assert await log.audit.in_flight() == await log.audit.messages(outcome="running") == []


async def test_a_delivery_whose_end_was_left_behind_is_in_flight_until_it_ends_again(dsn: str) -> None:
    async with open_log(dsn) as log:
        clerk = await log.agent("clerk/1")
        delivery = await clerk.delivered()  # 1
        await clerk.completed(delivery, 1)  # 2
        await clerk.restored(1)  # 3
        for asked in (log.audit.in_flight(), log.audit.in_flight("clerk/1"), log.audit.messages(outcome="running")):
            assert versions(await asked) == [1]
        assert await log.audit.messages(outcome="replied") == []
        await clerk.failed(delivery)  # 4
        assert await log.audit.in_flight() == []
        [record] = await log.audit.messages()
        assert (record.outcome, record.error_text) == (Outcome.RAISED, "no such order")


async def test_a_past_taken_from_another_stream_leaves_the_own_one_behind(dsn: str) -> None:
    async with open_log(dsn) as log:
        clerk = await log.agent("clerk/1")
        await clerk.handled("own")
        await clerk.add(EventType.STREAM_FORKED, metadata={"from_stream": "clerk/2", "from_version": 9})
        await clerk.handled("after")
        assert [(r.version, r.abandoned) for r in await log.audit.messages()] == [(4, False), (1, True)]


async def test_branches_agree_with_the_lineage_however_often_streams_are_restored(dsn: str) -> None:
    chance = random.Random(20)
    async with open_log(dsn) as log:
        for number in range(12):
            clerk = await log.agent(f"clerk/{number}")
            for _ in range(40):
                if clerk.version > 2 and chance.random() < 0.2:
                    await clerk.restored(chance.randint(1, clerk.version))
                else:
                    await clerk.delivered()
        records = await log.audit.messages(limit=1000)
        for number in range(12):
            past = await lineage(log.store.reader, f"clerk/{number}", 40)
            mine = [record for record in records if record.agent == f"clerk/{number}"]
            assert [r.abandoned for r in mine] == [not past.holds(r.stream, r.version) for r in mine]
            assert await log.audit.messages(agent=f"clerk/{number}") == mine
        current = [record for record in records if not record.abandoned]
        assert 0 < len(current) < len(records)
        assert await log.audit.messages(branch="current", limit=1000) == current
        assert await log.audit.in_flight() == current[::-1]


# -- accepted, not delivered ----------------------------------------------------------------------------------------


async def test_ten_accepted_messages_and_three_in_handlers_are_told_apart(dsn: str) -> None:
    async with open_log(dsn) as log:
        runtime, clerk = await log.runtime(), await log.agent("clerk/1")
        queued = [
            await runtime.add(EventType.MESSAGE_SUBMITTED, Task(str(n)), recipient="clerk/1", correlation=uuid4())
            for n in range(13)
        ]
        for submitted in queued[:3]:
            await clerk.delivered(cause=submitted)
        waiting = await log.audit.undelivered()
        assert [event.id for event in waiting] == [event.id for event in queued[3:]]
        assert [record.cause for record in await log.audit.in_flight()] == [event.id for event in queued[:3]]
        assert await log.audit.undelivered(limit=4, after=waiting[1].position) == waiting[2:6]
        assert await log.audit.undelivered(correlation=queued[5].correlation) == [waiting[2]]


async def test_what_agents_sent_and_nobody_got_is_undelivered_until_it_is_settled(dsn: str) -> None:
    async with open_log(dsn) as log:
        boss, clerk = await log.agent("boss/1"), await log.agent("clerk/1")
        order = await boss.delivered()
        sent = await boss.sent("clerk/1", order)
        published = await boss.published("news/x", order)
        answered = await boss.sent("nobody/1", order)
        await boss.answered(answered)

        async def ids(**filters: Any) -> list[UUID]:
            return [event.id for event in await log.audit.undelivered(**filters)]

        assert await ids() == await ids(sender="boss/1") == [sent.id, published.id]
        assert await ids(recipient=AgentId("clerk", "1")) == [sent.id]
        assert await ids(topic=TopicId("news", "x")) == [published.id]
        assert await ids(sender="clerk/1") == await ids(until=datetime(2020, 1, 1, tzinfo=timezone.utc)) == []
        await clerk.delivered(cause=sent)
        assert await ids() == [published.id]
        await boss.restored(order.delivery or 0)
        assert await ids() == []


# -- what led to what -----------------------------------------------------------------------------------------------


async def test_a_conversation_is_followed_from_its_root_and_back(dsn: str) -> None:
    async with open_log(dsn) as log:
        runtime, boss, clerk = await log.runtime(), await log.agent("boss/1"), await log.agent("clerk/1")
        root = await runtime.add(EventType.MESSAGE_SUBMITTED, Task("go"), recipient="boss/1", correlation=uuid4())
        order = await boss.delivered(cause=root)
        sent = await boss.sent("clerk/1", order)
        await clerk.handled("elsewhere", correlation=uuid4())
        work = await clerk.delivered(cause=sent)
        done = await clerk.completed(work)
        answer = await boss.answered(sent)
        end = await boss.completed(order)

        conversation = await log.audit.conversation(root.correlation or uuid4())
        events = [root, order, sent, work, done, answer, end]
        assert [event.id for event in conversation] == [event.id for event in events]
        assert await log.audit.causes(done.id) == conversation[:5]
        assert await log.audit.causes(root.id) == conversation[:1]
        assert await log.audit.causes(done.id, limit=2) == conversation[3:5]
        assert await log.audit.effects(root.id) == conversation[1:]
        assert await log.audit.effects(sent.id) == conversation[3:6]
        assert await log.audit.effects(root.id, depth=1) == conversation[1:2]
        assert await log.audit.effects(root.id, limit=2) == conversation[1:3]
        assert await log.audit.effects(end.id) == await log.audit.causes(uuid4()) == []
        assert await log.audit.conversation(uuid4()) == []


async def test_a_long_conversation_is_read_whole(dsn: str) -> None:
    async with open_log(dsn) as log:
        producer = await log.store.claimed("clerk/1")
        conversation = uuid4()
        proposed = [
            EventData(
                id=uuid4(),
                type=EventType.MESSAGE_DELIVERED,
                occurred_at=datetime.now(timezone.utc),
                delivery=number + 1,
                correlation=conversation,
            )
            for number in range(2500)
        ]
        await producer.submit(*proposed)
        found = await log.audit.conversation(conversation)
    assert [event.id for event in found] == [event.id for event in proposed]


async def test_causes_that_form_a_circle_end(dsn: str) -> None:
    async with open_log(dsn) as log:
        clerk = await log.agent("clerk/1")
        first, second = uuid4(), uuid4()
        now = datetime.now(timezone.utc)
        for id, cause in ((first, second), (second, first)):
            event = EventData(id=id, type=EventType.MESSAGE_DELIVERED, occurred_at=now, delivery=1, cause=cause)
            await clerk._producer.submit(event)  # pyright: ignore[reportPrivateUsage]
        assert [event.id for event in await log.audit.causes(first)] == [second, first]
        assert {event.id for event in await log.audit.effects(first)} == {first, second}


# -- results from outside, sums -------------------------------------------------------------------------------------


async def test_every_tool_call_of_an_agent_in_a_span_is_told_with_arguments_and_result(dsn: str) -> None:
    async with open_log(dsn, Answer) as log:
        clerk, other = await log.agent("clerk/1"), await log.agent("clerk/2")
        order = await clerk.delivered()

        async def asked(by: Life, kind: str, request: str, number: int) -> None:
            metadata = {"effect": number, "kind": kind, "request": request}
            await by.add(
                EventType.EFFECT_RECORDED,
                Answer(number),
                outcome=Outcome.REPLIED,
                metadata=metadata,
                **_within(order),
            )

        await asked(clerk, "tool.search", "query='tea'", 1)
        await asked(other, "tool.search", "query='coffee'", 2)
        await asked(clerk, "model.create", "…", 3)
        await asked(clerk, "tool.search", "query='milk'", 4)
        tools = await log.audit.recorded_effects(agent="clerk/1", kind="tool.search")
        assert [(e.request, e.result) for e in tools] == [("query='tea'", Answer(1)), ("query='milk'", Answer(4))]
        assert all(e.cause == order.id and e.delivery == order.delivery for e in tools)
        everything = await log.audit.recorded_effects()
        assert [e.kind for e in everything] == ["tool.search", "tool.search", "model.create", "tool.search"]
        assert await log.audit.recorded_effects(after=everything[0].position, limit=2) == everything[1:3]
        span = {"since": everything[2].recorded_at, "until": everything[3].recorded_at + timedelta(microseconds=1)}
        assert await log.audit.recorded_effects(agent=AgentId("clerk", "1"), **span) == everything[2:]
        assert await log.audit.recorded_effects(agent="clerk/1", after=everything[2].position) == everything[3:]


async def test_activity_counts_how_messages_ended_by_agent_and_by_type(dsn: str) -> None:
    async with open_log(dsn) as log:
        one, two = await log.agent("clerk/1"), await log.agent("clerk/2")
        await one.handled()
        await one.failed(await one.delivered())
        await two.failed(await two.delivered(), Outcome.CANCELLED)
        await one.delivered()
        stored = await log.audit.messages(newest_first=False)
        now = datetime.now(timezone.utc) + timedelta(minutes=1)
        first, second = await log.audit.activity(now - timedelta(hours=1), now)
        assert (first.name, first.deliveries, first.replied, first.raised, first.running) == ("clerk/1", 3, 1, 1, 1)
        assert (first.first_at, first.last_at) == (stored[0].delivered_at, stored[3].delivered_at)
        assert (second.name, second.deliveries, second.cancelled) == ("clerk/2", 1, 1)
        [tasks] = await log.audit.activity(now - timedelta(hours=1), now, by="type")
        assert (tasks.name, tasks.deliveries) == (TASK, 4)
        assert await log.audit.activity(now, now + timedelta(hours=1)) == []


async def test_statistics_describe_the_log_as_a_whole(dsn: str) -> None:
    async with open_log(dsn) as log:
        empty = await log.audit.statistics()
        assert (empty.agents, empty.events, empty.first_at, empty.last_position) == (0, 0, None, 0)
        clerk, runtime = await log.agent("clerk/1"), await log.runtime()
        await clerk.handled()
        await runtime.dropped()
        statistics = await log.audit.statistics()
        [*_, last] = await log.store.stored(runtime.stream)
    assert (statistics.agents, statistics.events, statistics.workers_alive) == (1, 3, 1)
    assert (statistics.last_position, statistics.last_at) == (last.position, last.recorded_at)
    assert statistics.first_at is not None and statistics.first_at <= last.recorded_at
    assert statistics.bytes > 0


async def test_asking_for_the_workers_does_not_make_one(dsn: str) -> None:
    async with open_log(dsn) as log:
        before = await fetch(dsn, f"SELECT id FROM {SCHEMA}.worker")
        [worker] = await log.audit.workers()
        assert worker.alive and [(worker.id,)] == before
        assert await fetch(dsn, f"SELECT id FROM {SCHEMA}.worker") == before
