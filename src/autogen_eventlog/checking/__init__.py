"""Recorded histories held against the code at hand, before it is deployed.

- `checker`  replays agents' pasts, from the log or from files, and changes nothing   `report`    what it says
- `history`  an agent's history as a file                                             `lines`     the lines of one
- `states`   a state as data, to be kept and compared                                 `read_only` a log to look at
"""

from autogen_eventlog.checking.history import History, read_history
from autogen_eventlog.checking.report import AgentCheck, CheckOutcome, CheckProgress, CheckReport
from autogen_eventlog.errors import CodeComparison, FieldDifference

__all__ = [
    "AgentCheck",
    "CheckOutcome",
    "CheckProgress",
    "CheckReport",
    "CodeComparison",
    "FieldDifference",
    "History",
    "read_history",
]
