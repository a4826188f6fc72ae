"""Every error of the package: one base, structured fields, a message built from them.

A message says what, where, what was expected, what was found, the likely cause and what to do. The fields are
attributes of the error, so that programs need not parse the text.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime

_NAMED = 3
"""Fields that differ, at most, in the text of an error."""
_TROUBLESHOOTING = "docs/how-to/troubleshoot-divergence.md"


class EventLogError(Exception):
    """Base of all errors of this package."""


@dataclass(eq=False)
class _Fielded(EventLogError):
    """Gives a dataclass error its message as `str()` and survives pickling and `copy`."""

    def __post_init__(self) -> None:
        Exception.__init__(self, *(getattr(self, field.name) for field in fields(self)))

    def __str__(self) -> str:
        return self.message()

    def message(self) -> str:
        """The whole sentence a person reads."""
        raise NotImplementedError


# -- the server and the schema ------------------------------------------------------------------------------------


@dataclass(eq=False)
class EmbeddedPostgresError(_Fielded):
    """The embedded Postgres can't be installed, started or reached."""

    data_dir: str
    problem: str
    remedy: str

    def message(self) -> str:
        return f"embedded Postgres in {self.data_dir}: {self.problem}. {self.remedy}"


@dataclass(eq=False)
class DatabaseUnavailable(_Fielded):
    """No connection could be had within the bound. Nothing was recorded, so nothing was delivered."""

    server: str
    waited_seconds: float
    problem: str
    dsn_source: str | None = None
    """Of a log that could not be opened: where its dsn came from. None: the log was open."""

    def message(self) -> str:
        return (
            f"database {self.server} did not answer within {self.waited_seconds:g} s: {self.problem}. {self._remedy()}"
        )

    def _remedy(self) -> str:
        if self.dsn_source is None:
            return (
                "Nothing was lost: what was not recorded was not delivered. Check that the server runs and send again"
            )
        return (
            f"The log was not opened; its dsn is {self.dsn_source}. Check the dsn, and that the server runs and can be "
            "reached from here"
        )


@dataclass(eq=False)
class DatabaseRefused(DatabaseUnavailable):
    """The database answered, and let nobody in: a wrong password, an unknown database, a certificate that is not trusted."""

    def message(self) -> str:
        source = "" if self.dsn_source is None else f" ({self.dsn_source})"
        return (
            f"database {self.server} refused the connection: {self.problem}. Trying again does not mend this. Check user, "
            f"password, database and certificates of the dsn{source}, and who may connect at the server (pg_hba.conf)"
        )


@dataclass(eq=False)
class SchemaError(_Fielded):
    """The schema in the database can't be used or made by this version of the package and this role."""

    schema: str
    problem: str
    remedy: str

    def message(self) -> str:
        return f"schema {self.schema!r}: {self.problem}. {self.remedy}"


# -- appending ----------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class AppendRefused(_Fielded):
    """The log refused events of one stream. Base of the reasons below; nothing of the refused events is stored."""

    stream: str
    expected: int
    found: int

    def message(self) -> str:
        return f"stream {self.stream!r}: append refused, expected {self.expected}, found {self.found}"


@dataclass(eq=False)
class StreamFenced(AppendRefused):
    """Another owner has taken the stream: `expected` is our epoch, `found` the stream's (G6)."""

    def message(self) -> str:
        return (
            f"stream {self.stream!r}: epoch {self.expected} is stale, the stream is owned under epoch {self.found}; "
            "another worker took this agent over, and nothing of this one leaves any more"
        )


@dataclass(eq=False)
class VersionConflict(AppendRefused):
    """The stream is not at the version the append expected."""

    def message(self) -> str:
        difference = self.found - self.expected
        what = f"another writer appended {difference} events" if difference > 0 else "the stream is shorter"
        return f"stream {self.stream!r}: expected version {self.expected}, found {self.found}; {what}"


@dataclass(eq=False)
class AppendFailed(_Fielded):
    """The database can't store an append and never will: a limit or a defect, named by its SQLSTATE."""

    stream: str
    sqlstate: str
    problem: str

    def message(self) -> str:
        return (
            f"stream {self.stream!r}: the database refused the append (SQLSTATE {self.sqlstate or 'none'}): "
            f"{self.problem}. Nothing of it is stored, and nothing behind it"
        )


