"""The rules of replay as rules, without an event loop."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any
from uuid import UUID

import pytest

from autogen_eventlog.events import EventType, Outcome, RecordedEvent
from autogen_eventlog.replay.journal import Happened, TimerFired
from autogen_eventlog.replay.machine import Machine, Mismatch, Production

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def event(version: int, kind: EventType, tick: int, *observations: list[Any], **fields: Any) -> RecordedEvent:
    metadata: dict[str, Any] = {"tick": tick, **fields.pop("metadata", {})}
    if observations:
        metadata["observations"] = list(observations)
    return RecordedEvent(
        id=UUID(int=version),
        type=kind,
        occurred_at=NOW,
        stream="a/b",
        version=version,
        position=version,
        epoch=1,
        recorded_at=NOW,
        metadata=metadata,
        **fields,
    )


def delivered(version: int, tick: int, *observations: list[Any]) -> RecordedEvent:
    return event(version, EventType.MESSAGE_DELIVERED, tick, *observations, delivery=version, payload=b"1")


def completed(version: int, tick: int, delivery: int, *observations: list[Any]) -> RecordedEvent:
    return event(
        version,
        EventType.DELIVERY_COMPLETED,
        tick,
        *observations,
        delivery=delivery,
        payload=b"2",
        outcome=Outcome.REPLIED,
    )


def completion(delivery: int, payload: bytes = b"2") -> Production:
    return Production(EventType.DELIVERY_COMPLETED, payload=payload, outcome=Outcome.REPLIED, delivery=delivery)


def machine(*events: RecordedEvent, **settings: Any) -> Machine:
    made = Machine(**settings)
    for one in events:
        made.feed(one)
    made.finish()
    return made


def test_an_input_is_due_at_its_tick_and_not_before() -> None:
    following = machine(delivered(1, 2))
    assert following.due(idle=True) is None
    following.tick = 2
    due = following.due(idle=False)
    assert isinstance(due, Happened)
    assert due.event.version == 1
    assert following.exhausted


def test_an_input_whose_tick_is_over_is_a_mismatch_at_its_version() -> None:
    following = machine(delivered(1, 2))
    following.tick = 3
    with pytest.raises(Mismatch) as raised:
        following.due(idle=True)
    assert raised.value.version == 1
    assert "1 callbacks more" in raised.value.produced


def test_an_output_must_come_at_its_tick_with_its_content() -> None:
    following = machine(completed(1, 4, 1))
    following.tick = 4
    assert following.produce(completion(1)).version == 1
    for tick, made in ((3, completion(1)), (4, completion(1, b"3")), (4, completion(2))):
        other = machine(completed(1, 4, 1))
        other.tick = tick
        with pytest.raises(Mismatch) as raised:
            other.produce(made)
        assert raised.value.version == 1


def test_timers_and_readings_come_before_the_event_that_carries_them() -> None:
    following = machine(delivered(1, 5, ["t", 0, 3], ["r", ["loop.time", 1.5], 4]))
    following.tick = 3
    assert following.due(idle=True) == TimerFired(0, 3)
    following.tick = 4
    assert following.due(idle=True) is None
    assert following.read("loop.time") == 1.5
    following.tick = 5
    assert isinstance(following.due(idle=True), Happened)


@pytest.mark.parametrize(("kind", "tick"), [("uuid.uuid4", 4), ("loop.time", 5)])
def test_a_reading_of_another_kind_or_tick_is_a_mismatch(kind: str, tick: int) -> None:
    following = machine(delivered(1, 5, ["r", ["loop.time", 1.5], 4]))
    following.tick = tick
    with pytest.raises(Mismatch):
        following.read(kind)


def test_a_foreign_wake_up_is_never_followed() -> None:
    following = machine(delivered(1, 5, ["f", "task in Agent.read_socket", 2]))
    with pytest.raises(Mismatch) as raised:
        following.due(idle=True)
    assert raised.value.foreign
    assert "read_socket" in raised.value.recorded


def test_notes_are_passed_without_the_code_knowing() -> None:
    following = machine(event(1, EventType.AGENT_ACTIVATED, 0), delivered(2, 0))
    due = following.due(idle=True)
    assert isinstance(due, Happened)
    assert due.event.version == 2


def test_the_machine_is_hungry_until_everything_of_the_next_tick_is_there() -> None:
    following = Machine()
    assert following.hungry
    following.feed(delivered(1, 0))
    assert following.hungry
    following.feed(delivered(2, 2))
    assert not following.hungry
    following.finish()
    following.tick = 7
    assert not following.hungry


def test_code_that_waits_where_the_journal_goes_on_is_stuck_with_the_next_version() -> None:
    assert machine(completed(3, 4, 1)).stuck().version == 3


def activated(version: int, tick: int) -> RecordedEvent:
    return event(version, EventType.AGENT_ACTIVATED, tick, metadata={"producer": {"python": "3.9.1"}})


def test_what_other_code_recorded_is_followed_by_order_when_nothing_overlaps() -> None:
    following = machine(activated(1, 0), delivered(2, 0), completed(3, 9, 2), delivered(4, 9), by_order=lambda _: True)
    assert isinstance(following.due(idle=True), Happened)
    following.tick = 1
    assert following.due(idle=True) is None
    assert following.produce(completion(2)).version == 3
    assert following.due(idle=False) is None
    assert isinstance(following.due(idle=True), Happened)
    assert following.followed_by_order
    assert following.tick == 9


def test_overlapping_deliveries_are_not_followed_by_order() -> None:
    following = machine(activated(1, 0), delivered(2, 0), delivered(3, 0), by_order=lambda _: True)
    following.due(idle=True)
    with pytest.raises(Mismatch, match="overlap"):
        following.due(idle=True)


def test_events_of_the_code_at_hand_are_followed_by_tick_again() -> None:
    own = event(4, EventType.AGENT_ACTIVATED, 9, metadata={"producer": {"python": "now"}})
    following = machine(
        activated(1, 0),
        delivered(2, 0),
        completed(3, 9, 2),
        own,
        delivered(5, 10),
        by_order=lambda producer: producer["python"] != "now",
    )
    following.due(idle=True)
    following.produce(completion(2))
    assert following.due(idle=True) is None
    following.tick = 10
    assert isinstance(following.due(idle=False), Happened)


# -- going past what differs --------------------------------------------------------------------------------------


def paths(mismatch: Mismatch) -> list[str]:
    return [one.path for one in mismatch.differences]


def test_where_only_the_content_differs_the_code_goes_on_with_what_was_recorded() -> None:
    noted: list[Mismatch] = []
    events = (delivered(1, 0), completed(2, 1, 1), delivered(3, 1), completed(4, 2, 3))
    following = machine(*events, on_difference=noted.append)
    following.due(idle=True)
    following.tick = 1
    assert following.produce(completion(1, b"7")) is events[1]
    following.due(idle=True)
    following.tick = 2
    assert following.produce(completion(3, b"8")) is events[3]
    assert [(one.version, one.delivery, paths(one)) for one in noted] == [(2, 1, ["reply"]), (4, 3, ["reply"])]
    assert following.exhausted


@pytest.mark.parametrize(
    "made",
    [
        Production(EventType.DELIVERY_COMPLETED, payload=b"2", outcome=Outcome.RAISED, delivery=1),
        Production(EventType.DELIVERY_COMPLETED, payload=b"2", outcome=Outcome.REPLIED, delivery=9),
        Production(EventType.MESSAGE_SENT, recipient="x/y", payload=b"2", delivery=1),
        Production(EventType.MESSAGE_PUBLISHED, topic="x/y", payload=b"2", delivery=1),
    ],
)
def test_what_differs_in_more_than_content_ends_it_all_the_same(made: Production) -> None:
    noted: list[Mismatch] = []
    following = machine(completed(1, 4, 1), on_difference=noted.append)
    following.tick = 4
    with pytest.raises(Mismatch) as raised:
        following.produce(made)
    assert raised.value.differences
    assert noted == []


def test_another_content_at_another_tick_ends_it_all_the_same() -> None:
    noted: list[Mismatch] = []
    following = machine(completed(1, 4, 1), on_difference=noted.append)
    following.tick = 3
    with pytest.raises(Mismatch):
        following.produce(completion(1, b"7"))
    assert noted == []


def test_by_order_another_content_is_gone_past_whatever_the_tick() -> None:
    noted: list[Mismatch] = []
    following = machine(
        activated(1, 0), delivered(2, 0), completed(3, 9, 2), by_order=lambda _: True, on_difference=noted.append
    )
    following.due(idle=True)
    following.tick = 1
    following.produce(completion(2, b"7"))
    assert [one.version for one in noted] == [3]


def test_a_mismatch_says_which_field_of_the_schedule_is_another() -> None:
    late = machine(delivered(1, 2))
    late.tick = 3
    with pytest.raises(Mismatch) as raised:
        late.due(idle=True)
    [tick] = raised.value.differences
    assert (tick.path, tick.recorded, tick.produced) == ("tick", "2", "3")
    [stuck] = machine(completed(3, 4, 1)).stuck().differences
    assert (stuck.path, stuck.recorded, stuck.produced) == ("event", '"DeliveryCompleted"', None)
    with pytest.raises(Mismatch) as raised:
        machine().produce(completion(1))
    [extra] = raised.value.differences
    assert (extra.path, extra.recorded, extra.produced) == ("event", None, '"DeliveryCompleted"')
    with pytest.raises(Mismatch) as raised:
        machine(completed(3, 4, 1)).read("loop.time")
    [read] = raised.value.differences
    assert (read.recorded, read.produced) == ('"DeliveryCompleted"', '"reading of loop.time"')


def test_the_machine_knows_who_recorded_the_part_that_it_follows() -> None:
    following = machine(activated(1, 0), delivered(2, 0))
    assert (following.producer, following.activation) == (None, None)
    following.due(idle=True)
    assert (following.producer, following.activation) == ({"python": "3.9.1"}, 1)


@pytest.mark.parametrize(
    ("outcome", "payload", "fits"),
    [
        (Outcome.RAISED, b'{"text":"<Order object at 0x7fAA>"}', True),
        (Outcome.RAISED, b'{"text":"<Other object at 0x7f01>"}', False),
        (Outcome.REPLIED, b'{"text":"<Order object at 0x7fAA>"}', False),
    ],
)
def test_the_text_of_an_error_may_name_an_object_at_another_address(
    outcome: Outcome, payload: bytes, fits: bool
) -> None:
    ended = event(
        3,
        EventType.DELIVERY_COMPLETED,
        1,
        delivery=2,
        payload=b'{"text":"<Order object at 0x7f01>"}',
        outcome=outcome,
    )
    made = Production(EventType.DELIVERY_COMPLETED, payload=payload, outcome=outcome, delivery=2)
    assert made.matches(ended) is fits
