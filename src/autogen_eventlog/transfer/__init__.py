"""Moving agents in and out: AutoGen's own states, and whole sessions as files."""

from __future__ import annotations

from autogen_eventlog.transfer.exporting import ExportedSession, export_session
from autogen_eventlog.transfer.importing import ImportedAgent, ImportedSession, check_session, import_session
from autogen_eventlog.transfer.teams import StateOwner, autogen_state, load_team_state, save_team_state

__all__ = [
    "ExportedSession",
    "ImportedAgent",
    "ImportedSession",
    "StateOwner",
    "autogen_state",
    "check_session",
    "export_session",
    "import_session",
    "load_team_state",
    "save_team_state",
]
