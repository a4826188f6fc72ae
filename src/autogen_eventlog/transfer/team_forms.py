"""The forms that states of AgentChat's teams have had: by name since 0.4.9, by `name/uuid` and with a `team_id` before.

AgentChat refuses the older form. It is made into today's where that is certain: one team id throughout, and the participants of
the team that it is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from autogen_eventlog.errors import InvalidState
from autogen_eventlog.transfer.message_forms import completed

TEAM_STATE = "TeamState"
_FORM_VERSION = "1.0.0"
_STATES, _TEAM_ID = "agent_states", "team_id"
_OLD_MANAGER, _OLD_COLLECTOR = "group_chat_manager", "collect_output_messages"
_OLD = "the form of AutoGen 0.4.0 to 0.4.8 (agents as name/uuid, a team_id)"

State = Mapping[str, Any]


def is_team_state(state: State) -> bool:
    """Whether a mapping is what a team of AgentChat saves, of any version."""
    return isinstance(state.get(_STATES), Mapping) or state.get("type") == TEAM_STATE


def is_old(state: State) -> bool:
    """Whether a team's state has the form of AutoGen 0.4.0 to 0.4.8."""
    agents: State = state.get(_STATES) or {}
    return _TEAM_ID in state or any("/" in name for name in agents)


def form_of(state: State) -> str:
    """In words, for errors."""
    if is_old(state):
        return _OLD
    return f"type {state.get('type')!r}, version {state.get('version')!r}"


def in_todays_form(team: str, given: State, expected: State) -> dict[str, Any]:
    """A team's state as AgentChat takes it today.

    Args:
        expected: What the team that it is for saves now: it names the participants and the manager, and those of teams
            within participants.

    Raises:
        InvalidState: It is of no known form, or what it becomes is not certain.
    """
    _check_type(team, given)
    agents: State = given[_STATES]
    names = _names(team, given, expected) if is_old(given) else {name: name for name in agents}
    todays = {names[name]: one for name, one in agents.items() if name in names}
    states: State = expected[_STATES]
    lacking = [name for name in states if name not in todays]
    if lacking:
        problem = f"it holds no state of {_listed(lacking)}, but of {_listed(list(todays))} ({form_of(given)})"
        raise InvalidState(team, problem, "Load it into a team with the participants that it was saved with")
    inner = {name: _inner(f"{team}, {name}", one, states.get(name)) for name, one in completed(todays).items()}
    return {"type": TEAM_STATE, "version": _FORM_VERSION, _STATES: inner}


def _check_type(team: str, given: State) -> None:
    said, version = given.get("type", TEAM_STATE), given.get("version", _FORM_VERSION)
    agents = given.get(_STATES)
    if said != TEAM_STATE or version != _FORM_VERSION:
        problem = (
            f"it is a {said!r} of version {version!r}, and a {TEAM_STATE!r} of version {_FORM_VERSION!r} is known here"
        )
        raise InvalidState(team, problem, "Save the team with a version of AutoGen from 0.4.0 to 0.7")
    if not isinstance(agents, Mapping) or not all(isinstance(one, Mapping) for one in cast("State", agents).values()):
        raise InvalidState(
            team, f"it has no mapping {_STATES!r} of names to states", "Give what team.save_state() gave"
        )


def _names(team: str, given: State, expected: State) -> dict[str, str]:
    """Today's name of each agent in an older state. The manager was the same in each team, and is its last agent today.

    Raises:
        InvalidState: The state is of several teams, or of agents that are not the team's.
    """
    agents: State = given[_STATES]
    keys = {name.partition("/")[2] for name in agents}
    if keys != {given.get(_TEAM_ID)} or "" in keys:
        problem = f"it has {_OLD}, and its agents' ids don't all end in its team_id {given.get(_TEAM_ID)!r}"
        raise InvalidState(
            team, problem, "Load it with the version of AutoGen that saved it, and save it with 0.4.9 or later"
        )
    *participants, manager = expected[_STATES]
    known = {name: name for name in participants} | {_OLD_MANAGER: manager}
    names = {name: name.partition("/")[0] for name in agents}
    strangers = [short for short in names.values() if short not in known and short != _OLD_COLLECTOR]
    if strangers:
        problem = f"it has {_OLD}, with {_listed(strangers)}, and the team has {_listed(participants)}"
        raise InvalidState(team, problem, "Load it into a team with the participants that it was saved with")
    return {name: known[short] for name, short in names.items() if short in known}


def _inner(where: str, given: object, expected: object) -> Any:
    """The same for teams within a participant's state."""
    if not (isinstance(given, Mapping) and isinstance(expected, Mapping)):
        return cast("object", given)
    theirs, mine = cast("State", given), cast("State", expected)
    if is_team_state(theirs) and is_team_state(mine):
        return in_todays_form(where, theirs, mine)
    return {name: _inner(where, value, mine.get(name)) for name, value in theirs.items()}


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names)) or "nobody"
