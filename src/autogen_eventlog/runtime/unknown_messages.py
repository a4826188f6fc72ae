"""Messages in states of AgentChat's whose types are not known to the team that they are of.

Each team makes its messages again with a factory of its own, also a team within a participant. What is asked of are fields of
AgentChat's classes; nothing of them is changed, and no code of participants runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic import ValidationError

from autogen_eventlog.errors import InvalidState

MESSAGES = ("message_thread", "message_buffer")
"""Where AgentChat's managers and containers keep messages in their states."""

Where = tuple[str | int, ...]
"""A place in an agent's state: keys, and the number of a message."""

_STATES, _STATE = "agent_states", "agent_state"
"""In a team's state, those of its participants and manager, by name; in a container's, that of its participant."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A message in an agent's state of a type that is not known to the team that it is of."""

    where: Where
    type: str


def unknown_messages(agent: str, holder: object, state: object, where: Where = ()) -> Iterator[Unknown]:
    """The messages in a state that AgentChat can't make again, by what makes messages for the object that the state is of.

    Teams within are found in the fields of the objects that hold them. Of one that is not found there it is not known what it
    knows: loading tells.

    Args:
        holder: An agent on a runtime, a participant, or a team.
        where: Of the state, in that of the agent.

    Raises:
        InvalidState: Something in the place of a message is none, or one of a known type is not whole.
    """
    form = _mapping(state)
    participants = _participants(holder)
    if participants is not None:
        yield from _in_team(agent, holder, participants, form, where)
        return
    yield from _in_lists(agent, holder, form, where)
    inner = _fields(holder).get("_agent")  # a container's participant
    if inner is not None and _STATE in form:
        yield from unknown_messages(agent, inner, form[_STATE], (*where, _STATE))
    else:
        yield from _within(agent, _teams_of(holder), form, where)


def _in_team(
    agent: str, team: object, participants: Mapping[str, object], state: Mapping[str, object], where: Where
) -> Iterator[Unknown]:
    """Those in the states of a team's participants and manager: it makes the messages of all of them."""
    for name, one in _mapping(state.get(_STATES)).items():
        form, here = _mapping(one), (*where, _STATES, name)
        yield from _in_lists(agent, team, form, here)
        yield from unknown_messages(agent, participants.get(name), form.get(_STATE), (*here, _STATE))


def _within(agent: str, teams: list[object], state: Mapping[str, object], where: Where) -> Iterator[Unknown]:
    """Those in the states of teams that an object holds (SocietyOfMindAgent), each by the one team with these participants."""
    for name, value in state.items():
        form, here = _mapping(value), (*where, name)
        if isinstance(form.get(_STATES), Mapping):
            names = _mapping(form[_STATES]).keys()
            fitting = [team for team in teams if (_participants(team) or {}).keys() <= names]
            if len(fitting) == 1:
                yield from unknown_messages(agent, fitting[0], form, here)
        else:
            yield from _within(agent, teams, form, here)


def _in_lists(agent: str, maker: object, state: Mapping[str, object], where: Where) -> Iterator[Unknown]:
    create: Any = getattr(_fields(maker).get("_message_factory"), "create", None)
    if create is None:
        return
    for name in MESSAGES:
        messages = state.get(name, [])
        if not isinstance(messages, (list, tuple)):
            raise _no_message(agent, (*where, name), f"is a {type(messages).__name__}, not a list of messages")
        for number, message in enumerate(cast("Iterable[object]", messages)):
            here = (*where, name, number)
            kind = _type_of(agent, message, here)
            if not _is_known(agent, create, message, kind, here):
                yield Unknown(here, kind)


def _type_of(agent: str, message: object, where: Where) -> str:
    if not isinstance(message, Mapping):
        raise _no_message(agent, where, f"is no message, but a {type(message).__name__}")
    kind = cast("Mapping[str, object]", message).get("type")
    if not isinstance(kind, str):
        raise _no_message(agent, where, f"is no message: its type is {kind!r}, not a text")
    return kind


def _is_known(agent: str, create: Callable[[Any], object], message: object, kind: str, where: Where) -> bool:
    try:
        create(message)
    except ValidationError as error:
        first = error.errors()[0]
        said = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise _no_message(agent, where, f"is no {kind} of this version of AgentChat ({said})") from error
    except ValueError:
        return False
    return True


def _no_message(agent: str, where: Where, problem: str) -> InvalidState:
    place = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in where).removeprefix(".")
    return InvalidState(agent, f"{place} {problem}", "Save it again with the version that wrote it, and newer")


# -- what holds what -----------------------------------------------------------------------------------------------


def _fields(holder: object) -> Mapping[str, object]:
    """Of an object, without asking its code."""
    return getattr(holder, "__dict__", {})


def _participants(team: object) -> dict[str, object] | None:
    """Those of a team of AgentChat's, by name; None: it is none."""
    fields = _fields(team)
    members = fields.get("_participants")
    if not isinstance(members, (list, tuple)) or "_message_factory" not in fields:
        return None
    return {str(getattr(one, "name", "")): one for one in cast("Iterable[object]", members)}


def _teams_of(holder: object) -> list[object]:
    """The teams in an object's fields, alone or several in a list or mapping."""
    found: list[object] = []
    for value in _fields(holder).values():
        if isinstance(value, (list, tuple)):
            found.extend(cast("Iterable[object]", value))
        elif isinstance(value, dict):
            found.extend(cast("dict[object, object]", value).values())
        else:
            found.append(value)
    return list({id(one): one for one in found if _participants(one) is not None}.values())


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}
