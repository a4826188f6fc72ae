"""Workers that are cut off: from the host, one way or both, and from the database; and workers whose agents others took."""

from __future__ import annotations

import asyncio

import pytest
from autogen_core import AgentId, MessageContext, RoutedAgent, TypeSubscription, rpc

from autogen_eventlog import EventLog, EventType, effect
from autogen_eventlog.errors import DatabaseUnavailable, Undeliverable
from tests.integration.drop_in import Add, Adder, Notice, Total, instance, stream, topic
from tests.integration.store import eventually
from tests.integration.workers import Listener, Workers, outcome, until, workers

__all__ = ["workers"]

ONE, EAR = AgentId("one", "k"), AgentId("ear", "k")
WAYS = pytest.mark.parametrize("way", ["out", "in"])


async def test_a_caller_that_can_send_and_not_receive_has_its_answer_from_the_log(workers: Workers) -> None:
    cable = await workers.cable()
    caller, worker = await workers.ours(address=cable.address, patience=20.0), await workers.ours()
    await worker.register_factory("one", Adder)
    assert await caller.send_message(Add(1), ONE) == Total(1)
    cable.stop("in")
    assert await outcome(caller.send_message(Add(2), ONE), 5) == Total(3)
    assert len(await stream(workers.log, ONE, EventType.MESSAGE_DELIVERED)) == 2


async def test_an_agent_whose_worker_can_receive_and_not_send_answers_by_the_log(workers: Workers) -> None:
    cable = await workers.cable()
    caller, worker = await workers.ours(patience=20.0), await workers.ours(address=cable.address)
    await worker.register_factory("one", Adder)
    assert await caller.send_message(Add(1), ONE) == Total(1)
    cable.stop("out")
    assert await outcome(caller.send_message(Add(2), ONE), 5) == Total(3)
    assert len(await stream(workers.log, ONE, EventType.MESSAGE_DELIVERED)) == 2


@WAYS
async def test_an_agent_whose_worker_is_cut_off_one_way_gets_each_message_once_when_it_is_back(
    workers: Workers, way: str
) -> None:
    """Also if the cut lasts until the worker has noticed it and has connected anew."""
    cable = await workers.cable()
    caller = await workers.ours(patience=60.0)
    worker = await workers.ours(Notice, address=cable.address)
    await worker.register_factory("one", Adder)
    await worker.register_factory("ear", Listener)
    await worker.add_subscription(TypeSubscription("t", "ear"))
    assert await caller.send_message(Add(1), ONE) == Total(1)
    cable.stop(way)
    calls = [asyncio.create_task(caller.send_message(Add(number), ONE)) for number in (2, 3)]
    await caller.publish_message(Notice("now"), topic())
    await until(lambda: not worker.health().connected, "the worker has noticed", timeout=20)
    cable.flow()
    answers = await asyncio.wait_for(asyncio.gather(*calls), 30)
    assert sorted(answer.number for answer in answers) in ([3, 6], [4, 6])
    await until(lambda: worker.health().connected, "the worker is back", timeout=20)
    assert await outcome(caller.send_message(Add(4), ONE), 20) == Total(10)
    live: Listener = await instance(worker, EAR)  # type: ignore[assignment]
    await until(lambda: live.heard == ["now"], "the publication is heard, once")
    assert len(await stream(workers.log, ONE, EventType.MESSAGE_DELIVERED)) == 4


@WAYS
async def test_a_call_to_a_worker_that_stays_cut_off_ends_in_bounded_time(workers: Workers, way: str) -> None:
    """If it can still receive, it has answered by the log."""
    cable = await workers.cable()
    caller, worker = await workers.ours(patience=1.0), await workers.ours(address=cable.address)
    await worker.register_factory("one", Adder)
    assert await caller.send_message(Add(1), ONE) == Total(1)
    cable.stop(way)
    found = await outcome(caller.send_message(Add(2), ONE), 10)
    assert found == Total(3) if way == "out" else isinstance(found, Undeliverable), found