@dataclass(eq=False)
class StreamOwned(_Fielded):
    """A live worker owns the stream."""

    stream: str
    owner: str
    host: str
    process: int
    epoch: int
    heartbeat_at: datetime

    def message(self) -> str:
        return (
            f"stream {self.stream!r} is owned by worker {self.owner} (host {self.host}, process {self.process}, "
            f"epoch {self.epoch}, last heartbeat {self.heartbeat_at.isoformat()}). Stop that worker, or wait until "
            "its lease is over, or take over by force with takeover=True"
        )


@dataclass(eq=False)
class LogClosed(_Fielded):
    """The log was closed; nothing can be appended or read through it."""

    what: str

    def message(self) -> str:
        return f"{self.what}: the event log is closed. Keep `async with EventLog.open()` open while the runtime runs"


@dataclass(eq=False)
class EventTooLarge(_Fielded):
    """One event is larger than the writer's memory bound or than Postgres can store."""

    stream: str
    size_bytes: int
    limit_bytes: int

    def message(self) -> str:
        return (
            f"stream {self.stream!r}: an event of {self.size_bytes} bytes is over the limit of {self.limit_bytes}. "
            "Send a reference instead of the content, or raise the limit"
        )


# -- types --------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class NotEncodable(_Fielded):
    """A value can't be recorded exactly. Raised before delivery, so nothing has happened (G11)."""

    path: str
    type_name: str
    reason: str

    def message(self) -> str:
        return (
            f"{self.path}: a value of type {self.type_name} can't be recorded exactly: {self.reason}. The message was "
            "not delivered. Use a dataclass, a pydantic model, an enum, a protobuf or plain data for this field"
        )


@dataclass(eq=False)
class TypeNotAllowed(_Fielded):
    """A stored value names a type that is not on the allow-list; nothing was imported (G10)."""

    type_name: str
    path: str

    def message(self) -> str:
        remedy = "Register it with log.register_types(...), or read the event as an opaque payload"
        if self.type_name.startswith("__main__:"):
            remedy = (
                "The class was defined in the script that was run, and so is another one in every script. Define it in a "
                f"module, and say so there: autogen_eventlog.renamed({self.type_name!r}, the class)"
            )
        return (
            f"{self.path}: stored type {self.type_name!r} is not registered here, and stored names are never "
            f"imported. {remedy}"
        )


@dataclass(eq=False)
class PayloadCorrupt(_Fielded):
    """Stored bytes are not what the codec writes, or not what it would write for the class as it is now."""

    where: str
    problem: str
    remedy: str = "The row was altered or truncated"

    def message(self) -> str:
        return f"{self.where}: stored payload can't be decoded: {self.problem}. {self.remedy}"


@dataclass(eq=False)
class ShapeChanged(PayloadCorrupt):
    """Stored bytes are of a class that had other fields, or another version, than it has now, and no upcaster knows both."""

    remedy: str = "Add an upcaster (autogen_eventlog.upcaster), next to the class"


# -- replay, restore ----------------------------------------------------------------------------------------------


def way_back(version: int | None) -> str:
    """How to go on with an agent whose past can't be replayed to its end: the last sentence of such an error.

    Args:
        version: The last that can be; None: not known.
    """
    if version is None:
        return f"See {_TROUBLESHOOTING}"
    return f"To go on from before it: runtime.restore(agent, version={version}); see {_TROUBLESHOOTING}"


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One place in which what the code did is not what was recorded."""

    path: str
    """Where: `recipient`, `tick`, `message.items[2].price`; of a state, `self._notes[0]`."""
    recorded: str | None
    """The recorded value, as JSON text; of a state in words. None: there is none."""
    produced: str | None
    """What the code made of it, in the same form. None: nothing."""


@dataclass(frozen=True, slots=True)
class CodeComparison:
    """The code that recorded something, beside the code at hand."""

    version: int | None
    """Of the `AgentActivated` that names the code that recorded it. None: it is not known which."""
    recorded: str
    """A hash of that code: of the agent's class and of what it uses, where that was recorded, else of the class."""
    now: str
    """The same hash of the code at hand."""
    changed: bool
    """Whether they differ, or the class has another name."""


