"""What AutoGen's worker does wrong against AutoGen's own host, and ours does not. Each is tried on both."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from autogen_core import (
    JSON_DATA_CONTENT_TYPE,
    PROTOBUF_DATA_CONTENT_TYPE,
    AgentId,
    AgentType,
    CancellationToken,
    MessageContext,
    RoutedAgent,
    TypeSubscription,
    UnknownPayload,
    rpc,
)
from autogen_ext.runtimes.grpc.protos import agent_worker_pb2 as pb
from autogen_ext.runtimes.grpc.protos import cloudevent_pb2
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.wrappers_pb2 import StringValue
from pydantic import BaseModel

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime, EventType
from autogen_eventlog.distributed.wire import EXACT, TYPE
from autogen_eventlog.errors import (
    AgentTypeTaken,
    EventLogError,
    MessageTooLarge,
    RecordedFailure,
    Undeliverable,
    UnknownAgent,
    UnknownStream,
    WorkerUnreachable,
)
from tests.integration.drop_in import Add, Adder, Notice, Refused, Total, Waiter, Work, instance, stream, topic
from tests.integration.store import eventually
from tests.integration.workers import (
    MEGABYTE,
    NO_ANSWER,
    RAISED,
    Answer,
    Blob,
    Echo,
    Listener,
    Meeting,
    Question,
    Workers,
    outcome,
    size_of,
    until,
    workers,
    working,
)

__all__ = ["workers"]

KINDS = pytest.mark.parametrize("kind", ["autogen", "ours"])
ONE = AgentId("one", "k")


def by_kind(autogen: Any, ours: Any) -> pytest.MarkDecorator:
    """What is to come of it on either."""
    return pytest.mark.parametrize(("kind", "expected"), [("autogen", autogen), ("ours", ours)])


async def delivered(log: EventLog, agent: AgentId) -> list[Any]:
    return [log.message(one) for one in await stream(log, agent, EventType.MESSAGE_DELIVERED)]


# -- T1 -----------------------------------------------------------------------------------------------------------


@by_kind(autogen=[NO_ANSWER, Answer("a")], ours=[Answer("a"), Answer("b")])
async def test_two_callers_of_one_slow_agent_each_get_their_own_answer(
    workers: Workers, kind: str, expected: Any
) -> None:
    """AutoGen's workers number their requests from one, and the host takes two of one number for one (T1)."""
    a, b, c = [await workers.of(kind, Question, Answer) for _ in range(3)]
    await c.register_factory("one", lambda: Meeting(2))
    within = 0.4 if kind == "autogen" else 20.0  # there, an answer never comes
    first = asyncio.create_task(outcome(a.send_message(Question("a"), ONE), within))
    await until(lambda: _met(c) == ["a"], "the first has come")
    found = [await outcome(b.send_message(Question("b"), ONE), within), await first]
    assert [found[1], found[0]] == expected


def _met(worker: Any) -> list[str]:
    return list(getattr(_present(worker, ONE), "here", []))


def _present(worker: Any, agent: AgentId) -> Any:
    """The instance, if there is one already."""
    found = worker._instantiated_agents.get(agent)
    if found is None and getattr(worker, "_agents", None) is not None and agent in worker._agents.shells:
        incarnation = worker._agents.shells[agent].incarnation
        found = None if incarnation is None else incarnation.agent
    return found


# -- T2 -----------------------------------------------------------------------------------------------------------


class Silent(RoutedAgent):
    """Has nothing to say."""

    def __init__(self) -> None:
        super().__init__("silent")
        self.asked = 0

    @rpc
    async def on_question(self, message: Question, ctx: MessageContext) -> None:
        self.asked += 1


@by_kind(autogen=NO_ANSWER, ours=None)
async def test_a_handler_that_returns_none_answers(workers: Workers, kind: str, expected: Any) -> None:
    caller, worker = [await workers.of(kind, Question) for _ in range(2)]
    await worker.register_factory("one", Silent)
    assert await outcome(caller.send_message(Question(""), ONE)) is expected
    assert (await instance(worker, ONE)).asked == 1  # type: ignore[arg-type]


# -- T3 -----------------------------------------------------------------------------------------------------------


class Failing(RoutedAgent):
    """Raises what it was made for."""

    def __init__(self, error: Callable[[], BaseException]) -> None:
        super().__init__("fails")
        self._error = error

    @rpc
    async def on_question(self, message: Question, ctx: MessageContext) -> Answer:
        raise self._error()


class Elaborate(Exception):
    """Has more to it than a text."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text, code)
        self.code = code
        self.where = ("a", 1)


ERRORS: dict[str, tuple[Callable[[], BaseException], Any]] = {
    "without text": (ValueError, UnknownPayload("", "", b"")),
    "assertion": (AssertionError, UnknownPayload("", "", b"")),
    "with text": (lambda: KeyError("boom"), Exception("'boom'")),
    "of the user's class": (lambda: Elaborate("boom", 7), Exception("('boom', 7)")),
    "of the system": (lambda: OSError(2, "no such file", "f"), Exception("[Errno 2] no such file: 'f'")),
}
"""What is raised, and what comes of it on AutoGen's worker."""


@KINDS
async def test_an_error_arrives_as_the_error_that_it_is(workers: Workers, kind: str) -> None:
    caller, worker = [await workers.of(kind, Question) for _ in range(2)]
    for number, (error, autogens) in enumerate(ERRORS.values()):
        agent = AgentId(f"one{number}", "k")
        await worker.register_factory(agent.type, lambda error=error: Failing(error))  # type: ignore[misc]
        found = await outcome(caller.send_message(Question(""), agent), 5)
        expected = autogens if kind == "autogen" else error()
        assert (type(found), str(found), vars(found)) == (type(expected), str(expected), vars(expected))


class Unspeakable(Exception):
    """Has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


async def test_an_error_that_can_hardly_be_said_arrives(workers: Workers) -> None:
    """Its text can't be had, is no text, or is too large."""
    caller, worker = [await workers.ours(Question) for _ in range(2)]
    errors: list[Callable[[], BaseException]] = [
        Unspeakable,
        lambda: ValueError("\udc80"),
        lambda: ValueError("x" * 5_000_000),
    ]
    for number, (error, expected) in enumerate(zip(errors, (Unspeakable, ValueError, MessageTooLarge), strict=True)):
        agent = AgentId(f"one{number}", "k")
        await worker.register_factory(agent.type, lambda error=error: Failing(error))  # type: ignore[misc]
        assert type(await outcome(caller.send_message(Question(""), agent), 5)) is expected
    await worker.register_factory("silent", Silent)
    assert await outcome(caller.send_message(Question(""), AgentId("silent", "k")), 5) is None


