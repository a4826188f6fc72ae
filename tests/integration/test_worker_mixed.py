"""Workers of AutoGen's own and ours at one host, what passes between them, and the rest that a worker is used for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import grpc
import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import StructuredMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import (
    AgentId,
    AgentRuntime,
    AgentType,
    ClosureAgent,
    ClosureContext,
    DefaultSubscription,
    DefaultTopicId,
    FunctionCall,
    Image,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    TypeSubscription,
    message_handler,
    try_get_known_serializers_for_type,
)
from autogen_ext.runtimes.grpc import GrpcWorkerAgentRuntimeHostServicer
from autogen_ext.runtimes.grpc.protos import agent_worker_pb2_grpc
from pydantic import BaseModel

from autogen_eventlog import EventLog, EventLogHandler, EventType
from autogen_eventlog.distributed import EventSourcedGrpcWorkerAgentRuntime
from autogen_eventlog.errors import HostUnavailable, Undeliverable, UnknownAgent
from tests.integration.drop_in import Add, Adder, Notice, Total, everything, instance, stream, topic
from tests.integration.test_drop_in_teams import Judge, Verdict, add, calls, model, said
from tests.integration.workers import Answer, Echo, Listener, Question, Workers, outcome, until, workers

__all__ = ["workers"]

ONE, EAR = AgentId("one", "k"), AgentId("ear", "k")


# -- AutoGen's worker and ours ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("from_kind", "to_kind"), [("autogen", "ours"), ("ours", "autogen")])
async def test_workers_of_either_kind_call_each_other(workers: Workers, from_kind: str, to_kind: str) -> None:
    caller, worker = await workers.of(from_kind), await workers.of(to_kind)
    await worker.register_factory("one", Adder)
    assert [(await outcome(caller.send_message(Add(n), ONE), 5)) for n in (1, 2)] == [Total(1), Total(3)]
    failed = await outcome(caller.send_message(Add(-1), ONE), 5)
    assert type(failed) is Exception and "negative" in str(failed)
    if to_kind == "ours":
        assert len(await stream(workers.log, ONE, EventType.MESSAGE_DELIVERED)) == 3


@pytest.mark.parametrize(("from_kind", "to_kind"), [("autogen", "ours"), ("ours", "autogen")])
async def test_workers_of_either_kind_publish_to_each_other(workers: Workers, from_kind: str, to_kind: str) -> None:
    caller = await workers.of(from_kind, Question, Answer)
    worker = await workers.of(to_kind, Question, Answer)
    await worker.register_factory("ear", Listener)
    await worker.add_subscription(TypeSubscription("t", "ear"))
    await caller.publish_message(Notice("now"), topic())
    assert await outcome(caller.send_message(Question(""), EAR), 5) == Answer("1")
    assert (await instance(worker, EAR)).heard == ["now"]  # type: ignore[arg-type]


async def test_a_publication_to_workers_of_both_kinds_reaches_each_once(workers: Workers) -> None:
    ours, plain = [await workers.of(kind, Question, Answer) for kind in ("ours", "autogen")]
    caller = await workers.ours(Question, Answer)
    for worker, name in ((ours, "ear"), (plain, "other")):
        await worker.register_factory(name, Listener)
        await worker.add_subscription(TypeSubscription("t", name))
    await caller.publish_message(Notice("now"), topic())
    await caller.stop()  # which waits until it has arrived, as far as can be known of a worker that records nothing
    last = await workers.ours(Question, Answer)
    for name in ("ear", "other"):
        assert await outcome(last.send_message(Question(""), AgentId(name, "k")), 5) == Answer("1")


async def test_a_handler_of_autogens_worker_that_returns_nothing_is_an_error_in_bounded_time(workers: Workers) -> None:
    class Silent(RoutedAgent):
        def __init__(self) -> None:
            super().__init__("says nothing")

        async def on_unhandled_message(self, message: Any, ctx: MessageContext) -> None:
            return None

    caller, worker = await workers.ours(), await workers.plain()
    await worker.register_factory("one", Silent)
    found = await outcome(caller.send_message(Add(1), ONE), 8)
    assert isinstance(found, Exception)


class Slow(RoutedAgent):
    """Answers when the test says so."""

    def __init__(self, may_answer: asyncio.Event) -> None:
        super().__init__("slow")
        self._may_answer = may_answer

    @message_handler
    async def on_add(self, message: Add, ctx: MessageContext) -> Total:
        await self._may_answer.wait()
        return Total(message.number)


async def test_a_plain_worker_has_as_long_to_answer_as_the_caller_is_patient(workers: Workers) -> None:
    """It gives no sign of life. Infinite patience waits for as long as it takes."""
    may_answer = asyncio.Event()
    short, endless = await workers.ours(patience=1.0), await workers.ours(patience=math.inf)
    worker = await workers.plain()
    await worker.register_factory("one", lambda: Slow(may_answer))
    waiting = asyncio.create_task(endless.send_message(Add(1), ONE))
    with pytest.raises(Undeliverable, match="no event-sourced worker has its type") as refused:
        await asyncio.wait_for(short.send_message(Add(2), ONE), 10)
    assert (refused.value.recipient, refused.value.waited_seconds) == (str(ONE), 1.0)
    assert not waiting.done()
    may_answer.set()
    assert await asyncio.wait_for(waiting, 10) == Total(1)
    for refuses in (endless.agent_metadata(ONE), endless.agent_save_state(ONE)):  # which a plain worker does not hear
        assert isinstance(await outcome(refuses, 10), UnknownAgent)


# -- exactness between ours ---------------------------------------------------------------------------------------


@dataclass
class Child:
    number: int


@dataclass
class Nested:
    child: Child
    children: list[Child]
    by_name: dict[str, Child] = field(default_factory=dict[str, Child])


@dataclass
class Exact:
    parts: tuple[int, tuple[str, ...]]
    by_number: dict[int, str]
    when: datetime
    raw: bytes
    names: set[str]


class Base(BaseModel):
    a: int


class Sub(Base):
    b: int


class Box(BaseModel):
    item: Base


class Other:
    """Has another class of the short name of `drop_in.Notice`, by which AutoGen knows a type (T19)."""

    @dataclass
    class Notice:
        number: int


WHEN = datetime(2024, 2, 29, 12, 30, 1, 5, tzinfo=timezone.utc)
EXACT = [
    Exact((1, ("a", "b")), {1: "x", 2: "y"}, WHEN, b"\x00\xff", {"a"}),  # tuples, keys, times, bytes
    Nested(Child(1), [Child(2)], {"c": Child(3)}),  # nested dataclasses
    Box(item=Sub(a=1, b=2)),  # fields of a subclass
    Other.Notice(7),  # another class of the same short name
    Notice("the class of the same short name"),  # the class of the same short name
    TextMessage(content="hello", source="user", metadata={"k": "v"}),  # a text message
    StructuredMessage[Verdict](content=Verdict(good=True, why="é"), source="u"),  # a structured one
    [Child(1), (2, None)],  # a list
    {"a": {1: (2,)}},  # a dict
    "plain text",  # text
    None,  # None
    FunctionCall(id="1", name="f", arguments="{}"),  # a function call
]


def _same(found: Any, expected: Any) -> bool:
    return type(found) is type(expected) and bool(found == expected)


@pytest.mark.parametrize("way", ["call", "publication"])
async def test_what_passes_between_workers_of_ours_is_the_same_on_both_sides(workers: Workers, way: str) -> None:
    caller, worker = [await workers.ours(Question, Answer) for _ in range(2)]
    for one in (caller, worker):
        for known in (Exact, Nested, Child, Box, Base, Sub, Other.Notice, Notice, TextMessage, FunctionCall):
            one._handler.log.register_types(known)  # type: ignore[union-attr]
        one._handler.log.register_types(StructuredMessage[Verdict], Verdict)  # type: ignore[union-attr]
    await worker.register_factory("one", Anything)
    await worker.add_subscription(TypeSubscription("t", "one"))
    for number, message in enumerate(EXACT):
        agent = AgentId("one", str(number))
        if way == "call":
            found = await outcome(caller.send_message(message, agent), 5)
            assert _same(found, message), found
        else:
            await caller.publish_message(message, topic(source=str(number)))
        [seen] = await until(lambda agent=agent: _seen(worker, agent), "it is seen")  # type: ignore[misc]
        assert _same(seen, message), seen
        assert _same((await worker.view(agent, type=Anything)).seen[0], message)


class Anything(RoutedAgent):
    """Takes anything, and gives it back."""

    def __init__(self) -> None:
        super().__init__("takes anything")
        self.seen: list[Any] = []

    async def on_unhandled_message(self, message: Any, ctx: MessageContext) -> Any:
        self.seen.append(message)
        return message


def _seen(worker: Any, agent: AgentId) -> list[Any]:
    shell = worker._agents.shells.get(agent)
    live = None if shell is None else shell.incarnation
    return [] if live is None else list(live.agent.seen)


async def test_an_image_passes_between_workers_of_ours(workers: Workers) -> None:
    from PIL import Image as pictures

    caller, worker = [await workers.ours() for _ in range(2)]
    for one in (caller, worker):
        one._handler.log.register_types(Image)  # type: ignore[union-attr]
    await worker.register_factory("one", Anything)
    picture = Image(pictures.new("RGB", (3, 2), (1, 2, 3)))
    found = await outcome(caller.send_message(picture, ONE), 5)
    assert isinstance(found, Image) and found.to_base64() == picture.to_base64()


async def test_autogens_worker_loses_what_ours_keeps(workers: Workers) -> None:
    caller, worker = [await workers.plain(Box, Sub, Verdict) for _ in range(2)]
    await worker.register_factory("one", Anything)
    assert await outcome(caller.send_message(Box(item=Sub(a=1, b=2)), ONE), 5) == Box(item=Base(a=1))
    assert type(await outcome(caller.send_message(Nested(Child(1), []), ONE), 5)) is ValueError


async def test_a_plain_worker_reads_what_has_an_exact_form_beside_it(workers: Workers) -> None:
    """What AutoGen's own form loses is lost to AutoGen's worker as ever."""
    caller, worker = await workers.ours(Box), await workers.plain(Box)
    await worker.register_factory("one", Anything)
    assert await outcome(caller.send_message(Box(item=Sub(a=1, b=2)), ONE), 5) == Box(item=Base(a=1))


# -- AgentChat ----------------------------------------------------------------------------------------------------


def _answers(runtime: AgentRuntime) -> RoundRobinGroupChat:
    client = model("one", "two", "three", "four")
    return RoundRobinGroupChat([AssistantAgent("a", client), AssistantAgent("b", client)], max_turns=4, runtime=runtime)


def _tools(runtime: AgentRuntime) -> RoundRobinGroupChat:
    client = model("one", calls("add", left=2, right=3))
    members: list[Any] = [AssistantAgent("a", client), AssistantAgent("b", client, tools=[add])]
    return RoundRobinGroupChat(members, max_turns=2, runtime=runtime)


def _judges(runtime: AgentRuntime) -> RoundRobinGroupChat:
    return RoundRobinGroupChat(
        [Judge("x"), Judge("y")],
        max_turns=3,
        runtime=runtime,
        custom_message_types=[StructuredMessage[Verdict]],
    )


@pytest.mark.parametrize("build", [_answers, _tools, _judges])
async def test_a_team_comes_to_the_same_result_as_in_process(
    workers: Workers, build: Callable[[AgentRuntime], RoundRobinGroupChat]
) -> None:
    """B7: on AutoGen's worker `run` never returns (T21)."""
    in_process = SingleThreadedAgentRuntime()
    in_process.start()
    expected = said(await build(in_process).run(task="begin"))
    await in_process.stop_when_idle()
    worker = await workers.ours()
    assert said(await asyncio.wait_for(build(worker).run(task="begin"), 20)) == expected