@dataclass(eq=False)
class Divergence(_Fielded):
    """The code does something else than the log says (G5). No state is returned."""

    stream: str
    version: int
    delivery: int | None
    recorded: str
    produced: str
    likely_cause: str
    other_code: bool = False
    """Whether other code, or another version of Python, recorded it."""
    differences: tuple[FieldDifference, ...] = ()
    """Field by field, where one event stands against another."""
    code: CodeComparison | None = None
    """Whether the code has changed since. None: the log does not say which code recorded it."""
    before: int | None = None
    """The version before the delivery, to which the agent can be restored. None: there is none, or it is not known."""

    def message(self) -> str:
        delivery = "" if self.delivery is None else f", delivery {self.delivery}"
        return (
            f"stream {self.stream!r}, version {self.version}{delivery}: recorded {self.recorded}, "
            f"the code produced {self.produced}{self._where()}. Likely cause: {self.likely_cause}. {way_back(self.before)}"
        )

    def _where(self) -> str:
        """The fields in a few words; nothing where the event as a whole is another."""
        paths = [difference.path for difference in self.differences]
        if not paths or paths[0] in ("type", "tick", "event"):
            return ""
        more = "" if len(paths) <= _NAMED else f" and {len(paths) - _NAMED} more"
        return f" (they differ in {', '.join(paths[:_NAMED])}{more})"


@dataclass(eq=False)
class NotRestorable(_Fielded):
    """A stream can't be restored to the asked point, and why."""

    stream: str
    point: str
    problem: str
    remedy: str

    def message(self) -> str:
        return f"stream {self.stream!r} can't be restored to {self.point}: {self.problem}. {self.remedy}"


@dataclass(eq=False)
class EventsMissing(NotRestorable):
    """The log does not hold events any more that replay needs: retention removed them, or rows are gone."""

    first: int = 0
    """The first version that is missing."""
    last: int = 0

    @classmethod
    def gone(cls, stream: str, first: int, last: int, version: int) -> EventsMissing:
        """Versions of a stream are gone that are needed to come to another."""
        return cls(
            stream,
            f"version {version}",
            f"the log does not hold its versions {first} to {last} any more: they are before retention, or were deleted",
            f"Restore to a version from {last + 1} on that a snapshot or what is kept leads to, or read the archive that "
            "`eventlog retention` names",
            first,
            last,
        )


@dataclass(eq=False)
class RetentionRefused(_Fielded):
    """A month of events was not removed."""

    partition: str
    problem: str
    remedy: str

    def message(self) -> str:
        return f"partition {self.partition!r} was not removed: {self.problem}. {self.remedy}"


@dataclass(eq=False)
class UnrecordedEffect(NotRestorable):
    """Replayed, the agent's own code reached for a file, a socket, a process, …, which no log answers. It was not done (G4)."""

    delivery: int | None = None
    """The delivery whose code did it (None: the making of the instance, or what a handler had left behind)."""
    kind: str = ""
    """What it reached for: `files`, `the network`, `processes` …"""
    call: str = ""
    """The call, with its path, host or command."""
    place: str = ""
    """Where the agent's code makes it: `path:line in function`."""
    before: int | None = None
    """The version before the delivery, to which the agent can be restored. None: there is none, or it is not known."""

    def message(self) -> str:
        return f"{super().message()}. {way_back(self.before)}"


@dataclass(eq=False)
class InvalidHistory(_Fielded):
    """A history file is not what was exported: truncated, edited, reordered, or of a format that is not known here."""

    path: str
    line: int
    """1-based; 0: the file as a whole."""
    problem: str
    remedy: str = "Export it again (eventlog export --history), or take the file as it was committed"

    def message(self) -> str:
        where = self.path if self.line == 0 else f"{self.path}, line {self.line}"
        return f"history {where}: {self.problem}. {self.remedy}"


@dataclass(eq=False)
class InvalidRenaming(_Fielded):
    """A session can't be imported under the names that were given. Nothing was appended."""

    old: str
    new: str
    problem: str

    def message(self) -> str:
        return (
            f"rename {self.old!r} to {self.new!r}: {self.problem}. Give the key or the id (type/key) of an agent of the "
            "session, and a new one of the same kind. Nothing was imported"
        )


@dataclass(eq=False)
class AlreadyLives(_Fielded):
    """A session can't be imported: an agent of that id has another past in this log. Nothing was appended."""

    agent: str
    source: str
    version: int
    """Of the first event that is not the one that the import would put there."""

    def message(self) -> str:
        return (
            f"agent {self.source!r} can't be imported as {self.agent!r}: that agent has a past of its own here, from version "
            f"{self.version} on. Import the session under other keys (--key-prefix, --rename), with the same ones as before if "
            "this is to complete an import. Nothing was imported"
        )


@dataclass(eq=False)
class LogReadOnly(_Fielded):
    """The log was opened to look at, and something would have written into it. Nothing was written."""

    what: str

    def message(self) -> str:
        return (
            f"{self.what}: the log was opened for reading only, and nothing was written. The function that registers the "
            "agents must do no more than that: no messages, no states, nothing published"
        )