async def test_a_handler_that_cancels_itself_answers(workers: Workers) -> None:
    caller, worker = [await workers.ours(Question) for _ in range(2)]
    await worker.register_factory("one", lambda: Failing(asyncio.CancelledError))
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(caller.send_message(Question(""), ONE), 5)


async def test_an_error_of_a_class_unknown_here_keeps_its_type_and_text(workers: Workers) -> None:
    caller, worker = await workers.ours(Question), await workers.raw()
    await worker.register("one")
    call = asyncio.create_task(outcome(caller.send_message(Question(""), ONE)))
    said = {"text": "it broke", "args": ["it", "broke"]}
    await worker.answer(error="it broke", metadata={TYPE: "elsewhere:Broken", EXACT: json.dumps(said)})
    found = await call
    assert isinstance(found, RecordedFailure), found
    assert (found.error_type, found.text, str(found)) == ("elsewhere:Broken", "it broke", "it broke")


async def test_an_error_that_an_agent_meets_is_the_same_live_and_in_replay(workers: Workers) -> None:
    caller, worker = [await workers.ours(Question, Answer) for _ in range(2)]
    await worker.register_factory("one", lambda: Failing(lambda: Elaborate("boom", 7)))
    await caller.register_factory("curious", Curious)
    assert await caller.send_message(Question(""), AgentId("curious", "k")) == Answer("Elaborate('boom', 7) 7")
    view = await caller.view(AgentId("curious", "k"), type=Curious)
    assert view.met == ["Elaborate('boom', 7) 7"]


class Curious(RoutedAgent):
    """Asks, and remembers the error it met."""

    def __init__(self) -> None:
        super().__init__("curious")
        self.met: list[str] = []

    @rpc
    async def on_question(self, message: Question, ctx: MessageContext) -> Answer:
        try:
            await self.send_message(message, ONE)
        except Elaborate as error:
            self.met.append(f"{error!r} {error.code}")
        return Answer(self.met[-1])


# -- T4 -----------------------------------------------------------------------------------------------------------


@by_kind(autogen=NO_ANSWER, ours=Undeliverable)
async def test_a_call_to_a_type_that_nobody_has_fails_in_bounded_time(
    workers: Workers, kind: str, expected: Any
) -> None:
    caller = await workers.of(kind, Question)
    found = await outcome(caller.send_message(Question("?"), ONE), 1.0 if kind == "autogen" else 8.0)
    assert found is expected or isinstance(found, expected)


async def test_a_call_that_reached_nobody_is_in_the_log_as_undeliverable(workers: Workers) -> None:
    caller = await workers.ours(Question)
    found = await outcome(caller.send_message(Question("?"), ONE), 8.0)
    assert isinstance(found, Undeliverable) and found.recipient == "one/k"
    await caller.stop()
    events = [one async for one in workers.log.tail(follow=False)]
    assert EventType.MESSAGE_DELIVERED not in [one.type for one in events]
    [dropped] = [one for one in events if one.type is EventType.MESSAGE_DROPPED]
    assert (dropped.metadata["by"], dropped.recipient) == ("undeliverable", "one/k")


def _broken_factory() -> Adder:
    raise Refused("not made", 3)


@by_kind(autogen=NO_ANSWER, ours=Refused("not made", 3))
async def test_a_call_to_an_agent_that_can_not_be_made_fails_with_the_reason(
    workers: Workers, kind: str, expected: Any
) -> None:
    caller, worker = [await workers.of(kind) for _ in range(2)]
    await worker.register_factory("one", _broken_factory)
    found = await outcome(caller.send_message(Add(1), ONE))
    assert repr(found) == repr(expected)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(pb.Payload(data_type="Add", data=b"{", data_content_type=JSON_DATA_CONTENT_TYPE), id="no JSON"),
        pytest.param(pb.Payload(data_type="Add", data=b"[]", data_content_type=JSON_DATA_CONTENT_TYPE), id="no Add"),
    ],
)
@KINDS
async def test_a_request_that_can_not_be_read_is_answered_with_an_error(
    workers: Workers, kind: str, payload: pb.Payload
) -> None:
    caller, worker = await workers.raw(), await workers.of(kind)
    await worker.register_factory("one", Adder)
    found: Any = await caller.ask(ONE, payload)
    if kind == "autogen":
        assert found is NO_ANSWER
    else:
        assert found.error
        assert await workers.log.head("one/k") is None, "it was not delivered"


@by_kind(autogen=NO_ANSWER, ours=Exception)
async def test_an_answer_that_can_not_be_read_is_an_error_of_the_caller(
    workers: Workers, kind: str, expected: Any
) -> None:
    caller, worker = await workers.of(kind), await workers.raw()
    await worker.register("one")
    call = asyncio.create_task(outcome(caller.send_message(Add(1), ONE)))
    await worker.answer(payload=pb.Payload(data_type="Total", data=b"{", data_content_type=JSON_DATA_CONTENT_TYPE))
    found = await call
    assert found is expected or isinstance(found, expected)


class Patient(RoutedAgent):
    """Answers when the test says so."""

    def __init__(self, begun: asyncio.Event, go_on: asyncio.Event) -> None:
        super().__init__("waits")
        self.answered = 0
        self._begun, self._go_on = begun, go_on

    @rpc
    async def on_question(self, message: Question, ctx: MessageContext) -> Answer:
        if message.text != "quick":
            self._begun.set()
            await self._go_on.wait()
        self.answered += 1
        return Answer(message.text)


@by_kind(autogen=NO_ANSWER, ours=Answer("?"))
async def test_an_answer_finds_its_caller_though_the_workers_channel_broke_meanwhile(
    workers: Workers, kind: str, expected: Any
) -> None:
    cable = await workers.cable()
    caller = await workers.of(kind, Question, Answer)
    worker = await workers.of(kind, Question, Answer, address=cable.address)
    begun, go_on = asyncio.Event(), asyncio.Event()
    await worker.register_factory("one", lambda: Patient(begun, go_on))
    call = asyncio.create_task(outcome(caller.send_message(Question("?"), ONE), 1.0 if kind == "autogen" else 8.0))
    await begun.wait()
    cable.cut()
    go_on.set()
    assert await call == expected
    assert (await instance(worker, ONE)).answered == 1  # type: ignore[arg-type]


