"""Intervention handlers on workers: AutoGen's worker has none, and ours runs them where the in-process runtime does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from autogen_core import (
    AgentId,
    DefaultInterventionHandler,
    DropMessage,
    InterventionHandler,
    MessageContext,
    RoutedAgent,
    TypeSubscription,
    rpc,
)
from autogen_core.exceptions import MessageDroppedException
from autogen_ext.runtimes.grpc import GrpcWorkerAgentRuntime

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime, EventType
from autogen_eventlog.distributed import EventSourcedGrpcWorkerAgentRuntime
from tests.integration.drop_in import ONE, Add, Adder, Notice, Total, everything, instance, stream, topic
from tests.integration.workers import Answer, Listener, Question, Workers, outcome, until, workers

__all__ = ["workers"]

RECORDER = pytest.mark.parametrize("recorder", ["first", "last"])
ASKER = AgentId("asker", "k")


class Watching(DefaultInterventionHandler):
    """Remembers what it was shown, and does something to it."""

    def __init__(
        self, name: str, seen: list[tuple[Any, ...]], change: Callable[[Any], Any] = lambda message: message
    ) -> None:
        self._name = name
        self._seen = seen
        self._change = change

    async def on_send(self, message: Any, *, message_context: MessageContext, recipient: AgentId) -> Any:
        self._seen.append((self._name, "send", message, message_context.sender, recipient))
        return self._change(message)

    async def on_publish(self, message: Any, *, message_context: MessageContext) -> Any:
        self._seen.append((self._name, "publish", message, message_context.sender, message_context.topic_id))
        return self._change(message)

    async def on_response(self, message: Any, *, sender: AgentId, recipient: AgentId | None) -> Any:
        self._seen.append((self._name, "response", message, sender, recipient))
        return self._change(message)


class Asker(RoutedAgent):
    """Asks one, and says aloud what it was told."""

    def __init__(self) -> None:
        super().__init__("asks")
        self.got: list[Any] = []

    @rpc
    async def on_add(self, message: Add, ctx: MessageContext) -> Total:
        try:
            found = await self.send_message(
                message, AgentId("one", self.id.key), cancellation_token=ctx.cancellation_token
            )
        except MessageDroppedException:
            found = Total(-1)
        self.got.append(found)
        await self.publish_message(Notice(f"got {found.number}"), topic())
        return found


async def running(workers: Workers, *handlers: InterventionHandler, recorder: str = "last") -> tuple[Any, Any]:
    """A worker with the handlers, and Asker on it; and one without, with Adder and a listener."""
    watched = await workers.ours(Question, Answer, handlers=handlers, recorder=recorder)
    other = await workers.ours(Question, Answer)
    await watched.register_factory("asker", Asker)
    await other.register_factory("one", Adder)
    await other.register_factory("ear", Listener)
    await other.add_subscription(TypeSubscription("t", "ear"))
    return watched, other


EAR = AgentId("ear", "k")


def heard(worker: Any) -> list[Any]:
    shell = worker._agents.shells.get(EAR)
    live = None if shell is None else shell.incarnation
    return [] if live is None else list(live.agent.heard)


def changed(message: Any) -> Any:
    """One more, of whatever it is."""
    match message:
        case Add(number):
            return Add(number + 1)
        case Total(number):
            return Total(number + 100)
        case Notice(text):
            return Notice(text + "!")
        case _:
            return message


async def test_autogens_worker_takes_no_intervention_handlers() -> None:
    with pytest.raises(TypeError):
        GrpcWorkerAgentRuntime("localhost:1", intervention_handlers=[])  # type: ignore[call-arg]


async def test_intervention_handlers_without_a_recorder_are_refused_and_two_recorders_are(workers: Workers) -> None:
    with pytest.raises(ValueError, match="EventLogHandler"):
        EventSourcedGrpcWorkerAgentRuntime("localhost:1", intervention_handlers=[Watching("a", [])])
    two = [EventLogHandler(workers.log), EventLogHandler(workers.log)]
    with pytest.raises(ValueError, match="2 EventLogHandlers"):
        EventSourcedGrpcWorkerAgentRuntime("localhost:1", intervention_handlers=list(two))


async def test_a_handler_sees_what_leaves_its_worker_and_the_answers(workers: Workers) -> None:
    seen: list[tuple[Any, ...]] = []
    watched, other = await running(workers, Watching("a", seen))
    assert await watched.send_message(Add(1), ASKER) == Total(1)
    await watched.publish_message(Notice("hello"), topic())
    await until(lambda: sorted(heard(other)) == ["got 1", "hello"], "both are heard")
    assert seen == [
        ("a", "send", Add(1), None, ASKER),
        ("a", "send", Add(1, []), ASKER, ONE),
        ("a", "response", Total(1), ONE, ASKER),
        ("a", "publish", Notice("got 1"), ASKER, topic()),
        ("a", "response", Total(1), ASKER, None),
        ("a", "publish", Notice("hello"), None, topic()),
    ]


async def test_handlers_see_on_one_worker_what_they_see_in_process(workers: Workers) -> None:
    """The same program on either runtime."""
    found: list[list[tuple[Any, ...]]] = []
    for kind in ("worker", "in process"):
        seen: list[tuple[Any, ...]] = []
        handler = Watching("a", seen, changed)
        runtime: Any
        if kind == "worker":
            runtime = await workers.ours(handlers=(handler,))
        else:
            runtime = EventSourcedAgentRuntime(intervention_handlers=[handler, EventLogHandler(workers.log)])
            runtime.start()
        for name, factory in {"asker": Asker, "one": Adder, "ear": Listener}.items():
            await runtime.register_factory(name, factory)
        await runtime.add_subscription(TypeSubscription("t", "ear"))
        assert await runtime.send_message(Add(1), AgentId("asker", kind)) == Total(203)
        await runtime.publish_message(Notice("hello"), topic())
        await until(lambda seen=seen: len(seen) == 6, "all is seen")
        found.append([(stage, message) for _, stage, message, *_ in seen])
        await runtime.stop()
    assert found[0] == found[1]


@RECORDER
async def test_several_handlers_chain_on_each_of_the_three_hooks(workers: Workers, recorder: str) -> None:
    seen: list[tuple[Any, ...]] = []
    watched, other = await running(
        workers, Watching("a", seen, changed), Watching("b", seen, changed), recorder=recorder
    )
    # Add(1): +2 to Asker, +2 to one, whose Total(5) is +200 twice.
    assert await watched.send_message(Add(1), ASKER) == Total(405)
    await until(lambda: heard(other) == ["got 205!!"], "it is heard")
    assert [(one[0], one[1]) for one in seen] == [
        (name, stage) for stage in ("send", "send", "response", "publish", "response") for name in "ab"
    ]
    assert [workers.log.message(one) for one in await stream(workers.log, ONE, EventType.MESSAGE_DELIVERED)] == [
        Add(5, [])
    ]
    assert (await watched.view(ASKER, type=Asker)).got == [Total(205)]


@RECORDER
@pytest.mark.parametrize("stage", ["send", "publish", "response"])
async def test_what_a_handler_drops_is_recorded_as_dropped_by_it(workers: Workers, recorder: str, stage: str) -> None:
    kinds = {"send": Add, "publish": Notice, "response": Total}

    class Dropping(Watching):
        """Drops one kind of message."""

    drop = Dropping("a", [], lambda message: DropMessage if isinstance(message, kinds[stage]) else message)
    watched, other = await running(workers, drop, recorder=recorder)
    if stage == "publish":
        await watched.publish_message(Notice("hello"), topic())
    else:
        with pytest.raises(MessageDroppedException):
            await watched.send_message(Add(1), ONE)
    await watched.stop()
    await other.send_message(Question(""), EAR)  # what the host was given first it has passed on first
    assert heard(other) == []
    events = await everything(workers.log)
    [dropped] = [one for one in events if one.type is EventType.MESSAGE_DROPPED]
    assert dropped.metadata["stage"] == stage and dropped.metadata["by"].endswith("Dropping")
    delivered = [one.stream for one in events if one.type is EventType.MESSAGE_DELIVERED]
    assert delivered.count("one/k") == (1 if stage == "response" else 0)


async def test_what_an_agent_sends_and_a_handler_drops_is_an_error_of_the_agent(workers: Workers) -> None:
    drop = Watching("a", [], lambda message: message)

    async def on_send(message: Any, *, message_context: MessageContext, recipient: AgentId) -> Any:
        return DropMessage if recipient == ONE else message

    drop.on_send = on_send  # type: ignore[method-assign]
    watched, other = await running(workers, drop)
    assert await watched.send_message(Add(1), ASKER) == Total(-1)
    await until(lambda: heard(other) == ["got -1"], "it is heard")
    assert await workers.log.head("one/k") is None
    view = await watched.view(ASKER, type=Asker)
    assert view.got == [Total(-1)]


def redacted(message: Any) -> Any:
    return Notice(message.text.replace("secret", "…")) if isinstance(message, Notice) else message


class Crier(RoutedAgent):
    """Takes notices by call, and says them aloud."""

    def __init__(self) -> None:
        super().__init__("cries")

    @rpc
    async def on_notice(self, message: Notice, ctx: MessageContext) -> None:
        await self.publish_message(message, topic())


@RECORDER
@pytest.mark.parametrize("way", ["send", "publish"])
async def test_what_a_handler_redacts_of_a_message_from_outside_is_nowhere_in_the_log(
    workers: Workers, recorder: str, way: str
) -> None:
    watched, other = await running(workers, Watching("a", [], redacted), recorder=recorder)
    await watched.register_factory("crier", Crier)
    if way == "send":
        await watched.send_message(Notice("a secret"), AgentId("crier", "k"))
    else:
        await watched.publish_message(Notice("a secret"), topic())
    await until(lambda: heard(other) == ["a …"], "it is heard")
    await watched.stop()
    for one in await everything(workers.log):
        assert b"secret" not in (one.payload or b"") and "secret" not in str(one.metadata)


async def test_a_handler_sees_what_comes_from_a_worker_of_autogens_own(workers: Workers) -> None:
    seen: list[tuple[Any, ...]] = []
    watched = await workers.ours(handlers=(Watching("a", seen, changed),))
    await watched.register_factory("one", Adder)
    await watched.register_factory("ear", Listener)
    await watched.add_subscription(TypeSubscription("t", "ear"))
    plain = await workers.plain()
    assert await outcome(plain.send_message(Add(1), ONE), 5) == Total(102)
    await plain.publish_message(Notice("hello"), topic())
    await until(lambda: heard(watched) == ["hello!"], "it is heard")
    assert seen == [
        ("a", "send", Add(1, []), None, ONE),
        ("a", "response", Total(2), ONE, None),  # it has seen Add(2)
        ("a", "publish", Notice("hello"), AgentId("unknown", "unknown"), topic()),
    ]
    assert [workers.log.message(one) for one in await stream(workers.log, ONE, EventType.MESSAGE_DELIVERED)] == [
        Add(2, [])
    ]


async def test_a_publication_of_autogens_worker_passes_a_handler_once_however_many_it_is_for(
    workers: Workers,
) -> None:
    seen: list[tuple[Any, ...]] = []
    watched = await workers.ours(Question, Answer, handlers=(Watching("a", seen),))
    for name in ("ear", "ear2", "ear3"):
        await watched.register_factory(name, Listener)
        await watched.add_subscription(TypeSubscription("t", name))
    plain = await workers.plain(Question, Answer)
    await plain.publish_message(Notice("hello"), topic())
    for name in ("ear", "ear2", "ear3"):
        assert await plain.send_message(Question(""), AgentId(name, "k")) == Answer("1")
    assert [one[1] for one in seen if one[1] == "publish"] == ["publish"]


@RECORDER
async def test_a_handler_that_raises_is_an_error_of_the_sender(workers: Workers, recorder: str) -> None:
    class Refusing(DefaultInterventionHandler):
        async def on_send(self, message: Any, *, message_context: MessageContext, recipient: AgentId) -> Any:
            raise PermissionError("not allowed")

    watched, _ = await running(workers, Refusing(), recorder=recorder)
    with pytest.raises(PermissionError, match="not allowed"):
        await watched.send_message(Add(1), ASKER)
    assert [one for one in await everything(workers.log) if one.type is EventType.MESSAGE_DELIVERED] == []


async def test_a_publication_whose_handler_raises_is_an_error_of_the_publisher(workers: Workers) -> None:
    class Refusing(DefaultInterventionHandler):
        async def on_publish(self, message: Any, *, message_context: MessageContext) -> Any:
            raise PermissionError("not allowed")

    watched, _ = await running(workers, Refusing())
    with pytest.raises(PermissionError, match="not allowed"):
        await watched.publish_message(Notice("x"), topic())
    # An agent's publication leaves after its handler went on: it is recorded as dropped.
    assert await watched.send_message(Add(1), ASKER) == Total(1)
    await asyncio.wait_for(watched.stop(), 10)


async def test_handlers_run_once_though_a_message_is_sent_again(workers: Workers) -> None:
    seen: list[tuple[Any, ...]] = []
    cable = await workers.cable()
    watched = await workers.ours(handlers=(Watching("a", seen, changed),))
    other = await workers.ours(address=cable.address)
    await other.register_factory("one", Adder)
    cable.cut()
    call = asyncio.create_task(watched.send_message(Add(1), ONE))
    await until(lambda: watched._traffic.outstanding._sent, "it is on its way")
    cable.mend()
    assert await call == Total(102)
    assert [one[1] for one in seen] == ["send", "response"]


async def test_the_log_knows_a_message_as_it_was_delivered_and_replays_it_so(workers: Workers) -> None:
    watched, other = await running(workers, Watching("a", [], changed))
    for _ in range(3):
        await watched.send_message(Add(1), ASKER)
    live = await instance(other, ONE)  # type: ignore[arg-type]
    view = await other.view(ONE, type=Adder)
    assert (view.total, live.total) == (9, 9)
    assert await log_of(workers.log, ASKER) == [Add(2)] * 3


async def log_of(log: EventLog, agent: AgentId) -> list[Any]:
    return [log.message(one) for one in await stream(log, agent, EventType.MESSAGE_DELIVERED)]
