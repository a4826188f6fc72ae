"""Questions to the log: what was delivered, how it ended, what led to what.

- `audit`    the questions       `filters`  what may be asked for
- `records`  the answers
"""

from autogen_eventlog.audit.audit import Audit
from autogen_eventlog.audit.records import Activity, EffectRecord, MessageRecord, Statistics

__all__ = ["Activity", "Audit", "EffectRecord", "MessageRecord", "Statistics"]
