"""The door: values to bytes, bytes to values."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from autogen_eventlog.codec.kinds import BUILTIN_ENCODERS, plan_for
from autogen_eventlog.codec.names import type_name
from autogen_eventlog.codec.opaque import Opaque, encode_opaque
from autogen_eventlog.codec.plan import NotData, Plan
from autogen_eventlog.codec.reading import Decoders, Reader, parser
from autogen_eventlog.codec.registry import TypeRegistry
from autogen_eventlog.codec.sharing import number
from autogen_eventlog.codec.upcasting import UPCASTING
from autogen_eventlog.codec.walk import Encode, Walk
from autogen_eventlog.codec.wire import (
    MAX_NESTING,
    Decode,
    Malformed,
    Node,
    Refusal,
    ShapeMismatch,
    Unknown,
    dumps,
    joined,
    refuse_constant,
)
from autogen_eventlog.errors import NotEncodable, PayloadCorrupt, ShapeChanged, TypeNotAllowed


@dataclass(frozen=True, slots=True)
class Encoded:
    """A value as it is stored.

    Attributes:
        type_name: `module:qualname` of the value's class: `shop.orders:Order`, `builtins:str`, `builtins:NoneType`.
        data: JSON in ASCII, without a NUL byte; it casts to `jsonb` unless a string in it holds U+0000.
    """

    type_name: str
    data: bytes


class _Encoders(dict[type, Encode]):
    """From class to encoder; compiles a class that it meets the first time."""

    def __init__(self, plan: Callable[[type], Plan]) -> None:
        super().__init__({**BUILTIN_ENCODERS, Opaque: encode_opaque})
        self._plan = plan

    def __missing__(self, cls: type) -> Encode:
        self[cls] = encode = self._plan(cls).encode
        return encode


class Codec:
    """Stores values exactly or not at all: `decode(encode(x))` is equal, of the same concrete types, recursively (G3).

    Safe to share between threads. Compiles each class once; a changed class object is another class.

    Args:
        registry: the classes that stored data may become. None: an empty one.
        learn: remember a class met while encoding, so that this process can decode what it wrote. The object was in
            hand, so nothing is imported for it. A class that is registered under the same name comes first.
    """

    def __init__(self, registry: TypeRegistry | None = None, *, learn: bool = True) -> None:
        self.registry = TypeRegistry() if registry is None else registry
        self._learn = learn
        self._learned: dict[str, type] = {}
        self._names: dict[type, str] = {}
        self._generation = self._current
        self._encoders = _Encoders(self._plan_to_encode)
        self._decoders = Decoders(self._find)
        self._parse = parser(self._decoders)

    def encode(self, value: object, *, where: str = "message") -> Encoded:
        """The stored form of `value`, which is neither changed nor kept.

        Args:
            where: what to call `value` in an error: `message.items[3].price`.

        Raises:
            NotEncodable: something in it can't be restored exactly. Nothing was stored.
        """
        if self._generation != self._current:
            self._refresh()
        walk = Walk(self._encoders)
        try:
            form = walk.one(value, 0)
            if walk.shared:
                form = number(form, walk.shared)
            return Encoded(self._name(value), dumps(form).encode("ascii"))
        except Refusal as refusal:
            raise _not_encodable(refusal, where) from refusal.__cause__
        except RecursionError:
            reason = f"it is nested deeper than {MAX_NESTING} levels of JSON, or than this call stack allows"
        except Exception as error:  # a class's own code: a property, a function given to register_custom
            raise NotEncodable(where, type_name(type(value)), f"encoding it raised {error!r}") from error
        raise NotEncodable(where, type_name(type(value)), reason)

    def decode(self, data: bytes, *, where: str = "payload", opaque: bool = False) -> object:
        """The value that `data` stores, built without importing anything or running a constructor.

        Args:
            where: what to call the payload in an error.
            opaque: give an `Opaque` in the place of each value of an unknown type, instead of an error.

        Raises:
            TypeNotAllowed: a type in it is neither registered, learned nor a loaded subclass of a registered one.
            ShapeChanged: a class has other fields now, and neither defaults nor upcasters lead there.
            PayloadCorrupt: the bytes are not what `encode` wrote. Nothing half-built is returned.
        """
        if self._generation != self._current:
            self._refresh()
        try:
            return self._parse(str(data, "utf-8"))
        except Exception:  # anything: by hand then, which finds the place, follows references and leaves types opaque
            pass
        return self._read(data, where, opaque)

    @property
    def _current(self) -> int:
        """Grows when what is compiled becomes stale: neither of the two ever shrinks."""
        return self.registry.generation + UPCASTING.generation

    def _read(self, data: bytes, where: str, opaque: bool) -> object:
        if data.startswith(b"\0lost "):  # nothing that is encoded begins so (sql/views/event_full.sql)
            raise PayloadCorrupt(
                where, f"its row of large_payload is gone or altered; its SHA-256 is {data[-32:].hex()}"
            )
        try:
            stored = json.loads(
                str(data, "utf-8"), parse_constant=refuse_constant
            )  # of bytes it would guess the encoding
            return Reader(self._decoders, opaque=opaque).read(stored)
        except Unknown as unknown:
            raise TypeNotAllowed(unknown.type_name, joined(where, unknown.path)) from None
        except Malformed as problem:
            raise _corrupt(problem, where) from problem.__cause__
        except RecursionError:
            raise PayloadCorrupt(where, "it is nested deeper than this call stack allows") from None
        except Exception as error:
            raise PayloadCorrupt(where, f"{type(error).__name__}: {error}") from error

    def _name(self, value: object) -> str:
        if isinstance(value, Opaque):
            return value.type_name
        cls = type(value)
        if cls not in self._names:
            self._names[cls] = type_name(cls)
        return self._names[cls]

    def _refresh(self) -> None:
        self._generation = self._current
        self._decoders.forget()
        self._encoders = _Encoders(self._plan_to_encode)

    def _plan(self, cls: type) -> Plan:
        return plan_for(cls, type_name(cls), self.registry.custom(cls))

    def _plan_to_encode(self, cls: type) -> Plan:
        name = type_name(cls)
        today = UPCASTING.today(name)
        if today != name:
            raise Refusal(name, f"what is stored under its name is a {today!r} (renamed): give the class another name")
        try:
            plan = self._plan(cls)
        except NotData as problem:
            raise Refusal(name, problem.reason) from None
        if self._learn:
            self._learned[plan.name] = cls
            self._decoders.pop(plan.name, None)
        return plan

    def _find(self, name: str) -> Decode | None:
        return self._evolving(name) if UPCASTING.concerns(name, self.find_class(name)) else self._of_today(name)

    def _of_today(self, name: str) -> Decode | None:
        cls = self.find_class(name)
        try:
            return None if cls is None else self._plan(cls).decode
        except NotData:
            return None

    def find_class(self, name: str) -> type | None:
        """The class that a stored name may become here, if there is one; nothing is imported."""
        return self.registry.registered(name) or self._learned.get(name) or self.registry.resolve(name)

    def _evolving(self, name: str) -> Decode:
        def decode(node: Node) -> object:
            today, fields = UPCASTING.apply(name, node, self.find_class)
            decode_today = self._of_today(today)
            if decode_today is None:
                raise Unknown(today)
            return decode_today(fields)

        return decode


def _not_encodable(refusal: Refusal, where: str) -> NotEncodable:
    return NotEncodable(joined(where, refusal.path), refusal.type_name, refusal.reason)


def _corrupt(problem: Malformed, where: str) -> PayloadCorrupt:
    place = joined(where, problem.path)
    if isinstance(problem, ShapeMismatch):
        return ShapeChanged(place, problem.problem, problem.remedy or "Add an upcaster (autogen_eventlog.upcaster)")
    if problem.remedy is None:
        return PayloadCorrupt(place, problem.problem)
    return PayloadCorrupt(place, problem.problem, problem.remedy)
