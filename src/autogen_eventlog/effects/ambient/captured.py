"""What was imported before the gates stood: functions of C under other names, in modules, classes and defaults.

A module that is imported later finds the gates. One that was imported before may hold the function itself
(`from time import time`, `Field(default_factory=datetime.now)`). Where such a name is known to be looked up, the gate
takes its place. The modules of Python, of pydantic, of the database driver and our own are left as they are.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import logging
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, cast

from pydantic import BaseModel
from pydantic.dataclasses import rebuild_dataclass

from autogen_eventlog.effects.ambient.callers import Role, role_of
from autogen_eventlog.effects.ambient.gates import Gate
from autogen_eventlog.effects.ambient.held import Held

logger = logging.getLogger(__name__)

_LEFT_ALONE = frozenset({"pydantic", "pydantic_core", "pydantic_settings"})
_DATES = (datetime.datetime, datetime.date)
_DATE_METHODS = frozenset({"now", "utcnow", "today"})


class Captured:
    """Puts gates in the place of what they replace.

    Args:
        gates: One for each function that is to be replaced.
    """

    def __init__(self, gates: list[Gate]) -> None:
        self._all = gates
        self._gates: dict[int, Callable[..., Any]] = {id(gate.real): gate.method for gate in gates}
        self._models: set[type[Any]] = set()
        """Models, and dataclasses of pydantic's, that must be built again."""
        self._undo: list[Callable[[], object]] = []

    def replace(self) -> Callable[[], None]:
        """Look through all loaded modules, and all else; what puts the functions back into their places is returned."""
        held = Held(self._in_place_of, _may_change)
        held.replace(self._all)  # first: what undoes the rest holds the functions too
        self._undo += held.undo
        for name, module in list(sys.modules.items()):
            if type(module) is types.ModuleType and _may_change(name):
                self._in_namespace(name, vars(module))
        for model in list(_subclasses(BaseModel)):
            if _may_change(model.__module__):
                self._in_model(model)
        self._rebuild()
        return self._put_back

    def _put_back(self) -> None:
        for undo in reversed(self._undo):
            undo()

    # -- namespaces -----------------------------------------------------------------------------------------------

    def _in_namespace(self, module: str, namespace: dict[str, Any]) -> None:
        for name, value in list(namespace.items()):
            gate = self._in_place_of(value)
            if gate is not None:
                namespace[name] = gate
                self._undo.append(functools.partial(namespace.__setitem__, name, value))
            elif type(value) is types.FunctionType and value.__module__ == module:
                self._in_function(value)
            elif issubclass(type(value), type) and value.__module__ == module:
                self._in_class(cast("type[Any]", value))

    def _in_class(self, cls: type) -> None:
        for name, value in list(vars(cls).items()):
            gate = self._in_place_of(value)
            if gate is not None:
                self._set(cls, name, gate)
            elif type(value) is types.FunctionType:
                self._in_function(value)
            elif issubclass(type(value), type) and value.__qualname__ == f"{cls.__qualname__}.{name}":
                self._in_class(cast("type[Any]", value))
        if dataclasses.is_dataclass(cls):
            self._in_dataclass(cls)

    def _in_dataclass(self, cls: type) -> None:
        fields: list[Any] = list(dataclasses.fields(cast("Any", cls)))
        of_pydantic: dict[str, Any] | None = vars(cls).get("__pydantic_fields__")
        if of_pydantic is not None:
            fields += [*of_pydantic.values(), *(field.default for field in fields)]
        for field in fields:
            gate = self._in_place_of(getattr(field, "default_factory", None))
            if gate is not None:
                self._set(field, "default_factory", gate)
                if of_pydantic is not None:
                    self._models.add(cls)

    def _in_function(self, function: types.FunctionType) -> None:
        """Defaults, and variables of a closure: where the generated `__init__` of a dataclass has its factories."""
        if function.__defaults__ is not None:
            gates = [self._in_place_of(value) for value in function.__defaults__]
            if any(gates):
                both = zip(gates, function.__defaults__, strict=True)
                self._set(function, "__defaults__", tuple(value if gate is None else gate for gate, value in both))
        by_name: dict[str, Any] = function.__kwdefaults__ or {}
        for name, value in by_name.items():
            gate = self._in_place_of(value)
            if gate is not None:
                by_name[name] = gate
                self._undo.append(functools.partial(by_name.__setitem__, name, value))
        for cell in function.__closure__ or ():
            gate = self._in_place_of(_content(cell))
            if gate is not None:
                self._set(cell, "cell_contents", gate)

    def _set(self, holder: Any, name: str, value: Any) -> None:
        before = vars(holder)[name] if isinstance(holder, type) else getattr(holder, name)
        try:
            setattr(holder, name, value)
        except (AttributeError, TypeError):
            return  # a class whose metaclass forbids it: it goes on reading for itself
        self._undo.append(functools.partial(setattr, holder, name, before))

    def _in_place_of(self, value: Any) -> Any:
        """The gate for a function, also inside `staticmethod` and `partial`; None for anything else.

        It goes by `type(value)`: an object of somebody's may act when its attributes are read.
        """
        if type(value) in (types.BuiltinFunctionType, types.MethodType):
            return self._gates.get(id(value)) or _of_date(value)
        if type(value) is staticmethod:
            gate = self._in_place_of(cast("staticmethod[..., Any]", value).__func__)
            return None if gate is None else staticmethod(gate)
        if type(value) is functools.partial:
            partial = cast("functools.partial[Any]", value)
            gate = self._in_place_of(partial.func)
            return None if gate is None else functools.partial(gate, *partial.args, **partial.keywords)
        return None

    # -- pydantic -------------------------------------------------------------------------------------------------

    def _in_model(self, model: type[BaseModel]) -> None:
        for field in model.model_fields.values():
            gate = self._in_place_of(field.default_factory)
            if gate is not None:
                self._set(field, "default_factory", gate)
                self._models.add(model)

    def _rebuild(self) -> None:
        """A model's schema holds its factories, and those of the models in it."""
        if not self._models:
            return
        changed = {model.__name__ for model in self._models}
        data = [cls for cls in self._models if not issubclass(cls, BaseModel)]
        models: list[type[Any]] = [*data, *_subclasses(BaseModel)]
        for model in models:
            if _may_change(model.__module__) and (model in self._models or _names(model) & changed):
                try:
                    _built_again(model)
                except Exception as error:  # pydantic's, and what a name of the user's raises that can't be found now
                    logger.warning(
                        "%s.%s draws from a clock or at random by a default that can't be recorded (%s). Import it after "
                        "the first agent is made, or give a lambda as its default_factory",
                        model.__module__,
                        model.__qualname__,
                        error,
                    )


