"""Old months leave the log only where nothing needs them; what is refused then is refused by name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import psycopg
import pytest
from autogen_core import (
    AgentId,
    MessageContext,
    RoutedAgent,
    TopicId,
    default_subscription,
    message_handler,
)
from typer.testing import CliRunner

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime, SnapshotPolicy
from autogen_eventlog.checking.lines import Chain, event_of
from autogen_eventlog.cli.app import app
from autogen_eventlog.errors import EventsMissing, InvalidPoint, PayloadCorrupt, RetentionRefused
from autogen_eventlog.events import RecordedEvent
from autogen_eventlog.postgres.partitions import Partition, Partitions, Sums
from autogen_eventlog.retention import Archive, DroppedPartition, JsonLinesArchive, ParquetArchive, Retention
from autogen_eventlog.state import capture
from tests.integration.store import eventually

ONE, TWO, TELLER = AgentId("adder", "one"), AgentId("adder", "two"), AgentId("teller", "x")
NOW = datetime.now(timezone.utc)
LONG_AGO = datetime(2025, 3, 10, tzinfo=timezone.utc)


@dataclass
class Add:
    number: int


@dataclass
class Note:
    text: str


@default_subscription
class Adder(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("adds")
        self.numbers: list[int] = []
        self.notes: list[str] = []

    @message_handler
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        self.notes.append(message.text)

    @message_handler
    async def on_add(self, message: Add, ctx: MessageContext) -> int:
        self.numbers.append(message.number)
        return sum(self.numbers)


@dataclass
class Tell:
    key: str
    topic: str = "default"


class Teller(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("tells")

    @message_handler
    async def on_tell(self, message: Tell, ctx: MessageContext) -> None:
        await self.publish_message(Note("told"), TopicId(message.topic, message.key))


@asynccontextmanager
async def running(dsn: str, **settings: Any) -> AsyncIterator[tuple[EventSourcedAgentRuntime, EventLog]]:
    async with EventLog.open(dsn) as log:
        handler = EventLogHandler(log, snapshots=SnapshotPolicy(within=None), **settings)
        runtime = EventSourcedAgentRuntime(intervention_handlers=[handler])
        await Adder.register(runtime, "adder", Adder)
        await Teller.register(runtime, "teller", Teller)
        runtime.start()
        yield runtime, log
        if runtime._run_context is not None:
            await runtime.stop_when_idle()


async def add(runtime: EventSourcedAgentRuntime, *numbers: int, agent: AgentId = ONE) -> None:
    for number in numbers:
        await runtime.send_message(Add(number), agent)


def grow_old(dsn: str, days: int = 40) -> None:
    """Everything in the log becomes so much older; what was recorded long ago is in the partitions of that month."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path TO eventlog")
        connection.execute("SET session_replication_role = replica")
        connection.execute("UPDATE event SET recorded_at = recorded_at - make_interval(days => %s)", (days,))
        connection.execute(
            "UPDATE large_payload SET month = date_trunc('month', now() - make_interval(days => %s), 'UTC')", (days,)
        )
        for table, key in (("event", "recorded_at"), ("large_payload", "month")):
            months = connection.execute(f"SELECT DISTINCT date_trunc('month', {key}, 'UTC') FROM {table}_default")
            for (month,) in months.fetchall():
                into_its_own_partition(connection, table, key, month)


def into_its_own_partition(connection: psycopg.Connection[Any], table: str, key: str, month: datetime) -> None:
    name = f"{table}_{month.astimezone(timezone.utc):%Y_%m}"
    end = connection.execute("SELECT %s::timestamptz + interval '1 month'", (month,)).fetchone()
    assert end is not None
    connection.execute(f"CREATE TABLE {name} (LIKE {table} INCLUDING STORAGE INCLUDING COMPRESSION)")
    connection.execute(
        f"WITH moved AS (DELETE FROM {table}_default WHERE {key} >= %s AND {key} < %s RETURNING *) "
        f"INSERT INTO {name} SELECT * FROM moved",
        (month, end[0]),
    )
    connection.execute(
        f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ('{month.isoformat()}') TO ('{end[0].isoformat()}')"
    )


