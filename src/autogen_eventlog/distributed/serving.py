"""A host for as long as a block lasts: AutoGen's own, or the one with the state service."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import socket
from collections.abc import AsyncGenerator
from typing import Any

from autogen_ext.runtimes.grpc import GrpcWorkerAgentRuntimeHost

from autogen_eventlog.distributed.health import split_address
from autogen_eventlog.distributed.host import EventSourcedGrpcWorkerAgentRuntimeHost
from autogen_eventlog.log import EventLog

_OPTIONS = [("grpc.so_reuseport", 0)]
"""Else gRPC lets two hosts share a port without a word, and workers find one or the other."""
_GRACE_SECONDS = 1


@contextlib.asynccontextmanager
async def serving(address: str, log: EventLog | None) -> AsyncGenerator[str]:
    """Serve workers at the address, which is given back with the port that it has.

    Args:
        log: Where the state service keeps its states. None: AutoGen's own host, without the service.

    Raises:
        OSError: The address can't be listened on.
        ValueError: It is none, or it leaves the port to AutoGen's own host, which does not say which it took.
    """
    _, port = split_address(address)
    if log is None and port == 0:
        raise ValueError(f"{address!r}: AutoGen's own host needs a port")
    _check(address)
    try:
        host = (
            GrpcWorkerAgentRuntimeHost(address, _OPTIONS)
            if log is None
            else EventSourcedGrpcWorkerAgentRuntimeHost(address, log, _OPTIONS)
        )
    except RuntimeError as error:
        raise OSError(str(error)) from error
    asyncio.get_running_loop().set_exception_handler(_quiet)
    host.start()
    try:
        yield host.address if isinstance(host, EventSourcedGrpcWorkerAgentRuntimeHost) else address
    finally:
        with contextlib.redirect_stderr(
            io.StringIO()
        ):  # gRPC prints a traceback for each stream that a worker still has
            await host.stop(_GRACE_SECONDS)
            await _calls_ended()


async def _calls_ended() -> None:
    """`stop` cancels the workers' streams and does not wait for what it cancelled."""
    calls = [task for task in asyncio.all_tasks() if task.get_name() == "rpc_task"]  # as gRPC names them
    if calls:
        await asyncio.wait(calls, timeout=_GRACE_SECONDS)


def _quiet(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """AutoGen's host asks a cancelled task for its error when a worker leaves that was asked something: that is none."""
    if not isinstance(context.get("exception"), asyncio.CancelledError):
        loop.default_exception_handler(context)


def _check(address: str) -> None:
    """Bind the address once: gRPC says on stderr, in words of its own, why it can't, and raises without the reason."""
    host, port = split_address(address)
    targets = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    problems: list[OSError] = []
    for family, kind, protocol, _, target in targets:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(target)
        except OSError as error:
            problems.append(error)
    taken = [problem for problem in problems if problem.errno == errno.EADDRINUSE]
    if taken or len(problems) == len(targets):
        raise (taken or problems)[0]
