"""A town at work in the middle of things: handlers that wait, views that are held, a replay that failed; until Ctrl-C.

    python -m tests.acceptance.programs.interrupted DSN NOTES

It notes what was answered, prints `busy` when all is under way, and goes on until it is interrupted.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from autogen_core import AgentId, MessageContext, message_handler

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime
from autogen_eventlog.errors import EventLogError

from .drive import drive, next_number, noted, notes
from .town import Booked, Booking, Clerk, Counter, Order, found
from .worker import Patient, Wait


class Miscounter(Counter):
    """Not what recorded the counters."""

    @message_handler
    async def on_booking(self, message: Booking, ctx: MessageContext) -> Booked:
        await super().on_booking(message, ctx)
        return Booked(-1)


async def main(dsn: str, path: Path) -> None:
    tried = noted(path, "tried")
    main_task = asyncio.current_task()
    if sys.version_info < (3, 11) and main_task is not None:
        # Until 3.10 Ctrl-C raises wherever the program is, asyncio's own code included, which then loses wake-ups.
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, main_task.cancel)
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await found(runtime)
        await Patient.register(runtime, "patient", Patient)
        runtime.start()
        held = [asyncio.create_task(runtime.send_message(Wait(n, 1000.0), AgentId("patient", "0"))) for n in range(2)]
        with notes(path) as on_disk:
            drivers = [
                asyncio.create_task(drive(runtime, driver, on_disk, next_number(tried, driver))) for driver in (1, 2, 3)
            ]
            await runtime.send_message(Order(4_000_000 + len(tried)), AgentId("clerk", "0"))
            views = [await runtime.view(AgentId("clerk", "0"), version=version, type=Clerk) for version in (5, 9, 12)]
            views.append(await runtime.view(AgentId("patient", "0")))  # type: ignore[arg-type]
            await a_failed_replay(log)
            print("busy", flush=True)
            await asyncio.gather(*drivers, *held)
            print(len(views))


async def a_failed_replay(log: EventLog) -> None:
    other = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
    await Miscounter.register(other, "ledger", Miscounter)
    try:
        await other.view(AgentId("ledger", "main"))
    except EventLogError:
        return
    raise AssertionError("it did not diverge")


if __name__ == "__main__":
    from tests.acceptance.programs import interrupted  # its classes by their importable name, not as __main__'s

    try:
        asyncio.run(interrupted.main(sys.argv[1], Path(sys.argv[2])))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
