"""How long the codec takes, beside pickle and AutoGen's own serialisers.

    python benchmarks/codec.py

Prints microseconds for each, and ours as a multiple of theirs (below 1: ours is faster). AutoGen's refuses nested
dataclasses, so it has no number there.
"""

from __future__ import annotations

import pickle
import timeit
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from autogen_core._serialization import DataclassJsonMessageSerializer, PydanticJsonMessageSerializer
from pydantic import BaseModel

from autogen_eventlog.codec import Codec


@dataclass
class Small:
    text: str
    count: int
    score: float


@dataclass
class Line:
    name: str
    price: float
    tags: tuple[str, ...] = ()


@dataclass
class Order:
    id: int
    placed_at: datetime
    lines: list[Line] = field(default_factory=list[Line])


class Model(BaseModel):
    text: str
    count: int
    score: float


def order() -> Order:
    lines = [Line(f"line {i}", i / 7, ("a", "b")) for i in range(100)]
    return Order(1, datetime(2024, 1, 1, tzinfo=timezone.utc), lines)


def shared_order() -> Order:
    """The same, but every line is one of two objects: identity has to be kept."""
    lines = [Line("a", 1.0), Line("b", 2.0)] * 50
    return Order(1, datetime(2024, 1, 1, tzinfo=timezone.utc), lines)


def microseconds(call: Callable[[], object]) -> float:
    timer = timeit.Timer(call)
    number, _ = timer.autorange()
    return min(timer.repeat(5, max(1, number // 5))) / max(1, number // 5) * 1e6


def measure(name: str, value: object, theirs: Any) -> None:
    codec = Codec()
    data, pickled = codec.encode(value).data, pickle.dumps(value)
    rows = {
        "encode": (lambda: codec.encode(value), lambda: pickle.dumps(value)),
        "decode": (lambda: codec.decode(data), lambda: pickle.loads(pickled)),
    }
    calls: dict[str, Callable[[], object]] = {}
    if theirs is not None:
        stored = theirs.serialize(value)
        calls = {"encode": lambda: theirs.serialize(value), "decode": lambda: theirs.deserialize(stored)}
    for direction, (ours, pickles) in rows.items():
        own, beside = microseconds(ours), microseconds(pickles)
        line = f"{name:<24} {direction}  ours {own:9.2f} µs   pickle {beside:9.2f} µs  ×{own / beside:5.2f}"
        if direction in calls:
            autogen = microseconds(calls[direction])
            line += f"   AutoGen {autogen:9.2f} µs  ×{own / autogen:5.2f}"
        print(line)


def main() -> None:
    measure("dataclass, 3 fields", Small("hello world", 42, 3.5), DataclassJsonMessageSerializer(Small))
    measure("model, 3 fields", Model(text="hello world", count=42, score=3.5), PydanticJsonMessageSerializer(Model))
    measure("order of 100 lines", order(), None)
    measure("100 lines, 2 objects", shared_order(), None)
    measure("1,000 strings", [f"string {i}" for i in range(1000)], None)
    measure("text of 100 kB", "lorem ipsum é " * 7000, None)


if __name__ == "__main__":
    main()
