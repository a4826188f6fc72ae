"""Other intervention handlers beside the recorder, before it and after it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from autogen_core import (
    AgentId,
    ClosureAgent,
    ClosureContext,
    DefaultInterventionHandler,
    DefaultSubscription,
    DefaultTopicId,
    DropMessage,
    InterventionHandler,
    MessageContext,
    TypeSubscription,
)
from autogen_core.exceptions import MessageDroppedException

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime, EventType
from tests.integration.drop_in import (
    ONE,
    Add,
    Adder,
    Notice,
    Refused,
    Total,
    everything,
    instance,
    log,
    make,
    recorded,
    register,
    stream,
    topic,
)

__all__ = ["log", "make"]

ORDERS = pytest.mark.parametrize("recorder", ["first", "last"])


@dataclass
class Trigger:
    """Makes an agent send something."""

    seen: list[int] = field(default_factory=list[int])


class Changing(DefaultInterventionHandler):
    """Does the same to each message on its way, whichever way that is."""

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self._change = change

    async def on_send(self, message: Any, *, message_context: MessageContext, recipient: AgentId) -> Any:
        return self._change(message)

    async def on_publish(self, message: Any, *, message_context: MessageContext) -> Any:
        return self._change(message)


class Answering(DefaultInterventionHandler):
    """Does something to each answer."""

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self._change = change

    async def on_response(self, message: Any, *, sender: AgentId, recipient: AgentId | None) -> Any:
        return self._change(message)


class EveryThird(Changing):
    """Drops every third message."""

    def __init__(self) -> None:
        super().__init__(self._or_drop)
        self._count = 0

    def _or_drop(self, message: Any) -> Any:
        self._count += 1
        return message if self._count % 3 else DropMessage


async def running(log: EventLog, recorder: str, *handlers: InterventionHandler) -> EventSourcedAgentRuntime:
    runtime = recorded(log, *_in_order(log, recorder, *handlers))
    await register(runtime, one=Adder)
    await runtime.add_subscription(TypeSubscription("t", "one"))
    runtime.start()
    return runtime


async def idle(runtime: EventSourcedAgentRuntime) -> None:
    await asyncio.wait_for(runtime.stop_when_idle(), 20)


async def delivered(log: EventLog) -> list[object]:
    return [log.message(event) for event in await stream(log, ONE, EventType.MESSAGE_DELIVERED)]


async def dropped(log: EventLog) -> list[tuple[object, Any, Any]]:
    found = [event for event in await everything(log) if event.type is EventType.MESSAGE_DROPPED]
    return [(log.message(event), event.metadata["by"], event.metadata["stage"]) for event in found]


def redacted(message: Any) -> Any:
    return Notice(message.text.replace("secret", "…")) if isinstance(message, Notice) else message


@ORDERS
async def test_what_another_handler_replaces_is_delivered_and_recorded(log: EventLog, recorder: str) -> None:
    runtime = await running(log, recorder, Changing(redacted))
    await runtime.publish_message(Notice("a secret"), topic())
    await idle(runtime)
    assert (await instance(runtime, ONE)).notices == ["a …"]
    assert await delivered(log) == [Notice("a …")]
    recorded_of_agent = [event.payload or b"" for event in await stream(log, ONE)]
    assert not any(b"secret" in payload for payload in recorded_of_agent)
    assert (await runtime.view(ONE, type=Adder)).notices == ["a …"]


@ORDERS
async def test_handlers_chain(log: EventLog, recorder: str) -> None:
    def twice(message: Any) -> Any:
        return Add(2 * message.number)

    def plus_one(message: Any) -> Any:
        return Add(message.number + 1)

    runtime = await running(log, recorder, Changing(twice), Changing(plus_one))
    assert await runtime.send_message(Add(5), ONE) == Total(11)
    await idle(runtime)
    assert await delivered(log) == [Add(11)]


@ORDERS
async def test_a_none_from_the_last_handler_is_delivered_and_recorded_as_none(log: EventLog, recorder: str) -> None:
    class Anything(Adder):
        async def on_unhandled_message(self, message: Any, ctx: MessageContext) -> None:
            self.notices.append(repr(message))

    runtime = recorded(log, *_in_order(log, recorder, Changing(lambda message: None)))
    await register(runtime, one=Anything)
    runtime.start()
    with pytest.warns(RuntimeWarning, match="returned None"):
        await runtime.send_message(Notice("gone"), ONE)
    await idle(runtime)
    assert ((await instance(runtime, ONE)).notices, await delivered(log)) == (["None"], [None])


@ORDERS
async def test_what_a_handler_drops_is_recorded_as_dropped_by_it(log: EventLog, recorder: str) -> None:
    runtime = await running(log, recorder, EveryThird())
    results = [
        await asyncio.gather(runtime.send_message(Add(number), ONE), return_exceptions=True) for number in range(6)
    ]
    await idle(runtime)
    assert [isinstance(result, MessageDroppedException) for [result] in results] == 2 * [False, False, True]
    assert await delivered(log) == [Add(number) for number in (0, 1, 3, 4)]
    assert await dropped(log) == [(Add(2), "EveryThird", "send"), (Add(5), "EveryThird", "send")]
    assert (await runtime.view(ONE, type=Adder)).total == 8


@ORDERS
async def test_dropped_publications_and_answers_let_the_runtime_become_idle(log: EventLog, recorder: str) -> None:
    dropping = Answering(lambda message: DropMessage)
    runtime = await running(log, recorder, Changing(lambda m: DropMessage if isinstance(m, Notice) else m), dropping)
    await runtime.publish_message(Notice("unheard"), topic())
    with pytest.raises(MessageDroppedException):
        await runtime.send_message(Add(1), ONE)
    await idle(runtime)
    assert (await instance(runtime, ONE)).total == 1
    assert await dropped(log) == [(Notice("unheard"), "Changing", "publish"), (Total(1), "Answering", "response")]


@ORDERS
async def test_a_changed_answer_is_what_the_sender_gets(log: EventLog, recorder: str) -> None:
    runtime = await running(log, recorder, Answering(lambda message: Total(100 + message.number)))
    assert await runtime.send_message(Add(1), ONE) == Total(101)
    await idle(runtime)


@ORDERS
async def test_what_a_handler_raises_reaches_the_sender_and_lets_the_runtime_become_idle(
    log: EventLog, recorder: str
) -> None:
    def refuse(message: Any) -> Any:
        raise Refused("by a handler", 1)

    runtime = await running(log, recorder, Changing(refuse))
    with pytest.raises(Refused):
        await runtime.send_message(Add(1), ONE)
    await runtime.publish_message(Notice("lost"), topic())
    await idle(runtime)
    assert await delivered(log) == []


async def test_what_a_handler_or_a_recipient_does_to_a_message_is_not_seen_by_its_sender(log: EventLog) -> None:
    def scribble(message: Any) -> Any:
        message.seen.append(-1)
        return message

    class Sender(Adder):
        async def on_unhandled_message(self, message: Any, ctx: MessageContext) -> Any:
            sent = Add(3)
            await self.send_message(sent, ONE)
            return Total(len(sent.seen))

    runtime = await running(log, "last", Changing(scribble))
    await register(runtime, sender=Sender)
    assert await runtime.send_message(Trigger(), AgentId("sender", "k")) == Total(0)
    await idle(runtime)


async def test_two_recorders_are_refused(log: EventLog) -> None:
    with pytest.raises(ValueError, match="2 EventLogHandlers"):
        EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log), EventLogHandler(log)])


async def test_a_saved_state_does_not_hold_what_was_dropped(log: EventLog) -> None:
    runtime = await running(log, "last", EveryThird())
    for number in (1, 2):
        await runtime.send_message(Add(number), ONE)
    with pytest.raises(MessageDroppedException):
        await runtime.send_message(Add(4), ONE)
    state = json.loads(json.dumps(await runtime.agent_save_state(ONE)))
    await runtime.send_message(Add(8), ONE)
    await runtime.agent_load_state(ONE, state)
    assert await runtime.send_message(Add(0), ONE) == Total(3)
    await idle(runtime)


def _in_order(log: EventLog, recorder: str, *handlers: InterventionHandler) -> list[InterventionHandler]:
    recording = EventLogHandler(log)
    return [recording, *handlers] if recorder == "first" else [*handlers, recording]


async def test_what_another_handler_redacts_is_nowhere_in_the_log(dsn: str) -> None:
    class Redactor(DefaultInterventionHandler):
        async def on_publish(self, message: Any, *, message_context: MessageContext) -> Any:
            return message.replace("secret", "***")

    heard: list[str] = []

    async def listen(_agent: ClosureContext, message: str, ctx: MessageContext) -> None:
        heard.append(message)

    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log), Redactor()])
        await ClosureAgent.register_closure(
            runtime, "ear", listen, subscriptions=lambda: [DefaultSubscription(agent_type="ear")]
        )
        runtime.start()
        await runtime.publish_message("a secret", DefaultTopicId())
        await runtime.stop_when_idle()
        assert heard == ["a ***"]
        events = [event async for event in log.tail(follow=False)]
        assert not [event for event in events if b"secret" in (event.payload or b"")]
        assert [log.message(event) for event in events if event.type is EventType.MESSAGE_DELIVERED] == ["a ***"]
