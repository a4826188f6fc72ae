"""Sessions exported from one log and imported into another: under new ids, once, and alive there (A13, E15, T33)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from autogen_core import AgentId, MessageContext, RoutedAgent, TopicId, TypeSubscription, event, message_handler, rpc

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.checking import CheckOutcome
from autogen_eventlog.errors import (
    AlreadyLives,
    InvalidHistory,
    InvalidRenaming,
    PayloadCorrupt,
    StreamOwned,
    UnknownStream,
)
from autogen_eventlog.events import EventType, RecordedEvent
from autogen_eventlog.state import capture
from autogen_eventlog.transfer import ImportedSession, check_session, export_session, import_session


@dataclass
class Ask:
    text: str


@dataclass
class Answer:
    text: str
    number: int


@dataclass
class Heard:
    text: str


class Planner(RoutedAgent):
    """Asks the expert of its own key, and says on its topic what it was told. No `save_state`."""

    def __init__(self) -> None:
        super().__init__("plans")
        self._made = uuid.uuid4()
        self.told: list[tuple[float, Answer]] = []

    @message_handler
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
        answer: Answer = await self.send_message(message, AgentId("expert", self.id.key))
        self.told.append((time.time(), answer))
        await self.publish_message(Heard(answer.text), TopicId("news", self.id.key))
        return answer


class Expert(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("knows")
        self._asked: dict[str, set[str]] = {}

    @rpc
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
        self._asked.setdefault(str(ctx.sender and ctx.sender.type), set()).add(message.text)
        return Answer(message.text.upper(), sum(map(len, self._asked.values())))


class Listener(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("listens")
        self.heard: list[str] = []

    @event
    async def on_heard(self, message: Heard, ctx: MessageContext) -> None:
        assert ctx.topic_id is not None
        self.heard.append(f"{ctx.topic_id.type}: {message.text}")


class Signing(RoutedAgent):
    """Its id is in what it says."""

    def __init__(self) -> None:
        super().__init__("signs")

    @message_handler
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
        await self.publish_message(Heard(f"{self.id}: {message.text}"), TopicId("news", self.id.key))
        return Answer(message.text, 0)


AGENTS = ["expert/k", "listener/k", "planner/k"]


async def register(runtime: EventSourcedAgentRuntime, planner: Callable[[], RoutedAgent] = Planner) -> None:
    await runtime.register_factory("planner", planner)
    await Expert.register(runtime, "expert", Expert)
    await Listener.register(runtime, "listener", Listener)
    await runtime.add_subscription(TypeSubscription("news", "listener"))


@asynccontextmanager
async def started(
    log: EventLog, planner: Callable[[], RoutedAgent] = Planner
) -> AsyncGenerator[EventSourcedAgentRuntime]:
    runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
    await register(runtime, planner)
    runtime.start()
    yield runtime
    await runtime.stop_when_idle()


@pytest.fixture
async def log(dsn: str) -> AsyncIterator[EventLog]:
    async with EventLog.open(dsn) as opened:
        yield opened


@pytest.fixture
async def other(empty_dsn: str) -> AsyncIterator[EventLog]:
    """Another log, in another database."""
    async with EventLog.open(empty_dsn) as opened:
        yield opened


async def ask(runtime: EventSourcedAgentRuntime, *texts: str, key: str = "k") -> None:
    for text in texts:
        await runtime.send_message(Ask(text), AgentId("planner", key))


async def recorded(log: EventLog, agent: str) -> list[RecordedEvent]:
    return [one async for one in log.read(agent)]


async def digest(runtime: EventSourcedAgentRuntime, log: EventLog, agent: str, key: str = "k") -> str:
    """The whole state of an agent, with its key made the same."""
    view = await runtime.view(AgentId.from_str(agent))
    return capture(view, log.codec).data.decode().replace(f'"{key}"', '"k"').replace(agent, "agent")


async def exported(log: EventLog, path: Path, *texts: str) -> Path:
    async with started(log) as runtime:
        await ask(runtime, *(texts or ("one", "two")))
    await export_session(log, AGENTS, path)
    return path


def names_in(directory: Path) -> list[str]:
    return sorted(one.name for one in directory.iterdir())


def counts(done: ImportedSession) -> dict[str, int]:
    return {one.agent: one.appended for one in done.agents}


async def test_a_session_lives_on_in_another_log_under_a_new_key_with_the_same_state(
    log: EventLog, other: EventLog, tmp_path: Path
) -> None:
    file = await exported(log, tmp_path / "talk.session.jsonl")
    done = await import_session(other, file, {"k": "new"})
    sizes = {agent: len(await recorded(log, agent)) for agent in AGENTS}
    assert counts(done) == {agent.replace("/k", "/new"): size for agent, size in sizes.items()}
    async with started(log) as old, started(other) as new:
        for agent in AGENTS:
            there = agent.replace("/k", "/new")
            assert await digest(new, other, there, "new") == await digest(old, log, agent)
            for version in range(1, sizes[agent] + 1):
                await new.view(AgentId.from_str(there), version=version)
        for runtime, key in ((old, "k"), (new, "new")):
            await ask(runtime, "three", key=key)
            answer = await runtime.send_message(Ask("four"), AgentId("planner", key))
            assert answer == Answer("FOUR", 4)
    async with started(other) as later:
        listener = await later.view(AgentId("listener", "new"), type=Listener)
        assert listener.heard == ["news: ONE", "news: TWO", "news: THREE", "news: FOUR"]


async def test_every_event_is_exact_and_says_where_it_comes_from(
    log: EventLog, other: EventLog, tmp_path: Path
) -> None:
    file = await exported(log, tmp_path / "talk.session.jsonl")
    await import_session(other, file, key_prefix="p-")
    order: list[tuple[int, int]] = []
    ids: set[uuid.UUID] = set()
    for agent in AGENTS:
        before, after = await recorded(log, agent), await recorded(other, agent.replace("/k", "/p-k"))
        for old, new in zip(before, after, strict=True):
            same = (
                "type",
                "version",
                "payload",
                "message_type",
                "message_id",
                "outcome",
                "occurred_at",
                "delivery",
                "call",
            )
            assert [getattr(new, name) for name in same] == [getattr(old, name) for name in same]
            origin = new.metadata.pop("imported_from")
            if new.type is EventType.AGENT_ACTIVATED:
                assert old.metadata["producer"].pop("parameters")  # of a fresh instance under the old id
            assert new.metadata == old.metadata
            assert (origin["stream"], origin["version"], origin["id"]) == (agent, old.version, str(old.id))
            assert (origin["position"], origin["recorded_at"]) == (old.position, old.recorded_at.isoformat())
            assert new.id != old.id and (new.correlation is None) is (old.correlation is None)
            for name in ("sender", "recipient", "topic"):
                assert getattr(new, name) == (getattr(old, name) and getattr(old, name).replace("/k", "/p-k"))
            order.append((old.position, new.position))
            ids.add(new.id)
    order.sort()
    assert [new for _, new in order] == sorted(new for _, new in order)
    assert len(ids) == len(order)


async def test_causes_and_conversations_hold_together_in_the_audit(
    log: EventLog, other: EventLog, tmp_path: Path
) -> None:
    await import_session(other, await exported(log, tmp_path / "talk.session.jsonl"), {"k": "new"})
    [delivered, *_] = [one for one in await recorded(other, "expert/new") if one.type is EventType.MESSAGE_DELIVERED]
    chain = await other.audit.causes(delivered.id)
    assert [(one.type, one.stream) for one in chain] == [
        (EventType.MESSAGE_DELIVERED, "planner/new"),
        (EventType.MESSAGE_SENT, "planner/new"),
        (EventType.MESSAGE_DELIVERED, "expert/new"),
    ]
    assert delivered.correlation is not None
    conversation = await other.audit.conversation(delivered.correlation)
    assert {one.stream for one in conversation} == {"planner/new", "expert/new", "listener/new"}
    messages = await other.audit.messages(agent="planner/new")
    assert [one.outcome and one.outcome.value for one in messages] == ["replied", "replied"]
    assert [one async for one in _undelivered(other)] == []


async def _undelivered(log: EventLog) -> AsyncIterator[RecordedEvent]:
    for event_ in await log.audit.undelivered():
        yield event_


async def test_the_agents_of_a_conversation_are_exported_by_its_id(
    log: EventLog, other: EventLog, tmp_path: Path
) -> None:
    async with started(log) as runtime:
        await ask(runtime, "one")
        await ask(runtime, "of another", key="stranger")
    [delivered, *_] = [one for one in await recorded(log, "planner/k") if one.correlation is not None]
    done = await export_session(log, None, tmp_path / "one.session.jsonl", correlation=delivered.correlation)
    assert [agent for agent, _ in done.agents] == AGENTS
    with pytest.raises(UnknownStream):
        await export_session(log, None, tmp_path / "no.session.jsonl", correlation=uuid.UUID(int=3))
    with pytest.raises(UnknownStream):
        await export_session(log, ["planner/nobody"], tmp_path / "no.session.jsonl")
    with pytest.raises(ValueError, match="one of agents and correlation"):
        await export_session(log, None, tmp_path / "no.session.jsonl")
    assert not (tmp_path / "no.session.jsonl").exists()


async def test_importing_twice_appends_nothing_and_a_longer_export_brings_what_is_new(
    log: EventLog, other: EventLog, tmp_path: Path
) -> None:
    file = await exported(log, tmp_path / "talk.session.jsonl")
    first = await import_session(other, file, {"k": "new"})
    before = [one async for one in other.tail(follow=False)]
    again = await import_session(other, file, {"k": "new"})
    assert (first.appended, again.appended) == (len(before), 0)
    assert [one async for one in other.tail(follow=False)] == before
    second = await import_session(other, file, {"k": "second"})  # a second copy is another session
    assert second.appended == first.appended
    await exported(log, file, "three")
    more = await import_session(other, file, {"k": "new"})
    assert 0 < more.appended < first.appended
    async with started(other) as runtime:
        assert await runtime.send_message(Ask("four"), AgentId("planner", "new")) == Answer("FOUR", 4)
    assert (await import_session(other, file, {"k": "new"})).appended == 0  # it has lived on meanwhile


async def test_an_import_that_was_killed_is_completed_by_the_next(
    log: EventLog, other: EventLog, tmp_path: Path
) -> None:
    file = await exported(log, tmp_path / "talk.session.jsonl", *(f"text {number}" for number in range(300)))
    program = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "import autogen_eventlog.transfer.importing as importing\n"
        "from autogen_eventlog import EventLog\n"
        "importing._IN_FLIGHT = 20\n"
        "def told(done, total):\n"
        "    if done > total // 2:\n"
        "        os.kill(os.getpid(), 9)\n"
        "async def main():\n"
        "    async with EventLog.open(sys.argv[1]) as log:\n"
        "        await importing.import_session(log, Path(sys.argv[2]), {'k': 'new'}, on_progress=told)\n"
        "asyncio.run(main())\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program, other.dsn, str(file)]
    killed = await asyncio.to_thread(subprocess.run, command, env=environment, capture_output=True)
    assert killed.returncode == -9, killed.stderr
    total = sum([len(await recorded(log, agent)) for agent in AGENTS])
    there = [one async for one in other.tail(follow=False)]
    assert 0 < len(there) < total
    done = await import_session(other, file, {"k": "new"})
    assert done.appended == total - len(there)
    async with started(log) as old, started(other) as new:
        for agent in AGENTS:
            there_ = agent.replace("/k", "/new")
            assert await digest(new, other, there_, "new") == await digest(old, log, agent)


async def test_an_agent_that_lives_already_is_refused_and_nothing_is_imported(
    log: EventLog, other: EventLog, tmp_path: Path
) -> None:
    file = await exported(log, tmp_path / "talk.session.jsonl")
    with pytest.raises(AlreadyLives) as refused:
        await import_session(log, file)
    assert (refused.value.agent, refused.value.source, refused.value.version) == ("planner/k", "planner/k", 1)
    async with started(other) as runtime:
        await ask(runtime, "mine", key="new")
    before = [one async for one in other.tail(follow=False)]
    with pytest.raises(AlreadyLives):
        await import_session(other, file, {"k": "new"})
    assert [one async for one in other.tail(follow=False)] == before


async def test_an_agent_that_a_live_worker_has_claimed_is_refused(
    log: EventLog, other: EventLog, tmp_path: Path
) -> None:
    file = await exported(log, tmp_path / "talk.session.jsonl")
    await other.start_writing()
    await other.ownership.claim("planner/new")
    with pytest.raises(StreamOwned) as owned:
        await import_session(other, file, {"k": "new"})
    assert owned.value.stream == "planner/new"
    assert [one async for one in other.tail(follow=False)] == []


async def test_restores_and_forks_become_one_past_with_the_same_state(
    log: EventLog, other: EventLog, tmp_path: Path
) -> None:
    file = tmp_path / "talk.session.jsonl"
    async with started(log) as runtime:
        await ask(runtime, "one", "two")
        head = await log.head("planner/k")
        assert head is not None
        await ask(runtime, "abandoned")
        await runtime.restore(AgentId("planner", "k"), version=head.version)
        await ask(runtime, "three")
        fork = await runtime.agent_save_state(AgentId("expert", "k"))
        await runtime.agent_load_state(AgentId("expert", "fork"), fork)
        await runtime.send_message(Ask("four"), AgentId("expert", "fork"))
        await ask(runtime, "five")
    async with started(log) as runtime:
        agents = ["expert/fork", *AGENTS]
        await export_session(log, agents, file)
        states = {agent: await digest(runtime, log, agent, agent.partition("/")[2]) for agent in agents}
    renames = {"k": "new", "fork": "fork-2"}
    await import_session(other, file, renames)
    assert (await import_session(other, file, renames)).appended == 0
    planner = await recorded(other, "planner/new")
    assert len(planner) < len(await recorded(log, "planner/k"))
    for one in planner:
        begins = one.type in (EventType.MESSAGE_DELIVERED, EventType.STATE_LOADED)
        assert not begins or one.delivery == one.version
    assert b"abandoned" not in b"".join(one.payload or b"" for one in planner)
    async with started(other) as runtime:
        for agent, state in states.items():
            kind, _, key = agent.partition("/")
            assert await digest(runtime, other, f"{kind}/{renames[key]}", renames[key]) == state
        answer = await runtime.send_message(Ask("six"), AgentId("expert", "fork-2"))
        assert answer.number == 5 + 1
        for version in range(1, len(planner) + 1):
            await runtime.view(AgentId("planner", "new"), version=version)


async def test_messages_that_wait_still_wait_in_the_other_log_and_others_do_not(
    log: EventLog, other: EventLog, tmp_path: Path
) -> None:
    file = tmp_path / "talk.session.jsonl"
    runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
    await Planner.register(runtime, "planner", Planner)
    await Expert.register(runtime, "expert", Expert)
    runtime.start()
    await ask(runtime, "unheard")  # nobody listens yet
    await runtime.add_subscription(TypeSubscription("news", "listener"))
    await Listener.register(runtime, "listener", Listener)
    await ask(runtime, "heard")
    await runtime.stop_when_idle()
    done = await export_session(log, AGENTS, file)
    assert done.waiting == 1
    await import_session(other, file, {"k": "new"})
    [waits] = await other.audit.undelivered()
    assert (waits.stream, other.types.register(Heard), other.message(waits)) == ("planner/new", None, Heard("UNHEARD"))
    async with started(other) as runtime:
        [redelivered] = await runtime.redeliver()
        assert redelivered.delivered_to == (AgentId("listener", "new"),)
        assert (await runtime.view(AgentId("listener", "new"), type=Listener)).heard == [
            "news: HEARD",
            "news: UNHEARD",
        ]
    assert await other.audit.undelivered() == []


async def test_a_handler_that_was_under_way_goes_on(log: EventLog, other: EventLog, tmp_path: Path) -> None:
    """The planner waits for the expert's answer, which the exported past does not have yet."""
    file = tmp_path / "talk.session.jsonl"
    async with started(log) as runtime:
        await ask(runtime, "one")
        sent = [one for one in await recorded(log, "planner/k") if one.type is EventType.MESSAGE_SENT]
        await runtime.restore(AgentId("planner", "k"), version=sent[0].version)
    async with started(log) as runtime:
        await export_session(log, ["planner/k"], file)
    cut = json.loads(file.read_text().splitlines()[0])["agents"][0]["version"]
    assert cut > sent[0].version
    await import_session(other, file)
    async with started(other) as runtime:
        await ask(runtime, "two")
        planner = await runtime.view(AgentId("planner", "k"), type=Planner)
        assert [answer.text for _, answer in planner.told][-1] == "TWO"


