"""An agent's state as of then, shown without touching anything: a view, made of the log and of the agent's code."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import typer
from autogen_core import AgentId

from autogen_eventlog.cli.at_hand import registered
from autogen_eventlog.cli.forms import Form
from autogen_eventlog.cli.output import indented, readable
from autogen_eventlog.codec import Codec
from autogen_eventlog.codec.names import type_name
from autogen_eventlog.errors import NotEncodable, NotRestorable
from autogen_eventlog.log import EventLog

_LONGEST_REPR = 500
_LONGEST_LINE = 80
_OBJECT = "$object"


@dataclass(frozen=True, slots=True)
class Viewed:
    """An agent's state at a version."""

    agent: str
    agent_class: str
    version: int
    attributes: dict[str, Any]


def load_register(app: str) -> Callable[[Any], Any]:
    """`import_function`, as the option --app.

    Raises:
        typer.BadParameter: There is no such module or function, or importing it fails.
    """
    try:
        return import_function(app)
    except ValueError as error:
        raise typer.BadParameter(f"--app {error}") from error


def import_function(name: str) -> Callable[[Any], Any]:
    """The function that registers the agents, of `MODULE:FUNCTION`; modules of the current directory included.

    Raises:
        ValueError: There is no such module or function, or importing it fails.
    """
    module_name, colon, function_name = name.partition(":")
    if not colon or not module_name or not function_name:
        raise ValueError(f"{name!r}: give MODULE:FUNCTION, for instance shop.agents:register")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
        for part in function_name.split("."):
            found = getattr(found, part)
    except Exception as error:  # the module's own code runs
        raise ValueError(f"{name!r}: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise ValueError(f"{name!r}: it is a {type(found).__name__}, not a function")
    _check_takes_one(name, found)
    return found


def _check_takes_one(name: str, function: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:  # some that are written in C say nothing of it
        return
    try:
        signature.bind(None)
    except TypeError as error:
        raise ValueError(f"{name!r}: it is called with the runtime, and nothing else: {error}") from error


async def view(
    log: EventLog,
    agent: str,
    register: Callable[[Any], Any],
    *,
    at: datetime | None,
    version: int | None,
    position: int | None,
) -> Viewed:
    """The state, by replay into a fresh instance.

    Raises:
        InvalidPoint, UnknownStream: There is no such point in the agent's past.
        NotRestorable: The function does not register the agent's type.
        Divergence, TypeNotAllowed: The code at hand is not the code that recorded it.
    """
    found = await log.version_at(agent, at=at, version=version, position=position)
    async with registered(log, register) as runtime:
        try:
            instance = await runtime.view(AgentId.from_str(agent), version=found)
        except LookupError as error:
            remedy = f"Let the function given as --app register the type {agent.partition('/')[0]!r}"
            raise NotRestorable(agent, f"version {found}", f"its type is not registered ({error})", remedy) from error
        return Viewed(agent, type_name(type(instance)), found, attributes_of(instance, log.codec))


def attributes_of(instance: object, codec: Codec) -> dict[str, Any]:
    """Every attribute of an instance, private ones too: as stored where it can be, else what it is."""
    return {name: _form(value, codec) for name, value in _attributes(instance)}


def viewed_form(viewed: Viewed) -> Form:
    """For programs."""
    return {
        "agent": viewed.agent,
        "class": viewed.agent_class,
        "version": viewed.version,
        "attributes": viewed.attributes,
    }


def attribute(form: Any) -> str:
    """For people: on one line if it is short, and wiring as what it is."""
    if isinstance(form, dict) and _OBJECT in form:
        said = cast(Form, form)
        return f"<{said[_OBJECT]}>" if said["repr"] is None else f"<{said[_OBJECT]}> {said['repr']}"
    value = cast(object, form)
    line = readable(value) or "null"
    return line if len(line) <= _LONGEST_LINE else indented(value)


def _attributes(instance: object) -> Iterator[tuple[str, object]]:
    yield from getattr(instance, "__dict__", {}).items()
    for cls in type(instance).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(instance, name):
                yield name, getattr(instance, name)


def _form(value: object, codec: Codec) -> Any:
    try:
        return json.loads(codec.encode(value).data)
    except NotEncodable:
        return {_OBJECT: type_name(type(value)), "repr": _repr(value)}


def _repr(value: object) -> str | None:
    """What a value says of itself; None where that is only its address, which tells nothing."""
    try:
        text = repr(value)
    except Exception as error:  # a class's own code
        return f"<repr raised {type(error).__name__}>"
    if " at 0x" in text:
        return None
    return text if len(text) <= _LONGEST_REPR else f"{text[:_LONGEST_REPR]}…"
