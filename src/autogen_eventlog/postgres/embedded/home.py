"""Where everything of one embedded server lies."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from autogen_eventlog.errors import EmbeddedPostgresError
from autogen_eventlog.postgres.embedded.account import Account

DATA_DIR_VARIABLE = "EVENTLOG_DATA_DIR"
ROOT_DIRECTORY = Path("/var/lib/autogen-eventlog")
_OTHER_DIRECTORY = (
    f"Give a directory that this user may write (data_dir=... or {DATA_DIR_VARIABLE}), or the DSN of your own server"
)


@dataclass(frozen=True, slots=True)
class Home:
    """The data directory and the names in it.

    The directory itself is only looked into; everything we make lies in `server` below it, which belongs to the
    account that runs Postgres and has mode 0700.
    """

    data_dir: Path

    @property
    def server(self) -> Path:
        return self.data_dir / "server"

    @property
    def cluster(self) -> Path:
        """What Postgres calls its data directory."""
        return self.server / "cluster"

    @property
    def log(self) -> Path:
        return self.server / "server.log"

    @property
    def start_lock(self) -> Path:
        """Held exclusively by whoever starts or stops the server."""
        return self.server / "start.lock"

    @property
    def use_lock(self) -> Path:
        """Held shared by every user of the server."""
        return self.server / "use.lock"

    @property
    def server_lock(self) -> Path:
        """Held by the Postgres processes themselves, which inherit it: free means that none of them lives."""
        return self.server / "server.lock"

    @property
    def database_mark(self) -> Path:
        """Exists once the database has been created."""
        return self.server / "database.created"

    def error(self, problem: str, remedy: str) -> EmbeddedPostgresError:
        return EmbeddedPostgresError(str(self.data_dir), problem, remedy)

    @contextmanager
    def reporting(self) -> Generator[None]:
        """Turns an OSError on the way into the error a person can act on."""
        try:
            yield
        except OSError as error:
            raise self.error(_explain(error), _remedy(error)) from error

    def prepare(self) -> Account:
        """Makes the directories, once, and says whose they are. Raises OSError or EmbeddedPostgresError."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        if (self.data_dir / "PG_VERSION").exists():
            raise self.error("it is a Postgres cluster of somebody else", _OTHER_DIRECTORY)
        account = self._intended_account()
        try:
            account.make_directory(self.server)
        except FileExistsError:
            return self._settled_account()
        return account

    def _intended_account(self) -> Account:
        if os.geteuid() != 0:
            return Account.current()
        owner = Account.owner_of(self.data_dir)
        return owner if owner.uid else Account.dedicated()

    def _settled_account(self) -> Account:
        """The owner of what was made before; it never changes, whatever accounts there are today."""
        if not stat.S_ISDIR(os.lstat(self.server).st_mode):
            raise self.error(f"{self.server} is not a directory", _OTHER_DIRECTORY)
        owner = Account.owner_of(self.server)
        # Root makes the directory and gives it away in two steps, so it is root's for a moment, or after a crash there.
        if owner.uid == 0 == os.geteuid() and not any(self.server.iterdir()):
            owner = self._intended_account()
            os.chown(self.server, owner.uid, owner.gid, follow_symlinks=False)
        if owner.uid == 0 or (owner.switched and os.geteuid() != 0):
            raise self.error(f"{self.server} belongs to user id {owner.uid}, we are {os.geteuid()}", _OTHER_DIRECTORY)
        return owner


def locate(data_dir: Path | None) -> Home:
    """The home of the asked directory, of $EVENTLOG_DATA_DIR, or of this user; links and relative paths resolved."""
    asked = data_dir or os.environ.get(DATA_DIR_VARIABLE) or None
    try:
        path = Path(asked).expanduser() if asked else _default_directory()
        home = Home(path.resolve())
    except (RuntimeError, OSError) as error:  # no home directory, or links in a circle
        raise EmbeddedPostgresError(str(asked), str(error), _OTHER_DIRECTORY) from error
    if not str(home.data_dir).isprintable():
        raise home.error("its name holds characters that can't be printed", _OTHER_DIRECTORY)
    return home


def _default_directory() -> Path:
    if os.geteuid() == 0:
        return ROOT_DIRECTORY
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "autogen-eventlog" / "postgres"
    # The specification says that a relative XDG_DATA_HOME is to be ignored.
    base = Path(os.environ.get("XDG_DATA_HOME") or "")
    return (base if base.is_absolute() else Path.home() / ".local" / "share") / "autogen-eventlog" / "postgres"


def _explain(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return f"{where}a file is in the way, where a directory is needed"
    return f"{where}{error.strerror or error}"


def _remedy(error: OSError) -> str:
    if error.errno == errno.EPERM and os.geteuid() == 0:
        return "This root may not give files away (capabilities were dropped). Run as an ordinary user, or give a DSN"
    return _OTHER_DIRECTORY
