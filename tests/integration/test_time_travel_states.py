"""Saved states, snapshots, and what becomes of bad ones (A12, A36; G3, G11)."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from autogen_core import AgentId, MessageContext, RoutedAgent, message_handler

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.errors import EventLogError, InvalidState
from autogen_eventlog.events import EventType
from autogen_eventlog.snapshots import SnapshotPolicy

ALICE, BOB = AgentId("keeper", "alice"), AgentId("keeper", "bob")
PLAIN, OTHER, FORGETFUL = AgentId("plain", "alice"), AgentId("other", "alice"), AgentId("forgetful", "alice")


LIE = '{"values":[1],"seen":[1]}'


@dataclass
class Put:
    value: int


@dataclass
class Count:
    value: int


class Plain(RoutedAgent):
    """Says nothing of its state."""

    def __init__(self) -> None:
        super().__init__("plain")
        self.values: list[int] = []
        self._seen: set[int] = set()

    @message_handler
    async def on_put(self, message: Put, ctx: MessageContext) -> Count:
        self.values.append(message.value)
        self._seen.add(message.value)
        return Count(len(self.values))


class Keeper(Plain):
    """Saves and loads its state as AutoGen asks."""

    loads = 0

    async def save_state(self) -> Mapping[str, Any]:
        return {"values": list(self.values), "seen": sorted(self._seen)}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        Keeper.loads += 1
        self.values = list(state["values"])
        self._seen = set(state["seen"])


class Forgetful(Plain):
    """Its save_state leaves a field out."""

    async def save_state(self) -> Mapping[str, Any]:
        return {"values": list(self.values)}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        self.values = list(state["values"])


class Other(RoutedAgent):
    """Handles other messages, and loads other states."""

    def __init__(self) -> None:
        super().__init__("other")
        self.text = ""

    @message_handler
    async def on_count(self, message: Count, ctx: MessageContext) -> None:
        self.text += str(message.value)

    async def save_state(self) -> Mapping[str, Any]:
        return {"text": self.text}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        self.text = state["text"]


@asynccontextmanager
async def started(log: EventLog) -> AsyncIterator[EventSourcedAgentRuntime]:
    policy = SnapshotPolicy(every=5, within=None, kind="save_state")
    runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, snapshots=policy)])
    await Plain.register(runtime, "plain", Plain)
    await Keeper.register(runtime, "keeper", Keeper)
    await Forgetful.register(runtime, "forgetful", Forgetful)
    await Other.register(runtime, "other", Other)
    runtime.start()
    yield runtime
    await runtime.stop()


@pytest.fixture
async def log(dsn: str) -> AsyncIterator[EventLog]:
    async with EventLog.open(dsn) as opened:
        yield opened


async def put(runtime: EventSourcedAgentRuntime, agent: AgentId, *values: int) -> None:
    for value in values:
        await runtime.send_message(Put(value), agent)
        await runtime.recorded_agents.snapshots.settled()


async def values_of(runtime: EventSourcedAgentRuntime, agent: AgentId) -> list[int]:
    return (await runtime.try_get_underlying_agent_instance(agent, Plain)).values


def as_json(state: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(state))


# -- saved states -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", [ALICE, PLAIN])
async def test_a_saved_state_brings_the_agent_back_through_json(log: EventLog, agent: AgentId) -> None:
    async with started(log) as runtime:
        await put(runtime, agent, 1, 2)
        state = as_json(await runtime.agent_save_state(agent))
        assert (state["stream"], len(json.dumps(state)) < 500) == (str(agent), True)
        await put(runtime, agent, 3)
        await runtime.agent_load_state(agent, state)
        assert await values_of(runtime, agent) == [1, 2]
        await put(runtime, agent, 4)
        assert (await runtime.view(agent, type=Plain)).values == [1, 2, 4]


@pytest.mark.parametrize("agent", [ALICE, PLAIN])
async def test_a_saved_state_loaded_under_another_key_is_a_fork(log: EventLog, agent: AgentId) -> None:
    fork = AgentId(agent.type, "fork")
    async with started(log) as runtime:
        await put(runtime, agent, 1, 2)
        await runtime.agent_load_state(fork, as_json(await runtime.agent_save_state(agent)))
        await put(runtime, agent, 3)
        await put(runtime, fork, 40)
        assert await values_of(runtime, agent) == [1, 2, 3]
        assert await values_of(runtime, fork) == [1, 2, 40]
        types = [event.type async for event in log.read(fork)]
        assert types[0] is EventType.STREAM_FORKED
    async with started(log) as later:
        assert (await later.view(fork, type=Plain)).values == [1, 2, 40]
        assert (await later.send_message(Put(5), fork)) == Count(4)


async def test_a_fork_can_be_viewed_at_each_of_its_versions(log: EventLog) -> None:
    fork = AgentId("plain", "fork")
    async with started(log) as runtime:
        await put(runtime, PLAIN, 1, 2)
        await runtime.agent_load_state(fork, await runtime.agent_save_state(PLAIN))
        await put(runtime, fork, 3)
        head = await log.head(fork)
        assert head is not None
        seen = [
            (await runtime.view(fork, version=version, type=Plain)).values for version in range(1, head.version + 1)
        ]
        assert seen[0] == [1, 2]
        assert seen[-1] == [1, 2, 3]


async def test_a_state_of_another_type_is_refused_and_nothing_changes(log: EventLog) -> None:
    async with started(log) as runtime:
        await put(runtime, PLAIN, 1)
        await runtime.send_message(Count(7), OTHER)
        before = [event async for event in log.read(OTHER)]
        with pytest.raises(EventLogError):
            await runtime.agent_load_state(OTHER, await runtime.agent_save_state(PLAIN))
        assert [event async for event in log.read(OTHER)] == before
        assert (await runtime.try_get_underlying_agent_instance(OTHER, Other)).text == "7"
        await runtime.send_message(Count(8), OTHER)
        assert (await runtime.view(OTHER, type=Other)).text == "78"


async def test_a_plain_autogen_state_is_loaded_and_recorded(log: EventLog) -> None:
    async with started(log) as runtime:
        await runtime.agent_load_state(ALICE, {"values": [7, 8], "seen": [7, 8]})
        await put(runtime, ALICE, 9)
    async with started(log) as later:
        view = await later.view(ALICE, type=Plain)
        assert (view.values, view._seen) == ([7, 8, 9], {7, 8, 9})
        assert await later.send_message(Put(10), ALICE) == Count(4)
    types = [event.type async for event in log.read(ALICE)]
    assert EventType.STATE_LOADED in types


@pytest.mark.parametrize(
    "state",
    [
        {"format": "autogen-eventlog/99", "stream": "keeper/alice", "version": 1, "state": None},
        {"format": "autogen-eventlog/1", "stream": "keeper/alice"},
        {"format": "autogen-eventlog/1", "stream": 3, "version": 1, "state": None},
        {"format": "autogen-eventlog/1", "stream": "keeper/alice", "version": -1, "state": None},
        {"format": "autogen-eventlog/1", "stream": "keeper/elsewhere", "version": 10, "state": None},
    ],
)
async def test_a_state_that_is_not_whole_is_refused_and_nothing_changes(log: EventLog, state: dict[str, Any]) -> None:
    async with started(log) as runtime:
        await put(runtime, ALICE, 1)
        before = await log.head(ALICE)
        with pytest.raises(InvalidState) as refused:
            await runtime.agent_load_state(ALICE, state)
        assert refused.value.agent == "keeper/alice"
        assert await log.head(ALICE) == before
        assert await values_of(runtime, ALICE) == [1]


async def test_the_state_of_all_agents_comes_back_as_a_whole(log: EventLog) -> None:
    async with started(log) as runtime:
        await put(runtime, ALICE, 1)
        await put(runtime, PLAIN, 2)
        state = as_json(await runtime.save_state())
        await put(runtime, ALICE, 3)
        await put(runtime, PLAIN, 4)
        await runtime.load_state(state)
        assert (await values_of(runtime, ALICE), await values_of(runtime, PLAIN)) == ([1], [2])
        with pytest.raises(InvalidState):
            await runtime.load_state({**state, "stranger/1": state["plain/alice"]})


async def test_saving_an_agent_that_never_lived_makes_none(log: EventLog) -> None:
    async with started(log) as runtime:
        state = as_json(await runtime.agent_save_state(ALICE))
        assert state["version"] == 0
        assert await log.head(ALICE) is None
        await runtime.agent_load_state(ALICE, state)
        assert [event async for event in log.read(ALICE)] == []


# -- snapshots ----------------------------------------------------------------------------------------------------


async def test_an_agent_that_can_say_its_state_is_recovered_and_viewed_from_snapshots(log: EventLog) -> None:
    async with started(log) as runtime:
        await put(runtime, ALICE, *range(10))
        snapshots = await log.snapshots.list_snapshots("keeper/alice")
        assert len(snapshots) >= 3
    loads = Keeper.loads
    async with started(log) as later:
        view = await later.view(ALICE, type=Plain)
        assert (view.values, view._seen) == (list(range(10)), set(range(10)))
        assert Keeper.loads == loads + 1
        report = await later.restore(ALICE, version=snapshots[1].version + 2)
        assert report.snapshot_version in {snapshot.version for snapshot in snapshots}
        assert report.events_replayed < 10
        assert (await later.send_message(Put(99), ALICE)).value == len(await values_of(later, ALICE))


async def test_every_version_is_the_same_with_and_without_snapshots(log: EventLog, dsn: str) -> None:
    async with started(log) as runtime:
        await put(runtime, ALICE, *range(8))
        head = await log.head(ALICE)
        assert head is not None
        versions = range(1, head.version + 1)
        with_them = [(await runtime.view(ALICE, version=version, type=Plain)).values for version in versions]
        sql(dsn, "DELETE FROM eventlog.snapshot")
        without = [(await runtime.view(ALICE, version=version, type=Plain)).values for version in versions]
    assert with_them == without


@pytest.mark.parametrize(
    "damage",
    [
        "payload = ''",
        "payload = '{\"values\":'",
        "payload = '[]'",
        "payload = '{}'",
        'payload = \'{"$t":"os:system"}\'',
        "metadata = '{}'",
        'metadata = \'{"tick": "many"}\'',
    ],
)
async def test_a_damaged_snapshot_is_set_aside_for_an_older_one(
    log: EventLog, dsn: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with started(log) as runtime:
        await put(runtime, ALICE, *range(10))
        newest = max(snapshot.version for snapshot in await log.snapshots.list_snapshots("keeper/alice"))
    sql(dsn, f"UPDATE eventlog.snapshot SET {damage} WHERE version = {newest}")
    async with started(log) as later:
        with caplog.at_level(logging.WARNING):
            assert (await later.view(ALICE, type=Plain)).values == list(range(10))
        assert f"snapshot at version {newest}" in caplog.text
        assert await later.send_message(Put(10), ALICE) == Count(11)


async def test_when_all_snapshots_are_damaged_the_whole_history_is_replayed(log: EventLog, dsn: str) -> None:
    async with started(log) as runtime:
        await put(runtime, ALICE, *range(10))
    sql(dsn, "UPDATE eventlog.snapshot SET payload = 'nonsense'")
    async with started(log) as later:
        assert await later.send_message(Put(10), ALICE) == Count(11)
        assert (await later.view(ALICE, type=Plain)).values == list(range(11))


async def test_a_snapshot_that_lies_is_never_taken_for_the_state(log: EventLog, dsn: str) -> None:
    """It can be decoded and loaded, but what the log says afterwards does not fit it."""
    async with started(log) as runtime:
        await put(runtime, ALICE, *range(11))
    head = await log.head(ALICE)
    assert head is not None
    snapshots = await log.snapshots.list_snapshots("keeper/alice")
    newest = max(snapshot.version for snapshot in snapshots if snapshot.version < head.version)
    sql(dsn, f"DELETE FROM eventlog.snapshot WHERE version > {newest}")
    sql(dsn, f"UPDATE eventlog.snapshot SET payload = '{LIE}' WHERE version = {newest}")
    async with started(log) as later:
        assert (await later.view(ALICE, type=Plain)).values == list(range(11))


async def test_an_agent_whose_save_state_forgets_a_field_gets_no_snapshot_and_is_right_nonetheless(
    log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with started(log) as runtime:
            await put(runtime, FORGETFUL, *range(10))
    assert await log.snapshots.list_snapshots("forgetful/alice") == []
    warnings = [record.getMessage() for record in caplog.records if "forgetful/alice" in record.getMessage()]
    assert len(warnings) == 1
    assert "_seen" in warnings[0]
    async with started(log) as later:
        view = await later.view(FORGETFUL, type=Plain)
        assert (view.values, view._seen) == (list(range(10)), set(range(10)))
        assert await later.send_message(Put(10), FORGETFUL) == Count(11)


def sql(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement.encode())
