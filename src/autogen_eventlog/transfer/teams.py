"""AutoGen's own states, both ways: of single agents, and of AgentChat's teams on our runtime."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Literal, Protocol

from autogen_core import AgentId

from autogen_eventlog.errors import InvalidState, MessageTypesMissing
from autogen_eventlog.ids import agent_id
from autogen_eventlog.points import point
from autogen_eventlog.runtime.in_process import EventSourcedAgentRuntime
from autogen_eventlog.runtime.plain_states import Trial, autogen_form, trial
from autogen_eventlog.transfer.kept_messages import given_back, kept
from autogen_eventlog.transfer.message_forms import completed_alone
from autogen_eventlog.transfer.team_forms import in_todays_form, is_team_state

logger = logging.getLogger(__name__)

_UNKNOWN_TYPE = "Unknown message type: "
"""What AgentChat's `MessageFactory.create` says, before the type."""


class StateOwner(Protocol):
    """A team of AgentChat, as far as its state goes."""

    @property
    def name(self) -> str: ...

    async def save_state(self) -> Mapping[str, Any]: ...

    async def load_state(self, state: Mapping[str, Any]) -> None: ...


async def autogen_state(
    runtime: EventSourcedAgentRuntime,
    agent: AgentId | str,
    *,
    at: datetime | None = None,
    version: int | None = None,
    position: int | None = None,
) -> Mapping[str, Any]:
    """What an agent's own `save_state` says as of a past point (by default: now): AutoGen's own runtime loads it.

    Nothing live is touched.

    Raises:
        RecordingIncomplete: The runtime has no `EventLogHandler`.
        NoOwnState: The agent's class has no `save_state` of its own.
        What `runtime.view` raises.
    """
    return given_back(
        await runtime.recorded_agents.travel.plain(agent_id(agent), point(at=at, version=version, position=position))
    )


async def save_team_state(
    team: StateOwner, *, at: datetime | None = None, position: int | None = None
) -> Mapping[str, Any]:
    """What a team on an `EventSourcedAgentRuntime` keeps, as of a past point (by default: now), in AutoGen's form.

    Any team of AutoGen 0.4.9 or later with the same participants loads it, on any runtime. Nothing live is touched. An agent
    that had no past at the point is saved as new.

    Raises:
        NoOwnState: The class of one of its agents has no `save_state` of its own.
        InvalidState: An agent of it is on another worker.
        What `runtime.view` raises.
    """
    with autogen_form(point(at=at, position=position)):
        return given_back(_in_autogens_form(team.name, await team.save_state()))


async def load_team_state(
    team: StateOwner,
    state: Mapping[str, Any],
    *,
    participant: str | None = None,
    unknown_messages: Literal["refuse", "keep"] = "refuse",
) -> None:
    """Put a saved state into a team on an `EventSourcedAgentRuntime`: all of it, or nothing.

    It goes through `agent_load_state` of each of the team's agents, so it is recorded, and replay does the same. The form of
    AutoGen 0.4.0 to 0.4.8 is made into today's, where that is certain. `team.load_state` does the same one agent after
    the other, and stops amid them where one refuses.

    Args:
        state: What `team.save_state()` gave, on any runtime.
        participant: Load the state of one agent of AgentChat (what `agent.save_state()` gave) into the participant of this
            name; the others stay as they are.
        unknown_messages: `keep` puts a text message, with the content as JSON, in the place of each message of a type that the
            team does not know. `save_team_state` and `autogen_state` give those back whole, so loading what they say into
            a team that knows the types makes them what they were.

    Raises:
        InvalidState: It is no state of such a team, or of a form or version that is not known; nothing was changed.
        MessageTypesMissing: It holds messages of types that the team, or one within a participant, does not know; nothing was
            changed. A team that is in no field of its participant says so when it is loaded; all is put back then.
        Whatever an agent's `load_state` raised, EventTooLarge, DatabaseUnavailable: what the team's agents say of themselves is
            then put back to what it was before, after a cancellation too. Where not even that can be recorded, an error in
            the log of this module names the agents that are changed.
    """
    with autogen_form(point()):
        before = _in_autogens_form(team.name, await team.save_state())
    with _of_known_form(team.name):
        if participant is None:
            todays: Mapping[str, Any] = _of_team(team, state, before)
        else:
            todays = _of_participant(team.name, participant, state, before, await team.save_state())
    missing = await _missing(team, todays)
    if unknown_messages == "keep" and missing.missing:
        todays = _kept(team.name, todays, missing)
        missing = await _missing(team, todays)
    missing.raise_missing()
    await _load(team, todays, before)


