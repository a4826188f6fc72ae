"""Exceptions as data: what a handler raised, recorded, and raised again in replay with the same type and arguments.

A stored name is looked up among the exception classes that this process has already loaded; nothing is imported and no
constructor of the user's runs (G10).
"""

from __future__ import annotations

import asyncio
import builtins
import sys
import traceback
from typing import Any, cast

from pydantic_core import ValidationError

from autogen_eventlog.codec import Codec, Encoded
from autogen_eventlog.errors import EventLogError, NotEncodable, RecordedFailure, TypeNotAllowed

_TRACEBACK_BOUND = 20_000


def encode_failure(codec: Codec, error: BaseException) -> Encoded:
    """An exception's type, text and, as far as they can be recorded exactly, arguments and attributes."""
    name = _type_name(type(error))
    plain: dict[str, Any] = {"text": _text(error), "args": _encodable(codec, _arguments(error))}
    attributes = {key: value for key, value in vars(error).items() if _fits(codec, value)}
    if attributes:
        plain["attributes"] = attributes
    return Encoded(name, codec.encode(plain, where=name).data)


def decode_failure(codec: Codec, type_name: str, data: bytes, *, where: str) -> BaseException:
    """The exception again.

    Raises:
        TypeNotAllowed: No exception class of that name is loaded here.
        PayloadCorrupt: The bytes are not what `encode_failure` writes.
    """
    plain: Any = codec.decode(data, where=where)
    cls = _loaded_exception(type_name)
    if cls is None:
        raise TypeNotAllowed(type_name, where)
    arguments = plain["args"] if plain["args"] is not None else [plain["text"]]
    try:
        error = _made(cls, arguments)
    except (TypeError, ValueError, KeyError):  # a class written in C that only its own code can fill
        return RecordedFailure(type_name, plain["text"])
    error.__dict__.update(plain.get("attributes", {}))
    return error


def as_recorded(codec: Codec, recorded: Encoded, error: BaseException) -> BaseException:
    """What replay will raise for `error`, without its traceback; the error itself, if its class can't be rebuilt."""
    try:
        again = decode_failure(codec, recorded.type_name, recorded.data, where=recorded.type_name)
    except EventLogError:
        return error
    return again if type(again) is type(error) and _text(again) == _text(error) else error


def reproducible(codec: Codec, error: BaseException) -> BaseException:
    """The exception, if it comes back from its record with its type and text; else a `RecordedFailure` with both."""
    again = as_recorded(codec, encode_failure(codec, error), error)
    return RecordedFailure(_type_name(type(error)), _text(error)) if again is error else error


def _arguments(error: BaseException) -> list[Any]:
    """What the class is called with to make an equal exception."""
    if isinstance(error, OSError):
        return list(cast("tuple[Any, tuple[Any, ...]]", error.__reduce__())[1])  # `args` leaves out the file's name
    if isinstance(error, ValidationError):
        return [error.title, [_line_error(dict(line)) for line in error.errors(include_url=False)]]
    return list(error.args)


def _line_error(line: dict[str, Any]) -> dict[str, Any]:
    context = {key: str(value) if isinstance(value, Exception) else value for key, value in line.get("ctx", {}).items()}
    return {"type": line["type"], "loc": line["loc"], "input": line["input"], "ctx": context}


def _made(cls: type[BaseException], arguments: list[Any]) -> BaseException:
    if cls is ValidationError:
        return ValidationError.from_exception_data(*arguments)
    error = _layout(cls).__new__(cls, *arguments)
    if not isinstance(error, OSError) or not error.args:
        error.args = tuple(arguments)
    return error


def traceback_text(error: BaseException) -> str:
    """The traceback for people; it is not compared in replay."""
    return "".join(traceback.format_exception(error))[-_TRACEBACK_BOUND:]


def is_cancellation(error: BaseException) -> bool:
    return isinstance(error, asyncio.CancelledError)


def _type_name(cls: type[BaseException]) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # a user's __str__ may raise; the record must not depend on it
        return f"<no text: {broken!r}>"


def _fits(codec: Codec, value: object) -> bool:
    try:
        codec.encode(value)
    except NotEncodable:
        return False
    return True


def _encodable(codec: Codec, arguments: list[Any]) -> list[Any] | None:
    return arguments if _fits(codec, arguments) else None


def _loaded_exception(name: str) -> type[BaseException] | None:
    module, _, qualname = name.partition(":")
    found: Any = builtins if module == "builtins" else sys.modules.get(module)
    for part in qualname.split("."):
        if part == "<locals>" or found is None:
            return _loaded_subclass(name)
        found = cast("dict[str, Any]", vars(found)).get(part)
    return found if isinstance(found, type) and issubclass(found, BaseException) else _loaded_subclass(name)


def _loaded_subclass(name: str) -> type[BaseException] | None:
    pending: list[type[BaseException]] = [BaseException]
    while pending:
        cls = pending.pop()
        if _type_name(cls) == name:
            return cls
        pending.extend(cls.__subclasses__())
    return None


def _layout(cls: type[BaseException]) -> type[BaseException]:
    """The built-in class whose memory layout `cls` has, so that no user code runs to make an instance."""
    return next(base for base in cls.__mro__ if base.__module__ == "builtins")
