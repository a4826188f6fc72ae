"""How the instances of one class keep their attributes, and how these stand in the stored form.

A field stands under its name. An attribute that is not a field (set outside, or by a cached property) stands under its
name with `EXTRA` before it, so that a reader can tell a class that lost a field from an object that had one more
attribute. The order is the order of `vars()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from types import MemberDescriptorType
from typing import Any, Generic, cast

from autogen_eventlog.codec.wire import EXTRA, UNSET, UPCAST, VERSION, Malformed, Node, Refusal, ShapeMismatch

_PYTHON_DEFINED = 1 << 9
"""Py_TPFLAGS_HEAPTYPE: the slots of a class written in C are not attributes."""
_CLASS_CHANGED = (
    "The class is not what it was when the event was written: add an upcaster (autogen_eventlog.upcaster), give the field "
    "a plain default, or restore it"
)
_SHAPES_KEPT = 64
"""Different sets of attributes remembered a class: objects that invent attribute names must not fill the memory."""

Shape = tuple[str, ...]


class Attributes:
    """Reads, names and writes the attributes of the instances of `cls`."""

    def __init__(
        self,
        cls: type,
        name: str,
        fields: Iterable[str],
        *,
        slots: bool = True,
        defaults: Mapping[str, Callable[[], object]] | None = None,
    ) -> None:
        """
        Args:
            fields: In the order of their declaration.
            defaults: What fields get that were added to the class after an object was stored.
        """
        self._name = name
        self._order = tuple(fields)
        self._fields = frozenset(self._order)
        self._defaults = defaults or {}
        self._slots = _slots(cls) if slots else {}
        self._has_dict = any("__dict__" in base.__dict__ for base in cls.__mro__)
        self.known_keys: dict[Shape, tuple[Shape, list[str]]] = {}
        self.known_names: dict[Shape, Shape] = {}
        self.read = self._reader(cls)

    def _reader(self, cls: type) -> Callable[[Any], dict[str, object]]:
        if self._slots or not self._has_dict:
            return self._read_slots
        return _read_without_alias if issubclass(cls, Generic) else attrgetter("__dict__")

    def _read_slots(self, value: object) -> dict[str, object]:
        found: dict[str, object] = {}
        for name, slot in self._slots.items():
            try:
                found[name] = slot.__get__(value, type(value))
            except AttributeError:
                continue
        if self._has_dict:
            found.update(_read_without_alias(value))
        return found

    def keys(self, shape: Shape) -> tuple[Shape, list[str]]:
        """The keys under which the attributes named in `shape` are stored, and the fields that are not among them.

        Raises:
            Refusal: an attribute's name can't be a key.
        """
        return self.known_keys.get(shape) or self.new_keys(shape)

    def new_keys(self, shape: Shape) -> tuple[Shape, list[str]]:
        """`keys`, for a shape that was not met before."""
        known = self._compile_keys(shape)
        if len(self.known_keys) < _SHAPES_KEPT:
            self.known_keys[shape] = known
        return known

    def _compile_keys(self, shape: Shape) -> tuple[Shape, list[str]]:
        for name in shape:
            if type(name) is not str or any("\ud800" <= character <= "\udfff" for character in name):
                raise Refusal(self._name, f"its attribute name {name!r} is not text")
        keys = tuple(name if name in self._fields else EXTRA + name for name in shape)
        return keys, sorted(self._fields.difference(shape))

    def names(self, node: Node) -> Shape:
        """The attribute names that the keys of a node stand for; every field accounted for, nothing left over.

        Takes the list of unset fields out of `node`.

        Raises:
            Malformed: a field is missing, or the class has no such field.
        """
        unset = node.pop(UNSET, None)
        if UPCAST in node:
            del node[UPCAST]
            self._put_in_order(node)
        shape = tuple(node)
        known = self.known_names.get(shape) if unset is None else None
        if known is None:
            if self._complete(node, unset):
                shape = tuple(node)
            known = self._compile_names(shape, [] if unset is None else unset)
            if unset is None and len(self.known_names) < _SHAPES_KEPT:
                self.known_names[shape] = known
        return known

    def _complete(self, node: Node, unset: object) -> bool:
        """Give fields that the class did not have when the object was stored their defaults."""
        absent = self._fields.difference(node, cast("list[str]", unset or ()))
        if not absent or not absent <= self._defaults.keys():
            return False
        node.update((name, self._defaults[name]()) for name in self._order if name in absent)
        self._put_in_order(node)
        return True

    def _put_in_order(self, node: Node) -> None:
        """The order in which a constructor sets them: that of their declaration, then what is no field."""
        declared = {name: node.pop(name) for name in self._order if name in node}
        rest = dict(node)
        node.clear()
        node.update(declared)
        node.update(rest)

    def _compile_names(self, shape: Shape, unset: object) -> Shape:
        if not isinstance(unset, list):
            raise Malformed(f"{UNSET} is not a list")
        names = tuple(self._name_of(key) for key in shape)
        missing = self._fields.difference(names, cast("list[str]", unset))
        if missing:
            raise ShapeMismatch(f"field {min(missing)!r} of class {self._name!r} is not stored", _CLASS_CHANGED)
        return names

    def _name_of(self, key: str) -> str:
        if key in self._fields:
            return key
        name = key.removeprefix(EXTRA)
        if key == VERSION:
            problem = f"a later version of class {self._name!r} is stored than this code knows"
            raise ShapeMismatch(problem, "Run the code that wrote it, or a later one")
        if name == key:
            raise ShapeMismatch(f"field {key!r} is stored, but class {self._name!r} has no such field", _CLASS_CHANGED)
        if not self._has_dict and name not in self._slots:
            raise ShapeMismatch(f"class {self._name!r} has no room for attribute {name!r}", _CLASS_CHANGED)
        return name

    def write(self, instance: Any, names: Shape, values: Iterable[object]) -> None:
        """Set the attributes of a new instance; runs no code of its class, frozen or not."""
        if not self._slots:
            if names:
                instance.__dict__.update(zip(names, values, strict=True))
            return
        for name, value in zip(names, values, strict=True):
            if name in self._slots:
                self._slots[name].__set__(instance, value)
            else:
                instance.__dict__[name] = value


def attribute_forms(
    attributes: Attributes, value: object, fill: Callable[[list[object], Iterable[Any], int], list[object]], depth: int
) -> Node:
    """The stored attributes of `value`, each at nesting level `depth`."""
    found = attributes.read(value)
    shape = tuple(found)
    keys, unset = attributes.keys(shape)
    try:
        form: Node = dict(zip(keys, fill([], found.values(), depth), strict=True))
    except Refusal as refusal:
        refusal.name_step([f".{name}" for name in shape])
        raise
    if unset:
        form[UNSET] = unset
    return form


def _read_without_alias(value: Any) -> dict[str, object]:
    # typing sets __orig_class__ on `Box[int](…)`: a remark on how the object was written, not a part of its value
    found: dict[str, object] = value.__dict__
    if "__orig_class__" in found:
        found = {name: item for name, item in found.items() if name != "__orig_class__"}
    return found


def _slots(cls: type) -> dict[str, MemberDescriptorType]:
    return {
        name: member
        for base in reversed(cls.__mro__)
        if base.__flags__ & _PYTHON_DEFINED
        for name, member in base.__dict__.items()
        if isinstance(member, MemberDescriptorType)
    }