async def test_the_code_at_hand_is_checked_before_anything_is_imported(
    log: EventLog, other: EventLog, tmp_path: Path
) -> None:
    """What names its own id says something else under another."""
    file = tmp_path / "talk.session.jsonl"
    async with started(log, Signing) as runtime:
        await ask(runtime, "one")
    await export_session(log, ["planner/k", "listener/k"], file)
    runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(other)])
    await register(runtime, Signing)
    report = await check_session(runtime, file, {"k": "new"})
    outcomes = {check.agent: check.outcome for check in report.agents}
    assert outcomes == {"listener/new": CheckOutcome.SAME, "planner/new": CheckOutcome.DIVERGES}
    assert (await check_session(runtime, file)).same
    assert [one async for one in other.tail(follow=False)] == []


@pytest.mark.parametrize("damage", ["cut", "edit", "swap", "more"])
async def test_a_file_that_was_changed_imports_nothing(
    log: EventLog, other: EventLog, tmp_path: Path, damage: str
) -> None:
    file = await exported(log, tmp_path / "talk.session.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    if damage == "cut":
        lines = lines[:-1]
    elif damage == "edit":
        lines[5] = lines[5].replace(b'"epoch":1', b'"epoch":2')
    elif damage == "swap":
        lines[4], lines[5] = lines[5], lines[4]
    else:
        lines.append(lines[-1])
    file.write_bytes(b"".join(lines))
    with pytest.raises(InvalidHistory) as refused:
        await import_session(other, file)
    expected = {"cut": len(lines) + 1, "edit": 6, "swap": 5, "more": len(lines)}[damage]
    assert (refused.value.path, refused.value.line) == (str(file), expected)
    assert [one async for one in other.tail(follow=False)] == []


@pytest.mark.parametrize(
    ("rename", "old"),
    [
        ({"nobody": "x"}, "nobody"),
        ({"expert/k": "planner/k"}, "planner/k"),
        ({"planner/k": "no id"}, "planner/k"),
    ],
)
async def test_a_renaming_that_does_not_fit_is_refused(
    log: EventLog, other: EventLog, tmp_path: Path, rename: dict[str, str], old: str
) -> None:
    file = await exported(log, tmp_path / "talk.session.jsonl")
    with pytest.raises(InvalidRenaming) as refused:
        await import_session(other, file, rename)
    assert refused.value.old == old
    assert refused.value.new in refused.value.message()
    assert [one async for one in other.tail(follow=False)] == []


async def test_single_agents_are_renamed_and_others_keep_their_names(
    log: EventLog, other: EventLog, tmp_path: Path
) -> None:
    file = await exported(log, tmp_path / "talk.session.jsonl")
    done = await import_session(other, file, {"listener/k": "listener/else"})
    assert set(counts(done)) == {"expert/k", "listener/else", "planner/k"}
    published = [one for one in await recorded(other, "planner/k") if one.type is EventType.MESSAGE_PUBLISHED]
    assert {one.topic for one in published} == {"news/k"}


async def test_a_session_whose_large_payload_is_lost_is_not_exported_as_if_it_were_whole(
    log: EventLog, dsn: str, tmp_path: Path
) -> None:
    async with started(log) as runtime:
        await ask(runtime, "one", "x" * 20_000)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")  # its trigger refuses
        connection.execute("DELETE FROM eventlog.large_payload")
        first = "SELECT min(position) FROM eventlog.event WHERE eventlog.is_reference(payload) AND stream IN "
        events = f"SELECT stream, version FROM eventlog.event WHERE position = ({first} ('expert/k', 'planner/k'))"
        [(stream, version)] = connection.execute(events).fetchall()
    with pytest.raises(PayloadCorrupt, match="is gone") as refused:
        await export_session(log, AGENTS, tmp_path / "s.session.jsonl")
    assert refused.value.where == f"stream {stream!r}, version {version}"
    assert names_in(tmp_path) == []


async def test_an_imported_session_can_be_exported_and_imported_on(
    log: EventLog, other: EventLog, tmp_path: Path
) -> None:
    file = await exported(log, tmp_path / "talk.session.jsonl")
    await import_session(other, file, {"k": "new"})
    await export_session(other, ["planner/new", "expert/new"], tmp_path / "on.session.jsonl")
    await import_session(log, tmp_path / "on.session.jsonl", {"new": "third"})
    [first, *_] = await recorded(log, "planner/third")
    origin: Any = first.metadata["imported_from"]
    assert (origin["stream"], origin["imported_from"]["stream"]) == ("planner/new", "planner/k")
    async with started(log) as runtime:
        assert await digest(runtime, log, "planner/third", "third") == await digest(runtime, log, "planner/k")