async def test_a_team_is_run_saved_loaded_into_another_on_another_worker_and_goes_on(workers: Workers) -> None:
    first, second = [await workers.ours() for _ in range(2)]
    team = _answers(first)
    await asyncio.wait_for(team.run(task="begin"), 20)
    state = await asyncio.wait_for(team.save_state(), 20)
    await first.stop()
    client = model("five", "six", "seven", "eight")
    members: list[Any] = [AssistantAgent("a", client), AssistantAgent("b", client)]
    other = RoundRobinGroupChat(members, max_turns=4, runtime=second)
    await asyncio.wait_for(other.load_state(state), 20)
    result = await asyncio.wait_for(other.run(task="go on"), 20)
    assert [getattr(message, "content", "") for message in result.messages] == [
        "go on",
        "five",
        "six",
        "seven",
        "eight",
    ]
    texts = [message.content for message in await members[0].model_context.get_messages()]
    assert texts[:5] == ["begin", "one", "two", "three", "four"]


@pytest.mark.parametrize("awaited", [True, False])
async def test_a_state_whose_loading_was_not_awaited_is_warned_of_and_the_agent_has_its_past_all_the_same(
    workers: Workers, awaited: bool
) -> None:
    """A1."""
    caller, first = [await workers.ours() for _ in range(2)]
    await first.register_factory("one", Adder)
    assert await caller.send_message(Add(41), ONE) == Total(41)
    state = await caller.agent_save_state(ONE)
    await first.stop()
    second = await workers.ours()
    await second.register_factory("one", Adder)
    loading = second.agent_load_state(ONE, state)
    if awaited:
        await loading
        del loading
    else:
        with pytest.warns(RuntimeWarning, match="agent_load_state' was never awaited"):
            del loading
    assert await caller.send_message(Add(1), ONE) == Total(42)


