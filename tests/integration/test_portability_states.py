"""AutoGen's own states, both ways: its teams of 0.4.0 to 0.7, and its runtime (A9, A13, A17, E15, E21; T33, T37, T41).

The files in `autogen_states` were saved by AutoGen 0.4.0, 0.4.8 and 0.4.9 themselves.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import AsyncMock

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import TaskResult
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import (
    AgentId,
    AgentRuntime,
    MessageContext,
    RoutedAgent,
    SingleThreadedAgentRuntime,
)
from autogen_core import message_handler as handles

from autogen_eventlog import EventLog
from autogen_eventlog.errors import (
    DatabaseUnavailable,
    EventTooLarge,
    InvalidState,
    MessageTypesMissing,
    NoOwnState,
    UnknownStream,
)
from autogen_eventlog.events import EventType
from autogen_eventlog.runtime.plain_states import current_trial
from autogen_eventlog.transfer import (
    autogen_state,
    export_session,
    import_session,
    load_team_state,
    save_team_state,
)
from tests.integration.portable_teams import (
    OTHER_TEAM,
    TEAM,
    model,
    round_robin,
    saved,
    society,
    started,
    streams,
    structured,
    with_id,
)


@pytest.fixture
async def log(dsn: str) -> AsyncGenerator[EventLog]:
    async with EventLog.open(dsn) as opened:
        yield opened


# -- teams of any version into ours ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["0.4.0", "0.4.8", "0.4.9"])
async def test_a_team_saved_by_an_older_autogen_goes_on_here_and_is_restored_by_replay(
    log: EventLog, version: str
) -> None:
    state = saved(f"round_robin-{version}")
    async with started(log) as runtime:
        team = with_id(TEAM, lambda: round_robin(runtime))
        await load_team_state(team, state)
        result = await team.run(task="more")
        assert result.messages[0].to_text() == "more"
        assert sorted(message.to_text() for message in result.messages[1:]) == ["five", "six"]
        kept = await save_team_state(team)
        loaded = [one.type async for one in log.read(f"a_{TEAM}/{TEAM}")]
        assert loaded.count(EventType.STATE_LOADED) == 1
    first = [one["content"] for one in kept["agent_states"]["a"]["agent_state"]["llm_context"]["messages"]][:3]
    assert first == ["begin", "one", "5"]
    [results] = [
        one
        for one in kept["agent_states"]["b"]["agent_state"]["llm_context"]["messages"]
        if one["type"] == "FunctionExecutionResultMessage"
    ]
    assert (results["content"][0]["name"], results["content"][0]["content"]) == ("add", "5")
    [summary] = [
        one
        for one in kept["agent_states"]["RoundRobinGroupChatManager"]["message_thread"]
        if one["type"] == "ToolCallSummaryMessage"
    ]
    assert [call["name"] for call in summary["tool_calls"]] == ["add"]
    assert [one["content"] for one in summary["results"]] == ["5"]
    async with started(log) as runtime:  # as in a new process: from the log alone
        again = with_id(TEAM, lambda: round_robin(runtime, "never asked"))
        assert await save_team_state(again) == kept


@pytest.mark.parametrize("version", ["0.4.0", "0.4.8", "0.4.9"])
async def test_teams_within_participants_are_converted_too(log: EventLog, version: str) -> None:
    async with started(log) as runtime:
        team = society(runtime)
        await load_team_state(team, saved(f"society-{version}"))
        inner = (await save_team_state(team))["agent_states"]["society"]["agent_state"]["inner_team_state"]
        assert sorted(inner["agent_states"]) == ["RoundRobinGroupChatManager", "inner"]
        assert "team_id" not in inner


async def test_autogens_own_team_load_is_recorded_and_restored_by_replay(log: EventLog) -> None:
    """Without any function of ours."""
    autogen = round_robin(None)
    await autogen.run(task="begin")
    state = json.loads(json.dumps(await autogen.save_state()))
    async with started(log) as runtime:
        team = with_id(TEAM, lambda: round_robin(runtime))
        await team.load_state(state)
        assert await save_team_state(team) == state
    async with started(log) as runtime:
        again = with_id(TEAM, lambda: round_robin(runtime))
        assert await save_team_state(again) == state
        types = {one.type async for one in log.read(f"b_{TEAM}/{TEAM}")}
        assert EventType.STATE_LOADED in types


async def test_one_participant_takes_the_state_of_an_agent_and_the_others_stay(log: EventLog) -> None:
    async with started(log) as runtime:
        team = with_id(TEAM, lambda: round_robin(runtime))
        await team.run(task="begin")
        before = await save_team_state(team)
        await load_team_state(team, saved("assistant-0.4.0"), participant="b")
        after = await save_team_state(team)
        texts = [one["content"] for one in after["agent_states"]["b"]["agent_state"]["llm_context"]["messages"]]
        assert texts == ["hello", "one"]
        for name in ("a", "RoundRobinGroupChatManager"):
            assert after["agent_states"][name] == before["agent_states"][name]
        with pytest.raises(InvalidState) as unknown:
            await load_team_state(team, saved("assistant-0.4.0"), participant="z")
        assert "'a', 'b'" in unknown.value.problem


# -- refused before anything is changed -----------------------------------------------------------------------------


def two_ids(state: dict[str, Any]) -> None:
    states = state["agent_states"]
    states[f"a/{uuid.UUID(int=9)}"] = states.pop(next(name for name in states if name.startswith("a/")))


def stranger(state: dict[str, Any]) -> None:
    states = state["agent_states"]
    old = next(name for name in states if name.startswith("a/"))
    states[old.replace("a/", "zoe/")] = states.pop(old)


def no_id(state: dict[str, Any]) -> None:
    del state["team_id"]


def newer(state: dict[str, Any]) -> None:
    state["version"] = "2.0.0"


def other_type(state: dict[str, Any]) -> None:
    state["type"] = "CrewState"


def no_mapping(state: dict[str, Any]) -> None:
    state["agent_states"] = ["a", "b"]


def other_manager(state: dict[str, Any]) -> None:
    manager = next(name for name in state["agent_states"] if name.startswith("group_chat_manager"))
    state["agent_states"][manager]["type"] = "SelectorManagerState"


def other_agent(state: dict[str, Any]) -> None:
    agent = next(name for name in state["agent_states"] if name.startswith("b/"))
    state["agent_states"][agent]["agent_state"]["type"] = "RobotState"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (two_ids, "AutoGen 0.4.0 to 0.4.8"),
        (no_id, "AutoGen 0.4.0 to 0.4.8"),
        (stranger, "'zoe'"),
        (newer, "'2.0.0'"),
        (other_type, "'CrewState'"),
        (no_mapping, "'agent_states'"),
        (other_manager, "'SelectorManagerState'"),
        (
            other_agent,
            "at agent_state its type is 'RobotState', and this agent's states have type 'AssistantAgentState'",
        ),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
async def test_a_state_of_no_known_form_is_refused_by_name_before_anything_is_changed(
    log: EventLog, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    state = saved("round_robin-0.4.8")
    change(state)
    async with started(log) as runtime:
        team = round_robin(runtime)
        await team.run(task="begin")
        before = await save_team_state(team), await streams(log)
        with pytest.raises(InvalidState) as refused:
            await load_team_state(team, state)
        assert said in refused.value.problem
        assert (await save_team_state(team), await streams(log)) == before


async def test_a_team_with_other_participants_is_refused(log: EventLog) -> None:
    async with started(log) as runtime:
        team = RoundRobinGroupChat(
            [AssistantAgent(name, model("x")) for name in ("a", "b", "c")], max_turns=1, runtime=runtime
        )
        for version in ("0.4.8", "0.4.9"):
            with pytest.raises(InvalidState) as refused:
                await load_team_state(team, saved(f"round_robin-{version}"))
            assert "no state of 'c'" in refused.value.problem
        with pytest.raises(InvalidState, match="no team's state"):
            await load_team_state(team, {"values": [1]})
        assert await streams(log) == {}


class Stubborn(AssistantAgent):
    """Takes no state with a word in it."""

    async def load_state(self, state: Mapping[str, Any]) -> None:
        await super().load_state(state)
        if "refuse me" in json.dumps(state):
            raise RuntimeError("I won't")


async def test_a_team_is_as_it_was_where_one_of_its_agents_refuses_its_state(log: EventLog) -> None:
    state = saved("round_robin-0.4.9")
    state["agent_states"]["b"]["agent_state"]["llm_context"]["messages"][0]["content"] = "refuse me"
    async with started(log) as runtime:
        agents: list[Any] = [AssistantAgent("a", model("five")), Stubborn("b", model("six"))]
        team = RoundRobinGroupChat(agents, max_turns=2, runtime=runtime)
        await team.run(task="begin")
        before = await save_team_state(team)
        with pytest.raises(RuntimeError, match="I won't"):
            await load_team_state(team, state)
        assert await save_team_state(team) == before


async def test_a_team_is_as_it_was_where_the_state_of_a_later_agent_is_too_large_for_the_log(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manager is loaded last: its participants have their new states by then."""
    state = saved("round_robin-0.4.9")
    state["agent_states"]["RoundRobinGroupChatManager"]["message_thread"][0]["content"] = "y" * 100_000
    async with started(log) as runtime:
        team = round_robin(runtime, "five", "six", "seven", "eight")
        await team.run(task="begin")
        before = await save_team_state(team)
        monkeypatch.setattr("autogen_eventlog.incarnation.incarnation.LARGEST_PAYLOAD", 50_000)
        with pytest.raises(EventTooLarge):
            await load_team_state(team, state)
        assert await save_team_state(team) == before
        assert [one.to_text() for one in (await team.run(task="on")).messages] == ["on", "seven", "eight"]


