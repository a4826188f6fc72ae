"""Turns that are fair on a noisy machine: short, interleaved, in another order each round."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


def interleaved(sides: Mapping[str, Callable[[], T]], *, rounds: int) -> dict[str, list[T]]:
    """What each side measured, round by round: the n-th of every list belong together."""
    names = list(sides)
    measured: dict[str, list[T]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            gc.collect()
            measured[name].append(sides[name]())
    return measured


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the rounds' ratios, so that what slows a round down slows both of its sides."""
    return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))
