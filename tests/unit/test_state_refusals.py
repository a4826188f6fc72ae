"""What can't be restored exactly is refused by name when a state is captured, and never captured as something else."""

from __future__ import annotations

import collections
import contextvars
import csv
import decimal
import hashlib
import io
import itertools
import random
import re
import sqlite3
import ssl
import struct
import threading
import zlib
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from autogen_eventlog.codec import Codec
from autogen_eventlog.errors import NotCapturable
from autogen_eventlog.state import capture
from tests.unit.state_agents import Holder, Node, loaded


def reason(value: Any) -> str:
    """Why a value that an agent holds is refused: class and reason of the only place."""
    with pytest.raises(NotCapturable) as caught:
        capture(Holder(value=value), Codec())
    ((path, found, why, _),) = caught.value.places
    assert path.startswith("self.value")
    return f"{found}: {why}"


# -- what is written in C -----------------------------------------------------------------------------------------


class Database(sqlite3.Connection):
    """A subclass in Python, with attributes of its own."""

    name = "d"


class Local(threading.local):
    pass


class Settings(decimal.Context):
    pass


class Closer:
    def __del__(self) -> None:
        return


class Slots:
    __slots__ = ("left", "right")


class Both(Slots):
    def __init__(self) -> None:
        self.left, self.right, self.third = 1, 2, 3


class Odd(KeyError, AttributeError):
    pass


class Drawn(random.Random):
    pass


class Typed(BaseModel):
    number: int


def invalid() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        Typed(number="x")  # type: ignore[arg-type]
    return caught.value


def of_c() -> list[Any]:
    connection, own = sqlite3.connect(":memory:"), sqlite3.connect(":memory:", factory=Database)
    own.row_factory = sqlite3.Row
    (row,) = own.execute("SELECT 1 AS one")
    return [
        *(connection, connection.cursor(), own, row),
        *(csv.reader([]), csv.writer(io.StringIO()), zlib.compressobj(), zlib.decompressobj(), hashlib.sha256(b"x")),
        *(re.match("a", "ab"), re.finditer("a", "ab"), struct.Struct("<i"), Local()),
        *(decimal.Context(), Settings(), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), iter(collections.deque([1]))),
        *(itertools.chain([1]), itertools.islice([1], 1), map(str, [1]), enumerate([1]), reversed([1]), iter({1: 2})),
        *(contextvars.copy_context(), invalid(), memoryview(b"ab")[1:], {}.keys()),
    ]


@pytest.mark.parametrize("value", of_c(), ids=lambda value: type(value).__name__)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_is_written_in_c_is_refused_by_the_name_of_its_class(value: Any) -> None:
    assert reason(value).startswith(f"{type(value).__module__}:{type(value).__qualname__}: ")


def test_what_a_class_statement_adds_is_seen() -> None:
    both, odd, drawn = Both(), Odd("k"), Drawn(3)
    drawn.random()
    odd.name = "n"
    copy = loaded([both, odd, drawn, [Node(1)]])
    assert (copy[0].left, copy[0].right, copy[0].third) == (1, 2, 3)
    assert (copy[1].args, copy[1].name) == (("k",), "n")
    assert copy[2].random() == drawn.random()


def test_an_object_with_a_finaliser_is_seen_through() -> None:
    capture(Holder(value=Closer()), Codec())