@by_kind(autogen=NO_ANSWER, ours=Answer("?"))
async def test_an_answer_finds_its_caller_though_the_callers_channel_broke_meanwhile(
    workers: Workers, kind: str, expected: Any
) -> None:
    cable = await workers.cable()
    caller = await workers.of(kind, Question, Answer, address=cable.address)
    worker = await workers.of(kind, Question, Answer)
    begun, go_on = asyncio.Event(), asyncio.Event()
    await worker.register_factory("one", lambda: Patient(begun, go_on))
    await caller.send_message(Question("quick"), ONE)  # gRPC repeats a stream that has brought nothing yet
    call = asyncio.create_task(outcome(caller.send_message(Question("?"), ONE), 1.0 if kind == "autogen" else 8.0))
    await begun.wait()
    cable.cut(mend=True)
    go_on.set()
    assert await call == expected
    assert (await instance(worker, ONE)).answered == 2  # type: ignore[arg-type]


# -- T5 -----------------------------------------------------------------------------------------------------------


@by_kind(autogen=[1, 1, 1, 1, 1], ours=[1, 2, 3, 4, 5])
async def test_one_id_is_one_instance_however_many_ask_at_once(workers: Workers, kind: str, expected: Any) -> None:
    made: list[Adder] = []
    all_here = asyncio.Event()

    async def slowly() -> Adder:
        agent = Adder()
        made.append(agent)
        if len(made) == 5:
            all_here.set()
        await asyncio.wait([asyncio.ensure_future(all_here.wait())], timeout=0.1)
        return agent

    caller, worker = [await workers.of(kind) for _ in range(2)]
    await worker.register_factory("one", slowly)
    answers = await asyncio.gather(*(outcome(caller.send_message(Add(1), ONE), 5) for _ in range(5)))
    assert sorted(answer.number for answer in answers) == expected
    assert len(made) == (5 if kind == "autogen" else 1)
    all_here.set()


# -- T8 -----------------------------------------------------------------------------------------------------------


@by_kind(autogen=[[], [], []], ours=[["now"], ["now"], ["now"]])
async def test_one_recipient_that_can_not_be_made_keeps_no_other_from_a_publication(
    workers: Workers, kind: str, expected: Any
) -> None:
    caller, worker = [await workers.of(kind, Question, Answer) for _ in range(2)]
    for name, factory in {"bad": _broken_factory, "a": Listener, "b": Listener, "c": Listener}.items():
        await worker.register_factory(name, factory)
        await worker.add_subscription(TypeSubscription("t", name))
    await caller.publish_message(Notice("now"), topic())
    for name in "abc":  # what the host was given first it has passed on first
        await caller.send_message(Question(""), AgentId(name, "k"))
    heard = [(await instance(worker, AgentId(name, "k"))).heard for name in "abc"]  # type: ignore[arg-type]
    assert heard == expected


async def test_a_publication_to_an_agent_that_can_not_be_made_is_given_up_in_bounded_time(workers: Workers) -> None:
    caller, worker = [await workers.ours(patience=0.5) for _ in range(2)]
    made: list[None] = []

    def broken() -> Adder:
        made.append(None)
        raise Refused("not made", 3)

    await worker.register_factory("bad", broken)
    await worker.add_subscription(TypeSubscription("t", "bad"))
    await caller.publish_message(Notice("now"), topic())

    async def dropped() -> list[Any]:
        events = [one async for one in workers.log.tail(follow=False)]
        return [one for one in events if one.type is EventType.MESSAGE_DROPPED]

    [event] = await eventually(dropped, "it is given up")
    assert (event.metadata["by"], event.metadata["lacking"]) == ("undeliverable", ["bad/k"])
    assert "can't deliver it" in event.metadata["error"]
    assert _outstanding(caller) == 0 and len(made) > 2


@KINDS
async def test_one_handler_that_raises_keeps_no_other_from_a_publication(workers: Workers, kind: str) -> None:
    caller, worker = [await workers.of(kind, Question, Answer) for _ in range(2)]
    await worker.register_factory("a", Listener)
    await worker.register_factory("b", Adder)
    for name in "ab":
        await worker.add_subscription(TypeSubscription("t", name))
    await caller.publish_message(Notice("raise"), topic())
    await caller.send_message(Question(""), AgentId("a", "k"))
    assert (await instance(worker, AgentId("a", "k"))).heard == ["raise"]  # type: ignore[arg-type]
    if kind == "ours":  # B6: and the error is in the log
        [ended] = await eventually(
            lambda: stream(workers.log, AgentId("b", "k"), EventType.DELIVERY_COMPLETED), "it is recorded"
        )
        assert (ended.outcome, ended.message_type) == ("raised", "tests.integration.drop_in:Refused")


# -- T9 -----------------------------------------------------------------------------------------------------------


@by_kind(autogen=NO_ANSWER, ours=Total(1))
async def test_calls_work_again_after_the_host_was_restarted(workers: Workers, kind: str, expected: Any) -> None:
    caller, worker = [await workers.of(kind) for _ in range(2)]
    await worker.register_factory("one", Adder)
    await workers.host.restart()
    assert await outcome(caller.send_message(Add(1), ONE), 1.0 if kind == "autogen" else 8.0) == expected


@KINDS
async def test_publications_reach_their_subscribers_again_after_the_host_was_restarted(
    workers: Workers, kind: str
) -> None:
    caller, worker = [await workers.of(kind) for _ in range(2)]
    await worker.register_factory("one", Listener)
    await worker.add_subscription(TypeSubscription("t", "one"))
    await workers.host.restart()
    await caller.publish_message(Notice("now"), topic())
    if kind == "autogen":
        with pytest.raises(TimeoutError):
            await until(lambda: _present(worker, ONE), "the agent is there", timeout=0.7)
    else:
        await until(lambda: _heard(worker) == ["now"], "it is heard")


def _heard(worker: Any, agent: AgentId = ONE) -> list[Any]:
    return list(getattr(_present(worker, agent), "heard", []))


