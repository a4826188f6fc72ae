"""Many agents in one log: restoring one costs what its own past costs, and reads nothing of the others."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

import psycopg
from autogen_core import AgentId, MessageContext, RoutedAgent, TopicId, TypeSubscription, message_handler

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime

from .asking import until

KEYS = int(os.environ.get("EVENTLOG_TEST_KEYS", "1000"))
ROUNDS = 4


@dataclass
class Line:
    text: str


@dataclass
class Kept:
    lines: int


class Session(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("session")
        self.lines: list[str] = []

    @message_handler
    async def on_line(self, message: Line, ctx: MessageContext) -> Kept:
        self.lines.append(message.text)
        return Kept(len(self.lines))


async def test_restoring_one_of_a_thousand_interleaved_agents_reads_that_one_alone(dsn: str) -> None:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await Session.register(runtime, "session", Session)
        runtime.start()
        for round in range(ROUNDS):
            await asyncio.gather(
                *(runtime.send_message(Line(f"{key}-{round}"), AgentId("session", str(key))) for key in range(KEYS))
            )
        await runtime.stop_when_idle()
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await Session.register(runtime, "session", Session)
        one = AgentId("session", str(KEYS // 2))
        head = await log.head(one)
        assert head is not None
        read: list[str] = []
        pages = log.reader.read

        def watched(stream: str, **options: object) -> object:
            read.append(stream)
            return pages(stream, **options)  # type: ignore[arg-type]

        log.reader.read = watched  # type: ignore[method-assign, assignment]
        before = rows_read(dsn)
        report = await runtime.restore(one, version=head.version - 2)
        assert set(read) == {str(one)}
        assert report.events_replayed == head.version - 2
        await until(lambda: counted(dsn, before), "the server has counted")
        assert rows_read(dsn) - before < 20 * head.version
        assert (await runtime.view(one, type=Session)).lines == [f"{one.key}-{round}" for round in range(ROUNDS - 1)]
        other = AgentId("session", "0")
        assert (await runtime.view(other, type=Session)).lines == [f"0-{round}" for round in range(ROUNDS)]


async def counted(dsn: str, before: int) -> bool:
    return rows_read(dsn) > before


def rows_read(dsn: str) -> int:
    """Rows of events that the server fetched, by index and by scan, since it counts."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "SELECT sum(idx_tup_fetch + seq_tup_read)::bigint FROM pg_stat_user_tables WHERE relname LIKE 'event%'"
        ).fetchone()
    assert row is not None
    return int(row[0])


async def test_a_publication_reaches_a_thousand_subscribers_once_each(dsn: str) -> None:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        for number in range(KEYS):
            await Session.register(runtime, f"subscriber{number}", Session)
            await runtime.add_subscription(TypeSubscription("news", f"subscriber{number}"))
        runtime.start()
        await runtime.publish_message(Line("hear, hear"), TopicId("news", "all"))
        await runtime.publish_message(Line("again"), TopicId("news", "all"))
        await runtime.stop_when_idle()
        agents = [AgentId(f"subscriber{number}", "all") for number in range(KEYS)]
        assert await log.audit.in_flight() == []
        assert await log.audit.undelivered() == []
        for agent in agents[:: max(1, KEYS // 50)]:
            assert (await runtime.view(agent, type=Session)).lines == ["hear, hear", "again"]
        heads = await log.agents(limit=10 * KEYS)
        assert {head.stream for head in heads} >= {str(agent) for agent in agents}
        assert {head.version for head in heads if head.stream.startswith("subscriber")} == {5}
