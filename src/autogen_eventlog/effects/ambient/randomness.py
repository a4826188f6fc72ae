"""Gates for `random`, `secrets` and `os.urandom`.

What the operating system gives is recorded as it comes. The functions of the module `random` draw, within a delivery,
from a generator of the delivery's own: its seed is recorded, and what is drawn follows from it, however much it is.
"""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Callable
from operator import index
from typing import Any, Final

from autogen_eventlog.effects.ambient.gates import Gate, asking
from autogen_eventlog.effects.ambient.ids import each, reroute
from autogen_eventlog.replay.reading import READER, Reader

FAMILY: Final = "random"

_SEED_BITS: Final = 128
_FLOAT_BITS: Final = 53
_shared: Any = getattr(random, "_inst")  # noqa: B009 - what the functions of the module are bound to


class Drawing(Gate):
    """A function of the module `random`."""

    def call(self, *args: Any, **keywords: Any) -> Any:
        """Draw: for an agent from its delivery's own generator, else from the process's."""
        reader = None if READER.get() is None else asking(FAMILY, 1)
        if reader is None:
            return self.real(*args, **keywords)
        return getattr(_generator(reader), self.name)(*args, **keywords)


class Seeding(Drawing):
    """`random.seed`: within a delivery it seeds the delivery's generator, without an argument anew."""

    def call(self, a: Any = None, version: int = 2) -> None:
        """Seed."""
        reader = None if READER.get() is None else asking(FAMILY, 1)
        if reader is None:
            self.real(a, version)
        elif a is None:
            _generator(reader).seed(_seed(reader, _system_seed))
        else:
            _generator(reader).seed(a, version)


def _generator(reader: Reader) -> random.Random:
    scope = reader.scope
    if scope.generator is None:
        # Drawn from the process's generator, so that a program that seeds that one still does the same each time.
        scope.generator = random.Random(_seed(reader, lambda: _shared.getrandbits(_SEED_BITS)))
    return scope.generator


def _system_seed() -> int:
    return int.from_bytes(os.urandom(_SEED_BITS // 8), "big")


def _seed(reader: Reader, draw: Callable[[], int]) -> int:
    return int(_bytes(reader, "random.seed", _SEED_BITS // 8, lambda size: draw().to_bytes(size, "big")).hex(), 16)


def _bytes(reader: Reader, kind: str, size: int, draw: Callable[[int], bytes]) -> bytes:
    value = reader.reading(kind, lambda: draw(size).hex(), None)
    return reader.filler(size) if value is None else bytes.fromhex(value)


class SystemBytes(Gate):
    """`os.urandom`."""

    def call(self, size: int, /) -> bytes:
        """Random bytes of the operating system's."""
        reader = None if READER.get() is None or index(size) < 0 else asking(FAMILY, 1)
        return self.real(size) if reader is None else _bytes(reader, self.kind, size, self.real)


class ChosenBytes(Gate):
    """`os.getrandom`."""

    def call(self, size: int, flags: int = 0) -> bytes:
        """Random bytes of the operating system's, by one of its ways."""
        reader = None if READER.get() is None or index(size) < 0 else asking(FAMILY, 1)
        if reader is None:
            return self.real(size, flags)
        return _bytes(reader, self.kind, size, lambda asked: self.real(asked, flags))


def _seeding(real: Any) -> Callable[..., None]:
    """A generator that is made, or seeded anew, without a seed takes one from the operating system."""

    def gate(generator: Any, a: Any, version: int) -> None:
        if a is None and READER.get() is not None:
            reader = asking(FAMILY, 2)
            if reader is not None:
                a = _seed(reader, _system_seed)
        real(generator, a, version)

    return gate


def _system_bits(real: Any) -> Callable[..., int]:
    def gate(generator: Any, k: int) -> int:
        reader = None if READER.get() is None or index(k) < 0 else asking(FAMILY, 2)
        if reader is None:
            return real(generator, k)
        value = reader.reading("random.SystemRandom.getrandbits", lambda: f"{real(generator, k):x}", None)
        filled = reader.filler((k + 7) // 8) if value is None else b""
        return int.from_bytes(filled, "big") >> (len(filled) * 8 - k) if value is None else int(value, 16)

    return gate


def _system_float(real: Any) -> Callable[..., float]:
    def gate(generator: Any) -> float:
        reader = None if READER.get() is None else asking(FAMILY, 2)
        if reader is None:
            return real(generator)
        value = reader.reading("random.SystemRandom.random", lambda: real(generator), None)
        return (int.from_bytes(reader.filler(7), "big") >> 3) / (1 << _FLOAT_BITS) if value is None else value

    return gate


def _system_bytes(real: Any) -> Callable[..., bytes]:
    def gate(generator: Any, n: int) -> bytes:
        reader = None if READER.get() is None or index(n) < 0 else asking(FAMILY, 2)
        if reader is None:
            return real(generator, n)
        return _bytes(reader, "random.SystemRandom.randbytes", n, lambda size: real(generator, size))

    return gate


def gates() -> list[Gate]:
    """One for each function of the module `random`, and for the bytes of the operating system."""
    names = [name for name in dir(random) if getattr(getattr(random, name), "__self__", None) is _shared]
    made: list[Gate] = [
        (Seeding if name == "seed" else Drawing)("random", name, getattr(random, name)) for name in names
    ]
    chosen = [ChosenBytes("os", "getrandom", os.getrandom)] if hasattr(os, "getrandom") else []
    return [*made, SystemBytes("os", "urandom", os.urandom), *chosen]


def install() -> Callable[[], None]:
    """Put gates into the methods of generators that ask the operating system; what takes them out again is returned."""
    methods = [
        (random.Random.seed, _seeding),
        (random.SystemRandom.getrandbits, _system_bits),
        (random.SystemRandom.random, _system_float),
        (random.SystemRandom.randbytes, _system_bytes),
    ]
    return functools.partial(each, [reroute(method, gate) for method, gate in methods])
