"""The log in a Postgres of yours: `python examples/your_own_postgres.py --dsn postgresql://user@host/database`.

The DSN is what libpq takes, so everything that can be said to libpq can be said here: TLS, several hosts, time-outs,
a password file, a service name.
"""

from __future__ import annotations

import argparse
import asyncio
import os

import shop
from autogen_core import AgentId
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn", default=os.environ.get("EVENTLOG_DSN"), help="default: $EVENTLOG_DSN")
    parser.add_argument("--schema", default="eventlog", help="several logs can live in one database")
    parser.add_argument("--sslmode", help="verify-full checks the server's certificate and its name")
    parser.add_argument("--sslrootcert", help="the certificate authority that the server's certificate must come from")
    given = parser.parse_args()
    if not given.dsn:
        parser.error("give --dsn, or set EVENTLOG_DSN")
    asyncio.run(run(conninfo(given.dsn, given.sslmode, given.sslrootcert), given.schema))


def conninfo(dsn: str, sslmode: str | None, sslrootcert: str | None) -> str:
    """The DSN with TLS settings and a name for `pg_stat_activity`. A password is better kept in a password file."""
    settings = {"sslmode": sslmode, "sslrootcert": sslrootcert, "connect_timeout": 5, "application_name": "shop"}
    return make_conninfo(dsn, **{name: value for name, value in settings.items() if value is not None})


async def run(dsn: str, schema: str) -> None:
    async with EventLog.open(dsn, schema=schema, unavailable_after=10.0) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, durability="strict")])
        await shop.register(runtime)
        runtime.start()
        clerk = AgentId("clerk", "bergen")
        number = await orders_so_far(runtime, clerk) + 1
        print(await runtime.send_message(shop.Order(number, "plum", 1), clerk))
        await runtime.stop_when_idle()
        written = log.statistics()
        database = conninfo_to_dict(dsn).get("dbname")
        print(f"{written.events} events in {written.commits} commits, in schema {schema!r} of database {database!r}")


async def orders_so_far(runtime: EventSourcedAgentRuntime, clerk: AgentId) -> int:
    """What the clerk remembers of earlier runs of this program."""
    instance = await runtime.try_get_underlying_agent_instance(clerk, shop.Clerk)
    return instance.sold["plum"]


if __name__ == "__main__":
    main()
