"""Where two runs went different ways: their events side by side, without what is different each time by nature.

A run is a conversation, or a stretch of one agent's stream. Ids, times and positions differ between any two; what is
compared is who did what: agent, kind of event, message type, recipient or topic, outcome, and the stored content.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from autogen_eventlog.events import EventType, RecordedEvent

Change = Literal["changed", "only_first", "only_second"]

_NOT_DOINGS = frozenset({EventType.AGENT_ACTIVATED, EventType.SCHEDULE_RECORDED, EventType.MESSAGE_SUBMITTED})
"""What says how a run was recorded, and not what happened in it. (That a message was submitted is only there if it waited.)"""

_LARGEST = 20_000
"""Events of each run that are compared; the time grows with the product where they differ much."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One step that the two runs do not share."""

    change: Change
    """`changed`: both did it, with another content or outcome; else only one of them did it."""
    first: RecordedEvent | None
    second: RecordedEvent | None


def compare(first: Sequence[RecordedEvent], second: Sequence[RecordedEvent]) -> list[Difference]:
    """The differences, in the order of the runs; empty: they did the same.

    Raises:
        ValueError: One of them has more events than can be compared.
    """
    ours, theirs = ([event for event in run if event.type not in _NOT_DOINGS] for run in (first, second))
    longest = max(len(ours), len(theirs))
    if longest > _LARGEST:
        raise ValueError(f"a run of {longest} events is too long to compare; at most {_LARGEST}")
    matcher = SequenceMatcher(
        None, [_step(event) for event in ours], [_step(event) for event in theirs], autojunk=False
    )
    found: list[Difference] = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            found += [
                Difference("changed", one, other)
                for one, other in zip(ours[a:b], theirs[c:d], strict=True)
                if _content(one) != _content(other)
            ]
        else:
            found += [Difference("only_first", one, None) for one in ours[a:b]]
            found += [Difference("only_second", None, other) for other in theirs[c:d]]
    return found


def _step(event: RecordedEvent) -> tuple[str | None, ...]:
    """What makes two events the same step. Keys of agents may differ: two sessions of one user's agents are two runs."""
    return (
        _type(event.stream),
        event.type.value,
        event.message_type,
        _type(event.sender),
        _type(event.recipient),
        _type(event.topic),
    )


def _content(event: RecordedEvent) -> tuple[bytes | None, str | None]:
    return event.payload, None if event.outcome is None else event.outcome.value


def _type(name: str | None) -> str | None:
    return None if name is None else name.partition("/")[0]
