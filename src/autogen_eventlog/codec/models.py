"""pydantic models: exactly what the instance holds, past aliases, validators, serialisers and declared types."""

from __future__ import annotations

from typing import Any, cast

from pydantic import BaseModel, RootModel

from autogen_eventlog.codec.attributes import Attributes, attribute_forms
from autogen_eventlog.codec.objects import require_constructible
from autogen_eventlog.codec.plan import Plan
from autogen_eventlog.codec.walk import Live, Walk
from autogen_eventlog.codec.wire import TAG, Malformed, Node, Refusal

_SET = "$set"
"""`model_fields_set`, where it isn't all fields."""
_EXTRA = "$extra"
_PRIVATE = "$private"


def model_plan(cls: type[BaseModel], name: str) -> Plan:
    """Fields, extra fields, private attributes and the set of fields that were given; nothing is validated again.

    A frozen model too has an identity: its private attributes can change.
    """
    require_constructible(cls, object)
    attributes = Attributes(cls, name, cls.model_fields, slots=False)  # BaseModel's own slots are stored by name
    every = set(cls.model_fields)

    def encode(value: Live, walk: Walk, depth: int) -> object:
        form: Node = {TAG: name}
        if walk.seen.setdefault(id(value), form) is not form:
            return walk.again(value)
        form.update(attribute_forms(attributes, value, walk.fill, depth + 1))
        if value.__pydantic_fields_set__ != every:
            form[_SET] = walk.one(sorted(value.__pydantic_fields_set__), depth + 1)
        _add_dict(form, _EXTRA, value.__pydantic_extra__, walk, depth)
        _add_dict(form, _PRIVATE, value.__pydantic_private__, walk, depth)
        return form

    def decode(node: Node) -> object:
        given = _pop_set(node)
        extra, private = _pop_dict(node, _EXTRA), _pop_dict(node, _PRIVATE)
        names = attributes.names(node)
        return _built(
            cls, dict(zip(names, node.values(), strict=True)), every if given is None else given, extra, private
        )

    return Plan(name, encode, decode)


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
    given = node.pop(_SET, None)
    if given is None:
        return None
    if type(given) is not list or any(type(name) is not str for name in cast("list[object]", given)):
        raise Malformed(f"{_SET} is not a list of names")
    return set(cast("list[str]", given))


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
