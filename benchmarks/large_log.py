"""A large log, quickly: rows as the writer makes them, inserted by one statement.

The writer would need a minute for as many, and they would all lie within that minute; here they spread over hours. Each
step, agent n is given a message by agent n-1, calls agent n+1, has the answer and replies; conversations are of twenty
steps. The last ten deliveries are under way.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from autogen_eventlog.codec import Codec
from benchmarks.agents import Add
from benchmarks.places import Place

STEP = timedelta(milliseconds=20)
_EVENTS_A_STEP = 4
_IN_FLIGHT = 10

_EVENT_ID = b"""
CREATE FUNCTION pg_temp.event_id(step bigint, k bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS
$$ SELECT lpad(to_hex((step + 1) * 16 + k), 32, '0')::uuid $$
"""
_ACTIVATIONS = b"""
INSERT INTO event (version, position, recorded_at, epoch, id, occurred_at, stream, type, metadata)
SELECT
    1, agent + 1, %(beginning)s, 1, pg_temp.event_id(agent, 8), %(beginning)s, 'ledger/' || agent, 'AgentActivated',
    '{"producer": {"worker": "benchmark", "agent_class": "benchmarks.agents:Ledger"}, "tick": 0}'
FROM generate_series(0::bigint, %(agents)s::bigint - 1) AS agent
"""
_STEPS = b"""
INSERT INTO event (
    version, position, recorded_at, epoch, id, occurred_at, delivery, call, stream, type, sender, recipient,
    message_id, message_type, outcome, cause, correlation, metadata, payload
)
SELECT
    step / %(agents)s * 4 + 1 + k, %(agents)s + step * 4 + k, %(beginning)s + step * %(step)s::interval,
    1, pg_temp.event_id(step, k), %(beginning)s + step * %(step)s::interval, step / %(agents)s * 4 + 2,
    CASE WHEN k IN (2, 3) THEN step / %(agents)s * 4 + 3 END, 'ledger/' || step %% %(agents)s,
    (ARRAY['MessageDelivered', 'MessageSent', 'ReplyReceived', 'DeliveryCompleted'])[k],
    CASE k WHEN 1 THEN 'ledger/' || (step + %(agents)s - 1) %% %(agents)s
        WHEN 3 THEN 'ledger/' || (step + 1) %% %(agents)s END,
    CASE WHEN k = 2 THEN 'ledger/' || (step + 1) %% %(agents)s END,
    CASE WHEN k = 1 THEN pg_temp.event_id(step - 1, 2)::text END,
    %(message_type)s, CASE WHEN k >= 3 THEN 'replied' END,
    CASE k WHEN 1 THEN CASE WHEN step %% 20 > 0 THEN pg_temp.event_id(step - 1, 2) END
        WHEN 3 THEN pg_temp.event_id(step, 2) ELSE pg_temp.event_id(step, 1) END,
    pg_temp.event_id(step / 20, 9), ('{"tick":' || step / %(agents)s * 4 + k || '}')::json, %(payload)s
FROM generate_series(0::bigint, %(steps)s::bigint - 1) AS step
CROSS JOIN generate_series(1, 4) AS k
WHERE k < 4 OR step < %(steps)s - %(in_flight)s
ORDER BY step, k
"""
_HEADS = b"""
INSERT INTO stream (id, version, epoch, position, recorded_at)
SELECT e.stream, max(e.version), 1, max(e.position), max(e.recorded_at) FROM event AS e GROUP BY e.stream
"""


@dataclass(frozen=True, slots=True)
class LargeLog:
    """What was filled in."""

    place: Place
    agents: int
    beginning: datetime
    end: datetime
    under_way: int


async def fill(place: Place, *, agents: int, events: int) -> LargeLog:
    """Fill the empty log of a place."""
    steps = events // _EVENTS_A_STEP
    beginning = datetime.now(timezone.utc) - STEP * steps - timedelta(minutes=5)
    message = Codec().encode(Add(1, "x" * 200))
    parameters = {
        "agents": agents,
        "beginning": beginning,
        "step": STEP,
        "steps": steps,
        "in_flight": _IN_FLIGHT,
        "message_type": message.type_name,
        "payload": message.data,
    }
    async with place.log(), place.connection() as connection:
        await connection.execute(_EVENT_ID)
        await connection.execute(_ACTIVATIONS, parameters)
        await connection.execute(_STEPS, parameters)
        await connection.execute(_HEADS)
        await connection.execute(b"ANALYZE event, stream")
    return LargeLog(place, agents, beginning, beginning + steps * STEP, _IN_FLIGHT)
