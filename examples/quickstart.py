"""Kill a program in the middle of its work, and go on: `python examples/quickstart.py`.

The agents are in shop.py; they are ordinary AutoGen agents. This file runs them in a process of its own, kills that
process with SIGKILL while an order is being packed, takes up the work in another process, and looks at the past.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import shop
from autogen_core import Agent, AgentId
from rich.console import Console
from rich.table import Table

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime, EventType, RecordedEvent

CLERK, WAREHOUSE = AgentId("clerk", "oslo"), AgentId("warehouse", "oslo")
BEFORE = [shop.Order(1, "pear", 5), shop.Order(2, "plum", 12)]
INTERRUPTED = shop.Order(3, "pear", 30)
SECONDS_PER_ITEM = 0.04
AUTOGEN = {"_handlers", "_runtime", "_id", "_description"}

console = Console(width=100, highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, help="keep the log there (default: a temporary directory, removed)")
    parser.add_argument("--dsn", help="a Postgres of yours, in place of the embedded one")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        asyncio.run(work(given.dsn))
        return
    with contextlib.ExitStack() as stack:
        data_dir = given.data_dir
        if data_dir is None and given.dsn is None:
            temporary = tempfile.TemporaryDirectory(prefix="eventlog-", ignore_cleanup_errors=True)
            data_dir = Path(stack.enter_context(temporary))
        asyncio.run(tour(given.dsn, data_dir))


async def work(dsn: str) -> None:
    """The process that is killed: it takes two orders, says what its agents hold, and takes a third."""
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await shop.register(runtime, seconds_per_item=SECONDS_PER_ITEM)
        runtime.start()
        for order in BEFORE:
            print(json.dumps(await runtime.send_message(order, CLERK)), flush=True)
        for agent in (CLERK, WAREHOUSE):
            instance = await runtime.try_get_underlying_agent_instance(agent)
            print(json.dumps(attributes(instance)), flush=True)
        await runtime.send_message(INTERRUPTED, CLERK)
        raise SystemExit("the third order was answered, and the process should have been killed before")


async def tour(dsn: str | None, data_dir: Path | None) -> None:
    async with EventLog.open(dsn, data_dir=data_dir) as log:
        if await log.head(CLERK) is not None:
            raise SystemExit("The log given already holds this example. Give an empty directory or database.")
        section("A program with four agents takes orders")
        lived = await run_and_kill(log)

        section("Another process takes up the work")
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await shop.register(runtime, seconds_per_item=SECONDS_PER_ITEM)
        runtime.start()
        before_third = (await answered(log))[len(BEFORE) - 1].version
        show_equal("clerk/oslo", lived[CLERK], attributes(await runtime.view(CLERK, version=before_third)))
        recovered = await runtime.try_get_underlying_agent_instance(CLERK, shop.Clerk)
        check(recovered._open == {INTERRUPTED.number}, "order 3 is under way again")
        console.print(f"The clerk is back, with order 3 under way as it was: _open = {recovered._open}")
        await recorded(log, CLERK, EventType.DELIVERY_COMPLETED, 3)
        warehouse = await runtime.try_get_underlying_agent_instance(WAREHOUSE, shop.Warehouse)
        check(warehouse.stock == {"pear": 5, "plum": 78}, "every order was packed once")
        check(recovered.sold == {"pear": 35, "plum": 12}, "every order was counted once")
        console.print(f"It went on by itself and was packed once: stock {warehouse.stock}, revenue {recovered.revenue}")
        console.print(await runtime.send_message(shop.Order(4, "plum", 8), CLERK))
        check(shop.asked == ["plum"], "the price tool was asked for the new order alone")
        console.print("The price tool was asked for order 4 alone: the log answered for the first three.")

        section("The past: as of any time, version or position")
        for event in await answered(log):
            then = await runtime.view(CLERK, at=event.recorded_at, type=shop.Clerk)
            time = event.recorded_at.strftime("%H:%M:%S.%f")
            console.print(f"{time}  version {event.version:2}  revenue {then.revenue:>5}  sold {dict(then.sold)}")

        section("Restore: back to before order 3, and on from there")
        report = await runtime.restore(CLERK, version=before_third)
        check(report.version == before_third and report.abandoned_events > 0, "the report says what was left")
        now = await runtime.try_get_underlying_agent_instance(CLERK, shop.Clerk)
        check(attributes(now) == lived[CLERK], "the clerk is as it was before order 3")
        console.print(
            f"{report.agent} is as of version {report.version} (replayed {report.events_replayed} events); "
            f"{report.abandoned_events} events were left behind and stay readable; revenue {now.revenue}"
        )

        section("The audit: every message, and how its handler ended")
        await show_audit(log)
        await runtime.stop_when_idle()
    console.print("\n[bold green]Everything was as it should be.[/]")


async def run_and_kill(log: EventLog) -> dict[AgentId, dict[str, str]]:
    """What the agents of the killed process held before the order that was interrupted."""
    arguments = [sys.executable, __file__, "--work", "--dsn", log.dsn]
    process = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        said = [json.loads(await process.stdout.readline() or "null") for _ in range(4)]
        await recorded(log, WAREHOUSE, EventType.MESSAGE_DELIVERED, 3)
        os.kill(process.pid, signal.SIGKILL)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        ended = await process.wait()
    check(ended == -signal.SIGKILL, f"it was killed (exit {ended})")
    for line in said[:2]:
        console.print(line)
    console.print(f"order 3 is being packed … [bold red]kill -9 {process.pid}[/]")
    return {CLERK: said[2], WAREHOUSE: said[3]}


async def recorded(log: EventLog, agent: AgentId, what: EventType, times: int) -> None:
    """Return when the log holds so many events of a type in an agent's stream."""

    async def follow() -> None:
        seen = 0
        async for event in log.tail():
            seen += event.stream == str(agent) and event.type is what
            if seen == times:
                return

    await asyncio.wait_for(follow(), timeout=60)


