"""Keeping snapshots (sql/tables/snapshot.sql)."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.types.json import Json

from autogen_eventlog.postgres.pool import Pool
from autogen_eventlog.postgres.records import Snapshot

_LARGEST = 2**63 - 1


class Snapshots:
    """Snapshots in the database; uses a reader's pool. Raises what `Pool.fetch` raises."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def put_snapshot(self, snapshot: Snapshot) -> None:
        """Keeps it; one of the same stream, version, kind and code is replaced."""
        await self._pool.fetch(
            "put_snapshot",
            {
                "stream": snapshot.stream,
                "version": snapshot.version,
                "position": snapshot.position,
                "taken_at": snapshot.taken_at,
                "kind": snapshot.kind,
                "code_hash": snapshot.code_hash,
                "payload": snapshot.payload,
                "metadata": Json(snapshot.metadata),
                "status": snapshot.status,
            },
        )

    async def latest_snapshot(
        self,
        stream: str,
        at_or_below_version: int | None = None,
        *,
        kind: str | None = None,
        code_hash: str | None = None,
        without_status: Sequence[str] = (),
    ) -> Snapshot | None:
        """The newest one at or below a version (None: any) that matches."""
        rows = await self._pool.fetch(
            "latest_snapshot",
            {
                "stream": stream,
                "at_or_below_version": _LARGEST if at_or_below_version is None else at_or_below_version,
                "kind": kind,
                "code_hash": code_hash,
                "without": list(without_status),
            },
            prepare=False,
        )
        return Snapshot(*rows[0]) if rows else None

    async def list_snapshots(self, stream: str, *, limit: int = 1000) -> list[Snapshot]:
        """A stream's snapshots, newest first."""
        rows = await self._pool.fetch("snapshots", {"stream": stream, "limit": limit})
        return [Snapshot(*row) for row in rows]

    async def mark_snapshot(self, snapshot: Snapshot, status: str) -> None:
        """Writes down what was learnt about it, for instance that it was proven or is unusable."""
        await self._pool.fetch(
            "mark_snapshot",
            {
                "stream": snapshot.stream,
                "version": snapshot.version,
                "kind": snapshot.kind,
                "code_hash": snapshot.code_hash,
                "status": status,
            },
        )

    async def delete_snapshot(self, snapshot: Snapshot) -> None:
        """Forgets one."""
        await self._pool.fetch(
            "delete_snapshot",
            {
                "stream": snapshot.stream,
                "version": snapshot.version,
                "kind": snapshot.kind,
                "code_hash": snapshot.code_hash,
            },
        )

    async def candidates(self, *, stream: str | None = None, after: str = "", limit: int = 1000) -> list[Snapshot]:
        """Those that are not proven yet, by stream and version; `after`: past this stream."""
        rows = await self._pool.fetch("candidate_snapshots", {"stream": stream, "after": after, "limit": limit})
        return [Snapshot(*row) for row in rows]

    async def delete_snapshots(self, stream: str, *, below_version: int) -> None:
        """Forgets those below a version."""
        await self._pool.fetch("delete_snapshots", {"stream": stream, "below_version": below_version})
