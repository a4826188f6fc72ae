"""Functions of C that are held where no name leads: in closures, lists, dicts, arguments and attributes of instances.

A clock is often handed over: `lambda: Agent(clock)`, `Clock(time.time)`, `{"wall": time.time}`. The garbage collector knows
who refers to a function, so what holds it is given the gate instead. Only what refers to itself can't be changed: the
variables of a function that is running, and the keys of dicts and sets.
"""

from __future__ import annotations

import datetime
import functools
import gc
import types
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from autogen_eventlog.effects.ambient.callers import Role, role_of
from autogen_eventlog.effects.ambient.gates import Gate

_DEPTH: Final = 4
"""A tuple can't be changed, so it is replaced, and so is the tuple that holds it."""
_DATES: Final = (datetime.datetime, datetime.date)


class Held:
    """Puts gates in the place of functions, wherever these are held."""

    def __init__(self, in_place_of: Callable[[Any], Any], may_change: Callable[[str], bool]) -> None:
        """
        Args:
            in_place_of: The gate for a function; None for anything else.
            may_change: Whether the modules and classes of a module of that name may be changed.
        """
        self._in_place_of = in_place_of
        self._may_change = may_change
        self._instead: dict[int, Any] = {}
        self._namespaces: dict[int, dict[str, Any]] = {}
        self._kept: list[Any] = []
        """What ids in `_instead` stand for, so that they are not used again."""
        self.undo: list[Callable[[], object]] = []

    def replace(self, gates: list[Gate]) -> None:
        """Look through all that the garbage collector knows."""
        left_alone = {id(self._instead), id(self._kept), id(self._namespaces), *(id(vars(gate)) for gate in gates)}
        pending = [*(gate.real for gate in gates), *_methods_of_dates()]
        for one in pending:
            gate = self._in_place_of(one)
            if gate is not None:
                self._instead[id(one)] = gate
        for _ in range(_DEPTH):
            holders = gc.get_referrers(*pending)
            left_alone |= {id(pending), id(holders)}
            self._kept += pending
            pending = [one for one in holders if id(one) not in left_alone and self._in_holder(one)]
            if not pending:
                break
        self._in_namespaces()

    def _in_holder(self, holder: Any) -> bool:
        """Whether it is a tuple, which another is to take the place of."""
        kind = cast("type[Any]", type(holder))
        if kind is tuple:
            self._instead[id(holder)] = tuple(self._instead.get(id(one), one) for one in holder)
            return True
        if kind is dict:
            self._in_dict(holder)
        elif kind is list:
            self._in_list(holder)
        elif kind is types.CellType:
            self._set(holder, "cell_contents", setattr)
        elif kind is types.FunctionType:
            self._set(holder, "__defaults__", setattr)
        elif kind is functools.partial:
            self._in_partial(holder)
        elif not issubclass(kind, type) and _has_plain_attributes(kind):
            self._in_instance(holder)
        return False

    def _in_instance(self, instance: object) -> None:
        namespace: Any = getattr(instance, "__dict__", None)
        if type(namespace) is dict:
            self._in_dict(cast("dict[Any, Any]", namespace))
        for base in type(instance).__mro__:
            for name, slot in vars(base).items():
                if type(slot) is types.MemberDescriptorType:
                    self._set(instance, name, object.__setattr__)

    def _in_dict(self, namespace: dict[Any, Any]) -> None:
        module = namespace.get("__module__" if "__doc__" in namespace and "__spec__" not in namespace else "__name__")
        if isinstance(module, str):  # as far as can be seen, the namespace of a class or of a module
            if self._may_change(module):
                self._namespaces[id(namespace)] = namespace
            return
        for key, value in list(namespace.items()):
            if id(value) in self._instead:
                namespace[key] = self._instead[id(value)]
                self.undo.append(functools.partial(namespace.__setitem__, key, value))

    def _in_namespaces(self) -> None:
        """Of classes and modules, whose attributes the interpreter remembers: they are set as code does it."""
        found = list(self._namespaces.values())
        for owner in gc.get_referrers(*found) if found else ():
            if type(owner) is types.ModuleType or isinstance(owner, type):
                for name, value in list(vars(owner).items()):
                    self._set(owner, name, setattr, value)

    def _in_list(self, items: list[Any]) -> None:
        for at, value in enumerate(items):
            if id(value) in self._instead:
                items[at] = self._instead[id(value)]
                self.undo.append(functools.partial(_put_back, items, at, items[at], value))

    def _in_partial(self, partial: functools.partial[Any]) -> None:
        before = partial.func, partial.args, partial.keywords, vars(partial)
        set_state = cast("Any", partial).__setstate__
        set_state((*(self._instead.get(id(one), one) for one in before[:2]), *before[2:]))
        self.undo.append(functools.partial(set_state, before))

    def _set(self, holder: Any, name: str, setter: Callable[[Any, str, Any], None], value: Any = None) -> None:
        try:
            before = getattr(holder, name) if value is None else value
            gate = self._instead.get(id(before))
            if gate is not None:
                setter(holder, name, gate)
                self.undo.append(functools.partial(setter, holder, name, before))
        except (AttributeError, TypeError, ValueError):
            return  # empty, or of a class that forbids it: it goes on reading for itself


def _methods_of_dates() -> Iterator[Any]:
    """`datetime.now` is made anew each time that it is taken off its class, also off a subclass."""
    for found in gc.get_objects():
        owner: Any = found.__self__ if type(found) is types.BuiltinFunctionType else None
        if isinstance(owner, type) and issubclass(owner, _DATES):
            yield found


def _has_plain_attributes(kind: type[Any]) -> bool:
    """Whether an object can be changed without its code: not one of pydantic's, of the driver's or of ours."""
    module = str(getattr(kind, "__module__", ""))
    if module.partition(".")[0] in ("pydantic", "pydantic_core", "pydantic_settings"):
        return False
    plain = kind.__getattribute__ is object.__getattribute__ and not issubclass(kind, types.ModuleType)
    return plain and role_of(module) not in (Role.BESIDE, Role.AROUND)


def _put_back(items: list[Any], at: int, gate: object, value: object) -> None:
    if at < len(items) and items[at] is gate:
        items[at] = value
