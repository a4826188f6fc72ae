"""Random histories of random concurrent agents: what was seen at a point can be seen again, for ever (G3, G7, G9; E6)."""

from __future__ import annotations

import asyncio
import copy
import itertools
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import pytest
from autogen_core import AgentId, BaseAgent, MessageContext, TypeSubscription

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.errors import AgentBusy
from autogen_eventlog.runtime.handler import Durability
from tests.acceptance.asking import until
from tests.unit.random_programs import Programmed, random_program

HISTORIES = int(os.environ.get("EVENTLOG_TEST_HISTORIES", "2"))
STEPS = 6
MARK = [("change", -1)]
AGENTS = [AgentId("programmed", "a"), AgentId("programmed", "b"), AgentId("world", "one"), AgentId("news", "all")]


class World(BaseAgent):
    """Answers after a while, in no order, asks others before it does, or fails."""

    def __init__(self) -> None:
        super().__init__("answers")
        self.asked: list[int] = []
        self.answered: dict[int, int] = {}

    async def on_message_impl(self, message: Any, ctx: MessageContext) -> Any:
        if isinstance(message, list):
            return len(self.asked)
        self.asked.append(message)
        await asyncio.sleep((message % 5) * 0.0007)
        if message % 4 == 0:
            await self.send_message((message, "told"), AgentId("news", "all"))
        if message % 29 == 0:
            raise KeyError("world")
        if message % 31 == 0:
            raise ValueError(message, 1)
        self.answered[message] = len(self.asked)
        return ("answer", message)


class News(BaseAgent):
    """Keeps what it hears."""

    def __init__(self) -> None:
        super().__init__("hears")
        self.heard: list[Any] = []

    async def on_message_impl(self, message: Any, ctx: MessageContext) -> Any:
        if isinstance(message, tuple):
            self.heard.append(message)


@dataclass(frozen=True)
class Seen:
    """An agent as it was at a point."""

    agent: AgentId
    time: datetime
    version: int
    position: int
    attributes: dict[str, Any]


def attributes(agent: Any) -> dict[str, Any]:
    """All that makes up the state, down to what waits in the queue."""
    found = {name: value for name, value in vars(agent).items() if isinstance(value, (list, dict, int, str))}
    if isinstance(agent, Programmed):
        found["waiting"] = list(agent.queue._queue)  # type: ignore[attr-defined]
        found["locked"] = agent.lock.locked()
    return copy.deepcopy(found)


@asynccontextmanager
async def running(log: EventLog, durability: Durability = "output") -> AsyncIterator[EventSourcedAgentRuntime]:
    runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, durability=durability)])
    await runtime.register_factory("programmed", Programmed)
    await runtime.register_factory("world", World)
    await runtime.register_factory("news", News)
    await runtime.add_subscription(TypeSubscription("news", "news"))
    runtime.start()
    yield runtime
    await runtime.stop()


