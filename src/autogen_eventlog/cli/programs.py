"""The commands that run a host or a worker, and ask a worker how it is."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Annotated

import typer

from autogen_eventlog.cli.seed import fix_hash_seed
from autogen_eventlog.cli.settings import settings_of

DEFAULT_ADDRESS = "127.0.0.1:50051"


class Durability(str, Enum):
    """When things must be committed, as an option."""

    output = "output"
    strict = "strict"


def _with_port(address: str) -> str:
    """gRPC would take an address without a port, and try 443 until its patience is over.

    Raises:
        typer.BadParameter: It has none.
    """
    port = address.rpartition(":")[2]
    if not address.startswith("unix") and (":" not in address or not port.isdecimal()):
        raise typer.BadParameter(f"{address!r} has no port: give ADDRESS:PORT, such as host.internal:50051")
    return address


def host(
    ctx: typer.Context,
    address: Annotated[
        str, typer.Option(metavar="ADDRESS:PORT", help="Where to listen for workers.")
    ] = DEFAULT_ADDRESS,
    plain: Annotated[
        bool, typer.Option("--plain", help="AutoGen's own host: no state service, and no log is needed.")
    ] = False,
) -> None:
    """Run a host that workers connect to.

    It passes messages from worker to worker, and keeps states for agents that keep none themselves. It says where it
    listens, and runs until SIGINT or SIGTERM.
    """
    from autogen_eventlog.cli import serving

    asyncio.run(serving.host(settings_of(ctx), address, plain=plain))


def worker(
    ctx: typer.Context,
    register: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:REGISTER",
            help="The function, plain or async, that is given the runtime and registers the agents on it.",
        ),
    ],
    host: Annotated[
        str,
        typer.Option(
            envvar="EVENTLOG_HOST",
            show_envvar=True,
            metavar="ADDRESS:PORT",
            callback=_with_port,
            help="The host to connect to.",
        ),
    ] = DEFAULT_ADDRESS,
    health: Annotated[
        str | None, typer.Option(metavar="ADDRESS:PORT", help="Answer GET /live and GET /ready there.")
    ] = None,
    patience: Annotated[
        float,
        typer.Option(min=0.0, metavar="SECONDS", help="Without a sign of life for so long, a message is given up."),
    ] = 30.0,
    connect_timeout: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="How long the host may be away at the start.")
    ] = 30.0,
    durability: Annotated[
        Durability,
        typer.Option(
            metavar="WHEN", help="What is recorded is committed before an output, or also before a handler (strict)."
        ),
    ] = Durability.output,
) -> None:
    """Run a worker with the agents of a program.

    It connects to the host, registers the agents, and says `ready` when those that were left in the middle of a handler
    go on. It reconnects when the host was away. At SIGINT or SIGTERM it lets running handlers end and what they published
    arrive; the next signal ends it at once, and the next worker goes on from the log. Strings are hashed with
    PYTHONHASHSEED=0, unless that is set.
    """
    if settings_of(ctx).own_process:
        fix_hash_seed()
    from autogen_eventlog.cli import serving

    plan = serving.WorkerPlan(
        register=register,
        host=host,
        patience=patience,
        connect_timeout=connect_timeout,
        durability="strict" if durability is Durability.strict else "output",
        health=health,
    )
    asyncio.run(serving.worker(settings_of(ctx), plan))


def health(
    ctx: typer.Context,
    address: Annotated[str, typer.Argument(metavar="ADDRESS:PORT", help="What the worker has as --health.")],
    live: Annotated[bool, typer.Option("--live", help="Whether it runs at all, not whether it is ready.")] = False,
) -> None:
    """Ask a worker whether it is ready.

    It is while it is connected, its types are its own at the host, the database is there, and no agent is being
    recovered. Exit code 1 if it is not, or does not answer.
    """
    from autogen_eventlog.cli import probing

    asyncio.run(probing.health(settings_of(ctx), address, live=live))


def add_programs(app: typer.Typer) -> None:
    """Make them commands of `app`."""
    app.command(epilog="Example: eventlog host --address 0.0.0.0:50051")(host)
    app.command(
        epilog="Example: eventlog worker shop.agents:register --host host.internal:50051 --health 0.0.0.0:8080"
    )(worker)
    app.command(epilog="Example: eventlog health 127.0.0.1:8080")(health)