class Slow(AssistantAgent):
    """Takes its time with a state that has the word in it."""

    asked: ClassVar[asyncio.Event]

    async def load_state(self, state: Mapping[str, Any]) -> None:
        await super().load_state(state)
        if "slowly" in json.dumps(state):
            Slow.asked.set()
            await asyncio.Event().wait()


async def test_a_team_is_as_it_was_where_loading_is_cancelled(log: EventLog) -> None:
    state = saved("round_robin-0.4.9")
    state["agent_states"]["b"]["agent_state"]["llm_context"]["messages"][0]["content"] = "slowly"
    Slow.asked = asyncio.Event()
    async with started(log) as runtime:
        agents: list[Any] = [AssistantAgent("a", model("five")), Slow("b", model("six"))]
        team = RoundRobinGroupChat(agents, max_turns=2, runtime=runtime)
        await team.run(task="begin")
        before = await save_team_state(team)
        loading = asyncio.create_task(load_team_state(team, state))
        await Slow.asked.wait()
        loading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loading
        assert await save_team_state(team) == before


class Failing:
    """A team on a store that is gone amid loading: its agent `b` takes the first so many states."""

    name = "failing"

    def __init__(self, states_of_b: int) -> None:
        self.states: dict[str, Any] = {"a": {"said": "old"}, "b": {"said": "old"}, "c": {"said": "old"}}
        self._states_of_b = states_of_b

    async def save_state(self) -> Mapping[str, Any]:
        return {"type": "TeamState", "version": "1.0.0", "agent_states": dict(self.states)}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        if current_trial() is not None:
            return
        for name, one in state["agent_states"].items():
            if name == "b":
                self._states_of_b -= 1
                if self._states_of_b < 0:
                    raise gone("connection refused")
            self.states[name] = one


