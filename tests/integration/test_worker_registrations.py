"""What a worker registers is at the host under the id of streams that are open, and nothing is left under one that is not.

The host forgets what a client registered when its stream ends, and never what was registered after that.
"""

from __future__ import annotations

import asyncio

import grpc.aio
import pytest
from autogen_core import AgentId, TypeSubscription
from autogen_ext.runtimes.grpc.protos import agent_worker_pb2 as pb
from autogen_ext.runtimes.grpc.protos import agent_worker_pb2_grpc as pb_grpc

from autogen_eventlog.distributed import EventSourcedGrpcWorkerAgentRuntime
from autogen_eventlog.distributed.connection import HostConnection
from autogen_eventlog.errors import AgentTypeTaken
from tests.integration.drop_in import Add, Adder, Total
from tests.integration.workers import Host, Workers, hosting, outcome, until, workers

__all__ = ["workers"]

ONE = AgentId("one", "k")


def connection_of(worker: EventSourcedGrpcWorkerAgentRuntime) -> HostConnection:
    assert worker._connection is not None
    return worker._connection


def types_at(host: Host) -> dict[str, str]:
    """By the host, without the workers' own: which client has an agent type."""
    assert host._host is not None
    known = host._host._servicer._agent_type_to_client_id
    return {name: client for name, client in known.items() if not name.startswith("$")}


async def register(host: Host, agent_type: str, client_id: str) -> None:
    """As a request does that was on its way while the stream of its client ended."""
    async with grpc.aio.insecure_channel(host.address) as channel:
        stub = pb_grpc.AgentRpcStub(channel)  # type: ignore[no-untyped-call]
        await stub.RegisterAgent(pb.RegisterAgentTypeRequest(type=agent_type), metadata=(("client-id", client_id),))


async def test_a_type_that_is_registered_while_the_host_restarts_is_known_to_the_new_host(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, worker = await workers.ours(patience=20.0), await workers.ours()
    connection, handler = connection_of(worker), worker._handler
    assert handler is not None
    kept = handler.log.subscriptions
    begin_anew = kept.begin_anew

    async def begin_anew_during_a_restart(agent_type: str) -> None:
        before = connection.client_id
        await workers.host.restart()
        await until(lambda: connection.is_up and connection.client_id != before, "the worker is connected anew")
        await begin_anew(agent_type)

    monkeypatch.setattr(kept, "begin_anew", begin_anew_during_a_restart)
    await worker.register_factory("one", Adder)
    assert types_at(workers.host) == {"one": connection.client_id}
    assert await outcome(caller.send_message(Add(1), ONE), 15) == Total(1)


async def test_nothing_is_asked_of_the_host_in_nobodys_name(workers: Workers) -> None:
    connection = HostConnection(workers.host.address, on_message=print, on_control=print, on_open=_nothing)
    await connection._connect()
    await connection._drop()  # and nobody connects anew
    try:
        with pytest.raises(grpc.aio.AioRpcError, match="no connection to the host now"):
            await connection.ask_host("RegisterAgent", pb.RegisterAgentTypeRequest(type="one"))
        assert types_at(workers.host) == {}
    finally:
        await connection.close()


async def test_what_came_to_the_host_after_its_stream_had_ended_does_not_keep_the_type_from_its_worker(
    workers: Workers,
) -> None:
    cable = await workers.cable()
    caller, worker = await workers.ours(patience=20.0), await workers.ours(address=cable.address)
    await worker.register_factory("one", Adder)
    assert await caller.send_message(Add(1), ONE) == Total(1)
    lost = connection_of(worker).client_id
    cable.cut()
    await until(lambda: types_at(workers.host) == {}, "the host has noticed")
    await register(workers.host, "one", lost)
    cable.mend()
    assert await outcome(caller.send_message(Add(2), ONE), 15) == Total(3)
    assert types_at(workers.host) == {"one": connection_of(worker).client_id} != {"one": lost}
    assert worker.health().elsewhere == ()


async def test_a_type_that_is_this_workers_already_is_no_other_workers(workers: Workers) -> None:
    """The answer to the first request may have been lost."""
    worker = await workers.ours()
    await register(workers.host, "one", connection_of(worker).client_id)
    await worker.register_factory("one", Adder)
    assert types_at(workers.host) == {"one": connection_of(worker).client_id}


async def test_an_end_is_noticed_by_a_host_that_forgets_nothing_else() -> None:
    """The rule this rests on, shown on AutoGen's host: a type that is registered without a stream stays for ever."""
    async with hosting() as host:
        await register(host, "one", "gone")
        with pytest.raises(grpc.aio.AioRpcError, match="already registered with client gone"):
            await register(host, "one", "another")
        connection = HostConnection(host.address, on_message=print, on_control=print, on_open=_nothing)
        connection._left.append("gone")
        await connection.open(5.0)
        await until(lambda: types_at(host) == {}, "the host has forgotten it")
        await connection.close()


async def _nothing() -> None:
    await asyncio.sleep(0)


async def test_a_type_that_another_worker_got_while_the_host_restarted_stays_that_workers(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was refused in the end wants it no more, and has ended nobody's subscriptions."""
    one, two = await workers.ours(), await workers.ours()
    registrations, connection = one._registered(), connection_of(one)
    register = registrations._register

    async def register_and_lose_it(agent_type: str) -> str:
        client = await register(agent_type)
        monkeypatch.undo()
        await workers.host.restart()
        await until(lambda: two.health().connected and types_at(workers.host) == {}, "the other is connected anew")
        await two.register_factory(agent_type, Adder)
        await two.add_subscription(TypeSubscription("t", agent_type))
        await until(lambda: connection.is_up and connection.client_id != client, "this one is too")
        return client

    monkeypatch.setattr(registrations, "_register", register_and_lose_it)
    with pytest.raises(AgentTypeTaken):
        await one.register_factory("one", Adder)
    assert types_at(workers.host) == {"one": connection_of(two).client_id}
    assert [kept.agent_type for kept in await workers.log.subscriptions.all(grace=0)] == ["one"]
    await until(lambda: not registrations.elsewhere, "it is asked for no more")
    await two.stop()
    three = await workers.ours()
    await three.register_factory("one", Adder)
    assert types_at(workers.host) == {"one": connection_of(three).client_id}
