"""Settings with which the store could not work are refused where they are given."""

from __future__ import annotations

import pytest

from autogen_eventlog import EventLog
from autogen_eventlog.postgres.ownership import Ownership
from autogen_eventlog.postgres.writer import Writer


@pytest.mark.parametrize("size", [0, -1])
def test_a_writer_without_room_for_any_event_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="max_pending_bytes must be at least 1"):
        Writer("dbname=any", "eventlog", max_pending_bytes=size)


@pytest.mark.parametrize("lease", [0, -1.5])
def test_a_lease_that_is_over_at_once_is_refused(lease: float) -> None:
    with pytest.raises(ValueError, match="lease must be more than 0 seconds"):
        Ownership("dbname=any", "eventlog", lease=lease)


@pytest.mark.parametrize("dsn", ["not a dsn", "postgresql://[", 5, b"dbname=x", "dbname=x secret=hunter2 nonsense"])
async def test_a_dsn_that_libpq_can_t_read_is_refused_without_being_repeated(dsn: object) -> None:
    with pytest.raises(ValueError, match="dsn is none that libpq takes") as refused:
        async with EventLog.open(dsn):  # type: ignore[arg-type]
            pass
    assert "hunter2" not in str(refused.value)


async def test_an_empty_directory_is_refused() -> None:
    with pytest.raises(ValueError, match="data_dir is empty"):
        async with EventLog.open(data_dir=""):
            pass
