"""A team of AgentChat's as the program's code builds it on a runtime, for the commands."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, cast

import typer

from autogen_eventlog.cli.restoring import import_function
from autogen_eventlog.log import EventLog
from autogen_eventlog.transfer import StateOwner


class Built:
    """The team that the function of --team returns.

    Raises:
        typer.BadParameter: There is no such module or function, or importing it fails.
    """

    def __init__(self, function: str) -> None:
        self._name = function
        try:
            self._function = import_function(function)
        except ValueError as error:
            raise typer.BadParameter(f"--team {error}") from error
        self._team: StateOwner | None = None
        self._runtime: Any = None

    async def build(self, runtime: Any) -> None:
        """Build it on a runtime, and let it register its agents there; to be given to `registered`.

        Raises:
            typer.BadParameter: What the function returns is no team.
        """
        made = self._function(runtime)
        if inspect.isawaitable(made):
            made = await made
        if not all(callable(getattr(made, name, None)) for name in ("save_state", "load_state")):
            raise typer.BadParameter(f"--team {self._name!r}: it returned a {type(made).__name__}, not a team")
        self._team, self._runtime = cast(StateOwner, made), runtime

    @property
    def team(self) -> StateOwner:
        assert self._team is not None
        return self._team

    async def known(self, log: EventLog) -> dict[str, int]:
        """The versions of its agents that the log knows, once it has registered them."""
        found: dict[str, int] = {}
        for agent_type in self._runtime.recorded_agents.blueprints:
            found |= {head.stream: head.version for head in await log.agents(type=agent_type) if head.version > 0}
        return found


def keep_nothing(state: Mapping[str, Any]) -> list[str]:
    """The participants in a team's state whose classes have no `save_state` of their own."""
    states: Mapping[str, Any] = state.get("agent_states") or {}
    own: dict[str, Mapping[str, Any]] = {name: one.get("agent_state") or {} for name, one in states.items()}
    return [name for name, one in own.items() if one.get("type") == "BaseState"]
