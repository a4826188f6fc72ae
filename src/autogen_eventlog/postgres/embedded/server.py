"""What a program holds of the embedded server."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from autogen_eventlog.errors import EmbeddedPostgresError
from autogen_eventlog.postgres.embedded.binaries import find_binaries
from autogen_eventlog.postgres.embedded.home import locate
from autogen_eventlog.postgres.embedded.lifecycle import Lifecycle
from autogen_eventlog.postgres.embedded.locks import FileLock
from autogen_eventlog.postgres.embedded.postmaster import check_settings
from autogen_eventlog.postgres.embedded.sockets import dsn_of


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedServer:
    """One use of a shared server. While it is open the server is not stopped by others.

    The server outlives this process if another process uses it, and is stopped by the last use that is closed. A
    process that ends without `close` closes at exit; one that is killed loses its use at once, and the server stays
    until the next last user goes.

    A use belongs to the process that opened it: in a fork of that process `close` does nothing.
    """

    dsn: str
    """A libpq keyword/value string for the database `eventlog`. Another process of this user can use it as it is and
    needs nothing else; it isn't counted as a user, so this use must stay open for as long."""
    data_dir: Path
    """The directory asked for, links resolved."""
    _lifecycle: Lifecycle = field(repr=False)
    _uses: list[FileLock] = field(repr=False)

    def ensure_running(self) -> None:
        """Starts the server again if it no longer answers; to be called before connecting anew. Blocks. Thread-safe.

        Raises:
            EmbeddedPostgresError: it can't be started within the timeout given to `open_embedded`, or this use was
                closed.
        """
        with self._lifecycle.home.reporting():
            self._lifecycle.ensure_running(lambda: bool(self._uses))

    def close(self) -> None:
        """Gives the use up; the last one out stops the server and waits for its end. May be called twice. Blocks.

        Raises:
            EmbeddedPostgresError: the server doesn't stop in time. The use is given up nonetheless.
        """
        try:
            use = self._uses.pop()
        except IndexError:
            return
        atexit.unregister(self.close)
        with self._lifecycle.home.reporting():
            self._lifecycle.leave(use)

    def __enter__(self) -> EmbeddedServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def open_embedded(
    data_dir: Path | None = None,
    *,
    bin_dir: Path | None = None,
    timeout: float = 60.0,
    settings: Mapping[str, str] | None = None,
) -> EmbeddedServer:
    """Opens a use of the server in `data_dir`, making and starting it if need be. Blocks: call it in a thread.

    Args:
        data_dir: where the data is. Else $EVENTLOG_DATA_DIR, else a directory of this user; root's is in /var/lib.
        bin_dir: the programs of a Postgres, 14 or later. Else $EVENTLOG_POSTGRES_BIN, else the wheel's.
        timeout: bound in seconds for this call, and for each later `ensure_running` and `close`.
        settings: server settings, by name. They count only if this process is the one that starts the server.

    Raises:
        EmbeddedPostgresError: there are no binaries, the directory can't be used, the data is of another version,
            the server doesn't start, or the platform isn't supported. It says what to do.
    """
    if sys.platform == "win32":
        raise EmbeddedPostgresError(
            str(data_dir or "the default directory"),
            "Windows is not supported",
            "Install Postgres yourself and give its DSN",
        )
    home = locate(data_dir)
    binaries = find_binaries(home, bin_dir)
    check_settings(home, settings or {})
    with home.reporting():
        lifecycle = Lifecycle(home, home.prepare(), binaries, dict(settings or {}), timeout)
        use = lifecycle.enter()
        server = EmbeddedServer(dsn_of(home), home.data_dir, lifecycle, [use])
        atexit.register(server.close)
    return server
