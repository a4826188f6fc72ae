"""An agent that does something outside by an effect of its own, in a process that is killed amid it.

    python -m tests.acceptance.programs.mailing DSN DIRECTORY send|recover [fail|retry]

Each mail is a line of DIRECTORY/sent; while DIRECTORY/hold exists, a mail that was written is not done. It prints what
became of each mail, then the agent's own account, and whether a view gives the same.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from autogen_core import AgentId, MessageContext, RoutedAgent, message_handler

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime, effect
from autogen_eventlog.errors import EffectOutcomeUnknown

from ..asking import until

AGENT = AgentId("mailer", "one")
MAILS = 3


@dataclass
class Mail:
    number: int


class Mailer(RoutedAgent):
    directory: Path

    def __init__(self) -> None:
        super().__init__("mails")
        self.sent: list[str] = []

    @message_handler
    async def on_mail(self, message: Mail, ctx: MessageContext) -> str:
        try:
            self.sent.append(await send(str(self.directory), message.number))
        except EffectOutcomeUnknown:
            self.sent.append(f"mail {message.number}: unknown")
        return self.sent[-1]


@effect("mail.send")
async def send(directory: str, number: int) -> str:
    def write() -> None:
        with (Path(directory) / "sent").open("a") as file:
            file.write(f"mail {number}\n")

    await asyncio.to_thread(write)
    while (Path(directory) / "hold").exists():
        await asyncio.sleep(0.01)
    return f"mail {number}: sent"


async def main(dsn: str, directory: Path, task: str, unknown: str = "fail") -> None:
    Mailer.directory = directory
    async with EventLog.open(dsn) as log:
        handler = EventLogHandler(log, effects_unknown={"own": "retry" if unknown == "retry" else "fail"})
        runtime = EventSourcedAgentRuntime(intervention_handlers=[handler])
        await Mailer.register(runtime, "mailer", lambda: Mailer())
        runtime.start()
        if task == "send":
            for number in range(MAILS):
                print(await runtime.send_message(Mail(number), AGENT), flush=True)
        agent = await runtime.try_get_underlying_agent_instance(AGENT, Mailer)
        await until(lambda: _settled(log), "what was under way is settled")
        view = await runtime.view(AGENT, type=Mailer)
        print("; ".join(agent.sent), view.sent == agent.sent, flush=True)
        await runtime.stop_when_idle()


async def _settled(log: EventLog) -> bool:
    return not await log.audit.unanswered_effects(agent=AGENT)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]))