async def test_what_is_on_its_way_as_the_host_restarts_arrives_once(workers: Workers) -> None:
    caller, worker = [await workers.ours(Question, Answer) for _ in range(2)]
    begun, go_on = asyncio.Event(), asyncio.Event()
    await worker.register_factory("one", lambda: Patient(begun, go_on))
    await worker.register_factory("two", Listener)
    await worker.register_factory("three", Adder)
    await worker.add_subscription(TypeSubscription("t", "two"))
    call = asyncio.create_task(outcome(caller.send_message(Question("?"), ONE), 10.0))
    await begun.wait()
    await workers.host.stop()
    more = [asyncio.create_task(outcome(caller.send_message(Add(1), AgentId("three", "k")), 10.0)) for _ in range(20)]
    published = [asyncio.create_task(caller.publish_message(Notice(str(n)), topic())) for n in range(20)]
    await asyncio.gather(*published)
    workers.host.start()
    go_on.set()
    assert await call == Answer("?")
    assert sorted(answer.number for answer in await asyncio.gather(*more)) == list(range(1, 21))
    await until(lambda: len(_heard(worker, AgentId("two", "k"))) == 20, "all are heard")
    assert len({await outcome(caller.send_message(Question("quick"), ONE)) is NO_ANSWER}) == 1
    await caller.stop()
    assert sorted(_heard(worker, AgentId("two", "k")), key=int) == [str(n) for n in range(20)]
    for agent, count in ((ONE, 2), (AgentId("two", "k"), 20), (AgentId("three", "k"), 20)):
        assert len(await delivered(workers.log, agent)) == count


async def test_a_call_while_the_host_is_away_ends_in_bounded_time(workers: Workers) -> None:
    """On AutoGen's worker it does not: test_calls_work_again_after_the_host_was_restarted."""
    caller = await workers.ours(stop_timeout=0.1)
    await workers.host.stop()
    found = await outcome(caller.send_message(Add(1), ONE), 10.0)
    assert isinstance(found, Undeliverable)


@pytest.mark.parametrize("way", ["call", "publication"])
@pytest.mark.parametrize("first", ["the message itself", "the message sent again", "the message sent again twice"])
async def test_a_message_that_comes_by_both_ways_at_once_is_delivered_once(
    workers: Workers, way: str, first: str
) -> None:
    """As when a worker stood still for some seconds: then both lie before it, in either order."""
    caller, worker = [await workers.ours(Question, Answer) for _ in range(2)]
    await worker.register_factory("one", Adder)
    await worker.add_subscription(TypeSubscription("t", "one"))
    await caller.send_message(Add(0), ONE)  # it lives
    held: list[Any] = []
    receiving, received = worker._receiving, worker._traffic.received
    worker._connection._streams._on_message = held.append  # the worker stands still  # type: ignore[union-attr]
    if way == "call":
        call = asyncio.create_task(caller.send_message(Add(1), ONE))
    else:
        call = asyncio.create_task(caller.publish_message(Notice("now"), topic()))
    await until(lambda: held, "the message lies before it")
    [sent] = await until(lambda: list(caller._traffic.outstanding._sent.values()), "it is outstanding")
    again = [caller._traffic._send_again(sent, ONE) for _ in range(2 if "twice" in first else 1)]
    if first == "the message itself":
        received(held[0])
        await asyncio.gather(*again)
    else:
        answered = asyncio.gather(*again)
        await until(
            lambda: (sent.origin.cause, ONE) in receiving._arrivals._held or answered.done(), "the other way is in hand"
        )
        received(held[0])
        await answered
    await call
    await worker.stop()
    assert len(await delivered(workers.log, ONE)) == 2


# -- T10 ----------------------------------------------------------------------------------------------------------

SIZES = (1_000_000, 3_900_000, 4_200_000, 20_000_000)
LIMIT = 4.19  # of gRPC, unless it is told otherwise: 4 MiB


async def test_autogens_stream_does_not_survive_a_message_that_is_too_large(workers: Workers) -> None:
    caller, worker = [await workers.plain(Blob) for _ in range(2)]
    await worker.register_factory("one", Echo)
    assert size_of(await outcome(caller.send_message(Blob("x" * 3_900_000), ONE), 5)) == 3_900_000
    assert await outcome(caller.send_message(Blob("x" * 4_200_000), ONE)) is NO_ANSWER
    assert await outcome(caller.send_message(Blob("x"), ONE)) is NO_ANSWER


def _fits(found: Any, size: int, raised: bool) -> bool:
    """Whether it arrived where it could, and was refused by name where not."""
    if size < LIMIT * MEGABYTE or raised:
        return bool(size_of(found) == size)
    return isinstance(found, MessageTooLarge) and found.size > size > found.limit


