"""How the instances of one class are stored."""

from __future__ import annotations

from dataclasses import dataclass

from autogen_eventlog.codec.walk import Encode
from autogen_eventlog.codec.wire import Decode


@dataclass(frozen=True, slots=True)
class Plan:
    """Compiled once a class: both directions, and the name that the stored form carries."""

    name: str
    encode: Encode
    decode: Decode


class NotData(Exception):
    """Instances of a class can't be stored, and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
