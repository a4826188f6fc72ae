"""The running server: start it, ask it whether it answers, end it."""

from __future__ import annotations

import os
import re
import signal
import socket
import struct
import sys
from collections.abc import Mapping

from autogen_eventlog.postgres.embedded.account import Account
from autogen_eventlog.postgres.embedded.binaries import Binaries
from autogen_eventlog.postgres.embedded.deadline import Deadline
from autogen_eventlog.postgres.embedded.home import Home
from autogen_eventlog.postgres.embedded.locks import FileLock
from autogen_eventlog.postgres.embedded.program import run, spawn
from autogen_eventlog.postgres.embedded.sockets import (
    DATABASE,
    PORT,
    SOCKET_NAME,
    USER,
    prepare_socket_directory,
    socket_directory,
)

_LARGEST_LOG = 1_000_000  # bytes; then the log is put aside at the next start, over the one put aside before
_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "100",
    "fsync": "on",
    "synchronous_commit": "on",
    "log_min_messages": "log",  # starts, stops, crashes; errors are told to the client, and would fill the log
    "log_checkpoints": "off",
}
_OURS = frozenset({"data_directory", "port", "unix_socket_directories", "unix_socket_permissions"})


def check_settings(home: Home, settings: Mapping[str, str]) -> None:
    """Raises EmbeddedPostgresError for a name that is none, or that decides where the server is found."""
    for name in settings:
        if name.lower() in _OURS or not re.fullmatch(r"[A-Za-z_][\w.]*", name):
            raise home.error(f"the server setting {name!r} can't be given here", "Leave it out")


def is_ready(home: Home, binaries: Binaries, deadline: Deadline) -> bool:
    """Whether the server takes connections, by `pg_isready`: a server that is starting or out of connections answers
    too, and is told apart."""
    directory = socket_directory(home)
    if not (directory / SOCKET_NAME).exists():
        return False
    command = [binaries.program("pg_isready"), "-q", "-t", "5", "-h", str(directory), "-p", str(PORT)]
    return run([*command, "-d", "postgres", "-U", USER], home=home, deadline=deadline).code == 0


def start(
    home: Home,
    binaries: Binaries,
    account: Account,
    settings: Mapping[str, str],
    server_lock: FileLock,
    deadline: Deadline,
) -> None:
    """Starts the server and waits until it answers. It takes `server_lock` over and keeps it until its end.

    Raises:
        EmbeddedPostgresError: it ended at once, with the reason from its log, or doesn't answer in time.
    """
    _spawn_detached(home, binaries, account, settings, server_lock)
    server_lock.close()
    for _ in deadline.polls():
        if _says_ready(home) and is_ready(home, binaries, deadline):
            return
        if is_gone(home, account):
            raise home.error(f"the server did not start: {_reason(home)}", f"See {home.log}")
    raise home.error(f"the server did not answer within {deadline.seconds:g} s", f"See {home.log}, or raise timeout")


def ensure_database(home: Home, binaries: Binaries, account: Account, deadline: Deadline) -> None:
    """Creates the database, once. Raises EmbeddedPostgresError."""
    if home.database_mark.exists():
        return
    command = [binaries.program("createdb"), "-h", str(socket_directory(home)), "-p", str(PORT), "-U", USER, DATABASE]
    finished = run(command, home=home, deadline=deadline)
    if finished.code and "already exists" not in finished.output:
        raise home.error(f"the database can't be created: {finished.last_line()}", f"See {home.log}")
    os.close(account.open_file(home.database_mark, os.O_WRONLY))


def stop(home: Home, account: Account, deadline: Deadline) -> None:
    """Ends the server by a fast shutdown and waits until its last process has gone.

    A server whose process can't be seen from here (another container) is left running.

    Raises:
        EmbeddedPostgresError: it is still there at the deadline.
    """
    address = str(socket_directory(home) / SOCKET_NAME)
    asked = False
    for _ in deadline.polls():
        if is_gone(home, account):
            return
        if not asked:
            pid = _listener(address)
            if pid == 0:
                return
            asked = pid is not None and _interrupt(pid, address)
    raise home.error(f"the server did not stop within {deadline.seconds:g} s", f"See {home.log}, and end it by hand")


def is_gone(home: Home, account: Account) -> bool:
    """Whether no process of the server lives: they all hold the lock, and zombies hold nothing."""
    with FileLock(home.server_lock, account) as lock:
        return lock.try_exclusive()


def _spawn_detached(
    home: Home, binaries: Binaries, account: Account, settings: Mapping[str, str], server_lock: FileLock
) -> None:
    sockets = prepare_socket_directory(home, account)
    log = _open_log(home, account)
    try:
        with account.door(home.server) as door:
            place = door.path if sockets == home.server else str(sockets)
            options = {
                **_SETTINGS,
                **settings,
                "unix_socket_directories": '"' + place.replace('"', '""') + '"',
                "unix_socket_permissions": "0700",
            }
            command = [binaries.program("postgres"), "-D", f"{door.path}/cluster", "-p", str(PORT)]
            command += [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
            # The shell puts it in the background and ends, so the server is no child of ours: it outlives us, and
            # needs no reaping by us. pg_ctl does the same, but puts paths unquoted into a command line.
            spawn(
                ["/bin/sh", "-c", '"$@" &', "sh", *command],
                home=home,
                output=log,
                account=account,
                inherit=(server_lock.fileno(), *door.inherit),
            ).wait()
    finally:
        os.close(log)


def _open_log(home: Home, account: Account) -> int:
    if home.log.exists() and home.log.stat().st_size > _LARGEST_LOG:
        home.log.replace(home.log.with_name(f"{home.log.name}.1"))
    return account.open_file(home.log, os.O_WRONLY | os.O_APPEND)


def _says_ready(home: Home) -> bool:
    """A hint by the server we have just started: asking it earlier would put a line in its log each time."""
    try:
        return (home.cluster / "postmaster.pid").read_text(errors="replace").split()[-1:] == ["ready"]
    except FileNotFoundError:
        return False


def _reason(home: Home) -> str:
    """The last fatal line of the log, else its last line."""
    lines = home.log.read_bytes()[-10_000:].decode(errors="replace").splitlines()
    fatal = [line for line in lines if "FATAL:" in line or "PANIC:" in line]
    return (fatal or lines or ["it left no log"])[-1]


def _listener(address: str) -> int | None:
    """The process that listens on the socket, by the kernel's word; 0 if it can't be seen from here, None if none."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(2)
        try:
            client.connect(address)
        except OSError:
            return None
        if sys.platform == "darwin":
            return client.getsockopt(0, 2)  # SOL_LOCAL, LOCAL_PEERPID
        credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[0])


def _interrupt(pid: int, address: str) -> bool:
    """Asks `pid` for a fast shutdown, if it is certain to be the one that listens.

    A pid may be given to another process between a look and a signal. The descriptor names one process for ever, and
    if the same pid still listens after it was opened, then that process is the server.
    """
    try:
        handle = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return False
    except OSError:  # a kernel or a sandbox without it
        handle = None
    try:
        if _listener(address) != pid:
            return False
        _send(pid, handle)
    except ProcessLookupError:
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


def _send(pid: int, handle: int | None) -> None:
    if handle is None:
        os.kill(pid, signal.SIGINT)
    else:
        signal.pidfd_send_signal(handle, signal.SIGINT)
