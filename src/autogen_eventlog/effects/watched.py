"""What Python tells of that reaches past the process or changes it: the audit events that replay refuses.

The names are those of the table of audit events of Python 3.10 to 3.13, whole kinds of them; what only reads is left out.
A few have no event in some Pythons (threads before 3.12, processes of `multiprocessing`, work for a pool): those are `OURS`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final, cast

OURS: Final = "autogen_eventlog."
"""Audit events that `hermetic` raises itself, where Python has none."""

_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_TEXT_BOUND: Final = 200
_ITEMS_BOUND: Final = 20


@dataclass(frozen=True, slots=True)
class Watched:
    """One audit event."""

    kind: str
    """What it does it to, for people."""
    shown: tuple[int, ...] = (0,)
    """Which of its arguments say what is asked for."""
    handle: bool = False
    """Whether it gives something that can be used later without another event."""
    destroys: bool = False
    """Whether something that was there is gone afterwards."""


_FILES, _NETWORK, _PROCESSES, _THREADS = "files", "the network", "processes", "threads"
_ENVIRONMENT, _REGISTRY, _LOG = "the environment", "the registry", "the system's log"

_NAMES: Final = {
    Watched(_FILES, (0, 1), handle=True): "open",
    Watched(_FILES, destroys=True): "os.remove os.rmdir os.truncate shutil.rmtree",
    Watched(_FILES, (0, 1), destroys=True): "os.rename shutil.move",
    Watched(_FILES, (0, 1)): "os.link os.symlink os.chmod os.chown os.utime os.setxattr os.removexattr shutil.copyfile "
    "shutil.copymode shutil.copystat shutil.copytree shutil.chown shutil.make_archive shutil.unpack_archive",
    Watched(_FILES): "os.mkdir os.chflags os.lockf fcntl.flock fcntl.lockf msvcrt.locking tempfile.mkstemp "
    "tempfile.mkdtemp",
    Watched("databases", handle=True): "sqlite3.connect",
    Watched(_NETWORK, (1,), handle=True): "socket.bind socket.connect",
    Watched(_NETWORK, (1,)): "socket.sendto socket.sendmsg",
    Watched(_NETWORK, (0, 1)): "socket.getaddrinfo socket.getnameinfo",
    Watched(_NETWORK): "socket.gethostbyname socket.gethostbyaddr socket.sethostname urllib.Request webbrowser.open",
    Watched(_NETWORK, (1, 2), handle=True): "http.client.connect ftplib.connect imaplib.open nntplib.connect "
    "poplib.connect smtplib.connect telnetlib.Telnet.open",
    Watched(_NETWORK, ()): "http.client.send ftplib.sendcmd imaplib.send nntplib.putline poplib.putline smtplib.send "
    "telnetlib.Telnet.write",
    Watched(_PROCESSES, (1,), handle=True): "subprocess.Popen",
    Watched(_PROCESSES, (1, 2), handle=True): "os.spawn",
    Watched(_PROCESSES, (0, 1), handle=True): "os.exec os.posix_spawn",
    Watched(_PROCESSES, handle=True): f"os.fork os.forkpty {OURS}multiprocessing.Process.start",
    Watched(_PROCESSES): "os.system os.startfile os.startfile/2 pty.spawn _winapi.CreateProcess",
    Watched(_PROCESSES, (0, 1)): "os.kill os.killpg signal.pthread_kill",
    Watched(_THREADS, handle=True): "_thread.start_new_thread _thread.start_joinable_thread "
    f"{OURS}threading.Thread.start {OURS}concurrent.futures.Executor.submit",
    Watched(_ENVIRONMENT, (0, 1)): "os.putenv",
    Watched(_ENVIRONMENT): "os.unsetenv",
    Watched("the working directory"): "os.chdir os.fchdir",
    Watched("limits of the process", (0, 1)): "resource.setrlimit resource.prlimit",
    Watched(_LOG): "syslog.openlog syslog.syslog syslog.setlogmask",
    Watched(_REGISTRY, (0, 1)): "winreg.CreateKey winreg.DeleteKey winreg.DeleteValue winreg.SetValue winreg.LoadKey "
    "winreg.SaveKey",
}

WATCHED: Final = {name: watched for watched, names in _NAMES.items() for name in names.split()}
"""By the name of the audit event."""


def harmless(event: str, args: Sequence[Any]) -> bool:
    """Whether an event of these names reaches nothing: a file opened for reading, a database in memory."""
    if event == "open":
        return not _writes(args) or args[0] == os.devnull
    return event == "sqlite3.connect" and bool(args) and args[0] in (":memory:", b":memory:")


def _writes(args: Sequence[Any]) -> bool:
    mode, flags = (args[1] if len(args) > 1 else None), (args[2] if len(args) > 2 else None)
    if isinstance(flags, int) and flags & _WRITES:
        return True
    return isinstance(mode, str) and any(letter in mode for letter in "wax+")


def destroys(event: str, args: Sequence[Any]) -> bool:
    """Whether something that was there is gone afterwards."""
    if event == "open":
        return len(args) > 2 and isinstance(args[2], int) and bool(args[2] & os.O_TRUNC)
    return WATCHED[event].destroys


def call(event: str, args: Sequence[Any]) -> str:
    """The call as people would write it: `open('/tmp/notes', 'w')`."""
    shown = [_shown(args[at]) for at in WATCHED[event].shown if at < len(args) and args[at] is not None]
    return f"{event.removeprefix(OURS)}({', '.join(shown)})"


def _shown(value: Any) -> str:
    """An argument, without running code of the user's."""
    if isinstance(value, str | bytes | int | float):
        text = repr(value)
    elif isinstance(value, PurePath):
        text = repr(str(value))
    elif type(value) in (list, tuple):
        text = f"[{', '.join(_shown(item) for item in value[:_ITEMS_BOUND])}]"
    else:
        text = getattr(value, "__qualname__", None) or cast("type[Any]", type(value)).__qualname__
    return text if len(text) <= _TEXT_BOUND else text[:_TEXT_BOUND] + "…"
