"""Questions to the log: what was delivered, how it ended, what led to what.

- `audit`    the questions       `filters`  what may be asked for
- `records`  the answers              `differences`  of two runs
"""

from autogen_eventlog.audit.audit import Audit
from autogen_eventlog.audit.differences import Difference, compare
from autogen_eventlog.audit.records import Activity, EffectRecord, Holding, MessageRecord, Statistics

__all__ = ["Activity", "Audit", "Difference", "EffectRecord", "Holding", "MessageRecord", "Statistics", "compare"]
