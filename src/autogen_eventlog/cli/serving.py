"""Programs that run until they are stopped: a host, a worker."""

from __future__ import annotations

import inspect
import logging
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from autogen_eventlog.cli.group import Refused
from autogen_eventlog.cli.opening import check_dsn
from autogen_eventlog.cli.output import Output, printable
from autogen_eventlog.cli.restoring import import_function
from autogen_eventlog.cli.settings import Settings
from autogen_eventlog.cli.stopping import stop_signals, unless
from autogen_eventlog.errors import EventLogError
from autogen_eventlog.log import EventLog

if TYPE_CHECKING:
    from autogen_eventlog.distributed import EventSourcedGrpcWorkerAgentRuntime, WorkerHealth

logger = logging.getLogger(__name__)

State = Literal["starting", "serving", "stopping"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """What `eventlog worker` was told."""

    register: str
    host: str
    patience: float
    connect_timeout: float
    durability: Literal["output", "strict"]
    health: str | None


async def host(settings: Settings, address: str, *, plain: bool) -> None:
    """Serve workers until told to stop."""
    from autogen_eventlog.distributed.serving import serving

    output = Output(settings)
    async with AsyncExitStack() as stack:
        told = stack.enter_context(stop_signals())

        async def open_it() -> None:
            log = None if plain else await stack.enter_async_context(_log(settings))
            try:
                listening = await stack.enter_async_context(serving(address, log))
            except (OSError, ValueError) as error:
                raise _not_listening(address, error) from error
            said = f"Listening at {listening}, " + ("AutoGen's own host." if plain else "with the state service.")
            _say(output, said, {"listening": listening, "state_service": not plain})

        if await unless(told, open_it()):
            await told.wait()


async def worker(settings: Settings, plan: WorkerPlan) -> None:
    """Have agents here until told to stop, then let what runs come to its end."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    running = _Worker(plan)
    output = Output(settings)
    async with AsyncExitStack() as stack:
        told = stack.enter_context(stop_signals())
        if not await unless(told, running.come_up(settings, stack)):
            return
        types = running.look().agent_types
        if not types:
            logger.warning("%s registered no agents: nothing will come to this worker", plan.register)
        said = f"ready: {', '.join(types) or 'no agents'} at {plan.host}"
        _say(output, said, {"ready": True, "host": plan.host, "agent_types": types, "health": running.health_address})
        await told.wait()
        running.state = "stopping"
        output.hint(f"stopping: {running.look().running} handlers run; the next signal ends at once")


class _Worker:
    """A worker from its first breath to its last."""

    def __init__(self, plan: WorkerPlan) -> None:
        self._plan = plan
        self._runtime: EventSourcedGrpcWorkerAgentRuntime | None = None
        self.state: State = "starting"
        self.health_address: str | None = None

    def look(self) -> WorkerHealth:
        assert self._runtime is not None
        return self._runtime.health()

    async def come_up(self, settings: Settings, stack: AsyncExitStack) -> None:
        """Connected, registered, and what was left in flight goes on.

        Args:
            stack: Of what ends with the worker; the last of it is that the worker is stopped.
        """
        register = _imported(self._plan.register)
        await self._serve_health(stack)
        log = await stack.enter_async_context(_log(settings))
        await log.start_writing()
        runtime = self._runtime = self._made(log)
        await runtime.start()
        stack.push_async_callback(runtime.stop)
        await self._register(register, runtime)
        await runtime.brought_up()
        self.state = "serving"

    async def _serve_health(self, stack: AsyncExitStack) -> None:
        from autogen_eventlog.distributed.health import HealthServer

        address = self._plan.health
        if address is None:
            return
        try:
            server = HealthServer(
                address, lambda: None if self._runtime is None else self._runtime.health(), lambda: self.state
            )
            self.health_address = (await stack.enter_async_context(server)).address
        except (OSError, ValueError) as error:
            raise _not_listening(address, error) from error

    def _made(self, log: EventLog) -> EventSourcedGrpcWorkerAgentRuntime:
        from autogen_eventlog.distributed import EventSourcedGrpcWorkerAgentRuntime
        from autogen_eventlog.runtime.handler import EventLogHandler

        plan = self._plan
        return EventSourcedGrpcWorkerAgentRuntime(
            plan.host,
            intervention_handlers=[EventLogHandler(log, durability=plan.durability)],
            patience=plan.patience,
            connect_timeout=plan.connect_timeout,
        )

    async def _register(self, register: Any, runtime: Any) -> None:
        try:
            registered = register(runtime)
            if inspect.isawaitable(registered):
                await registered
        except EventLogError:
            raise
        except Exception as error:  # the application's own code
            raise Refused(f"{self._plan.register} raised {type(error).__name__}: {error}") from error


def _imported(register: str) -> Any:
    try:
        return import_function(register)
    except ValueError as error:
        raise Refused(str(error)) from error


def _log(settings: Settings) -> Any:
    if settings.dsn is not None:
        check_dsn(settings.dsn)
    return EventLog.open(settings.dsn, data_dir=settings.data_dir, schema=settings.schema)


def _not_listening(address: str, error: Exception) -> Refused:
    number = getattr(error, "errno", None) or 0
    problem = os.strerror(number) if number > 0 else getattr(error, "strerror", None) or str(error)
    return Refused(f"{address} can't be listened on: {problem}")


def _say(output: Output, for_people: str, for_programs: dict[str, Any]) -> None:
    if output.for_programs:
        output.line(for_programs)
    else:
        output.text(printable(for_people))