def never_was(dsn: str, agent: AgentId) -> None:
    """What the log knows of an agent is gone."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("DELETE FROM eventlog.event WHERE stream = %s", (str(agent),))
        connection.execute("DELETE FROM eventlog.stream WHERE id = %s", (str(agent),))


async def digest(runtime: EventSourcedAgentRuntime, log: EventLog, agent: AgentId, **point: Any) -> str:
    return capture(await runtime.view(agent, **point), log.codec).digest


# -- what may go --------------------------------------------------------------------------------------------------


async def test_a_month_goes_below_a_proven_snapshot_and_what_is_kept_stays_as_it_was(dsn: str, tmp_path: Path) -> None:
    """E9."""
    async with running(dsn) as (runtime, log):
        await add(runtime, *range(20))
        boundary = (await runtime.snapshot(ONE)).version
        old = [event async for event in log.read(ONE)]
    grow_old(dsn)
    async with running(dsn) as (runtime, log):
        await add(runtime, 100, 101, 102)
        head = await log.head(ONE)
        assert head is not None
        kept = {
            version: await digest(runtime, log, ONE, version=version) for version in range(boundary, head.version + 1)
        }
        (part,) = await Retention(log).plan(NOW)
        assert part.may_go and part.sums.events >= len(old)
        (dropped,) = await Retention(log).drop(NOW, archive=JsonLinesArchive(tmp_path))
        assert (dropped.name, dropped.events) == (part.partition.name, part.sums.events)
        assert await Retention(log).plan(NOW) == []
        for version, was in kept.items():
            assert await digest(runtime, log, ONE, version=version) == was
        for point in ({"version": boundary - 1}, {"version": 1}, {"at": old[3].recorded_at - timedelta(days=40)}):
            with pytest.raises(EventsMissing, match="before retention") as refused:
                await runtime.view(ONE, **point)
            assert refused.value.first == 1
        with pytest.raises(EventsMissing):
            await runtime.restore(ONE, version=3)
        await add(runtime, 103)
        assert await Retention(log).dropped() == [dropped]
    async with running(dsn) as (runtime, log):  # another process recovers, and goes on
        assert await runtime.send_message(Add(1), ONE) == sum(range(20)) + 100 + 101 + 102 + 103 + 1
        assert archived(Path(str(dropped.archive)), ONE) == [event.payload for event in old]


async def test_large_payloads_go_with_their_month_and_are_archived_in_full(dsn: str, tmp_path: Path) -> None:
    text = "x" * 20_000
    async with running(dsn) as (runtime, log):
        for _ in range(3):
            await runtime.send_message(Note(text), ONE)
        await runtime.snapshot(ONE)
        old = [event.payload async for event in log.read(ONE)]
        assert sum(len(payload or b"") > 20_000 for payload in old) == 3
    grow_old(dsn)
    async with running(dsn) as (runtime, log):
        await runtime.send_message(Note(text), ONE)
        (part,) = await Retention(log).plan(NOW)
        assert part.partition.bytes > 20_000
        payload_tables_before = payload_tables(dsn)
        (dropped,) = await Retention(log).drop(NOW, archive=JsonLinesArchive(tmp_path))
        assert archived(Path(str(dropped.archive)), ONE) == old
        assert (await runtime.view(ONE)).notes == [text] * 4  # type: ignore[attr-defined]
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT count(*) FROM eventlog.large_payload").fetchone() == (1,)
        assert payload_tables(dsn) == payload_tables_before - {f"large_payload{part.partition.name[len('event') :]}"}


async def test_a_row_that_is_gone_is_told_from_an_agent_that_never_was(dsn: str) -> None:
    async with running(dsn) as (runtime, _):
        await add(runtime, 1, 2, 3)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("DELETE FROM eventlog.event WHERE stream = 'adder/one' AND version = 4")
    async with running(dsn) as (runtime, _):
        with pytest.raises(EventsMissing, match="versions 4 to 4"):
            await runtime.view(ONE)
        with pytest.raises(EventsMissing):
            await runtime.send_message(Add(4), ONE)
        assert (await runtime.view(ONE, version=3)).numbers == [1]  # type: ignore[attr-defined]


async def test_the_oldest_snapshot_of_what_is_kept_is_not_forgotten(dsn: str) -> None:
    async with running(dsn) as (runtime, log):
        await add(runtime, 1)
        boundary = (await runtime.snapshot(ONE)).version
    grow_old(dsn)
    async with running(dsn) as (runtime, log):
        await Retention(log).drop(NOW)
        for number in range(12):
            await add(runtime, number)
            assert (await runtime.snapshot(ONE)).proven
        versions = [one.version for one in await log.snapshots.list_snapshots(str(ONE))]
        assert min(versions) == boundary and len(versions) < 12
        assert (await runtime.view(ONE, version=boundary + 1)).numbers == [1]  # type: ignore[attr-defined]


# -- what must stay -----------------------------------------------------------------------------------------------


async def test_a_month_stays_for_an_agent_without_a_snapshot_and_names_it(dsn: str) -> None:
    async with running(dsn) as (runtime, log):
        await add(runtime, 1, 2)
        await add(runtime, 3, agent=TWO)
        await runtime.snapshot(ONE)
    grow_old(dsn)
    async with running(dsn) as (runtime, log):
        (part,) = await Retention(log).plan(NOW)
        assert [(one.stream, "no snapshot" in one.why) for one in part.blocked] == [(str(TWO), True)]
        assert "eventlog snapshot" in part.blocked[0].remedy
        assert await Retention(log).drop(NOW) == []
        assert (await runtime.view(TWO)).numbers == [3]  # type: ignore[attr-defined]
        await runtime.snapshot(TWO)
        assert len(await Retention(log).drop(NOW)) == 1
        assert (await runtime.view(TWO)).numbers == [3]  # type: ignore[attr-defined]


async def test_a_month_stays_for_a_fork_that_begins_in_it(dsn: str) -> None:
    """E4: what a branch needs."""
    async with running(dsn) as (runtime, log):
        await add(runtime, 1, 2)
        await runtime.agent_load_state(TWO, await runtime.agent_save_state(ONE))
        await add(runtime, 3)
        await runtime.snapshot(ONE)
    grow_old(dsn)
    async with running(dsn) as (runtime, log):
        (part,) = await Retention(log).plan(NOW)
        assert any(one.stream == str(ONE) and "branch" in one.why for one in part.blocked)
        assert await Retention(log).drop(NOW) == []
        await add(runtime, 4, agent=TWO)
        await runtime.snapshot(TWO)
        assert len(await Retention(log).drop(NOW)) == 1
        assert (await runtime.view(TWO)).numbers == [1, 2, 4]  # type: ignore[attr-defined]


async def test_a_snapshot_on_a_branch_that_was_left_keeps_nothing_from_going_wrong(dsn: str) -> None:
    async with running(dsn) as (runtime, log):
        await add(runtime, 1, 2, 3)
        await runtime.snapshot(ONE)
        await runtime.restore(ONE, version=3)
        await add(runtime, 9)
    grow_old(dsn)
    async with running(dsn) as (runtime, log):
        (part,) = await Retention(log).plan(NOW)
        assert not part.may_go
        await runtime.snapshot(ONE)
        assert len(await Retention(log).drop(NOW)) == 1
        assert (await runtime.view(ONE)).numbers == [1, 9]  # type: ignore[attr-defined]


async def test_a_month_stays_for_a_message_that_is_not_delivered(dsn: str) -> None:
    async with running(dsn, resume=False) as (runtime, log):
        await runtime.stop_when_idle()
        await runtime.publish_message(Add(5), TopicId("default", "one"))
    grow_old(dsn)
    async with running(dsn, resume=False) as (runtime, log):
        (part,) = await Retention(log).plan(NOW)
        assert ["redeliver" in one.remedy for one in part.blocked] == [True]
        await runtime.redeliver()
        await runtime.snapshot(ONE)
        assert [part.blocked for part in await Retention(log).plan(NOW)] == [()]
        assert len(await Retention(log).drop(NOW)) == 1
        assert (await runtime.view(ONE)).numbers == [5]  # type: ignore[attr-defined]


async def test_a_month_stays_for_a_message_of_an_agent_that_reached_nobody(dsn: str) -> None:
    async with running(dsn) as (runtime, log):
        await runtime.send_message(Tell("two"), TELLER)
        await runtime.stop_when_idle()
        await runtime.snapshot(TELLER)
    never_was(dsn, TWO)  # as if the process had been killed before it delivered
    grow_old(dsn)
    async with running(dsn, resume=False) as (runtime, log):
        (part,) = await Retention(log).plan(NOW)
        assert [(one.stream, one.remedy) for one in part.blocked] == [(str(TELLER), "Deliver it: runtime.redeliver()")]
        assert await Retention(log).drop(NOW) == []
        await runtime.redeliver()
        await runtime.stop_when_idle()
        assert len(await Retention(log).drop(NOW)) == 1
        assert (await runtime.view(TWO)).notes == ["told"]  # type: ignore[attr-defined]


async def test_a_message_that_waits_is_seen_behind_a_hundred_others(dsn: str) -> None:
    for messages in (101, 1):  # of two processes
        async with running(dsn, resume=False) as (runtime, log):
            await runtime.stop_when_idle()
            for number in range(messages):
                await runtime.publish_message(Add(number), TopicId("default", "one"))
    grow_old(dsn)
    async with EventLog.open(dsn) as log:
        streams = {event.stream for event in await log.audit.undelivered(limit=200)}
        (part,) = await Retention(log).plan(NOW)
        assert len(streams) == 2 and {one.stream for one in part.blocked} == streams


async def test_a_publication_that_was_for_nobody_keeps_no_month(dsn: str) -> None:
    async with running(dsn) as (runtime, log):
        await runtime.publish_message(Note("to nobody"), TopicId("nobody", "x"))
        await runtime.send_message(Tell("nobody", topic="nobody"), TELLER)
        await runtime.stop_when_idle()
        await runtime.snapshot(TELLER)
        assert len(await log.audit.undelivered()) == 2
    grow_old(dsn)
    async with running(dsn) as (_, log):
        assert [part.blocked for part in await Retention(log).plan(NOW)] == [()]
        assert len(await Retention(log).drop(NOW)) == 1


async def test_a_newer_month_does_not_go_before_an_older_one(dsn: str) -> None:
    async with running(dsn) as (runtime, log):
        await add(runtime, 1, agent=TWO)
    grow_old(dsn, 40)
    async with running(dsn) as (runtime, log):
        await add(runtime, 1)
        await runtime.snapshot(ONE)
    grow_old(dsn, 40)
    async with running(dsn) as (runtime, log):
        older, newer = await Retention(log).plan(NOW)
        assert (older.may_go, newer.may_go) == (False, True)
        assert await Retention(log).drop(NOW) == []


async def test_this_month_and_a_time_without_a_zone_are_no_matter_of_retention(dsn: str) -> None:
    async with running(dsn) as (runtime, log):
        await add(runtime, 1)
        assert await Retention(log).plan(NOW) == []
        with pytest.raises(InvalidPoint):
            await Retention(log).plan(datetime(2026, 1, 1))  # noqa: DTZ001
        with pytest.raises(InvalidPoint, match="future"):
            await Retention(log).drop(NOW + timedelta(days=400))


async def test_what_is_kept_can_still_be_checked_and_judged(dsn: str) -> None:
    async with running(dsn) as (runtime, log):
        await add(runtime, 1)
        await runtime.snapshot(ONE)
    grow_old(dsn)
    async with running(dsn) as (runtime, log):
        await add(runtime, 2)
        await add(runtime, 3, agent=TWO)
        await Retention(log).drop(NOW)
        report = await runtime.check()
        assert report.same and len(report.agents) == 2
        (judged,) = await runtime.determinism()
        assert judged.agents == 1 and [one.agent for one in judged.undecided] == [str(ONE)]


# -- what comes meanwhile -----------------------------------------------------------------------------------------


class Meanwhile:
    """An archive of nothing, while which something happens."""

    def __init__(self, happens: Callable[[], Awaitable[object]]) -> None:
        self._happens = happens

    async def write(self, partition: Partition, sums: Sums, events: AsyncIterator[RecordedEvent]) -> str:
        await self._happens()
        return "nowhere"


@pytest.fixture
def before_removal(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Awaitable[object]]], None]:
    """Something happens between the last plan of a month and its removal, once."""

    def set_up(happens: Callable[[], Awaitable[object]]) -> None:
        real, left = Partitions.drop, [happens]

        async def drop(self: Partitions, *arguments: Any) -> bool:
            if left:
                await left.pop()()
            return await real(self, *arguments)

        monkeypatch.setattr(Partitions, "drop", drop)

    return set_up


@pytest.fixture(params=["while it is archived", "after it was planned anew"])
def dropping(request: pytest.FixtureRequest, before_removal: Any) -> Callable[..., Awaitable[list[DroppedPartition]]]:
    """Removes months; something happens meanwhile."""

    async def drop(log: EventLog, happens: Callable[[], Awaitable[object]]) -> list[DroppedPartition]:
        if request.param == "while it is archived":
            return await Retention(log).drop(NOW, archive=Meanwhile(happens))
        before_removal(happens)
        return await Retention(log).drop(NOW)

    return drop


async def test_a_restore_into_a_month_that_is_being_removed_keeps_it(dsn: str, dropping: Any) -> None:
    async with running(dsn) as (runtime, log):
        await add(runtime, 1, 2, 3)
        await runtime.snapshot(ONE)
    grow_old(dsn)
    async with running(dsn) as (runtime, log):
        await add(runtime, 4)
        with pytest.raises(RetentionRefused, match=r"needed since .* adder/one: a branch needs") as refused:
            await dropping(log, lambda: runtime.restore(ONE, version=3))
        assert "snapshot" in refused.value.remedy
        assert [part.may_go for part in await Retention(log).plan(NOW)] == [False]
    async with running(dsn) as (runtime, log):
        assert await runtime.send_message(Add(9), ONE) == 10


async def test_a_fork_from_a_month_that_is_being_removed_keeps_it(dsn: str, dropping: Any) -> None:
    async with running(dsn) as (runtime, log):
        await add(runtime, 1, 2)
        saved = await runtime.agent_save_state(ONE)
        await add(runtime, 3)
        await runtime.snapshot(ONE)
    grow_old(dsn)
    async with running(dsn) as (runtime, log):
        with pytest.raises(RetentionRefused, match=r"needed since .* adder/one: a branch needs"):
            await dropping(log, lambda: runtime.agent_load_state(TWO, saved))
        assert (await runtime.view(TWO)).numbers == [1, 2]  # type: ignore[attr-defined]


async def test_a_snapshot_that_goes_while_its_month_is_being_removed_keeps_it(dsn: str, dropping: Any) -> None:
    async with running(dsn) as (runtime, log):
        await add(runtime, 1)
        await runtime.snapshot(ONE)
    grow_old(dsn)
    async with running(dsn) as (_, log):
        (snapshot,) = await log.snapshots.list_snapshots(str(ONE))
        with pytest.raises(RetentionRefused, match="no snapshot"):
            await dropping(log, lambda: log.snapshots.delete_snapshot(snapshot))
        assert len(await Retention(log).plan(NOW)) == 1


async def test_a_restore_elsewhere_does_not_keep_a_month(dsn: str, dropping: Any) -> None:
    async with running(dsn) as (runtime, log):
        await add(runtime, 1)
        await runtime.snapshot(ONE)
    grow_old(dsn)
    async with running(dsn) as (runtime, log):
        await add(runtime, 2, 3, agent=TWO)
        assert len(await dropping(log, lambda: runtime.restore(TWO, version=3))) == 1


async def test_of_two_retentions_at_once_the_second_is_refused(dsn: str) -> None:
    async with running(dsn) as (runtime, _):
        await add(runtime, 1)
        await runtime.snapshot(ONE)
    grow_old(dsn)
    async with EventLog.open(dsn) as one, EventLog.open(dsn) as other:

        async def second() -> None:
            with pytest.raises(RetentionRefused, match="another retention of this log is under way"):
                await Retention(other).drop(NOW)

        assert len(await Retention(one).drop(NOW, archive=Meanwhile(second))) == 1
        assert await Retention(other).drop(NOW) == []


async def test_a_month_that_others_removed_meanwhile_is_said_to_be_gone(dsn: str, dropping: Any) -> None:
    async with running(dsn) as (runtime, log):
        await add(runtime, 1)
        await runtime.snapshot(ONE)
    grow_old(dsn)
    async with EventLog.open(dsn) as log:
        (part,) = await Retention(log).plan(NOW)

        async def remove() -> None:
            async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
                await connection.execute(f"DROP TABLE eventlog.{part.partition.name}")  # type: ignore[arg-type]

        with pytest.raises(RetentionRefused, match="removed meanwhile"):
            await dropping(log, remove)


@pytest.mark.parametrize(
    ("first", "second", "mode"),
    [("large_payload", "event", "ROW EXCLUSIVE"), ("event", "large_payload", "ACCESS SHARE")],
    ids=["appends", "reads"],
)
async def test_a_removal_does_not_come_to_a_deadlock_with(dsn: str, first: str, second: str, mode: str) -> None:
    """Appends of large payloads lock them before the events, and reads the events before them."""
    async with running(dsn) as (runtime, log):
        await runtime.send_message(Note("x" * 20_000), ONE)
        await runtime.snapshot(ONE)
    grow_old(dsn)
    async with (
        EventLog.open(dsn) as log,
        await psycopg.AsyncConnection.connect(dsn) as other,
        await psycopg.AsyncConnection.connect(dsn, autocommit=True) as watching,
    ):
        await other.execute("SET deadlock_timeout = '1ms'")  # so that it would be the one to be told
        await other.execute(f"LOCK TABLE eventlog.{first} IN {mode} MODE")  # type: ignore[arg-type]
        removing = asyncio.create_task(Retention(log).drop(NOW))

        async def waits() -> bool:
            waiting = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            return (await watching.execute(waiting)).rowcount == 1

        await eventually(waits, "the removal waits for a lock")
        await other.execute(f"LOCK TABLE eventlog.{second} IN {mode} MODE")  # type: ignore[arg-type]
        await other.commit()
        assert len(await removing) == 1
    assert len(payload_tables(dsn)) == 3  # of this month, of the next, and the default one


async def test_large_payloads_that_a_killed_retention_left_go_with_the_next(dsn: str, monkeypatch: Any) -> None:
    async with running(dsn) as (runtime, log):
        await runtime.send_message(Note("x" * 20_000), ONE)
        await runtime.snapshot(ONE)
    grow_old(dsn)

    async def killed(*arguments: Any) -> None:
        raise asyncio.CancelledError

    async with EventLog.open(dsn) as log:
        with monkeypatch.context() as patched, pytest.raises(asyncio.CancelledError):
            patched.setattr(Partitions, "drop_payloads", killed)
            await Retention(log).drop(NOW)
        assert await Retention(log).plan(NOW) == [] and len(payload_tables(dsn)) == 4
        assert await Retention(log).drop(NOW) == []
        assert len(payload_tables(dsn)) == 3 and len(await Retention(log).dropped()) == 1


# -- archives -----------------------------------------------------------------------------------------------------


class Failing:
    async def write(self, partition: Any, sums: Any, events: AsyncIterator[RecordedEvent]) -> str:
        raise OSError("the disk is full")


async def test_nothing_is_removed_where_the_archive_fails_or_events_came_meanwhile(dsn: str, tmp_path: Path) -> None:
    async with running(dsn) as (runtime, log):
        await add(runtime, 1)
        await runtime.snapshot(ONE)
    grow_old(dsn)
    async with running(dsn) as (runtime, log):
        keeper = Retention(log)
        (part,) = await keeper.plan(NOW)
        with pytest.raises(OSError, match="full"):
            await keeper.drop(NOW, archive=Failing())

        class Slow(JsonLinesArchive):
            async def write(self, partition: Any, sums: Any, events: AsyncIterator[RecordedEvent]) -> str:
                where = await super().write(partition, sums, events)
                with psycopg.connect(dsn, autocommit=True) as connection:
                    connection.execute(
                        f"INSERT INTO eventlog.{partition.name} SELECT (json_populate_record(e, '{{\"version\": 99}}')).*"
                        f" FROM eventlog.{partition.name} AS e WHERE stream = 'adder/one' AND version = 1"
                    )
                return where

        with pytest.raises(RetentionRefused, match="meanwhile"):
            await keeper.drop(NOW, archive=Slow(tmp_path))
        assert [one.partition.name for one in await keeper.plan(NOW)] == [part.partition.name]
        assert not list(tmp_path.glob("*.part"))  # noqa: ASYNC240


async def test_a_month_whose_large_payload_is_lost_is_not_archived_as_if_it_were_whole(
    dsn: str, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    async with running(dsn) as (runtime, log):
        await add(runtime, 1)
        await runtime.send_message(Note("x" * 20_000), ONE)
        await runtime.snapshot(ONE)
    grow_old(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("DELETE FROM eventlog.large_payload")
        events = "SELECT stream, version FROM eventlog.event WHERE position = "
        first = "(SELECT min(position) FROM eventlog.event WHERE eventlog.is_reference(payload))"
        [(stream, version)] = connection.execute(f"{events}{first}").fetchall()
    async with EventLog.open(dsn) as log:
        for archive in (JsonLinesArchive(tmp_path), ParquetArchive(tmp_path)):
            with pytest.raises(PayloadCorrupt, match="gone") as refused:
                await Retention(log).drop(NOW, archive=archive)
            assert refused.value.where == f"stream {stream!r}, version {version}"
        assert [part.may_go for part in await Retention(log).plan(NOW)] == [True]
        assert files_in(tmp_path) == []


async def test_months_of_two_logs_lie_side_by_side_in_one_directory(dsn: str, fresh_logs: Any, tmp_path: Path) -> None:
    archives: dict[str, AgentId] = {}
    with fresh_logs() as other:
        for place, agent in ((dsn, ONE), (other, TWO)):
            async with running(place) as (runtime, _):
                await add(runtime, 1, 2, agent=agent)
                await runtime.snapshot(agent)
            grow_old(place)
            async with EventLog.open(place) as log:
                (dropped,) = await Retention(log).drop(NOW, archive=JsonLinesArchive(tmp_path))
                archives[str(dropped.archive)] = agent
    assert files_in(tmp_path) == sorted(Path(path).name for path in archives) and len(archives) == 2
    for path, agent in archives.items():
        assert archived(Path(path), agent)


async def test_a_month_that_was_archived_already_is_archived_once(dsn: str, tmp_path: Path) -> None:
    """As after a kill between the archive and the removal."""
    pytest.importorskip("pyarrow")
    async with running(dsn) as (runtime, log):
        await add(runtime, 1)
        await runtime.snapshot(ONE)
    grow_old(dsn)
    async with EventLog.open(dsn) as log:
        for kind in (JsonLinesArchive, ParquetArchive):
            where = await archive_oldest(log, kind(tmp_path))
            assert await archive_oldest(log, kind(tmp_path)) == where
        assert len(files_in(tmp_path)) == 2
        where = await archive_oldest(log, JsonLinesArchive(tmp_path))
        Path(where).write_bytes(b"edited")  # noqa: ASYNC240
        with pytest.raises(RetentionRefused, match="not what was written there"):
            await Retention(log).drop(NOW, archive=JsonLinesArchive(tmp_path))
        assert Path(where).read_bytes() == b"edited"  # noqa: ASYNC240
        assert len(await Retention(log).plan(NOW)) == 1 and len(files_in(tmp_path)) == 2


async def test_archives_that_are_written_at_once_do_not_write_into_one_file(dsn: str, tmp_path: Path) -> None:
    async with running(dsn) as (runtime, log):
        await add(runtime, 1, 2, 3)
    grow_old(dsn)
    async with EventLog.open(dsn) as log:
        partition, sums = await oldest(log)

        async def in_turns() -> AsyncIterator[RecordedEvent]:
            async for event in Partitions(log.reader.pool).events(partition):
                yield event
                await asyncio.sleep(0)

        writing = [JsonLinesArchive(tmp_path).write(partition, sums, in_turns()) for _ in range(2)]
        where, as_well = await asyncio.gather(*writing)
        assert where == as_well and len(archived(Path(where), ONE)) > 3
        assert files_in(tmp_path) == [Path(where).name]


@pytest.mark.parametrize("kind", [JsonLinesArchive, ParquetArchive])
async def test_a_file_that_reads_back_otherwise_keeps_the_month(dsn: str, tmp_path: Path, kind: Any) -> None:
    pytest.importorskip("pyarrow")
    async with running(dsn) as (runtime, log):
        await add(runtime, 1)
        await runtime.snapshot(ONE)
    grow_old(dsn)

    class Disturbed(kind):  # type: ignore[misc]
        async def write(self, partition: Any, sums: Any, events: AsyncIterator[RecordedEvent]) -> str:
            async def disturbed() -> AsyncIterator[RecordedEvent]:
                async for event in events:
                    yield event
                (part,) = tmp_path.glob("*.part")  # noqa: ASYNC240
                part.write_bytes(b"somebody else's\n" * 10_000)

            return await super().write(partition, sums, disturbed())

    async with EventLog.open(dsn) as log:
        with pytest.raises(RetentionRefused, match="reads back otherwise"):
            await Retention(log).drop(NOW, archive=Disturbed(tmp_path))
        assert len(await Retention(log).plan(NOW)) == 1 and files_in(tmp_path) == []


async def test_a_parquet_archive_holds_every_column(dsn: str, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    async with running(dsn) as (runtime, log):
        await add(runtime, 1, 2)
        await runtime.snapshot(ONE)
    grow_old(dsn)
    async with running(dsn) as (runtime, log):
        old = [event async for event in log.read(ONE)]
        (dropped,) = await Retention(log).drop(NOW, archive=ParquetArchive(tmp_path))
        rows = [row for row in parquet.read_table(dropped.archive).to_pylist() if row["stream"] == str(ONE)]
        assert [(row["version"], row["payload"], row["id"], row["recorded_at"]) for row in rows] == [
            (event.version, event.payload, str(event.id), event.recorded_at) for event in old
        ]
        assert [json.loads(row["metadata"]) for row in rows] == [event.metadata for event in old]


def test_the_command_shows_the_plan_first_and_removes_when_told(dsn: str, tmp_path: Path) -> None:
    async def record() -> None:
        async with running(dsn) as (runtime, _):
            await add(runtime, 1)
            await runtime.snapshot(ONE)

    asyncio.run(record())
    grow_old(dsn)

    def eventlog(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["--dsn", dsn, *arguments])

    planned = eventlog("retention", "--before", "1d")
    assert planned.exit_code == 0 and "may go" in planned.stdout, planned.output
    done = eventlog("--json", "retention", "--before", "1d", "--apply", "--archive", str(tmp_path))
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["dropped"] and Path(said["archive"]).exists()
    assert eventlog("retention", "--before", "1d").stdout.strip().splitlines()[1:] == []


async def oldest(log: EventLog) -> tuple[Partition, Sums]:
    part = (await Retention(log).plan(NOW))[0]
    return part.partition, part.sums


async def archive_oldest(log: EventLog, archive: Archive) -> str:
    partition, sums = await oldest(log)
    return await archive.write(partition, sums, Partitions(log.reader.pool).events(partition))


def payload_tables(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as connection:
        names = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'large_payload%'"
        return {row[0] for row in connection.execute(names).fetchall()}


def files_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def archived(path: Path, agent: AgentId) -> list[bytes | None]:
    """The payloads of an agent's events, from a file whose sums are checked."""
    chain = Chain()
    header, *lines, end = [chain.opened(line) for line in path.read_bytes().splitlines()]
    assert (header["events"], end["end"]) == (len(lines), len(lines))
    events = [event_of(form, form["stream"]) for form in lines]
    return [event.payload for event in events if event.stream == str(agent)]
