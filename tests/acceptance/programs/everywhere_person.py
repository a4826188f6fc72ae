"""A process that dies while a person thinks.

    python -m tests.acceptance.programs.everywhere_person DSN DIRECTORY

The person is asked as in `human`, on the in-process runtime. It never ends by itself.
"""

from __future__ import annotations

import asyncio
import sys

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime

from .human import PERSON, Person, Question


async def main(dsn: str, directory: str) -> None:
    Person.directory = directory
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await Person.register(runtime, "person", Person)
        runtime.start()
        await runtime.send_message(Question(1), PERSON, message_id="question")
        raise AssertionError("nobody was to answer this process")


if __name__ == "__main__":
    from tests.acceptance.programs import everywhere_person  # its classes by their importable name, not as __main__'s

    asyncio.run(everywhere_person.main(*sys.argv[1:]))
