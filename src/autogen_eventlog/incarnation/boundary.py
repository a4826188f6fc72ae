"""What stands, on an instance, for something outside the agent."""

from __future__ import annotations


class Boundary:
    """Marks a stand-in (see `effects`): what is behind it is no part of the agent's state."""

    __slots__ = ()

    def _eventlog_place(self) -> str | None:
        """Where the constructor put it, by which it is told from others of its class: `self._tools[1]`.

        Empty if no constructor did. None if it is told by where it is.
        """
        return None


def place_of(boundary: Boundary) -> str | None:
    """Where the constructor of its agent put a boundary. (Its own class may have any names for anything.)"""
    return type(boundary)._eventlog_place(boundary)  # pyright: ignore[reportPrivateUsage]
