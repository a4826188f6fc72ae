"""numpy's arrays, scalars, types and generators, where numpy is loaded; it is never imported for this."""

from __future__ import annotations

import sys
from typing import Any

from autogen_eventlog.codec.primitives import decode_base64, encode_bytes
from autogen_eventlog.state.form import Malformed
from autogen_eventlog.state.kind import Kind, Leaf
from autogen_eventlog.state.parts import NotState, Parts


def numpy_kind(cls: type) -> type[Kind] | Leaf | None:
    """How objects of one of numpy's classes are taken; None if it is not numpy's, or nothing of it is known."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return None
    if cls is numpy.ndarray:
        return Array
    if issubclass(cls, numpy.generic):
        return Scalar
    if issubclass(cls, numpy.dtype):
        return DataType
    return Generator if cls is numpy.random.Generator else None


def _described(dtype: Any) -> Any:
    if dtype.hasobject:
        raise NotState("it is an array of Python objects", "Use a list, or an array of numbers")
    described = dtype.descr if dtype.names else dtype.str
    if _type(described) != dtype:
        raise NotState(f"its type {dtype.str} can't be described")
    return described


def _type(described: Any) -> Any:
    numpy: Any = sys.modules["numpy"]
    if isinstance(described, list):
        return numpy.dtype([_field(field) for field in described])  # type: ignore[reportUnknownVariableType]
    if type(described) is not str:
        raise Malformed("it is no type of numpy's")
    return numpy.dtype(described)


def _field(field: Any) -> Any:
    name, described, *shape = field
    inner = [_field(one) for one in described] if isinstance(described, list) else described  # type: ignore[reportUnknownVariableType]
    return (name, inner, *(tuple(one) for one in shape))


class Array(Kind):
    """`numpy.ndarray`: type, shape, order in memory, content, and whether it may be written."""

    in_place = False

    def take(self, value: Any) -> Parts:
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        data = [_described(value.dtype), list(value.shape), order, bool(value.flags.writeable)]
        return Parts(data=[*data, encode_bytes(value.tobytes(order))], lender=value.base)

    def empty(self, data: Any) -> Any:
        numpy: Any = sys.modules["numpy"]
        described, shape, order, writeable, content = data
        instance = numpy.empty(tuple(shape), _type(described), order)
        flat = numpy.frombuffer(decode_base64({"v": content}), instance.dtype)
        instance[...] = flat.reshape(tuple(shape), order=order)
        instance.flags.writeable = writeable
        return instance

    def fill(self, instance: Any, parts: Parts) -> None:
        return


class Scalar(Kind):
    """A number of numpy's."""

    shared = False

    def take(self, value: Any) -> Parts:
        return Parts(data=[_described(value.dtype), encode_bytes(value.tobytes())])

    def make(self, parts: Parts) -> Any:
        numpy: Any = sys.modules["numpy"]
        described, content = parts.data
        return numpy.frombuffer(decode_base64({"v": content}), _type(described))[0]


class DataType(Kind):
    """A type of numpy's."""

    shared = False

    def take(self, value: Any) -> Parts:
        return Parts(data=_described(value))

    def make(self, parts: Parts) -> Any:
        return _type(parts.data)


class Generator(Kind):
    """`numpy.random.Generator`, where it stands in its sequence."""

    in_place = False

    def take(self, value: Any) -> Parts:
        state = value.bit_generator.state
        if state["bit_generator"] not in _BIT_GENERATORS:
            raise NotState(f"its bit generator {state['bit_generator']} is not known here")
        return Parts(data=state)

    def empty(self, data: Any) -> Any:
        numpy: Any = sys.modules["numpy"]
        if data["bit_generator"] not in _BIT_GENERATORS:
            raise Malformed("its bit generator is not known here")
        bits = getattr(numpy.random, data["bit_generator"])()
        bits.state = data
        return numpy.random.Generator(bits)

    def fill(self, instance: Any, parts: Parts) -> None:
        return


_BIT_GENERATORS = ("PCG64", "PCG64DXSM")
"""Those whose state is no more than numbers."""
