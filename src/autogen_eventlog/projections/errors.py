"""What goes wrong in a projection, told so that both sides understand: each is an error of ours and one of eventsourcing's."""

from __future__ import annotations

from eventsourcing.persistence import IntegrityError, OperationalError, ProgrammingError

from autogen_eventlog.errors import AppendRefused, DatabaseUnavailable, VersionConflict


class RecorderUnavailable(DatabaseUnavailable, OperationalError):
    """The log's database did not answer a recorder within its bound."""


class OriginatorConflict(VersionConflict, IntegrityError):
    """An application's event does not follow the last one of its originator. Nothing of the batch is stored."""


class NotAnApplicationStream(AppendRefused, ProgrammingError):
    """An application asked for events to be put into an agent's stream. Nothing of the batch is stored (G6)."""

    def message(self) -> str:
        return (
            f"stream {self.stream!r} is an agent's or a runtime's: only the worker that owns it appends to it. An "
            "application's own originators are UUIDs, or texts without '/'"
        )
