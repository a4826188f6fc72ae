"""What waits or runs: locks, futures and the like. Idle or done, they are data; in use they are refused by name.

asyncio's and threading's locks, events, conditions, semaphores and queues are written in Python, and idle they are no
more than their attributes. Waiters are futures that are not done, which are refused wherever they hang.
"""

from __future__ import annotations

import asyncio
import gc
import re
import threading
from typing import Any, ClassVar, Final

from autogen_eventlog.codec.bases import own
from autogen_eventlog.state.form import Malformed
from autogen_eventlog.state.kind import Kind
from autogen_eventlog.state.objects import Plain
from autogen_eventlog.state.parts import NotState, Parts

_WAIT: Final = "Ask for a snapshot when the agent is at rest"
_NUMBERED: Final = re.compile(r"Task-\d+")
"""Names that asyncio gives out count the tasks of the process."""


class AsyncLock(Plain):
    """`asyncio.Lock`."""

    def take(self, value: Any) -> Parts:
        parts = super().take(value)
        if (parts.attributes or {}).get("_locked"):
            raise NotState("it is an asyncio lock that somebody holds", _WAIT)
        return parts


class ThreadLock(Kind):
    """Locks of threads, which have no data: idle, one is as good as another."""

    make_new: ClassVar[Any] = staticmethod(threading.Lock)

    def take(self, value: Any) -> Parts:
        if not repr(value).startswith("<unlocked "):
            raise NotState("it is a lock that a thread holds", _WAIT)
        return Parts()

    def empty(self, data: Any) -> Any:
        return self.make_new()

    def fill(self, instance: Any, parts: Parts) -> None:
        return


class ThreadRLock(ThreadLock):
    """The same, reentrant."""

    make_new = staticmethod(threading.RLock)


class Future(Kind):
    """`asyncio.Future` that is done: its outcome."""

    in_place = False
    pending = "it is a future that is not done"

    def take(self, value: Any) -> Parts:
        state = _get(value, "_state")
        if state == "PENDING":
            raise NotState(self.pending, _WAIT)
        if _get(value, "_callbacks"):
            raise NotState("its callbacks were not called yet", _WAIT)
        exception, result = _get(value, "_exception"), _get(value, "_result")
        if any(type(one) is dict and one and one is not result for one in gc.get_referents(value)):
            raise NotState("it was given attributes, which asyncio keeps where they can't be seen")
        if state == "CANCELLED":
            return Parts(items=[None, _get(value, "_cancel_message")], data=[state])
        return Parts(items=[exception, result], data=[state])

    def empty(self, data: Any) -> Any:
        instance: Any = own(asyncio.Future, "__new__")(self.cls)
        own(asyncio.Future, "__init__")(instance, loop=running_loop())
        return instance

    def fill(self, instance: Any, parts: Parts) -> None:
        exception, result = parts.items or (None, None)
        if parts.data[0] == "CANCELLED":
            own(asyncio.Future, "cancel")(instance, result)
        elif exception is not None:
            own(asyncio.Future, "set_exception")(instance, exception)
            instance._log_traceback = False  # it was told of in its first life, if it was to be
        else:
            own(asyncio.Future, "set_result")(instance, result)


def _get(value: Any, name: str) -> Any:
    return vars(asyncio.Future)[name].__get__(value)


class DoneTask(asyncio.Future[Any]):
    """What stands for a task that was done when its agent's state was captured: its outcome, and its name.

    It is no `asyncio.Task`, which nothing but running a coroutine makes; whoever awaits it or asks for its result sees
    no difference.
    """

    __slots__ = ("name",)

    name: str

    def get_name(self) -> str:
        """The name of the task; empty if it was only numbered."""
        return self.name

    def get_coro(self) -> None:
        """None: what ran is over."""


class Task(Future):
    """`asyncio.Task` that is done."""

    pending = "it is a task that still runs"

    def __init__(self, name: str, cls: type) -> None:
        super().__init__(name, DoneTask)

    def take(self, value: Any) -> Parts:
        parts = super().take(value)
        name: str = value.name if isinstance(value, DoneTask) else own(asyncio.Task, "get_name")(value)
        parts.data.append("" if _NUMBERED.fullmatch(name) else name)
        return parts

    def empty(self, data: Any) -> Any:
        instance = super().empty(data)
        instance.name = data[1]
        return instance


def running_loop() -> asyncio.AbstractEventLoop:
    """The loop that a loaded future or lock belongs to."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise Malformed("it holds futures of an event loop, and none runs here", "Load it within the loop") from None
