"""Effects in a history that is followed by order: one at a time settles it, two at once do not (G5)."""

from __future__ import annotations

from typing import Any

import pytest

from autogen_eventlog.events import EventType, Outcome, RecordedEvent
from autogen_eventlog.replay.journal import MORE
from autogen_eventlog.replay.machine import Machine, Mismatch, Production

from .test_machine import activated, delivered, event, machine

ASKED = Production(EventType.EFFECT_REQUESTED, payload=b"{}", delivery=2)


def requested(version: int, tick: int) -> RecordedEvent:
    return event(version, EventType.EFFECT_REQUESTED, tick, delivery=2, payload=b"{}")


def answered(version: int, tick: int, **metadata: Any) -> RecordedEvent:
    return event(
        version, EventType.EFFECT_RECORDED, tick, delivery=2, payload=b"1", outcome=Outcome.REPLIED, metadata=metadata
    )


def following(*events: RecordedEvent) -> Machine:
    return machine(activated(1, 0), delivered(2, 0), *events, by_order=lambda _: True)


def test_effects_that_follow_each_other_are_followed_by_order() -> None:
    made = following(requested(3, 4), answered(4, 5, **{MORE: True}), answered(5, 6), requested(6, 9), answered(7, 10))
    made.due(idle=True)
    assert made.produce(ASKED).version == 3
    assert made.due(idle=True) is not None
    assert made.due(idle=True) is not None
    assert made.produce(ASKED).version == 6
    assert made.due(idle=True) is not None
    assert made.exhausted


def test_an_effect_while_a_stream_has_more_to_give_is_not() -> None:
    made = following(requested(3, 4), answered(4, 5, **{MORE: True}), requested(5, 9))
    made.due(idle=True)
    made.produce(ASKED)
    made.due(idle=True)
    with pytest.raises(Mismatch, match="overlap"):
        made.produce(ASKED)
