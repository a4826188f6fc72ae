"""Events that are made the quick way are events like any other."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

import pytest

from autogen_eventlog.events import EventData, EventType, RecordedEvent, new_event, new_recorded_event

NOW = datetime(2024, 1, 1, tzinfo=timezone.utc)
PROPOSED: dict[str, Any] = {"id": uuid4(), "type": EventType.MESSAGE_SENT, "occurred_at": NOW, "metadata": {"tick": 3}}
RECORDED: dict[str, Any] = PROPOSED | {"stream": "a/1", "version": 1, "position": 7, "epoch": 1, "recorded_at": NOW}
Make = Callable[..., Any]


@pytest.mark.parametrize(
    ("quick", "ordinary", "fields"), [(new_event, EventData, PROPOSED), (new_recorded_event, RecordedEvent, RECORDED)]
)
def test_a_quick_event_is_of_the_frozen_class(quick: Make, ordinary: Make, fields: dict[str, Any]) -> None:
    made, expected = quick(**fields), ordinary(**fields)
    assert type(made) is ordinary
    assert made == expected
    assert repr(made) == repr(expected)
    assert copy.copy(made) == pickle.loads(pickle.dumps(made)) == expected
    assert replace(made, call=4) == replace(expected, call=4)
    with pytest.raises(FrozenInstanceError):
        made.call = 4
    with pytest.raises(FrozenInstanceError):
        del made.call
    with pytest.raises(TypeError, match="occurred_at"):
        quick(**{name: value for name, value in fields.items() if name != "occurred_at"})


def test_each_quick_event_has_metadata_of_its_own() -> None:
    fields = {name: value for name, value in PROPOSED.items() if name != "metadata"}
    assert new_event(**fields).metadata is not new_event(**fields).metadata
