"""What is looked after when the same message is sent twice."""

from __future__ import annotations

import asyncio
from datetime import datetime, timezone
from typing import Any
from uuid import UUID

import pytest
from autogen_core import AgentId, TopicId

from autogen_eventlog.codec import Encoded
from autogen_eventlog.distributed.outstanding import Outstanding, Sent
from autogen_eventlog.distributed.wire import Origin
from autogen_eventlog.errors import InstanceEnded


def nothing_is_looked_up() -> Any:
    """An `Outstanding` that is not started asks nobody."""
    unused: Any = None
    return Outstanding(unused, unused, unused, unused, unused, unused, patience=1.0)


def sent(**more: Any) -> Sent:
    now = datetime.now(timezone.utc)
    return Sent(Origin(UUID(int=7), None, "m"), Encoded("x:Y", b"1"), AgentId("caller", "a"), 0.0, now, **more)


async def test_a_call_that_is_asked_again_takes_the_place_of_the_one_before() -> None:
    loop, outstanding = asyncio.get_running_loop(), nothing_is_looked_up()
    first, second = sent(answer=loop.create_future()), sent(answer=loop.create_future())
    outstanding.add(first)
    outstanding.add(second)
    assert first.answer is not None
    with pytest.raises(InstanceEnded):
        await first.answer
    outstanding.done(first)
    assert outstanding.number == 1
    outstanding.done(second)
    assert outstanding.number == 0


async def test_a_publication_that_others_look_after_too_stays_as_it_is() -> None:
    outstanding = nothing_is_looked_up()
    first, second = sent(topic=TopicId("news", "all")), sent(topic=TopicId("news", "all"))
    outstanding.add(first)
    outstanding.add(second)
    outstanding.done(second)
    assert outstanding.number == 1
    outstanding.done(first)
    assert outstanding.number == 0
