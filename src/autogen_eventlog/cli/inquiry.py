"""What each command asks of the log, and how it shows the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from typing import Any, Literal
from uuid import UUID

import typer

from autogen_eventlog.audit import EffectRecord, MessageRecord
from autogen_eventlog.audit.records import unanswered_record
from autogen_eventlog.cli import forms, tables
from autogen_eventlog.cli.effects import show_effect, show_effects
from autogen_eventlog.cli.group import Refused
from autogen_eventlog.cli.opening import UNAVAILABLE_AFTER, ReadLog, check_dsn, looking, reading
from autogen_eventlog.cli.output import Output, printable
from autogen_eventlog.cli.restoring import attribute, load_register, view, viewed_form
from autogen_eventlog.cli.settings import Settings
from autogen_eventlog.cli.times import optional_time
from autogen_eventlog.codec import Codec
from autogen_eventlog.events import RecordedEvent
from autogen_eventlog.ids import FIRST_AGENT
from autogen_eventlog.lineage import Lineage, lineage
from autogen_eventlog.log import EventLog
from autogen_eventlog.points import point
from autogen_eventlog.postgres.records import MessageFilter, StreamHead

_BEGINNING = datetime.min.replace(tzinfo=timezone.utc)
_END = datetime.max.replace(tzinfo=timezone.utc)
_KINDS_OF = 1000
"""Effects whose kinds are told where there are none of the asked kind."""


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time, either end open."""

    since: datetime | None
    until: datetime | None

    @classmethod
    def of(cls, since: str | None, until: str | None) -> Span:
        return cls(optional_time(since), optional_time(until))


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQuestion:
    """The filters of `messages`."""

    agent: str | None
    agent_type: str | None
    type: str | None
    sender: str | None
    topic: str | None
    message_id: str | None
    span: Span
    outcome: str | None
    correlation: UUID | None
    cause: UUID | None
    branch: Literal["all", "current"]
    newest_first: bool
    after: int | None
    limit: int

    def arguments(self) -> dict[str, Any]:
        """As `Audit.messages` takes them."""
        given = asdict(self)
        del given["span"]
        return given | {"since": self.span.since, "until": self.span.until}


async def init(settings: Settings) -> None:
    """Make or migrate the log."""
    if settings.dsn is not None:
        check_dsn(settings.dsn)
    output = Output(settings)
    async with _opened(settings) as log:
        server = check_dsn(log.dsn)
        if output.for_programs:
            output.line({"server": server, "schema": log.schema, "ready": True})
        else:
            output.text(printable(f"The event log in {server}, schema {log.schema}, is ready."))


async def agents(settings: Settings, type: str | None, after: str | None, limit: int, *, runtimes: bool) -> None:
    """A page of heads."""
    output = Output(settings)
    first = after if runtimes or type is not None else max(after or "", FIRST_AGENT)
    async with reading(settings) as log:
        heads = await log.reader.heads(type=type, after=first, limit=limit)
    if output.for_programs:
        for head in heads:
            output.line(forms.head_form(head))
        return
    tables.show_agents(output, heads)
    if len(heads) == limit:
        output.hint(f"There may be more: --after {heads[-1].stream}")


async def messages(settings: Settings, question: MessageQuestion, *, full: bool) -> None:
    """A page of messages."""
    output = Output(settings)
    async with reading(settings) as log:
        if output.for_programs:
            await _export(output, log, question)
            return
        records = await log.audit.messages(**question.arguments())
        await _tell_of_nothing(output, log, records, question.agent)
    _messages(output, records, question.limit, full=full)


async def in_flight(settings: Settings, agent: str | None, after: int | None, limit: int, *, full: bool) -> None:
    """A page of deliveries without an end."""
    output = Output(settings)
    async with reading(settings) as log:
        records = await log.audit.in_flight(agent, after=after, limit=limit)
        await _tell_of_nothing(output, log, records, agent)
    _messages(output, records, limit, full=full)


async def undelivered(
    settings: Settings,
    recipient: str | None,
    sender: str | None,
    topic: str | None,
    span: Span,
    after: int | None,
    limit: int,
    *,
    full: bool,
) -> None:
    """A page of messages that reached nobody."""
    output = Output(settings)
    async with reading(settings) as log:
        events = await log.audit.undelivered(
            recipient=recipient,
            sender=sender,
            topic=topic,
            since=span.since,
            until=span.until,
            after=after,
            limit=limit,
        )
        await _tell_of_nothing(output, log, events)
    if output.for_programs:
        for event in events:
            output.line(forms.event_form(event))
    elif full:
        for event in events:
            tables.show_event(output, event)
    else:
        tables.show_undelivered(output, events)
    if len(events) == limit:
        output.hint(f"There may be more: --after {events[-1].position}")


