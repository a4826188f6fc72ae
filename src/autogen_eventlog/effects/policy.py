"""What becomes of an effect that was requested, and whose result no log holds: the process ended in between (G4, G8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, get_args
from uuid import UUID

Decision = Literal["retry", "fail", "ask"]

FAMILIES: Final = ("model", "tool", "workbench", "executor", "memory", "state", "own")

_DEFAULTS: Final[dict[str, Decision]] = {
    "model": "retry",
    "tool": "fail",
    "workbench": "fail",
    "workbench.list_tools": "retry",
    "executor": "fail",
    "memory": "fail",
    "memory.query": "retry",
    "memory.update_context": "retry",
    "state.get": "retry",
    "state.save": "fail",
    "own": "fail",
}

_REPEATABLE: Final = frozenset({"start", "stop", "close", "save_state", "save_state_json"})
"""Opening, closing and reading do no harm twice."""

_NAMED_BY_OTHERS: Final = frozenset({"own"})
"""Families whose effects people name: `start` may be anything."""


@dataclass(frozen=True, slots=True)
class UnknownEffect:
    """An effect that was requested by a process that ended before it recorded the outcome."""

    agent: str
    kind: str
    request: Any
    """What was asked, as plain data; an excerpt of a long one."""
    requested_at: datetime
    event_id: UUID
    """Of its EffectRequested; an idempotency key, if the outside was given it."""
    correlation: UUID | None


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome, where it could be found out: the agent is given it, and it is recorded as the effect's."""

    value: Any


Ask = Callable[[UnknownEffect], Awaitable["Answer | Decision"]]
"""Says what becomes of one; it may take as long as a person takes. What it raises, the agent gets as unknown (`fail`)."""


class UnknownEffects:
    """The policy, by kind.

    Args:
        setting: One decision for all kinds, or decisions by family (`tool`) or kind (`memory.query`), over the defaults:
            models, memory queries, listings and reading of states are asked again, everything else is an error in the
            agent.
        ask: Asked where the decision is `ask`.

    Raises:
        ValueError: A decision or a kind that does not exist, or nobody to ask.
    """

    def __init__(self, setting: Decision | Mapping[str, Decision] | None = None, ask: Ask | None = None) -> None:
        self.ask = ask
        self._for_all: Decision | None = None
        self._by_kind: Mapping[str, Decision] = {}
        if isinstance(setting, str):
            self._for_all = _checked(setting)
        elif setting is not None:
            self._by_kind = {_checked_kind(kind): _checked(decision) for kind, decision in setting.items()}
        if ask is None and "ask" in (self._for_all, *self._by_kind.values()):
            raise ValueError("effects_unknown says 'ask', and nobody to ask is given: give ask_unknown too")

    def decide(self, kind: str) -> Decision:
        """`retry`: do it again. `fail`: the agent gets `EffectOutcomeUnknown`. `ask`: see `ask`."""
        if self._for_all is not None:
            return self._for_all
        family, _, method = kind.partition(".")
        given = self._by_kind.get(kind) or self._by_kind.get(family)
        if given is not None:
            return given
        repeatable = method in _REPEATABLE and family not in _NAMED_BY_OTHERS
        return "retry" if repeatable else _DEFAULTS.get(kind) or _DEFAULTS.get(family) or "fail"


def _checked(decision: str) -> Decision:
    for known in get_args(Decision):
        if decision == known:
            return known
    raise ValueError(f"effects_unknown is 'retry', 'fail' or 'ask' for a kind, not {decision!r}")


def _checked_kind(kind: str) -> str:
    if kind.partition(".")[0] not in FAMILIES:
        raise ValueError(
            f"effects_unknown names {kind!r}; the kinds are {', '.join(FAMILIES)}, and 'memory.query' and such"
        )
    return kind
