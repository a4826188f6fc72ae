"""Old events leave the log: whole months, only below proven snapshots, archived first if wanted, and never without a trace.

`plan` says what may go and what keeps the rest, `archive` writes what goes into files, `retention` does it.
"""

from autogen_eventlog.postgres.partitions import DroppedPartition
from autogen_eventlog.retention.archive import Archive, JsonLinesArchive, ParquetArchive
from autogen_eventlog.retention.plan import Blocked, Part
from autogen_eventlog.retention.retention import Retention

__all__ = ["Archive", "Blocked", "DroppedPartition", "JsonLinesArchive", "ParquetArchive", "Part", "Retention"]
