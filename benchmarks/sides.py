"""Ways to run the same agents: AutoGen's runtime, ours, and what a tutorial would do to keep states.

Each comes up in an event loop of its own, because ours watches what its loop schedules and would slow down its
neighbours.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from autogen_core import AgentId, SingleThreadedAgentRuntime
from psycopg.types.json import Jsonb

from autogen_eventlog import EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.runtime.handler import Durability
from benchmarks.places import Place, value


@dataclass(frozen=True, slots=True)
class Running:
    """A runtime that is ready to be started, and what its user does after each message."""

    runtime: SingleThreadedAgentRuntime
    after: Callable[[AgentId], Awaitable[None]]
    rows: Callable[[], Awaitable[int]]
    """Rows written so far."""


Side = Callable[[Place], AbstractAsyncContextManager[Running]]


@asynccontextmanager
async def autogen(place: Place) -> AsyncGenerator[Running]:
    yield Running(SingleThreadedAgentRuntime(), _nothing, _no_rows)


def recorded(durability: Durability) -> Side:
    @asynccontextmanager
    async def side(place: Place) -> AsyncGenerator[Running]:
        async with place.log() as log, place.connection() as connection:
            handler = EventLogHandler(log, durability=durability)

            async def rows() -> int:
                await log.writer.flush()
                return await value(connection, "SELECT count(*) FROM event")

            yield Running(EventSourcedAgentRuntime(intervention_handlers=[handler]), _nothing, rows)

    return side


@asynccontextmanager
async def tutorial(place: Place) -> AsyncGenerator[Running]:
    """AutoGen's runtime; after each message, the agent's state goes into a row of its own, and is committed."""
    runtime = SingleThreadedAgentRuntime()
    written = 0
    async with place.connection() as connection:
        await connection.execute(b"CREATE TABLE IF NOT EXISTS state (agent text PRIMARY KEY, state jsonb NOT NULL)")

        async def save(agent: AgentId) -> None:
            nonlocal written
            state = dict(await runtime.agent_save_state(agent))
            await connection.execute(
                b"INSERT INTO state (agent, state) VALUES (%s, %s) "
                b"ON CONFLICT (agent) DO UPDATE SET state = EXCLUDED.state",
                (str(agent), Jsonb(state)),
            )
            written += 1

        async def rows() -> int:
            return written

        yield Running(runtime, save, rows)


async def _nothing(agent: AgentId) -> None:
    return


async def _no_rows() -> int:
    return 0


AUTOGEN, OUTPUT, STRICT, TUTORIAL = "AutoGen", 'ours, "output"', 'ours, "strict"', "AutoGen + saved states"
SIDES: dict[str, Side] = {
    AUTOGEN: autogen,
    OUTPUT: recorded("output"),
    STRICT: recorded("strict"),
    TUTORIAL: tutorial,
}
