"""What a worker says of its health, without a worker."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from autogen_eventlog.distributed import WorkerHealth
from autogen_eventlog.distributed.health import HealthServer, split_address

WELL = WorkerHealth(
    worker=UUID(int=7),
    host="localhost:50051",
    connected=True,
    database=True,
    agent_types=("clerk",),
    elsewhere=(),
    agents=3,
    running=1,
    recovering=0,
    outstanding=2,
    pending_events=4,
)


def parsed(response: bytes) -> tuple[int, dict[str, Any]]:
    head, _, body = response.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head.split(b"\r\n")
    return int(head.split()[1]), json.loads(body)


def answered(health: WorkerHealth | None, state: str, path: str = "/ready", method: str = "GET") -> Any:
    server = HealthServer("127.0.0.1:0", lambda: health, lambda: state)
    return parsed(server.answer(f"{method} {path} HTTP/1.1"))


def test_a_worker_is_ready_when_nothing_is_missing() -> None:
    status, said = answered(WELL, "serving")
    assert status == 200
    assert said == {
        "ready": True,
        "state": "serving",
        "worker": str(WELL.worker),
        "host": "localhost:50051",
        "connected": True,
        "database": True,
        "agent_types": ["clerk"],
        "elsewhere": [],
        "agents": 3,
        "running": 1,
        "recovering": 0,
        "outstanding": 2,
        "pending_events": 4,
    }


@pytest.mark.parametrize(
    "missing", [{"connected": False}, {"database": False}, {"elsewhere": ("clerk",)}, {"recovering": 1}], ids=str
)
def test_a_worker_is_not_ready_while_anything_is_missing_but_live(missing: dict[str, Any]) -> None:
    health = replace(WELL, **missing)
    assert not health.ready
    assert answered(health, "serving")[0] == 503
    status, said = answered(health, "serving", "/live")
    assert (status, said["live"], said["ready"]) == (200, True, False)


@pytest.mark.parametrize("state", ["starting", "stopping"])
def test_a_worker_is_ready_only_between_its_start_and_its_end(state: str) -> None:
    assert answered(WELL, state)[0] == 503
    assert answered(None, state) == (503, {"ready": False, "state": state})


def test_other_paths_and_methods_are_refused() -> None:
    assert answered(WELL, "serving", "/")[0] == 404
    assert answered(WELL, "serving", "/ready?full=1")[0] == 200
    assert answered(WELL, "serving", method="POST")[0] == 405
    assert answered(WELL, "serving", "", method="")[0] == 405
    head = HealthServer("127.0.0.1:0", lambda: WELL, lambda: "serving").answer("HEAD /ready HTTP/1.0")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n") and head.endswith(b"\r\n\r\n")


async def test_it_answers_by_http_and_closes() -> None:
    async with HealthServer("127.0.0.1:0", lambda: WELL, lambda: "serving") as server:
        host, port = split_address(server.address)
        for asked in (b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /ready HTTP/1.0\r\n\r\n"):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(asked)
            assert parsed(await reader.read())[0] == 200
            writer.close()


async def test_what_is_no_request_gets_no_answer_and_keeps_nobody() -> None:
    async with HealthServer("127.0.0.1:0", lambda: WELL, lambda: "serving") as server:
        host, port = split_address(server.address)
        silent, still_open = await asyncio.open_connection(host, port)
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"x" * 100_000)
        with pytest.raises((AssertionError, ConnectionError)):
            assert await reader.read()
        writer.close()
    assert await silent.read() == b""
    still_open.close()


@pytest.mark.parametrize(
    ("address", "parts"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:8080", ("::1", 8080)), ("host.internal:0", ("host.internal", 0))],
)
def test_an_address_has_two_parts(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize(
    "address", ["", "8080", ":8080", "localhost", "localhost:", "localhost:http", "h:65536", "h:²"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="is no address"):
        split_address(address)
