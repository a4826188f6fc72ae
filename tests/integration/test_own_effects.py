"""Calls that whoever wrote an agent names as effects: recorded, answered in replay, done once (G1, G2, G4, G5)."""

from __future__ import annotations

import asyncio
import socket
import threading
import urllib.request
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from autogen_core import AgentId, CancellationToken, MessageContext, RoutedAgent, message_handler
from autogen_core.tools import FunctionTool

from autogen_eventlog import EventLog, EventLogHandler, EventSourcedAgentRuntime, EventType, effect, effect_of
from autogen_eventlog.errors import Divergence, EffectOutcomeUnknown, InstanceEnded, NotEncodable, TypeNotAllowed

ONE = AgentId("mailer", "one")


@dataclass
class Send:
    to: str
    how: str = "decorated"


@dataclass
class Receipt:
    to: str
    number: int
    lines: list[str] = field(default_factory=list)


class Box:
    """The world outside: what was really done."""

    def __init__(self, place: Path | None = None) -> None:
        self.sent: list[Any] = []
        self.place = place
        self.hold: asyncio.Event | None = None
        self.begun = asyncio.Event()


BOX = Box()


def put(to: str, *lines: str, **more: Any) -> Receipt:
    if to == "nobody":
        raise LookupError("no such person", to)
    BOX.sent.append((to, *lines, *more.values()))
    return Receipt(to, len(BOX.sent), list(lines))


@effect("mail.send")
async def send(to: str, *lines: str, **more: Any) -> Receipt:
    BOX.begun.set()
    if BOX.hold is not None:
        await BOX.hold.wait()
    return put(to, *lines, **more)


class Opaque:
    """No data."""


class Mailer(RoutedAgent):
    def __init__(self) -> None:
        super().__init__("mails")
        self.receipts: list[Any] = []
        self.opaque = Opaque()

    @effect
    async def mail(self, to: str) -> Receipt:
        receipt = put(to, "method")
        self.opaque = Opaque()  # outside of the agent: it is not done again in replay
        return receipt

    @staticmethod
    @effect("static.send")
    async def static(to: str) -> Receipt:
        return put(to, "static")

    @effect("file.write")
    async def write(self, text: str) -> int:
        """Whatever a handler must not do by itself: threads, files, sockets."""
        assert BOX.place is not None

        def append() -> int:
            assert BOX.place is not None
            with BOX.place.open("a") as file:
                file.write(f"{text}\n")
            return len(BOX.place.read_text().splitlines())

        return await asyncio.to_thread(append)

    @message_handler
    async def on_send(self, message: Send, ctx: MessageContext) -> int:
        self.receipts.append(await WAYS[message.how](self, message.to, ctx.cancellation_token))
        return len(self.receipts)


async def caught(agent: Mailer, to: str, token: Any) -> str:
    try:
        return str(await send(to))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


async def changed(agent: Mailer, to: str, token: Any) -> Receipt:
    given = ["as it was"]
    asked = asyncio.create_task(effect_of("mail.later", later, to, given))
    await asyncio.sleep(0)
    given.append("and changed since")
    return await asked


async def later(to: str, lines: list[str]) -> Receipt:
    return put(to, *lines)


async def many(agent: Mailer, to: str, token: Any) -> list[Any]:
    return await asyncio.gather(*(send(to, str(number)) for number in range(5)), agent.mail(to))


async def nested(agent: Mailer, to: str, token: Any) -> Receipt:
    return await effect_of("mail.both", both, to)


async def both(to: str) -> Receipt:
    await send(to)  # within an effect it is just the function
    return await Mailer.static(to)


async def gives_opaque() -> Opaque:
    return Opaque()


def unnamed() -> Any:
    @dataclass
    class Local:
        number: int = 1

    return Local()


async def takes_token(to: str, token: CancellationToken) -> bool:
    return token.is_cancelled()


WAYS: dict[str, Callable[[Mailer, str, Any], Any]] = {
    "decorated": lambda agent, to, token: send(to, "a", "b", extra=1),
    "method": lambda agent, to, token: agent.mail(to),
    "static": lambda agent, to, token: agent.static(to),
    "call of async": lambda agent, to, token: effect_of("mail.later", later, to, ["c"]),
    "call of plain": lambda agent, to, token: effect_of("mail.put", put, to, "d", extra="e"),
    "call of bound": lambda agent, to, token: effect_of("list.append", BOX.sent.append, to),
    "call in thread": lambda agent, to, token: effect_of("mail.put", asyncio.to_thread, put, to),
    "file": lambda agent, to, token: agent.write(to),
    "caught": caught,
    "changed": changed,
    "many": many,
    "nested": nested,
    "opaque": lambda agent, to, token: effect_of("gives", gives_opaque),
    "unnamed": lambda agent, to, token: effect_of("gives", unnamed),
    "token": lambda agent, to, token: effect_of("takes", takes_token, to, token),
}


