"""The host as a drop-in: AutoGen's own workers on it, TLS, and what agents of an event-sourced runtime ask of it."""

from __future__ import annotations

import asyncio
import copy
import json
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, ClassVar

import grpc
import pytest
from autogen_core import (
    AgentId,
    DefaultTopicId,
    MessageContext,
    RoutedAgent,
    TypeSubscription,
    event,
    message_handler,
    rpc,
    try_get_known_serializers_for_type,
)
from autogen_ext.runtimes.grpc import GrpcWorkerAgentRuntime, GrpcWorkerAgentRuntimeHost
from google.protobuf.wrappers_pb2 import StringValue

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime, EventType, Outcome
from autogen_eventlog.distributed import (
    AgentStateClient,
    EventSourcedGrpcWorkerAgentRuntimeHost,
    StateConflict,
    StateServiceUnavailable,
    state_stream,
)
from autogen_eventlog.snapshots import SnapshotPolicy

from .states import ONE, serving
from .store import eventually


@pytest.fixture
async def log(dsn: str) -> AsyncIterator[EventLog]:
    async with EventLog.open(dsn) as opened:
        yield opened


@dataclass
class Note:
    text: str


@dataclass
class Answer:
    text: str


class Echo(RoutedAgent):
    heard: ClassVar[list[str]] = []

    @rpc
    async def answer(self, message: Note, ctx: MessageContext) -> Answer:
        return Answer(f"{self.id.key}: {message.text}")

    @event
    async def hear(self, message: Answer, ctx: MessageContext) -> None:
        Echo.heard.append(f"{self.id.key}: {message.text}")


# -- a drop-in ----------------------------------------------------------------------------------------------------


async def test_it_has_what_autogens_host_has() -> None:
    theirs = GrpcWorkerAgentRuntimeHost("localhost:0")
    ours = EventSourcedGrpcWorkerAgentRuntimeHost("localhost:0", None)  # type: ignore[arg-type]
    assert isinstance(ours, GrpcWorkerAgentRuntimeHost)
    assert {name: type(value) for name, value in vars(ours).items()} == {
        name: type(value) for name, value in vars(theirs).items()
    }
    assert type(ours).start is GrpcWorkerAgentRuntimeHost.start
    assert type(ours).stop is GrpcWorkerAgentRuntimeHost.stop
    with pytest.raises(RuntimeError, match="not started"):
        await ours.stop()
    for host in (theirs, ours):
        host.start()
        await host.stop(grace=0)


async def test_autogens_own_workers_run_on_it(log: EventLog) -> None:
    Echo.heard = []
    async with serving(log) as host, AgentStateClient(host.address) as states:
        with pytest.raises(RuntimeError, match="already started"):
            host.start()
        workers = [GrpcWorkerAgentRuntime(host.address) for _ in range(2)]
        for worker in workers:
            await worker.start()
            worker.add_message_serializer(try_get_known_serializers_for_type(Note))
            worker.add_message_serializer(try_get_known_serializers_for_type(Answer))
        await Echo.register(workers[0], "echo", lambda: Echo("echoes"))
        await workers[0].add_subscription(TypeSubscription("default", "echo"))
        answers = await asyncio.gather(
            *(workers[1].send_message(Note(str(at)), AgentId("echo", str(at))) for at in range(10)),
            *(states.save(AgentId("echo", str(at)), "x") for at in range(10)),
        )
        assert answers[:10] == [Answer(f"{at}: {at}") for at in range(10)]
        await workers[1].publish_message(Answer("to all"), DefaultTopicId(source="k"))
        await eventually(lambda: _async(bool(Echo.heard)), "the publication arrived")
        assert Echo.heard == ["k: to all"]
        for worker in workers:
            await worker.stop()


async def test_it_stops_at_a_signal(log: EventLog) -> None:
    host = EventSourcedGrpcWorkerAgentRuntimeHost("localhost:0", log)
    host.start()
    stopping = asyncio.ensure_future(host.stop_when_signal(grace=0, signals=[signal.SIGUSR1]))
    async with AgentStateClient(host.address) as states:
        await states.save(ONE, "x")
        signal.raise_signal(signal.SIGUSR1)
        await asyncio.wait_for(stopping, 10)
    asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR1)


async def test_the_given_address_is_kept_and_port_0_is_told(log: EventLog) -> None:
    async with serving(log) as host:
        name, _, port = host.address.rpartition(":")
        assert name == "localhost" and int(port) > 0
    again = EventSourcedGrpcWorkerAgentRuntimeHost(host.address, log)
    assert again.address == host.address
    again.start()
    await again.stop(grace=0)