class Gated(RoutedAgent):
    """Begins to answer, and ends when the test says so."""

    begun: list[int]
    may_end: bool

    def __init__(self) -> None:
        super().__init__("gated")
        self.total = 0

    @rpc
    async def on_add(self, message: Add, ctx: MessageContext) -> Total:
        Gated.begun.append(message.number)
        while not Gated.may_end:
            await asyncio.sleep(0.01)
        self.total += message.number
        return Total(self.total)


async def test_a_worker_whose_agent_was_taken_over_does_not_answer_in_its_place(dsn: str, workers: Workers) -> None:
    """It is fenced, and what it would say is not true (G6): the caller has the answer of whoever goes on."""
    Gated.begun, Gated.may_end = [], False
    caller, worker = await workers.ours(patience=20.0), await workers.ours()
    await worker.register_factory("one", Gated)
    call = asyncio.create_task(caller.send_message(Add(5), ONE))
    await until(lambda: Gated.begun == [5], "the handler runs")
    async with EventLog.open(dsn) as other:  # another process, that takes the agent and is gone again
        await other.start_writing()
        await other.ownership.claim(str(ONE), takeover=True)
        Gated.may_end = True

        await eventually(lambda: workers.log.audit.refused_writes(agent=ONE), "what it would have recorded is refused")
        assert not call.done()
    assert await outcome(call, 15) == Total(5)
    assert Gated.begun == [5, 5]
    assert await outcome(caller.send_message(Add(1), ONE), 5) == Total(6)
    assert len(await stream(workers.log, ONE, EventType.MESSAGE_DELIVERED)) == 2


async def test_a_plain_caller_of_an_agent_that_was_taken_over_gets_an_error(dsn: str, workers: Workers) -> None:
    """It can't look into the log."""
    Gated.begun, Gated.may_end = [], False
    caller, worker = await workers.plain(), await workers.ours()
    await worker.register_factory("one", Gated)
    call = asyncio.create_task(caller.send_message(Add(5), ONE))
    await until(lambda: Gated.begun == [5], "the handler runs")
    async with EventLog.open(dsn) as other:
        await other.start_writing()
        await other.ownership.claim(str(ONE), takeover=True)
        Gated.may_end = True
        found = await outcome(call, 5)
    assert isinstance(found, Exception) and "took this agent over" in str(found), found


async def test_a_worker_that_is_back_and_has_lost_a_type_to_another_lets_it_have_the_agents(workers: Workers) -> None:
    """Both live: without that, the other would be told for ever that the agents are somebody else's."""
    cable = await workers.cable()
    caller = await workers.ours(patience=20.0)
    first = await workers.ours(address=cable.address)
    await first.register_factory("one", Adder)
    assert await caller.send_message(Add(1), ONE) == Total(1)
    cable.cut()
    second = await workers.ours(registration_patience=10.0, patience=20.0)
    await second.register_factory("one", Adder)
    cable.mend()
    assert await outcome(caller.send_message(Add(2), ONE), 15) == Total(3)
    await until(lambda: first.health().elsewhere == ("one",), "the first is back, without the type")
    assert (first.health().agents, second.health().agents) == (0, 1)
    assert await outcome(caller.send_message(Add(3), ONE), 5) == Total(6)


@effect("gate")
async def gate() -> None:
    while not Gated.may_end:
        await asyncio.sleep(0.01)


class Recorded(Adder):
    """Waits for the test by an effect, so that a replay knows how long."""

    @rpc
    async def on_add(self, message: Add, ctx: MessageContext) -> Total:
        Gated.begun.append(message.number)
        await gate()
        self.total += message.number
        return Total(self.total)


