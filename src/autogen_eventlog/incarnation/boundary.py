"""What stands, on an instance, for something outside the agent."""

from __future__ import annotations


class Boundary:
    """Marks a stand-in (see `effects`): what is behind it is no part of the agent's state."""

    __slots__ = ()