async def _load(team: StateOwner, state: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    try:
        await team.load_state(state)
    except (Exception, asyncio.CancelledError) as error:  # an agent's own code, the log, who gives up waiting
        logger.warning("team %s is put back to what it was: a state could not be loaded: %r", team.name, error)
        if await _put_back(team, before, state) and str(error).startswith(_UNKNOWN_TYPE):
            raise _missing_within(team.name, str(error).removeprefix(_UNKNOWN_TYPE)) from error
        raise


async def _put_back(team: StateOwner, before: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Load what the team said before. Where that fails too, why loading failed is still what the caller is told."""
    try:
        await team.load_state(before)
        return True
    except (Exception, asyncio.CancelledError) as error:
        changed = ", ".join(map(repr, await _changed(team, before, given)))
        said = (
            "team %s could not be put back: %r. Agents that are no longer as they were: %s. Load a state again, or %s"
        )
        logger.error(said, team.name, error, changed or "none", "restore them (eventlog restore)")
        if isinstance(error, asyncio.CancelledError):
            raise
        return False


async def _changed(team: StateOwner, before: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """The agents that don't say what they said before; if they can't be asked, those that were to say something else."""
    try:
        with autogen_form(point()):
            now = await team.save_state()
    except Exception:
        now = given
    states = before["agent_states"]
    return [name for name in states if now["agent_states"].get(name) != states[name]]


async def _missing(team: StateOwner, state: Mapping[str, Any]) -> Trial:
    """Look at a state, and load nothing."""
    with trial() as tried:
        await team.load_state(state)
    return tried


def _kept(team: str, state: Mapping[str, Any], missing: Trial) -> Mapping[str, Any]:
    try:
        return kept(state, missing.messages)
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"a message to be kept is nothing that JSON can hold: {error}"
        raise InvalidState(team, problem, "Give what team.save_state() gave") from error


def _missing_within(team: str, kind: str) -> MessageTypesMissing:
    """What a team says that was not found in the participant that holds it."""
    problem = f"a team within one of its agents does not know messages of type {kind}"
    remedy = "Name it there (custom_message_types=[…] of that team). All agents are as they were before"
    return MessageTypesMissing(team, problem, remedy, (kind,))


@contextmanager
def _of_known_form(team: str) -> Generator[None]:
    """Inside, a state's messages are completed, which takes for granted what AgentChat's have: lists, names as text."""
    try:
        yield
    except TypeError as error:
        problem = f"it holds messages or calls of tools in a form that none of AgentChat's has ({error})"
        raise InvalidState(team, problem, "Give what save_state() gave") from error


def _of_team(team: StateOwner, state: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    if is_team_state(state):
        return in_todays_form(team.name, state, before)
    problem = f"it is no team's state (its keys: {_keys(state)})"
    raise InvalidState(team.name, problem, "Give what team.save_state() gave, or name the participant that it is of")


def _of_participant(
    team: str, name: str, state: Mapping[str, Any], before: Mapping[str, Any], unchanged: Mapping[str, Any]
) -> dict[str, Any]:
    """The state of a team in which one participant has another state."""
    own: Mapping[str, Any] = before["agent_states"].get(name) or {}
    if "agent_state" not in own:
        known = ", ".join(repr(one) for one, said in before["agent_states"].items() if "agent_state" in said)
        raise InvalidState(team, f"it has no participant {name!r}, but {known}", "Name one of them")
    replaced: dict[str, Any] = {**own, "agent_state": completed_alone(state), "message_buffer": []}
    return {**unchanged, "agent_states": {**unchanged["agent_states"], name: replaced}}


def _in_autogens_form(team: str, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """A team's state, if the runtime gave each agent's in the form that was wanted: another worker's does not."""
    for name, one in state["agent_states"].items():
        if str(one.get("format", "")).startswith("autogen-eventlog/"):
            problem = f"its agent {name!r} is on another worker, which gives no state in AutoGen's form"
            remedy = "Use team.load_state, or a team on an EventSourcedAgentRuntime with the same log (eventlog import, export)"
            raise InvalidState(team, problem, remedy)
    return state


def _keys(state: Mapping[str, Any]) -> str:
    names = sorted(map(str, state))
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
