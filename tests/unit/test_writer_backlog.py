"""Which pending appends make the next batch, and which fail with a refused one."""

from __future__ import annotations

from itertools import pairwise
from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st

from autogen_eventlog.errors import LogClosed, VersionConflict
from autogen_eventlog.postgres.backlog import Backlog
from autogen_eventlog.postgres.ticket import Ticket


def ticket(stream: str, expected: int = 0, *, epoch: int = 1, events: int = 1, size: int = 10) -> Ticket:
    made = Ticket(stream, epoch, expected, events, uuid4())
    made.size = size
    return made


def backlog(*tickets: Ticket) -> Backlog:
    made = Backlog()
    for one in tickets:
        made.add(one)
    return made


def test_a_batch_is_what_is_pending_in_order() -> None:
    pending = [ticket("a"), ticket("b"), ticket("a", 1), ticket("b", 1)]
    queue = backlog(*pending)
    assert queue.take(100, 1000) == pending
    assert (len(queue), queue.events, queue.size) == (0, 0, 0)
    assert queue.take(100, 1000) == []


def test_a_batch_ends_at_its_bounds_but_holds_at_least_one() -> None:
    pending = [ticket("a", events=5), ticket("b", events=5), ticket("c", size=500)]
    queue = backlog(*pending)
    assert queue.take(7, 1000) == pending[:1]
    assert queue.take(7, 100) == pending[1:2]
    assert queue.take(7, 100) == pending[2:]


def test_a_batch_ends_before_an_append_that_does_not_continue_its_stream() -> None:
    pending = [ticket("a"), ticket("b"), ticket("a", 7), ticket("b", 1)]
    queue = backlog(*pending)
    assert queue.take(100, 1000) == pending[:2]
    assert queue.take(100, 1000) == pending[2:]


def test_a_batch_ends_before_another_epoch_of_a_stream() -> None:
    pending = [ticket("a", epoch=1), ticket("a", 1, epoch=2)]
    queue = backlog(*pending)
    assert queue.take(100, 1000) == pending[:1]
    assert queue.take(100, 1000) == pending[1:]


def test_a_refusal_fails_the_pending_of_that_stream_and_epoch_only() -> None:
    pending = [ticket("a", 1), ticket("b", 1), ticket("a", 2, epoch=2), ticket("a", 2)]
    queue = backlog(*pending)
    reason = VersionConflict("a", 1, 0)
    queue.refuse({("a", 1): reason})
    assert [one.error for one in pending] == [reason, None, None, reason]
    assert queue.tickets() == pending[1:3]
    assert (queue.events, queue.size) == (2, 20)


def test_failing_fails_everything() -> None:
    pending = [ticket("a"), ticket("b")]
    queue = backlog(*pending)
    reason = LogClosed("writer")
    queue.fail(reason)
    assert [one.error for one in pending] == [reason, reason]
    assert (len(queue), queue.events, queue.size) == (0, 0, 0)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 2), st.integers(1, 4), st.integers(1, 50)), max_size=40),
    st.integers(1, 10),
    st.integers(1, 200),
)
def test_batches_are_the_submitted_appends_in_order_each_within_the_rules(
    submitted: list[tuple[str, int, int, int]], max_events: int, max_bytes: int
) -> None:
    versions: dict[tuple[str, int], int] = {}
    pending: list[Ticket] = []
    for stream, epoch, events, size in submitted:
        expected = versions.get((stream, epoch), 0)
        versions[stream, epoch] = expected + events
        pending.append(ticket(stream, expected, epoch=epoch, events=events, size=size))
    queue = backlog(*pending)
    taken: list[Ticket] = []
    while queue:
        batch = queue.take(max_events, max_bytes)
        assert batch
        assert len(batch) == 1 or sum(one.events for one in batch) <= max_events
        assert len(batch) == 1 or sum(one.size for one in batch) <= max_bytes
        for stream in {one.stream for one in batch}:
            chain = [one for one in batch if one.stream == stream]
            assert len({one.epoch for one in chain}) == 1
            assert all(before.version == after.expected_version for before, after in pairwise(chain))
        taken += batch
    assert taken == pending
    assert (queue.events, queue.size) == (0, 0)
