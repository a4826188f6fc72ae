"""What is made along with an agent and is no part of it: its model clients, tools, code executors.

A factory makes these too. What their constructors draw names something outside (a container, a session of a server), and
the next process must not take the name of what the last one left behind.
"""

from __future__ import annotations

from types import FrameType

from autogen_eventlog.effects.ambient.callers import Role, role_of
from autogen_eventlog.effects.boundaries import family_of, is_own_state


def makes_boundary(frame: FrameType | None, own: tuple[type, ...]) -> bool:
    """Whether the code of a frame runs for a method of a boundary.

    Args:
        own: Classes of boundaries that are the agent's own state.
    """
    while frame is not None and role_of(frame.f_globals.get("__name__") or "") is not Role.AROUND:
        value = _self_of(frame)
        if value is not None and family_of(value) is not None and not (isinstance(value, own) or is_own_state(value)):
            return True
        frame = frame.f_back
    return False


def _self_of(frame: FrameType) -> object:
    """What a method runs on: its first argument."""
    code = frame.f_code
    return frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