async def test_a_handler_that_runs_ends_before_its_agent_is_let_go(workers: Workers) -> None:
    Gated.begun, Gated.may_end = [], False
    cable = await workers.cable()
    caller = await workers.ours(patience=20.0)
    first = await workers.ours(address=cable.address)
    await first.register_factory("one", Recorded)
    call = asyncio.create_task(caller.send_message(Add(1), ONE))
    await until(lambda: Gated.begun == [1], "the handler runs")
    cable.cut()
    second = await workers.ours(registration_patience=10.0, patience=20.0, continue_left_handlers=False)
    await second.register_factory("one", Recorded)
    cable.mend()
    await until(lambda: first.health().elsewhere == ("one",), "the first is back, without the type")
    assert (first.health().agents, first.health().running) == (1, 1)
    later = asyncio.create_task(caller.send_message(Add(2), ONE))
    Gated.may_end = True
    assert await outcome(call, 15) == Total(1)
    assert await outcome(later, 15) == Total(3)
    assert (Gated.begun, first.health().agents, second.health().agents) == ([1, 1, 2], 0, 1)  # once more in the replay


# -- the database -------------------------------------------------------------------------------------------------

IMPATIENT = {"unavailable_after": 1.0, "lease": 1.0}


@pytest.mark.parametrize("ways", [("out",), ("in",), ("out", "in")])
async def test_a_worker_that_is_cut_off_from_the_database_says_so_and_goes_on_from_the_log_when_it_is_back(
    workers: Workers, ways: tuple[str, ...]
) -> None:
    """What it was about to record may arrive still, if the cut was of the answer alone: the log decides."""
    cable, dsn = await workers.database_cable()
    caller = await workers.ours(patience=30.0)
    worker = await workers.ours(opening={**IMPATIENT, "dsn": dsn})
    await worker.register_factory("one", Adder)
    assert await caller.send_message(Add(1), ONE) == Total(1)
    for way in ways:
        cable.stop(way)
    found = await outcome(caller.send_message(Add(10), ONE), 20)
    assert isinstance(found, DatabaseUnavailable) or found == Total(11), found
    assert found == Total(11) or found.waited_seconds == 1.0
    cable.flow()
    after = await outcome(caller.send_message(Add(100), ONE), 20)
    delivered = len(await stream(workers.log, ONE, EventType.MESSAGE_DELIVERED))
    assert (after, delivered) in ((Total(111), 3), (Total(101), 2))
    assert (await worker.view(ONE, type=Adder)).total == after.number


async def test_a_worker_that_is_cut_off_from_everything_is_replaced_after_its_lease_and_fenced_when_it_is_back(
    workers: Workers,
) -> None:
    Gated.begun, Gated.may_end = [], False
    (database, dsn), host = await workers.database_cable(), await workers.cable()
    caller = await workers.ours(patience=30.0)
    first = await workers.ours(address=host.address, opening={**IMPATIENT, "dsn": dsn, "unavailable_after": 30.0})
    await first.register_factory("one", Gated)
    call = asyncio.create_task(caller.send_message(Add(1), ONE))
    await until(lambda: Gated.begun == [1], "the handler runs")
    for way in ("out", "in"):
        database.stop(way)
    host.cut()
    Gated.may_end = True
    second = await workers.ours(registration_patience=10.0, patience=20.0)
    await second.register_factory("one", Gated)
    assert await outcome(call, 20) == Total(1)
    assert await outcome(caller.send_message(Add(2), ONE), 20) == Total(3)
    database.flow()
    host.mend()
    await until(lambda: first.health().elsewhere == ("one",), "the first is back, without the type", timeout=30)
    assert await outcome(caller.send_message(Add(3), ONE), 20) == Total(6)
    assert len(await stream(workers.log, ONE, EventType.MESSAGE_DELIVERED)) == 3
    assert len(await stream(workers.log, ONE, EventType.DELIVERY_COMPLETED)) == 3
    assert (first.health().agents, second.health().agents) == (0, 1)