async def test_a_member_that_fails_ends_the_run_with_its_error(workers: Workers) -> None:
    """D5. (That the manager then waits for this member in the next run too is AutoGen's own doing, in process as well.)"""
    worker = await workers.ours()
    fails: list[Any] = [AssistantAgent("a", model()), AssistantAgent("b", model("from b"))]
    team = RoundRobinGroupChat(fails, max_turns=1, runtime=worker)
    with pytest.raises(RuntimeError, match="No more mock responses"):
        await asyncio.wait_for(team.run(task="begin"), 20)


# -- connecting ---------------------------------------------------------------------------------------------------


def _unstarted(log: EventLog, address: str, **options: Any) -> EventSourcedGrpcWorkerAgentRuntime:
    return EventSourcedGrpcWorkerAgentRuntime(address, intervention_handlers=[EventLogHandler(log)], **options)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere.invalid:50051"])
async def test_a_host_that_can_not_be_reached_is_an_error_in_bounded_time(workers: Workers, address: str) -> None:
    worker = _unstarted(workers.log, address, connect_timeout=0.3)
    with pytest.raises(HostUnavailable) as refused:
        await asyncio.wait_for(worker.start(), 3)
    assert (refused.value.address, refused.value.waited_seconds) == (address, 0.3)


async def test_a_worker_that_was_there_before_its_host_connects_to_it(workers: Workers) -> None:
    await workers.host.stop()
    worker = _unstarted(workers.log, workers.host.address)
    starting = asyncio.create_task(worker.start())
    await asyncio.wait([starting], timeout=0.3)
    assert not starting.done()
    workers.host.start()
    await asyncio.wait_for(starting, 10)
    await worker.register_factory("one", Adder)
    assert await worker.send_message(Add(1), ONE) == Total(1)
    await worker.stop()


