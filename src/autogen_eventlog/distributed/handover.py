"""Agents of a type that the host has given to another worker while this one was away: they are to be the other's.

Both workers live, so neither lock nor lease tells the other one that it may have them: it is refused, as any worker is while
the owner of an agent lives. Messages for them go there, so nothing new comes here, and what runs here ends first.
"""

from __future__ import annotations

import asyncio
import logging

from autogen_eventlog.errors import EventLogError
from autogen_eventlog.runtime.agents import RecordedAgents
from autogen_eventlog.runtime.shell import JournaledAgent

logger = logging.getLogger(__name__)


class Handover:
    """Lets agents go.

    Args:
        agents: Of this worker.
    """

    def __init__(self, agents: RecordedAgents) -> None:
        self._agents = agents

    async def let_go(self, agent_type: str) -> None:
        """Give back the agents of a type, each as soon as no handler of it runs."""
        shells = [shell for agent, shell in self._agents.shells.items() if agent.type == agent_type]
        await asyncio.gather(*map(self._let_go, shells))

    async def _let_go(self, shell: JournaledAgent) -> None:
        while running := [done for done in shell.running if not done.done()]:
            await asyncio.wait(running)
        if shell.incarnation is None:
            return
        try:
            await shell.give_up()
            logger.info("%s is let go: another worker has its type", shell.stream)
        except EventLogError as error:  # the database is away; the other waits, as for an owner that lives
            logger.warning("%s is not let go: %s", shell.stream, error)
