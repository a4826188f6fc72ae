"""Recorded outputs in the shape that their classes have today, so that new code is not held against old shapes."""

from __future__ import annotations

from dataclasses import replace

from autogen_eventlog.codec import Codec
from autogen_eventlog.effects.requests import of_today
from autogen_eventlog.errors import EventLogError
from autogen_eventlog.events import EventType, Outcome, RecordedEvent


def in_todays_shape(codec: Codec, event: RecordedEvent) -> RecordedEvent:
    """The event with its payload as today's code would write it; the event itself where that can't be said."""
    if event.payload is None or event.outcome not in (None, Outcome.REPLIED):
        return event
    try:
        if event.type is EventType.EFFECT_REQUESTED:
            return replace(event, payload=of_today(codec, event.payload))
        encoded = codec.encode(codec.decode(event.payload))
    except EventLogError:
        return event
    return replace(event, payload=encoded.data, message_type=encoded.type_name)
