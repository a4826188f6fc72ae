"""The same programs on AutoGen's runtime, on ours without a recorder, and on ours: with the same results."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from autogen_core import (
    AgentId,
    CancellationToken,
    ClosureAgent,
    ClosureContext,
    DefaultSubscription,
    DefaultTopicId,
    MessageContext,
    RoutedAgent,
    TypePrefixSubscription,
    TypeSubscription,
    default_subscription,
    type_subscription,
)

from autogen_eventlog import EventLog, EventType
from tests.integration.drop_in import (
    ONE,
    OTHER,
    TWO,
    Add,
    Adder,
    Crier,
    Make,
    Notice,
    Refused,
    Total,
    Waiter,
    Work,
    instance,
    log,
    make,
    recorded,
    register,
    stream,
    topic,
)

__all__ = ["log", "make"]


@default_subscription
class DefaultListener(Adder):
    pass


@type_subscription("news")
class NewsListener(Adder):
    pass


class Keeper(Adder):
    """Saves and loads its state as AutoGen asks."""

    async def save_state(self) -> Mapping[str, Any]:
        return {"total": self.total}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        self.total = state["total"]


# -- registration -------------------------------------------------------------------------------------------------


async def test_an_agent_made_by_a_factory_answers(make: Make) -> None:
    runtime = make()
    assert (await Adder.register(runtime, "one", Adder)).type == "one"
    runtime.start()
    assert [await runtime.send_message(Add(number), ONE) for number in (1, 2)] == [Total(1), Total(3)]
    assert await runtime.send_message(Add(5), AgentId("one", "elsewhere")) == Total(5)
    await runtime.stop_when_idle()
    assert (await instance(runtime, ONE)).total == 3


async def test_a_registered_instance_is_the_one_that_answers(make: Make) -> None:
    runtime, adder = make(), Adder()
    assert await adder.register_instance(runtime, ONE) == ONE
    runtime.start()
    assert await runtime.send_message(Add(4), ONE) == Total(4)
    await runtime.stop_when_idle()
    assert (adder.total, await instance(runtime, ONE)) == (4, adder)


async def test_a_factory_may_await(make: Make) -> None:
    async def factory() -> Adder:
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        return Adder()

    runtime = make()
    await runtime.register_factory("one", factory, expected_class=Adder)
    runtime.start()
    assert await runtime.send_message(Add(1), ONE) == Total(1)
    await runtime.stop_when_idle()


async def test_a_type_or_an_id_is_registered_once(make: Make) -> None:
    runtime = make()
    await register(runtime, one=Adder)
    await Adder().register_instance(runtime, TWO)
    with pytest.raises(ValueError, match="already exists"):
        await register(runtime, one=Adder)
    with pytest.raises(ValueError, match="already exists"):
        await Adder().register_instance(runtime, TWO)
    with pytest.raises(ValueError, match="same type"):
        await Adder().register_instance(runtime, AgentId("one", "as instance"))
    with pytest.raises(ValueError, match="already exists"):
        await register(runtime, two=Adder)


async def test_instances_of_one_type_are_of_one_class(make: Make) -> None:
    runtime = make()
    await Adder().register_instance(runtime, ONE)
    await Adder().register_instance(runtime, AgentId("one", "second"))
    with pytest.raises(ValueError, match="same object type"):
        await Crier().register_instance(runtime, AgentId("one", "third"))


async def test_a_factory_that_makes_another_class_fails_the_sender(make: Make) -> None:
    runtime = make()
    await runtime.register_factory("one", Crier, expected_class=Adder)  # type: ignore[type-var]
    runtime.start()
    with pytest.raises(ValueError, match="wrong type: expected Adder, got Crier"):
        await runtime.send_message(Add(1), ONE)
    await runtime.stop_when_idle()


async def test_a_factory_that_raises_fails_the_sender_and_is_logged(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    def factory() -> Adder:
        raise Refused("not today", 7)

    runtime = make()
    await register(runtime, one=factory)
    runtime.start()
    with caplog.at_level(logging.ERROR), pytest.raises(Refused) as raised:
        await runtime.send_message(Add(1), ONE)
    await runtime.stop_when_idle()
    assert raised.value.args == ("not today", 7)
    assert "Error constructing agent one/k" in caplog.messages


async def test_a_message_to_an_unknown_type_is_refused(make: Make) -> None:
    runtime = make()
    runtime.start()
    with pytest.raises(Exception, match="Recipient not found"):
        await runtime.send_message(Add(1), ONE)
    await runtime.stop_when_idle()


async def test_an_instance_of_another_class_or_of_an_unknown_type_is_not_given(make: Make) -> None:
    runtime = make()
    await register(runtime, one=Adder)
    with pytest.raises(TypeError, match="not of type Crier"):
        await runtime.try_get_underlying_agent_instance(ONE, Crier)
    with pytest.raises(LookupError):
        await runtime.try_get_underlying_agent_instance(OTHER, Adder)


async def test_an_id_is_got_with_and_without_an_instance(make: Make) -> None:
    made: list[Adder] = []

    def factory() -> Adder:
        made.append(Adder())
        return made[-1]

    runtime = make()
    await register(runtime, one=factory)
    assert await runtime.get("one", "k") == ONE
    assert made == []
    assert await runtime.get(ONE, lazy=False) == ONE
    assert await instance(runtime, ONE) is made[0]


async def test_a_closure_agent_gets_what_is_published(make: Make) -> None:
    got: asyncio.Queue[str] = asyncio.Queue()

    async def closure(context: ClosureContext, message: Notice, ctx: MessageContext) -> None:
        await got.put(f"{context.id} {message.text}")

    runtime = make()
    await ClosureAgent.register_closure(runtime, "closure", closure, subscriptions=lambda: [DefaultSubscription()])
    runtime.start()
    await runtime.publish_message(Notice("one"), DefaultTopicId())
    await runtime.publish_message(Notice("two"), DefaultTopicId())
    await runtime.stop_when_idle()
    assert [got.get_nowait(), got.get_nowait(), got.empty()] == ["closure/default one", "closure/default two", True]


# -- subscriptions ------------------------------------------------------------------------------------------------


async def test_each_kind_of_subscription_brings_messages(make: Make) -> None:
    runtime = make()
    await DefaultListener.register(runtime, "by_default", DefaultListener)
    await NewsListener.register(runtime, "by_class", NewsListener)
    await register(runtime, by_type=Adder, by_prefix=Adder, by_none=Adder)
    await runtime.add_subscription(TypeSubscription("news", "by_type"))
    await runtime.add_subscription(TypePrefixSubscription("ne", "by_prefix"))
    runtime.start()
    await runtime.publish_message(Notice("news"), topic("news"))
    await runtime.publish_message(Notice("next"), topic("next"))
    await runtime.publish_message(Notice("all"), topic("default"))
    await runtime.stop_when_idle()
    heard = {kind: (await instance(runtime, AgentId(kind, "k"))).notices for kind in _listeners()}
    assert heard == {
        "by_default": ["all"],
        "by_class": ["news"],
        "by_type": ["news"],
        "by_prefix": ["news", "next"],
        "by_none": [],
    }


def _listeners() -> list[str]:
    return ["by_default", "by_class", "by_type", "by_prefix", "by_none"]


async def test_subscriptions_come_and_go_while_it_runs(make: Make) -> None:
    runtime = make()
    await register(runtime, one=Adder)
    runtime.start()
    subscription = TypeSubscription("t", "one")
    await runtime.publish_message(Notice("before"), topic())
    await runtime.send_message(Add(0), ONE)  # it is answered after what was published before
    await runtime.add_subscription(subscription)
    with pytest.raises(ValueError, match="already exists"):
        await runtime.add_subscription(subscription)
    await runtime.publish_message(Notice("while"), topic())
    await runtime.send_message(Add(0), ONE)
    await runtime.remove_subscription(subscription.id)
    with pytest.raises(ValueError, match="does not exist"):
        await runtime.remove_subscription(subscription.id)
    await runtime.publish_message(Notice("after"), topic())
    await runtime.stop_when_idle()
    assert (await instance(runtime, ONE)).notices == ["while"]


async def test_overlapping_subscriptions_deliver_twice(make: Make, log: EventLog) -> None:
    runtime = make()
    await register(runtime, one=Adder)
    await runtime.add_subscription(TypeSubscription("t", "one"))
    await runtime.add_subscription(TypePrefixSubscription("t", "one"))
    runtime.start()
    await runtime.publish_message(Notice("twice"), topic(), message_id="m")
    await runtime.stop_when_idle()
    assert (await instance(runtime, ONE)).notices == ["twice", "twice"]
    deliveries = await stream(log, ONE, EventType.MESSAGE_DELIVERED)
    assert [one.message_id for one in deliveries] in ([], ["m", "m"])


async def test_an_agent_does_not_get_what_it_publishes_itself(make: Make) -> None:
    runtime = make()
    await register(runtime, one=Crier, two=Crier)
    for kind in ("one", "two"):
        await runtime.add_subscription(DefaultSubscription(agent_type=kind))
    runtime.start()
    first, second = AgentId("one", "default"), AgentId("two", "default")
    await runtime.send_message(Work("hello"), first)
    await runtime.stop_when_idle()
    assert ((await instance(runtime, first)).heard, (await instance(runtime, second)).heard) == ([], ["hello"])


# -- starting and stopping ----------------------------------------------------------------------------------------


async def test_what_is_not_started_can_not_be_stopped_and_what_is_can_not_be_started(make: Make) -> None:
    runtime = make()
    for stop in (runtime.stop, runtime.stop_when_idle, lambda: runtime.stop_when(lambda: True)):
        with pytest.raises(RuntimeError, match="not started"):
            await stop()
    runtime.start()
    with pytest.raises(RuntimeError, match="already started"):
        runtime.start()
    await runtime.stop()


@pytest.mark.parametrize("how", ["stop", "stop_when_idle", "stop_when", "close"])
async def test_a_runtime_that_was_stopped_can_be_started_again(make: Make, how: str) -> None:
    runtime = make()
    await register(runtime, one=Adder)
    for expected in (1, 2):
        runtime.start()
        assert await runtime.send_message(Add(1), ONE) == Total(expected)
        await (runtime.stop_when(lambda: True) if how == "stop_when" else getattr(runtime, how)())
    assert (await instance(runtime, ONE)).total == 2


async def test_closing_a_runtime_closes_its_agents(make: Make) -> None:
    class Closing(Adder):
        closed = 0

        async def close(self) -> None:
            self.closed += 1

    runtime = make()
    await register(runtime, one=Closing)
    runtime.start()
    await runtime.send_message(Add(1), ONE)
    closing = await instance(runtime, ONE)
    await runtime.close()
    assert closing.closed == 1


async def test_idle_means_that_everything_published_is_handled(make: Make) -> None:
    runtime = make()
    await register(runtime, one=Adder)
    await runtime.add_subscription(TypeSubscription("t", "one"))
    for number in range(20):
        await runtime.publish_message(Notice(str(number)), topic())
    assert runtime.unprocessed_messages_count == 20
    runtime.start()
    await runtime.stop_when_idle()
    assert runtime.unprocessed_messages_count == 0
    assert (await instance(runtime, ONE)).notices == [str(number) for number in range(20)]


async def test_the_first_message_ever_keeps_the_runtime_from_being_idle(make: Make) -> None:
    runtime = make()
    await register(runtime, one=Adder)
    runtime.start()
    stopping = asyncio.create_task(runtime.stop_when_idle())
    assert await runtime.send_message(Add(1), ONE) == Total(1)
    await stopping


async def test_messages_are_processed_one_by_one_by_hand(make: Make) -> None:
    runtime = make()
    await register(runtime, one=Adder)
    await runtime.add_subscription(TypeSubscription("t", "one"))
    answer = asyncio.create_task(runtime.send_message(Add(3), ONE))
    await runtime.process_next()
    assert (await instance(runtime, ONE)).total == 3
    await runtime.process_next()  # the answer is a message too
    assert await answer == Total(3)


# -- exceptions ---------------------------------------------------------------------------------------------------


async def test_what_an_rpc_handler_raises_reaches_the_sender_with_its_type(make: Make) -> None:
    runtime = make(ignore_unhandled_exceptions=False)
    await register(runtime, one=Adder)
    runtime.start()
    with pytest.raises(Refused) as raised:
        await runtime.send_message(Add(-1), ONE)
    assert raised.value.args == ("negative", -1)
    assert await runtime.send_message(Add(2), ONE) == Total(2)
    await runtime.stop_when_idle()


async def test_a_message_without_a_handler_fails_the_sender(make: Make) -> None:
    class Strict(Adder):
        async def on_unhandled_message(self, message: Any, ctx: MessageContext) -> None:
            raise Refused("unhandled", 1)

    runtime = make()
    await register(runtime, one=Strict)
    runtime.start()
    with pytest.raises(Refused):
        await runtime.send_message(Total(1), ONE)
    await runtime.stop_when_idle()


async def test_what_an_event_handler_raises_is_ignored_by_default(make: Make) -> None:
    runtime = make()
    await register(runtime, one=Adder)
    await runtime.add_subscription(TypeSubscription("t", "one"))
    runtime.start()
    for text in ("a", "raise", "b"):
        await runtime.publish_message(Notice(text), topic())
    await runtime.stop_when_idle()
    assert (await instance(runtime, ONE)).notices == ["a", "b"]


async def test_what_an_event_handler_raises_ends_the_runtime_where_it_is_not_to_be_ignored(make: Make) -> None:
    runtime = make(ignore_unhandled_exceptions=False)
    await register(runtime, one=Adder)
    await runtime.add_subscription(TypeSubscription("t", "one"))
    runtime.start()
    await runtime.publish_message(Notice("raise"), topic())
    with pytest.raises(Refused) as raised:
        await runtime.stop_when_idle()
    assert raised.value.args == ("notice", 0)


# -- cancellation -------------------------------------------------------------------------------------------------


async def test_a_message_that_is_cancelled_before_delivery_is_handled_with_a_cancelled_token(make: Make) -> None:
    runtime, begun, token = make(), asyncio.Event(), CancellationToken()
    await register(runtime, one=lambda: Waiter(begun))
    answer = asyncio.create_task(runtime.send_message(Work("quick"), ONE, cancellation_token=token))
    while not runtime.unprocessed_messages_count:
        await asyncio.sleep(0)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
    runtime.start()
    await runtime.stop_when_idle()
    waiter = await instance(runtime, ONE)
    assert (waiter.cancelled_before, waiter.finished) == (True, 1)


async def test_a_token_cancels_a_running_handler(make: Make, log: EventLog) -> None:
    runtime, begun, token = make(), asyncio.Event(), CancellationToken()
    await register(runtime, one=lambda: Waiter(begun))
    runtime.start()
    answer = asyncio.create_task(runtime.send_message(Work(), ONE, cancellation_token=token))
    await begun.wait()
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
    await runtime.stop_when_idle()
    waiter = await instance(runtime, ONE)
    assert (waiter.cancelled_before, waiter.cancelled) == (False, True)
    completed = await stream(log, ONE, EventType.DELIVERY_COMPLETED)
    assert [one.outcome and one.outcome.value for one in completed] in ([], ["cancelled"])


async def test_a_token_that_is_passed_on_cancels_the_whole_chain(make: Make) -> None:
    class Passing(RoutedAgent):
        def __init__(self) -> None:
            super().__init__("passes on")
            self.cancelled = False

        async def on_message_impl(self, message: Any, ctx: MessageContext) -> Any:
            try:
                return await self.send_message(message, TWO, cancellation_token=ctx.cancellation_token)
            except asyncio.CancelledError:
                self.cancelled = True
                raise

    runtime, begun, token = make(), asyncio.Event(), CancellationToken()
    await register(runtime, one=Passing, two=lambda: Waiter(begun))
    runtime.start()
    answer = asyncio.create_task(runtime.send_message(Work(), ONE, cancellation_token=token))
    await begun.wait()
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
    await runtime.stop_when_idle()
    assert ((await instance(runtime, ONE)).cancelled, (await instance(runtime, TWO)).cancelled) == (True, True)


# -- state --------------------------------------------------------------------------------------------------------


async def test_metadata_are_those_of_the_agent(make: Make) -> None:
    runtime = make()
    await register(runtime, one=Adder)
    assert await runtime.agent_metadata(ONE) == {"type": "one", "key": "k", "description": "adds up"}


async def test_states_are_saved_and_loaded_by_agent_and_as_a_whole(make: Make) -> None:
    runtime = make()
    await register(runtime, one=Keeper, two=Keeper)
    runtime.start()
    await runtime.send_message(Add(3), ONE)
    await runtime.send_message(Add(4), TWO)
    one, whole = await runtime.agent_save_state(ONE), await runtime.save_state()
    assert set(whole) == {"one/k", "two/k"}
    for agent in (ONE, TWO):
        await runtime.send_message(Add(10), agent)
    await runtime.agent_load_state(ONE, json.loads(json.dumps(one)))
    assert await runtime.send_message(Add(1), ONE) == Total(4)
    await runtime.load_state(json.loads(json.dumps(whole)))
    assert [await runtime.send_message(Add(0), agent) for agent in (ONE, TWO)] == [Total(3), Total(4)]
    await runtime.stop_when_idle()


async def test_a_state_that_an_agent_got_by_other_ways_than_messages_is_saved_and_loaded(make: Make) -> None:
    runtime = make()
    await register(runtime, one=Keeper)
    keeper = await instance(runtime, ONE)
    keeper.total = 7
    state = await runtime.save_state()
    keeper.total = 8
    await runtime.load_state(state)
    assert (await instance(runtime, ONE), keeper.total) == (keeper, 7)


async def test_an_instance_that_is_not_registered_can_not_be_loaded(make: Make) -> None:
    runtime = make()
    await Keeper().register_instance(runtime, ONE)
    with pytest.raises((RuntimeError, LookupError)):
        await runtime.agent_load_state(AgentId("one", "elsewhere"), {"total": 1})


async def test_a_second_runtime_on_the_log_goes_on_where_the_first_stopped(log: EventLog) -> None:
    for expected in (5, 10):
        runtime = recorded(log)
        await register(runtime, one=Adder)
        runtime.start()
        assert await runtime.send_message(Add(5), ONE) == Total(expected)
        await runtime.stop_when_idle()
