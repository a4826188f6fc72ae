"""What an agent's own code does to files, sockets, processes and threads is not done again by a replay (G4, G11)."""

# ruff: noqa: PTH103, PTH104, PTH109, PTH110, PTH123, PTH208, PTH211, SIM115, ASYNC230, ASYNC240
from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import logging
import multiprocessing
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import weakref
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from autogen_core import AgentId, MessageContext, RoutedAgent, message_handler

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime, effect_of
from autogen_eventlog.effects import hermetic
from autogen_eventlog.errors import InstanceEnded, NotRestorable, UnrecordedEffect
from autogen_eventlog.snapshots import SnapshotPolicy

ONE = AgentId("doer", "one")
POOL = concurrent.futures.ThreadPoolExecutor(1)


@dataclass
class Do:
    """Asks the agent to do something to a place."""

    what: str
    place: str = ""


@dataclass
class Ask:
    """A message that the agent's second recorded event is the sending of."""


Deed = Callable[[str], Any]


async def connects(place: str) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", int(place))
    writer.close()


def in_thread(place: str) -> None:
    threading.Thread(target=Path(place).write_text, args=("thread",)).start()


async def runs(place: str) -> None:
    process = await asyncio.create_subprocess_exec("touch", place)
    await process.wait()


def forks(place: str) -> None:
    child = os.fork()
    if not child:
        Path(place).write_text("fork")
        os._exit(0)
    os.waitpid(child, 0)


def spawns(place: str) -> None:
    process = multiprocessing.get_context("spawn").Process(target=os.mkdir, args=(place,))
    process.start()
    process.join()


def tables(place: str) -> None:
    with contextlib.closing(sqlite3.connect(place)) as database:
        database.execute("CREATE TABLE IF NOT EXISTS t (x)")
        database.commit()


ON_FILES: dict[str, Deed] = {
    "open": lambda place: open(place, "a").close(),
    "os.open": lambda place: os.close(os.open(place, os.O_CREAT | os.O_WRONLY)),
    "write_text": lambda place: Path(place).write_text("x"),
    "mkdir": os.mkdir,
    "symlink": lambda place: os.symlink("/nowhere", place),
    "rename": lambda place: (Path(f"{place}.new").write_text(""), os.rename(f"{place}.new", place)),
    "subprocess.run": lambda place: subprocess.run(["touch", place], check=True),
    "asyncio.subprocess": runs,
    "os.system": lambda place: os.system(f"touch '{place}'"),
    "os.posix_spawn": lambda place: os.waitpid(os.posix_spawn("/usr/bin/touch", ["touch", place], os.environ), 0),
    "os.fork": forks,
    "multiprocessing": spawns,
    "sqlite3": tables,
    "thread": in_thread,
    "pool": lambda place: POOL.submit(Path(place).write_text, "pool").result(),
}
"""Each makes something at a place."""

KINDS = {
    **dict.fromkeys(("open", "os.open", "write_text", "mkdir", "symlink", "rename"), "files"),
    **dict.fromkeys(("subprocess.run", "asyncio.subprocess", "os.system", "os.posix_spawn", "os.fork"), "processes"),
    "multiprocessing": "processes",
    "sqlite3": "databases",
    "thread": "threads",
    "pool": "threads",
}

OTHERS: dict[str, Deed] = {
    "remove": os.remove,
    "rmtree": shutil.rmtree,
    "connect": lambda place: socket.create_connection(("127.0.0.1", int(place))).close(),
    "open_connection": connects,
    "sendto": lambda place: _sent(int(place)),
    "urllib": lambda place: urllib.request.urlopen(f"http://127.0.0.1:{place}/").read(),
    "getaddrinfo": lambda place: socket.getaddrinfo("localhost", 80),
    "environ": lambda place: os.environ.__setitem__("EVENTLOG_TEST_PLACE", place),
    "chdir": lambda place: os.chdir(os.getcwd()),
    "kill": lambda place: os.kill(os.getpid(), 0),
    "nothing": lambda place: None,
}


def _sent(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"x", ("127.0.0.1", port))


