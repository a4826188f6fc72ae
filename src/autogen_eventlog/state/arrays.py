"""numpy's arrays, scalars, types and generators, where numpy is loaded; it is never imported for this."""

from __future__ import annotations

import sys
from operator import index
from typing import Any, cast

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
    if issubclass(cls, numpy.void):
        return Record
    if issubclass(cls, numpy.generic):
        return Scalar
    if issubclass(cls, numpy.dtype):
        return DataType
    return Generator if cls is numpy.random.Generator else None


def _described(dtype: Any) -> Any:
    if dtype.hasobject:
        raise NotState("it is an array of Python objects", "Use a list, or an array of numbers")
    described = dtype.descr if dtype.names else dtype.str
    if _type(described) != dtype or _type(described).type is not dtype.type:
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


def lender_of(value: Any) -> Any:
    """The object whose memory an array or a record uses, through whatever lies between; None if it is its own.

    Between them may be other arrays, views of memory, and what numpy puts in for arrays with strides of their own.
    """
    current, following = value, value.base
    while following is not None:
        current = following
        following = _lent_by(current)
    return None if current is value or type(current) is bytes else current  # nobody changes those


def _lent_by(value: Any) -> Any:
    if isinstance(value, memoryview):
        return cast("memoryview[Any]", value).obj
    numpys = type(value).__module__.partition(".")[0] == "numpy"
    return getattr(value, "base", None) if numpys else None


class Array(Kind):
    """`numpy.ndarray`: type, shape, order in memory, content, and whether it may be written."""

    in_place = False

    def take(self, value: Any) -> Parts:
        described = _described(value.dtype)
        if not value.dtype.itemsize:
            raise NotState("its elements have no size")
        axes = _axes(value)
        content = encode_bytes(value.transpose(axes).tobytes())
        data = [described, list(value.shape), _order(axes), bool(value.flags.writeable), content]
        return Parts(data=data, lender=lender_of(value))

    def empty(self, data: Any) -> Any:
        numpy: Any = sys.modules["numpy"]
        described, shape, order, writeable, content = data
        axes = _axes_of(order, len(shape))
        values = numpy.frombuffer(decode_base64({"v": content}), _type(described))
        values = values.reshape([shape[axis] for axis in axes]).transpose(numpy.argsort(axes))
        instance = values.copy(order=order if isinstance(order, str) else "K")  # its memory is its own, as for `resize`
        instance.flags.writeable = writeable
        return instance

    def fill(self, instance: Any, parts: Parts) -> None:
        return


def _axes(value: Any) -> list[int]:
    """The axes of an array, the one first along which its elements lie farthest apart in memory."""
    axes = list(range(value.ndim))
    if value.flags.c_contiguous:
        return axes
    return axes[::-1] if value.flags.f_contiguous else sorted(axes, key=lambda axis: -abs(value.strides[axis]))


def _order(axes: list[int]) -> str | list[int]:
    rising = sorted(axes)
    return "C" if axes == rising else "F" if axes == rising[::-1] else axes


def _axes_of(order: Any, dimensions: int) -> list[int]:
    rising = list(range(dimensions))
    axes = {"C": rising, "F": rising[::-1]}.get(order) if isinstance(order, str) else order
    if axes is None or sorted(axes) != rising:
        raise Malformed("its order in memory is none of its axes")
    return axes


class Scalar(Kind):
    """A number or text of numpy's."""

    shared = False

    def take(self, value: Any) -> Parts:
        return Parts(data=[_described(value.dtype), encode_bytes(value.tobytes())])

    def make(self, parts: Parts) -> Any:
        numpy: Any = sys.modules["numpy"]
        described, content = parts.data
        dtype = _type(described)
        if not dtype.itemsize:  # an empty text, of which an array has no room for one
            return numpy.zeros((), dtype)[()]
        return numpy.frombuffer(decode_base64({"v": content}), dtype)[0]


class Record(Scalar):
    """A `numpy.void`: several fields, which may be set. Out of an array, it is a view of the array's memory."""

    shared = True
    composed = True
    in_place = False

    def take(self, value: Any) -> Parts:
        parts = super().take(value)
        parts.lender = lender_of(value)
        return parts

    def make(self, parts: Parts) -> Any:
        return super().make(parts).copy()


class DataType(Kind):
    """A type of numpy's."""

    shared = False

    def take(self, value: Any) -> Parts:
        return Parts(data=_described(value))

    def make(self, parts: Parts) -> Any:
        return _type(parts.data)


class Generator(Kind):
    """`numpy.random.Generator`, where it stands in its sequence, and what it spawns others from."""

    in_place = False

    def take(self, value: Any) -> Parts:
        state = value.bit_generator.state
        if state["bit_generator"] not in _BIT_GENERATORS:
            raise NotState(f"its bit generator {state['bit_generator']} is not known here")
        return Parts(data={**state, _SEED: _taken(value.bit_generator.seed_seq)})

    def empty(self, data: Any) -> Any:
        numpy: Any = sys.modules["numpy"]
        state = dict(data)
        seed = state.pop(_SEED, None)
        if state["bit_generator"] not in _BIT_GENERATORS:
            raise Malformed("its bit generator is not known here")
        if seed is None:
            raise Malformed("it was stored without what it spawns others from")
        bits = getattr(numpy.random, state["bit_generator"])(numpy.random.SeedSequence(**seed))
        bits.state = state
        return numpy.random.Generator(bits)

    def fill(self, instance: Any, parts: Parts) -> None:
        return


def _taken(seed: Any) -> dict[str, Any]:
    """A sequence of seeds, as the arguments that make it."""
    numpy: Any = sys.modules["numpy"]
    if type(seed) is not numpy.random.SeedSequence:
        raise NotState(f"it was made from a {type(seed).__name__}, which is not known here")
    state = seed.state
    try:
        numbers, keys = _numbers(state["entropy"]), _numbers(state["spawn_key"])
    except TypeError:
        raise NotState("it was made from a seed that is neither a number nor a list of numbers") from None
    return {**state, "entropy": numbers, "spawn_key": keys}


def _numbers(seed: Any) -> int | list[int]:
    return [index(number) for number in cast("list[Any]", seed)] if isinstance(seed, (list, tuple)) else index(seed)


_SEED = "seed_seq"
_BIT_GENERATORS = ("PCG64", "PCG64DXSM")
"""Those whose state is no more than numbers."""