async def test_a_worker_that_failed_to_start_can_be_started_later(workers: Workers) -> None:
    await workers.host.stop()
    worker = _unstarted(workers.log, workers.host.address, connect_timeout=0.3)
    with pytest.raises(HostUnavailable):
        await worker.start()
    workers.host.start()
    worker._connect_timeout = 10.0
    await worker.start()
    await worker.stop()
    await worker.start()
    await worker.register_factory("one", Adder)
    assert await worker.send_message(Add(1), ONE) == Total(1)
    await worker.stop()


async def test_a_worker_that_does_not_run_says_so_as_autogens_does(workers: Workers) -> None:
    worker = _unstarted(workers.log, workers.host.address)
    with pytest.raises(ValueError, match="must be running when sending"):
        await worker.send_message(Add(1), ONE)
    with pytest.raises(ValueError, match="must be running when publishing"):
        await worker.publish_message(Notice(""), topic())
    with pytest.raises(RuntimeError, match="Host connection is not set"):
        await worker.register_factory("one", Adder)
    with pytest.raises(RuntimeError, match="not running"):
        await worker.stop()
    await worker.start()
    with pytest.raises(ValueError, match="already running"):
        await worker.start()
    await worker.stop()


async def test_a_worker_that_registers_subscribes_and_sends_at_once_loses_nothing(workers: Workers) -> None:
    """B14, thirty times."""
    caller = await workers.ours(Question, Answer)
    for number in range(30):
        worker = _unstarted(workers.log, workers.host.address)
        agent = AgentId(f"ear{number}", "k")
        await worker.start()
        await worker.register_factory(agent.type, Listener)
        await worker.add_subscription(TypeSubscription(f"t{number}", agent.type))
        await asyncio.gather(
            worker.publish_message(Notice("own"), topic(f"t{number}")),
            caller.publish_message(Notice("others"), topic(f"t{number}")),
        )
        assert type(await outcome(caller.send_message(Question(""), agent), 5)) is Answer
        assert type(await outcome(worker.send_message(Question(""), agent), 5)) is Answer
        await worker.stop()
        events = await stream(workers.log, agent, EventType.MESSAGE_DELIVERED)
        assert sorted(str(workers.log.message(one)) for one in events) == sorted(
            map(str, [Notice("own"), Notice("others"), Question(""), Question("")])
        )