@pytest.fixture(params=[False, True], ids=["default limits", "raised limits"])
async def raised(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def _options(raised: bool) -> dict[str, Any]:
    return {"extra_grpc_config": RAISED, "patience": 30.0} if raised else {}  # what is large takes its time


async def test_a_call_and_its_answer_arrive_or_are_refused_by_their_size(dsn: str, raised: bool) -> None:
    async with working(dsn, *(RAISED if raised else [])) as workers:
        caller, worker = [await workers.ours(Blob, **_options(raised)) for _ in range(2)]
        await worker.register_factory("one", Echo)
        for size in SIZES:
            agent = AgentId("one", str(size))
            assert _fits(await outcome(caller.send_message(Blob("x" * size), agent), 10), size, raised)
            assert _fits(await outcome(caller.send_message(Add(size), agent), 10), size, raised)
            assert await caller.send_message(Add(1), agent) == Blob("x")


async def test_a_publication_arrives_or_is_refused_by_its_size(dsn: str, raised: bool) -> None:
    async with working(dsn, *(RAISED if raised else [])) as workers:
        caller, worker = [await workers.ours(Blob, **_options(raised)) for _ in range(2)]
        await worker.register_factory("one", Listener)
        await worker.add_subscription(TypeSubscription("t", "one"))
        for size in SIZES:
            agent, where = AgentId("one", str(size)), topic(source=str(size))
            refused = await outcome(caller.publish_message(Blob("x" * size), where), 10)
            await caller.publish_message(Notice("small"), where)
            await until(lambda agent=agent: "small" in _heard(worker, agent), "the small one arrives")  # type: ignore[misc]
            if refused is None:
                await until(lambda agent=agent, size=size: size in _heard(worker, agent), "the large one arrives")  # type: ignore[misc]
            assert _fits(refused or Blob("x" * size), size, raised)


class Heavy(RoutedAgent):
    """Has a state as large as it is told."""

    def __init__(self) -> None:
        super().__init__("heavy")
        self.weight = 0

    @rpc
    async def on_add(self, message: Add, ctx: MessageContext) -> None:
        self.weight = message.number

    async def save_state(self) -> dict[str, Any]:
        return {"fat": "x" * self.weight}

    async def load_state(self, state: Any) -> None:
        self.weight = len(state["fat"])


async def test_a_large_state_is_saved_and_loaded_from_afar_or_refused_by_its_size(dsn: str, raised: bool) -> None:
    size = 20 * MEGABYTE
    async with working(dsn, *(RAISED if raised else [])) as workers:
        other, worker = [await workers.ours(**_options(raised)) for _ in range(2)]
        await worker.register_factory("one", Heavy)
        await other.send_message(Add(size), ONE)
        state = await outcome(other.agent_save_state(ONE), 40)
        if raised:
            assert len(state["state"]["fat"]) == size
            await other.send_message(Add(1), ONE)
            await other.agent_load_state(ONE, state)
            assert (await instance(worker, ONE)).weight == size  # type: ignore[arg-type]
        else:
            assert isinstance(state, MessageTooLarge) and state.size > size
            refused = await outcome(other.agent_load_state(ONE, {"fat": "x" * size}), 10)
            assert isinstance(refused, MessageTooLarge) and refused.size > size
        await other.send_message(Add(3), ONE)
        assert (await other.agent_save_state(ONE))["state"] == {"fat": "xxx"}


async def test_a_worker_that_takes_less_than_the_others_send_is_not_lost(dsn: str) -> None:
    async with working(dsn, *RAISED) as workers:
        caller, worker = await workers.ours(Blob, extra_grpc_config=RAISED), await workers.ours(Blob)
        await worker.register_factory("one", Echo)
        found = await outcome(caller.send_message(Blob("x" * 5 * MEGABYTE), ONE), 10)
        assert isinstance(found, (MessageTooLarge, Undeliverable)), found
        assert await outcome(caller.send_message(Blob("x"), ONE), 5) == Blob("x")


class ItemWhoseNameTravelsWithItWhereItMustComeBackAsExactlyWhatItIs(BaseModel):
    """So that the exact form of many is much larger than AutoGen's."""

    number: int


class Items(BaseModel):
    items: list[ItemWhoseNameTravelsWithItWhereItMustComeBackAsExactlyWhatItIs]


@pytest.mark.parametrize("size", [4 * 1024 * 1024 - 1100, 4 * 1024 * 1024 - 700])
async def test_a_message_near_the_limit_that_was_lost_is_sent_again(workers: Workers, size: int) -> None:
    """By the control channel, where it takes a few bytes more."""
    cable = await workers.cable()
    caller, worker = await workers.ours(Blob), await workers.ours(Blob, address=cable.address)
    await worker.register_factory("one", Echo)
    cable.cut()
    call = asyncio.create_task(outcome(caller.send_message(Blob("x" * size), ONE), 10))
    await until(lambda: _outstanding(caller) or call.done(), "it is on its way")
    cable.mend()
    found = await call
    assert size_of(found) == size or isinstance(found, MessageTooLarge)


async def test_a_message_that_can_not_be_sent_again_for_its_size_keeps_no_other_waiting(workers: Workers) -> None:
    """Its exact form is too large, and was not needed at first."""
    cable = await workers.cable()
    caller, worker = await workers.ours(Items, patience=2.0), await workers.ours(Items, address=cable.address)
    await worker.register_factory("one", Echo)
    cable.cut()
    item = ItemWhoseNameTravelsWithItWhereItMustComeBackAsExactlyWhatItIs
    items = Items(items=[item(number=number) for number in range(40_000)])
    large = asyncio.create_task(outcome(caller.send_message(items, ONE), 10))
    small = asyncio.create_task(outcome(caller.send_message(Blob("y"), ONE), 10))
    await until(lambda: _outstanding(caller) == 2, "both are on their way")
    cable.mend()
    assert await small == Blob("y")
    found = await large
    assert isinstance(found, Undeliverable) and "grpc.max_send_message_length" in found.problem


def _outstanding(worker: Any) -> int:
    return len(worker._traffic.outstanding._sent)


# -- T11 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["token", "task"])
@by_kind(autogen=False, ours=True)
async def test_a_cancellation_reaches_the_far_handler(workers: Workers, kind: str, expected: bool, way: str) -> None:
    caller, worker = [await workers.of(kind, Work, Question, Answer) for _ in range(2)]
    begun, token = asyncio.Event(), CancellationToken()
    await worker.register_factory("one", lambda: Waiter(begun))
    await worker.register_factory("two", Listener)
    call = asyncio.create_task(caller.send_message(Work(), ONE, cancellation_token=token))
    await begun.wait()
    waiter: Any = await instance(worker, ONE)  # type: ignore[arg-type]
    _ = token.cancel() if way == "token" else call.cancel()
    if expected:
        await until(lambda: waiter.cancelled, "the handler is cancelled")
    await caller.send_message(Question("after it"), AgentId("two", "k"))
    assert waiter.cancelled is expected
    assert call.done() is (expected or way == "task")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    if expected:
        [ended] = await stream(workers.log, ONE, EventType.DELIVERY_COMPLETED)
        assert ended.outcome == "cancelled"


async def test_a_caller_that_cancels_does_not_wait_for_a_handler_that_does_not_listen(workers: Workers) -> None:
    """As in process, where the token is linked to the caller's future."""
    caller, worker = [await workers.ours(Question, Answer, patience=30.0) for _ in range(2)]
    begun, go_on, token = asyncio.Event(), asyncio.Event(), CancellationToken()
    await worker.register_factory("one", lambda: Patient(begun, go_on))
    call = asyncio.create_task(caller.send_message(Question(""), ONE, cancellation_token=token))
    await begun.wait()
    token.cancel()
    await asyncio.wait([call], timeout=5)
    agent: Any = await instance(worker, ONE)  # type: ignore[arg-type]
    answered = agent.answered
    go_on.set()
    assert (call.cancelled(), answered) == (True, 0)
    await until(lambda: agent.answered, "the handler ends")


async def test_a_cancellation_that_overtakes_its_message_is_not_lost(workers: Workers) -> None:
    """The control channel is another stream than the data channel."""
    caller, worker = [await workers.ours(Work, Question, Answer) for _ in range(2)]
    begun, token = asyncio.Event(), CancellationToken()
    await worker.register_factory("one", lambda: Waiter(begun))
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller.send_message(Work(), ONE, cancellation_token=token)

    async def ended() -> list[Any]:
        return await stream(workers.log, ONE, EventType.DELIVERY_COMPLETED)

    [completed] = await eventually(ended, "the handler has ended")
    assert completed.outcome == "cancelled"


async def test_a_cancellation_goes_on_from_agent_to_agent(workers: Workers) -> None:
    caller, between, worker = [await workers.ours(Work) for _ in range(3)]
    begun, token = asyncio.Event(), CancellationToken()
    await worker.register_factory("one", lambda: Waiter(begun))
    await between.register_factory("relay", Relay)
    call = asyncio.create_task(caller.send_message(Work(), AgentId("relay", "k"), cancellation_token=token))
    await begun.wait()
    token.cancel()
    waiter: Any = await instance(worker, ONE)  # type: ignore[arg-type]
    await until(lambda: waiter.cancelled, "the last handler is cancelled")
    with pytest.raises(asyncio.CancelledError):
        await call


class Relay(RoutedAgent):
    """Passes work on."""

    def __init__(self) -> None:
        super().__init__("relays")

    @rpc
    async def on_work(self, message: Work, ctx: MessageContext) -> Total:
        return await self.send_message(message, ONE, cancellation_token=ctx.cancellation_token)


# -- T12 ----------------------------------------------------------------------------------------------------------


@by_kind(autogen=[AgentId("unknown", "unknown")], ours=[None])
async def test_a_publication_of_nobody_has_no_sender(workers: Workers, kind: str, expected: Any) -> None:
    caller, worker = [await workers.of(kind) for _ in range(2)]
    await worker.register_factory("one", Listener)
    await worker.add_subscription(TypeSubscription("t", "one"))
    await caller.publish_message(Notice("now"), topic())
    await until(lambda: _heard(worker), "it is heard")
    assert _present(worker, ONE).senders == expected


# -- T13 ----------------------------------------------------------------------------------------------------------


@KINDS
async def test_a_type_that_the_host_refused_is_not_registered_here_and_can_be_later(
    workers: Workers, kind: str
) -> None:
    first, second = [await workers.of(kind) for _ in range(2)]
    await first.register_factory("one", Adder)
    refused = await outcome(second.register_factory("one", Adder), 5)
    here = await outcome(second.try_get_underlying_agent_instance(ONE, Adder))
    await first.send_message(Add(1), ONE)
    await first.stop()
    again = await outcome(second.register_factory("one", Adder), 5)
    if kind == "autogen":
        assert (type(refused), type(here), type(again)) == (grpc.aio.AioRpcError, Adder, ValueError)
    else:
        assert isinstance(refused, AgentTypeTaken) and refused.agent_type == "one"
        assert (type(here), again) == (UnknownAgent, AgentType("one"))
        assert await second.send_message(Add(1), ONE) == Total(2)


async def test_an_instance_that_the_host_refused_is_not_registered_here(workers: Workers) -> None:
    first, second = [await workers.ours() for _ in range(2)]
    await first.register_factory("one", Adder)
    with pytest.raises(AgentTypeTaken):
        await second.register_agent_instance(Adder(), ONE)
    assert await outcome(second.send_message(Add(1), ONE), 5) == Total(1)
    await first.stop()
    agent = Adder()
    await second.register_agent_instance(agent, AgentId("one", "other"))
    assert await second.send_message(Add(1), AgentId("one", "other")) == Total(1)
    assert agent.total == 1


# -- T15 ----------------------------------------------------------------------------------------------------------

FORMATS = pytest.mark.parametrize("payload_format", [JSON_DATA_CONTENT_TYPE, PROTOBUF_DATA_CONTENT_TYPE])


@FORMATS
@KINDS
async def test_a_protobuf_message_goes_by_call_in_either_format(
    workers: Workers, kind: str, payload_format: str
) -> None:
    options = {"payload_serialization_format": payload_format}
    caller, worker = [await workers.of(kind, StringValue, **options) for _ in range(2)]
    await worker.register_factory("one", Echo)
    found = await outcome(caller.send_message(StringValue(value="é"), ONE))
    if kind == "autogen":
        assert isinstance(found, ValueError) and "Unknown type" in str(found)
    else:
        assert found == StringValue(value="é")
        workers.log.register_types(StringValue)
        assert await delivered(workers.log, ONE) == [StringValue(value="é")]


@FORMATS
@KINDS
async def test_a_protobuf_message_goes_by_publication_in_either_format(
    workers: Workers, kind: str, payload_format: str
) -> None:
    options = {"payload_serialization_format": payload_format}
    caller, worker = [await workers.of(kind, StringValue, **options) for _ in range(2)]
    await worker.register_factory("one", Listener)
    await worker.add_subscription(TypeSubscription("t", "one"))
    refused = await outcome(caller.publish_message(StringValue(value="é"), topic()))
    if kind == "autogen" and payload_format == JSON_DATA_CONTENT_TYPE:
        assert isinstance(refused, ValueError)
    else:
        await until(lambda: _heard(worker) == [StringValue(value="é")], "it is heard")


@KINDS
async def test_plain_messages_go_by_publication_where_protobuf_is_the_format(workers: Workers, kind: str) -> None:
    options = {"payload_serialization_format": PROTOBUF_DATA_CONTENT_TYPE}
    caller, worker = [await workers.of(kind, **options) for _ in range(2)]
    await worker.register_factory("one", Listener)
    await worker.add_subscription(TypeSubscription("t", "one"))
    refused = await outcome(caller.publish_message(Notice("now"), topic()))
    if kind == "autogen":
        assert isinstance(refused, ValueError)
    else:
        await until(lambda: _heard(worker) == ["now"], "it is heard")


# -- T16 ----------------------------------------------------------------------------------------------------------


@KINDS
async def test_a_message_of_a_type_unknown_to_the_receiver_arrives_as_unknown_and_is_recorded_whole(
    workers: Workers, kind: str
) -> None:
    """B9: as from a client in another language."""
    caller, worker = await workers.raw(), await workers.of(kind)
    await worker.register_factory("one", Listener)
    await worker.add_subscription(TypeSubscription("t", "one"))
    inside = AnyMessage(type_url="type.googleapis.com/elsewhere.Event", value=b"\x0a\x03\xff\x00\xfe")
    text = cloudevent_pb2.CloudEvent.CloudEventAttributeValue
    attributes = {
        "datacontenttype": text(ce_string=PROTOBUF_DATA_CONTENT_TYPE),
        "dataschema": text(ce_string="elsewhere.Event"),
    }
    sent = cloudevent_pb2.CloudEvent(
        id="7", spec_version="1.0", type="t", source="k", attributes=attributes, proto_data=inside
    )
    await caller.send(cloudEvent=sent)
    unknown = UnknownPayload("elsewhere.Event", PROTOBUF_DATA_CONTENT_TYPE, inside.SerializeToString())
    await until(lambda: _heard(worker) == [unknown], "it is heard")
    if kind == "ours":
        assert await eventually(lambda: delivered(workers.log, ONE), "it is recorded") == [unknown]
        assert (await worker.view(ONE, type=Listener)).heard == [unknown]  # type: ignore[attr-defined]


@dataclass
class Elsewhere:
    """No module that the receiver knows has it."""

    parts: tuple[int, str]


async def test_a_message_of_ours_of_a_type_unknown_to_the_receiver_is_recorded_whole(workers: Workers) -> None:
    caller, worker = [await workers.ours() for _ in range(2)]
    await worker.register_factory("one", Listener)
    await worker.add_subscription(TypeSubscription("t", "one"))
    await caller.publish_message(Elsewhere((1, "é")), topic())
    [heard] = await until(lambda: _heard(worker), "it is heard")
    assert isinstance(heard, UnknownPayload)
    assert json.loads(heard.payload)["parts"] == {"$t": "tuple", "v": [1, "é"]}
    assert await eventually(lambda: delivered(workers.log, ONE), "it is recorded") == [heard]


# -- T6c ----------------------------------------------------------------------------------------------------------


@KINDS
async def test_what_was_published_before_a_stop_arrives(workers: Workers, kind: str) -> None:
    """B12: a thousand publications, then `stop`."""
    caller, worker = [await workers.of(kind, Question, Answer) for _ in range(2)]
    await worker.register_factory("one", Listener)
    await worker.add_subscription(TypeSubscription("t", "one"))
    await asyncio.gather(*(caller.publish_message(Notice(str(n)), topic()) for n in range(1000)))
    await caller.stop()
    other = await workers.of(kind, Question, Answer)
    await other.send_message(Question(""), ONE)  # what the host was given first it has passed on first
    heard = _heard(worker)
    if kind == "autogen":
        assert len(heard) < 1000
    else:
        assert sorted(heard, key=int) == [str(n) for n in range(1000)]
        assert len(await delivered(workers.log, ONE)) == 1001


@KINDS
async def test_what_an_agent_published_before_a_stop_arrives(workers: Workers, kind: str) -> None:
    caller, worker = [await workers.of(kind, Question, Answer, Work) for _ in range(2)]
    await worker.register_factory("one", Listener)
    await worker.add_subscription(TypeSubscription("t", "one"))
    await caller.register_factory("many", Many)
    await caller.send_message(Add(100), AgentId("many", "k"))
    await caller.stop()
    other = await workers.of(kind, Question, Answer)
    await other.send_message(Question(""), ONE)
    if kind == "ours":
        assert len(_heard(worker)) == 100


class Many(RoutedAgent):
    """Publishes many, and answers."""

    def __init__(self) -> None:
        super().__init__("publishes")

    @rpc
    async def on_add(self, message: Add, ctx: MessageContext) -> Total:
        for number in range(message.number):
            await self.publish_message(Notice(str(number)), topic())
        return Total(message.number)


async def test_a_stop_ends_in_bounded_time_though_nobody_takes_what_was_published(workers: Workers) -> None:
    caller = await workers.ours(patience=60.0, stop_timeout=0.3)
    worker = await workers.ours()
    cable = await workers.cable()
    gone = await workers.ours(address=cable.address)
    await gone.register_factory("one", Listener)
    await worker.add_subscription(TypeSubscription("t", "one"))
    cable.cut()
    await caller.publish_message(Notice("lost"), topic())
    await asyncio.wait_for(caller.stop(), 5)
    gone_events = [one async for one in workers.log.tail(follow=False)]
    assert EventType.MESSAGE_DELIVERED not in [one.type for one in gone_events]
    assert [workers.log.message(one) for one in gone_events if one.type is EventType.MESSAGE_SUBMITTED] == [
        Notice("lost")
    ]


# -- T42 ----------------------------------------------------------------------------------------------------------


async def _saves_and_loads(runtime: Any) -> Any:
    """Code as people write it for the in-process runtime."""
    await runtime.send_message(Add(1), ONE)
    whole = json.loads(json.dumps(await runtime.save_state()))
    await runtime.send_message(Add(10), ONE)
    one = json.loads(json.dumps(await runtime.agent_save_state(ONE)))
    await runtime.load_state(whole)
    found = [await runtime.send_message(Add(1), ONE)]
    await runtime.agent_load_state(ONE, one)
    found += [await runtime.send_message(Add(1), ONE)]
    await runtime.agent_load_state(AgentId("one", "other"), one)
    found += [await runtime.send_message(Add(1), AgentId("one", "other"))]
    metadata = await runtime.agent_metadata(ONE)
    return [*(total.number for total in found), metadata["type"], metadata["key"], metadata["description"]]


@pytest.mark.parametrize("where", ["in process", "here", "elsewhere"])
async def test_code_that_saves_and_loads_in_process_runs_unchanged_on_workers(workers: Workers, where: str) -> None:
    runtime: Any
    if where == "in process":
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(workers.log)])
        await runtime.register_factory("one", Adder)
        runtime.start()
    else:
        runtime = await workers.ours()
        worker = runtime if where == "here" else await workers.ours()
        await worker.register_factory("one", Adder)
    assert await _saves_and_loads(runtime) == [2, 12, 12, "one", "k", "adds up"]
    await runtime.stop()


