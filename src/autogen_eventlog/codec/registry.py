"""The allow-list: which stored names may become objects (G10)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeVar

from autogen_eventlog.codec.annotations import classes_in, named_classes
from autogen_eventlog.codec.kinds import BUILTIN_ENCODERS, Custom, allowed_always, is_message_like
from autogen_eventlog.codec.names import generic_metadata, split_arguments, type_name

T = TypeVar("T")
_PRIMITIVES = (bool, int, float, str, type(None))
_ALWAYS = frozenset({*_PRIMITIVES, *BUILTIN_ENCODERS})
_ARGUMENTS = {type_name(kind): kind for kind in _ALWAYS}
_DEEPEST_ARGUMENT = 4
_FRAMEWORKS = frozenset(
    {*sys.stdlib_module_names, "pydantic", "pydantic_core", "google", "typing_extensions"} - {"__main__"}
)


class TypeRegistry:
    """Classes that stored data may be decoded to.

    A registered class brings the classes its annotations name, and permits its subclasses that are loaded already: a
    base class cannot know them, and a field declared as the base may hold any of them. Nothing is ever imported.
    """

    def __init__(self) -> None:
        self.generation = 0
        """Grows with every change, so that a codec knows when what it has compiled is stale."""
        self._classes: dict[str, type] = {}
        self._customs: dict[type, Custom] = {}
        self._parametrised: dict[str, type] = {}

    def register(self, *types: Any) -> None:
        """Allow these classes, and what their annotations name. Of two classes of one name the latest wins.

        Args:
            types: classes, or types made of them (`Order | Refusal`, `list[Order]`). Built-in ones are allowed anyway.

        Raises:
            TypeError: one of `types` names no class that can be data.
        """
        for given in types:
            named = list(classes_in(given))
            found = [cls for cls in named if _is_registrable(cls)]
            if not found and not any(cls in _ALWAYS for cls in named):
                raise TypeError(f"{given!r} is not a dataclass, pydantic model, enum, NamedTuple or protobuf message")
            self._add_all(found)

    def register_module(self, module: ModuleType) -> None:
        """Allow every message-like class that the module's namespace shows, its own and those it imported."""
        self._add_all([cls for cls in vars(module).values() if isinstance(cls, type) and _is_shown(cls)])

    def register_custom(self, cls: type[T], to_data: Callable[[T], object], from_data: Callable[[Any], T]) -> None:
        """Allow a class that has no declared shape.

        Args:
            cls: exactly this class, not its subclasses.
            to_data: gives encodable data that says everything about an instance.
            from_data: builds an equal instance of `cls` from that data, and does nothing else.
        """
        self._customs[cls] = Custom(to_data, from_data)
        self._add_all([cls])

    def custom(self, cls: type) -> Custom | None:
        """What `register_custom` was given for exactly this class."""
        return self._customs.get(cls)

    def registered(self, name: str) -> type | None:
        """The class that was registered under this name; looks no further."""
        return self._classes.get(name)

    def resolve(self, name: str) -> type | None:
        """The class of a stored `module:qualname`: registered, or a loaded subclass of a registered one; no import.

        A parametrised pydantic model (`m:Box[m:Item]`) is found if its origin and its arguments are. Classes of this
        package's own fixed list (AutoGen's `AgentId`, `TopicId`, `Image` …) need no registering.
        """
        return (
            self._classes.get(name)
            or allowed_always(name)
            or self._loaded_subclass(name)
            or self._parametrise(name, _DEEPEST_ARGUMENT)
        )

    def names(self) -> list[str]:
        """The registered names, sorted; loaded subclasses are allowed beyond these."""
        return sorted(self._classes)

    def _add_all(self, found: list[type]) -> None:
        pending, done = list(found), set[type]()
        while pending:
            cls = pending.pop()
            if cls in done:
                continue
            done.add(cls)
            self._classes[type_name(cls)] = cls
            pending.extend(named for named in _related(cls) if _is_registrable(named))
        self.generation += 1

    def _loaded_subclass(self, name: str) -> type | None:
        latest: type | None = None
        for cls in self._loaded():
            if type_name(cls) == name:
                latest = cls
        return latest

    def _loaded(self) -> Iterator[type]:
        pending, done = list(self._classes.values()), set[type]()
        while pending:
            cls = pending.pop(0)
            if cls in done:
                continue
            done.add(cls)
            yield cls
            pending.extend(type.__subclasses__(cls))

    def _parametrise(self, name: str, deepest: int) -> type | None:
        if name in self._parametrised:
            return self._parametrised[name]
        split = split_arguments(name)
        if split is None or deepest == 0:
            return None
        origin = self._classes.get(split[0]) or self._loaded_subclass(split[0])
        arguments = [self._argument(argument, deepest) for argument in split[1]]
        parameters: tuple[object, ...] = getattr(origin, "__pydantic_generic_metadata__", {}).get("parameters", ())
        if origin is None or None in arguments or len(parameters) != len(arguments):
            return None
        return self._keep_parametrised(name, origin, arguments)

    def _argument(self, name: str, deepest: int) -> type | None:
        plain = _ARGUMENTS.get(name) or self._classes.get(name) or self._loaded_subclass(name)
        return plain or self._parametrise(name, deepest - 1)

    def _keep_parametrised(self, name: str, origin: Any, arguments: list[type | None]) -> type | None:
        # pydantic holds its parametrised classes weakly
        try:
            cls: type = origin[tuple(arguments)]
        except Exception:  # an argument that the bound of the type variable refuses
            return None
        if type_name(cls) == name:
            self._parametrised[name] = cls
            return cls
        return None


def _related(cls: type) -> Iterator[type]:
    metadata = generic_metadata(cls)
    if metadata is not None:
        yield from (named for part in (metadata["origin"], *metadata["args"]) for named in classes_in(part))
    yield from named_classes(cls)


def _is_shown(cls: type) -> bool:
    return _is_registrable(cls) and is_message_like(cls)


def _is_registrable(cls: type) -> bool:
    """Of the standard library and of frameworks only what is a shape itself: `object` would permit everything."""
    if BaseException in cls.__mro__ or cls in _ALWAYS:
        return False
    if cls.__module__.partition(".")[0] in _FRAMEWORKS:
        return _is_concrete(cls)
    return True


def _is_concrete(cls: type) -> bool:
    declared = any(getattr(cls, mark, None) for mark in ("__dataclass_fields__", "__members__", "DESCRIPTOR"))
    return declared and is_message_like(cls)
