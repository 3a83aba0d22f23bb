"""Measures of a worker's jobs: seconds by phase, and how each try ended."""

import time
from collections.abc import Callable

from app.telemetry.measures import Measures

STARTING = "starting"
"""Phase from the claim to the first progress: the child process starts."""


class JobMeasures:
    """Measures of one worker, whose supervisor calls it from one thread."""

    def __init__(self, measures: Measures, clock: Callable[[], float] = time.monotonic) -> None:
        self._measures = measures
        self._clock = clock
        self._phase: str | None = None
        self._since = 0.0

    def started(self) -> None:
        """A job was claimed."""
        self._enter(STARTING)

    def phase(self, name: str) -> None:
        """It entered a phase, or goes on in one: seconds are counted as they pass."""
        self._enter(name)

    def ended(self, end: str) -> None:
        """Its try ended."""
        self._enter(None)
        self._measures.job_tries.add((end,))

    def paused(self) -> None:
        """The worker pauses, as jobs die on it."""
        self._measures.worker_faults.add()

    def _enter(self, phase: str | None) -> None:
        now = self._clock()
        if self._phase is not None:
            self._measures.job_phase_seconds.add((self._phase,), now - self._since)
        self._phase, self._since = phase, now
