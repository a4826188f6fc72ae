"""One pass over everything that hangs on an agent, without recursion and without running any of its code.

Objects that have an identity are numbered when they are met, breadth first, and what hangs on them is visited later. Sets
come when nothing else is left, so that what an ordered path reaches has its number by then: their elements are ordered by
what they hold, not by their hashes. What is weakly held comes last of all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final, cast

from autogen_core import AgentRuntime

from autogen_eventlog.codec.names import type_name
from autogen_eventlog.state.form import (
    ATTRIBUTES,
    BIG,
    DATA,
    ELEMENTS,
    INFINITY,
    ITEMS,
    KEYS,
    ORDER,
    ROOM,
    SHOWN,
    TAG,
    VALUES,
    WEAK,
    WIRING,
    Entry,
    Form,
    dumps,
    encode_float,
    encode_int,
    encode_text,
)
from autogen_eventlog.state.kind import AnyKind, Kind, Leaf, Outside, Refused
from autogen_eventlog.state.kinds import Kinds
from autogen_eventlog.state.objects import Plain, Whole
from autogen_eventlog.state.orders import order_of
from autogen_eventlog.state.parts import NotState, Parts

OWN_ID: Final[Form] = {TAG: "id"}
"""The agent's own id, which is the fresh instance's."""
_REFUSED: Final[Form] = {TAG: "refused"}
_PROBLEMS_KEPT: Final = 100
_LOOKED_AT: Final = 2_000
"""Objects behind one element of a set that are looked at to order it."""
_DEEPEST: Final = 12
"""Sets within elements of sets, whose order takes time that doubles with each."""
_BY_VALUE: Final = frozenset({FunctionType, BuiltinFunctionType, MethodType})
_CODE: Final = (type, FunctionType, BuiltinFunctionType, MethodType)
_KEEPS: Final = "Keep what is weakly held in another attribute too, or leave it out"


@dataclass(frozen=True, slots=True)
class Problem:
    """An object that is neither data nor wiring."""

    path: str
    found: str
    reason: str
    remedy: str


class Walk:
    """One pass.

    Args:
        outside: objects that are wiring, whatever their class.
        lenient: note what is neither data nor wiring as an entry of its own, which matches nothing.
        known: the pass that this one is a part of, to order a set of its.
    """

    def __init__(
        self, kinds: Kinds, outside: Collection[object] = (), *, lenient: bool = False, known: Walk | None = None
    ) -> None:
        self.objects: list[Any] = []
        """Live, by number."""
        self.entries: list[Entry] = []
        self.problems: list[Problem] = []
        self.wiring: list[int] = []
        """The numbers of what stands for the outside."""
        self.has_orders = False
        """Whether there are sets of numbers with an order of their own."""
        self.referred: list[Any] = []
        """Classes and functions that are referred to."""
        self._kinds = kinds
        self._outside = {id(value): value for value in outside}
        self._lenient = lenient
        self._known = known
        self._depth: int = 0 if known is None else known._depth + 1
        self._forms: dict[int, Form] = {}
        self._kept: list[Any] = []  # were a temporary freed before the pass ends, another object could get its id
        self._holder: dict[int, Any] = {}
        self._interned: dict[str, Form] = {}
        self._pending: deque[tuple[int, Kind]] = deque()
        self._late: deque[tuple[int, Kind]] = deque()
        self._weak: list[tuple[int, Parts]] = []
        self._lent: list[tuple[Any, Any]] = []
        self._root: Any = None

    def run(self, root: object) -> Form:
        """Visit everything; the form of `root`."""
        self._root = root
        if self._known is None:
            self._kinds.look_from(root)
        runtime: Any = getattr(root, "__dict__", {}).get(_RUNTIME)
        if isinstance(runtime, AgentRuntime):  # the one that it runs on; one that it holds beside is a part of it
            self._outside[id(runtime)] = runtime
        form = self._form(root, None)
        while self._pending or self._late or self._weak:
            if self._pending:
                self._expand(*self._pending.popleft())
            elif self._late:
                self._expand(*self._late.popleft())
            elif not self._weakly():
                break
            if self._known is not None and len(self.objects) > _LOOKED_AT:
                break
        self._check_lent()
        return form

    def known_form(self, key: int) -> Form:
        """The form of an object that was met, here or in the pass that this one is a part of; None if it was not."""
        if key in self._forms or self._known is None:
            return self._forms.get(key)
        return self._known.known_form(key)

    def refuse(self, number: int, problem: NotState) -> None:
        """Take back what was said of an object: it is neither data nor wiring."""
        self.entries[number] = self._refuse(self.objects[number], problem)

    def path(self, value: object) -> str:
        """Where an object was first met, as code says it: `self._pending['a'].task`."""
        steps: list[str] = []
        while value is not self._root and id(value) in self._holder:
            holder = self._holder[id(value)]
            steps.append(self._step(holder, value))
            value = holder
        return "self" + "".join(reversed(steps))

    def _step(self, holder: Any, value: object) -> str:
        kind = self._kinds.of(holder)
        try:
            return kind.take(holder).step_to(value) if isinstance(kind, Kind) else ""
        except NotState:
            return ""

    # -- one object -----------------------------------------------------------------------------------------------

    def _expand(self, number: int, kind: Kind) -> None:
        value = self.objects[number]
        try:
            parts = kind.take(value)
            if (constant := self._constant(value, kind, parts)) is not None:
                self.entries[number] = constant
                return
            if parts.elements is not None:
                self._sort(parts)
        except NotState as problem:
            self.entries[number] = self._refuse(value, problem)
            return
        if parts.lender is not None:
            self._lent.append((value, parts.lender))
        self._fill(self.entries[number], parts, value)
        if parts.weak:
            self._weak.append((number, parts))

    def _constant(self, value: Any, kind: Kind, parts: Parts) -> Entry | None:
        """The entry of an object that has no data, if something shows it under a name.

        Raises:
            NotState: it has data, and a copy of it could not stand for it.
        """
        if value is self._root:
            return None
        if type(kind) in _PLAIN and not parts.attributes and (name := self._kinds.constants.named(value)):
            return {TAG: SHOWN, DATA: name}
        if self._kinds.only:
            problem = self._kinds.only.get(kind.cls, {}).get(id(value))
            if problem is not None:
                raise problem
        return None

    def _fill(self, entry: Entry, parts: Parts, holder: Any) -> None:
        if parts.data is not None:
            entry[DATA] = parts.data
        if parts.items:
            entry[ITEMS] = self._forms_of(parts.items, holder)
        if parts.keys:
            entry[KEYS] = self._forms_of(parts.keys, holder)
            entry[VALUES] = self._forms_of(parts.values or (), holder)
        if parts.elements:
            entry[ELEMENTS] = self._forms_of(parts.elements, holder)
            self._note_order(entry, parts)
        attributes = parts.attributes
        if attributes:
            if holder is self._root and "_id" in attributes:
                attributes = {**attributes, "_id": None}
            forms = self._forms_of(attributes.values(), holder)
            entry[ATTRIBUTES] = dict(zip(attributes, forms))  # noqa: B905  (of one length)
            if holder is self._root and "_id" in attributes:
                entry[ATTRIBUTES]["_id"] = OWN_ID

    def _forms_of(self, values: Iterable[Any], holder: Any) -> list[Form]:
        """The forms of the parts of one object. The commonest are told apart here: a call for each would double the time."""
        out: list[Form] = []
        append, known = out.append, self._forms
        for value in values:
            kind = type(value)  # pyright: ignore[reportUnknownVariableType]
            if kind is str:
                append(value if value.isascii() else encode_text(value))
            elif kind is int:
                append(value if -BIG < value < BIG else encode_int(value))
            elif value is None or kind is bool:
                append(value)
            elif kind is float:
                append(value if -INFINITY < value < INFINITY else encode_float(value))
            else:
                form = known.get(id(value))
                append(self._form(value, holder) if form is None else form)
        return out

    def _form(self, value: Any, holder: Any) -> Form:
        """The form of a value that is no plain scalar; its number, if it has an identity, is given here."""
        key = id(value)
        if key in self._forms:
            return self._forms[key]
        kind = self._kind(value)
        if self._known is not None and not (isinstance(kind, Kind) and not kind.shared):
            known = self._known.known_form(key)
            if known is not None:
                return {"$known": known}
        if type(kind) is Leaf:
            return self._leaf(kind, value, holder)
        if key not in self._holder:
            self._holder[key] = holder
        if isinstance(kind, Kind):
            if not kind.shared:
                self._kept.append(value)
                return self._whole(value, kind)
            form = self._numbered(value, kind.entry())
            (self._late if kind.late else self._pending).append((form[0], kind))
            return form
        if isinstance(kind, Outside):
            return self._wired(kind, value)
        assert isinstance(kind, Refused)
        return self._refused(value, kind.problem)

    def _kind(self, value: Any) -> AnyKind:
        if id(value) in self._outside:
            return _OUTSIDE
        cls = type(value)  # pyright: ignore[reportUnknownVariableType]
        return self._kinds.of(value) if cls in _BY_VALUE else self._kinds[cls]

    def _leaf(self, kind: Leaf, value: Any, holder: Any) -> Form:
        if isinstance(value, _CODE):
            self.referred.append(value)
        try:
            if isinstance(value, type):
                self._kinds.check_name(value)
            return kind.encode(value)
        except NotState as problem:
            self._holder.setdefault(id(value), holder)
            self._kept.append(value)
            return self._refused(value, problem)

    def _numbered(self, value: Any, entry: Entry) -> list[int]:
        self._forms[id(value)] = form = [len(self.objects)]
        self.objects.append(value)
        self.entries.append(entry)
        return form

    def _wired(self, kind: Outside, value: Any) -> Form:
        try:
            described = kind.describe(value)
        except NotState as problem:
            return self._refused(value, problem)
        self.wiring.append(len(self.objects))
        return self._numbered(value, {TAG: WIRING, DATA: [type_name(cast("type[Any]", type(value))), described]})

    def _refused(self, value: Any, problem: NotState) -> Form:
        return self._numbered(value, self._refuse(value, problem))

    def _refuse(self, value: Any, problem: NotState) -> Entry:
        if not self._lenient and len(self.problems) < _PROBLEMS_KEPT:
            found = type_name(cast("type[Any]", type(value)))
            self.problems.append(Problem(self.path(value), found, problem.reason, problem.remedy))
        return dict(_REFUSED)

    # -- values without an identity -------------------------------------------------------------------------------

    def _whole(self, value: Any, kind: Kind) -> Form:
        """The form of a value that is what it holds: what it holds of the same sort comes before it, however deep."""
        taken: dict[int, Parts] = {}
        stack: list[tuple[Any, Kind]] = [(value, kind)]
        while stack:
            current, its_kind = stack[-1]
            if id(current) in self._forms:
                stack.pop()
            elif id(current) in taken:
                stack.pop()
                self._intern(current, its_kind, taken[id(current)])
            elif (parts := self._taken(current, its_kind)) is not None:
                taken[id(current)] = parts
                stack.extend(self._unsettled(current, parts, taken))
        return self._forms[id(value)]

    def _taken(self, value: Any, kind: Kind) -> Parts | None:
        try:
            parts = kind.take(value)
            if parts.elements is not None:
                self._sort(parts)
        except NotState as problem:
            self._refused(value, problem)
            return None
        return parts

    def _unsettled(self, holder: Any, parts: Parts, taken: dict[int, Parts]) -> Iterator[tuple[Any, Kind]]:
        found: list[tuple[Any, Kind]] = []
        for part in parts.all():
            if type(part) in _SCALARS:
                continue
            kind = self._kind(part)
            if isinstance(kind, Kind) and not kind.shared and id(part) not in self._forms:
                if id(part) in taken:  # and not settled: it is one of those that wait for this one
                    self._refused(part, NotState("it contains itself, and has no identity by which it could"))
                    continue
                self._holder.setdefault(id(part), holder)
                self._kept.append(part)
                found.append((part, kind))
        return reversed(found)

    def _intern(self, value: Any, kind: Kind, parts: Parts) -> None:
        entry = self._constant(value, kind, parts) or kind.entry()
        if entry[TAG] != SHOWN:
            self._fill(entry, parts, value)
        key = dumps(entry)
        form = self._interned.get(key)
        if form is None:
            self._interned[key] = self._numbered(value, entry)
        elif ATTRIBUTES in entry and not isinstance(kind, Whole):
            self._refused(value, _TWO_ALIKE)
        else:
            self._forms[id(value)] = form

    # -- what has no order, and what is weakly held ----------------------------------------------------------------

    def _sort(self, parts: Parts) -> None:
        """Put the elements of a set in an order of their own, and note that in which they came if a new one would not have it.

        Raises:
            NotState: that order can't be had again.
        """
        came = parts.elements or []
        parts.elements = self._ordered(came)
        if self._known is None:
            parts.order = order_of(came, parts.elements, parts.room)

    def _note_order(self, entry: Entry, parts: Parts) -> None:
        if parts.order is not None:
            entry[ORDER] = parts.order
            self.has_orders = True
            if parts.room is not None:
                entry[ROOM] = parts.room

    def _ordered(self, elements: list[Any]) -> list[Any]:
        kinds = set(map(type, elements))
        if len(kinds) == 1 and kinds <= {str, int}:
            return sorted(elements)
        if len(elements) < 2 or self._depth > _DEEPEST:
            return elements
        return sorted(elements, key=self._signature)

    def _signature(self, element: Any) -> str:
        """What an element holds, as text in which nothing depends on addresses or hashes."""
        (plain,) = self._forms_of([element], None) if type(element) in _SCALARS else (None,)
        if type(element) in _SCALARS:
            return dumps(plain)
        inner = Walk(self._kinds, self._outside.values(), lenient=True, known=self)
        return dumps([inner.run(element), inner.entries])

    def _weakly(self) -> bool:
        """Note what is weakly held, of what the state holds by now; whether that leads on."""
        for number, parts in self._weak:
            if all(id(target) in self._forms for target in parts.weak or ()):
                forms = [self._forms[id(target)] for target in parts.weak or ()]
                self.entries[number][WEAK] = sorted(forms) if parts.unordered else forms
                self._weak.remove((number, parts))
                return True
        for number, parts in self._weak:
            targets = [target for target in parts.weak or () if id(target) not in self._forms]
            found = ", ".join(sorted({type(target).__qualname__ for target in targets}))
            reason = f"it refers weakly to what nothing else in the state holds ({found})"
            self.entries[number] = self._refuse(self.objects[number], NotState(reason, _KEEPS))
        return False

    def _check_lent(self) -> None:
        lenders = [id(lender) for _, lender in self._lent]
        for value, lender in self._lent:
            if id(lender) in self._forms or lenders.count(id(lender)) > 1:
                reason = "it uses the memory of another array of the state, and a change of one would show in the other"
                self.entries[self._forms[id(value)][0]] = self._refuse(value, NotState(reason, "Keep a copy of it"))


_OUTSIDE: Final = Outside()
_PLAIN: Final = frozenset({Plain, Whole})
_TWO_ALIKE: Final = NotState(
    "another one of the state is equal to it in content and attributes, and they could not be told apart afterwards",
    "Keep the attributes elsewhere, or use a class that is not built on a plain value",
)
_RUNTIME: Final = "_runtime"
"""Where AutoGen's `BaseAgent` keeps its runtime."""
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