DEEDS = {**ON_FILES, **OTHERS}


class Doer(RoutedAgent):
    """Does what it is asked to, and knows how often."""

    catches = False

    def __init__(self) -> None:
        super().__init__("does")
        self.done: list[str] = []

    @message_handler
    async def on_do(self, message: Do, ctx: MessageContext) -> int:
        try:
            result = DEEDS[message.what](message.place)
            if asyncio.iscoroutine(result):
                await result
        except BaseException:
            if not self.catches:
                raise
        self.done.append(message.what)
        return len(self.done)


class Careless(Doer):
    catches = True


@asynccontextmanager
async def running(
    dsn: str, factory: Callable[[], Any] = Doer, **settings: Any
) -> AsyncGenerator[EventSourcedAgentRuntime]:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, **settings)])
        await runtime.register_factory("doer", factory)
        runtime.start()
        try:
            yield runtime
        finally:
            await runtime.stop_when_idle()


@pytest.fixture(autouse=True)
def said_anew() -> Iterator[None]:
    """Each test hears the warnings again."""
    hermetic._said.clear()
    yield
    hermetic._said.clear()


async def done(runtime: EventSourcedAgentRuntime, what: str, place: str, agent: AgentId = ONE) -> None:
    await runtime.send_message(Do(what, place), agent)


# -- each deed ----------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:This process")  # os.fork in a process with threads, from Python 3.12 on
@pytest.mark.parametrize("cls", [Doer, Careless])
@pytest.mark.parametrize("what", ON_FILES)
async def test_what_a_handler_makes_is_not_made_again(dsn: str, tmp_path: Path, what: str, cls: type) -> None:
    place = tmp_path / "made"
    async with running(dsn, cls) as runtime:
        await done(runtime, what, str(place))
        await asyncio.to_thread(_exists, place)
        _remove(place)
        with pytest.raises(NotRestorable) as refused:
            await runtime.view(ONE)
        error = refused.value
        if what == "asyncio.subprocess":  # it wakes the agent too, which was in the log before
            assert "in runs" in error.problem
            return
        assert isinstance(error, UnrecordedEffect)
        assert (error.stream, error.point, error.delivery, error.kind) == ("doer/one", "version 3", 2, KINDS[what])
        assert __file__ in error.place
        assert "on_do" in error.place or "test_hermetic" in error.place
        assert "effect" in error.remedy and error.call in error.problem
    async with running(dsn, cls) as runtime:  # another process: the agent can't be brought up, and says why
        with pytest.raises(UnrecordedEffect):
            await done(runtime, what, str(place))
    assert not place.exists() and not list(tmp_path.iterdir())


def _exists(place: Path) -> None:
    from autogen_eventlog.testing.waiting import wait_until

    wait_until(lambda: os.path.lexists(place), "it is made")


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        place.rmdir()
    else:
        place.unlink()


@pytest.mark.parametrize("what", ["remove", "rmtree"])
async def test_what_a_handler_removes_is_not_removed_again(dsn: str, tmp_path: Path, what: str) -> None:
    place = tmp_path / "there"

    def make() -> None:
        place.mkdir() if what == "rmtree" else place.write_text("x")

    async with running(dsn) as runtime:
        make()
        await done(runtime, what, str(place))
        make()
        with pytest.raises(UnrecordedEffect, match=str(place)):
            await runtime.view(ONE)
    assert place.exists()


class Server:
    """Counts who connects, and answers as a web server does."""

    def __init__(self) -> None:
        self.connections = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError):
            if await reader.readline():
                writer.write(b"HTTP/1.0 204 No Content\r\n\r\n")
                await writer.drain()
        writer.close()

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[int]:
        server = await asyncio.start_server(self.answer, "127.0.0.1", 0)
        async with server:
            yield server.sockets[0].getsockname()[1]


