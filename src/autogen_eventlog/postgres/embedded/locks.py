"""`flock` on files: the kernel gives a lock back when its holder ends, even by kill -9."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType

from autogen_eventlog.postgres.embedded.account import Account
from autogen_eventlog.postgres.embedded.deadline import Deadline

if sys.platform != "win32":
    import fcntl

_open_locks: set[FileLock] = set()


class FileLock:
    """One open file description on a lock file, which is what `flock` counts; two in one process exclude each other.

    Lock files are never removed while their directory is used: a lock on a removed file excludes nobody.
    """

    def __init__(self, path: Path, account: Account) -> None:
        """Opens (or makes) the file without locking it. Raises OSError."""
        self._fd: int | None = account.open_file(path, os.O_RDWR)
        _open_locks.add(self)

    def try_exclusive(self) -> bool:
        """Takes the lock alone, or says at once that another holds it. A shared lock held before is given up."""
        return self._try(fcntl.LOCK_EX)

    def exclusive(self, deadline: Deadline) -> bool:
        return any(self._try(fcntl.LOCK_EX) for _ in deadline.polls())

    def shared(self, deadline: Deadline) -> bool:
        return any(self._try(fcntl.LOCK_SH) for _ in deadline.polls())

    def _try(self, kind: int) -> bool:
        try:
            fcntl.flock(self.fileno(), kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def fileno(self) -> int:
        if self._fd is None:
            raise ValueError("lock is closed")
        return self._fd

    @property
    def closed(self) -> bool:
        return self._fd is None

    def close(self) -> None:
        """Closes our descriptor. A lock that a child inherited stays locked until the child has ended too."""
        fd, self._fd = self._fd, None
        _open_locks.discard(self)
        if fd is not None:
            os.close(fd)

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _forget_after_fork() -> None:
    # A forked child shares our open file descriptions: it would hold our locks for as long as it lives, long after
    # our death. So a fork is never a user of the server; it may use the DSN like any other process.
    for lock in tuple(_open_locks):
        lock.close()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget_after_fork)