@pytest.fixture(autouse=True)
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Box:
    made = Box(tmp_path / "written")
    monkeypatch.setitem(globals(), "BOX", made)
    return made


@asynccontextmanager
async def running(
    dsn: str, factory: Callable[[], Any] = Mailer, **settings: Any
) -> AsyncGenerator[EventSourcedAgentRuntime]:
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log, **settings)])
        await runtime.register_factory("mailer", factory)
        runtime.start()
        try:
            yield runtime
        finally:
            await runtime.stop_when_idle()


async def effects_in(dsn: str) -> list[Any]:
    async with EventLog.open(dsn) as log:
        return [one async for one in log.read(ONE) if one.type.value.startswith("Effect")]


REPLAYABLE = [how for how in WAYS if how not in ("opaque", "unnamed")]


@pytest.mark.parametrize("how", REPLAYABLE)
async def test_an_effect_is_done_once_and_its_result_is_the_same_everywhere(dsn: str, box: Box, how: str) -> None:
    async with running(dsn) as runtime:
        for to in ("anna", "bert"):
            await runtime.send_message(Send(to, how), ONE)
        live = await runtime.try_get_underlying_agent_instance(ONE, Mailer)
        done, receipts = list(box.sent), list(live.receipts)
        written = box.place.read_text() if box.place and box.place.exists() else None
        assert (await runtime.view(ONE, type=Mailer)).receipts == receipts
    async with running(dsn) as runtime:
        recovered = await runtime.try_get_underlying_agent_instance(ONE, Mailer)
        assert recovered.receipts == receipts
    assert box.sent == done
    assert written == (box.place.read_text() if box.place and box.place.exists() else None)
    if how == "file":
        assert written == "anna\nbert\n" and receipts == [1, 2]


async def test_an_error_is_recorded_and_raised_again(dsn: str, box: Box) -> None:
    async with running(dsn) as runtime:
        with pytest.raises(LookupError) as raised:
            await runtime.send_message(Send("nobody"), ONE)
        assert raised.value.args == ("no such person", "nobody")
        await runtime.send_message(Send("nobody", "caught"), ONE)
        view = await runtime.view(ONE, type=Mailer)
        assert view.receipts == ["LookupError: ('no such person', 'nobody')"]
    assert box.sent == []


async def test_the_request_names_kind_and_arguments_and_leaves_out_self(dsn: str) -> None:
    async with running(dsn) as runtime:
        for how in ("decorated", "method", "static", "call of plain"):
            await runtime.send_message(Send("anna", how), ONE)
        async with EventLog.open(dsn) as log:
            recorded = [one.kind for one in await log.audit.recorded_effects(agent=ONE)]
    requested = [one for one in await effects_in(dsn) if one.type is EventType.EFFECT_REQUESTED]
    kinds = ["own.mail.send", "own.Mailer.mail", "own.static.send", "own.mail.put"]
    assert [one.metadata["kind"] for one in requested] == kinds
    assert sorted(recorded) == sorted(kinds)
    texts = [one.payload.decode() for one in requested]
    assert '"request":{"to":"anna","lines":["a","b"],"extra":1}' in texts[0]
    assert '"request":{"to":"anna"}' in texts[1] and '"request":{"to":"anna"}' in texts[2]
    assert '"request":{"to":"anna","lines":["d"],"more":{"extra":"e"}}' not in texts[3] and '"extra":"e"' in texts[3]


class Elsewhere(Mailer):
    """Sends to somebody else than was recorded."""

    @message_handler
    async def on_send(self, message: Send, ctx: MessageContext) -> int:
        self.receipts.append(await send("carl", "a", "b", extra=1))
        return len(self.receipts)


async def test_another_request_than_recorded_diverges(dsn: str, box: Box) -> None:
    async with running(dsn) as runtime:
        await runtime.send_message(Send("anna"), ONE)
    async with running(dsn, Elsewhere) as runtime:
        with pytest.raises(Divergence) as diverged:
            await runtime.view(ONE)
    assert (diverged.value.version, diverged.value.delivery) == (3, 2)
    assert '"to":"anna"' in diverged.value.recorded and '"to":"carl"' in diverged.value.produced
    assert len(box.sent) == 1


async def test_the_request_is_durable_before_the_call(dsn: str, box: Box) -> None:
    box.hold = asyncio.Event()
    async with running(dsn) as runtime:
        sending = asyncio.create_task(runtime.send_message(Send("anna"), ONE))
        await box.begun.wait()
        assert [one.type for one in await effects_in(dsn)] == [EventType.EFFECT_REQUESTED]
        box.hold.set()
        await sending


