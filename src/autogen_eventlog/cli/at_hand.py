"""The program's code at hand: a runtime on which the function of --app has registered the agents, to look and not to act."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from autogen_eventlog.log import EventLog

if TYPE_CHECKING:
    from autogen_eventlog.runtime.in_process import EventSourcedAgentRuntime


@asynccontextmanager
async def registered(log: EventLog, register: Callable[[Any], Any]) -> AsyncGenerator[EventSourcedAgentRuntime]:
    """A runtime over a log, with the agents registered. What the program's code prints meanwhile goes to stderr.

    Raises:
        Whatever the function raises.
    """
    from autogen_eventlog.runtime.handler import EventLogHandler
    from autogen_eventlog.runtime.in_process import EventSourcedAgentRuntime

    runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
    with contextlib.redirect_stdout(sys.stderr):
        try:
            done = register(runtime)
            if inspect.isawaitable(done):
                await done
            yield runtime
        finally:
            await runtime.close()
