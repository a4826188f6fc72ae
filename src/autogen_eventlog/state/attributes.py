"""The attributes of an object, read and set past its class: `__dict__`, and slots of every class it inherits from."""

from __future__ import annotations

from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final

from autogen_eventlog.state.parts import NotState

_ALIAS: Final = "__orig_class__"
"""`typing` sets it on what `Box[int](…)` makes: a remark on how it was written, not a part of its value."""


class Attributes:
    """Reads and writes the attributes of the instances of one class.

    A slot that a subclass defines again under the same name hides the first one, which is then named with its class.
    """

    def __init__(self, cls: type) -> None:
        self._slots = slots(cls)
        self._dict = _dict_of(cls)
        self.any = bool(self._slots) or self._dict is not None

    def read(self, value: Any) -> dict[str, Any]:
        """Slots first, then `vars()` in its order.

        Raises:
            NotState: a name can't be stored.
        """
        found: dict[str, Any] = {} if self._dict is None else dict(self._dict.__get__(value))
        found.pop(_ALIAS, None)
        if not all(type(name) is str for name in found):
            raise NotState("one of its attributes has a name that is no plain text")
        return {**self._read_slots(value), **found} if self._slots else found

    def _read_slots(self, value: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, slot in self._slots.items():
            try:
                found[name] = slot.__get__(value)
            except AttributeError:
                continue
        return found

    def write(self, instance: Any, attributes: dict[str, Any]) -> None:
        """Set these, and take away any other; neither `__setattr__` nor a property is asked.

        Raises:
            TypeError: the class has no room for one of them.
        """
        others = dict(attributes)
        for name, slot in self._slots.items():
            if name in others:
                slot.__set__(instance, others.pop(name))
            else:
                _unset(slot, instance)
        if self._dict is not None:
            own: dict[str, Any] = self._dict.__get__(instance)
            alias = own.get(_ALIAS)
            own.clear()
            own.update(others)
            if alias is not None:
                own[_ALIAS] = alias
        elif others:
            raise TypeError(f"{type(instance).__qualname__} has no room for attribute {min(others)!r}")


def slots(cls: type) -> dict[str, Any]:
    """The slots of a class and its bases, by the names under which they are told apart."""
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        if "__slots__" in vars(base):  # a class written in C has members too, which are its kind's business
            for name, member in vars(base).items():
                if isinstance(member, MemberDescriptorType):
                    found[name if name not in found else f"{base.__qualname__}.{name}"] = member
    return dict(reversed(found.items()))


def _unset(slot: Any, instance: Any) -> None:
    try:
        slot.__delete__(instance)
    except AttributeError:
        return  # it was not set


def _dict_of(cls: type) -> Any:
    """What gives the `__dict__` of an instance, whatever the class makes of that name."""
    for base in cls.__mro__:
        member = vars(base).get("__dict__")
        if isinstance(member, (GetSetDescriptorType, MemberDescriptorType)):
            return member
    return None