async def interrupted(dsn: str, box: Box) -> None:
    """A process that ends amid the effect."""
    box.hold = asyncio.Event()
    async with EventLog.open(dsn) as log:
        runtime = EventSourcedAgentRuntime(intervention_handlers=[EventLogHandler(log)])
        await runtime.register_factory("mailer", Mailer)
        runtime.start()
        sending = asyncio.create_task(runtime.send_message(Send("anna"), ONE))
        await box.begun.wait()
        shell = runtime._agents.shells[ONE]
        assert shell.incarnation is not None
        shell.incarnation.end()  # what is in memory is lost, as at a kill
        with pytest.raises(InstanceEnded):
            await sending
        box.hold.set()
        await runtime.stop_when_idle()
    box.hold = None
    box.sent.clear()


@pytest.mark.parametrize(
    ("setting", "sent"),
    [(None, 0), ({"own": "retry"}, 1), ({"own.mail.send": "retry"}, 1), ({"own.other": "retry"}, 0), ("retry", 1)],
)
async def test_an_unknown_outcome_follows_the_setting(dsn: str, box: Box, setting: Any, sent: int) -> None:
    await interrupted(dsn, box)
    async with running(dsn, effects_unknown=setting) as runtime:
        recovered = await runtime.try_get_underlying_agent_instance(ONE, Mailer)
        await runtime.send_message(Send("bert", "method"), ONE)
    assert len(box.sent) == sent + 1
    assert len(recovered.receipts) == sent + 1
    async with EventLog.open(dsn) as log:
        ends = [one async for one in log.read(ONE) if one.type is EventType.DELIVERY_COMPLETED]
    if not sent:
        assert ends[0].message_type == f"{EffectOutcomeUnknown.__module__}:EffectOutcomeUnknown"
        assert b"own.mail.send" in (ends[0].payload or b"")


@pytest.mark.parametrize(("how", "error"), [("opaque", NotEncodable), ("unnamed", TypeNotAllowed)])
async def test_a_result_that_could_not_be_read_again_is_an_error_at_once(
    dsn: str, how: str, error: type[Exception]
) -> None:
    async with running(dsn) as runtime:
        with pytest.raises(error, match=r"own\.gives"):
            await runtime.send_message(Send("anna", how), ONE)
        assert (await runtime.view(ONE, type=Mailer)).receipts == []


async def test_outside_of_any_handler_it_is_just_the_function(dsn: str, box: Box) -> None:
    assert await send("anna", "x") == Receipt("anna", 1, ["x"])
    assert await Mailer.static("bert") == Receipt("bert", 2, ["static"])
    assert await effect_of("mail.put", put, "carl") == Receipt("carl", 3)
    assert await effect_of("mail.send", send, "dora") == Receipt("dora", 4)
    async with running(dsn) as runtime:
        await runtime.send_message(Send("anna"), ONE)
        live = await runtime.try_get_underlying_agent_instance(ONE, Mailer)
        await live.mail("eric")
        assert len(await effects_in(dsn)) == 2
    assert len(box.sent) == 6


def test_what_is_no_async_function_or_no_name_is_refused() -> None:
    with pytest.raises(TypeError, match=r"put is no `async def` function.*effect_of"):
        effect(put)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="@staticmethod"):
        effect("mail.send")(staticmethod(send))  # type: ignore[arg-type]
    for kind in ("", "mail send", ".send", "1st"):
        with pytest.raises(ValueError, match="the kind of an effect is a name"):
            effect(kind)


async def test_a_kind_that_is_no_name_is_refused_in_a_handler_and_outside() -> None:
    with pytest.raises(ValueError, match="the kind of an effect"):
        await effect_of("two words", put, "anna")


def test_a_decorated_function_looks_like_itself() -> None:
    import inspect

    assert inspect.iscoroutinefunction(send) and send.__name__ == "send"
    assert list(inspect.signature(send).parameters) == ["to", "lines", "more"]
    assert FunctionTool(Mailer.static, "sends").schema["name"] == "static"


class Web(RoutedAgent):
    """Opens connections and threads, but in an effect."""

    port = 0

    def __init__(self) -> None:
        super().__init__("web")
        self.heard: list[int] = []

    @effect("web.get")
    async def get(self) -> int:
        def open_it() -> int:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/") as answer:
                return answer.status

        return await asyncio.to_thread(open_it)

    @message_handler
    async def on_send(self, message: Send, ctx: MessageContext) -> None:
        self.heard.append(await self.get())


async def test_threads_and_sockets_are_free_within_an_effect(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        asked = []

        def serve() -> None:
            for _ in range(2):
                connection, _ = server.accept()
                with connection:
                    asked.append(connection.recv(1000))
                    connection.sendall(b"HTTP/1.0 204 No Content\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        Web.port = server.getsockname()[1]
        async with running(dsn, Web) as runtime:
            for _ in range(2):
                await runtime.send_message(Send("web"), ONE)
            thread.join()
            for _ in range(3):
                assert (await runtime.view(ONE, type=Web)).heard == [204, 204]
    assert len(asked) == 2
    assert "not recorded" not in caplog.text
