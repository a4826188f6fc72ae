"""A factory with other parameters than at record time: found and said, by replay and from snapshots (A18)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from autogen_core import AgentId, MessageContext, RoutedAgent, TopicId, message_handler

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog import recovery as recovering
from autogen_eventlog.errors import Divergence
from autogen_eventlog.events import EventType
from autogen_eventlog.snapshots import SnapshotPolicy

AGENT = AgentId("worker", "k")


@dataclass
class Do:
    text: str


class Worker(RoutedAgent):
    """Tries as often as it was told to."""

    def __init__(self, retries: int, secret: str = "s3cret", loud: bool = False) -> None:
        super().__init__("works")
        self.retries = retries
        self.secret = secret
        self._loud = loud
        self.tried: list[int] = []

    @message_handler
    async def on_do(self, message: Do, ctx: MessageContext) -> int:
        self.tried.append(self.retries)
        if self._loud:
            await self.publish_message(Do(message.text.upper()), TopicId("done", "all"))
        return self.retries


@pytest.fixture
async def log(dsn: str) -> AsyncGenerator[EventLog]:
    recovering.warned.clear()
    async with EventLog.open(dsn) as opened:
        yield opened


@asynccontextmanager
async def started(log: EventLog, retries: int, **more: Any) -> AsyncGenerator[EventSourcedAgentRuntime]:
    handler = EventLogHandler(log, snapshots=SnapshotPolicy(within=None))
    runtime = EventSourcedAgentRuntime(intervention_handlers=[handler])
    await Worker.register(runtime, "worker", lambda: Worker(retries, **more))
    runtime.start()
    yield runtime
    await runtime.stop_when_idle()


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if "other parameters" in one.getMessage()]


async def test_an_activation_says_what_the_factory_made_and_nosecrets(log: EventLog) -> None:
    async with started(log, 3) as runtime:
        await runtime.send_message(Do("it"), AGENT)
    [activated] = [one async for one in log.read(AGENT) if one.type is EventType.AGENT_ACTIVATED]
    made = activated.metadata["producer"]["parameters"]
    assert (made["self.retries"], made["self._loud"]) == (3, False)
    assert "s3cret" not in str(activated.metadata)


async def test_other_parameters_are_said_once_with_those_of_then_and_now(
    log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    async with started(log, 3) as runtime:
        await runtime.send_message(Do("it"), AGENT)
        await runtime.send_message(Do("it"), AgentId("worker", "other"))
    async with started(log, 3) as runtime:
        await runtime.send_message(Do("it"), AGENT)
        assert said(caplog) == []
    async with started(log, 0) as runtime:
        with pytest.raises(Divergence) as found:  # its reply is that of its parameter
            await runtime.send_message(Do("it"), AGENT)
    assert found.value.likely_cause.startswith(
        "its factory now makes it with other parameters (self.retries: 3 and 0); or "
    )


async def test_by_replay_an_agent_has_the_parameters_of_now_and_from_a_snapshot_those_of_then(
    log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    async with started(log, 3) as runtime:
        await runtime.send_message(Do("it"), AGENT)
        before = await log.head(AGENT)
        assert before is not None
    async with started(log, 3, secret="another") as runtime:
        await runtime.send_message(Do("it"), AGENT)
        [warned] = said(caplog)
        assert "worker/k: its factory now makes it with other parameters (self.secret)" in warned
        assert "it has those of now" in warned
        live = await runtime.try_get_underlying_agent_instance(AGENT, Worker)
        assert live.secret == "another"
        assert (await runtime.snapshot(AGENT)).proven
    recovering.warned.clear()
    async with started(log, 0, secret="a third") as runtime:
        live = await runtime.try_get_underlying_agent_instance(AGENT, Worker)
        assert (live.retries, live.secret, live.tried) == (3, "another", [3, 3])
        [_, warned] = said(caplog)
        assert "(self.retries: 3 and 0, self.secret)" in warned
        assert "from its snapshot it has those of then" in warned
        assert await runtime.send_message(Do("it"), AGENT) == 3
        other = await runtime.try_get_underlying_agent_instance(AgentId("worker", "new"), Worker)
        assert (other.retries, other.secret) == (0, "a third")
    assert len(said(caplog)) == 2


async def test_a_change_of_code_is_no_change_of_parameters(
    log: EventLog, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(log, 3) as runtime:
        await runtime.send_message(Do("it"), AGENT)

    class Changed(Worker):
        def __init__(self) -> None:
            super().__init__(3)
            self._new = 1

    handler = EventLogHandler(log)
    runtime = EventSourcedAgentRuntime(intervention_handlers=[handler])
    await Changed.register(runtime, "worker", Changed)
    runtime.start()
    await runtime.send_message(Do("it"), AGENT)
    await runtime.stop_when_idle()
    assert said(caplog) == []