async def _tell_of_nothing(output: Output, log: ReadLog, found: Sequence[object], agent: str | None = None) -> None:
    """An empty table looks the same for a mistyped name as for one of whom there is nothing."""
    if found:
        return
    known = agent is None or await _head(log, agent) is not None
    output.hint("Nothing matches." if known else f"{await _unknown(log, str(agent))}.")


async def _head(log: ReadLog, agent: str) -> StreamHead | None:
    """Where an agent stands that has events."""
    head = await log.reader.head(agent)
    return None if head is None or head.version == 0 else head


async def _unknown(log: ReadLog, agent: str) -> str:
    """What helps who asked for an agent that there is not: most often its key was left out."""
    if "/" in agent:
        return f"The log knows no agent {agent}: `eventlog agents` lists those it knows"
    heads = await log.reader.heads(type=agent, after=None, limit=3)
    names = ", ".join(head.stream for head in heads)
    return f"{agent} is no agent: agents are TYPE/KEY, " + (f"such as {names}" if names else f"such as {agent}/default")


async def differences(settings: Settings, first: UUID, second: UUID) -> None:
    """Where two conversations went different ways; exit code 1 if they did."""
    output = Output(settings)
    async with reading(settings) as log:
        found = await log.audit.differences(first, second)
    if output.for_programs:
        for difference in found:
            output.line(forms.difference_form(difference))
    elif found:
        tables.show_differences(output, found)
    else:
        output.hint("The same happened in both.")
    if found:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectQuestion:
    """The filters of `effects`."""

    agent: str | None
    kind: str | None
    span: Span
    after: int | None
    limit: int

    def arguments(self) -> dict[str, Any]:
        """As `Audit.recorded_effects` and `unanswered_effects` take them."""
        given = asdict(self)
        del given["span"]
        return given | {"since": self.span.since, "until": self.span.until}


async def effects(settings: Settings, question: EffectQuestion, *, unanswered: bool, full: bool) -> None:
    """A page of results from outside, or of requests without one."""
    output = Output(settings)
    async with reading(settings) as log:
        records = await _unanswered(log, question) if unanswered else await _answered(log, question)
        if not records:
            await _tell_of_no_effects(output, log, question)
    if output.for_programs:
        for record in records:
            output.line(forms.effect_form(record))
    elif full:
        for record in records:
            show_effect(output, record)
    else:
        show_effects(output, records)
    if len(records) == question.limit:
        output.hint(f"There may be more: --after {records[-1].position}")


async def _answered(log: ReadLog, question: EffectQuestion) -> list[EffectRecord]:
    return await log.audit.recorded_effects(**question.arguments())


async def _unanswered(log: ReadLog, question: EffectQuestion) -> list[EffectRecord]:
    events = await log.audit.unanswered_effects(**question.arguments())
    return [unanswered_record(event, Codec()) for event in events]


async def _tell_of_no_effects(output: Output, log: ReadLog, question: EffectQuestion) -> None:
    """A kind is easily mistyped: those of a page without that filter are at hand."""
    found = await _answered(log, replace(question, kind=None, limit=_KINDS_OF)) if question.kind else []
    kinds = ", ".join(sorted({record.kind for record in found}))
    if kinds:
        output.hint(f"Nothing of kind {question.kind} matches. Of these kinds there is something: {kinds}")
    else:
        await _tell_of_nothing(output, log, found, question.agent)


async def show(
    settings: Settings,
    agent: str,
    version: int | None,
    current: bool,
    *,
    before: int | None,
    limit: int,
    full: bool,
) -> None:
    """The last events of a stream."""
    async with reading(settings) as log:
        until = version if version is not None else (None if before is None else before - 1)
        head = await _head(log, agent)
        if head is None:
            raise Refused(await _unknown(log, agent))
        if version is not None:
            await point(version=version).version_in(log.reader, agent)
        past = await lineage(log.reader, agent, head.version)
        events = await _last(log, agent, until, 1 if version is not None else limit, past if current else None)
    output = Output(settings)
    _events(output, events, past, full=full or version is not None)
    if version is None and events and events[0].version > 1:
        output.hint(f"There is more before: --before {events[0].version}")


async def tail(settings: Settings, after: int | None, limit: int, *, follow: bool) -> None:
    """The last events of the log, then those to come."""
    output = Output(settings)
    async with reading(settings) as log:
        first = await _before_last(log, limit) if after is None else after
        async for event in log.reader.tail(after_position=first, follow=follow):
            if output.for_programs:
                output.line(forms.event_form(event))
            else:
                output.text(printable(tables.event_line(event)))