class History:
    """Lets agents live, and keeps what they were."""

    def __init__(self, runtime: EventSourcedAgentRuntime, log: EventLog, seed: int) -> None:
        self.runtime = runtime
        self.log = log
        self.rnd = random.Random(seed)
        self.seen: list[Seen] = []

    async def step(self) -> None:
        """Some programs at once, to the end of everything that they began."""
        sent = [
            asyncio.create_task(self.runtime.send_message(random_program(self.rnd), self.rnd.choice(AGENTS[:2])))
            for _ in range(self.rnd.randint(1, 6))
        ]
        await asyncio.gather(*sent, return_exceptions=True)
        await self.rest()
        for agent in AGENTS:
            await self.keep(agent)

    async def rest(self) -> None:
        async def at_rest() -> bool:
            shells = [self.runtime._agents.shells[agent] for agent in AGENTS if agent in self.runtime._agents.shells]
            return all(shell.incarnation is None or shell.incarnation.quiet for shell in shells) and (
                not await self.log.audit.in_flight()
            )

        await until(at_rest, "the agents are at rest", timeout=30)

    async def keep(self, agent: AgentId) -> None:
        """What ran after the last event is in no event yet; a message brings it in."""
        await self.runtime.send_message(MARK, agent)
        instance = await self.runtime.try_get_underlying_agent_instance(agent)
        head = await self.log.head(agent)
        assert head is not None
        now = datetime.now(timezone.utc)
        self.seen.append(Seen(agent, now, head.version, head.position, attributes(instance)))

    async def go_back(self) -> None:
        """To a point that was kept: the live agent is then what it was."""
        seen = self.rnd.choice(self.seen)
        report = await self.runtime.restore(seen.agent, **self.point(seen))
        assert report.version == seen.version
        live = await self.runtime.try_get_underlying_agent_instance(seen.agent)
        assert attributes(live) == seen.attributes
        assert report.in_flight == ()

    async def go_amid(self) -> None:
        """To any version, also amid deliveries, which then go on."""
        seen = self.rnd.choice(self.seen)
        version = self.rnd.randint(1, seen.version)
        before = attributes(await self.runtime.view(seen.agent, version=version))
        report = await self.runtime.restore(seen.agent, version=version)
        assert report.version == version
        await self.rest()
        after = attributes(await self.runtime.view(seen.agent, version=version))
        assert before == after

    def point(self, seen: Seen) -> dict[str, Any]:
        return self.rnd.choice([{"at": seen.time}, {"version": seen.version}, {"position": seen.position}])

    async def check(self, runtime: EventSourcedAgentRuntime) -> None:
        """Every kept point, in any order, however it is asked for, and asked again."""
        for seen in self.rnd.sample(self.seen, len(self.seen)):
            for point in ({"at": seen.time}, {"version": seen.version}, {"position": seen.position}):
                view = await runtime.view(seen.agent, **point)  # type: ignore[arg-type]
                assert attributes(view) == seen.attributes, (seen.agent, point)
        again = self.rnd.choice(self.seen)
        for _ in range(2):
            assert attributes(await runtime.view(again.agent, at=again.time)) == again.attributes


@pytest.fixture(autouse=True)
async def quiet_loop() -> None:
    # Programs raise in background tasks on purpose.
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)


@pytest.mark.parametrize("durability", ["output", "strict"])
async def test_what_was_seen_at_a_point_is_seen_again_whatever_came_after(dsn: str, durability: Durability) -> None:
    for _ in range(HISTORIES):
        seed = random.randrange(1 << 30)
        print(f"seed {seed}")
        async with EventLog.open(dsn) as log, running(log, durability) as runtime:
            history = History(runtime, log, seed)
            for _ in range(STEPS):
                await history.step()
                if history.rnd.random() < 0.5:
                    await history.go_back()
                if history.rnd.random() < 0.3:
                    await history.go_amid()
                    for agent in AGENTS:
                        await history.keep(agent)
            await history.check(runtime)
        async with EventLog.open(dsn) as log, running(log) as later:
            await history.check(later)


async def test_the_past_only_grows_from_version_to_version_of_a_branch(dsn: str) -> None:
    async with EventLog.open(dsn) as log, running(log) as runtime:
        history = History(runtime, log, random.randrange(1 << 30))
        await history.step()
        await history.step()
        last = [seen for seen in history.seen if seen.agent == AGENTS[0]][-1]
        traces = [
            (await runtime.view(AGENTS[0], version=version, type=Programmed)).trace
            for version in range(1, last.version + 1)
        ]
        for earlier, later in itertools.pairwise(traces):
            assert later[: len(earlier)] == earlier
        assert traces[-1] == last.attributes["trace"]


async def test_restoring_amid_deliveries_under_load_keeps_every_view(dsn: str) -> None:
    """Restores while programs run: they wait, or are refused as busy; nothing seen before changes."""
    async with EventLog.open(dsn) as log, running(log) as runtime:
        history = History(runtime, log, random.randrange(1 << 30))
        await history.step()
        for _ in range(4):
            programs = [
                asyncio.create_task(runtime.send_message(random_program(history.rnd), AGENTS[0])) for _ in range(4)
            ]
            seen = history.rnd.choice([seen for seen in history.seen if seen.agent == AGENTS[0]])
            try:
                report = await runtime.restore(seen.agent, version=seen.version, timeout=5)
            except AgentBusy:
                pass
            else:
                assert report.version == seen.version
            await asyncio.gather(*programs, return_exceptions=True)
            await history.rest()
            for agent in AGENTS:
                await history.keep(agent)
        await history.check(runtime)
