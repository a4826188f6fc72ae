"""str, int and float: plain JSON nearly always, tagged where JSON or Postgres would change them."""

from __future__ import annotations

import math
from base64 import b64decode, b64encode

from autogen_eventlog.codec.wire import DATA, TAG, Decode, Malformed, Node, sole

BIG = 1 << 2048
"""617 digits: the least limit that `sys.set_int_max_str_digits` allows is 640, so a plain int can always be read."""
INFINITY = math.inf

_NOT_FINITE = ("inf", "-inf", "nan", "-nan")


def encode_text(value: str) -> object:
    """A str that is not ASCII. Surrogates are tagged: JSON would join a pair of them, `jsonb` refuses a lone one."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return {TAG: "str", DATA: b64encode(value.encode("utf-8", "surrogatepass")).decode("ascii")}
    return value


def encode_int(value: int) -> object:
    """Any int."""
    return value if -BIG < value < BIG else {TAG: "int", DATA: hex(value)}


def encode_float(value: float) -> object:
    """Any float; all but the payload bits of a NaN is kept."""
    if -INFINITY < value < INFINITY:
        return value
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    return {TAG: "float", DATA: sign + ("nan" if math.isnan(value) else "inf")}


def encode_bytes(value: bytes | bytearray) -> str:
    """Base64, which is a third longer and legible to every database."""
    return b64encode(value).decode("ascii")


def decode_base64(node: Node) -> bytes:
    """The bytes a node carries."""
    return b64decode(sole(node, str), validate=True)


def _decode_text(node: Node) -> str:
    return decode_base64(node).decode("utf-8", "surrogatepass")


def _decode_int(node: Node) -> int:
    return int(sole(node, str), 16)


def _decode_float(node: Node) -> float:
    name = sole(node, str)
    if name not in _NOT_FINITE:
        raise Malformed(f"{name!r} is not one of {', '.join(_NOT_FINITE)}")
    return float(name)  # a new NaN each time: two of them may stand in one set


DECODERS: dict[str, Decode] = {"str": _decode_text, "int": _decode_int, "float": _decode_float}
