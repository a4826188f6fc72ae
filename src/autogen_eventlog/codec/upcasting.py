"""Old shapes of stored classes, brought to today's as they are read. Stored rows stay as they are.

A class has versions, from 1 on, counted by its upcasters: one for version 1 makes today's version 2, and what is written from
then on says so. A class that was renamed or moved is found under its old name. Both are facts of the code, not of one log, so
they hold for the process; put them next to the class.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from autogen_eventlog.codec.names import split_arguments, type_name
from autogen_eventlog.codec.wire import SET, UPCAST, VERSION, ShapeMismatch

Fields = dict[str, Any]
Step = Callable[[Fields], "Fields | None"]
F = TypeVar("F", bound=Step)

_METHOD = re.compile(r"upcast_v(\d+)_v(\d+)$")
_FARTHEST = 1000
_REMEDY = "Register an upcaster for that version (autogen_eventlog.upcaster), next to the class"


@dataclass(frozen=True, slots=True)
class NamedStep:
    """An upcaster, and for what it is."""

    step: Step
    name: str
    version: int

    def node(self, node: Fields) -> Fields:
        """The step on a stored node; what stands beside the fields, under names with `$`, is not shown to it."""
        beside = {key: value for key, value in node.items() if key.startswith("$")}
        before = node.keys() - beside.keys()
        made = self.fields({key: value for key, value in node.items() if not key.startswith("$")})
        if isinstance(beside.get(SET), list):  # what it adds was given, as what it was made of was
            given = cast("list[str]", beside[SET])
            beside[SET] = [*(name for name in given if name in made), *(name for name in made if name not in before)]
        return {**made, **beside, UPCAST: True}

    def fields(self, fields: Fields) -> Fields:
        """The step.

        Raises:
            ShapeMismatch: It raised, or gave no fields.
        """
        which = f"the upcaster of {self.name!r} for version {self.version}"
        try:
            given = self.step(fields)
        except Exception as error:
            problem = f"{which} raised {type(error).__name__}: {error}"
            raise ShapeMismatch(problem, "Correct the upcaster") from error
        made = cast("object", fields if given is None else given)
        if not isinstance(made, dict) or not all(isinstance(key, str) for key in cast("dict[Any, Any]", made)):
            raise ShapeMismatch(f"{which} gave no fields by name: {made!r}")
        return cast("Fields", made)


class Upcasting:
    """The upcasters and old names of one process."""

    def __init__(self) -> None:
        self.generation = 0
        """Grows with every change, so that a codec knows when what it has compiled is stale."""
        self._steps: dict[tuple[str, int], Step] = {}
        self._renamed: dict[str, str] = {}
        self._versions: WeakKeyDictionary[type, int] = WeakKeyDictionary()
        self._versions_of = 0

    def upcaster(self, cls: type | str, *, version: int) -> Callable[[F], F]:
        """Register a function that turns the fields of a stored version into those of the next one (a decorator).

        It is given the fields of one object by name, those within them as objects of today, and changes them in place or
        returns others. It must only compute. It holds for all that a generic model is parametrised with, and for
        subclasses that have no upcasters of their own.

        Args:
            cls: The class, or the `module:qualname` that is stored where the class is no more.
            version: The stored one, from 1 on.

        Raises:
            ValueError: There is one for this version already, or the version can't be.
        """
        name = _name(cls)
        if version < 1:
            raise ValueError(f"versions count from 1 on, not {version}")
        if (name, version) in self._steps:
            raise ValueError(f"{name!r} has an upcaster for version {version} already")

        def register(step: F) -> F:
            self._steps[name, version] = step
            self.generation += 1
            return step

        return register

    def renamed(self, old: str, cls: type | str) -> None:
        """Say that what is stored as `old` (`module:qualname`) is `cls` today.

        Raises:
            ValueError: It would lead back to itself, or `old` is called otherwise already.
        """
        new = _name(cls)
        if self._renamed.get(old, new) != new:
            raise ValueError(f"{old!r} is {self._renamed[old]!r} already")
        seen, name = {old}, new
        while name in self._renamed:
            name = self._renamed[name]
        if name in seen:
            raise ValueError(f"{old!r} would be renamed to itself")
        self._renamed[old] = new
        self.generation += 1

    def version_of(self, cls: type) -> int:
        """The version that instances are written as today."""
        if self._versions_of != self.generation:
            self._versions, self._versions_of = WeakKeyDictionary(), self.generation
        version = self._versions.get(cls)
        if version is None:
            self._versions[cls] = version = self._version_of(cls)
        return version

    def _version_of(self, cls: type) -> int:
        methods = [int(found[2]) - 1 for found in map(_METHOD.match, dir(cls)) if found is not None]
        return max([_declared(cls), *(version + 1 for version in (*self._steps_of(cls), *methods))])

    def _steps_of(self, cls: type) -> dict[int, Step]:
        """The upcasters of a class by version: its own, or those of the nearest base class that has any."""
        found = (self._own_steps(base) for base in cls.__mro__)
        return next((steps for steps in found if steps), dict[int, Step]())

    def _own_steps(self, cls: type) -> dict[int, Step]:
        """Those that are registered for the class itself, for what it parametrises, or for an old name of these."""
        if not self._steps:
            return {}
        name = type_name(cls)
        today = (name, _origin(name))
        old = (old for old in self._renamed if self.today(old) in today)
        names = list(dict.fromkeys((*today, *old)))
        found = [(version, stored) for stored, version in self._steps if stored in names]
        nearest = sorted(found, key=lambda one: names.index(one[1]), reverse=True)
        return {version: self._steps[stored, version] for version, stored in nearest}

    @property
    def empty(self) -> bool:
        """Whether no class has another name."""
        return not self._renamed

    def concerns(self, name: str, cls: type | None) -> bool:
        """Whether what is stored under a name may be of another shape than today's, or have another name."""
        registered = any(stored in (name, _origin(name)) for stored, _ in self._steps)
        return registered or self.today(name) != name or (cls is not None and self.version_of(cls) > 1)

    def today(self, name: str) -> str:
        """What a class is called today, arguments of a generic one included."""
        while name in self._renamed:
            name = self._renamed[name]
        split = split_arguments(name)
        if split is None:
            return name
        return f"{self.today(split[0])}[{', '.join(map(self.today, split[1]))}]"

    def apply(self, name: str, node: Fields, find: Callable[[str], type | None]) -> tuple[str, Fields]:
        """A stored object under today's name, in today's shape.

        Args:
            find: The class of a name, if it is allowed here.

        Raises:
            ShapeMismatch: No upcasters lead to today's version, or it was written by a later one.
        """
        name, steps = self.way(name, node.pop(VERSION, 1), find)
        for step in steps:
            node = step.node(node)
        return name, node

    def way(self, name: str, version: object, find: Callable[[str], type | None]) -> tuple[str, tuple[NamedStep, ...]]:
        """What a stored class is called today, and what turns its stored version into today's.

        Args:
            find: The class of a name, if it is allowed here.

        Raises:
            ShapeMismatch: No upcasters lead to today's version, or it was written by a later one.
        """
        if type(version) is not int or version < 1:
            raise ShapeMismatch(f"{VERSION} of a {name!r} is {version!r}, not a version")
        steps: list[NamedStep] = []
        for _ in range(_FARTHEST):
            step = self._steps.get((name, version)) or self._steps.get((_origin(name), version))
            if step is None and self.today(name) != name:
                name = self._next_name(name)
                continue
            cls = None if step is not None else find(name)
            if step is None and cls is not None and version < self.version_of(cls):
                step = self._steps_of(cls).get(version) or _method(cls, version)
                if step is None:
                    found = f"a {name!r} of version {version} is stored; today's is version {self.version_of(cls)}"
                    raise ShapeMismatch(f"{found}, and no upcaster leads there", _REMEDY)
            if step is None:
                if cls is not None and version > self.version_of(cls):
                    raise ShapeMismatch(
                        f"a {name!r} of version {version} is stored; this code knows versions up to {self.version_of(cls)}",
                        "Run the code that wrote it, or a later one",
                    )
                return name, tuple(steps)
            steps.append(NamedStep(step, name, version))
            version += 1
        raise ShapeMismatch(f"the upcasters of {name!r} don't come to an end")

    def _next_name(self, name: str) -> str:
        return self._renamed.get(name) or self.today(name)


def _method(cls: type, version: int) -> Step | None:
    """eventsourcing's own way: a static method of the class."""
    return getattr(cls, f"upcast_v{version}_v{version + 1}", None)


def _origin(name: str) -> str:
    """Of `m:Box[m:Item]` the `m:Box`; of other names themselves."""
    return name.partition("[")[0]


def _declared(cls: type) -> int:
    """eventsourcing's `class_version`, unless it is a field of the messages themselves."""
    shape: Any = cls
    fields = getattr(shape, "__dataclass_fields__", None) or getattr(shape, "model_fields", None)
    declared: object = getattr(shape, "class_version", 1)
    is_field = "class_version" in (fields or getattr(shape, "_fields", ()))
    return declared if isinstance(declared, int) and not is_field and declared > 0 else 1


def _name(cls: type | str) -> str:
    if isinstance(cls, type):
        return type_name(cls)
    if ":" not in cls:
        raise ValueError(f"{cls!r}: give the stored name, module:qualname")
    return cls


UPCASTING = Upcasting()
"""The process's own."""
upcaster = UPCASTING.upcaster
renamed = UPCASTING.renamed
