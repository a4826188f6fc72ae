"""Worker processes that a test starts, asks, pauses and kills."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

W = TypeVar("W", bound="Worker")

ROOT = Path(__file__).parents[2]


class Worker:
    """`programs.worker` in a process of its own. Use it as an async context manager; it is killed at the end."""

    def __init__(self, dsn: str, *settings: float) -> None:
        self._run("worker", dsn, *settings)

    def _run(self, program: str, *arguments: object) -> None:
        self._arguments = ["-m", f"tests.acceptance.programs.{program}", *map(str, arguments)]
        self._command: tuple[str, ...] = ()
        self._process: asyncio.subprocess.Process | None = None
        self._said: list[dict[str, Any]] = []

    async def __aenter__(self: W) -> W:
        self._process = await asyncio.create_subprocess_exec(
            *self._command, sys.executable, *self._arguments, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        await self.says("ready")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.kill()

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self._process is not None
        return self._process

    def ask(self, do: str, number: int, **more: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, "number": number, **more}).encode() + b"\n")

    async def answer(self, number: int) -> dict[str, Any]:
        """What came of a request."""
        return await self.says("number", number)

    async def says(self, field: str, value: object = None) -> dict[str, Any]:
        """The next thing it says that has the field (with that value), whatever it says before."""
        assert self.process.stdout is not None
        while True:
            for said in self._said:
                if field in said and value in (None, said[field]):
                    self._said.remove(said)
                    return said
            line = await asyncio.wait_for(self.process.stdout.readline(), 60)
            assert line, f"the worker ended with {await self.process.wait()}"
            self._said.append(json.loads(line))

    async def end(self) -> int:
        """Let it come to its end by itself; its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        await self.process.communicate()
        return await self.process.wait()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.communicate()


class Remote(Worker):
    """`programs.remote` in a process of its own: a host, or a worker of the distributed runtime."""

    def __init__(self, role: str, *arguments: object) -> None:
        self._run("remote", role, *arguments)


class Depot(Worker):
    """`programs.depot` in a process of its own: a worker of the distributed runtime with some types of the depot's agents."""

    def __init__(self, *arguments: object) -> None:
        self._run("depot", *arguments)


class Far(Worker):
    """`programs.far` in a process of its own, begun by another command (that gives it another network)."""

    def __init__(self, command: tuple[str, ...], *arguments: object) -> None:
        self._run("far", *arguments)
        self._command = command
        self._reading = asyncio.Lock()

    async def says(self, field: str, value: object = None) -> dict[str, Any]:
        async with self._reading:  # what it says meanwhile that is for others is kept
            return await super().says(field, value)


class HumanWorker(Worker):
    """`programs.human` in a process of its own: a worker whose agents wait for a person."""

    def __init__(self, *arguments: object) -> None:
        self._run("human", *arguments)


class TeamWorker(Worker):
    """`programs.teams` in a process of its own: a worker of the distributed runtime with a team of AgentChat."""

    def __init__(self, *arguments: object) -> None:
        self._run("teams", *arguments)
        self._asked = 0

    async def do(self, what: str, **more: Any) -> dict[str, Any]:
        """Have it do something, and wait for what comes of it."""
        self._asked += 1
        number = 1000 + self._asked
        self.ask(what, number, **more)
        return await self.answer(number)
