"""A stored value whose class is not known here."""

from __future__ import annotations

import json
from dataclasses import dataclass

from autogen_eventlog.codec import sharing
from autogen_eventlog.codec.walk import Walk
from autogen_eventlog.codec.wire import TAG, Refusal


@dataclass(frozen=True, slots=True)
class Opaque:
    """Readable, and encodable again to the same form; never turned into an object of another class.

    `data` is the stored JSON of this value alone. Where the message shares objects, it may hold references to
    definitions that stand outside it.
    """

    type_name: str
    data: bytes

    def json(self) -> object:
        """The stored form as plain lists, dicts, strings and numbers."""
        return json.loads(self.data)


def encode_opaque(value: Opaque, walk: Walk, depth: int) -> object:
    """The form it was read from."""
    if any(b'"%s":"%s"' % (TAG.encode(), mark.encode()) in value.data for mark in _MARKS):
        raise Refusal(value.type_name, "it is opaque here and shares objects with the message it was read from")
    return value.json()


_MARKS = (sharing.DEFINITION, sharing.REFERENCE)
