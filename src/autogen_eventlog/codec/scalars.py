"""Immutable values of the standard library."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from uuid import UUID, SafeUUID

from autogen_eventlog.codec.primitives import decode_base64, encode_bytes
from autogen_eventlog.codec.walk import Encode, Walk
from autogen_eventlog.codec.wire import DATA, TAG, Decode, Malformed, Node, sole, sole_list

_SAFE = "safe"
_KIND = "kind"
_PATHS: dict[str, type[PurePath]] = {
    kind.__name__: kind for kind in (PurePosixPath, PureWindowsPath, PosixPath, WindowsPath)
}


def _encode_bytes(value: bytes, walk: Walk, depth: int) -> Node:
    return {TAG: "bytes", DATA: encode_bytes(value)}


def _encode_decimal(value: Decimal, walk: Walk, depth: int) -> Node:
    return {TAG: "decimal", DATA: str(value)}


def _encode_fraction(value: Fraction, walk: Walk, depth: int) -> Node:
    return {TAG: "fraction", DATA: walk.fill([], (value.numerator, value.denominator), depth + 2)}


def _encode_complex(value: complex, walk: Walk, depth: int) -> Node:
    return {TAG: "complex", DATA: walk.fill([], (value.real, value.imag), depth + 2)}


def _encode_uuid(value: UUID, walk: Walk, depth: int) -> Node:
    form: Node = {TAG: "uuid", DATA: str(value)}
    if value.is_safe is not SafeUUID.unknown:
        form[_SAFE] = value.is_safe.name
    return form


def _encode_path(value: PurePath, walk: Walk, depth: int) -> Node:
    return {TAG: "path", _KIND: type(value).__name__, DATA: walk.one(str(value), depth + 1)}


def _encode_range(value: range, walk: Walk, depth: int) -> Node:
    return {TAG: "range", DATA: walk.fill([], (value.start, value.stop, value.step), depth + 2)}


def _encode_slice(value: slice, walk: Walk, depth: int) -> Node:
    return {TAG: "slice", DATA: walk.fill([], (value.start, value.stop, value.step), depth + 2)}


def _decode_decimal(node: Node) -> Decimal:
    return Decimal(sole(node, str))


def _decode_fraction(node: Node) -> Fraction:
    numerator, denominator = sole_list(node, int, length=2)
    return Fraction(numerator, denominator)


def _decode_complex(node: Node) -> complex:
    real, imaginary = sole_list(node, float, length=2)
    return complex(real, imaginary)


def _decode_uuid(node: Node) -> UUID:
    safe = node.pop(_SAFE, SafeUUID.unknown.name)
    if safe not in SafeUUID.__members__:
        raise Malformed(f"{safe!r} is not a kind of SafeUUID")
    return UUID(sole(node, str), is_safe=SafeUUID[safe])


def _decode_path(node: Node) -> PurePath:
    kind = _PATHS.get(node.pop(_KIND, None))
    if kind is None:
        raise Malformed("unknown kind of path")
    return kind(sole(node, str))


def _decode_range(node: Node) -> range:
    return range(*sole_list(node, int, length=3))


def _decode_slice(node: Node) -> slice:
    return slice(*sole_list(node, object, length=3))


ENCODERS: dict[type, Encode] = {
    bytes: _encode_bytes,
    Decimal: _encode_decimal,
    Fraction: _encode_fraction,
    complex: _encode_complex,
    UUID: _encode_uuid,
    range: _encode_range,
    slice: _encode_slice,
    **dict.fromkeys(_PATHS.values(), _encode_path),
}
DECODERS: dict[str, Decode] = {
    "bytes": decode_base64,
    "decimal": _decode_decimal,
    "fraction": _decode_fraction,
    "complex": _decode_complex,
    "uuid": _decode_uuid,
    "path": _decode_path,
    "range": _decode_range,
    "slice": _decode_slice,
}
