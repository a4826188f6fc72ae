"""Where our runtime is meant to do better than AutoGen's, and what its log then holds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from autogen_core import (
    AgentId,
    BaseAgent,
    CancellationToken,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    TypeSubscription,
    message_handler,
)
from opentelemetry import trace

from autogen_eventlog import EventLog, EventLogHandler, EventType
from autogen_eventlog.errors import InstanceEnded, InvalidState, RecordingIncomplete
from autogen_eventlog.testing.equality import difference
from tests.integration.drop_in import (
    ONE,
    TWO,
    Add,
    Adder,
    Make,
    Notice,
    Refused,
    Total,
    Waiter,
    Work,
    everything,
    instance,
    log,
    make,
    recorded,
    register,
    stream,
    topic,
    types_of,
)

__all__ = ["log", "make"]

DELIVERED = EventType.MESSAGE_DELIVERED


@dataclass
class Dated:
    at: datetime
    tags: tuple[str, ...] = ()
    by_number: dict[int, datetime] = field(default_factory=dict[int, datetime])


class Diary(RoutedAgent):
    """Remembers dates."""

    def __init__(self) -> None:
        super().__init__("remembers")
        self.entries: list[Dated] = []

    @message_handler
    async def on_dated(self, message: Dated, ctx: MessageContext) -> Dated:
        self.entries.append(message)
        return message


class Mailer(BaseAgent):
    """Sends and publishes in turn, all at once."""

    def __init__(self) -> None:
        super().__init__("mails")

    async def on_message_impl(self, message: Any, ctx: MessageContext) -> None:
        ways = (self._send, self._publish)
        await asyncio.gather(*(ways[number % 2](number) for number in range(message.number)))

    async def _send(self, number: int) -> None:
        await self.send_message(Notice(str(number)), TWO)

    async def _publish(self, number: int) -> None:
        await self.publish_message(Notice(str(number)), topic())


class Listener(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("listens")
        self.heard: list[str] = []

    @message_handler
    async def on_notice(self, message: Notice, ctx: MessageContext) -> None:
        self.heard.append(message.text)


# -- instances ----------------------------------------------------------------------------------------------------


async def test_messages_that_come_at_once_to_a_new_agent_meet_one_instance(log: EventLog) -> None:
    made: list[Adder] = []

    async def factory() -> Adder:
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        made.append(Adder())
        return made[-1]

    runtime = recorded(log)
    await register(runtime, one=factory)
    runtime.start()
    answers = await asyncio.gather(*(runtime.send_message(Add(1), ONE) for _ in range(5)))
    await runtime.stop_when_idle()
    assert (answers, len(made)) == ([Total(number) for number in range(1, 6)], 1)
    assert types_of(await stream(log, ONE)).count(EventType.AGENT_ACTIVATED) == 1


async def test_one_recipient_that_can_not_be_built_keeps_nothing_from_the_others(log: EventLog) -> None:
    def broken() -> Listener:
        raise Refused("broken", 3)

    runtime = recorded(log)
    await register(runtime, a=Listener, b=Listener, c=broken, d=Listener)
    for kind in "abcd":
        await runtime.add_subscription(TypeSubscription("t", kind))
    runtime.start()
    await runtime.publish_message(Notice("all"), topic())
    await runtime.stop_when_idle()
    for kind in "abd":
        assert (await instance(runtime, AgentId(kind, "k"))).heard == ["all"]
    assert await stream(log, AgentId("c", "k"), DELIVERED) == []


# -- messages -----------------------------------------------------------------------------------------------------


async def test_a_message_id_that_repeats_identifies_nothing(log: EventLog) -> None:
    runtime = recorded(log)
    await register(runtime, one=Adder)
    runtime.start()
    answers = [await runtime.send_message(Add(number), ONE, message_id="same") for number in (1, 2)]
    await runtime.stop_when_idle()
    deliveries = await stream(log, ONE, DELIVERED)
    assert (answers, [one.message_id for one in deliveries]) == ([Total(1), Total(3)], ["same", "same"])
    assert len({one.id for one in deliveries}) == 2


async def test_two_messages_of_one_content_are_two(log: EventLog) -> None:
    runtime = recorded(log)
    await register(runtime, one=Listener)
    runtime.start()
    await asyncio.gather(runtime.send_message(Notice("yes"), ONE), runtime.send_message(Notice("yes"), ONE))
    await runtime.stop_when_idle()
    assert len(await stream(log, ONE, DELIVERED)) == 2
    assert (await runtime.view(ONE, type=Listener)).heard == ["yes", "yes"]


async def test_a_recipient_changes_only_its_own_copy(log: EventLog) -> None:
    runtime, message = recorded(log), Add(3)
    await register(runtime, one=Adder)
    runtime.start()
    await runtime.send_message(message, ONE)
    await runtime.stop_when_idle()
    [delivered] = await stream(log, ONE, DELIVERED)
    assert (message, log.message(delivered)) == (Add(3, []), Add(3, []))


async def test_a_message_that_json_can_not_hold_is_delivered_as_it_is(log: EventLog) -> None:
    zone = timezone(timedelta(hours=5, minutes=45))
    times = [datetime(2024, 2, 29, 23, 59, 59, 999_999, zone), datetime(1970, 1, 1)]  # noqa: DTZ001
    message = Dated(times[0], ("a", "b"), {1: times[1]})
    runtime = recorded(log)
    await register(runtime, one=Diary)
    runtime.start()
    answer = await runtime.send_message(message, ONE)
    await runtime.stop_when_idle()
    viewed = (await runtime.view(ONE, type=Diary)).entries
    assert [difference(message, one) for one in (answer, *viewed)] == [None, None]


async def test_a_message_of_a_million_characters_is_stored_whole(log: EventLog) -> None:
    text = "é🙂x" * 350_000
    runtime = recorded(log)
    await register(runtime, one=Listener)
    runtime.start()
    await runtime.send_message(Notice(text), ONE)
    await runtime.stop_when_idle()
    [delivered] = await stream(log, ONE, DELIVERED)
    assert (log.message(delivered), (await runtime.view(ONE, type=Listener)).heard) == (Notice(text), [text])


async def test_what_one_agent_sends_and_publishes_arrives_in_its_order(make: Make) -> None:
    runtime = make()
    await register(runtime, one=Mailer, two=Listener)
    await runtime.add_subscription(TypeSubscription("t", "two"))
    runtime.start()
    for _ in range(2):
        await runtime.send_message(Total(8), ONE)
    await runtime.stop_when_idle()
    assert (await instance(runtime, TWO)).heard == 2 * [str(number) for number in range(8)]


async def test_handlers_that_overlap_are_viewed_as_they_ended(log: EventLog) -> None:
    class Overlapping(RoutedAgent):
        def __init__(self) -> None:
            super().__init__("overlaps")
            self.value, self.history = 0, [""]
            self._turns: list[asyncio.Future[None]] = []

        @message_handler
        async def on_notice(self, message: Notice, ctx: MessageContext) -> None:
            before = self.value
            if message.text == "a":
                self._turns.append(asyncio.get_running_loop().create_future())
                await self._turns[0]
            elif self._turns:
                self._turns[0].set_result(None)
            self.value = before + 1
            self.history.append(message.text)

    runtime = recorded(log)
    await register(runtime, one=Overlapping)
    runtime.start()
    await asyncio.gather(runtime.send_message(Notice("a"), ONE), runtime.send_message(Notice("b"), ONE))
    await runtime.stop_when_idle()
    live, view = await instance(runtime, ONE), await runtime.view(ONE, type=Overlapping)
    assert (live.value, live.history) == (1, ["", "b", "a"])
    assert (view.value, view.history) == (1, ["", "b", "a"])


async def test_a_cancellation_before_delivery_is_recorded_and_replayed(log: EventLog) -> None:
    runtime, begun, token = recorded(log), asyncio.Event(), CancellationToken()
    await register(runtime, one=lambda: Waiter(begun))
    answer = asyncio.create_task(runtime.send_message(Work("quick"), ONE, cancellation_token=token))
    while not runtime.unprocessed_messages_count:
        await asyncio.sleep(0)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
    runtime.start()
    await runtime.stop_when_idle()
    assert EventType.DELIVERY_CANCELLED in types_of(await stream(log, ONE))
    view = await runtime.view(ONE, type=Waiter)
    assert (view.cancelled_before, view.finished) == (True, 1)


@pytest.mark.parametrize("traced", [False, True])
async def test_a_sender_that_is_no_agent_may_send(log: EventLog, traced: bool) -> None:
    runtime = recorded(log, tracer_provider=Spans() if traced else None)
    await register(runtime, one=Adder)
    runtime.start()
    assert await runtime.send_message(Add(1), ONE, sender=AgentId("nobody", "x")) == Total(1)
    await runtime.stop_when_idle()
    assert [one.sender for one in await stream(log, ONE, DELIVERED)] == ["nobody/x"]


async def test_a_handler_task_that_others_cancel_ends_the_instance_and_the_log_decides(log: EventLog) -> None:
    class Lending(RoutedAgent):
        def __init__(self) -> None:
            super().__init__("lends its task")
            self.heard: list[str] = []

        @message_handler
        async def on_notice(self, message: Notice, ctx: MessageContext) -> None:
            self.heard.append(message.text)
            if message.text == "lend":
                lent.set_result(asyncio.current_task())
                await asyncio.get_running_loop().create_future()

    lent: asyncio.Future[asyncio.Task[Any] | None] = asyncio.get_running_loop().create_future()
    runtime = recorded(log)
    await register(runtime, one=Lending)
    runtime.start()
    await runtime.send_message(Notice("before"), ONE)
    answer = asyncio.create_task(runtime.send_message(Notice("lend"), ONE))
    task = await lent
    assert task is not None
    task.cancel()
    with pytest.raises(InstanceEnded):
        await answer
    await asyncio.wait([task])
    assert EventType.DELIVERY_CANCELLED not in types_of(await stream(log, ONE))
    await runtime.stop()


# -- state --------------------------------------------------------------------------------------------------------


async def test_an_agent_made_while_the_state_is_saved_does_not_disturb_it(log: EventLog) -> None:
    runtime = recorded(log)

    class Founding(Adder):
        async def save_state(self) -> Mapping[str, Any]:
            await runtime.get("one", "another", lazy=False)
            return {"total": self.total}

        async def load_state(self, state: Mapping[str, Any]) -> None:
            self.total = state["total"]

    await register(runtime, one=Founding)
    runtime.start()
    await runtime.send_message(Add(1), ONE)
    state = await runtime.save_state()
    await runtime.stop_when_idle()
    assert state["one/k"]["state"] == {"total": 1}


async def test_a_state_of_an_agent_of_an_unknown_type_is_refused_by_name(log: EventLog) -> None:
    runtime = recorded(log)
    await register(runtime, one=Adder)
    runtime.start()
    await runtime.send_message(Add(1), ONE)
    state = dict(await runtime.save_state())
    await runtime.send_message(Add(1), ONE)
    with pytest.raises(InvalidState) as refused:
        await runtime.load_state({**state, "ghost/k": {}})
    assert (refused.value.agent, (await instance(runtime, ONE)).total) == ("ghost/k", 2)
    await runtime.stop_when_idle()


async def test_asking_for_the_state_of_an_agent_makes_none(log: EventLog) -> None:
    runtime = recorded(log)
    await register(runtime, one=Adder)
    state = json.loads(json.dumps(await runtime.agent_save_state(ONE)))
    await runtime.agent_metadata(ONE)
    assert (state["stream"], state["version"], await stream(log, ONE)) == ("one/k", 0, [])
    assert await runtime.save_state() == {}


async def test_an_agent_that_was_just_made_is_in_the_state_of_all(log: EventLog) -> None:
    runtime = recorded(log)
    await register(runtime, one=Adder)
    await runtime.get(ONE, lazy=False)
    assert set(await runtime.save_state()) == {"one/k"}


# -- on AutoGen's own runtime ------------------------------------------------------------------------------------


async def test_on_autogens_runtime_the_handler_records_what_is_submitted_and_says_that_this_is_all(
    log: EventLog,
) -> None:
    handler = EventLogHandler(log)
    runtime = SingleThreadedAgentRuntime(intervention_handlers=[handler])
    await register(runtime, one=Adder)
    await runtime.add_subscription(TypeSubscription("t", "one"))
    runtime.start()
    assert await runtime.send_message(Add(2), ONE) == Total(2)
    await runtime.publish_message(Notice("hello"), topic())
    await runtime.stop_when_idle()
    await log.writer.flush()
    submitted = [event for event in await everything(log) if event.type is EventType.MESSAGE_SUBMITTED]
    assert [log.message(event) for event in submitted] == [Add(2), Notice("hello")]
    assert [(event.recipient, event.topic) for event in submitted] == [("one/k", None), (None, "t/k")]
    for ask in (handler.restore(ONE, version=1), handler.view(ONE), handler.restore_all(position=1)):
        with pytest.raises(RecordingIncomplete) as refused:
            await ask
        assert "EventSourcedAgentRuntime" in refused.value.remedy


# -- tracing ------------------------------------------------------------------------------------------------------


class Spans(trace.TracerProvider, trace.Tracer):
    """Keeps the names of the spans, as an in-memory exporter would."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def get_tracer(self, *args: Any, **keywords: Any) -> trace.Tracer:
        return self

    def start_span(self, name: str, *args: Any, **keywords: Any) -> trace.Span:
        self.names.append(name)
        return trace.INVALID_SPAN

    @contextmanager
    def start_as_current_span(self, name: str, *args: Any, **keywords: Any) -> Generator[trace.Span]:  # type: ignore[override]
        yield self.start_span(name)


async def test_spans_are_those_of_autogens_runtime(log: EventLog) -> None:
    names: list[list[str]] = []
    kinds: list[Callable[[Spans], SingleThreadedAgentRuntime]] = [
        lambda spans: SingleThreadedAgentRuntime(tracer_provider=spans),
        lambda spans: recorded(log, tracer_provider=spans),
    ]
    for kind in kinds:
        spans = Spans()
        runtime = kind(spans)
        await register(runtime, one=Mailer, two=Listener)
        await runtime.add_subscription(TypeSubscription("t", "two"))
        runtime.start()
        await runtime.send_message(Total(2), ONE)
        await runtime.publish_message(Notice("end"), topic())
        await runtime.stop_when_idle()
        names.append(sorted(spans.names))
    assert names[0] == names[1]
    assert len(names[0]) > 10
