"""A worker checks the code of its own types against the log."""

from __future__ import annotations

from autogen_eventlog.checking import CheckOutcome
from tests.integration.drop_in import Add, Adder, Total
from tests.integration.test_worker_mixed import ONE
from tests.integration.workers import Workers, workers

__all__ = ["workers"]


async def test_a_worker_checks_agents_of_its_own_types_and_disturbs_none(workers: Workers) -> None:
    caller, first, second = [await workers.ours() for _ in range(3)]
    await first.register_factory("one", Adder)
    assert await caller.send_message(Add(1), ONE) == Total(1)
    before = await workers.log.head(ONE)
    assert before is not None
    [check] = (await first.check()).agents
    assert (check.agent, check.same, check.exact, check.events) == (str(ONE), True, True, before.version)
    assert (await second.check()).agents == ()
    [unknown] = (await second.check([ONE])).agents
    assert unknown.outcome is CheckOutcome.UNKNOWN_TYPE
    assert await workers.log.head(ONE) == before
    assert await caller.send_message(Add(2), ONE) == Total(3)
