"""pydantic models: exactly what the instance holds, past aliases, validators, serialisers and declared types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any, cast

from pydantic import BaseModel, RootModel
from pydantic_core import PydanticUndefined

from autogen_eventlog.codec.attributes import Attributes, attribute_forms
from autogen_eventlog.codec.objects import PURE_FACTORIES, require_constructible
from autogen_eventlog.codec.plan import Plan
from autogen_eventlog.codec.walk import Live, Walk
from autogen_eventlog.codec.wire import SET, TAG, Malformed, Node, Refusal

_EXTRA = "$extra"
_PRIVATE = "$private"
_DELETED = "$deleted"
"""Private attributes that have a default and were deleted: what an object lacks otherwise, its class had not yet."""


def model_plan(cls: type[BaseModel], name: str) -> Plan:
    """Fields, extra fields, private attributes and the set of fields that were given; nothing is validated again.

    A frozen model too has an identity: its private attributes can change.
    """
    require_constructible(cls, object)
    defaults = dict(model_defaults(cls))
    attributes = Attributes(cls, name, cls.model_fields, slots=False, defaults=defaults)  # its slots are stored by name
    private_defaults = dict(_private_defaults(cls))
    every = set(cls.model_fields)

    def encode(value: Live, walk: Walk, depth: int) -> object:
        form: Node = {TAG: name}
        if walk.seen.setdefault(id(value), form) is not form:
            return walk.again(value)
        form.update(attribute_forms(attributes, value, walk.fill, depth + 1))
        if value.__pydantic_fields_set__ != every:
            form[SET] = walk.one(sorted(value.__pydantic_fields_set__), depth + 1)
        _add_dict(form, _EXTRA, value.__pydantic_extra__, walk, depth)
        _add_dict(form, _PRIVATE, value.__pydantic_private__, walk, depth)
        deleted = private_defaults.keys() - (value.__pydantic_private__ or {}).keys()
        if deleted:
            form[_DELETED] = sorted(deleted)
        return form

    def decode(node: Node) -> object:
        given = _pop_set(node)
        extra, private, deleted = _pop_dict(node, _EXTRA), _pop_dict(node, _PRIVATE), node.pop(_DELETED, ())
        lacking = [name for name in private_defaults if name not in deleted and name not in (private or {})]
        if lacking:
            private = {**(private or {}), **{name: private_defaults[name]() for name in lacking}}
        _take_in(node, extra, given, every)
        stored = set(node)
        names = attributes.names(node)
        if given is None:  # all that were stored were given; a field that the class has got since was not
            given = every if len(stored) >= len(node) else every & stored
        return _built(cls, dict(zip(names, node.values(), strict=True)), given, extra, private)

    return Plan(name, encode, decode)


def model_defaults(cls: type[BaseModel]) -> Iterator[tuple[str, Callable[[], object]]]:
    """The fields with plain defaults, and what gives these."""
    for name, field in cls.model_fields.items():
        if field.default_factory in PURE_FACTORIES:
            yield name, cast("Callable[[], object]", field.default_factory)
        elif field.default_factory is None and not field.is_required():
            yield name, partial(deepcopy, field.default)  # as pydantic does


def _private_defaults(cls: type[BaseModel]) -> Iterator[tuple[str, Callable[[], object]]]:
    for name, attribute in cls.__private_attributes__.items():
        if attribute.default_factory in PURE_FACTORIES:
            yield name, cast("Callable[[], object]", attribute.default_factory)
        elif attribute.default_factory is None and attribute.default is not PydanticUndefined:
            yield name, partial(deepcopy, attribute.default)


def _add_dict(form: Node, key: str, found: dict[str, object] | None, walk: Walk, depth: int) -> None:
    if found is None:
        return
    try:
        form[key] = walk.one(found, depth + 1)
    except Refusal as refusal:
        if refusal.path:  # `message._lock`, as code says it, not `message.$private['_lock']`
            refusal.path[-1] = f".{str(refusal.path[-1])[2:-2]}"
        raise


def _pop_set(node: Node) -> set[str] | None:
    given = node.pop(SET, None)
    if given is None:
        return None
    if type(given) is not list or any(type(name) is not str for name in cast("list[object]", given)):
        raise Malformed(f"{SET} is not a list of names")
    return set(cast("list[str]", given))


def _take_in(node: Node, extra: dict[str, object] | None, given: set[str] | None, fields: set[str]) -> None:
    """What was an extra field when it was stored, and is a field of the class now."""
    for name in [name for name in extra or () if name in fields and name not in node]:
        node[name] = cast("dict[str, object]", extra).pop(name)
        if given is not None:
            given.add(name)


def _pop_dict(node: Node, key: str) -> dict[str, object] | None:
    found = node.pop(key, None)
    if found is not None and (type(found) is not dict or any(type(name) is not str for name in cast(Node, found))):
        raise Malformed(f"{key} is not a dict of names")
    return cast("dict[str, object] | None", found)


def _built(
    cls: type[BaseModel],
    values: dict[str, Any],
    given: set[str],
    extra: dict[str, Any] | None,
    private: dict[str, Any] | None,
) -> BaseModel:
    # as the two classes' __setstate__ do, which a class may override
    model = object.__new__(cls)
    object.__setattr__(model, "__dict__", values)
    object.__setattr__(model, "__pydantic_fields_set__", set(given))
    if not issubclass(cls, RootModel):
        object.__setattr__(model, "__pydantic_extra__", extra)
        object.__setattr__(model, "__pydantic_private__", private)
    return model
