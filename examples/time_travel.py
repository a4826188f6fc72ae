"""Branches of the past: restore, go another way, look at both, go back, fork: `python examples/time_travel.py`."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from contextlib import ExitStack
from pathlib import Path

import shop
from autogen_core import AgentId

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime

CLERK = AgentId("clerk", "oslo")
WAREHOUSE, COPY = AgentId("warehouse", "oslo"), AgentId("warehouse", "copy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, help="keep the log there (default: a temporary directory, removed)")
    parser.add_argument("--dsn", help="a Postgres of yours, in place of the embedded one")
    given = parser.parse_args()
    with ExitStack() as stack:
        data_dir = given.data_dir
        if data_dir is None and given.dsn is None:
            temporary = tempfile.TemporaryDirectory(prefix="eventlog-", ignore_cleanup_errors=True)
            data_dir = Path(stack.enter_context(temporary))
        asyncio.run(travel(given.dsn, data_dir))


async def travel(dsn: str | None, data_dir: Path | None) -> None:
    async with EventLog.open(dsn, data_dir=data_dir) as log:
        if await log.head(CLERK) is not None:
            raise SystemExit("The log given already holds this example. Give an empty directory or database.")
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await shop.register(runtime)
        runtime.start()

        await runtime.send_message(shop.Order(1, "pear", 1), CLERK)
        fork_in_the_road = await log.version_at(CLERK)
        head = await log.head(CLERK)
        assert head is not None
        await runtime.send_message(shop.Order(2, "pear", 20), CLERK)
        left = await log.version_at(CLERK)
        print("one way:      ", await sold(runtime, CLERK))

        report = await runtime.restore(CLERK, version=fork_in_the_road)
        print(
            f"restored to version {report.version}; {report.abandoned_events} events are now on a branch that was left"
        )
        await runtime.send_message(shop.Order(2, "plum", 30), CLERK)
        print("another way:  ", await sold(runtime, CLERK))
        print("the way left: ", await sold(runtime, CLERK, version=left))

        for branch in ("all", "current"):
            records = await log.audit.messages(agent=CLERK, branch=branch, newest_first=False)
            orders = [f"{record.message.quantity} {record.message.item}" for record in records]
            print(f"orders ({branch}): {', '.join(orders)}")

        await runtime.restore(CLERK, version=left)
        print("back again:   ", await sold(runtime, CLERK))

        # A saved state names stream and version; given to another agent, that one begins with this past. (A clerk could not:
        # it writes its own key into its messages, so under another key its code does something else than the log says.)
        await runtime.agent_load_state(COPY, await runtime.agent_save_state(WAREHOUSE))
        await runtime.send_message(shop.Pack("plum", 2, 0.0), COPY)
        print("a fork:       ", await stock(runtime, COPY), "/ the original:", await stock(runtime, WAREHOUSE))

        # One position is one instant for all agents: no message is received there that was not yet sent.
        reports = await runtime.restore_all(position=head.position)
        print("all, at one position:", {str(report.agent): report.version for report in reports})
        await runtime.stop_when_idle()


async def sold(runtime: EventSourcedAgentRuntime, agent: AgentId, *, version: int | None = None) -> dict[str, int]:
    """What a clerk has sold, now or as of a version."""
    return dict((await runtime.view(agent, version=version, type=shop.Clerk)).sold)


async def stock(runtime: EventSourcedAgentRuntime, agent: AgentId) -> dict[str, int]:
    return (await runtime.view(agent, type=shop.Warehouse)).stock


if __name__ == "__main__":
    main()