def gone(problem: str) -> DatabaseUnavailable:
    return DatabaseUnavailable("server", 1, problem)


NEW = {"agent_states": {name: {"said": "new"} for name in ("a", "b", "c")}}


async def test_a_team_that_cannot_be_put_back_either_raises_the_first_error_and_logs_which_agents_are_changed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Worse(Failing):
        async def load_state(self, state: Mapping[str, Any]) -> None:
            if state["agent_states"]["a"] == {"said": "old"}:
                raise gone("still refused")
            await super().load_state(state)

    team = Worse(0)
    with pytest.raises(DatabaseUnavailable, match="connection refused"):
        await load_team_state(team, NEW)
    assert team.states["a"] == {"said": "new"}
    [said] = [one.message for one in caplog.records if one.levelname == "ERROR"]
    assert "team failing" in said and "as they were: 'a'. " in said and "still refused" in said
    caplog.clear()
    team = Failing(0)
    team.save_state = AsyncMock(side_effect=[await team.save_state(), gone("no answer")])
    with pytest.raises(DatabaseUnavailable, match="connection refused"):
        await load_team_state(team, NEW)
    [said] = [one.message for one in caplog.records if one.levelname == "ERROR"]
    assert "as they were: 'a', 'b', 'c'. " in said


async def test_a_state_of_the_whole_runtime_with_one_that_does_not_fit_changes_nothing(log: EventLog) -> None:
    async with started(log) as runtime:
        team = with_id(TEAM, lambda: round_robin(runtime))
        await team.run(task="begin")
        with_manager = await structured()
        states = {
            f"a_{TEAM}/{TEAM}": saved("round_robin-0.4.9")["agent_states"]["a"],
            f"RoundRobinGroupChatManager_{TEAM}/{TEAM}": with_manager["agent_states"]["RoundRobinGroupChatManager"],
        }
        before = await streams(log)
        with pytest.raises(MessageTypesMissing):
            await runtime.load_state(states)
        assert await streams(log) == before


