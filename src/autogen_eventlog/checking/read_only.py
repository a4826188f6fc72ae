"""A log that is opened to be looked at: nothing is made, migrated, registered, owned or written."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from autogen_eventlog.errors import LogReadOnly
from autogen_eventlog.log import EventLog
from autogen_eventlog.postgres.session import EnsureServer

_BYTES = 1024 * 1024


class ReadOnlyLog(EventLog):
    """An `EventLog` whose writing side can't be opened."""

    async def start_writing(self) -> None:
        raise LogReadOnly("start_writing")

    @classmethod
    @asynccontextmanager
    async def over(
        cls, dsn: str, *, schema: str, unavailable_after: float, ensure_server: EnsureServer | None = None
    ) -> AsyncGenerator[ReadOnlyLog]:
        """A log that exists.

        Raises:
            DatabaseUnavailable: No connection within `unavailable_after` seconds, at the first read.
        """
        log = cls(
            dsn,
            schema,
            lease=1.0,
            unavailable_after=unavailable_after,
            max_pending_bytes=_BYTES,
            ensure_server=ensure_server,
        )
        async with log._opened():
            yield log

    @classmethod
    def nowhere(cls) -> ReadOnlyLog:
        """A log without a database, for replaying histories from files: every read of it is refused."""
        return cls("", "eventlog", lease=1.0, unavailable_after=1.0, max_pending_bytes=_BYTES, ensure_server=None)