async def test_autogens_worker_has_none_of_the_state_methods(workers: Workers) -> None:
    worker = await workers.plain()
    await worker.register_factory("one", Adder)
    asked = [
        worker.save_state(),
        worker.load_state({}),
        worker.agent_save_state(ONE),
        worker.agent_load_state(ONE, {}),
        worker.agent_metadata(ONE),
    ]
    assert [type(await outcome(one)) for one in asked] == [NotImplementedError] * 5


@pytest.mark.parametrize("way", ["to a worker", "from a worker"])
async def test_a_state_of_one_runtime_goes_into_the_other(workers: Workers, way: str) -> None:
    in_process = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(workers.log)])
    await in_process.register_factory("in", Adder)
    in_process.start()
    other, worker = [await workers.ours() for _ in range(2)]
    await worker.register_factory("out", Adder)
    inside, outside = AgentId("in", "k"), AgentId("out", "k")
    source, source_agent, sink, sink_agent = in_process, inside, other, outside
    if way == "from a worker":
        source, source_agent, sink, sink_agent = other, outside, in_process, inside  # type: ignore[assignment]
    await source.send_message(Add(41), source_agent)
    await sink.agent_load_state(sink_agent, await source.agent_save_state(source_agent))
    assert await sink.send_message(Add(1), sink_agent) == Total(42)
    await in_process.stop()


