"""What a class is called in the log."""

from __future__ import annotations

from types import GenericAlias
from typing import TypedDict, cast


class GenericMetadata(TypedDict):
    """What pydantic keeps on each parametrised model."""

    origin: type | None
    args: tuple[object, ...]


def generic_metadata(cls: type) -> GenericMetadata | None:
    """Origin and arguments of a parametrised pydantic model such as `Box[int]`; None of any other class."""
    metadata = cast("GenericMetadata | None", cls.__dict__.get("__pydantic_generic_metadata__"))
    return metadata if metadata and metadata["origin"] and metadata["args"] else None


def type_name(cls: type) -> str:
    """`module:qualname`, never the short name.

    pydantic calls both `Box[a.Item]` and `Box[b.Item]` by `Box[Item]`, so a parametrised model is named by its origin
    and the full names of its arguments: `shop:Box[shop.orders:Item]`.
    """
    metadata = generic_metadata(cls)
    if metadata is None or metadata["origin"] is None:
        return f"{cls.__module__}:{cls.__qualname__}"
    return f"{type_name(metadata['origin'])}[{', '.join(map(_argument_name, metadata['args']))}]"


def _argument_name(argument: object) -> str:
    # isinstance(list[int], type) is true on Python 3.10
    plain = isinstance(argument, type) and not isinstance(argument, GenericAlias)
    return type_name(cast(type, argument)) if plain else repr(argument)


def split_arguments(name: str) -> tuple[str, list[str]] | None:
    """Origin and argument names of a name such as `m:Box[m:Item, m:Box[builtins:int]]`; None if it has no arguments."""
    origin, bracket, rest = name.partition("[")
    if not bracket or not rest.endswith("]"):
        return None
    arguments, level = [""], 0
    for character in rest[:-1]:
        level += (character == "[") - (character == "]")
        if character == "," and level == 0:
            arguments.append("")
        else:
            arguments[-1] += character
    return origin, [argument.strip() for argument in arguments]