async def answered(log: EventLog) -> list[RecordedEvent]:
    """The events that say that the clerk was done with an order."""
    return [event async for event in log.read(CLERK) if event.type is EventType.DELIVERY_COMPLETED]


def attributes(agent: Agent) -> dict[str, str]:
    """Every attribute that the agent's own class gave it, private ones too."""
    return {name: repr(value) for name, value in vars(agent).items() if name not in AUTOGEN}


def show_equal(agent: str, lived: dict[str, str], rebuilt: dict[str, str]) -> None:
    table = Table(title=f"{agent} before order 3", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in ("attribute", "in the killed process", "rebuilt from the log"):
        table.add_column(column)
    check(list(lived) == list(rebuilt), "the same attributes in the same order")
    for name, value in lived.items():
        check(value == rebuilt[name], f"{name} is the same")
        table.add_row(name, brief(value), brief(rebuilt[name]))
    console.print(table)


def brief(text: str) -> str:
    return text if len(text) <= 35 else text[:34] + "…"


async def show_audit(log: EventLog) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("agent", "version", "message", "from", "ended", "branch"):
        table.add_column(column)
    records = await log.audit.messages(newest_first=False)
    for record in records:
        table.add_row(
            record.agent,
            str(record.version),
            brief(str(record.message)),
            record.sender or "outside",
            record.outcome.value if record.outcome else "running",
            "left" if record.abandoned else "",
        )
    console.print(table)
    check({record.outcome.value if record.outcome else None for record in records} == {"replied"}, "all were answered")


def section(title: str) -> None:
    console.print(f"\n[bold]{title}[/]")


def check(fact: bool, what: str) -> None:
    """Fail loudly where something is not as it should be."""
    if not fact:
        raise SystemExit(f"This should be so, and is not: {what}")


if __name__ == "__main__":
    main()