# -- and back into autogen ------------------------------------------------------------------------------------------


async def test_a_team_goes_back_into_autogens_own_runtime_and_on_from_there(log: EventLog) -> None:
    async with started(log) as runtime:
        await with_id(TEAM, lambda: round_robin(runtime)).run(task="begin")
    async with started(log) as runtime:
        team = with_id(TEAM, lambda: round_robin(runtime, "nine", "ten"))
        kept = await save_team_state(team)
        between = datetime.now(timezone.utc)
        await team.run(task="later")
        assert await save_team_state(team) != kept
        assert await save_team_state(team, at=between) == kept
        assert await save_team_state(team, position=1) == await round_robin(None).save_state()
    other = round_robin(None, "seven", "eight")
    await other.load_state(json.loads(json.dumps(kept)))
    result = await other.run(task="go on")
    assert [message.to_text() for message in result.messages] == ["go on", "seven", "eight"]
    agents = (await other.save_state())["agent_states"]
    texts = [one["content"] for one in agents["b"]["agent_state"]["llm_context"]["messages"]]
    assert texts == ["begin", "five", "six", "go on", "seven", "eight"]


@dataclass
class Put:
    value: int


class Keeper(RoutedAgent):
    """Saves and loads its state as AutoGen asks."""

    def __init__(self) -> None:
        super().__init__("keeps")
        self.values: list[int] = []

    @handles
    async def on_put(self, message: Put, ctx: MessageContext) -> int:
        self.values.append(message.value)
        return sum(self.values)

    async def save_state(self) -> Mapping[str, Any]:
        return {"values": list(self.values)}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        self.values = list(state["values"])


class Mute(Keeper):
    """Says nothing of its state."""

    save_state = RoutedAgent.save_state
    load_state = RoutedAgent.load_state


class Upgrading(Keeper):
    """Takes what its earlier versions saved."""

    async def save_state(self) -> Mapping[str, Any]:
        return {"type": "Kept", "version": "2.0.0", "values": list(self.values)}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        self.values = [state["value"]] if state["version"] == "1.0.0" else list(state["values"])


async def test_what_an_agent_takes_that_is_none_of_agentchats_is_its_own_affair(log: EventLog) -> None:
    async with started(log) as runtime:
        await Upgrading.register(runtime, "upgrading", Upgrading)
        agent = AgentId("upgrading", "k")
        await runtime.agent_load_state(agent, {"type": "Old", "version": "1.0.0", "value": 5})
        assert await autogen_state(runtime, agent) == {"type": "Kept", "version": "2.0.0", "values": [5]}


async def test_an_agent_goes_there_and_back(log: EventLog) -> None:
    keeper, mute = AgentId("keeper", "k"), AgentId("mute", "k")
    async with started(log) as runtime:
        await Keeper.register(runtime, "keeper", Keeper)
        await Mute.register(runtime, "mute", Mute)
        await runtime.agent_load_state(keeper, {"values": [1]})
        await runtime.send_message(Put(2), keeper)
        head = await log.head(keeper)
        assert head is not None
        await runtime.send_message(Put(3), keeper)
        assert await autogen_state(runtime, keeper) == {"values": [1, 2, 3]}
        state = json.loads(json.dumps(await autogen_state(runtime, keeper, version=head.version)))
        await runtime.send_message(Put(1), mute)
        with pytest.raises(NoOwnState) as refused:
            await autogen_state(runtime, mute)
        assert (refused.value.agent, refused.value.agent_class.rpartition(":")[2]) == ("mute/k", "Mute")
        assert "--history" in refused.value.message()
        with pytest.raises(UnknownStream):
            await autogen_state(runtime, AgentId("keeper", "nobody"))
    autogen = SingleThreadedAgentRuntime()
    await Keeper.register(autogen, "keeper", Keeper)
    autogen.start()
    await autogen.agent_load_state(keeper, state)
    assert await autogen.send_message(Put(10), keeper) == 13
    await autogen.stop_when_idle()


