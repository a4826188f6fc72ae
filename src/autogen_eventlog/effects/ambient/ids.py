"""Gates for `uuid.uuid1` and `uuid.uuid4`: in the functions themselves, which others hold under many names."""

from __future__ import annotations

import functools
import types
import uuid
from collections.abc import Callable, Iterable
from typing import Any, Final

from autogen_eventlog.effects.ambient.gates import asking
from autogen_eventlog.replay.reading import READER

FAMILY: Final = "uuid"


def each(functions: Iterable[Callable[[], object]]) -> None:
    """Call them."""
    for function in functions:
        function()


def _original(function: Any) -> Any:
    """The function as it was made, under no name."""
    made = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def reroute(function: Any, gate: Callable[[Any], Callable[..., Any]]) -> Callable[[], None]:
    """Let a function of Python's do something else, for everybody who holds it.

    Args:
        gate: Makes, from the function as it was, what is called in its place with the same arguments.

    Returns:
        What undoes it.
    """
    if not isinstance(function, types.FunctionType):  # somebody's own, put there before
        return lambda: None
    code, name = function.__code__, f"_autogen_eventlog_{function.__qualname__.replace('.', '_')}"
    names = code.co_varnames[: code.co_argcount]
    function.__globals__[name] = gate(_original(function))
    function.__code__ = _passing_on(code, names, name)

    def undo() -> None:
        function.__code__ = code
        del function.__globals__[name]

    return undo


def _passing_on(code: types.CodeType, arguments: tuple[str, ...], target: str) -> types.CodeType:
    """Code that calls a global with its arguments, and has the free variables that the function's closure fills."""
    inner = f"""
def around({", ".join(code.co_freevars)}):
    def passing_on({", ".join(arguments)}):
        {"; ".join(code.co_freevars) or "pass"}
        return {target}({", ".join(arguments)})
    return passing_on
"""
    made: dict[str, Any] = {}
    exec(inner, made)
    function: types.FunctionType = made["around"](*code.co_freevars)
    return function.__code__.replace(co_name=code.co_name)


def _uuid1(real: Any) -> Callable[..., uuid.UUID]:
    def gate(node: int | None, clock_seq: int | None) -> uuid.UUID:
        reader = None if READER.get() is None else asking(FAMILY, 2)
        if reader is None:
            return real(node, clock_seq)

        def read() -> list[Any]:
            made = real(node, clock_seq)
            return [made.hex, made.is_safe.value]

        value = reader.reading("uuid.uuid1", read, None)
        if value is None:
            return uuid.UUID(bytes=reader.filler(16), version=1)
        return uuid.UUID(hex=value[0], is_safe=uuid.SafeUUID(value[1]))

    return gate


def _uuid4(real: Any) -> Callable[..., uuid.UUID]:
    def gate() -> uuid.UUID:
        reader = None if READER.get() is None else asking(FAMILY, 2)
        if reader is None:
            return real()
        value = reader.reading("uuid.uuid4", lambda: real().hex, None)
        return uuid.UUID(bytes=reader.filler(16), version=4) if value is None else uuid.UUID(hex=value)

    return gate


def install() -> Callable[[], None]:
    """Put the gates into the functions; what takes them out again is returned."""
    undos = [reroute(uuid.uuid1, _uuid1), reroute(uuid.uuid4, _uuid4)]
    return functools.partial(each, undos)