async def test_a_state_of_autogens_own_is_loaded_from_afar(workers: Workers) -> None:
    other, worker = [await workers.ours() for _ in range(2)]
    await worker.register_factory("one", Heavy)
    await other.agent_load_state(ONE, {"fat": "xxxx"})
    assert (await other.agent_save_state(ONE))["state"] == {"fat": "xxxx"}
    assert (await instance(worker, ONE)).weight == 4  # type: ignore[arg-type]


async def test_an_error_in_saving_or_loading_comes_from_afar_as_what_it_is(workers: Workers) -> None:
    class Broken(Heavy):
        async def save_state(self) -> dict[str, Any]:
            raise Refused("not saved", 1)

        async def load_state(self, state: Any) -> None:
            raise Refused("not loaded", 2)

    other, worker = [await workers.ours() for _ in range(2)]
    await worker.register_factory("one", Broken)
    await other.send_message(Add(1), ONE)
    for asked in (other.agent_save_state(ONE), other.agent_load_state(ONE, {"fat": ""})):
        found = await outcome(asked, 5)
        here = await outcome(worker.agent_save_state(ONE), 5)
        assert type(found) in (Refused, type(here)), found


async def test_an_agent_is_restored_and_viewed_from_afar(workers: Workers) -> None:
    other, worker = [await workers.ours() for _ in range(2)]
    await worker.register_factory("one", Adder)
    for number in (1, 2, 3):
        await other.send_message(Add(number), ONE)
    second = [one.version for one in await stream(workers.log, ONE, EventType.DELIVERY_COMPLETED)][1]
    view = await other.view(ONE, version=second, factory=Adder, type=Adder)
    assert view.total == 3
    with pytest.raises(UnknownAgent):
        await other.view(ONE, version=second)
    report = await other.restore(ONE, version=second)
    assert (report.agent, report.version, report.point) == (ONE, second, f"version {second}")
    assert await other.send_message(Add(10), ONE) == Total(13)
    with pytest.raises(EventLogError) as refused:
        await other.restore(ONE, version=1000)
    with pytest.raises(type(refused.value), match=re.escape(str(refused.value))):
        await worker.restore(ONE, version=1000)