@dataclass(eq=False)
class UnknownStream(_Fielded):
    """The log holds no event of this agent (at the asked point)."""

    stream: str
    point: str

    def message(self) -> str:
        when = "" if self.point == "now" else f" at {self.point}"
        return f"stream {self.stream!r}: the log holds no event of this agent{when}; nothing was created"


@dataclass(eq=False)
class UnknownAgent(_Fielded, LookupError):
    """The runtime has no such agent type, or no such instance where instances were registered."""

    agent: str
    agent_type: str

    def message(self) -> str:
        return f"agent {self.agent!r}: Agent with name {self.agent_type} not found. Register its type on this runtime first"


@dataclass(eq=False)
class InvalidPoint(_Fielded):
    """A point in time, version or position that makes no sense."""

    point: str
    problem: str
    remedy: str

    def message(self) -> str:
        return f"point {self.point}: {self.problem}. {self.remedy}"


@dataclass(eq=False)
class AgentBusy(_Fielded):
    """Running deliveries did not end within the bound, so the agent was not restored; nothing has changed."""

    stream: str
    running: int
    waited_seconds: float

    def message(self) -> str:
        return (
            f"stream {self.stream!r}: {self.running} deliveries still run after {self.waited_seconds:g} s; the agent "
            "was not touched. Wait for them, or give a larger timeout"
        )


@dataclass(eq=False)
class UnknownMessage(_Fielded, LookupError):
    """The log holds no message of this id for this agent: it was never accepted."""

    message_id: str
    recipient: str

    def message(self) -> str:
        return (
            f"the log holds no message {self.message_id!r} for {self.recipient}: it was never accepted, so sending it (again) "
            "does not do it twice"
        )


@dataclass(eq=False)
class MessageAbandoned(_Fielded, LookupError):
    """The message was handled, and a restore has left that behind: the agent of today knows nothing of it."""

    message_id: str
    recipient: str
    version: int
    """Of its MessageDelivered, on the branch that was left."""

    def message(self) -> str:
        return (
            f"message {self.message_id!r} was handled by {self.recipient} at version {self.version}, and a restore has left "
            "that branch: the agent of today knows nothing of it. `eventlog show` tells how it ended; sending it again does it "
            "again"
        )


@dataclass(eq=False)
class RecordingIncomplete(_Fielded):
    """This runtime lets only a part be recorded, so the asked operation can't be done on it (G11)."""

    operation: str
    runtime: str
    remedy: str

    def message(self) -> str:
        return f"{self.operation} is not possible on {self.runtime}: {self.remedy}"


@dataclass(eq=False)
class UnsupportedEventLoop(_Fielded):
    """The running loop hides its callbacks from Python, so a schedule can't be recorded on it."""

    loop: str

    def message(self) -> str:
        return (
            f"the running event loop is {self.loop}, whose callbacks can't be counted, so replay could not be exact. "
            "Run the program on asyncio's own loop (asyncio.run without a loop factory or policy)"
        )


@dataclass(eq=False)
class UnsupportedAutoGen(_Fielded):
    """The installed autogen-core is outside the tested range."""

    found: str
    supported: str

    def message(self) -> str:
        return f"autogen-core {self.found} is installed; this version of autogen-eventlog supports {self.supported}"


@dataclass(eq=False)
class InvalidState(_Fielded):
    """A mapping given to load_state is not a state that can be loaded. Nothing was changed."""

    agent: str
    problem: str
    remedy: str

    def message(self) -> str:
        return f"agent {self.agent!r}: the given state can't be loaded: {self.problem}. {self.remedy}"


@dataclass(eq=False)
class MessageTypesMissing(InvalidState):
    """A state to be loaded holds messages whose classes are not known here. Nothing was changed."""

    types: tuple[str, ...] = ()
    """Their names, as the state has them."""


@dataclass(eq=False)
class NoOwnState(_Fielded):
    """A state in AutoGen's form was asked of an agent whose class keeps none: it has no `save_state` of its own."""

    agent: str
    agent_class: str

    def message(self) -> str:
        return (
            f"agent {self.agent!r}: its class {self.agent_class} has no save_state of its own, so AutoGen knows no state "
            "of it. `eventlog export` with --out or --history writes what it lived through, and the log restores it"
        )


@dataclass(eq=False)
class EffectOutcomeUnknown(_Fielded):
    """A tool, model, … was asked, and the process ended before its answer was recorded. It was not asked again (G4)."""

    stream: str
    kind: str
    request: str
    remedy: str

    def message(self) -> str:
        return (
            f"stream {self.stream!r}: the outcome of {self.kind} is unknown: it was requested ({self.request}), and the "
            f"process ended before the answer was recorded. It may have been done, and was not done again. {self.remedy}"
        )