# -- logs ---------------------------------------------------------------------------------------------------------

SECRET = "a payload that is nobody's business"


@pytest.mark.parametrize(("kind", "leaks"), [("autogen", True), ("ours", False)])
async def test_no_payload_is_in_the_logs_of_a_worker(
    workers: Workers, caplog: pytest.LogCaptureFixture, kind: str, leaks: bool
) -> None:
    """B15. The host is AutoGen's, in another process as a rule; here its records are left out."""
    caller, worker = [await workers.of(kind, Question, Answer) for _ in range(2)]
    await worker.register_factory("one", Echo)
    await worker.register_factory("ear", Listener)
    await worker.add_subscription(TypeSubscription("t", "ear"))
    with caplog.at_level(logging.INFO):
        await caller.send_message(Question(SECRET), AgentId("ear", "k"))
        await caller.publish_message(Notice(SECRET), topic())
        await caller.send_message(Question(SECRET), AgentId("ear", "k"))
    said = [one.getMessage() for one in caplog.records if "host_servicer" not in one.pathname]
    assert any(SECRET in text for text in said) is leaks


# -- the rest of AutoGen's interface ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["autogen", "ours"])
async def test_a_closure_agent_hears_what_is_published(workers: Workers, kind: str) -> None:
    caller, worker = [await workers.of(kind, Notice) for _ in range(2)]
    heard: list[Any] = []

    async def hear(_: ClosureContext, message: Notice, ctx: MessageContext) -> None:
        heard.append(message)

    await ClosureAgent.register_closure(worker, "closure", hear, subscriptions=lambda: [DefaultSubscription()])
    await caller.publish_message(Notice("now"), DefaultTopicId())
    await until(lambda: heard == [Notice("now")], "it is heard")


class Registered(RoutedAgent):
    """Registered by its own class, with its serializers."""

    def __init__(self) -> None:
        super().__init__("registered")
        self.total = 0

    @message_handler
    async def on_add(self, message: Add, ctx: MessageContext) -> Total:
        self.total += message.number
        return Total(self.total)


@pytest.mark.parametrize("kind", ["autogen", "ours"])
async def test_an_agent_is_registered_by_its_class_and_found_by_type(workers: Workers, kind: str) -> None:
    caller, worker = [await workers.of(kind) for _ in range(2)]
    assert await Registered.register(worker, "one", Registered) == AgentType("one")
    with pytest.raises(ValueError, match="already exists"):
        await Registered.register(worker, "one", Registered)
    assert await worker.get("one", "k") == ONE
    assert await worker.get(AgentType("one"), "k", lazy=False) == ONE
    assert await worker.get(ONE, lazy=False) == ONE
    assert await caller.send_message(Add(2), ONE) == Total(2)
    found = await worker.try_get_underlying_agent_instance(ONE, Registered)
    assert (type(found), found.total) == (Registered, 2)
    with pytest.raises(TypeError):
        await worker.try_get_underlying_agent_instance(ONE, Adder)
    with pytest.raises(LookupError):
        await caller.try_get_underlying_agent_instance(ONE, Registered)


@pytest.mark.parametrize("kind", ["autogen", "ours"])
async def test_an_instance_is_registered(workers: Workers, kind: str) -> None:
    caller, worker = [await workers.of(kind) for _ in range(2)]
    first, second = Registered(), Registered()
    assert await first.register_instance(worker, ONE) == ONE
    # AutoGen's worker can't have a second one with its subscriptions: in process that is a ValueError, which is passed over.
    without = {"skip_class_subscriptions": True, "skip_direct_message_subscription": True} if kind == "autogen" else {}
    await second.register_instance(worker, AgentId("one", "other"), **without)
    with pytest.raises(ValueError, match="already exists"):
        await Registered().register_instance(worker, ONE)
    with pytest.raises(ValueError, match="same object type"):
        await Adder().register_instance(worker, AgentId("one", "third"))
    with pytest.raises(ValueError):
        await Registered.register(worker, "one", Registered)
    assert await outcome(caller.send_message(Add(2), ONE), 5) == Total(2)
    assert await outcome(caller.send_message(Add(3), AgentId("one", "other")), 5) == Total(3)
    assert (first.total, second.total) == (2, 3)
    assert await worker.try_get_underlying_agent_instance(ONE, Registered) is first


