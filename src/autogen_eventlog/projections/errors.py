"""What goes wrong at a recorder, told so that both sides understand: each error is one of ours and one of eventsourcing's."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from eventsourcing.persistence import DataError, IntegrityError, OperationalError, ProgrammingError

from autogen_eventlog.errors import AppendFailed, DatabaseUnavailable, EventLogError, VersionConflict


class RecorderUnavailable(DatabaseUnavailable, OperationalError):
    """The log's database did not answer a recorder within its bound."""


class OriginatorConflict(VersionConflict, IntegrityError):
    """An application's event does not follow the last one of its originator. Nothing of the batch is stored."""


class EventNotStorable(AppendFailed, DataError):
    """The database can't store an application's event and never will. Nothing of the batch is stored."""


class NotAnApplicationStream(EventLogError, ProgrammingError):
    """An application asked for events to be put into an agent's stream. Nothing of the batch is stored (G6)."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.stream = stream

    def __str__(self) -> str:
        return (
            f"stream {self.stream!r} is an agent's or a runtime's: only the worker that owns it appends to it. An "
            "application's own originators are UUIDs, or texts without '/'"
        )


@contextmanager
def told_to_both() -> Generator[None]:
    """Turns what the store raises into the errors above."""
    try:
        yield
    except DatabaseUnavailable as error:
        raise RecorderUnavailable(*error.args) from error
    except VersionConflict as error:
        raise OriginatorConflict(*error.args) from error
    except AppendFailed as error:
        raise EventNotStorable(*error.args) from error
