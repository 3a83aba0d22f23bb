"""Listener that a supervisor tells of its jobs; by itself it does nothing.

All calls come from the supervisor's thread, one job after the other: `started`, `phase` with every progress, `ended`.
"""

from app.jobs.job import Job


class JobObserver:
    """Observer of the jobs of one worker."""

    def started(self, job: Job) -> None:
        """The job was claimed."""

    def phase(self, name: str) -> None:
        """The job entered a phase, as its progress calls it."""

    def ended(self, end: str) -> None:
        """The try ended: in a state of the job, or back in the queue for a reason in one word."""

    def paused(self) -> None:
        """The worker takes no jobs for a while, as they die on it."""
