"""Gates for `datetime.now`, `utcnow` and `today`, and `date.today`: in the classes themselves.

A subclass in the place of `datetime` (as freezegun puts one) would have to be kept from annotations, pydantic's schemas,
pickles and our codec, all of which go by the class. So the class stays, and has other methods. Classes made in C refuse
that; their `__dict__` is a view of a real dict, though, which the garbage collector knows.
"""

from __future__ import annotations

import ctypes
import datetime
import gc
import platform
import sys
import warnings
from collections.abc import Callable
from typing import Any, Final

from autogen_eventlog.effects.ambient.gates import asking
from autogen_eventlog.replay.reading import READER, Reader

FAMILY: Final = "datetime"

_NAMES: Final = {datetime.datetime: ("now", "utcnow"), datetime.date: ("today",)}
_DEPRECATED: Final = (
    "datetime.datetime.utcnow() is deprecated and scheduled for removal in a future version. "
    "Use timezone-aware objects to represent datetimes in UTC: datetime.datetime.now(datetime.UTC)."
)
_UTC: Final = datetime.timezone.utc

_now: Any = vars(datetime.datetime)["now"]
_today: Any = vars(datetime.date)["today"]


def now(cls: type[datetime.datetime], tz: datetime.tzinfo | None = None) -> datetime.datetime:
    """The current moment, local or in a zone."""
    refused = tz is not None and not isinstance(tz, datetime.tzinfo)  # pyright: ignore[reportUnnecessaryIsInstance]
    reader = None if READER.get() is None or refused else asking(FAMILY, 1)
    return _now(cls, tz) if reader is None else _moment(reader, "datetime.now", cls, tz)


def utcnow(cls: type[datetime.datetime]) -> datetime.datetime:
    """The current moment in UTC, without saying so."""
    if sys.version_info >= (3, 12):
        # The real one would blame this function, and be silenced for it by filters that name modules.
        warnings.warn(_DEPRECATED, DeprecationWarning, stacklevel=2)
    reader = None if READER.get() is None else asking(FAMILY, 1)
    moment = _now(cls, _UTC) if reader is None else _moment(reader, "datetime.utcnow", cls, _UTC)
    return moment.replace(tzinfo=None)


def today(cls: type[datetime.date]) -> datetime.date:
    """The current local date; of `datetime`, the current local moment."""
    reader = None if READER.get() is None else asking(FAMILY, 1)
    if reader is None:
        return _today(cls)
    if issubclass(cls, datetime.datetime):
        return _moment(reader, "datetime.today", cls, None)
    text = _read(reader, "date.today", lambda: _today(datetime.date), lambda moment: moment.date())
    return cls.fromisoformat(text)


def _moment(reader: Reader, name: str, cls: type[datetime.datetime], tz: datetime.tzinfo | None) -> Any:
    """A moment as an agent is told it: the fields are recorded, and the zone is the one that it gave."""

    def read() -> datetime.datetime:
        return _now(datetime.datetime, tz).replace(tzinfo=None)

    text = _read(reader, name, read, lambda moment: moment.astimezone(tz or _UTC).replace(tzinfo=None))
    moment = datetime.datetime.fromisoformat(text.rstrip("*")).replace(tzinfo=tz, fold=text.endswith("*"))
    return moment if cls is datetime.datetime else cls.combine(moment.date(), moment.timetz())


def _read(
    reader: Reader,
    kind: str,
    read: Callable[[], datetime.date],
    otherwise: Callable[[datetime.datetime], datetime.date],
) -> str:
    """The text of what is read; `otherwise` makes one of the moment of the last event."""
    text = reader.reading(kind, lambda: _text(read()), None)
    return _text(otherwise(reader.moment)) if text is None else text


def _text(value: datetime.date) -> str:
    """ISO, with a mark on the second of two equal hours."""
    return f"{value.isoformat()}*" if getattr(value, "fold", 0) else value.isoformat()


_METHODS: Final[dict[str, Any]] = {"now": classmethod(now), "utcnow": classmethod(utcnow), "today": classmethod(today)}


def install() -> Callable[[], None] | None:
    """Put the gates into the classes.

    Returns:
        What takes them out again; None if this Python does not let one do it.
    """
    if platform.python_implementation() != "CPython" or not all(_dict_of(cls) for cls in _NAMES):
        return None
    before = {cls: {name: vars(cls)[name] for name in names} for cls, names in _NAMES.items()}
    for cls, names in _NAMES.items():
        _set(cls, {name: _METHODS[name] for name in names})

    def undo() -> None:
        for cls, methods in before.items():
            _set(cls, methods)

    return undo


def _dict_of(cls: type) -> dict[str, Any] | None:
    behind: list[Any] = gc.get_referents(vars(cls))
    return behind[0] if len(behind) == 1 and type(behind[0]) is dict and "__new__" in behind[0] else None  # pyright: ignore


def _set(cls: type, methods: dict[str, Any]) -> None:
    known = _dict_of(cls)
    assert known is not None
    known.update(methods)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))  # attributes that the interpreter has cached
