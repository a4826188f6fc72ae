"""A real Postgres in a local directory, shared by processes; see docs/explanation/embedded-postgres.md.

- `server`      what a program holds: `open_embedded`, `EmbeddedServer`
- `lifecycle`   the rules: who starts, who shares, who stops
- `postmaster`  the running server: start it, ask it, end it
- `cluster`     its files: made once, checked, cleaned up after a crash
- `home`        where everything lies       `sockets`   where the socket lies
- `account`     who runs it                 `binaries`  which Postgres
- `program`     one Postgres program, run   `locks`, `deadline`  waiting for each other
"""

from autogen_eventlog.postgres.embedded.server import EmbeddedServer, open_embedded

__all__ = ["EmbeddedServer", "open_embedded"]
