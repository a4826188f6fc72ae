"""What `eventlog worker` is given: MODULE:REGISTER.

eventlog worker tests.acceptance.programs.remote_app:register
"""

from __future__ import annotations

import asyncio
import os

from autogen_core import AgentRuntime

from tests.acceptance.programs.remote import Account, settle_in


async def register(runtime: AgentRuntime) -> None:
    await settle_in(runtime, ["account", "ledger"])


def register_nothing(runtime: AgentRuntime) -> None:
    """A program need not be async, nor have agents."""


async def register_badly(runtime: AgentRuntime) -> None:
    raise RuntimeError("no such shop")


async def register_behind_a_gate(runtime: AgentRuntime) -> None:
    """No account comes up before there is a file of the name in $GATE."""

    async def account() -> Account:
        while not os.access(os.environ["GATE"], os.F_OK):
            await asyncio.sleep(0.01)
        return Account()

    await Account.register(runtime, "account", account)
