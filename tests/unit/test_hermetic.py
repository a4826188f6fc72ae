"""Which audit events count, how a call is shown, and whose doing it is."""

from __future__ import annotations

import os
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autogen_eventlog.effects import hermetic, watched
from autogen_eventlog.effects.ambient.callers import doers
from autogen_eventlog.effects.watched import WATCHED, call, destroys, harmless
from autogen_eventlog.errors import NotRestorable, UnrecordedEffect

_heard: list[tuple[str, tuple[Any, ...]]] = []
_listens = threading.local()


def _listen(event: str, args: tuple[Any, ...]) -> None:
    if event == "open" and getattr(_listens, "on", False):
        _heard.append((event, args))


sys.addaudithook(_listen)  # for good: a hook can't be taken out again

MODES = st.tuples(st.sampled_from(["r", "w", "a", "x"]), st.sampled_from(["", "+"]), st.sampled_from(["", "b"]))
FLAGS = st.sets(st.sampled_from(["O_CREAT", "O_TRUNC", "O_APPEND", "O_CLOEXEC", "O_EXCL"]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(mode=MODES)
def test_opening_is_harmless_if_and_only_if_the_file_cant_be_written(
    tmp_path: Path, mode: tuple[str, str, str]
) -> None:
    place = tmp_path / "file"
    if mode[0] == "x":
        place.unlink(missing_ok=True)
    else:
        place.write_text("before")
    _heard.clear()
    _listens.on = True
    with place.open("".join(mode)) as file:
        _listens.on = False
        event, args = _heard[-1]
        assert harmless(event, args) is not file.writable()
        assert destroys(event, args) is (mode[0] == "w")
    assert not harmless(event, (str(place), "".join(mode), None)) or mode[:2] == ("r", "")


@given(access=st.sampled_from(["O_RDONLY", "O_WRONLY", "O_RDWR"]), names=FLAGS)
def test_opening_by_flags_is_harmless_if_it_neither_writes_nor_makes(access: str, names: set[str]) -> None:
    flags = getattr(os, access)
    for name in names:
        flags |= getattr(os, name)
    reads = access == "O_RDONLY" and not names & {"O_CREAT", "O_TRUNC", "O_APPEND"}
    assert harmless("open", ("/some/where", None, flags)) is reads
    assert destroys("open", ("/some/where", None, flags)) is ("O_TRUNC" in names)


@pytest.mark.parametrize(
    ("event", "args", "expected"),
    [
        ("open", (os.devnull, "w", os.O_WRONLY), True),
        ("sqlite3.connect", (":memory:",), True),
        ("sqlite3.connect", ("file.db",), False),
        ("os.remove", ("x", -1), False),
        ("socket.connect", (object(), ("localhost", 1)), False),
    ],
)
def test_what_reaches_nothing_is_harmless(event: str, args: tuple[Any, ...], expected: bool) -> None:
    assert harmless(event, args) is expected


class Explosive:
    """Whose text is code of the user's."""

    def __repr__(self) -> str:
        raise AssertionError("it was run")


@pytest.mark.parametrize(
    ("event", "args", "shown"),
    [
        ("open", ("/tmp/x", "w", 1), "open('/tmp/x', 'w')"),
        ("open", (b"/tmp/x", None, 1), "open(b'/tmp/x')"),
        ("socket.connect", (Explosive(), ("localhost", 80)), "socket.connect(['localhost', 80])"),
        (
            "subprocess.Popen",
            ("ls", ["ls", Path("/x"), Explosive()], None, None),
            "subprocess.Popen(['ls', '/x', Explosive])",
        ),
        ("os.fork", (), "os.fork()"),
        ("urllib.Request", ("http://x/", b"secret", {}, "GET"), "urllib.Request('http://x/')"),
        (f"{watched.OURS}threading.Thread.start", (test_what_reaches_nothing_is_harmless,), None),
    ],
)
def test_a_call_is_shown_as_it_is_written(event: str, args: tuple[Any, ...], shown: str | None) -> None:
    assert call(event, args) == (shown or "threading.Thread.start(test_what_reaches_nothing_is_harmless)")


def test_a_long_argument_is_cut() -> None:
    assert len(call("os.system", ("x" * 10_000,))) < 300
    assert len(call("subprocess.Popen", ("x", ["y" * 100] * 10_000))) < 300


def test_every_event_says_what_it_is_about() -> None:
    assert all(one.kind and name == name.strip() for name, one in WATCHED.items())
    assert {"open", "os.remove", "socket.connect", "subprocess.Popen", "sqlite3.connect", "shutil.move"} <= set(WATCHED)


def test_the_error_is_a_not_restorable_with_its_place() -> None:
    error = UnrecordedEffect("a/b", "version 3", "a problem", "A remedy", 2, "files", "open('x', 'w')", "x.py:1 in f")
    assert isinstance(error, NotRestorable)
    said = "stream 'a/b' can't be restored to version 3: a problem. A remedy. "
    assert str(error) == f"{said}See docs/how-to/troubleshoot-divergence.md"
    assert (error.delivery, error.kind, error.call, error.place) == (2, "files", "open('x', 'w')", "x.py:1 in f")


# -- whose doing --------------------------------------------------------------------------------------------------


def stack(*modules: str, name: str = "f") -> FrameType | None:
    """A stack of frames of these modules, the innermost last; what calls the outermost is our runtime."""
    found: list[FrameType | None] = []
    call: Any = lambda: found.append(sys._getframe(1))  # noqa: E731
    for module in reversed(("autogen_eventlog.replay.session", *modules)):
        source = f"def {name}(call): call()"
        made = types.ModuleType(module)
        exec(source, made.__dict__)
        call = (lambda function, inner: lambda: function(inner))(getattr(made, name), call)
    call()
    return found[0]


AGENTS = st.sampled_from(["my_agent", "requests.api", "autogen_core._base_agent", "psycopg.connection", "__main__"])
PYTHONS = st.sampled_from(["pathlib", "subprocess", "asyncio.events", "random", "shutil"])
OTHERS = st.sampled_from(
    ["logging", "warnings", "importlib._bootstrap", "opentelemetry.trace", "weakref", "loguru._file_sink"]
)


@given(st.lists(AGENTS | PYTHONS, max_size=6))
def test_it_is_the_agents_doing_if_its_code_is_on_the_way(modules: list[str]) -> None:
    """This test's own frames lie between the made ones; they are an agent's, as any module of no library is."""
    between = [one for one in doers(stack(*modules)) if one.f_globals.get("__name__") != __name__]
    agents = [one for one in modules if one not in ("pathlib", "subprocess", "asyncio.events", "random", "shutil")]
    assert [one.f_globals["__name__"] for one in between] == agents[::-1]


@given(st.lists(AGENTS | PYTHONS, max_size=4), OTHERS, st.lists(AGENTS | PYTHONS, max_size=4))
def test_it_is_not_if_something_stands_beside(outer: list[str], beside: str, inner: list[str]) -> None:
    assert doers(stack(*outer, beside, *inner)) == []


def test_a_finalizer_interrupts_whoever_runs() -> None:
    assert doers(stack("my_agent", name="__del__")) == []


# -- threads ------------------------------------------------------------------------------------------------------


def test_threads_and_pools_of_the_process_are_what_they_were() -> None:
    hermetic.watch()
    hermetic.watch()
    done: list[int] = []
    thread = threading.Thread(target=done.append, args=(1,))
    thread.start()
    thread.join()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(done.append, 2).result() is None
        assert pool.submit(lambda *, number: number, number=3).result() == 3
    assert done == [1, 2]
    assert threading.Thread.start.__name__ == "start"
