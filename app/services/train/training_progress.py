"""Progress of a training, as its job shows it."""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from app.jobs.child import Reporter
from core.train.progress import Checkpoint, Phase, Progress

READ, PUBLISH = 0.02, 0.98
"""Shares of the whole: up to where the table is read, and from where the model is published."""
_PUBLIC_PHASES = {Phase.REFINING: Phase.ADAPTING, Phase.CALIBRATING: Phase.EVALUATING}
"""Names that clients get for phases that their contract does not know; the report keeps the seconds of each."""
_PACE_SHARE, _PACE_SECONDS = 0.01, 0.2  # before so much is done the pace is a guess


class ProgressReporter:
    """Events of `core` as the job's progress: a share of the whole that never goes back, and the seconds left.

    floor: how far an earlier try had come; the share waits there until this one is as far.
    """

    def __init__(self, reporter: Reporter, floor: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._reporter = reporter
        self._shown = floor
        self._clock = clock
        self._first: tuple[float, float] | None = None
        self._last: dict[str, Any] = {}
        self._sent: dict[str, Any] = {}

    def __call__(self, event: Progress | Checkpoint) -> None:
        if isinstance(event, Checkpoint):
            self._reporter.checkpoint(asdict(event))
            return
        share = READ + (PUBLISH - READ) * min(max(event.fraction, 0.0), 1.0)
        if self._first is None:
            self._first = (self._clock(), share)
        self._last = {
            "round": event.round,
            "rounds": event.rounds,
            "basis_size": event.basis_size,
            "objective": event.objective,
        }
        self.report_phase(_PUBLIC_PHASES.get(event.phase, event.phase), share)

    def reading(self, share: float) -> None:
        """Report a share of the reading."""
        self.report_phase("reading", READ * share)

    def report_phase(self, phase: str, share: float) -> None:
        """Report a phase and a share of the whole."""
        self._shown = max(self._shown, share)
        left = self._left(share)
        news = {"phase": phase, "fraction": round(self._shown, 4), **self._last}
        self._sent = news | {"eta_s": left}
        self._reporter.progress(self._sent)

    def waiting(self, reason: str | None) -> None:
        """Report what the work waits for, and None once it goes on."""
        self._reporter.progress(self._sent if reason is None else self._sent | {"eta_s": None, "waiting": reason})

    def _left(self, share: float) -> float | None:
        """Seconds left, at the pace of this try; None while there is no pace."""
        if self._first is None:
            return None
        began, start = self._first
        passed = self._clock() - began
        if share - start < _PACE_SHARE or passed < _PACE_SECONDS:
            return None
        return round(passed / (share - start) * (1.0 - share), 1)
