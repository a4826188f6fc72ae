"""The state service over real gRPC on a real Postgres: its rules, what it stores, who wins."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import grpc
import psycopg
import pytest
from autogen_core import AgentId
from autogen_ext.runtimes.grpc import GrpcWorkerAgentRuntimeHost
from google.protobuf.any_pb2 import Any as PackedMessage
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from google.protobuf.wrappers_pb2 import StringValue

from autogen_eventlog import EventLog, EventType
from autogen_eventlog.distributed import (
    AgentStateClient,
    EventSourcedGrpcWorkerAgentRuntimeHost,
    StateConflict,
    StateRefused,
    StateServiceUnavailable,
    StateTooLarge,
    StoredState,
    state_stream,
)
from autogen_eventlog.distributed.protos import state_pb2, state_pb2_grpc
from autogen_eventlog.errors import PayloadCorrupt
from autogen_eventlog.events import LARGEST_PAYLOAD
from autogen_eventlog.postgres.states import SavedAs, StateToSave

from .states import MIB, ONE, OldClient, clients, serving
from .store import fetch


@pytest.fixture
async def log(dsn: str) -> AsyncIterator[EventLog]:
    async with EventLog.open(dsn) as opened:
        yield opened


@pytest.fixture
async def host(log: EventLog) -> AsyncIterator[EventSourcedGrpcWorkerAgentRuntimeHost]:
    async with serving(log) as serves:
        yield serves


@pytest.fixture
async def client(host: EventSourcedGrpcWorkerAgentRuntimeHost) -> AsyncIterator[AgentStateClient]:
    async with AgentStateClient(host.address, timeout=20) as one:
        yield one


async def data_of(client: AgentStateClient, agent: AgentId = ONE) -> Any:
    state = await client.get(agent)
    return None if state is None else state.data


# -- the rules of part P ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [True, False], ids=["October 2024", "January 2025"])
async def test_an_old_client_finds_the_old_service(host: EventSourcedGrpcWorkerAgentRuntimeHost, first: bool) -> None:
    """Test P1: the sequence of the HelloAgentState sample."""
    async with OldClient(host.address, first=first) as old:

        def agreed(answer: Any) -> bool:
            return answer.success and not answer.error if first else answer.ByteSize() > 0

        unknown = await old.get(ONE)
        assert (unknown.agent_state.eTag, unknown.agent_state.WhichOneof("data")) == ("", None)
        assert agreed(unknown)

        active = '{"data": "We said hello to World", "workflow": "Active"}'
        assert agreed(await old.save(ONE, text_data=active))
        before = (await old.get(ONE)).agent_state
        assert before.eTag and before.text_data == active
        assert (before.agent_id.type, before.agent_id.key) == ("workflow", "1")

        complete = active.replace("Active", "Complete")
        assert agreed(await old.save(ONE, text_data=complete, eTag=before.eTag))
        after = (await old.get(ONE)).agent_state
        assert after.text_data == complete
        assert after.eTag not in ("", before.eTag)

        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await old.save(ONE, text_data="lost", eTag=before.eTag)
        assert caught.value.code() is grpc.StatusCode.ABORTED
        assert "ETag does not match" in str(caught.value.details())
        assert before.eTag in str(caught.value.details()) and after.eTag in str(caught.value.details())
        assert (await old.get(ONE)).agent_state == after

        assert agreed(await old.save(ONE, text_data="the last one wins"))
        last = (await old.get(ONE)).agent_state
        assert last.text_data == "the last one wins"
        assert last.eTag not in (before.eTag, after.eTag)


async def test_old_and_new_clients_see_one_state(
    host: EventSourcedGrpcWorkerAgentRuntimeHost, client: AgentStateClient
) -> None:
    async with OldClient(host.address, first=False) as old:
        await old.save(ONE, binary_data=b"old")
        state = await client.get(ONE)
        assert state is not None and state.data == b"old"
        await client.save(ONE, "new", etag=state.etag)
        assert (await old.get(ONE)).agent_state.text_data == "new"


async def test_a_save_follows_the_rules(client: AgentStateClient) -> None:
    assert await client.get(ONE) is None
    first = await client.save(ONE, "1", etag="nothing is stored, so any is accepted")
    second = await client.save(ONE, "2", etag=first)
    with pytest.raises(StateConflict) as caught:
        await client.save(ONE, "lost", etag=first)
    assert (caught.value.agent, caught.value.given, caught.value.stored) == ("workflow/1", first, second)
    assert await client.get(ONE) == StoredState(ONE, second, "2")
    third = await client.save(ONE, "3")
    assert len({first, second, third}) == 3
    assert await data_of(client) == "3"


async def test_a_refused_save_leaves_no_trace(log: EventLog, client: AgentStateClient) -> None:
    await client.save(ONE, "1")
    before = await log.head(state_stream(ONE))
    with pytest.raises(StateConflict) as caught:
        await client.save(ONE, "2", etag="x" * 5000)
    assert caught.value.given == "x" * 5000
    assert await log.head(state_stream(ONE)) == before


# -- what comes back ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\xff binary",
        "",
        "text\u0000 with ü, 😀 and \U0010ffff",
        Struct(),
        StringValue(value="x"),
        PackedMessage(),
    ],
    ids=["no bytes", "bytes", "no text", "text", "empty message", "message", "no message"],
)
async def test_each_kind_comes_back_as_the_same_kind_byte_for_byte(
    client: AgentStateClient, data: bytes | str | Message
) -> None:
    etag = await client.save(ONE, data)
    state = await client.get(ONE)
    assert state is not None and state.etag == etag
    if isinstance(data, (bytes, str)):
        assert type(state.data) is type(data) and state.data == data
        return
    assert isinstance(state.data, PackedMessage)
    if isinstance(data, PackedMessage):
        assert state.data == data
    else:
        assert state.data.type_url == f"type.googleapis.com/{data.DESCRIPTOR.full_name}"
        assert state.data.value == data.SerializeToString()
        again = type(data)()
        assert state.data.Unpack(again) and again == data


async def test_a_message_of_a_type_that_nobody_here_knows_comes_back(client: AgentStateClient) -> None:
    packed = PackedMessage(type_url="type.googleapis.com/somewhere.Else", value=bytes(range(256)))
    await client.save(ONE, packed)
    assert await data_of(client) == packed


async def test_a_state_without_data_comes_back_without(host: EventSourcedGrpcWorkerAgentRuntimeHost) -> None:
    async with OldClient(host.address, first=True) as old, AgentStateClient(host.address) as client:
        await old.save(ONE)
        state = (await old.get(ONE)).agent_state
        assert state.eTag and state.WhichOneof("data") is None
        assert await client.get(ONE) == StoredState(ONE, state.eTag, None)


@pytest.mark.parametrize("key", ["", "a/b//c/", "ключ 😀", "%_\\'\"$1", "k" * 900], ids=ascii)
async def test_agents_are_told_apart_by_their_whole_ids(client: AgentStateClient, key: str) -> None:
    agents = [AgentId("workflow", key), AgentId("workflow", f"{key}/"), AgentId("other.type-1", key)]
    for number, agent in enumerate(agents):
        await client.save(agent, str(number))
    assert [await data_of(client, agent) for agent in agents] == ["0", "1", "2"]


@pytest.mark.parametrize("agent", [AgentId("workflow", "a\0b"), AgentId("workflow", "k" * 2000)], ids=["NUL", "long"])
async def test_an_id_that_the_log_cannot_hold_is_refused(client: AgentStateClient, agent: AgentId) -> None:
    for asking in (client.get(agent), client.save(agent, "x")):
        with pytest.raises(StateRefused) as caught:
            await asking
        assert caught.value.code == "INVALID_ARGUMENT"
        assert caught.value.agent == str(agent)
        assert caught.value.host.startswith("localhost:")
        assert "agent id" in caught.value.problem


@pytest.mark.parametrize("type", ["", "a/b", "$state", "a b"])
async def test_what_is_no_type_of_an_agent_is_refused(
    host: EventSourcedGrpcWorkerAgentRuntimeHost, log: EventLog, type: str
) -> None:
    async with grpc.aio.insecure_channel(host.address) as channel:
        stub: Any = state_pb2_grpc.AgentStateServiceStub(channel)
        state = state_pb2.AgentState(agent_id=state_pb2.AgentId(type=type, key="1"), text_data="x")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.SaveState(state_pb2.SaveStateRequest(agent_state=state))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "agent type" in str(caught.value.details())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetState(state_pb2.GetStateRequest(agent_id=state.agent_id))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert await log.agents() == []


# -- size ---------------------------------------------------------------------------------------------------------


async def test_what_is_accepted_at_the_limit_can_be_got_by_a_client_with_the_same_limit(
    host: EventSourcedGrpcWorkerAgentRuntimeHost,
) -> None:
    """The answer to a get is longer than the save was: by the ETag. It must not be found out when it is too late."""
    limit = [("grpc.max_receive_message_length", 4 * MIB)]
    async with AgentStateClient(host.address, extra_grpc_config=limit) as client:
        largest = bytes(4 * MIB - 200)
        etag = await client.save(ONE, largest)
        assert await client.get(ONE) == StoredState(ONE, etag, largest)
        with pytest.raises(StateTooLarge) as caught:
            await client.save(ONE, bytes(4 * MIB - 60))
        assert caught.value.agent == "workflow/1"
        assert "4194304" in caught.value.problem
        with pytest.raises(StateTooLarge) as caught:
            await client.save(ONE, bytes(4 * MIB + 1))
        assert await client.get(ONE) == StoredState(ONE, etag, largest)


@pytest.mark.parametrize("limit", [8 * MIB, -1])
async def test_a_raised_limit_holds_for_states(log: EventLog, limit: int) -> None:
    async with (
        serving(log, ("grpc.max_receive_message_length", limit)) as host,
        AgentStateClient(host.address) as client,
    ):
        await client.save(ONE, bytes(6 * MIB))
        assert await data_of(client) == bytes(6 * MIB)
        if limit > 0:
            with pytest.raises(StateTooLarge):
                await client.save(ONE, bytes(8 * MIB))


async def test_a_state_that_the_log_cannot_take_is_refused(log: EventLog) -> None:
    async with serving(log, ("grpc.max_receive_message_length", -1)) as host, AgentStateClient(host.address) as client:
        with pytest.raises(StateTooLarge) as caught:
            await client.save(ONE, bytes(LARGEST_PAYLOAD))
        assert str(LARGEST_PAYLOAD) in caught.value.problem
        assert await client.get(ONE) is None


# -- the log ------------------------------------------------------------------------------------------------------


async def test_the_history_of_a_state_stays_readable(dsn: str, log: EventLog, client: AgentStateClient) -> None:
    etags = [await client.save(ONE, data) for data in ("one", b"two", StringValue(value="three"))]
    stored = [event async for event in log.read(state_stream(ONE))]
    assert [event.version for event in stored] == [1, 2, 3]
    assert {event.type for event in stored} == {EventType.AGENT_STATE_SAVED}
    assert [event.stream for event in stored] == ["$state/workflow/1"] * 3
    packed = {"type_url": "type.googleapis.com/google.protobuf.StringValue", "value": b"\n\x05three"}
    assert [log.message(event) for event in stored] == ["one", b"two", packed]
    assert [etag.partition("-")[0] for etag in etags] == ["1", "2", "3"]
    with pytest.raises(psycopg.errors.DatabaseError) as caught:
        await fetch(dsn, "UPDATE event SET payload = NULL WHERE stream = '$state/workflow/1'")
    assert caught.value.sqlstate == "EL002"


async def test_a_state_is_no_agent_and_no_message(log: EventLog, client: AgentStateClient) -> None:
    await client.save(ONE, "x")
    assert (await log.audit.statistics()).agents == 0
    assert await log.audit.messages() == []
    assert await log.audit.in_flight() == []
    assert [event.type async for event in log.tail(follow=False)] == [EventType.AGENT_STATE_SAVED]


async def test_the_list_of_agents_shows_states_only_when_asked(dsn: str, client: AgentStateClient) -> None:
    await client.save(ONE, "x")

    async def listed(*options: str) -> list[str]:
        arguments = ["-m", "autogen_eventlog", "--dsn", dsn, "--json", "agents", *options]
        process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=subprocess.PIPE)
        said, _ = await process.communicate()
        assert process.returncode == 0
        return [json.loads(line)["agent"] for line in said.splitlines()]

    assert await listed() == []
    assert await listed("--runtimes") == ["$state/workflow/1"]


async def test_an_event_that_the_service_did_not_write_is_never_given_out(
    log: EventLog, client: AgentStateClient
) -> None:
    foreign = StateToSave(id=uuid4(), message_type="builtins:str", payload=b'"x"', metadata={"data": "video"})
    assert isinstance(await log.states.save(state_stream(ONE), foreign, admits=lambda before: True), SavedAs)
    with pytest.raises(StateRefused) as caught:
        await client.get(ONE)
    assert caught.value.code == "INTERNAL"
    assert PayloadCorrupt("stream '$state/workflow/1', version 1", "unknown kind of state 'video'").message() in (
        caught.value.problem
    )


# -- at once ------------------------------------------------------------------------------------------------------


async def test_of_writers_with_the_same_etag_one_wins_each_round(dsn: str) -> None:
    async with clients(dsn, hosts=2, each=10) as writers:
        etag = await writers[0].save(ONE, "round 0")
        for number in range(1, 11):
            saves = [writer.save(ONE, f"{number} {index}", etag=etag) for index, writer in enumerate(writers)]
            outcomes = await asyncio.gather(*saves, return_exceptions=True)
            won = [index for index, outcome in enumerate(outcomes) if isinstance(outcome, str)]
            assert len(won) == 1
            lost = [outcome for outcome in outcomes if not isinstance(outcome, str)]
            assert all(isinstance(error, StateConflict) and error.given == etag for error in lost)
            etag = str(outcomes[won[0]])
            assert {error.stored for error in lost if isinstance(error, StateConflict)} == {etag}
            assert await writers[-1].get(ONE) == StoredState(ONE, etag, f"{number} {won[0]}")
    async with EventLog.open(dsn) as log:
        assert [event.version async for event in log.read(state_stream(ONE))] == list(range(1, 12))


async def test_first_saves_at_once_are_one_first_and_conflicts_or_all_stored(dsn: str) -> None:
    """While nothing is stored any ETag is accepted, so the first wins; without an ETag all are stored, in some order."""
    async with clients(dsn, hosts=2, each=5) as writers:
        outcomes = await asyncio.gather(
            *(writer.save(ONE, "x", etag="mine") for writer in writers), return_exceptions=True
        )
        assert sum(isinstance(outcome, str) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, StateConflict) for outcome in outcomes) == 9
        unchecked = await asyncio.gather(
            *(writer.save(AgentId("b", "1"), str(at)) for at, writer in enumerate(writers))
        )
        assert len(set(unchecked)) == 10
        state = await writers[0].get(AgentId("b", "1"))
        assert state is not None and state.etag.startswith("10-") and state.etag in unchecked


async def test_a_save_that_is_sent_again_is_done_once(
    log: EventLog, host: EventSourcedGrpcWorkerAgentRuntimeHost
) -> None:
    async with grpc.aio.insecure_channel(host.address) as channel:
        stub: Any = state_pb2_grpc.AgentStateServiceStub(channel)

        async def save(text: str, request_id: bytes, etag: str = "", key: str = "1") -> str:
            agent = state_pb2.AgentId(type="workflow", key=key)
            state = state_pb2.AgentState(agent_id=agent, text_data=text, etag=etag)
            answer = await stub.SaveState(state_pb2.SaveStateRequest(agent_state=state, request_id=request_id))
            return answer.etag

        first = await save("one", b"a")
        assert await save("one", b"a") == first
        second = await save("two", b"b", first)
        assert await save("two", b"b", first) == second, "its own state is no conflict"
        assert await save("one", b"a") == first, "it was done, whatever came after it"
        assert await save("another", b"b") not in (first, second), "another save, whatever it calls itself"
        await save("one", b"a", key="2")
        assert len([event async for event in log.read(state_stream(ONE))]) == 3
        assert len([event async for event in log.read(state_stream("workflow/2"))]) == 1


# -- the host -----------------------------------------------------------------------------------------------------


async def test_a_host_without_a_state_service_says_so(dsn: str) -> None:
    async with EventLog.open(dsn) as log, serving(log) as ours:
        port = ours.address
    plain = GrpcWorkerAgentRuntimeHost(port)
    plain.start()
    try:
        async with AgentStateClient(port) as client:
            with pytest.raises(StateRefused) as caught:
                await client.get(ONE)
            assert caught.value.code == "UNIMPLEMENTED"
            assert "EventSourcedGrpcWorkerAgentRuntimeHost" in str(caught.value)
    finally:
        await plain.stop(grace=0)


async def test_nobody_there_is_told_within_the_bound() -> None:
    async with AgentStateClient("localhost:1", timeout=0.4) as client:
        began = asyncio.get_running_loop().time()
        with pytest.raises(StateServiceUnavailable) as caught:
            await client.get(ONE)
        assert asyncio.get_running_loop().time() - began < 5
        assert (caught.value.host, caught.value.agent, caught.value.waited_seconds) == (
            "localhost:1",
            "workflow/1",
            0.4,
        )
        with pytest.raises(StateServiceUnavailable) as caught:
            await client.save(ONE, "x", timeout=0.2)
        assert caught.value.waited_seconds == 0.2


async def test_a_client_that_was_closed_connects_anew(client: AgentStateClient) -> None:
    await client.save(ONE, "x")
    await client.close()
    await client.close()
    assert await data_of(client) == "x"


async def test_a_closed_log_is_a_service_that_is_away(dsn: str) -> None:
    async with EventLog.open(dsn) as log:
        host = EventSourcedGrpcWorkerAgentRuntimeHost("localhost:0", log)
    host.start()
    try:
        async with AgentStateClient(host.address, timeout=0.3) as client:
            with pytest.raises(StateServiceUnavailable) as caught:
                await client.get(ONE)
            assert "closed" in caught.value.problem
    finally:
        await host.stop(grace=0)
