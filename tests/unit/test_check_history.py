"""Histories as files: the same bytes each time, and whatever was done to one is found where it stands."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from autogen_eventlog.checking.history import History, read_history, write_history
from autogen_eventlog.checking.lines import Chain
from autogen_eventlog.checking.states import KeptState
from autogen_eventlog.errors import InvalidHistory
from autogen_eventlog.events import EventType, Outcome, RecordedEvent
from autogen_eventlog.lineage import Lineage, Segment
from tests.unit.test_machine import activated, completed, delivered, event

STATE = KeptState(b'{"format":1,"root":"x","objects":[{"f":-0.0}]}')


def recorded(*events: RecordedEvent) -> History:
    segments = (Segment("a/b", 0, len(events)),)
    return History("", "a/b", {}, Lineage("a/b", len(events), segments), tuple(events), None)


HISTORY = recorded(
    activated(1, 0),
    replace(delivered(2, 0), sender="x/ü", topic="t/s", message_id="m", message_type="m:A", cause=UUID(int=9)),
    replace(completed(3, 1, 2), payload=b"\xff\x00", outcome=Outcome.RAISED, correlation=UUID(int=8), call=4),
    event(4, EventType.SCHEDULE_RECORDED, 7, ["r", ["loop.time", 0.1 + 0.2], 5], metadata={"e": 1e-320}),
)


def written(path: Path, history: History = HISTORY, state: KeptState | None = STATE) -> Path:
    asyncio.run(write_history(path, history, state))
    return path


def test_a_history_comes_back_with_every_column_exact(tmp_path: Path) -> None:
    read = read_history(written(tmp_path / "deep" / "a.history.jsonl"))
    assert read.recorded == HISTORY.recorded
    assert (read.agent, read.version, read.state) == ("a/b", 4, STATE)
    assert read.lineage == HISTORY.lineage
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["a.history.jsonl"]


def test_the_same_history_gives_the_same_bytes(tmp_path: Path) -> None:
    first = written(tmp_path / "one").read_bytes()
    assert written(tmp_path / "two").read_bytes() == first
    assert written(tmp_path / "three", read_history(tmp_path / "one")).read_bytes() == first


def test_a_past_of_two_streams_keeps_both(tmp_path: Path) -> None:
    other = tuple(replace(one, stream="c/d") for one in HISTORY.recorded[:2])
    own = tuple(replace(one, version=one.version + 4) for one in HISTORY.recorded[2:])
    lineage = Lineage("a/b", 8, (Segment("c/d", 0, 2), Segment("a/b", 6, 8)))
    read = read_history(written(tmp_path / "f", replace(HISTORY, lineage=lineage, recorded=other + own)))
    assert [(one.stream, one.version) for one in read.recorded] == [("c/d", 1), ("c/d", 2), ("a/b", 7), ("a/b", 8)]


async def test_a_history_is_a_past(tmp_path: Path) -> None:
    async def versions(**after: Any) -> list[int]:
        return [one.version async for one in HISTORY.events(**after)]

    assert await versions() == [1, 2, 3, 4]
    assert await versions(after=("a/b", 3)) == [4]
    first, last = await HISTORY.first_activation(), await HISTORY.last_activation(("a/b", 3))
    assert first is not None and first.version == 1
    assert last is not None and (last.version, last.producer) == (1, {"python": "3.9.1"})
    assert await HISTORY.last_activation(("a/b", 0)) is None
    assert await HISTORY.next_event() is None


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def swapped(found: list[bytes]) -> list[bytes]:
    return [*found[:2], found[3], found[2], *found[4:]]


def edited(found: list[bytes]) -> list[bytes]:
    return [*found[:2], found[2].replace(b'"payload":"1"', b'"payload":"2"'), *found[3:]]


@pytest.mark.parametrize(
    ("change", "line", "problem"),
    [
        (lambda found: found[:4], 5, "truncated"),
        (lambda found: found[:-1], 6, "truncated"),
        (lambda found: [*found[:-1], found[-1][:-9]], 6, "truncated"),
        (lambda found: [*found[:-1], found[-1].rstrip()], 6, "truncated"),
        (edited, 3, "changed"),
        (swapped, 3, "changed"),
        (lambda found: [*found[:2], *found[3:]], 3, "changed"),
        (lambda found: [*found[:2], found[1], *found[2:]], 3, "changed"),
        (lambda found: [*found, found[-1]], 7, "more behind the end"),
        (lambda found: [], 1, "truncated"),
        (lambda found: [b"hello\n"], 1, "not the first line"),
        (lambda found: [found[0].replace(b'"events":4', b'"events":5'), *found[1:]], 1, "not the first line"),
    ],
    ids=[
        "cut",
        "no last line",
        "half a line",
        "no end",
        "edited",
        "swapped",
        "lost",
        "twice",
        "more",
        "empty",
        "no",
        "head",
    ],
)
def test_what_was_done_to_a_file_is_named_with_its_line(tmp_path: Path, change: Any, line: int, problem: str) -> None:
    path = written(tmp_path / "a.history.jsonl")
    before = path.read_bytes()
    path.write_bytes(b"".join(change(lines(path))))
    assert path.read_bytes() != before
    with pytest.raises(InvalidHistory) as refused:
        read_history(path)
    assert (refused.value.path, refused.value.line) == (str(path), line)
    assert problem in refused.value.problem
    assert f"line {line}" in str(refused.value)


def closed(path: Path, *forms: dict[str, Any]) -> Path:
    """A file whose sums are right, whatever it says."""
    chain = Chain()
    path.write_bytes(b"".join(chain.close(form) for form in forms))
    return path


def forms_of(path: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [{name: value for name, value in form.items() if name != "sum"} for form in found]


@pytest.mark.parametrize(
    ("line", "change", "problem"),
    [
        (1, {"format": "other"}, "its format is 'other'"),
        (1, {"format_version": 2}, "version 2"),
        (1, {"events": 5}, "5 events are said"),
        (1, {"lineage": [["a/b", 0]]}, "does not say"),
        (3, {"version": 3}, "expected version 2 of 'a/b', found version 3"),
        (3, {"type": "Nonsense"}, "no event"),
        (3, {"id": "x"}, "no event"),
        (6, {"digest": "0"}, "digest"),
    ],
)
def test_a_file_that_was_made_up_is_refused(tmp_path: Path, line: int, change: dict[str, Any], problem: str) -> None:
    forms = forms_of(written(tmp_path / "a"))
    forms[line - 1] |= change
    with pytest.raises(InvalidHistory) as refused:
        read_history(closed(tmp_path / "b", *forms))
    assert refused.value.line == line
    assert problem in str(refused.value)


def test_line_ends_of_another_system_do_no_harm(tmp_path: Path) -> None:
    path = written(tmp_path / "a")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert read_history(path).recorded == HISTORY.recorded
