"""The rules of `append`, for a stream that is alone in its batch and for one in company: the two take different paths."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.integration.store import Store, a_waiting_append, fetch, holding_the_head, open_store

ALONE, IN_COMPANY = "alone", "in company"
pytestmark = pytest.mark.parametrize("company", [ALONE, IN_COMPANY])

ROW = (
    "ROW({version}, {epoch}, '{id}', now(), 0, 0, '{stream}', 'x', "
    "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{{}}', NULL)::event_input"
)
Rows = list[tuple[int, int]]
"""Version and epoch of each proposed event of `agent/1`."""


@asynccontextmanager
async def two_streams(dsn: str) -> AsyncGenerator[Store]:
    async with open_store(dsn) as store:
        for stream in ("agent/1", "other/1"):
            await store.ownership.claim(stream)
        yield store


async def append(dsn: str, rows: Rows, company: str, *, ids: list[UUID] | None = None) -> list[dict[str, Any]]:
    """What `append` says of `agent/1`; in company, `other/1` gets its first event in the same batch."""
    proposed = [("agent/1", version, epoch) for version, epoch in rows]
    if company == IN_COMPANY:
        proposed.append(("other/1", 1, 1))
    chosen = ids or [uuid4() for _ in rows]
    given = ", ".join(
        ROW.format(stream=stream, version=version, epoch=epoch, id=id)
        for (stream, version, epoch), id in zip(proposed, [*chosen, uuid4()], strict=False)
    )
    names = (
        "accepted", "found_epoch", "found_version", "first_ordinal", "last_version", "last_position", "recorded_at",
        "batch_position", "batch_recorded_at",
    )  # fmt: skip
    said = await fetch(
        dsn,
        f"SELECT {', '.join(names)} FROM append(ARRAY[{given}]) AS a WHERE a.stream = %s AND a.epoch = 1",
        "agent/1",
    )
    return [dict(zip(names, row, strict=True)) for row in said]


async def stored(dsn: str, stream: str = "agent/1") -> list[tuple[Any, ...]]:
    return await fetch(
        dsn, "SELECT version, position, recorded_at, epoch FROM event WHERE stream = %s ORDER BY version", stream
    )


async def head(dsn: str, stream: str = "agent/1") -> tuple[Any, ...]:
    [found] = await fetch(dsn, "SELECT version, position, recorded_at, epoch FROM stream WHERE id = %s", stream)
    return found


async def test_what_fits_is_stored_and_answered(dsn: str, company: str) -> None:
    async with two_streams(dsn):
        [said] = await append(dsn, [(1, 1), (2, 1), (3, 1)], company)
        base, at = said["batch_position"], said["batch_recorded_at"]
        assert said == {
            "accepted": True,
            "found_epoch": None,
            "found_version": None,
            "first_ordinal": 1,
            "last_version": 3,
            "last_position": base + 3,
            "recorded_at": at,
            "batch_position": base,
            "batch_recorded_at": at,
        }
        assert base % (1 << 20) == 0
        assert await stored(dsn) == [(number, base + number, at, 1) for number in (1, 2, 3)]
        assert await head(dsn) == (3, base + 3, at, 1)
        assert len(await stored(dsn, "other/1")) == (company == IN_COMPANY)


@pytest.mark.parametrize(
    ("rows", "found"), [([(2, 1)], (1, 0)), ([(5, 1), (6, 1)], (1, 0))], ids=["one ahead", "two ahead"]
)
async def test_another_version_is_refused(dsn: str, company: str, rows: Rows, found: tuple[int, int]) -> None:
    async with two_streams(dsn):
        [said] = await append(dsn, rows, company)
        await _is_refused(dsn, company, said, found)


async def test_a_stale_epoch_is_refused(dsn: str, company: str) -> None:
    async with two_streams(dsn) as store:
        await store.ownership.claim("agent/1")
        [said] = await append(dsn, [(1, 1), (2, 1)], company)
        await _is_refused(dsn, company, said, (2, 0))


async def test_a_stream_that_nobody_claimed_is_refused(dsn: str, company: str) -> None:
    async with two_streams(dsn) as store:
        await store.fetch("DELETE FROM stream WHERE id = 'agent/1'")
        [said] = await append(dsn, [(1, 1)], company)
        await _is_refused(dsn, company, said, (0, 0))


async def test_the_second_copy_of_what_is_stored_is_refused(dsn: str, company: str) -> None:
    ids = [uuid4(), uuid4()]
    async with two_streams(dsn):
        [first] = await append(dsn, [(1, 1), (2, 1)], ALONE, ids=ids)
        [second] = await append(dsn, [(1, 1), (2, 1)], company, ids=ids)
        assert (first["accepted"], second["accepted"]) == (True, False)
        assert (second["found_epoch"], second["found_version"]) == (1, 2)
        assert len(await stored(dsn)) == 2


@pytest.mark.parametrize(
    "rows",
    [
        [(1, 1), (3, 1)],
        [(1, 1), (2, 2)],
        [(1, 1), (2, 2), (3, 1)],
        [(1, 2), (2, 1)],
        [(2, 1), (4, 1)],
        [(1, 1), (1, 1)],
    ],
)
async def test_what_is_not_consecutive_under_one_epoch_is_refused_whole(dsn: str, company: str, rows: Rows) -> None:
    async with two_streams(dsn):
        with pytest.raises(psycopg.Error) as caught:
            await append(dsn, rows, company)
        assert caught.value.sqlstate == "EL004"
        assert await stored(dsn) == await stored(dsn, "other/1") == []
        assert (await head(dsn))[:2] == (0, 0)


async def test_a_repeated_version_within_bounds_that_fit_is_refused_whole(dsn: str, company: str) -> None:
    async with two_streams(dsn):
        with pytest.raises(psycopg.Error) as caught:
            await append(dsn, [(1, 1), (3, 1), (3, 1)], company)
        # The path for many streams looks at first, last and count, and leaves this one to the key of `event`.
        assert caught.value.sqlstate == {ALONE: "EL004", IN_COMPANY: "23505"}[company]
        assert await stored(dsn) == await stored(dsn, "other/1") == []


async def test_positions_that_would_go_backwards_are_refused_whole(dsn: str, company: str) -> None:
    async with two_streams(dsn) as store:
        await append(dsn, [(1, 1)], ALONE)
        before = await head(dsn)
        await store.fetch("UPDATE position_base SET base = base - (1000::bigint << 20)")
        with pytest.raises(psycopg.Error) as caught:
            await append(dsn, [(2, 1)], company)
        assert caught.value.sqlstate == "EL003"
        assert await head(dsn) == before
        assert await stored(dsn, "other/1") == []


async def test_recorded_at_never_decreases(dsn: str, company: str) -> None:
    async with two_streams(dsn) as store:
        [(ahead,)] = await store.fetch(
            "UPDATE stream SET recorded_at = now() + interval '1 hour' WHERE id = 'agent/1' RETURNING recorded_at"
        )
        [said] = await append(dsn, [(1, 1)], company)
        assert said["recorded_at"] == ahead
        assert ahead - said["batch_recorded_at"] > timedelta(minutes=50)
        assert [row[2] for row in await stored(dsn)] == [ahead]


async def test_an_append_that_waited_looks_again(dsn: str, company: str) -> None:
    async with two_streams(dsn):
        async with holding_the_head(dsn, "agent/1") as other:
            waiting = asyncio.create_task(append(dsn, [(1, 1)], company))
            await a_waiting_append(dsn)
            await other.execute(b"UPDATE stream SET epoch = 2 WHERE id = 'agent/1'")
        [said] = await waiting
        await _is_refused(dsn, company, said, (2, 0))


async def test_an_append_that_waited_for_a_raised_base_uses_it(dsn: str, company: str) -> None:
    async with two_streams(dsn):
        async with holding_the_head(dsn, "agent/1") as other:
            await other.execute(b"LOCK TABLE stream IN EXCLUSIVE MODE")
            waiting = asyncio.create_task(append(dsn, [(1, 1)], company))
            await a_waiting_append(dsn)
            await other.execute(b"UPDATE position_base SET base = 1::bigint << 60")
        [said] = await waiting
        assert said["accepted"]
        assert said["batch_position"] > 1 << 60


async def _is_refused(dsn: str, company: str, said: dict[str, Any], found: tuple[int, int]) -> None:
    assert not said["accepted"]
    assert (said["found_epoch"], said["found_version"]) == found
    assert (said["last_version"], said["last_position"], said["recorded_at"]) == (None, None, None)
    assert await stored(dsn) == []
    assert len(await stored(dsn, "other/1")) == (company == IN_COMPANY)
