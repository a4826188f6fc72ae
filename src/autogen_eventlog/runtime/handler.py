"""The switch: registering this intervention handler is how recording is turned on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from autogen_core import AgentId, DefaultInterventionHandler, DropMessage, InterventionHandler, MessageContext

from autogen_eventlog.codec import Encoded
from autogen_eventlog.effects import Ask, Decision, UnknownEffects
from autogen_eventlog.errors import NotEncodable, RecordingIncomplete
from autogen_eventlog.log import EventLog
from autogen_eventlog.runtime.submissions import Submissions
from autogen_eventlog.snapshots import SnapshotPolicy

logger = logging.getLogger(__name__)

Durability = Literal["output", "strict"]
ReplayIO = Literal["refuse", "allow"]


class EventLogHandler(DefaultInterventionHandler):
    """Records a runtime's messages in an event log.

    On `EventSourcedAgentRuntime` everything is recorded, and every agent can be restored. On AutoGen's own runtime an
    intervention handler sees no more than the messages that are submitted; they are recorded as such, and whatever needs
    more says so.

    Args:
        log: An open event log. Keep it open while the runtime runs.
        durability: When things must be committed. `"output"`: before a reply, a message or any other output leaves the
            agent (G2). `"strict"`: also before a handler starts to run.
        snapshots: When snapshots of agents are taken, of what kind, and how many are kept (docs/explanation/snapshots.md). By
            default: so that a recovery is estimated to take no more than a second. None: no snapshots.
        takeover: Take agents even from a worker that is alive. For people who know that it must be stopped.
        restore_timeout: Seconds that restoring an agent waits for its running deliveries.
        effects_unknown: What to do, when an agent is recovered, with a model, tool, … that was asked and whose answer the
            process did not live to record: `"retry"` asks again, `"fail"` gives the agent `EffectOutcomeUnknown`, `"ask"`
            lets `ask_unknown` decide. One for all, or by kind (`{"tool": "retry", "memory.add": "fail"}`). Default: models,
            memory queries, listings and states of the state service are asked again, tools, code executors and effects of
            one's own (`own`) fail (docs/explanation/effects.md).
        ask_unknown: An `async` function that is given an `UnknownEffect` and says `"retry"`, `"fail"` or `Answer(value)`,
            which is then recorded as the outcome. The agent waits for as long as it takes, for instance for a person.
        effects_own: Classes of tools, memories, … that are no more than state of the agents they hang on, as AutoGen's
            `ListMemory` is. They are not recorded: replay runs them again.
        replay_io: What becomes of a file that a handler's own code writes, a socket, a process, a thread, when the handler is
            replayed (docs/explanation/effects.md). `"refuse"`: it is not done, and the agent is not restored
            (`UnrecordedEffect`). `"allow"`: it is done again, in each replay and view. For what does no harm twice.
        resume: Whether a runtime, as it starts, takes up what processes that died left behind: handlers in the middle of
            their work go on, and messages that were accepted and not delivered are delivered, before any new one. False:
            a handler goes on when its agent is next needed, and messages wait for `redeliver`.

    Raises:
        TypeError: `log` is no open event log.
        ValueError: An argument is not one of those named here.
    """

    def __init__(
        self,
        log: EventLog,
        *,
        durability: Durability = "output",
        snapshots: SnapshotPolicy | None = SnapshotPolicy(),  # noqa: B008  (it is frozen)
        takeover: bool = False,
        restore_timeout: float = 30.0,
        effects_unknown: Decision | Mapping[str, Decision] | None = None,
        ask_unknown: Ask | None = None,
        effects_own: Sequence[type] = (),
        replay_io: ReplayIO = "refuse",
        resume: bool = True,
    ) -> None:
        if not isinstance(log, EventLog):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"log is a {type(log).__name__}: give what `async with EventLog.open(…) as log` gives")
        if replay_io not in ("refuse", "allow"):
            raise ValueError(f"replay_io is 'refuse' or 'allow', not {replay_io!r}")
        if durability not in ("output", "strict"):
            raise ValueError(f"durability is 'output' or 'strict', not {durability!r}")
        self.log = log
        self.durability: Durability = durability
        self.snapshots = snapshots
        self.takeover = takeover
        self.restore_timeout = restore_timeout
        self.effects_unknown = UnknownEffects(effects_unknown, ask_unknown)
        self.effects_own = tuple(effects_own)
        self.replay_io: ReplayIO = replay_io
        self.resume = resume
        self.submissions = Submissions(log)
        self._runtime: Any = None
        self._told = False

    def attached_to(self, runtime: Any) -> None:
        """Told by an event-sourced runtime that it records for this handler."""
        self._runtime = runtime

    def allow(self, message_type: type) -> None:
        """Allow stored data to become this class, if it can be data."""
        try:
            self.log.register_types(message_type)
        except TypeError:
            return  # a plain type, which needs no registration

    # -- the past -------------------------------------------------------------------------------------------------

    async def restore(self, agent: AgentId | str, **point: Any) -> Any:
        """`EventSourcedAgentRuntime.restore`, of the runtime this handler was given to.

        Raises:
            RecordingIncomplete: That runtime is AutoGen's own.
        """
        return await self._event_sourced("restore").restore(agent, **point)

    async def view(self, agent: AgentId | str, **point: Any) -> Any:
        """`EventSourcedAgentRuntime.view`, of the runtime this handler was given to.

        Raises:
            RecordingIncomplete: That runtime is AutoGen's own.
        """
        return await self._event_sourced("view").view(agent, **point)

    async def restore_all(self, **point: Any) -> Any:
        """`EventSourcedAgentRuntime.restore_all`, of the runtime this handler was given to.

        Raises:
            RecordingIncomplete: That runtime is AutoGen's own.
        """
        return await self._event_sourced("restore_all").restore_all(**point)

    def _event_sourced(self, operation: str) -> Any:
        if self._runtime is None:
            raise self.incomplete(operation, "AutoGen's own runtime")
        return self._runtime

    @staticmethod
    def incomplete(operation: str, runtime: str) -> RecordingIncomplete:
        """The error for what only an event-sourced runtime with a handler can do."""
        return RecordingIncomplete(
            operation,
            runtime,
            "it lets only submitted messages be seen. Use EventSourcedAgentRuntime(intervention_handlers="
            "[EventLogHandler(log)]) in its place",
        )

    # -- on AutoGen's own runtime ---------------------------------------------------------------------------------

    async def on_send(
        self, message: Any, *, message_context: MessageContext, recipient: AgentId
    ) -> Any | type[DropMessage]:
        await self._submitted(message, message_context, recipient=str(recipient))
        return message

    async def on_publish(self, message: Any, *, message_context: MessageContext) -> Any | type[DropMessage]:
        await self._submitted(message, message_context, topic=str(message_context.topic_id))
        return message

    async def _submitted(
        self, message: Any, context: MessageContext, *, recipient: str | None = None, topic: str | None = None
    ) -> None:
        if not self._told:
            self._told = True
            logger.warning(
                "on AutoGen's own runtime only what is sent is recorded, and no agent can be restored: use "
                "EventSourcedAgentRuntime, or EventSourcedGrpcWorkerAgentRuntime, in its place"
            )
        await self.submissions.open()
        _, ticket = self.submissions.submit(
            self._encode(message),
            sender=None if context.sender is None else str(context.sender),
            message_id=context.message_id,
            recipient=recipient,
            topic=topic,
        )
        await self.log.writer.room()
        if self.durability == "strict":
            await ticket
        else:
            await asyncio.sleep(0)

    def _encode(self, message: Any) -> Encoded:
        """A watcher must not keep messages from their agents: AutoGen drops a publication whose handler raises."""
        try:
            return self.log.codec.encode(message)
        except NotEncodable as refused:
            logger.warning("recorded without its content: %s", refused)
            name = f"{type(message).__module__}:{type(message).__qualname__}"
            return Encoded(name, self.log.codec.encode({"not_encodable": str(refused)}).data)


def split_handlers(handlers: Sequence[InterventionHandler]) -> tuple[EventLogHandler | None, list[InterventionHandler]]:
    """The recording handler, if any, and the others in their order.

    Raises:
        ValueError: More than one records.
    """
    recording = [handler for handler in handlers if isinstance(handler, EventLogHandler)]
    if len(recording) > 1:
        raise ValueError(f"{len(recording)} EventLogHandlers were given; a runtime records in one log")
    return (recording[0] if recording else None), [one for one in handlers if not isinstance(one, EventLogHandler)]


def warn_unrecorded() -> None:
    """Say that a runtime starts without a recording handler, which is easily forgotten."""
    logger.warning("there is no EventLogHandler among the intervention handlers: nothing is recorded")
