"""Requests as data: the same in every process, readable, and with a digest that tells one from another."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from autogen_core import CancellationToken
from autogen_core.tools import BaseTool, Tool

from autogen_eventlog.codec import Codec, Encoded
from autogen_eventlog.errors import NotEncodable

_WHOLE_BYTES: Final = 32 * 1024
"""A request up to this size is recorded whole; of a longer one its beginning and its end, where a conversation grows."""

_HEAD_BYTES: Final = 4 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked, as replay compares it and people read it."""

    digest: str
    payload: Encoded


def request(codec: Codec, kind: str, arguments: Mapping[str, Any]) -> Request:
    """The record of a request. Cancellation tokens are no part of it; a tool is its name and schema."""
    named = {name: value for name, value in arguments.items() if not isinstance(value, CancellationToken)}
    try:
        data = codec.encode(_plain(named), where=kind).data
    except NotEncodable:
        data = codec.encode(_described(codec, named), where=kind).data
    digest = hashlib.sha256(data).hexdigest()[:32]
    # The digest comes last: a divergence is shown from the first place where two requests differ.
    text = b'{"kind":%s,%s,"digest":"%s"}' % (json.dumps(kind).encode(), _readable(data), digest.encode())
    return Request(digest, Encoded("builtins:dict", text))


def of_today(codec: Codec, payload: bytes) -> bytes:
    """A recorded request as it would be made today, where classes in it have other shapes now. An excerpt stays as it is.

    Raises:
        EventLogError: It can't be decoded here.
    """
    recorded: Any = json.loads(payload)
    if "request" not in recorded:
        return payload
    arguments: Any = codec.decode(json.dumps(recorded["request"]).encode())
    return request(codec, recorded["kind"], arguments).payload.data


def _readable(data: bytes) -> bytes:
    if len(data) <= _WHOLE_BYTES:
        return b'"request":' + data
    tail = data[len(data) - _WHOLE_BYTES + _HEAD_BYTES :]
    excerpt = f"{data[:_HEAD_BYTES].decode()} … {tail.decode()}"
    return b'"bytes":%d,"excerpt":%s' % (len(data), json.dumps(excerpt).encode())


def is_tool(value: object) -> bool:
    """Whether a value is a tool, by class or by shape (AutoGen's `Tool` is a protocol), without reading its properties."""
    return isinstance(value, BaseTool) or all(hasattr(type(value), name) for name in _TOOL_SHAPE)


_TOOL_SHAPE: Final = ("name", "schema", "args_type", "return_type", "return_value_as_string", "run_json")


def _plain(value: Any) -> Any:
    """The value with tools and classes as data."""
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    if isinstance(value, type):
        return {"class": f"{value.__module__}:{value.__qualname__}"}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("Sequence[Any]", value)]
    if type(value) is dict:
        return {key: _plain(item) for key, item in cast("dict[Any, Any]", value).items()}
    if is_tool(value):
        tool: Tool = value
        return {"tool": tool.name, "schema": tool.schema}
    return value


def _described(codec: Codec, value: Any) -> Any:
    """The value as far as it can be recorded; the class of what can't stands in its place."""
    plain = _plain(value)
    if type(plain) is dict:
        return {str(key): _described(codec, item) for key, item in cast("dict[Any, Any]", plain).items()}
    if type(plain) is list:
        return [_described(codec, item) for item in cast("list[Any]", plain)]
    try:
        codec.encode(plain)
    except NotEncodable:
        return {"not recorded": f"{type(plain).__module__}:{type(plain).__qualname__}"}
    return plain
