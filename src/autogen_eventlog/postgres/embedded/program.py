"""Runs one Postgres program: under the right account, away from our terminal, our pipes and our environment."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import IO

from autogen_eventlog.postgres.embedded.account import Account
from autogen_eventlog.postgres.embedded.deadline import Deadline
from autogen_eventlog.postgres.embedded.home import Home

_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended: exit code and all it wrote."""

    code: int
    output: str

    def last_line(self) -> str:
        """What it said last, which is where Postgres programs name the cause."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return lines[-1] if lines else f"exit code {self.code}"


def run(
    command: Sequence[str],
    *,
    home: Home,
    deadline: Deadline,
    account: Account | None = None,
    inherit: Iterable[int] = (),
) -> Finished:
    """Runs a program to its end. Raises EmbeddedPostgresError if it can't be started or isn't done in time."""
    # Output goes to a file: a pipe would stay open for as long as any grandchild lives.
    with tempfile.TemporaryFile() as output:
        try:
            process = spawn(command, home=home, output=output, account=account, inherit=inherit)
            code = _wait(process, deadline)
        except subprocess.TimeoutExpired as error:
            raise home.error(
                f"{command[0]} was not done within {deadline.seconds:g} s",
                "Look at the load and the disk, or raise timeout",
            ) from error
        output.seek(0)
        return Finished(code, output.read().decode(errors="replace"))


def spawn(
    command: Sequence[str],
    *,
    home: Home,
    output: int | IO[bytes],
    account: Account | None = None,
    inherit: Iterable[int] = (),
) -> subprocess.Popen[bytes]:
    """Starts a program in a session of its own, so that Ctrl-C in our terminal doesn't reach it."""
    switch = account is not None and account.switched
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env=_environment(),
            start_new_session=True,
            pass_fds=tuple(inherit),
            user=account.uid if account and switch else None,
            group=account.gid if account and switch else None,
            extra_groups=[] if switch else None,
            umask=0o077,
        )
    except (OSError, subprocess.SubprocessError) as error:
        who = f" as user id {account.uid}" if account and switch else ""
        why = (isinstance(error, OSError) and error.strerror) or error  # its file name may be that of the directory
        raise home.error(
            f"{command[0]} can't be started{who}: {why}",
            "Run as an ordinary user, or give the DSN of your own server" if switch else "Check the Postgres binaries",
        ) from error


def _wait(process: subprocess.Popen[bytes], deadline: Deadline) -> int:
    with process:
        try:
            return process.wait(max(deadline.left(), 0.1))
        except BaseException:
            process.kill()
            raise


def _environment() -> dict[str, str]:
    # PGDATA, PGPORT and their kin would change what runs, secrets of the program don't belong in the server's
    # environment, and messages are read in English.
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return {"PATH": os.defpath, **kept, "LC_ALL": "C", "TZ": "UTC"}
