"""Where eventsourcing's materialised views live: its datastore, made from a whole conninfo."""

from __future__ import annotations

import re
from typing import Any

from eventsourcing.postgres import PostgresDatastore
from psycopg.conninfo import conninfo_to_dict

from autogen_eventlog.postgres.session import keep_alive

_WAIT_SECONDS = 5.0
"""For a connection, ten times by the library. Also how long the pool tries by itself, ever more rarely: up to minutes
apart if it is let, where a new request of ours makes it try at once."""


def view_datastore(conninfo: str, schema: str) -> PostgresDatastore:
    """A datastore for views; it connects when it is first used. The caller closes it.

    Its constructor takes five settings of a connection and insists on them; here TLS and all others are kept, and what
    is not given is libpq's to find. Names in the view's statements resolve in `schema` alone: by default they might in
    a schema named like the user, which is the log's where both are called `eventlog`.
    """
    settings: dict[str, Any] = {**keep_alive(conninfo), **conninfo_to_dict(conninfo)}
    settings["options"] = f"{settings.get('options', '')} -c search_path={_escaped(schema)}".strip()
    required = {name: settings.pop(name, None) for name in ("dbname", "host", "port", "user", "password")}
    datastore = PostgresDatastore(
        **required, schema=schema, connect_timeout=_WAIT_SECONDS, pool_size=1, max_overflow=3, originator_id_type="text"
    )
    kept = datastore.pool.kwargs
    assert isinstance(kept, dict)
    datastore.pool.kwargs = kept | settings
    datastore.pool.reconnect_timeout = _WAIT_SECONDS
    return datastore


def _escaped(schema: str) -> str:
    """A schema's name as an identifier, within libpq's `options`."""
    quoted = '"' + schema.replace('"', '""') + '"'
    return re.sub(r"([\\\s])", r"\\\1", quoted)
