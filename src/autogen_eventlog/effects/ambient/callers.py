"""Whose code asks for the time, an id or a random number: the agent's, or that of something that runs amid it.

Log records read the clock. Were that recorded, a change of the log level would change a replay. So the whole stack counts,
from the code that asks to the runtime that called the agent.
"""

from __future__ import annotations

import sys
import sysconfig
from enum import Enum
from pathlib import Path
from types import FrameType
from typing import Final


class Role(Enum):
    """What a module is to the code of an agent that it is called by, or calls."""

    AGENT = "agent"
    """The agent's own, and libraries that work for it."""
    THROUGH = "through"
    """Draws for its caller."""
    LIBRARY = "library"
    """Python's own: what it reads is for itself (time-outs, temporary names)."""
    BESIDE = "beside"
    """Watches the agent (log records, spans), or is the world around it: what it calls is never the agent's doing."""
    AROUND = "around"
    """Runs the agent."""


_THROUGH: Final = frozenset({"random", "secrets", "uuid", "statistics", "email.utils", "dataclasses", "types"})
_BESIDE: Final = frozenset(
    {
        "logging",
        "warnings",
        "traceback",
        "opentelemetry",
        "psycopg",
        "psycopg_binary",
        "psycopg_pool",
        "grpc",
        "google",
        "eventsourcing",
        "_pytest",
        "pytest",
        "pluggy",
        "hypothesis",
        "coverage",
        # A module that a handler imports is made once in a process, and not again in a replay beside it.
        "importlib",
        "_frozen_importlib",
        "_frozen_importlib_external",
    }
)
_USED: Final = frozenset({"psycopg", "psycopg_binary", "psycopg_pool", "grpc", "google", "eventsourcing"})
"""What they read is for themselves; what they do, they do for whom calls them."""
_WATCHERS: Final = frozenset(
    {"loguru", "structlog", "sentry_sdk", "ddtrace", "newrelic", "debugpy", "pydevd", "prometheus_client", "weakref"}
)
"""What they do (open a file of records, send a span) is not the agent's doing; nor is what is done when an object ends."""
_OURS: Final = "autogen_eventlog"
_AROUND: Final = ("autogen_eventlog.replay", "autogen_eventlog.incarnation", "autogen_eventlog.effects")
_LIBRARY_PATHS: Final = tuple({Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")})

_roles: dict[str, Role] = {}


def role_of(module: str) -> Role:
    """What the module of a name is."""
    found = _roles.get(module)
    if found is None:
        found = _roles[module] = _role_of(module)
    return found


def _role_of(module: str) -> Role:
    top = module.partition(".")[0]
    if top == _OURS:
        return Role.AROUND if module.startswith(_AROUND) else Role.BESIDE
    if module in _THROUGH:
        return Role.THROUGH
    if top in _BESIDE:
        return Role.BESIDE
    return Role.LIBRARY if top in sys.stdlib_module_names and not _is_shadowed(top) else Role.AGENT


def _is_shadowed(top: str) -> bool:
    """Whether a module of the user's has the name of one of Python's."""
    origin = getattr(sys.modules.get(top), "__file__", None)
    if origin is None:
        return False
    parents = Path(origin).parents
    return "site-packages" in Path(origin).parts or not any(path in parents for path in _LIBRARY_PATHS)


def is_agents(frame: FrameType | None) -> bool:
    """Whether the code of a frame asks for the agent that runs, in whose context the caller knows it to be."""
    while frame is not None and _role(frame) is Role.THROUGH:
        frame = frame.f_back
    if frame is None or _role(frame) is not Role.AGENT:
        return False
    while frame is not None:
        role = _role(frame)
        if role is Role.BESIDE:
            return False
        if role is Role.AROUND:
            return True
        frame = frame.f_back
    return True


def doers(frame: FrameType | None) -> list[FrameType]:
    """The frames of the agent's code that lead to what `frame` does, innermost first; none if it is not its doing.

    Python's modules and other libraries act for their caller. Log records, spans and imports don't, nor do finalizers,
    which interrupt whatever code is running.
    """
    found: list[FrameType] = []
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        top, role = module.partition(".")[0], role_of(module)
        if role is Role.AROUND:
            return found
        if top in _WATCHERS or frame.f_code.co_name == "__del__" or (role is Role.BESIDE and top not in _USED):
            return []
        if role is Role.AGENT or top in _USED:
            found.append(frame)
        frame = frame.f_back
    return found


def _role(frame: FrameType) -> Role:
    return role_of(frame.f_globals.get("__name__") or "")