def _built_again(model: type[Any]) -> None:
    if issubclass(model, BaseModel):
        model.model_rebuild(force=True, raise_errors=True)
    else:
        rebuild_dataclass(cast("Any", model), force=True, raise_errors=True)


def _may_change(module: str) -> bool:
    top = module.partition(".")[0]
    return bool(module) and top not in _LEFT_ALONE and role_of(module) is Role.AGENT


def _of_date(value: Any) -> Any:
    """`datetime.now` as it was taken off the class before."""
    owner: Any = getattr(value, "__self__", None)
    if not (isinstance(owner, type) and issubclass(owner, _DATES) and value.__name__ in _DATE_METHODS):
        return None
    found = getattr(owner, value.__name__)
    return found if isinstance(value, types.BuiltinFunctionType) and found is not value else None


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that is not set yet
        return None


def _subclasses(cls: type) -> Iterator[type[BaseModel]]:
    pending, seen = [cls], set[type]()
    while pending:
        for found in pending.pop().__subclasses__():
            if found not in seen:
                seen.add(found)
                pending.append(found)
                yield cast("type[BaseModel]", found)


def _names(model: type[Any]) -> set[str]:
    """The names in a model's schema, of which those of the models in it are some."""
    text = repr(model.__pydantic_core_schema__)
    return {name for name in text.replace("'", " ").replace(".", " ").replace(":", " ").split() if name.isidentifier()}
