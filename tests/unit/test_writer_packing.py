"""The packed form and the SQL type say the same, and what can't be stored is refused."""

from __future__ import annotations

import re
import struct
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autogen_eventlog.errors import NotEncodable
from autogen_eventlog.events import EventData, EventType
from autogen_eventlog.postgres.packing import Packer, array

SQL = Path(__file__).parents[2] / "sql"
OIDS = {"bigint": 20, "uuid": 2950, "timestamptz": 1184, "text": 25, "json": 114, "bytea": 17}


def event(**fields: Any) -> EventData:
    return EventData(
        id=uuid4(), type=EventType.MESSAGE_DELIVERED, occurred_at=datetime(2000, 1, 1, tzinfo=timezone.utc), **fields
    )


def unpack(element: bytes) -> list[tuple[int, bytes | None]]:
    """Type and bytes of each field of a packed element, read as Postgres' record_recv does."""
    size, count = struct.unpack_from("!ii", element)
    assert size == len(element) - 4
    at = 8
    fields: list[tuple[int, bytes | None]] = []
    for _ in range(count):
        oid, length = struct.unpack_from("!ii", element, at)
        at += 8
        fields.append((oid, None if length < 0 else element[at : at + length]))
        at += max(length, 0)
    assert at == len(element)
    return fields


def test_the_fields_have_the_types_of_the_sql_type_in_its_order() -> None:
    declared = re.findall(r"^    (\w+) (\w+)", (SQL / "types" / "event_input.sql").read_text(), re.MULTILINE)
    packed = unpack(b"".join(Packer().pack("a/1", 3, 7, event(), b"1")))
    assert [oid for oid, _ in packed] == [OIDS[kind] for _, kind in declared]


@given(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    st.none() | st.binary(),
    st.dictionaries(
        st.text(), st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
    ),
)
def test_texts_payload_and_metadata_come_out_as_they_went_in(text: str, payload: bytes | None, metadata: Any) -> None:
    import json

    packer = Packer()
    for _ in range(2):  # the second time from memory
        packed = unpack(b"".join(packer.pack(text, 1, 1, event(sender=text, metadata=metadata), payload)))
        assert packed[6][1] == packed[8][1] == text.encode()
        assert packed[17][1] == payload
        assert json.loads(packed[16][1] or b"") == metadata


def test_an_array_is_a_header_and_its_elements() -> None:
    assert array(99, [b"ab", b"c"], 2) == struct.pack("!iiIii", 1, 0, 99, 2, 1) + b"abc"


def test_memory_for_repeated_texts_is_bounded() -> None:
    packer = Packer()
    for number in range(10_000):
        packer.pack(f"agent/{number}", 1, 1, event(), None)
    assert len(packer._texts) < 5_000  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"sender": "\0"}, "sender"),
        ({"message_id": "\ud800"}, "message_id"),
        ({"metadata": {"x": {1, 2}, "y": float("inf")}}, "metadata"),
        ({"metadata": {"x": float("nan")}}, "metadata"),
        ({"metadata": {"x": object()}}, "metadata"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_name(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(NotEncodable) as caught:
        Packer().pack("agent/1", 1, 1, event(**fields), None)
    assert caught.value.path == path