async def test_a_team_on_other_workers_is_refused_by_name() -> None:
    """They know nothing of what is wanted beyond AutoGen's calls."""

    class Elsewhere:
        name = "far"
        loaded = 0

        async def save_state(self) -> Mapping[str, Any]:
            ours = {"format": "autogen-eventlog/1", "stream": "a/k", "version": 3, "state": None}
            return {"type": "TeamState", "version": "1.0.0", "agent_states": {"a": ours}}

        async def load_state(self, state: Mapping[str, Any]) -> None:
            self.loaded += 1

    team = Elsewhere()
    for asked in (save_team_state(team), load_team_state(team, saved("round_robin-0.4.9"))):
        with pytest.raises(InvalidState, match="agent 'a' is on another worker"):
            await asked
    assert team.loaded == 0


# -- a team's session under another team id -------------------------------------------------------------------------


async def test_a_team_moves_into_another_log_and_under_another_team_id(
    log: EventLog, empty_dsn: str, tmp_path: Path
) -> None:
    async with started(log) as runtime:
        await with_id(TEAM, lambda: round_robin(runtime)).run(task="begin")
    async with started(log) as runtime:
        team = with_id(TEAM, lambda: round_robin(runtime))
        kept = await save_team_state(team)
    await export_session(log, await streams(log), tmp_path / "team.session.jsonl")
    async with EventLog.open(empty_dsn) as other:
        await import_session(other, tmp_path / "team.session.jsonl", {str(TEAM): str(OTHER_TEAM)})
        assert sorted(await streams(other)) == sorted(
            f"{name}_{OTHER_TEAM}/{OTHER_TEAM}" for name in ("RoundRobinGroupChatManager", "a", "b")
        )
        async with started(other) as runtime:
            team = with_id(OTHER_TEAM, lambda: round_robin(runtime, "seven", "eight"))
            assert await save_team_state(team) == kept
            result = await team.run(task="go on")
            assert [message.to_text() for message in result.messages] == ["go on", "seven", "eight"]


# -- termination (A17, T37) -----------------------------------------------------------------------------------------


def counting(runtime: AgentRuntime | None, *answers: str) -> RoundRobinGroupChat:
    return round_robin(runtime, *answers, max_turns=None, termination_condition=MaxMessageTermination(6))


async def test_a_stopped_team_that_is_loaded_counts_its_messages_anew(log: EventLog) -> None:
    """AutoGen keeps no termination condition in a team's state: the next run has its whole six messages, every time."""
    stopped = round_robin(None, "1", "2", "3", max_turns=3, termination_condition=MaxMessageTermination(6))
    first = await stopped.run(task="begin")
    assert len(first.messages) == 4
    state = json.loads(json.dumps(await stopped.save_state()))
    runs: list[list[str]] = []
    for number in range(3):
        async with started(log) as runtime:
            team = with_id(uuid.UUID(int=20 + number), lambda runtime=runtime: counting(runtime, *"456789"))
            await load_team_state(team, state)
            result = await team.run()
            assert result.stop_reason == "Maximum number of messages 6 reached, current message count: 6"
            runs.append([message.to_text() for message in result.messages])
    autogen = counting(None, *"456789")
    await autogen.load_state(state)
    runs.append([message.to_text() for message in (await autogen.run()).messages])
    assert runs == [["4", "5", "6", "7", "8", "9"]] * 4


async def test_a_stopped_team_that_is_recovered_goes_on_as_one_that_never_stopped(log: EventLog) -> None:
    """What its termination condition has counted is in the log, as everything that its manager has lived through."""

    def stopping(runtime: AgentRuntime | None) -> RoundRobinGroupChat:
        condition = MaxMessageTermination(6)
        return round_robin(runtime, *["word"] * 20, max_turns=3, termination_condition=condition)

    def told(result: TaskResult) -> tuple[int, str | None]:
        return len(result.messages), result.stop_reason

    autogen = stopping(None)
    expected = [told(await autogen.run(task="begin")), told(await autogen.run()), told(await autogen.run())]
    runs: list[tuple[int, str | None]] = []
    for task in ("begin", None, None):
        async with started(log) as runtime:
            team = with_id(TEAM, lambda runtime=runtime: stopping(runtime))
            runs.append(told(await team.run(task=task)))
    assert runs == expected
    assert runs[0] == (4, "Maximum number of turns 3 reached.")