async def workers(settings: Settings, *, alive: bool) -> None:
    """Who writes and wrote, and owns what."""
    output = Output(settings)
    async with reading(settings) as log:
        found = [one for one in await log.audit.holdings() if one.worker.alive or not alive]
    if output.for_programs:
        for holding in found:
            output.line(forms.holding_form(holding))
    else:
        tables.show_workers(output, found)


async def stats(settings: Settings, span: Span, by: Literal["agent", "type"]) -> None:
    """The log as a whole, or a span of it."""
    output = Output(settings)
    async with reading(settings) as log:
        if span.since is None and span.until is None:
            statistics = await log.audit.statistics()
            if output.for_programs:
                output.line(forms.statistics_form(statistics))
            else:
                tables.show_statistics(output, statistics)
            return
        rows = await log.audit.activity(span.since or _BEGINNING, span.until or _END, by=by)
    if output.for_programs:
        for row in rows:
            output.line(forms.activity_form(row))
    else:
        tables.show_activity(output, by, rows)


async def restore(
    settings: Settings, agent: str, at: str | None, version: int | None, position: int | None, app: str | None
) -> None:
    """The state as of a point; without the code, the events up to it."""
    where = point(at=optional_time(at), version=version, position=position)
    output = Output(settings)
    if app is None:
        async with reading(settings) as log:
            if "/" not in agent:
                raise Refused(await _unknown(log, agent))
            found = await where.version_in(log.reader, agent)
            past = await lineage(log.reader, agent, found)
            events = await _last(log, agent, found, 20, past)
        _events(output, events, past, full=False)
        output.hint(f"These are the last events of {agent!r} up to {where} (version {found}).")
        output.hint("Its state needs the agent's code: name the function that registers it, --app MODULE:FUNCTION.")
        return
    register = load_register(app)
    async with looking(settings) as log:
        viewed = await view(log, agent, register, at=where.at, version=where.version, position=where.position)
    if output.for_programs:
        output.line(viewed_form(viewed))
        return
    title = f"{viewed.agent} as of version {viewed.version} ({viewed.agent_class})"
    output.block(title, [(name, attribute(value)) for name, value in viewed.attributes.items()])


# -- inside -------------------------------------------------------------------------------------------------------


def _opened(settings: Settings) -> Any:
    return EventLog.open(
        settings.dsn, data_dir=settings.data_dir, schema=settings.schema, unavailable_after=UNAVAILABLE_AFTER
    )


async def _export(output: Output, log: ReadLog, question: MessageQuestion) -> None:
    """As many as were asked for, page by page, whatever their number."""
    arguments = question.arguments()
    left = arguments.pop("limit")
    async for record in log.audit.iterate(**arguments, page=min(left, 500)):
        output.line(forms.message_form(record))
        left -= 1
        if left == 0:
            return


def _messages(output: Output, records: Sequence[MessageRecord], limit: int, *, full: bool) -> None:
    if output.for_programs:
        for record in records:
            output.line(forms.message_form(record))
    elif full:
        for record in records:
            tables.show_message(output, record)
    else:
        tables.show_messages(output, records)
    if len(records) == limit:
        output.hint(f"There may be more: --after {records[-1].position}")


def _events(output: Output, events: Sequence[RecordedEvent], past: Lineage, *, full: bool) -> None:
    left = {event.version for event in events if not past.holds(event.stream, event.version)}
    if output.for_programs:
        for event in events:
            output.line(forms.event_form(event) | {"abandoned": event.version in left})
    elif full:
        for event in events:
            tables.show_event(output, event, left=event.version in left)
    else:
        tables.show_events(output, events, left=left)


async def _last(log: ReadLog, agent: str, until: int | None, limit: int, past: Lineage | None) -> list[RecordedEvent]:
    """The last events up to a version, in order; of one past only, if given."""
    found: list[RecordedEvent] = []
    async for event in log.reader.read(agent, until_version=until, backwards=True, batch=min(limit, 1000)):
        if past is None or past.holds(event.stream, event.version):
            found.append(event)
            if len(found) == limit:
                break
    return found[::-1]


async def _before_last(log: ReadLog, limit: int) -> int:
    """The position behind which the last `limit` events stand."""
    page = await log.reader.messages(MessageFilter(limit=max(limit, 1)))
    if not page:
        return 0
    return page[-1].position - 1 if limit else page[-1].position
