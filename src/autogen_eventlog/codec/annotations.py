"""The classes that a class's annotations name: what its messages may hold."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Iterator
from enum import Enum
from types import GenericAlias, SimpleNamespace, UnionType
from typing import Any, cast

from pydantic import BaseModel
from pydantic.fields import FieldInfo


def named_classes(cls: type) -> Iterator[type]:
    """Every class that the annotations of `cls` name, through unions, generics, containers and forward references.

    Best effort: an annotation that can't be resolved (a name that only a type checker imports) is passed over, and its
    class has to be registered by itself.
    """
    for annotation in _annotations(cls):
        yield from classes_in(annotation)


def classes_in(annotation: object) -> Iterator[type]:
    """The classes within one annotation."""
    if isinstance(annotation, type) and not isinstance(annotation, (GenericAlias, UnionType)):
        yield annotation
        return
    for part in _parts(annotation):
        yield from classes_in(part)


def _parts(annotation: Any) -> Iterator[object]:
    origin = typing.get_origin(annotation)
    if origin is not None:
        yield origin
        yield from typing.get_args(annotation)  # of Literal and Annotated: values, of which enum members matter
    if isinstance(annotation, (list, tuple)):  # the parameters of a Callable
        yield from cast("list[object]", annotation)
    elif isinstance(annotation, Enum):
        yield type(annotation)
    elif isinstance(annotation, typing.TypeVar):
        yield from (annotation.__bound__, *annotation.__constraints__)
    elif isinstance(annotation, typing.NewType):
        yield annotation.__supertype__
    elif type(annotation).__name__ == "TypeAliasType":
        yield annotation.__value__


def _annotations(cls: type) -> Iterator[object]:
    yield from (field.annotation for field in _model_fields(cls).values())
    try:
        yield from typing.get_type_hints(cls, include_extras=True).values()
    except Exception:  # one unresolvable name spoils them all: take them singly
        yield from _single_annotations(cls)


def _model_fields(cls: type) -> dict[str, FieldInfo]:
    return cls.model_fields if issubclass(cls, BaseModel) else {}


def _single_annotations(cls: type) -> Iterator[object]:
    for base in cls.__mro__:
        module = vars(sys.modules.get(base.__module__, SimpleNamespace()))
        raw: dict[str, object] = inspect.get_annotations(base)
        for name, annotation in raw.items():
            try:
                lone = SimpleNamespace(__annotations__={name: annotation})
                yield from typing.get_type_hints(lone, module, dict(vars(base)), include_extras=True).values()
            except Exception:  # what can't be resolved is passed over, as said above
                continue
