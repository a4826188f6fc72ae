"""Worker processes that a test starts, asks, pauses and kills."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[2]


class Worker:
    """`programs.worker` in a process of its own. Use it as an async context manager; it is killed at the end."""

    def __init__(self, dsn: str, *settings: float) -> None:
        self._run("worker", dsn, *settings)

    def _run(self, program: str, *arguments: object) -> None:
        self._arguments = ["-m", f"tests.acceptance.programs.{program}", *map(str, arguments)]
        self._process: asyncio.subprocess.Process | None = None
        self._said: list[dict[str, Any]] = []

    async def __aenter__(self) -> Worker:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, *self._arguments, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
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
