"""Keeps a projection running: eventsourcing's runner ends with the first lost connection, so another one is started."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from threading import Event, Thread
from types import TracebackType
from typing import Any

from eventsourcing.persistence import IntegrityError, InterfaceError, OperationalError, TrackingRecorder
from eventsourcing.projection import BaseProjectionRunner, Projection
from typing_extensions import Self

from autogen_eventlog.projections.application import EventLogApplication, log_environment
from autogen_eventlog.projections.recorder import EventLogRecorder

_LOGGER = logging.getLogger(__name__)
_FIRST_DELAY_SECONDS = 0.05
_LONGEST_DELAY_SECONDS = 5.0
_SHORTEST_POLL_SECONDS = 0.005
_LONGEST_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class ProjectionStatistics:
    """How a projection fares, now."""

    running: bool
    restarts: int
    """Runners started after the first."""
    last_error: BaseException | None
    """Why the last runner ended."""


class ProjectionSupervisor:
    """Runs a projection in threads of its own from the `with` on, and resumes it from its view's tracking position.

    Each event is processed exactly once, if the view records the tracking in the transaction of its change: a lost
    connection, a restart of either side, and even a second supervisor of the same view can neither skip nor repeat an
    event. While a database is away it tries again for as long as it takes, at most every five seconds.

    What is not a lost connection ends it: an error raised by the projection, or a constraint of the view that an event
    breaks twice running. `run_forever`, `wait`, `catch_up` and the end of the `with` raise that error.
    """

    def __init__(
        self,
        projection: Projection[Any],
        dsn: str,
        *,
        schema: str = "eventlog",
        unavailable_after: float = 30.0,
    ) -> None:
        """Args:
        projection: with its view, which is used from other threads until the end of the `with`.
        dsn: the log's database (`log.dsn`).
        schema: the log's schema (`log.schema`).
        unavailable_after: seconds after which the log's database counts as away.
        """
        self._projection = projection
        self._view: TrackingRecorder = projection.view
        self._environment = log_environment(dsn, schema=schema, unavailable_after=unavailable_after)
        self._recorder = EventLogRecorder(dsn, schema=schema, max_connections=2, unavailable_after=unavailable_after)
        self._runner: BaseProjectionRunner[EventLogApplication] | None = None
        self._stopping = Event()
        self._ended = Event()
        self._runs = 0
        self._last_error: BaseException | None = None
        self._failure: BaseException | None = None
        self._thread = Thread(target=self._supervise, name=f"projection-{projection.name}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stops after the event being processed, and waits for that: up to a minute while the view's database is away."""
        self.stop()
        self._thread.join()
        self._recorder.close()
        if kind is None:
            self._raise_failure()

    def stop(self) -> None:
        """Asks it to end. Safe from any thread and from a signal handler. Idempotent."""
        self._stopping.set()
        runner = self._runner
        if runner is not None:
            runner.stop()

    def run_forever(self, timeout: float | None = None) -> bool:
        """Returns when it is stopped (True) or the time in seconds is over (False); raises what ended it otherwise."""
        ended = self._ended.wait(timeout)
        self._raise_failure()
        return ended

    def wait(self, position: int | None, timeout: float) -> None:
        """Returns when the view has got to a position (None: at once).

        Raises:
            TimeoutError: it has not within the time in seconds (asking the view may take up to a minute more while its
                database is away); the message tells the last error.
        """
        ends = time.monotonic() + timeout
        delay = _SHORTEST_POLL_SECONDS
        while not self._has_got_to(position):
            self._raise_failure()
            if time.monotonic() >= ends:
                raise TimeoutError(
                    f"projection {self._projection.name}: not at position {position} within {timeout:g} s; "
                    f"{self._runs} runners were started, last error: {self._last_error!r}"
                )
            time.sleep(delay)
            delay = min(2 * delay, _LONGEST_POLL_SECONDS)

    def catch_up(self, timeout: float) -> None:
        """Returns when the view has got to the last event of its topics that was committed at the call.

        Raises:
            TimeoutError: it has not within the time in seconds. A transaction under way, anybody's in the same
                cluster, may hold the events back.
        """
        ends = time.monotonic() + timeout
        if not self._recorder.settle(timeout):
            raise TimeoutError(
                f"projection {self._projection.name}: a transaction that began before the last event still runs after "
                f"{timeout:g} s (see pg_stat_activity)"
            )
        self.wait(self._recorder.max_notification_id(self._projection.topics), max(0.0, ends - time.monotonic()))

    def statistics(self) -> ProjectionStatistics:
        """Counts and the last error, now."""
        return ProjectionStatistics(self._thread.is_alive(), max(0, self._runs - 1), self._last_error)

    # -- the thread -----------------------------------------------------------------------------------------------

    def _supervise(self) -> None:
        try:
            self._run_until_stopped()
        except BaseException as error:
            self._last_error = self._failure = error
        finally:
            self._ended.set()

    def _run_until_stopped(self) -> None:
        tracked, delay = -1, _FIRST_DELAY_SECONDS
        while not self._stopping.is_set():
            try:
                self._run_once()
            except (OperationalError, InterfaceError, IntegrityError) as error:
                self._last_error = error
                tracked_before, tracked = tracked, self._tracked(tracked)
                moved = tracked > tracked_before
                if isinstance(error, IntegrityError) and not moved:
                    raise
                delay = _FIRST_DELAY_SECONDS if moved else min(2 * delay, _LONGEST_DELAY_SECONDS)
                _LOGGER.warning("projection %s: starting again: %r", self._projection.name, error)
                self._stopping.wait(delay)

    def _run_once(self) -> None:
        """A runner, from the view's position on, until it is stopped or fails."""
        self._runs += 1
        runner = BaseProjectionRunner(
            projection=self._projection,
            application_class=EventLogApplication,
            tracking_recorder=self._view,
            topics=self._projection.topics,
            env=self._environment,
        )
        with runner:
            self._runner = runner
            if self._stopping.is_set():
                runner.stop()
            runner.run_forever()

    def _tracked(self, otherwise: int) -> int:
        """The view's position (0: none yet)."""
        try:
            return self._view.max_tracking_id(EventLogApplication.name) or 0
        except (OperationalError, InterfaceError):
            return otherwise

    def _has_got_to(self, position: int | None) -> bool:
        return position is None or self._tracked(-1) >= position

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
