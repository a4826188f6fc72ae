"""What is code or waits, in a captured state: functions with what they hold, locks and tasks, wiring, and refusals by name."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import logging
import socket
import subprocess
import sys
import threading
import warnings
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from autogen_core import (
    AgentId,
    AgentInstantiationContext,
    BaseAgent,
    CancellationToken,
    ClosureAgent,
    ClosureContext,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
    message_handler,
)
from autogen_core.model_context import BufferedChatCompletionContext
from autogen_core.models import UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

from autogen_eventlog.codec import Codec
from autogen_eventlog.errors import NotCapturable, NotLoadable, PayloadCorrupt, TypeNotAllowed
from autogen_eventlog.incarnation.boundary import Boundary
from autogen_eventlog.state import capture, difference, load
from tests.unit.state_agents import ByContent, Holder, Item, Node, loaded, round_trip

ID = AgentId("shop", "1")


def in_factory(make: Callable[[], Any], agent_id: AgentId = ID, runtime: Any = None) -> Any:
    with AgentInstantiationContext.populate_context((runtime or SingleThreadedAgentRuntime(), agent_id)):
        return make()


def twice(number: int) -> int:
    return 2 * number


class Client(Boundary):
    """What stands for a model."""

    def __init__(self, name: str) -> None:
        self.name = name

    def ask(self) -> str:
        return self.name


class Orders(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("orders")
        self.client = Client("c")
        self.logger = logging.getLogger("orders")
        self.totals: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.context = BufferedChatCompletionContext(5)
        self.handle: Any = self.open
        self.sessions: list[Any] = []
        self.rule: Any = None

    @message_handler
    async def on_item(self, message: Item, ctx: MessageContext) -> None:
        self.totals[message.name]["n"] += 1

    def open(self) -> str:
        return "open"

    def closed(self) -> str:
        return "closed"

    def counter(self, start: int) -> Callable[[], int]:
        count = start

        def up(by: int = 2) -> int:
            nonlocal count
            count += by
            return count

        return up

    def shared(self) -> list[Callable[[], list[int]]]:
        found: list[int] = []
        return [lambda: [*found], lambda: found.append(1) or found]

    def rules(self) -> None:
        self.rule = twice


async def test_an_agent_of_autogen_is_captured_and_loaded() -> None:
    live, fresh = in_factory(Orders), in_factory(Orders)
    live.totals["pen"]["n"] += 2
    await live.context.add_message(UserMessage(content="hello", source="u"))
    live.handle = live.closed
    live.rules()
    client, runtime = fresh.client, fresh.runtime
    captured = round_trip(live, fresh)
    assert set(captured.wiring) == {"self.client", "self._runtime"}
    assert fresh.client is client
    assert fresh.runtime is runtime
    assert fresh.handle() == "closed"
    assert fresh.rule(3) == 6
    fresh.totals["ink"]["n"] += 1
    assert fresh.totals == {"pen": {"n": 2}, "ink": {"n": 1}}
    assert await fresh.context.get_messages() == await live.context.get_messages()
    await fresh.on_message(Item("pen"), None)
    assert fresh.totals["pen"]["n"] == 3


async def test_an_agents_own_id_is_the_fresh_ones_and_other_ids_are_data() -> None:
    live, fresh = in_factory(Orders), in_factory(Orders, AgentId("shop", "2"))
    live.sessions.append(AgentId("other", "k"))
    round_trip(live, fresh)
    assert fresh.id == AgentId("shop", "2")
    assert fresh.sessions == [AgentId("other", "k")]


def test_functions_made_by_the_agent_keep_what_they_hold() -> None:
    live, fresh = in_factory(Orders), in_factory(Orders)
    up = live.counter(5)
    up()
    look, add = live.shared()
    add()
    live.sessions = [up, look, add]
    round_trip(live, fresh)
    assert fresh.sessions[0]() == 9
    assert fresh.sessions[1]() == [1]
    fresh.sessions[2]()
    assert fresh.sessions[1]() == [1, 1]
    assert look() == [1]
    assert up() == 9


def test_a_wiring_that_the_fresh_one_holds_elsewhere_too_is_found() -> None:
    live, fresh = in_factory(Orders), in_factory(Orders)
    live.sessions.append(Node(live.client, live.client.ask))
    round_trip(live, fresh)
    assert fresh.sessions[0].value is fresh.client
    assert fresh.sessions[0].following() == "c"


def test_what_the_wiring_holds_on_to_stays_the_agents() -> None:
    def make() -> Holder:
        items: list[int] = []
        return Holder(items=items, nested={"a": items}, client=Client(items))  # type: ignore[arg-type]

    live, fresh = make(), make()
    vars(live)["items"].append(1)
    round_trip(live, fresh)
    assert vars(fresh)["client"].name is vars(fresh)["items"]
    assert vars(fresh)["items"] == [1]
    assert vars(fresh)["nested"]["a"] is vars(fresh)["items"]


def closure_agent() -> ClosureAgent:
    seen: list[str] = []
    count = 0

    async def handle(ctx: ClosureContext, message: str, message_context: MessageContext) -> int:
        nonlocal count
        count += 1
        seen.append(message)
        return count * 100 + len(seen)

    return ClosureAgent("closure", handle)


async def test_a_closure_agents_closure_is_its_state() -> None:
    live, fresh = in_factory(closure_agent), in_factory(closure_agent)
    await live.on_message("a", None)
    await live.on_message("b", None)
    round_trip(live, fresh)
    assert await fresh.on_message("c", None) == 303


def local_agent() -> Any:
    class Order:
        def __init__(self) -> None:
            self.lines = [1]

    class Local(RoutedAgent):
        def __init__(self) -> None:
            super().__init__("local")
            self.orders: list[Order] = []
            self.by_line: dict[type, Any] = {Order: Order}

        @message_handler
        async def on_text(self, message: Item, ctx: MessageContext) -> None:
            self.orders.append(Order())

    return Local()


async def test_classes_within_functions_are_found_by_the_code_that_names_them() -> None:
    live = in_factory(local_agent)
    fresh = in_factory(local_agent)
    await live.on_message(Item("i"), None)
    captured = capture(live, Codec())
    load(captured.data, into=fresh, codec=Codec())
    assert type(fresh.orders[0]) is not type(live.orders[0])
    assert fresh.orders[0].lines == [1]
    assert capture(fresh, Codec()) == captured


# -- what waits ---------------------------------------------------------------------------------------------------


async def test_idle_locks_and_queues_can_be_used() -> None:
    queue: asyncio.Queue[str] = asyncio.Queue(2)
    await queue.put("a")
    event, semaphore = asyncio.Event(), asyncio.Semaphore(3)
    event.set()
    await semaphore.acquire()
    value = [
        *(queue, event, semaphore, asyncio.Lock(), asyncio.Condition(), asyncio.PriorityQueue(), threading.Lock()),
        *(threading.RLock(), threading.Event(), threading.Condition()),
    ]
    copy: list[Any] = loaded(value)
    assert copy[0].maxsize == 2
    assert copy[0].get_nowait() == "a"
    copy[0].task_done()
    await copy[0].join()
    assert copy[1].is_set()
    await copy[2].acquire()
    await copy[2].acquire()
    assert copy[2].locked()
    async with copy[3]:
        assert copy[3].locked()
    async with copy[4]:
        copy[4].notify_all()
    with copy[6], copy[7], copy[9]:
        copy[9].notify_all()
    copy[8].set()
    assert copy[8].wait(0)


async def test_a_lock_that_knew_its_loop_knows_this_one() -> None:
    lock = asyncio.Lock()
    async with lock:
        waiter = asyncio.create_task(lock.acquire())
        await asyncio.sleep(0)
    await waiter
    lock.release()
    copy = loaded(lock)
    assert copy._loop is asyncio.get_running_loop()
    async with copy:
        assert copy.locked()


async def test_what_is_done_is_its_outcome() -> None:
    async def work(result: Any) -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    loop = asyncio.get_running_loop()
    named = asyncio.create_task(work([1]), name="mine")
    failed, numbered = asyncio.create_task(work(KeyError("k"))), asyncio.create_task(work(None))
    future, cancelled = loop.create_future(), loop.create_future()
    future.set_result({"a": 1})
    cancelled.cancel()
    await asyncio.wait([named, failed, numbered, cancelled])
    pooled: concurrent.futures.Future[int] = concurrent.futures.Future()
    pooled.set_result(7)
    copy: list[Any] = loaded([named, failed, numbered, future, cancelled, {named}, pooled])
    assert await copy[0] == [1]
    assert copy[0].get_name() == "mine"
    assert copy[0] in copy[5]
    with pytest.raises(KeyError):
        await copy[1]
    assert await copy[2] is None
    assert copy[3].result() == {"a": 1}
    assert copy[4].cancelled()
    assert copy[6].result() == 7
    assert failed.exception() is not None


async def test_a_token_that_was_used_is_data() -> None:
    token = CancellationToken()
    future: asyncio.Future[int] = asyncio.Future()
    token.link_future(future)
    future.set_result(1)
    copy = loaded(token)
    copy.cancel()
    assert copy.is_cancelled()


# -- refusals -----------------------------------------------------------------------------------------------------


def refused(value: Any) -> list[tuple[str, str, str, str]]:
    with pytest.raises(NotCapturable) as caught:
        capture(Holder(value=value), Codec())
    assert caught.value.agent_class == "tests.unit.state_agents:Holder"
    assert caught.value.places[0][0] in str(caught.value)
    return list(caught.value.places)


def numbers() -> Generator[int]:
    yield 1


async def stream() -> AsyncGenerator[int]:
    yield 1


async def test_everything_that_is_in_use_is_named_with_its_path() -> None:
    lock, held, thread_lock = asyncio.Lock(), asyncio.Semaphore(0), threading.Lock()
    await lock.acquire()
    thread_lock.acquire()
    waiter = asyncio.create_task(held.acquire())
    await asyncio.sleep(0)
    generator = numbers()
    next(generator)
    value: dict[str, Any] = {"lock": lock, "held": held, "thread": thread_lock, "task": [waiter]}
    value |= {"future": asyncio.Future(), "pooled": concurrent.futures.Future()}
    value |= {"generator": generator, "stream": stream()}
    found = {path: reason for path, _, reason, _ in refused(value)}
    waiter.cancel()
    assert sorted(found) == [
        *("self.value['future']", "self.value['generator']", "self.value['held']._waiters[0]", "self.value['lock']"),
        *("self.value['pooled']", "self.value['stream']", "self.value['task'][0]", "self.value['thread']"),
    ]
    assert found["self.value['task'][0]"] == "it is a task that still runs"


def test_what_python_cannot_see_into_is_named() -> None:
    with subprocess.Popen(["true"]) as process:
        places = refused([Node(process), threading.Thread(), threading.local(), zip([1], [2], strict=False)])
    assert {path for path, *_ in places} >= {"self.value[1]", "self.value[2]", "self.value[3]"}


def test_a_set_element_and_a_key_are_named() -> None:
    path, found, *_ = refused({(1, threading.Thread())})[0]
    assert path == "self.value (an element)[1]"
    assert found == "threading:Thread"


def test_a_weak_reference_to_what_only_others_hold_is_named() -> None:
    import weakref

    outside = Node(1)
    (path, found, reason, _) = refused([weakref.ref(outside)])[0]
    assert (path, found) == ("self.value[0]", "weakref:ReferenceType")
    assert "Node" in reason


def test_an_attribute_whose_name_is_no_text_is_named() -> None:
    node = Node(1)
    vars(node)[1] = 2  # type: ignore[index]
    assert refused([node])[0][:2] == ("self.value[0]", "tests.unit.state_agents:Node")


def test_a_frozen_value_that_contains_itself_is_named() -> None:
    from tests.unit.state_agents import Point

    point = Point(1, None)
    object.__setattr__(point, "y", (point,))
    assert "contains itself" in refused(point)[0][2]


def test_two_arrays_of_one_memory_are_named() -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.zeros(4)
    assert "memory of another" in refused([array, array[1:]])[0][2]
    assert refused([numpy.array([Node(1)])])[0][2] == "it is an array of Python objects"


# -- loading what does not fit ------------------------------------------------------------------------------------


def test_wiring_that_the_fresh_one_lacks_is_named() -> None:
    live = Holder(name="n", inner=Node(Client("c")))
    fresh = Holder(name="other", inner=Node(None))
    with pytest.raises(NotLoadable) as caught:
        load(capture(live, Codec()).data, into=fresh, codec=Codec())
    error = caught.value
    assert (error.agent_class, error.path) == ("tests.unit.state_agents:Holder", "self.inner.value")
    assert error.expected == "wiring of class 'tests.unit.test_state_code:Client'"
    assert error.found == "none in the fresh instance"
    assert "factory" in error.remedy
    assert vars(fresh)["name"] == "other"


def test_an_agent_of_another_class_is_named() -> None:
    with pytest.raises(NotLoadable, match=r"expected an agent of class 'tests\.unit\.state_agents:Holder'"):
        load(capture(Holder(), Codec()).data, into=Node(1), codec=Codec())


def test_a_file_that_stands_elsewhere_is_named(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("abc\n")
    with path.open("rb") as one, path.open("rb") as other:
        one.read(1)
        data = capture(Holder(file=one), Codec()).data
        with pytest.raises(NotLoadable, match=r"self\.file"):
            load(data, into=Holder(file=other), codec=Codec())
        other.read(1)
        load(data, into=Holder(file=other), codec=Codec())


def test_sockets_that_the_constructor_made_are_wiring() -> None:
    with socket.socket() as one, socket.socket() as other:
        fresh = Holder(value=other)
        round_trip(Holder(value=one), fresh)
        assert vars(fresh)["value"] is other


def test_what_is_given_as_outside_is_wiring() -> None:
    queue, others = asyncio.Queue[int](), asyncio.Queue[int]()
    queue.put_nowait(1)
    captured = capture(Holder(out=queue, n=1), Codec(), outside=[queue])
    assert captured.wiring == ("self.out",)
    fresh = Holder(out=others, n=2)
    load(captured.data, into=fresh, codec=Codec(), outside=[others])
    assert vars(fresh) == {"out": others, "n": 1}
    assert others.empty()


def test_classes_given_as_wiring_are_kept() -> None:
    captured = capture(Holder(node=Node(1)), Codec(), wiring=(Node,))
    fresh = Holder(node=Node(2))
    load(captured.data, into=fresh, codec=Codec(), wiring=(Node,))
    assert vars(fresh)["node"].value == 2


def tampered(value: Any, change: Callable[[list[Any]], None]) -> bytes:
    stored = json.loads(capture(Holder(value=value), Codec()).data)
    change(stored["objects"])
    return json.dumps(stored).encode()


@pytest.mark.parametrize(
    "name", ["subprocess:Popen", "os:system", "tests.unit.nowhere:Thing", "threading:Thread.run", "builtins:eval"]
)
def test_a_name_that_no_code_of_the_agents_shows_is_refused(name: str) -> None:
    for tag in ("class", "function"):
        data = tampered(1, lambda objects, tag=tag: objects[0]["a"].update(value={"$t": tag, "v": name}))  # type: ignore[misc]
        fresh = Holder(value=2)
        with pytest.raises(TypeNotAllowed) as caught:
            load(data, into=fresh, codec=Codec())
        assert caught.value.type_name == name
        assert vars(fresh) == {"value": 2}


@pytest.mark.parametrize(
    "name",
    [
        *("subprocess:Popen", "http.client:HTTPConnection", "threading:Thread"),
        "autogen_ext.models.replay._replay_chat_completion_client:ReplayChatCompletionClient",
    ],
)
def test_an_object_of_a_class_that_may_not_be_made_is_refused(name: str) -> None:
    assert ReplayChatCompletionClient.__module__ in sys.modules
    data = tampered([1], lambda objects: objects[1].update({"$t": name}))
    with pytest.raises(TypeNotAllowed) as caught:
        load(data, into=Holder(), codec=Codec())
    assert (caught.value.type_name, caught.value.path) == (name, "self.value")


def test_code_that_is_not_loaded_here_is_refused() -> None:
    live, fresh = in_factory(Orders), in_factory(Orders)
    live.sessions = [live.counter(1)]
    stored = json.loads(capture(live, Codec()).data)
    for entry in stored["objects"]:
        if entry["$t"] == "function" and entry["d"]["name"] == "up":
            entry["d"]["code"] = "0" * 16
    with pytest.raises(TypeNotAllowed, match="up"):
        load(json.dumps(stored).encode(), into=fresh, codec=Codec())
    assert fresh.sessions == []


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"[]", b"{}", b"\xff", b'{"format":2}', b'{"format":1,"root":[0],"objects":[]}', b"NaN"),
        *(b'{"format":1,"root":[0],"objects":[1]}', b'{"format":1,"root":0,"objects":[]}'),
        b'{"format":1,"root":[0],"objects":[{"$t":"tests.unit.state_agents:Holder","a":{"b":[1]}}]}',
        b'{"format":1,"root":[0],"objects":[{"$t":"tests.unit.state_agents:Holder","z":[]}]}',
        b'{"format":1,"root":[0],"objects":[{"$t":"tests.unit.state_agents:Holder","a":{"b":["x"]}}]}',
        b'{"format":1,"root":[0],"objects":[{"$t":"tests.unit.state_agents:Holder","a":{"b":{"$t":"decimal","v":1}}}]}',
    ],
)
def test_bytes_that_are_no_state_are_refused(data: bytes) -> None:
    fresh = Holder(value=1)
    with pytest.raises(PayloadCorrupt):
        load(data, into=fresh, codec=Codec())
    assert vars(fresh) == {"value": 1}


def test_an_instance_is_as_it_was_when_a_hash_fails_on_the_way() -> None:
    """All is set or nothing: also what was filled before."""
    data = tampered([{ByContent([1]): 1}], lambda objects: objects[-2]["a"].update(key=5))
    fresh = Holder(value=[{"a": 1}], other="o")
    with pytest.raises(PayloadCorrupt):
        load(data, into=fresh, codec=Codec())
    assert vars(fresh) == {"value": [{"a": 1}], "other": "o"}


def test_an_object_with_a_finaliser_is_not_made() -> None:
    class Owner:
        def __del__(self) -> None:
            return

    fresh = Holder(value=Owner())
    round_trip(Holder(value=Owner()), fresh)
    with pytest.raises(PayloadCorrupt, match="finaliser"):
        load(capture(Holder(value=[Owner()]), Codec()).data, into=fresh, codec=Codec())


def test_the_difference_is_told_by_path() -> None:
    left, right = (
        Holder(a=1, b=[1, Item("x")], c={"k": {1, 2}}, d="same"),
        Holder(a=1.0, b=[1, Item("y"), 2], c={"k": {1}}),
    )
    shared = [1]
    vars(left)["e"], vars(right)["e"] = [shared, shared], [shared, [1]]
    found = {
        (one.path, one.left, one.right) for one in difference(capture(left, Codec()).data, capture(right, Codec()).data)
    }
    assert found == {
        ("self.a", "1", "1.0"),
        ("self.d", "'same'", "absent"),
        ("self.b[2]", "absent", "2"),
        ("self.b[1].name", "'x'", "'y'"),
        ("self.c['k'] (an element)", "2", "absent"),
        ("self.e[1]", "the same object as self.e[0]", "an object of its own"),
    }


def test_the_difference_is_bounded() -> None:
    left, right = Holder(a=list(range(500))), Holder(a=list(range(1, 501)))
    assert len(difference(capture(left, Codec()).data, capture(right, Codec()).data)) == 100


class Unlisted(BaseAgent):
    async def on_message_impl(self, message: Any, ctx: MessageContext) -> Any:
        raise NotImplementedError


def test_capture_leaves_the_agent_as_it_was() -> None:
    with warnings.catch_warnings():
        live = in_factory(lambda: Unlisted("u"))
    before = dict(vars(live))
    assert capture(live, Codec()).digest == capture(live, Codec()).digest
    assert vars(live) == before