async def test_an_address_that_is_taken_is_an_error(log: EventLog) -> None:
    with pytest.raises(RuntimeError):
        EventSourcedGrpcWorkerAgentRuntimeHost("256.256.256.256:1", log)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """A key and a certificate for localhost."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl on this machine")
    place = tmp_path_factory.mktemp("tls")
    asked = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    asked += ["-addext", "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(asked, cwd=place, check=True, capture_output=True)
    return (place / "key.pem").read_bytes(), (place / "cert.pem").read_bytes()


async def test_credentials_are_passed_through(log: EventLog, certificate: tuple[bytes, bytes]) -> None:
    credentials = grpc.ssl_server_credentials([certificate])
    host = EventSourcedGrpcWorkerAgentRuntimeHost("localhost:0", log, server_credentials=credentials)
    host.start()
    try:
        trusting = grpc.ssl_channel_credentials(certificate[1])
        async with AgentStateClient(host.address, channel_credentials=trusting) as client:
            etag = await client.save(ONE, "secret")
            state = await client.get(ONE)
            assert state is not None and state.etag == etag
        for mistrusting in (None, grpc.ssl_channel_credentials()):
            async with AgentStateClient(host.address, channel_credentials=mistrusting, timeout=0.3) as client:
                with pytest.raises(StateServiceUnavailable):
                    await client.get(ONE)
    finally:
        await host.stop(grace=0)


# -- in handlers of agents that are recorded ----------------------------------------------------------------------

TELLER = AgentId("teller", "1")


@dataclass
class Add:
    amount: int
    etag: str | None = None


class Teller(RoutedAgent):
    """Keeps the balance in the service, and what it did in itself."""

    def __init__(self, client: AgentStateClient) -> None:
        super().__init__("counts")
        self._client = client
        self.done: list[Any] = []

    @message_handler
    async def add(self, message: Add, ctx: MessageContext) -> str:
        state = await self._client.get(self.id)
        balance = 0 if state is None else json.loads(str(state.data))
        try:
            etag = await self._client.save(
                self.id,
                json.dumps(balance + message.amount),
                etag=message.etag or (None if state is None else state.etag),
            )
        except StateConflict as error:
            self.done.append((type(error).__name__, error.given, error.stored))
            return "conflict"
        await self._client.save(AgentId("teller", "packed"), StringValue(value=etag))
        packed = await self._client.get(AgentId("teller", "packed"))
        assert packed is not None
        self.done.append((state, etag, packed.data))
        return json.dumps(balance + message.amount)


@dataclass
class Bank:
    """Makes runtimes with a teller on them."""

    log: EventLog
    address: str

    async def runtime(self, **options: Any) -> EventSourcedAgentRuntime:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(self.log, **options)])
        client = AgentStateClient(self.address, timeout=2)
        await Teller.register(runtime, "teller", lambda: Teller(client))
        runtime.start()
        return runtime

    async def saved(self) -> list[Any]:
        return [self.log.message(event) async for event in self.log.read(state_stream(TELLER))]


async def test_what_a_recorded_agent_asks_is_answered_from_the_log_in_replay(dsn: str) -> None:
    async with EventLog.open(dsn) as log:
        async with serving(log) as host:
            bank = Bank(log, host.address)
            runtime = await bank.runtime()
            assert [await runtime.send_message(Add(amount), TELLER) for amount in (1, 2, 3)] == ["1", "3", "6"]
            assert await runtime.send_message(Add(4, etag="stale"), TELLER) == "conflict"
            live = await runtime.try_get_underlying_agent_instance(TELLER, Teller)
            before = list(live.done)
            await runtime.stop_when_idle()
        kinds = [e.metadata["kind"] async for e in log.read(TELLER) if e.type is EventType.EFFECT_REQUESTED]
        assert kinds == ["state.get", "state.save", "state.save", "state.get"] * 3 + ["state.get", "state.save"]
        assert await bank.saved() == ["1", "3", "6"]
    async with EventLog.open(dsn) as log:  # nobody serves any more
        bank = Bank(log, "localhost:1")
        again = await bank.runtime()
        assert (await again.try_get_underlying_agent_instance(TELLER, Teller)).done == before
        viewed = await again.view(TELLER, version=(await log.version_at(TELLER, version=1)), type=Teller)
        assert viewed.done == []
        assert before[-1][0] == "StateConflict"
        await again.stop_when_idle()


class SavingTeller(Teller):
    """Says itself what its state is."""

    async def save_state(self) -> dict[str, Any]:
        return {"done": len(self.done)}

    async def load_state(self, state: Any) -> None:
        self.done = [None] * state["done"]

    @message_handler
    async def add(self, message: Add, ctx: MessageContext) -> str:
        await self._client.save(self.id, str(message.amount))
        self.done.append(None)
        return str(len(self.done))


async def test_a_client_is_no_part_of_its_agents_state(dsn: str) -> None:
    """Snapshots are taken and proven; copies ask through the same connection."""
    async with EventLog.open(dsn) as log, serving(log) as host:
        policy = SnapshotPolicy(every=4, within=None, kind="save_state")
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, snapshots=policy)])
        await SavingTeller.register(runtime, "teller", lambda: SavingTeller(AgentStateClient(host.address)))
        runtime.start()
        for amount in range(8):
            await runtime.send_message(Add(amount), TELLER)
        await runtime.stop_when_idle()
        snapshot = await log.snapshots.latest_snapshot(str(TELLER))
        assert snapshot is not None and snapshot.status == "proven"
    client = AgentStateClient("localhost:1")
    assert copy.copy(client) is client is copy.deepcopy([client])[0]


@pytest.mark.parametrize(("policy", "saved"), [(None, ["1"]), ("retry", ["1", "1"])])
async def test_an_unanswered_save_is_made_again_only_where_the_handler_says_so(
    dsn: str, policy: Any, saved: list[str]
) -> None:
    async with EventLog.open(dsn) as log, serving(log) as host:
        bank = Bank(log, host.address)
        runtime = await bank.runtime(effects_unknown=policy)
        assert await runtime.send_message(Add(1), TELLER) == "1"
        requested = [e.version async for e in log.read(TELLER) if e.type is EventType.EFFECT_REQUESTED]
        # What followed the request is left behind: to the agent it is as if the process had ended there.
        report = await runtime.restore(TELLER, version=requested[1])
        assert report is not None
        ended = await eventually(lambda: _ended(log), "the handler ended again")
        assert ended is (Outcome.RAISED if policy is None else Outcome.REPLIED)
        assert await bank.saved() == saved
        await runtime.stop_when_idle()


async def _ended(log: EventLog) -> Any:
    async for last in log.read(TELLER, backwards=True):
        return last.outcome if last.type is EventType.DELIVERY_COMPLETED else None


async def _async(value: bool) -> bool:
    return value
