"""Large payloads: each is kept once a month, and events hold references to it (sql/tables/large_payload.sql).

One message to a hundred agents is a hundred deliveries, in as many streams. In a batch, too, its payload goes over the wire
once.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

LARGE: Final = 8192
"""Bytes from which on a payload is kept apart. Below, a row of its own costs as much as the repetition."""

_MARK: Final = b"\0"
"""What a reference begins with, before a SHA-256; no encoded message begins so."""

LOST: Final = b"\0lost large_payload "
"""What readers are given in the place of a payload whose row is gone or altered, before the SHA-256 that it had."""


def is_lost(payload: bytes | None) -> bool:
    """Whether what was read says that the payload itself is not there any more."""
    return payload is not None and payload.startswith(LOST)


def is_kept_apart(payload: bytes) -> bool:
    """Whether an event refers to it: it is large, or could be taken for a reference."""
    return len(payload) >= LARGE or payload.startswith(_MARK)


class References:
    """Makes references; remembers the last payload, because one message to many agents comes many times in a row."""

    __slots__ = ("_last", "_reference")

    def __init__(self) -> None:
        self._last: bytes | None = None
        self._reference = b""

    def to(self, payload: bytes) -> bytes:
        """The reference to a payload."""
        if payload is not self._last:
            self._last, self._reference = payload, _MARK + sha256(payload).digest()
        return self._reference


def apart(payloads: Sequence[bytes | None]) -> tuple[list[bytes | None], list[bytes]]:
    """What goes into the rows of events with these payloads, and what is kept apart, each once."""
    references = References()
    rows: list[bytes | None] = []
    kept: dict[bytes, bytes] = {}
    for payload in payloads:
        if payload is not None and is_kept_apart(payload):
            rows.append(references.to(payload))
            kept[references.to(payload)] = payload
        else:
            rows.append(payload)
    return rows, list(kept.values())
