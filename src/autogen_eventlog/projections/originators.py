"""eventsourcing's originators and the log's streams: which is which.

- A text with a `/` is a stream as it is: an agent's (`planner/7`) or a runtime's (`$runtime/...`). It can be read; what
  is appended to it is the business of the worker that owns it.
- Anything else, a UUID or a text without `/`, is an application's own: its stream is `$application/uuid/...` or
  `$application/text/...`, which no agent's id can be, because an agent's type never begins with `$`.
"""

from __future__ import annotations

from uuid import UUID

APPLICATION_STREAM_PREFIX = "$application/"
"""Known to sql/queries/projection_notifications.sql and projection_last_position.sql as well."""

_UUID = f"{APPLICATION_STREAM_PREFIX}uuid/"
_TEXT = f"{APPLICATION_STREAM_PREFIX}text/"


def stream_of(originator_id: UUID | str) -> str:
    """The stream in which an originator's events are."""
    if isinstance(originator_id, UUID):
        return f"{_UUID}{originator_id}"
    return originator_id if "/" in originator_id else f"{_TEXT}{originator_id}"


def originator_of(stream: str) -> UUID | str:
    """The originator whose stream it is."""
    if stream.startswith(_UUID):
        return UUID(stream.removeprefix(_UUID))
    return stream.removeprefix(_TEXT)


def is_application(stream: str) -> bool:
    """Whether it is the stream of an application's own originator: one that the recorder may append to."""
    return stream.startswith(APPLICATION_STREAM_PREFIX)