class ThreadedServer:
    """As above, in a thread: for clients that block the loop."""

    def __init__(self) -> None:
        self.server = Server()
        self._loop = asyncio.new_event_loop()
        self._port: concurrent.futures.Future[int] = concurrent.futures.Future()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),))

    async def _run(self) -> None:
        async with self.server.listening() as port:
            self._port.set_result(port)
            await self._end.wait()

    def __enter__(self) -> int:
        self._thread.start()
        return self._port.result()

    def __exit__(self, *exc_info: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
        self._loop.close()


@pytest.mark.parametrize("what", ["connect", "open_connection", "urllib", "sendto", "getaddrinfo"])
async def test_a_server_hears_of_a_replay_nothing(dsn: str, what: str) -> None:
    served = ThreadedServer()
    with served as port:
        async with running(dsn) as runtime:
            await done(runtime, what, str(port))
            heard = served.server.connections
            for _ in range(3):
                with pytest.raises(NotRestorable) as refused:
                    await runtime.view(ONE)
            if what != "open_connection":  # it is woken by the socket, too; which of the two is found first is as good
                assert isinstance(refused.value, UnrecordedEffect)
                assert refused.value.kind == "the network"
    assert served.server.connections == heard == (what not in ("sendto", "getaddrinfo"))


@pytest.mark.parametrize(("what", "kind"), [("environ", "the environment"), ("chdir", "the working directory")])
async def test_what_belongs_to_the_whole_process_is_not_changed(
    dsn: str, what: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENTLOG_TEST_PLACE", "")
    async with running(dsn) as runtime:
        await done(runtime, what, "changed")
        monkeypatch.setenv("EVENTLOG_TEST_PLACE", "since")
        with pytest.raises(UnrecordedEffect) as refused:
            await runtime.view(ONE)
        assert refused.value.kind == kind
    assert os.environ["EVENTLOG_TEST_PLACE"] == "since"


async def test_a_process_is_not_killed_again(dsn: str) -> None:
    async with running(dsn) as runtime:
        await done(runtime, "kill", "")
        with pytest.raises(UnrecordedEffect, match=r"os\.kill"):
            await runtime.view(ONE)


# -- what is no deed of the agent's -------------------------------------------------------------------------------


class Quiet(RoutedAgent):
    """Does much that the outside does not notice, or that is not its doing."""

    place: Path

    def __init__(self) -> None:
        super().__init__("quiet")
        self.heard: list[str] = []

    @message_handler
    async def on_do(self, message: Do, ctx: MessageContext) -> int:
        import json.tool  # a module that is made, perhaps, and stored compiled

        handler = logging.FileHandler(self.place / f"log {id(self)}", delay=True)
        logger = logging.getLogger("quiet")
        logger.addHandler(handler)
        logger.warning("into a file")
        logger.removeHandler(handler)
        handler.close()
        _Finalized(self.place / "finalized")
        gc.collect()
        print(json.tool.__name__, file=open(os.devnull, "w"))
        with contextlib.closing(sqlite3.connect(":memory:")) as database:
            self.heard.append(database.execute("SELECT 'x'").fetchone()[0])
        self.heard.append(Path(__file__).read_text("utf-8")[:3])
        self.heard.append(str(os.path.exists(self.place)) + str(len(os.listdir("/")) > 0))
        left, right = socket.socketpair()
        with left, right:
            left.send(b"x")
            self.heard.append(right.recv(1).decode())
        return len(self.heard)


class _Finalized:
    """An object of somebody's that ends amid a handler."""

    def __init__(self, place: Path) -> None:
        self.cycle = self
        self.end = weakref.finalize(self, Path.touch, place)

    def __del__(self) -> None:
        Path(tempfile.gettempdir()).stat()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
async def test_log_files_imports_reading_and_finalizers_are_no_deeds(
    dsn: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Quiet.place = tmp_path
    async with running(dsn, Quiet) as runtime:
        for _ in range(3):
            await done(runtime, "quiet", "")
        view = await runtime.view(ONE, type=Quiet)
        live = await runtime.try_get_underlying_agent_instance(ONE, Quiet)
        assert view.heard == live.heard
    assert "not recorded" not in caplog.text


async def test_a_live_agent_beside_replays_keeps_its_files_and_its_network(dsn: str, tmp_path: Path) -> None:
    """Many replays that are refused and many live deeds, interleaved; and a thread and a task that belong to no agent."""
    place, busy, stop = tmp_path / "one", AgentId("doer", "busy"), threading.Event()
    served, written = ThreadedServer(), []

    def outside() -> None:
        while not stop.is_set():
            (tmp_path / "thread").write_text("x")
            written.append(1)

    async def replays(runtime: EventSourcedAgentRuntime) -> None:
        for _ in range(15):
            with pytest.raises(UnrecordedEffect):
                await runtime.view(ONE)

    async def lives(runtime: EventSourcedAgentRuntime, port: int) -> None:
        for number in range(15):
            await done(runtime, "open", str(tmp_path / f"live {number}"), busy)
            await done(runtime, "connect", str(port), busy)
            await connects(str(port))
            (tmp_path / f"task {number}").write_text("x")
            await asyncio.to_thread((tmp_path / f"thread {number}").write_text, "x")

    thread = threading.Thread(target=outside)
    with served as port:
        async with running(dsn) as runtime:
            await done(runtime, "open", str(place))
            place.unlink()
            thread.start()
            try:
                await asyncio.gather(replays(runtime), replays(runtime), lives(runtime, port), lives(runtime, port))
            finally:
                stop.set()
                thread.join()
    assert not place.exists() and written
    assert served.server.connections == 60
    assert len([one for one in tmp_path.iterdir() if one.name.startswith(("live ", "task ", "thread "))]) == 45


async def test_a_replay_may_run_beside_a_child_process_and_the_child_beside_it(dsn: str, tmp_path: Path) -> None:
    async with running(dsn) as runtime:
        await done(runtime, "open", str(tmp_path / "once"))
        with pytest.raises(UnrecordedEffect):
            await runtime.view(ONE)
        forks(str(tmp_path / "child"))
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", f"open({str(tmp_path / 'other')!r}, 'w')")
        assert await process.wait() == 0
    assert sorted(one.name for one in tmp_path.iterdir()) == ["child", "once", "other"]


# -- said at once, settings ---------------------------------------------------------------------------------------


async def test_the_first_deed_of_a_kind_is_said_once_with_its_place(
    dsn: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(dsn) as runtime:
        for number in range(3):
            await done(runtime, "open", str(tmp_path / str(number)))
        await done(runtime, "subprocess.run", str(tmp_path / "3"))
    said = [record.getMessage() for record in caplog.records if "not recorded" in record.getMessage()]
    assert len(said) == 2
    assert (
        str(tmp_path / "0") in said[0] and "doer/one (Doer)" in said[0] and __file__ in said[0] and "effect" in said[0]
    )
    assert "subprocess.Popen(['touch', " in said[1]


async def test_allow_does_it_again(dsn: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = tmp_path / "again"
    async with running(dsn, replay_io="allow") as runtime:
        await done(runtime, "open", str(place))
        place.unlink()
        view = await runtime.view(ONE, type=Doer)
        assert view.done == ["open"] and place.exists()
    assert "not recorded" not in caplog.text


async def test_another_setting_is_refused(dsn: str) -> None:
    async with EventLog.open(dsn) as log:
        with pytest.raises(ValueError, match="replay_io is 'refuse' or 'allow', not 'ask'"):
            EventLogHandler(log, replay_io="ask")  # type: ignore[arg-type]


# -- where in a life ----------------------------------------------------------------------------------------------


async def test_the_past_before_the_deed_can_still_be_viewed_and_restored(dsn: str, tmp_path: Path) -> None:
    async with running(dsn) as runtime:
        await done(runtime, "nothing", "")
        before = 3
        await done(runtime, "open", str(tmp_path / "made"))
        assert (await runtime.view(ONE, version=before, type=Doer)).done == ["nothing"]
        with pytest.raises(UnrecordedEffect) as refused:
            await runtime.view(ONE, version=before + 2)
        assert (refused.value.point, refused.value.delivery, refused.value.before) == ("version 5", 4, before)
        assert f"To go on from before it: runtime.restore(agent, version={before});" in str(refused.value)
        await runtime.restore(ONE, version=before)
        (tmp_path / "made").unlink()
        await done(runtime, "nothing", "")
        assert (await runtime.view(ONE, type=Doer)).done == ["nothing", "nothing"]
    assert not (tmp_path / "made").exists()


class Leaves(RoutedAgent):
    """Leaves a task behind that writes after the handler's end."""

    place: Path

    def __init__(self) -> None:
        super().__init__("leaves")
        self.tasks: list[Any] = []

    @message_handler
    async def on_do(self, message: Do, ctx: MessageContext) -> None:
        self.tasks.append(asyncio.create_task(self.write()))

    async def write(self) -> None:
        await asyncio.sleep(0)
        self.place.write_text("later")


async def test_what_a_handler_left_behind_is_refused_too(dsn: str, tmp_path: Path) -> None:
    Leaves.place = tmp_path / "later"
    async with running(dsn, Leaves) as runtime:
        await done(runtime, "leave", "")
        await asyncio.to_thread(_exists, Leaves.place)
        Leaves.place.unlink()
        with pytest.raises(UnrecordedEffect, match="later"):
            await runtime.view(ONE)
    assert not Leaves.place.exists()


class Saver(RoutedAgent):
    """Writes, and can be restored from snapshots."""

    place: Path

    def __init__(self) -> None:
        super().__init__("saves")
        self.count = 0

    @message_handler
    async def on_do(self, message: Do, ctx: MessageContext) -> int:
        with self.place.open("a") as file:
            file.write("x")
        self.count += 1
        return self.count

    async def save_state(self) -> dict[str, Any]:
        return {"count": self.count}

    async def load_state(self, state: Any) -> None:
        self.count = state["count"]


async def test_an_agent_with_snapshots_goes_on_from_its_newest(dsn: str, tmp_path: Path) -> None:
    Saver.place = tmp_path / "written"
    async with running(dsn, Saver, snapshots=SnapshotPolicy(every=1, within=None, kind="save_state")) as runtime:
        await done(runtime, "save", "")
        await done(runtime, "save", "")
    async with running(dsn, Saver, snapshots=SnapshotPolicy(every=1, within=None, kind="save_state")) as runtime:
        assert await runtime.send_message(Do("save"), ONE) == 3
    assert Saver.place.read_text() == "xxx"


class Tidy(RoutedAgent):
    """Tidies up when its handler ends, however it does."""

    place: Path
    sent: list[str]

    def __init__(self) -> None:
        super().__init__("tidies")
        self.at = time.time()

    @message_handler
    async def on_do(self, message: Do, ctx: MessageContext) -> None:
        try:
            await asyncio.gather(self.ask("inner"), self.ask("another"))
        finally:
            self.place.unlink()

    async def ask(self, name: str) -> None:
        try:
            await self.send_message(Ask(), AgentId("answering", "one"))
        finally:
            self.at = time.time()
            await effect_of("send", self.sent.append, name)
            with contextlib.suppress(Exception):
                self.place.unlink()


class Answering(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("answers")

    @message_handler
    async def on_ask(self, message: Ask, ctx: MessageContext) -> None: ...


@pytest.mark.parametrize("holds", [True, False])
async def test_what_stood_amid_a_handler_does_nothing_when_it_is_garbage(dsn: str, tmp_path: Path, holds: bool) -> None:
    """Its `finally` blocks run then; nothing of the world may notice."""
    Tidy.place, Tidy.sent = tmp_path / "there", []
    Tidy.place.touch()
    async with running(dsn, Tidy) as runtime:
        await runtime.register_factory("answering", Answering)
        with contextlib.suppress(OSError):
            await done(runtime, "tidy", "")
        sent = list(Tidy.sent)
        assert not Tidy.place.exists() and sorted(sent) == ["another", "inner"]
        Tidy.place.touch()
        views: list[Any] = []
        for version in (2, 3, 4, 4, 4) * 4:
            views.append(await runtime.view(ONE, version=version))
            if not holds:
                views.clear()
        with pytest.raises(UnrecordedEffect):
            await runtime.view(ONE)
        views.clear()
        gc.collect()
        await asyncio.sleep(0)
        gc.collect()
    assert Tidy.place.exists() and Tidy.sent == sent


# -- constructors -------------------------------------------------------------------------------------------------


class Opens(RoutedAgent):
    """Opens a file when it is made, and writes to it in its handler, which no event tells."""

    place: Path
    mode = "a"
    files: list[Any]

    def __init__(self) -> None:
        super().__init__("opens")
        self.directory = tempfile.gettempdir()
        os.makedirs(self.place.parent / "directory", exist_ok=True)
        self.file = self.place.open(self.mode)
        self.files.append(self.file)

    @message_handler
    async def on_do(self, message: Do, ctx: MessageContext) -> None:
        self.file.write("x")
        self.file.flush()


class OpensAnew(Opens):
    mode = "w"


@pytest.mark.parametrize("cls", [Opens, OpensAnew])
async def test_what_a_constructor_opened_keeps_its_handlers_from_being_replayed(
    dsn: str, tmp_path: Path, cls: type, caplog: pytest.LogCaptureFixture
) -> None:
    cls.place, cls.files = tmp_path / "kept", []  # type: ignore[attr-defined]
    async with running(dsn, cls) as runtime:
        await done(runtime, "write", "")
        with pytest.raises(UnrecordedEffect, match="the making of the instance calls open") as refused:
            await runtime.view(ONE)
        assert refused.value.place.startswith(__file__)
        assert (tmp_path / "kept").read_text() == "x"
    assert caplog.text.count("while it is made") == 1
    for file in Opens.files if cls is Opens else OpensAnew.files:
        file.close()


# -- amid the end of the journal ----------------------------------------------------------------------------------


class Caller(RoutedAgent):
    """Writes, then asks, then writes again."""

    place: Path
    answers = True

    def __init__(self) -> None:
        super().__init__("calls")
        self.count = 0

    @message_handler
    async def on_do(self, message: Do, ctx: MessageContext) -> int:
        if message.what == "first":
            self.place.write_text("before")
        await self.send_message(Ask(), AgentId("other", "one"))
        self.place.write_text("after")
        self.count += 1
        return self.count


class Other(RoutedAgent):
    asked: asyncio.Event
    gate: asyncio.Event

    def __init__(self) -> None:
        super().__init__("other")

    @message_handler
    async def on_ask(self, message: Ask, ctx: MessageContext) -> None:
        self.asked.set()
        await effect_of("gate.wait", self.gate.wait)


@pytest.mark.parametrize("what", ["first", "last"])
async def test_a_handler_in_flight_goes_on_unless_it_did_something_before_its_last_event(
    dsn: str, tmp_path: Path, what: str
) -> None:
    Caller.place = tmp_path / "place"
    Other.asked, Other.gate = asyncio.Event(), asyncio.Event()
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await runtime.register_factory("doer", Caller)
        await runtime.register_factory("other", Other)
        runtime.start()
        held = asyncio.create_task(runtime.send_message(Do(what), ONE))
        await Other.asked.wait()
        shell = runtime._agents.shells[ONE]
        assert shell.incarnation is not None
        await shell.incarnation.durable
        shell.incarnation.end()  # what is in memory is lost, as at a kill
        with pytest.raises(InstanceEnded):
            await held
        Other.gate.set()
        await runtime.stop_when_idle()
    Caller.place.unlink(missing_ok=True)
    async with running(dsn, Caller) as runtime:
        await runtime.register_factory("other", Other)
        if what == "first":
            with pytest.raises(UnrecordedEffect, match="delivery 2 calls open"):
                await runtime.try_get_underlying_agent_instance(ONE, Caller)
            assert not Caller.place.exists()
        else:
            await runtime.try_get_underlying_agent_instance(ONE, Caller)
            await asyncio.to_thread(_exists, Caller.place)
            assert Caller.place.read_text() == "after"
