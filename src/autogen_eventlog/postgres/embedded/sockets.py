"""Where the server's Unix socket lies, and the DSN that says so."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from psycopg.conninfo import make_conninfo

from autogen_eventlog.postgres.embedded.account import Account
from autogen_eventlog.postgres.embedded.home import Home

DATABASE = "eventlog"
USER = "eventlog"
PORT = 5432  # only a part of the socket's name: no TCP port is opened
SOCKET_NAME = f".s.PGSQL.{PORT}"
_LONGEST_PATH = 100  # bytes; the kernels allow 107 (Linux) and 103 (macOS)
_PREFIX = "eventlog-"


def dsn_of(home: Home) -> str:
    """How any process of this user reaches the server, as a libpq keyword/value string."""
    return make_conninfo("", host=str(socket_directory(home)), port=PORT, user=USER, dbname=DATABASE)


def socket_directory(home: Home) -> Path:
    """The server's own directory, or the short one that was noted there."""
    if not _is_awkward(home.server):
        return home.server
    try:
        noted = Path(_note(home).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return home.server
    return noted if noted.parent in _short_bases() and noted.name.startswith(_PREFIX) else home.server


def prepare_socket_directory(home: Home, account: Account) -> Path:
    """Makes sure that the directory exists and is ours; the name noted before is kept, as it is in DSNs given out."""
    if not _is_awkward(home.server):
        return home.server
    noted = socket_directory(home)
    if noted == home.server:
        return _new_short_directory(home, account)
    try:
        account.make_directory(noted)
    except FileExistsError:
        status = os.lstat(noted)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != account.uid or status.st_mode & 0o077:
            return _new_short_directory(home, account)
    return noted


def remove_socket_directory(home: Home) -> None:
    """Removes the short directory after the server has stopped and nobody uses it."""
    directory = socket_directory(home)
    if directory == home.server:
        return
    _note(home).unlink(missing_ok=True)
    if directory.is_dir():
        for name in (SOCKET_NAME, f"{SOCKET_NAME}.lock"):
            (directory / name).unlink(missing_ok=True)
        directory.rmdir()


def _new_short_directory(home: Home, account: Account) -> Path:
    # A random name with mode 0700 in a directory open to all: nobody can have prepared it. Not XDG_RUNTIME_DIR, which
    # goes away when the user logs out, while the server goes on.
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_short_bases()[0]))
    if account.switched:
        os.chown(directory, account.uid, account.gid, follow_symlinks=False)
    fd = account.open_file(_note(home), os.O_WRONLY | os.O_TRUNC)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(str(directory))
    return directory


def _short_bases() -> list[Path]:
    """Directories for short socket paths: the same for all processes, so not what TMPDIR says."""
    return [base for base in (Path("/tmp"), Path("/var/tmp")) if os.access(base, os.W_OK)] or [Path("/tmp")]


def _is_awkward(directory: Path) -> bool:
    # libpq splits a host at commas, also in a path.
    return len(os.fsencode(directory / SOCKET_NAME)) > _LONGEST_PATH or "," in str(directory)


def _note(home: Home) -> Path:
    return home.server / "socket.directory"
