"""What a worker says of its health, for a probe that is a command."""

from __future__ import annotations

import asyncio
import http.client
import json
from typing import Any

import typer

from autogen_eventlog.cli.group import REFUSED, Refused
from autogen_eventlog.cli.output import Output, printable, readable
from autogen_eventlog.cli.settings import Settings

_SECONDS = 5.0


async def health(settings: Settings, address: str, *, live: bool) -> None:
    """Ask, show the answer, and end with 1 if it is no."""
    status, said = await asyncio.to_thread(_ask, address, "/live" if live else "/ready")
    output = Output(settings)
    if output.for_programs:
        output.line(said)
    else:
        title = f"worker at {address}: " + _verdict(status, live=live)
        output.block(
            title, [(name, value if isinstance(value, str) else readable(value)) for name, value in said.items()]
        )
    if status != http.client.OK:
        raise typer.Exit(REFUSED)


def _verdict(status: int, *, live: bool) -> str:
    said = "live" if live else "ready"
    return said if status == http.client.OK else f"not {said}"


def _ask(address: str, path: str) -> tuple[int, dict[str, Any]]:
    try:
        connection = http.client.HTTPConnection(address, timeout=_SECONDS)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, dict(json.loads(response.read()))
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError, TypeError) as error:
        raise Refused(f"no worker tells its health at {printable(address)}: {error or type(error).__name__}") from error
