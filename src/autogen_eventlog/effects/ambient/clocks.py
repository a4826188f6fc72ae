"""Gates for the functions of `time`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from autogen_eventlog.effects.ambient.gates import Gate, asking
from autogen_eventlog.replay.reading import READER, Reader

FAMILY: Final = "time"

_WALL: Final = ("time", "time_ns")
_DATELESS: Final = ("monotonic", "perf_counter", "process_time", "thread_time")
_BY_ID: Final = ("clock_gettime", "clock_gettime_ns")
_CALENDAR: Final = ("localtime", "gmtime")
_TEXT: Final = ("ctime", "asctime", "strftime")
_NANO: Final = 1_000_000_000


def _in_unit(nanoseconds: int, counts: bool) -> int | float:
    return nanoseconds if counts else nanoseconds / _NANO


def _nanoseconds(value: int | float) -> int:
    return value if isinstance(value, int) else round(value * _NANO)


def _of(reader: Reader) -> int:
    """The time of the last event."""
    return int(reader.moment.timestamp() * _NANO)


class WallClock(Gate):
    """`time.time` and `time.time_ns`."""

    def call(self) -> Any:
        """The time since the epoch."""
        if READER.get() is None:
            return self.real()
        reader = asking(FAMILY, 1)
        return self.real() if reader is None else self._read(reader)

    def _read(self, reader: Reader) -> Any:
        value = reader.reading(self.kind, self.real, None)
        return _in_unit(_of(reader), self.name.endswith("_ns")) if value is None else value


class DatelessClock(Gate):
    """A clock that only goes forward (`time.monotonic`). For an agent it goes on where an earlier process stopped."""

    def __init__(self, module: str, name: str, real: Callable[..., Any]) -> None:
        super().__init__(module, name, real)
        self._clock = name.removesuffix("_ns")
        self._counts = name.endswith("_ns")

    def call(self) -> Any:
        """What the clock says."""
        if READER.get() is None:
            return self.real()
        reader = asking(FAMILY, 1)
        return self.real() if reader is None else self._read(reader)

    def _read(self, reader: Reader) -> Any:
        value = reader.reading(self.kind, lambda: self._now(reader), None)
        if value is None:
            return _in_unit(reader.last_seen(self._clock), self._counts)
        reader.seen(self._clock, _nanoseconds(value))
        return value

    def _now(self, reader: Reader) -> Any:
        now = self.real()
        offset = reader.offset(self._clock, _nanoseconds(now))
        return now + _in_unit(offset, self._counts) if offset else now


class ClockById(Gate):
    """`time.clock_gettime`: whatever clock it is asked for, it is read as that clock is."""

    def __init__(self, module: str, name: str, real: Callable[..., Any]) -> None:
        super().__init__(module, name, real)
        self._counts = name.endswith("_ns")

    def call(self, clk_id: int, /) -> Any:
        """What the clock of that id says."""
        reader = None if READER.get() is None else asking(FAMILY, 1)
        return self.real(clk_id) if reader is None else self._read(reader, clk_id)

    def _read(self, reader: Reader, clk_id: int) -> Any:
        time.clock_getres(clk_id)  # an id that there is not is refused, in replay too
        value = reader.reading(f"{self.kind} {clk_id}", lambda: self.real(clk_id), None)
        if value is None:
            of_event = clk_id == time.CLOCK_REALTIME
            return _in_unit(_of(reader) if of_event else reader.last_seen(f"clock {clk_id}"), self._counts)
        reader.seen(f"clock {clk_id}", _nanoseconds(value))
        return value


class Calendar(Gate):
    """`time.localtime` and `time.gmtime`: without an argument, of now."""

    def call(self, seconds: float | None = None, /) -> time.struct_time:
        """The fields of a moment."""
        reader = None if seconds is not None or READER.get() is None else asking(FAMILY, 1)
        return self.real(seconds) if reader is None else self.read(reader)

    def read(self, reader: Reader) -> time.struct_time:
        """The fields of now, as an agent is told."""
        value = reader.reading(self.kind, lambda: _fields(self.real()), None)
        return self.real(reader.moment.timestamp()) if value is None else time.struct_time(value)


def _fields(moment: time.struct_time) -> list[Any]:
    return [*moment, moment.tm_zone, moment.tm_gmtoff]


class Text(Gate):
    """`time.ctime`, `asctime` and `strftime`: without a moment, of now."""

    def __init__(self, module: str, name: str, real: Callable[..., Any], local: Calendar) -> None:
        super().__init__(module, name, real)
        self._local = local
        self._arguments = 1 if name == "strftime" else 0

    def call(self, *args: Any) -> str:
        """The moment as text."""
        given = len(args) > self._arguments and not (self.name == "ctime" and args[0] is None)
        reader = None if given or READER.get() is None else asking(FAMILY, 1)
        if reader is None:
            return self.real(*args)
        of_now: Callable[..., str] = time.asctime if self.name == "ctime" else self.real
        return of_now(*args[: self._arguments], self._local.read(reader))


class Sleep(Gate):
    """`time.sleep`, which takes no time in replay: it would hold up everybody else in the process."""

    def call(self, seconds: float, /) -> None:
        """Sleep."""
        reader = None if READER.get() is None else asking(FAMILY, 1)
        # Asked for the family first: the code may go live by sleeping, as by reading.
        self.real(min(seconds, 0) if reader is not None and reader.replays else seconds)


def gates() -> list[Gate]:
    """One for each function that this system has."""
    dateless = [suffixed for name in _DATELESS for suffixed in (name, f"{name}_ns")]
    made: list[Gate] = [WallClock(FAMILY, name, getattr(time, name)) for name in _WALL]
    made += [DatelessClock(FAMILY, name, getattr(time, name)) for name in dateless if hasattr(time, name)]
    made += [ClockById(FAMILY, name, getattr(time, name)) for name in _BY_ID if hasattr(time, name)]
    calendars = [Calendar(FAMILY, name, getattr(time, name)) for name in _CALENDAR]
    made.append(Sleep(FAMILY, "sleep", time.sleep))
    return [*made, *calendars, *(Text(FAMILY, name, getattr(time, name), calendars[0]) for name in _TEXT)]
