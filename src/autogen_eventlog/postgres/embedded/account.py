"""Who runs the server. Postgres refuses to run as root, so root hands it to another user id."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

if sys.platform != "win32":
    import pwd

# A number nobody else uses, rather than `nobody` or `postgres`: whatever else runs under a shared account could read
# the data, connect and send signals. The range is left free by Debian's, Fedora's and systemd's tables of user ids.
_DEDICATED = range(61_000, 61_100)


@dataclass(frozen=True, slots=True)
class Door:
    """A directory as a server process can name it: `path`, with `inherit` as the descriptors it must be given."""

    path: str
    inherit: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Account:
    """The user and group id that own the files and run the programs."""

    uid: int
    gid: int

    @classmethod
    def current(cls) -> Account:
        return cls(os.geteuid(), os.getegid())

    @classmethod
    def owner_of(cls, path: Path) -> Account:
        status = os.lstat(path)
        return cls(status.st_uid, status.st_gid)

    @classmethod
    def dedicated(cls) -> Account:
        """A user id without an entry in the account database; it needs no `useradd`."""
        return next(cls(uid, uid) for uid in _DEDICATED if not _has_entry(uid))

    @property
    def switched(self) -> bool:
        """True if programs must be started under another user id than ours."""
        return self.uid != os.geteuid()

    @property
    def has_entry(self) -> bool:
        """False for a user id that is only a number: `initdb` refuses it, the server itself doesn't mind."""
        return _has_entry(self.uid)

    def initdb_account(self) -> Account | None:
        """Who may run initdb for us: ourselves, or as root any account with an entry, kept in our own group."""
        if self.has_entry:
            return self
        if not self.switched:
            return None
        others = sorted(pwd.getpwall(), key=lambda entry: entry.pw_name != "nobody")
        return next((Account(entry.pw_uid, self.gid) for entry in others if entry.pw_uid), None)

    def open_file(self, path: Path, flags: int) -> int:
        """Opens a file of ours, made with mode 0600 if missing. A link is refused: root must not be led elsewhere."""
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return os.open(path, flags)
        if self.switched:
            os.fchown(fd, self.uid, self.gid)
        return fd

    def make_directory(self, path: Path) -> None:
        """Makes a directory of ours, mode 0700. Raises FileExistsError."""
        path.mkdir(mode=0o700)
        if self.switched:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def take_tree(self, top: Path) -> None:
        """Makes everything at and below `top` ours, following no link."""
        if not self.switched:
            return
        for directory, _, names in os.walk(top):
            for path in (directory, *(os.path.join(directory, name) for name in names)):  # noqa: PTH118
                os.chown(path, self.uid, self.gid, follow_symlinks=False)

    @contextmanager
    def door(self, directory: Path) -> Generator[Door]:
        """Lets a program of this account work in `directory`, even below one which the account can't enter.

        `/proc/self/fd/N` leads straight to the opened directory, so the modes of its parents don't matter and none
        is changed. All descendants inherit the descriptor. Without /proc the plain path is used, and must be open.
        """
        if not self.switched or not Path("/proc/self/fd").is_dir():
            yield Door(str(directory))
            return
        fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            yield Door(f"/proc/self/fd/{fd}", (fd,))
        finally:
            os.close(fd)

    def can_read(self, path: Path) -> bool:
        """Whether the mode bits let this account read the file or directory `path`, and enter all its parents."""
        return self._has_bits(path, stat.S_IROTH) and all(self._has_bits(up, stat.S_IXOTH) for up in path.parents)

    def _has_bits(self, path: Path, bits: int) -> bool:
        status = path.stat()
        shift = 6 if status.st_uid == self.uid else 3 if status.st_gid == self.gid else 0
        return status.st_mode >> shift & bits == bits


def _has_entry(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True
