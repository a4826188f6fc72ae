"""The files of the server: made once, whole or not at all; checked; cleaned up after a crash."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from autogen_eventlog.postgres.embedded.account import Account
from autogen_eventlog.postgres.embedded.binaries import BIN_DIR_VARIABLE, Binaries
from autogen_eventlog.postgres.embedded.deadline import Deadline
from autogen_eventlog.postgres.embedded.home import Home
from autogen_eventlog.postgres.embedded.locks import FileLock
from autogen_eventlog.postgres.embedded.program import Finished, run
from autogen_eventlog.postgres.embedded.sockets import SOCKET_NAME, USER, socket_directory

_PREFIX = "new-"
_BUILTIN_SINCE = 17


def ensure_cluster(home: Home, binaries: Binaries, account: Account, server_lock: FileLock, deadline: Deadline) -> None:
    """Makes the cluster if there is none, and checks that these binaries can run it.

    Called with `server_lock` held, so no Postgres program works in the directory.

    Raises:
        EmbeddedPostgresError: initdb fails; the cluster is damaged, or of another major version.
    """
    major = binaries.major(home, deadline)
    _clear_leftovers(home)
    if not home.cluster.exists():
        _create(home, binaries, account, major, server_lock, deadline)
    _check_version(home, binaries, major)


def _check_version(home: Home, binaries: Binaries, major: int) -> None:
    try:
        found = (home.cluster / "PG_VERSION").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        raise home.error(f"{home.cluster} has no PG_VERSION, so it is damaged", "Restore it from a backup") from None
    if found != str(major):
        raise home.error(
            f"the data is of Postgres {found}, the binaries in {binaries.directory} are Postgres {major}",
            f"Use binaries of Postgres {found} (bin_dir=... or {BIN_DIR_VARIABLE}), or move the data over with "
            "pg_dump or pg_upgrade, or choose another data_dir",
        )


def _create(
    home: Home, binaries: Binaries, account: Account, major: int, server_lock: FileLock, deadline: Deadline
) -> None:
    runner = account.initdb_account()
    if runner is None:
        raise home.error(
            f"user id {account.uid} has no entry in the account database, and initdb refuses to run without one",
            "Add an entry for it (in a container: to /etc/passwd), or give the DSN of your own server",
        )
    reason = ""
    for locale in _locales(major):
        new = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=home.server))
        try:
            finished = _initdb(new, locale, home, binaries, runner, server_lock, deadline)
            if finished.code == 0:
                return _put_in_place(new, home, account)
            reason = finished.last_line()
        finally:
            shutil.rmtree(new, ignore_errors=True)
    raise home.error(f"initdb failed: {reason}", "Look at the disk and at the binaries, and try again")


def _locales(major: int) -> list[list[str]]:
    """Sorting by code point and UTF-8, the same on every machine; older C libraries don't know C.UTF-8."""
    if major >= _BUILTIN_SINCE:
        return [["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]]
    return [["--locale=C.UTF-8"], ["--locale=C"]]


def _initdb(
    new: Path,
    locale: list[str],
    home: Home,
    binaries: Binaries,
    runner: Account,
    server_lock: FileLock,
    deadline: Deadline,
) -> Finished:
    runner.take_tree(new)
    with runner.door(new) as door:
        command = [binaries.program("initdb"), "-D", door.path, "-U", USER, "-E", "UTF8", "--data-checksums"]
        command += ["--auth-local=trust", "--auth-host=reject", "--no-instructions", *locale]
        # initdb holds the lock too: if we are killed, whoever comes next waits until it has ended.
        inherit = (server_lock.fileno(), *door.inherit)
        return run(command, home=home, deadline=deadline, account=runner, inherit=inherit)


def _put_in_place(new: Path, home: Home, account: Account) -> None:
    account.take_tree(new)
    new.rename(home.cluster)
    directory = os.open(home.server, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _clear_leftovers(home: Home) -> None:
    """Removes what killed programs left. Nobody is signalled: a pid in a file proves nothing, the lock does."""
    for new in home.server.glob(f"{_PREFIX}*"):
        shutil.rmtree(new, ignore_errors=True)
    pid_file = home.cluster / "postmaster.pid"
    if pid_file.exists():
        _refuse_foreign_server(home, pid_file)
    # Postgres itself would refuse to start over these if the pid in them is a zombie's or was given to another process.
    for path in (pid_file, socket_directory(home) / SOCKET_NAME, socket_directory(home) / f"{SOCKET_NAME}.lock"):
        path.unlink(missing_ok=True)


def _refuse_foreign_server(home: Home, pid_file: Path) -> None:
    """Refuses if somebody started Postgres on our files by hand; such a server doesn't hold our lock."""
    pid = pid_file.read_text(encoding="utf-8", errors="replace").partition("\n")[0].strip()
    try:
        foreign = os.path.samefile(f"/proc/{int(pid)}/cwd", home.cluster)  # noqa: PTH121
    except (OSError, ValueError):
        return  # gone, a zombie, somebody else's process, or no /proc
    if foreign:
        raise home.error(f"process {pid} works in {home.cluster}, started by other means", "Stop it and try again")