@pytest.mark.parametrize("kind", ["autogen", "ours"])
async def test_a_subscription_that_was_removed_brings_nothing_more(workers: Workers, kind: str) -> None:
    caller, worker = [await workers.of(kind, Question, Answer) for _ in range(2)]
    await worker.register_factory("ear", Listener)
    subscription = TypeSubscription("t", "ear")
    await worker.add_subscription(subscription)
    with pytest.raises((ValueError, grpc.aio.AioRpcError)):
        await worker.add_subscription(subscription)
    await caller.publish_message(Notice("one"), topic())
    assert await outcome(caller.send_message(Question(""), EAR), 5) == Answer("1")
    await worker.remove_subscription(subscription.id)
    await caller.publish_message(Notice("two"), topic())
    assert await outcome(caller.send_message(Question(""), EAR), 5) == Answer("1")


async def test_what_an_agent_publishes_on_its_own_topic_does_not_come_back_to_it(workers: Workers) -> None:
    """B11."""

    class Loud(Listener):
        @message_handler
        async def on_add(self, message: Add, ctx: MessageContext) -> Total:
            await self.publish_message(Notice("mine"), topic())
            return Total(0)

    loud, quiet = [await workers.ours(Question, Answer) for _ in range(2)]
    for worker, name, made in ((loud, "loud", Loud), (quiet, "ear", Listener)):
        await worker.register_factory(name, made)
        await worker.add_subscription(TypeSubscription("t", name))
    await quiet.send_message(Add(1), AgentId("loud", "k"))
    await until(lambda: _heard(quiet, EAR) == ["mine"], "the other hears it")
    await loud.stop()
    delivered = await stream(workers.log, AgentId("loud", "k"), EventType.MESSAGE_DELIVERED)
    assert [workers.log.message(one) for one in delivered] == [Add(1, [])]


def _heard(worker: Any, agent: AgentId) -> list[Any]:
    shell = worker._agents.shells.get(agent)
    live = None if shell is None else shell.incarnation
    return [] if live is None else list(live.agent.heard)


async def test_an_unrecorded_worker_of_ours_is_autogens(workers: Workers) -> None:
    worker = EventSourcedGrpcWorkerAgentRuntime(workers.host.address)
    await worker.start()
    await Registered.register(worker, "one", Registered)
    worker.add_message_serializer(try_get_known_serializers_for_type(Total))
    plain = await workers.plain()
    assert await outcome(plain.send_message(Add(1), ONE), 5) == Total(1)
    assert type(await outcome(worker.save_state())) is NotImplementedError
    await worker.stop()
    assert await everything(workers.log) == []


# -- TLS ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[bytes, bytes]:
    """A key and a certificate for localhost."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    key, made = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    asked = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(made), *subject]
    subprocess.run(asked, check=True, capture_output=True)
    return key.read_bytes(), made.read_bytes()


async def test_workers_speak_tls_with_a_host_that_does(workers: Workers, certificate: tuple[bytes, bytes]) -> None:
    server = grpc.aio.server()
    agent_worker_pb2_grpc.add_AgentRpcServicer_to_server(GrpcWorkerAgentRuntimeHostServicer(), server)  # type: ignore[no-untyped-call]
    port = server.add_secure_port("localhost:0", grpc.ssl_server_credentials([certificate]))
    await server.start()
    try:
        credentials = grpc.ssl_channel_credentials(certificate[1])
        address = f"localhost:{port}"
        async with contextlib.AsyncExitStack() as stack:
            made = [_unstarted(workers.log, address, channel_credentials=credentials) for _ in range(2)]
            for worker in made:
                await worker.start()
                stack.push_async_callback(worker.stop)
            await made[0].register_factory("one", Adder)
            assert await made[1].send_message(Add(1), ONE) == Total(1)
        open_worker = _unstarted(workers.log, address, connect_timeout=0.5)
        with pytest.raises(HostUnavailable):
            await open_worker.start()
    finally:
        await server.stop(0)