@dataclass(eq=False)
class RecordedFailure(_Fielded):
    """An exception of a class that can't be rebuilt from data, with its type and text as recorded."""

    error_type: str
    text: str

    def message(self) -> str:
        return self.text or self.error_type


@dataclass(eq=False)
class MessageNotDelivered(_Fielded):
    """The runtime was stopped before a message reached its agent. The log holds it."""

    recipient: str

    def message(self) -> str:
        return (
            f"the runtime was stopped before a message reached {self.recipient}. It is in the log (log.audit.undelivered): "
            "deliver it with redeliver() once the runtime is started again, or send it again"
        )


@dataclass(eq=False)
class InstanceEnded(_Fielded):
    """An instance that is no longer the agent (stopped, replaced, viewed, fenced) tried to act."""

    stream: str

    def message(self) -> str:
        return (
            f"stream {self.stream!r}: this instance is no longer the agent (it was stopped, replaced, or is a view of "
            "the past), so nothing of it is recorded and nothing leaves. Ask the runtime for the agent by its id"
        )


# -- distributed workers ------------------------------------------------------------------------------------------


@dataclass(eq=False)
class HostUnavailable(_Fielded):
    """AutoGen's host could not be reached within the bound."""

    address: str
    waited_seconds: float
    problem: str

    def message(self) -> str:
        return (
            f"host {self.address} was not reached within {self.waited_seconds:g} s: {self.problem}. "
            "Check the address and that the host runs"
        )


@dataclass(eq=False)
class AgentTypeTaken(_Fielded):
    """Another worker holds an agent type at the host, and did not give it up within the bound."""

    agent_type: str
    waited_seconds: float
    problem: str

    def message(self) -> str:
        return (
            f"agent type {self.agent_type!r} was not registered: the host kept refusing for {self.waited_seconds:g} s: "
            f"{self.problem}. A host lets one worker have a type: stop the other one, or give this one another type"
        )


@dataclass(eq=False)
class MessageTooLarge(_Fielded):
    """A message is larger than the connection takes. It was not sent; everything else goes on."""

    what: str
    size: int
    limit: int

    def message(self) -> str:
        return (
            f"{self.what}: {self.size} bytes are more than the {self.limit} that the connection takes. Raise "
            "grpc.max_send_message_length and grpc.max_receive_message_length in extra_grpc_config of the workers and the host"
        )


@dataclass(eq=False)
class Undeliverable(_Fielded):
    """A message reached no agent within the bound, or the worker of the agent died and no other took its place."""

    recipient: str
    waited_seconds: float
    problem: str

    def message(self) -> str:
        return (
            f"no answer from {self.recipient} within {self.waited_seconds:g} s: {self.problem}. "
            "Start a worker that registers its type and send again"
        )


@dataclass(eq=False)
class WorkerUnreachable(_Fielded):
    """The worker that has an agent did not answer a question about it, or there is none that could."""

    agent: str
    waited_seconds: float
    problem: str

    def message(self) -> str:
        return (
            f"agent {self.agent}: no answer in {self.waited_seconds:.1f} s: {self.problem}. Nothing has changed as far as "
            "is known here. Start a worker that registers its type, or ask again when its worker answers"
        )


# -- captured states ----------------------------------------------------------------------------------------------


@dataclass(eq=False)
class NotCapturable(_Fielded):
    """An agent holds what is neither data nor wiring, so its state can't be captured. The agent is as it was (G11)."""

    agent_class: str
    places: tuple[tuple[str, str, str, str], ...]
    """Of each such object: its path, its class, why it is refused, and what to do. The first hundred."""

    def message(self) -> str:
        told = "; ".join(f"{path} ({found}): {reason}. {remedy}" for path, found, reason, remedy in self.places[:5])
        more = f"; and {len(self.places) - 5} more" if len(self.places) > 5 else ""
        return f"the state of an agent of class {self.agent_class!r} can't be captured: {told}{more}"


@dataclass(eq=False)
class NotLoadable(_Fielded):
    """A captured state does not fit the instance that it was to be loaded into, which is as it was."""

    agent_class: str
    path: str
    expected: str
    found: str
    remedy: str

    def message(self) -> str:
        return (
            f"a state can't be loaded into an agent of class {self.agent_class!r}: at {self.path} expected "
            f"{self.expected}, found {self.found}. {self.remedy}"
        )
