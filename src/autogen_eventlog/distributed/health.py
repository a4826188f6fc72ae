"""How a worker is: a record, and a small HTTP server that tells it to whoever probes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any
from uuid import UUID

_LONGEST_REQUEST = 8192
_REQUEST_SECONDS = 5.0
_TO_BE_READY = "serving"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHealth:
    """How a worker of the distributed runtime is, as far as it knows itself: nobody was asked for it."""

    worker: UUID
    """Its id in the log."""
    host: str
    """Address of AutoGen's host."""
    connected: bool
    """To the host, which knows its types and subscriptions."""
    database: bool
    """The database was heard of within the lease, and counts the worker as alive."""
    agent_types: tuple[str, ...]
    """Whose messages the host gives to this worker."""
    elsewhere: tuple[str, ...]
    """Types registered here that another worker has at the host; they are asked for until it gives them back."""
    agents: int
    """With an instance in memory."""
    running: int
    """Handlers that run."""
    recovering: int
    """Agents that are being rebuilt from the log, and those that wait for it: left in the middle of a handler."""
    outstanding: int
    """Messages sent that are not known to have arrived."""
    pending_events: int
    """Recorded, and not committed yet."""

    @property
    def ready(self) -> bool:
        """Connected, the database there, no type elsewhere, nothing being recovered."""
        return self.connected and self.database and not self.elsewhere and not self.recovering


class HealthServer:
    """Answers `GET /live` (200 while the event loop runs) and `GET /ready` (200 or 503), with a JSON object.

    Args:
        address: Where it listens, `ADDRESS:PORT`; port 0: a free one, see `address`.
        look: The worker's health; None: there is no worker yet.
        state: What the program is about; only while it is `serving` can it be ready.
    """

    def __init__(self, address: str, look: Callable[[], WorkerHealth | None], state: Callable[[], str]) -> None:
        self.address = address
        self._look = look
        self._state = state
        self._server: asyncio.Server | None = None
        self._answering: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> HealthServer:
        """Listen.

        Raises:
            OSError: The address can't be listened on.
            ValueError: It is none.
        """
        host, port = split_address(self.address)
        self._server = await asyncio.start_server(self._connected, host, port, limit=_LONGEST_REQUEST)
        if port == 0:
            self.address = f"{self.address.rpartition(':')[0]}:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._answering):
            task.cancel()
        if self._answering:
            await asyncio.wait(list(self._answering))
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        try:
            asked = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _REQUEST_SECONDS)
            writer.write(self.answer(asked.split(b"\r\n", 1)[0].decode("latin-1")))
            await asyncio.wait_for(writer.drain(), _REQUEST_SECONDS)
        except (OSError, EOFError, asyncio.LimitOverrunError, asyncio.TimeoutError, TimeoutError):
            pass  # it is no probe of ours that asks in this way
        finally:
            self._answering.discard(task)
            writer.close()

    def answer(self, asked: str) -> bytes:
        """The whole response to a request line."""
        method, _, rest = asked.partition(" ")
        status, form = self._found(method, rest.partition(" ")[0].partition("?")[0])
        body = json.dumps(form).encode() + b"\n"
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + (b"" if method == "HEAD" else body)

    def _found(self, method: str, path: str) -> tuple[HTTPStatus, dict[str, Any]]:
        if method not in ("GET", "HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, {"error": "GET only"}
        health, state = self._look(), self._state()
        ready = state == _TO_BE_READY and health is not None and health.ready
        form = {"ready": ready, "state": state, **health_form(health)}
        if path == "/live":
            return HTTPStatus.OK, {"live": True, **form}
        if path == "/ready":
            return HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE, form
        return HTTPStatus.NOT_FOUND, {"error": "there are /live and /ready"}


def health_form(health: WorkerHealth | None) -> dict[str, Any]:
    """As JSON."""
    return {} if health is None else {**asdict(health), "worker": str(health.worker)}


def split_address(address: str) -> tuple[str, int]:
    """`ADDRESS:PORT` in its two parts; an IPv6 address stands in brackets.

    Raises:
        ValueError: It is none.
    """
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{address!r} is no address: give ADDRESS:PORT, for instance 127.0.0.1:8080")
    return host, int(port)
