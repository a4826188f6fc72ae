"""Materialised views in Postgres, kept by eventsourcing's own tracking recorder."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeVar

from eventsourcing.postgres import PostgresTrackingRecorder

from autogen_eventlog.postgres.views import view_datastore

V = TypeVar("V", bound=PostgresTrackingRecorder)


@contextmanager
def open_view(view_class: type[V], dsn: str, *, schema: str = "public", name: str | None = None) -> Generator[V]:
    """A view with its tables there, in any database; its connections are closed at the end of the block.

    Args:
        dsn: the view's database: the log's (`log.dsn`) or another.
        schema: an existing schema in it for the view's tables. Not the log's.
        name: begins the name of the tracking table; the class's name by default. Two projections need two names.

    Raises:
        eventsourcing.persistence.OperationalError: no connection within about a minute.
    """
    datastore = view_datastore(dsn, schema)
    try:
        view = view_class(datastore, tracking_table_name=f"{name or view_class.__name__}_tracking".lower())
        view.create_table()
        yield view
    finally:
        datastore.close()
