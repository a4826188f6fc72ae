"""The order in which `asyncio.as_completed` starts what it is given.

It goes through a set of it, and coroutines lie in a set by their addresses: in replay they would start in another order.
Within an agent they start as they were given. The function keeps its name and place, and gets other code, since modules
hold it under names of their own (`from asyncio import as_completed`).
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_NAME = "_autogen_eventlog_as_completed"


class _InOrder:
    """What was given, as tasks that are made one after the other once somebody goes through it."""

    def __init__(self, given: Iterable[Any]) -> None:
        self._given = given

    def __iter__(self) -> Iterator[asyncio.Future[Any]]:
        return (asyncio.ensure_future(one) for one in dict.fromkeys(self._given))


@functools.cache
def _put_in_place() -> list[Callable[[], bool]]:
    agents: list[Callable[[], bool]] = []
    if not isinstance(asyncio.as_completed, types.FunctionType):  # somebody's own, put there before
        return agents
    function = asyncio.as_completed
    real: Any = types.FunctionType(function.__code__, function.__globals__, function.__name__)
    real.__kwdefaults__ = function.__kwdefaults__

    def in_order(fs: Any, timeout: float | None) -> Any:
        refused = inspect.isawaitable(fs)  # one, where many are expected
        return real(_InOrder(fs) if not refused and agents[0]() else fs, timeout=timeout)

    function.__globals__[_NAME] = in_order
    function.__code__ = _passing_on.__code__.replace(co_name=function.__name__)
    return agents


def _passing_on(fs: Any, *, timeout: float | None = None) -> Any:
    return _autogen_eventlog_as_completed(fs, timeout)  # type: ignore[name-defined]  # noqa: F821


def keep_order(in_agent: Callable[[], bool]) -> None:
    """Let what an agent gives to `asyncio.as_completed` start in the order given, from now on, in this process.

    Args:
        in_agent: Whether the running code is an agent's.
    """
    _put_in_place()[:] = [in_agent]