async def test_the_agents_of_a_stopped_worker_are_known_from_the_log_alone(workers: Workers) -> None:
    other, worker = [await workers.ours(patience=0.5) for _ in range(2)]
    await worker.register_factory("one", Adder)
    for number in (1, 2, 3):
        await other.send_message(Add(number), ONE)
    ends = [one.version for one in await stream(workers.log, ONE, EventType.DELIVERY_COMPLETED)]
    await worker.stop()
    state = await other.agent_save_state(ONE)
    assert (state["stream"], state["version"] >= ends[-1]) == ("one/k", True)
    assert (await other.save_state()) == {"one/k": state}
    metadata = await other.agent_metadata(ONE)
    assert (metadata["type"], metadata["key"]) == ("one", "k")
    assert (await other.view(ONE, factory=Adder, type=Adder)).total == 6
    await other.restore(ONE, version=ends[0])
    assert (await other.view(ONE, factory=Adder, type=Adder)).total == 1
    await other.agent_load_state(ONE, state)
    with pytest.raises(WorkerUnreachable, match="own past"):
        await other.agent_load_state(ONE, {"plain": 1})
    successor = await workers.ours()
    await successor.register_factory("one", Adder)
    assert await other.send_message(Add(10), ONE) == Total(16)


async def test_a_question_about_an_agent_that_nobody_knows_is_refused(workers: Workers) -> None:
    other = await workers.ours()
    for found in await _all_asked(other):
        assert isinstance(found, (UnknownAgent, UnknownStream)), found
    assert await workers.log.head("one/k") is None
    with pytest.raises(UnknownAgent):
        await other.view(ONE)


async def _all_asked(worker: Any) -> list[Any]:
    asked = [
        worker.agent_save_state(ONE),
        worker.agent_load_state(ONE, {"plain": 1}),
        worker.agent_metadata(ONE),
        worker.restore(ONE, version=1),
    ]
    return await asyncio.gather(*(outcome(one, 8) for one in asked))


async def test_a_question_that_the_owner_does_not_answer_fails_in_bounded_time(workers: Workers) -> None:
    cable = await workers.cable()
    other, worker = await workers.ours(), await workers.ours(address=cable.address)
    await worker.register_factory("one", Adder)
    await other.send_message(Add(1), ONE)
    cable.cut()
    for found in await _all_asked(other):
        assert isinstance(found, WorkerUnreachable) and found.agent == "one/k", found


async def test_a_question_whose_answerer_dies_meanwhile_fails_in_bounded_time(workers: Workers) -> None:
    class Slow(Heavy):
        async def save_state(self) -> dict[str, Any]:
            asked.set()
            await asyncio.get_running_loop().create_future()
            return {}

    asked, cable = asyncio.Event(), await workers.cable()
    other = await workers.ours(patience=30.0)
    worker = await workers.ours(address=cable.address)
    await worker.register_factory("one", Slow)
    await other.send_message(Add(1), ONE)
    question = asyncio.create_task(outcome(other.agent_save_state(ONE), 10))
    await asked.wait()
    for _ in range(10):  # the asker has looked once whether the owner lives by then
        await workers.log.workers()
    await workers.kill(worker, cable)
    found = await question
    assert isinstance(found, WorkerUnreachable) and "died" in found.problem, found
