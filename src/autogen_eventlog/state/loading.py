"""A captured state, put into a fresh instance: checked first, then set, and taken back if anything fails (G3, G10).

Objects that the fresh instance has at the same place, of the same class, are kept and filled anew: what a tool or another
part of the wiring holds on to stays the agent's. Wiring itself is kept as it is. All else is made, without running a
constructor. Everything is decoded before the first attribute is set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, Final, cast

from autogen_core import RoutedAgent

from autogen_eventlog.codec import Codec
from autogen_eventlog.codec.kinds import plain_defaults
from autogen_eventlog.codec.names import type_name
from autogen_eventlog.codec.upcasting import UPCASTING, NamedStep
from autogen_eventlog.codec.wire import VERSION, Malformed, ShapeMismatch, Unknown
from autogen_eventlog.errors import NotLoadable, PayloadCorrupt, ShapeChanged, TypeNotAllowed
from autogen_eventlog.state.borrowing import equal, reached
from autogen_eventlog.state.callables import Cell, Function, made
from autogen_eventlog.state.declared import Declared, declared
from autogen_eventlog.state.form import (
    ATTRIBUTES,
    DATA,
    ELEMENTS,
    KEYS,
    ORDER,
    ROOM,
    SHOWN,
    TAG,
    WIRING,
    Entry,
    Form,
    Stored,
    number_of,
    parsed,
)
from autogen_eventlog.state.idle import running_loop
from autogen_eventlog.state.kind import Kind
from autogen_eventlog.state.kinds import Kinds
from autogen_eventlog.state.leaves import Leaves
from autogen_eventlog.state.matching import match
from autogen_eventlog.state.objects import Plain
from autogen_eventlog.state.orders import is_room
from autogen_eventlog.state.parts import PARTS, Parts
from autogen_eventlog.state.pause import undisturbed
from autogen_eventlog.state.places import path_to
from autogen_eventlog.state.shown import Shown
from autogen_eventlog.state.walk import Walk

_HANDLERS: Final = "_handlers"
"""Where AutoGen's `RoutedAgent` keeps which method handles what: a part of the code, and so today's."""
_NOTHING: Final = "list"

_RENAMED: Final = (
    "Say what became of it with an upcaster for the class (autogen_eventlog.upcaster); one that changes nothing will do"
)
_NOT_SHARED: Final = "Let the constructor copy it, and it can be restored from snapshots; replay restores it as it is"
_GIVEN: Final = "Give it with an upcaster for the class (autogen_eventlog.upcaster), or give it a default"
_FACTORY: Final = "Make the instance by the factory that made the one whose state it is"


def load(
    data: bytes,
    *,
    into: object,
    codec: Codec,
    outside: Collection[object] = (),
    wiring: tuple[type, ...] = (),
    borrowed: Collection[object] = (),
    let_go: Collection[object] = (),
    other_code: bool = False,
) -> None:
    """Give a fresh instance a captured state. Either all of it is set, or nothing.

    Args:
        into: made by the same factory as the agent whose state it is, and not used yet.
        outside: what is wiring in the fresh instance, as given to `capture`.
        wiring: as given to `capture`.
        borrowed: what hangs on the fresh instance and others have too. It is not changed: a state that has other content
            in its place can't be loaded.
        let_go: of these, what the agent no longer had where it was. What is there in the state is the agent's own, whatever
            its content.
        other_code: it was captured under other code. Attributes that today's constructor sets, and that the state knows
            nothing of, then stay as they are.

    Raises:
        PayloadCorrupt: the bytes are not a captured state.
        ShapeChanged: no upcasters lead from the shape of a class then to its shape now.
        TypeNotAllowed: it names a class or function that neither the fresh instance nor the agent's code shows.
        NotLoadable: the instance lacks wiring that the agent had, is of another class, or has borrowed what is other now.
    """
    where = f"state of {type_name(type(into))}"
    with undisturbed():
        _Loading(parsed(data, where), into, codec, outside, wiring, other_code).run(where, borrowed, let_go)


class _Loading:
    def __init__(
        self,
        stored: Stored,
        fresh: object,
        codec: Codec,
        outside: Collection[object],
        wiring: tuple[type, ...],
        other_code: bool,
    ) -> None:
        self._other_code = other_code
        self._steps: dict[int, tuple[NamedStep, ...]] = {}
        self._find = codec.find_class
        self._root = stored.root
        self._entries = stored.entries
        self._references = stored.references
        self._fresh = fresh
        self._kinds = Kinds(codec, wiring)
        self._walk = Walk(self._kinds, outside, lenient=True)
        self._walk.run(fresh)
        self._shown = Shown(fresh, self._walk, self._kinds, codec)
        own = self._kinds[type(fresh)]
        attributes = own.attributes.read(fresh) if isinstance(own, Plain) else {}
        self._leaves = Leaves(self._shown, attributes.get("_id"))
        self._matched: dict[int, int] = {}
        self._of: list[Kind | None] = []
        self._parts: list[Parts] = []
        self._built: list[Any] = [None] * len(stored.entries)
        self._named: dict[str, Kind] = {}
        self._in_place: set[int] = set()
        self._declared: dict[type, Declared] = {}
        self._hashing: dict[int, bool] = {}
        """Of values: whether something that has an identity lies in them, whose hash may follow what it holds."""
        self._done: set[int] = set()
        self._at = 0

    def run(self, where: str, borrowed: Collection[object], let_go: Collection[object]) -> None:
        try:
            self._bring_up_to_date()
            self._check_class()
            self._matched = match(self._entries, self._root, self._walk.entries, 0)
            self._check_borrowed(borrowed, let_go)
            self._decode()
            self._shells()
            self._set(list(self._order()))
        except Unknown as unknown:
            raise TypeNotAllowed(unknown.type_name, self._path()) from None
        except ShapeMismatch as problem:
            raise ShapeChanged(f"{where}: {self._path()}", problem.problem, *filter(None, [problem.remedy])) from None
        except Malformed as problem:
            remedy = (problem.remedy,) if problem.remedy else ()
            raise PayloadCorrupt(f"{where}: {self._path()}", problem.problem, *remedy) from None
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, BufferError) as error:
            raise PayloadCorrupt(f"{where}: {self._path()}", f"{type(error).__name__}: {error}") from error

    def _path(self) -> str:
        return path_to(self._entries, self._root, self._at)

    def _bring_up_to_date(self) -> None:
        """Today's names, and what turns old shapes into today's once their attributes are there."""
        if self._other_code and isinstance(self._fresh, RoutedAgent):
            self._leave_out(_HANDLERS)
        ways: dict[tuple[str, Any], tuple[str, tuple[NamedStep, ...]]] = {}
        for self._at, entry in enumerate(self._entries):  # noqa: B020
            known = entry[TAG], entry.pop(VERSION, 1)
            if ":" not in known[0]:
                continue
            if known not in ways:
                ways[known] = UPCASTING.way(*known, self._class)
            entry[TAG], steps = ways[known]
            if steps:
                self._steps[self._at] = steps

    def _leave_out(self, attribute: str) -> None:
        """An attribute of the agent's own, and what nothing else leads to."""
        root = self._entries[self._root]
        if root.get(ATTRIBUTES, {}).pop(attribute, None) is None:
            return
        self._references[self._root] = [number for form in _forms_in(root) if (number := number_of(form)) is not None]
        met, pending = {self._root}, [self._root]
        while pending:
            for number in self._references[pending.pop()]:
                if number not in met:
                    met.add(number)
                    pending.append(number)
        for number in range(len(self._entries)):
            if number not in met:
                self._entries[number], self._references[number] = {TAG: _NOTHING}, []

    def _class(self, name: str) -> type | None:
        own = type(self._fresh)
        return own if type_name(own) == name else self._find(name) or self._shown.made(name)

    def _check_class(self) -> None:
        stored, found = self._entries[self._root][TAG], type_name(type(self._fresh))
        if stored != found:
            raise NotLoadable(found, "self", f"an agent of class {stored!r}", f"one of {found!r}", _FACTORY)

    def _check_borrowed(self, borrowed: Collection[object], let_go: Collection[object]) -> None:
        """That nothing is put into what others have too: what they have put there is in it, or it is the module's.

        Raises:
            NotLoadable: the state has other content there. Whether the agent had changed it or had one of its own by
                then, only replay can tell.
        """
        theirs, others = reached(self._walk, borrowed), set(map(id, let_go))
        same: dict[int, int] = {}
        for self._at, other in self._matched.items():  # noqa: B020
            if other in theirs and (
                id(self._walk.objects[other]) in others
                or not equal(self._entries, self._at, self._walk.entries, other, same)
            ):
                found = "another, in an object that the constructor shares with others"
                raise NotLoadable(
                    type_name(type(self._fresh)), self._path(), "its content as captured", found, _NOT_SHARED
                )

    # -- checking -------------------------------------------------------------------------------------------------

    def _decode(self) -> None:
        for self._at, entry in enumerate(self._entries):  # noqa: B020  (the place, should it fail)
            self._of.append(self._kind(entry))
            self._parts.append(self._decoded(entry))

    def _kind(self, entry: Entry) -> Kind | None:
        if entry[TAG] == WIRING:
            self._wire(entry)
            return None
        if entry[TAG] == SHOWN:
            self._built[self._at] = self._constant(entry)
            return None
        name = entry[TAG]
        kind = self._named.get(name) or self._kinds.named(name, self._shown.made)
        if kind is None:
            raise Unknown(name)
        self._named[name] = kind
        return kind

    def _wire(self, entry: Entry) -> None:
        if self._at not in self._matched:
            expected = f"wiring of class {entry[DATA][0]!r}"
            if entry[DATA][1] is not None:
                expected += f" ({entry[DATA][1]})"
            raise NotLoadable(
                type_name(type(self._fresh)), self._path(), expected, "none in the fresh instance", _FACTORY
            )
        self._built[self._at] = self._walk.objects[self._matched[self._at]]

    def _constant(self, entry: Entry) -> _Box:
        found = self._shown.constant(entry.get(DATA))
        if found is None:
            raise Unknown(str(entry.get(DATA)))
        return _Box(found)

    def _decoded(self, entry: Entry) -> Parts:
        parts = Parts(data=entry.get(DATA))
        for letter, form in entry.items():
            if letter == ATTRIBUTES:
                parts.attributes = dict(zip(form, self._values(form.values()), strict=True))
            elif letter in PARTS:
                setattr(parts, PARTS[letter], self._values(form))
        if ORDER in entry and sorted(entry[ORDER]) != list(range(len(parts.elements or ()))):
            raise Malformed("its order is not one of its elements")
        parts.order, parts.room = entry.get(ORDER), entry.get(ROOM)
        if parts.room is not None and not is_room(parts.room):
            raise Malformed("its table has no size that tables have")
        return parts

    def _values(self, forms: Collection[Form]) -> list[Any]:
        """The values of leaves; references stay as they are: no leaf is a list."""
        return [self._leaf(form) if type(form) is dict else form for form in forms]

    def _leaf(self, form: Form) -> Any:
        return running_loop() if form == {TAG: "loop"} else self._leaves.value(form)

    # -- making ---------------------------------------------------------------------------------------------------

    def _shells(self) -> None:
        """An object for each that has an identity: the fresh instance's own, or a new one."""
        functions: list[int] = []
        for self._at, kind in enumerate(self._of):  # noqa: B020
            if isinstance(kind, Function):
                functions.append(self._at)
            elif kind is not None and kind.shared and not kind.composed:
                self._built[self._at] = self._kept(kind) or self._new(kind)
        for self._at in functions:
            self._built[self._at] = self._function()

    def _kept(self, kind: Kind) -> Any:
        number = self._matched.get(self._at)
        if number is None or not (kind.in_place or isinstance(kind, Cell)):
            return None
        if kind.fixed and self._entries[self._at].get(DATA) != self._walk.entries[number].get(DATA):
            return None
        self._in_place.add(self._at)
        return _Box(self._walk.objects[number])

    def _new(self, kind: Kind) -> Any:
        if self._at == self._root:
            raise Malformed("its root is not the agent")
        if isinstance(kind, Plain) and hasattr(kind.cls, "__del__"):
            raise Malformed(
                f"an object of class {kind.name!r} can't be made: it has a finaliser, so it owns something outside",
                "Let the constructor make it",
            )
        return _Box(kind.empty(self._parts[self._at].data))

    def _function(self) -> Any:
        data, cells = self._parts[self._at].data, [self._object(one) for one in self._parts[self._at].items or ()]
        number = self._matched.get(self._at)
        if number is not None:
            own = self._walk.objects[number]
            if len(own.__closure__ or ()) == len(cells) and all(map(_is, own.__closure__ or (), cells)):
                self._in_place.add(self._at)
                return _Box(own)
            return _Box(made(own.__code__, own.__globals__, data, cells))
        found = self._shown.code(data["module"], data["qualname"], data["code"])
        if found is None or len(found[0].co_freevars) != len(cells):
            raise Unknown(f"{data['module']}:{data['qualname']}")
        return _Box(made(*found, data, cells))

    def _object(self, form: Form) -> Any:
        """What a decoded form stands for: itself, or the object that it refers to."""
        if type(form) is not list:
            return form
        found = self._built[form[0]]
        if type(found) is _Box:
            return found.value
        if found is None:
            raise Malformed(f"it refers to object {form[0]}, which can't be made before it")
        return found

    # -- setting --------------------------------------------------------------------------------------------------

    def _order(self) -> Iterator[int]:
        """Every object after those that it refers to, as far as there are no cycles."""
        met = bytearray(len(self._entries))
        stack: list[tuple[int, Iterator[int]]] = [(self._root, iter(self._references[self._root]))]
        met[self._root] = 1
        while stack:
            number, parts = stack[-1]
            for following in parts:
                if not met[following]:
                    met[following] = 1
                    stack.append((following, iter(self._references[following])))
                    break
            else:
                stack.pop()
                yield number

    def _set(self, order: list[int]) -> None:
        """Make and fill everything; what is in use gets back what it had if that fails."""
        before = {number: self._taken(number) for number in self._in_place}
        late: list[int] = []
        try:
            self._make_values()
            for self._at in order:
                if not self._complete(self._of[self._at]):
                    late.append(self._at)
            self._done.update(late)
            for self._at in late:
                self._complete(self._of[self._at])
        except BaseException:
            for number, parts in before.items():
                cast(Kind, self._of[number]).fill(self._built[number].value, parts)
            raise

    def _make_values(self) -> None:
        """Make what has no identity, as far as it asks for no hash of what is not filled yet."""
        for self._at, kind in enumerate(self._of):  # noqa: B020
            if kind is not None and not kind.shared and self._are_there() and not self._asks_for_hashes(kind):
                self._make(kind)

    def _asks_for_hashes(self, kind: Kind) -> bool:
        """Whether it hashes what has an identity, itself or within a value."""
        self._hashing[self._at] = own = any(self._hashing.get(number, True) for number in self._references[self._at])
        return own and kind.hashes

    def _are_there(self) -> bool:
        return all(self._built[number] is not None for number in self._references[self._at])

    def _complete(self, kind: Kind | None) -> bool:
        """Make or fill one object; False if something that it needs is not there yet."""
        if kind is None or (not kind.shared and self._built[self._at] is not None):
            return True
        waits = kind.hashes and kind.shared and not self._hashed(self._at) <= self._done
        if self._at not in self._done and (waits or not self._are_there()):
            return False
        if kind.shared and not kind.composed:
            resolved = self._resolved(self._parts[self._at])
            kind.fill(self._built[self._at].value, self._of_today(kind, resolved))
        else:
            self._make(kind)
        self._done.add(self._at)
        return True

    def _make(self, kind: Kind) -> None:
        self._built[self._at] = _Box(kind.make(self._of_today(kind, self._resolved(self._parts[self._at]))))

    def _of_today(self, kind: Kind, parts: Parts) -> Parts:
        """In the shape that the class has today."""
        steps = self._steps.get(self._at, ())
        if not steps and not self._other_code:
            return parts
        attributes = dict(parts.attributes or {})
        for step in steps:
            attributes = step.fields(attributes)
        if self._other_code and isinstance(kind, Plain):
            since = self._since_then(kind, attributes)
            if not steps:
                self._refuse_renamed(kind, attributes, since)
            self._refuse_incomplete(kind, {**since, **attributes})
            attributes = {**since, **attributes}
        return replace(parts, attributes=attributes) if attributes or parts.attributes is not None else parts

    def _since_then(self, kind: Plain, attributes: dict[str, Any]) -> dict[str, Any]:
        """Attributes that the class has got since: as the constructor set them, or by their defaults."""
        if self._at in self._in_place:
            fresh = kind.take(self._built[self._at].value).attributes or {}
        else:
            fresh = {name: default() for name, default in plain_defaults(kind.cls).items()}
        return {name: value for name, value in fresh.items() if name not in attributes}

    def _refuse_renamed(self, kind: Plain, attributes: dict[str, Any], since: dict[str, Any]) -> None:
        """What was under a name that nothing sets any more may be under a new one now, and would be empty there.

        Raises:
            ShapeMismatch: It may, and no upcaster says what became of it.
        """
        gone, new = self._gone_and_new(kind, attributes, since.keys() - {_HANDLERS})
        if gone and new:
            problem = (
                f"{', '.join(sorted(gone))} of class {kind.name!r} is stored, which it does not set today, and "
                f"{', '.join(sorted(new))} is not, which it does"
            )
            raise ShapeMismatch(problem, _RENAMED)

    def _gone_and_new(self, kind: Plain, attributes: dict[str, Any], since: set[str]) -> tuple[set[str], set[str]]:
        """Names that are stored and nothing sets any more, and names that are set today and not stored."""
        names = attributes.keys()
        today = self._declared_by(kind.cls)
        if self._at not in self._in_place:
            return _own(names - today.shown), today.names - names
        unset = names - (kind.take(self._built[self._at].value).attributes or {}).keys()
        if since:
            return unset, since
        return _own(unset - today.shown), (today.names & today.stored) - names - {_HANDLERS}

    def _refuse_incomplete(self, kind: Plain, attributes: dict[str, Any]) -> None:
        """A field that has no plain default, and that no upcaster has given, would not be there at all."""
        lacking = self._declared_by(kind.cls).needed - attributes.keys()
        if lacking:
            problem = f"{', '.join(sorted(lacking))} of class {kind.name!r} is not stored, and has no plain default"
            raise ShapeMismatch(problem, _GIVEN)

    def _declared_by(self, cls: type) -> Declared:
        found = self._declared.get(cls)
        if found is None:
            self._declared[cls] = found = declared(cls)
        return found

    def _hashed(self, number: int) -> set[int]:
        entry = self._entries[number]
        kept = (*entry.get(KEYS, ()), *entry.get(ELEMENTS, ()))
        found = {number_of(form) for form in kept} - {None}
        return {
            number for number in found if number is not None and self._hashing.get(number, self._of[number] is not None)
        }

    def _taken(self, number: int) -> Parts:
        return cast(Kind, self._of[number]).take(self._built[number].value)

    def _resolved(self, parts: Parts) -> Parts:
        if not self._references[self._at]:
            return parts
        attributes, resolved = parts.attributes, Parts(data=parts.data, order=parts.order, room=parts.room)
        if attributes is not None:
            resolved.attributes = dict(zip(attributes, self._objects(attributes.values()), strict=True))
        for name in PARTS.values():
            group = getattr(parts, name)
            if group is not None:
                setattr(resolved, name, self._objects(group))
        return resolved

    def _objects(self, forms: Collection[Form]) -> list[Any]:
        return [self._object(form) if type(form) is list else form for form in forms]


def _forms_in(entry: Entry) -> Iterator[Form]:
    yield from entry.get(ATTRIBUTES, {}).values()
    for letter in PARTS:
        yield from entry.get(letter, ())


class _Box:
    """An object that is there, whatever its truth."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _own(names: set[str]) -> set[str]:
    """Without those that Python and libraries give to objects of any class."""
    return {name for name in names if not name.startswith("__")}


def _is(left: object, right: object) -> bool:
    return left is right
