"""Agents held at rest together, so that all can be brought to one point: a consistent cut (G7).

One after the other would not do: the first to go on would ask the others, which are not there yet, and have its answer from
a branch that they then abandon.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from autogen_eventlog.errors import AgentBusy
from autogen_eventlog.runtime.shell import JournaledAgent


@asynccontextmanager
async def held_at_rest(shells: Sequence[JournaledAgent], timeout: float) -> AsyncGenerator[None]:
    """Wait until no agent has a running delivery, then hold back all new ones until the end of the block.

    They are held all at once, for a delivery that still runs may need another agent to end.

    Raises:
        AgentBusy: Running deliveries did not end within `timeout` seconds.
    """
    ends = asyncio.get_running_loop().time() + timeout
    while True:
        await _nobody_busy(shells, ends, timeout)
        async with contextlib.AsyncExitStack() as gates:
            for shell in shells:
                await gates.enter_async_context(shell.gate)
            if not any(shell.running for shell in shells):  # one that waited for its gate came before us
                yield
                return


async def _nobody_busy(shells: Sequence[JournaledAgent], ends: float, timeout: float) -> None:
    while busy := [shell for shell in shells if shell.running or shell.gate.locked()]:
        left = ends - asyncio.get_running_loop().time()
        if left <= 0:
            raise AgentBusy(busy[0].stream, len(busy[0].running), timeout)
        await _less_busy(busy[0], left)


async def _less_busy(shell: JournaledAgent, timeout: float) -> None:
    if shell.running:
        await asyncio.wait(shell.running, timeout=timeout)
        return
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(shell.gate.acquire(), timeout)
        shell.gate.release()
