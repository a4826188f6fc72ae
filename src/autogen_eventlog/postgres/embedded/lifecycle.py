"""The rules by which processes share one server.

Three files are locked with `flock`, and no pid is ever trusted:

- `start.lock`, exclusively, around every start and stop: one process at a time decides.
- `use.lock`, shared, for as long as a process uses the server. Who can take it exclusively is the last.
- `server.lock`, by the server's own processes, which inherit it. If it is free, none of them lives, and what they left
  can be removed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from autogen_eventlog.errors import EmbeddedPostgresError
from autogen_eventlog.postgres.embedded import postmaster
from autogen_eventlog.postgres.embedded.account import Account
from autogen_eventlog.postgres.embedded.binaries import Binaries
from autogen_eventlog.postgres.embedded.cluster import ensure_cluster
from autogen_eventlog.postgres.embedded.deadline import Deadline
from autogen_eventlog.postgres.embedded.home import Home
from autogen_eventlog.postgres.embedded.locks import FileLock
from autogen_eventlog.postgres.embedded.sockets import remove_socket_directory

_SECONDS_TO_CLEAN_UP = 5.0


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """Start, share and stop the server of one home. Every method raises EmbeddedPostgresError or OSError."""

    home: Home
    account: Account
    binaries: Binaries
    settings: Mapping[str, str]
    timeout: float

    def enter(self) -> FileLock:
        """Becomes a user of the running server, starting it if need be. The lock returned is the use."""
        deadline = Deadline(self.timeout)
        with self._deciding(deadline):
            use = FileLock(self.home.use_lock, self.account)
            try:
                if not use.shared(deadline):
                    raise self._lock_is_taken("use.lock", deadline)
                self._run(deadline)
            except BaseException:
                self._abandon(use)
                raise
            return use

    def ensure_running(self, is_used: Callable[[], bool]) -> None:
        """Starts the server again if it no longer answers, unless our use was given up meanwhile."""
        deadline = Deadline(self.timeout)
        if is_used() and postmaster.is_ready(self.home, self.binaries, deadline):
            return
        with self._deciding(deadline):
            if not is_used():  # asked under the lock: else a server could be started that nobody stops
                raise self.home.error("this use of the server was closed", "Call open_embedded again")
            self._run(deadline)

    def leave(self, use: FileLock) -> None:
        """Gives the use up, in any case, and stops the server if it was the last."""
        deadline = Deadline(self.timeout)
        with use, suppress(FileNotFoundError):  # the directory was removed under us: the server sees it and ends
            if use.closed:  # a fork's copy, which is no use
                return
            with self._deciding(deadline):
                if use.try_exclusive():
                    self._stop(deadline)

    def _run(self, deadline: Deadline) -> None:
        """Comes back with a server that answers and has the database. Needs `start.lock`."""
        for _ in deadline.polls():
            if postmaster.is_ready(self.home, self.binaries, deadline):
                break
            # Not ready and not free: it is starting, recovering or ending, or an initdb outlived its starter.
            with FileLock(self.home.server_lock, self.account) as server_lock:
                if server_lock.try_exclusive():
                    self._start(server_lock, deadline)
                    break
        else:
            raise self.home.error(
                f"processes of a server are there, but it did not answer within {deadline.seconds:g} s",
                f"See {self.home.log}; a long recovery needs a larger timeout",
            )
        postmaster.ensure_database(self.home, self.binaries, self.account, deadline)

    def _start(self, server_lock: FileLock, deadline: Deadline) -> None:
        binaries = self.binaries.readable_for(self.account, self.home)
        ensure_cluster(self.home, binaries, self.account, server_lock, deadline)
        postmaster.start(self.home, binaries, self.account, self.settings, server_lock, deadline)

    def _stop(self, deadline: Deadline) -> None:
        postmaster.stop(self.home, self.account, deadline)
        remove_socket_directory(self.home)

    def _abandon(self, use: FileLock) -> None:
        """After a failed start: leaves no server behind that nobody uses. The failure is what is reported."""
        with use, suppress(EmbeddedPostgresError, OSError):
            if use.try_exclusive():
                self._stop(Deadline(_SECONDS_TO_CLEAN_UP))

    @contextmanager
    def _deciding(self, deadline: Deadline) -> Generator[None]:
        with FileLock(self.home.start_lock, self.account) as lock:
            if not lock.exclusive(deadline):
                raise self._lock_is_taken("start.lock", deadline)
            yield

    def _lock_is_taken(self, name: str, deadline: Deadline) -> EmbeddedPostgresError:
        return self.home.error(
            f"another process has held {name} for {deadline.seconds:g} s: it starts or stops the server, or hangs",
            "Wait for it or end it, or raise timeout",
        )
