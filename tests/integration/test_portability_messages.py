"""Messages in states of AgentChat's teams that a team does not know, or that are none (A9, A13, T33, T41)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import reduce
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent, BaseChatAgent
from autogen_agentchat.base import Response, Team
from autogen_agentchat.messages import BaseChatMessage, StructuredMessage, TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import (
    AgentId,
    AgentRuntime,
    CancellationToken,
)

from autogen_eventlog import EventLog
from autogen_eventlog.errors import (
    InvalidState,
    MessageTypesMissing,
    TypeNotAllowed,
)
from autogen_eventlog.transfer import (
    autogen_state,
    load_team_state,
    save_team_state,
)
from tests.integration.portable_teams import (
    OTHER_TEAM,
    TEAM,
    Build,
    Judge,
    Verdict,
    judges,
    model,
    silent,
    silent_state,
    society,
    started,
    streams,
    structured,
    thread_of,
    with_id,
)


@pytest.fixture
async def log(dsn: str) -> AsyncGenerator[EventLog]:
    async with EventLog.open(dsn) as opened:
        yield opened


async def test_messages_of_unknown_types_are_named_before_anything_is_changed(log: EventLog) -> None:
    state = await structured()
    async with started(log) as runtime:
        team = with_id(TEAM, lambda: judges(runtime))
        await team.save_state()
        before = await save_team_state(team), await streams(log)
        with pytest.raises(MessageTypesMissing) as refused:
            await load_team_state(team, state)
        assert refused.value.types == ("StructuredMessage[Verdict]",)
        assert "custom_message_types" in refused.value.remedy
        assert (await save_team_state(team), await streams(log)) == before
        manager = AgentId(f"RoundRobinGroupChatManager_{TEAM}", str(TEAM))
        with pytest.raises(MessageTypesMissing) as alone:
            await runtime.agent_load_state(manager, state["agent_states"]["RoundRobinGroupChatManager"])
        assert alone.value.agent == str(manager)
        assert (await save_team_state(team), await streams(log)) == before


async def test_messages_of_unknown_types_are_kept_where_that_is_wanted_and_given_back_whole(log: EventLog) -> None:
    """A9: the team goes on with them as text, and nothing of them is lost."""
    state = await structured()
    thread = state["agent_states"]["RoundRobinGroupChatManager"]["message_thread"]
    async with started(log) as runtime:
        team = with_id(TEAM, lambda: silent(runtime))
        await load_team_state(team, state, unknown_messages="keep")
        assert await save_team_state(team) == state
        assert await autogen_state(runtime, AgentId(f"RoundRobinGroupChatManager_{TEAM}", str(TEAM))) == {
            **state["agent_states"]["RoundRobinGroupChatManager"]
        }
    async with started(log) as runtime:  # recovered, by replay
        team = with_id(TEAM, lambda: silent(runtime))
        assert await save_team_state(team) == state
        messages: list[Any] = vars(await runtime.view(AgentId(f"RoundRobinGroupChatManager_{TEAM}", str(TEAM))))[
            "_message_thread"
        ]
        assert (type(messages[1]), messages[1].source) == (TextMessage, thread[1]["source"])
        assert json.loads(messages[1].content) == {"good": True}
        await team.run(task="more")
        gone_on = (await save_team_state(team))["agent_states"]["RoundRobinGroupChatManager"]["message_thread"]
        assert gone_on[: len(thread)] == thread and len(gone_on) > len(thread)
        types = [StructuredMessage[Verdict]]
        with_types = with_id(OTHER_TEAM, lambda: silent(runtime, custom_message_types=types))
        await load_team_state(with_types, await save_team_state(team))
        view = await runtime.view(AgentId(f"RoundRobinGroupChatManager_{OTHER_TEAM}", str(OTHER_TEAM)))
        assert vars(view)["_message_thread"][1].content == Verdict(good=True)


KEPT = "autogen_eventlog.kept"
TEXT = {"type": "TextMessage", "source": "x", "content": "forged"}


@pytest.mark.parametrize(
    "value",
    ["oops", "5", "null", "[1]", "[" * 100_000, json.dumps(TEXT), json.dumps({"type": "Odd", "content": "other"})],
)
async def test_a_message_of_a_users_own_whose_metadata_have_our_name_is_left_alone(log: EventLog, value: str) -> None:
    state = await silent_state()
    thread_of(state)[0]["metadata"] = {KEPT: value}
    async with started(log) as runtime:
        team = with_id(TEAM, lambda: silent(runtime))
        await load_team_state(team, state, unknown_messages="keep")
        assert await save_team_state(team) == state


ODD_MESSAGES: dict[str, dict[str, Any]] = {
    "no source": {"type": "Odd", "content": {"a": 1}},
    "no content": {"type": "Odd", "source": "a", "x": [1, 2]},
    "numbers": {"type": "Odd", "source": 5, "id": 7, "created_at": 5, "content": None},
    "no time": {"type": "Odd", "source": "a", "created_at": "yesterday", "content": "x"},
    "a time": {"type": "Odd", "source": "a", "id": "7", "created_at": "2024-05-06 07:08:09.123+02:00", "content": "x"},
    "a name": {"type": "Ödd…😀", "source": "ä", "content": "\0😀"},
    "half a character": {"type": "Odd", "source": "\ud800", "id": "\ud800", "content": "\ud800"},
    "half a character within": {"type": "Odd", "source": "a", "content": {"x": ["\ud800"]}},
    "two halves": {"type": "Odd", "source": "a", "content": "\ud83d\ude00", "x": {1: (2,)}},
    "our name": {"type": "Odd", "source": "a", "content": "x", "metadata": {KEPT: "zzz", "k": "v"}},
    "a thread": {"type": "Odd", "source": "a", "content": {"message_thread": [{"type": "Odd", "content": 1}]}},
}


@pytest.mark.parametrize("message", ODD_MESSAGES.values(), ids=ODD_MESSAGES.keys())
async def test_a_message_of_an_unknown_type_is_kept_however_odd_it_is(log: EventLog, message: dict[str, Any]) -> None:
    state = await silent_state()
    thread_of(state).insert(1, message)
    written = json.loads(json.dumps(state))
    async with started(log) as runtime:
        team = with_id(TEAM, lambda: silent(runtime))
        await load_team_state(team, state, unknown_messages="keep")
        assert await save_team_state(team) == written
        await team.run(task="more")
        assert thread_of(await save_team_state(team))[1] == thread_of(written)[1]


async def test_a_message_that_is_not_whole_is_refused_also_where_unknown_ones_are_kept(log: EventLog) -> None:
    state = await structured()
    del state["agent_states"]["RoundRobinGroupChatManager"]["message_thread"][0]["content"]
    async with started(log) as runtime:
        team = with_id(TEAM, lambda: judges(runtime))
        with pytest.raises(InvalidState, match="no TextMessage"):
            await load_team_state(team, state, unknown_messages="keep")


ODD = {"type": "Odd", "source": "user", "content": {"k": 1}}


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("hello", "message_thread[1] is no message, but a str"),
        (None, "message_thread[1] is no message, but a NoneType"),
        ({"type": [1], "source": "a", "content": "x"}, "message_thread[1] is no message: its type is [1], not a text"),
        ({"source": "a", "content": "x"}, "message_thread[1] is no message: its type is None, not a text"),
    ],
)
async def test_what_is_no_message_is_refused_with_its_place(log: EventLog, message: Any, said: str) -> None:
    state = await silent_state()
    thread_of(state)[1:1] = [message, ODD]
    async with started(log) as runtime:
        team = with_id(TEAM, lambda: silent(runtime))
        for unknown in ("refuse", "keep"):
            with pytest.raises(InvalidState) as refused:
                await load_team_state(team, state, unknown_messages=unknown)
            assert said in refused.value.problem
            assert refused.value.agent == f"RoundRobinGroupChatManager_{TEAM}/{TEAM}"
        assert await streams(log) == {}


@pytest.mark.parametrize(("thread", "found"), [("hello", "str"), (None, "NoneType"), ({"a": 1}, "dict")])
async def test_a_thread_that_is_no_list_is_refused_by_name(log: EventLog, thread: object, found: str) -> None:
    state = await silent_state()
    state["agent_states"]["RoundRobinGroupChatManager"]["message_thread"] = thread
    async with started(log) as runtime:
        team = with_id(TEAM, lambda: silent(runtime))
        with pytest.raises(InvalidState) as refused:
            await load_team_state(team, state)
        assert f"message_thread is a {found}, not a list of messages" in refused.value.problem
        assert await streams(log) == {}


@pytest.mark.parametrize(
    "thread", [5, [{"type": "ToolCallRequestEvent", "source": "a", "content": [{"id": [1], "name": "add"}]}]]
)
async def test_a_thread_that_cannot_be_completed_is_refused_by_name(log: EventLog, thread: object) -> None:
    state = await silent_state()
    state["agent_states"]["RoundRobinGroupChatManager"]["message_thread"] = thread
    async with started(log) as runtime:
        with pytest.raises(InvalidState, match="in a form that none of AgentChat's has"):
            await load_team_state(silent(runtime), state)
        assert await streams(log) == {}


async def test_a_message_that_json_cannot_hold_is_refused_where_it_is_to_be_kept(log: EventLog) -> None:
    state = await silent_state()
    thread_of(state).append({**ODD, "content": b"bytes"})
    async with started(log) as runtime:
        team = with_id(TEAM, lambda: silent(runtime))
        with pytest.raises(InvalidState, match="JSON can hold"):
            await load_team_state(team, state, unknown_messages="keep")


# -- messages in teams within participants --------------------------------------------------------------------------


def knowing(*types: type[BaseChatMessage]) -> dict[str, Any]:
    return {"custom_message_types": list(types)}


class Holder(BaseChatAgent):
    """A participant of a user's own, with a team for each subject."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "holds teams")
        self._crews: dict[str, Team] = {"cooking": silent(None), "sailing": self._sailing()}

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (TextMessage,)

    def _sailing(self) -> Team:
        return RoundRobinGroupChat([AssistantAgent("sailor", model("ahoy"))], max_turns=1)

    async def on_messages(self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken) -> Response:
        return Response(chat_message=TextMessage(content="done", source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None: ...

    async def save_state(self) -> Mapping[str, Any]:
        return {"crews": {name: await crew.save_state() for name, crew in self._crews.items()}}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        for name, crew in self._crews.items():
            await crew.load_state(state["crews"][name])


class Hider(Holder):
    """Its teams are where nobody finds them."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        crews = self._crews
        self._crews = {}
        self._hidden = lambda: crews

    async def save_state(self) -> Mapping[str, Any]:
        return {"crews": {name: await crew.save_state() for name, crew in self._hidden().items()}}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        for name, crew in self._hidden().items():
            await crew.load_state(state["crews"][name])


def of_teams(runtime: AgentRuntime | None, inner: Any, **more: Any) -> RoundRobinGroupChat:
    agents: list[Any] = [inner, AssistantAgent("last", model("one", "two", "three"))]
    return RoundRobinGroupChat(agents, max_turns=2, runtime=runtime, **more)


def team_as_participant(runtime: AgentRuntime | None) -> RoundRobinGroupChat:
    return of_teams(runtime, silent(None, name="inner"), **knowing(StructuredMessage[Verdict]))


def team_of_team(runtime: AgentRuntime | None) -> RoundRobinGroupChat:
    return of_teams(runtime, of_teams(None, silent(None, name="innermost"), name="inner"))


def holder(runtime: AgentRuntime | None) -> RoundRobinGroupChat:
    return of_teams(runtime, Holder("holder"))


def hider(runtime: AgentRuntime | None) -> RoundRobinGroupChat:
    return of_teams(runtime, Hider("hider"))


MANAGER = "RoundRobinGroupChatManager"
VERDICT = {"type": "StructuredMessage[Verdict]", "source": "user", "content": {"good": True}}
WITHIN: list[tuple[Build, tuple[str, ...]]] = [
    (society, ("society", "agent_state", "inner_team_state", "agent_states", MANAGER)),
    (team_as_participant, ("inner", "agent_state", "agent_states", MANAGER)),
    (team_of_team, ("inner", "agent_state", "agent_states", "innermost", "agent_state", "agent_states", MANAGER)),
    (holder, ("holder", "agent_state", "crews", "cooking", "agent_states", MANAGER)),
]


def with_message(state: Mapping[str, Any], path: Sequence[str], message: object) -> dict[str, Any]:
    """A copy, with a message more in the thread there."""
    changed: dict[str, Any] = json.loads(json.dumps(state))
    thread = reduce(lambda part, name: part[name], path, changed["agent_states"])["message_thread"]
    thread.insert(0, message)
    return changed


@pytest.mark.parametrize(("build", "path"), WITHIN, ids=lambda one: getattr(one, "__name__", ""))
async def test_messages_that_a_team_within_a_participant_does_not_know_are_named_or_kept(
    log: EventLog, build: Build, path: tuple[str, ...]
) -> None:
    state = with_message(await build(None).save_state(), path, VERDICT)
    async with started(log) as runtime:
        team = build(runtime)
        with pytest.raises(MessageTypesMissing) as refused:
            await load_team_state(team, state)
        assert refused.value.types == ("StructuredMessage[Verdict]",)
        assert await streams(log) == {}
        await load_team_state(team, state, unknown_messages="keep")
        assert await save_team_state(team) == state
        with pytest.raises(InvalidState) as no_message:
            await load_team_state(team, with_message(state, path, "hello"))
        assert f"{'.'.join(path[1:])}.message_thread[0] is no message" in no_message.value.problem


async def test_messages_that_the_outer_team_knows_are_no_text_where_those_of_the_inner_are_kept(log: EventLog) -> None:
    state = await team_as_participant(None).save_state()
    state = with_message(with_message(state, WITHIN[1][1], VERDICT), (MANAGER,), VERDICT)
    async with started(log) as runtime:
        team = with_id(TEAM, lambda: silent(None, name="inner"))
        team = with_id(OTHER_TEAM, lambda: of_teams(runtime, team, **knowing(StructuredMessage[Verdict])))
        await load_team_state(team, state, unknown_messages="keep")
        view = await runtime.view(AgentId(f"{MANAGER}_{OTHER_TEAM}", str(OTHER_TEAM)))
        assert vars(view)["_message_thread"][0].content == Verdict(good=True)


async def test_messages_of_a_team_that_is_not_found_in_its_participant_are_named_and_all_is_put_back(
    log: EventLog,
) -> None:
    path = ("hider", "agent_state", "crews", "cooking", "agent_states", MANAGER)
    state = with_message(await hider(None).save_state(), path, VERDICT)
    async with started(log) as runtime:
        team = hider(runtime)
        await team.run(task="begin")
        before = await save_team_state(team)
        with pytest.raises(MessageTypesMissing) as refused:
            await load_team_state(team, state)
        assert refused.value.types == ("StructuredMessage[Verdict]",)
        assert "a team within one of its agents" in refused.value.problem
        assert await save_team_state(team) == before


async def test_messages_of_types_that_the_team_is_given_are_loaded_as_they_are(log: EventLog) -> None:
    state = await structured()
    more = {"custom_message_types": [StructuredMessage[Verdict]]}
    async with started(log) as runtime:
        team = with_id(TEAM, lambda: judges(runtime, **more))
        await load_team_state(team, state)
        thread = (await save_team_state(team))["agent_states"]["RoundRobinGroupChatManager"]["message_thread"]
        assert thread == state["agent_states"]["RoundRobinGroupChatManager"]["message_thread"]
    async with started(log) as runtime:
        again = with_id(TEAM, lambda: judges(runtime, **more))
        await again.save_state()  # registers its agents
        manager = await runtime.view(AgentId(f"RoundRobinGroupChatManager_{TEAM}", str(TEAM)))
        messages: list[Any] = vars(manager)["_message_thread"]
        assert messages[1].content == Verdict(good=True)


async def test_a_recorded_past_with_messages_of_unknown_types_is_refused_by_their_names(log: EventLog) -> None:
    async with started(log) as runtime:
        agents: list[Any] = [Judge("a", "judges"), AssistantAgent("b", model("yes"))]
        await with_id(TEAM, lambda: RoundRobinGroupChat(agents, max_turns=2, runtime=runtime)).run(task="begin")
    manager = AgentId(f"RoundRobinGroupChatManager_{TEAM}", str(TEAM))
    async with EventLog.open(log.dsn) as elsewhere, started(elsewhere) as runtime:
        team = with_id(TEAM, lambda: judges(runtime))
        await team._init(runtime)
        before = await streams(elsewhere)
        with pytest.raises(TypeNotAllowed) as refused:
            await runtime.view(manager)
        assert refused.value.type_name == f"{Verdict.__module__}:Verdict"
        assert await streams(elsewhere) == before
        elsewhere.register_types(StructuredMessage[Verdict])
        thread: list[Any] = vars(await runtime.view(manager))["_message_thread"]
        assert thread[1].content == Verdict(good=True)
