"""Deaths of child processes in their first seconds: the job's fault, or that of the worker they are on?

A job whose process dies as soon as it runs is tried three times and fails. A worker that is broken (a library that does
not load, a processor without an instruction, a full disk) would fail every job of the queue so. The two look alike
until several jobs have died one after the other: then it is the worker, the deaths do not count, and it pauses. To
learn it early, other jobs go before one that has died. A job that dies on a worker which others are done on is at
fault itself, whatever came before.
"""

import time
from collections.abc import Callable

EARLY_DEATH_SECONDS = 10.0
"""A process that lives longer, or whose job reaches anything, has shown that jobs can run here."""
MANY_JOBS = 3
"""Jobs that die in a row before the worker is taken to be what kills them."""
PAUSE_SECONDS, MAX_PAUSE_SECONDS = 10.0, 60.0
"""Pause of a worker at fault, doubled each time. Claims go on to count: in the end a job fails, and says why."""
_MAX_REMEMBERED = 1_000


class EarlyDeaths:
    """Early deaths on one worker, as far as it knows of them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._recent: dict[str, int] = {}
        self._at_fault: set[str] = set()
        self._pause = PAUSE_SECONDS
        self._paused_until = 0.0

    @property
    def suspects(self) -> frozenset[str]:
        """Jobs that died since one was done here: others go first."""
        return frozenset(self._recent)

    @property
    def is_paused(self) -> bool:
        """True while this worker should take no job."""
        return self._clock() < self._paused_until

    def add(self, job: str) -> None:
        """A job died early."""
        if job not in self._at_fault:
            self._recent[job] = self._recent.get(job, 0) + 1

    def healthy(self) -> None:
        """A job ran here: those that died were at fault themselves."""
        if len(self._at_fault) > _MAX_REMEMBERED:
            self._at_fault.clear()
        self._at_fault.update(self._recent)
        self._recent.clear()
        self._pause = PAUSE_SECONDS

    def worker_is_at_fault(self) -> bool:
        """True where many jobs have died in a row."""
        return len(self._recent) >= MANY_JOBS

    def forgive(self) -> dict[str, int]:
        """Return the deaths of each job since the last call, which are not to count."""
        forgiven = {job: deaths for job, deaths in self._recent.items() if deaths}
        self._recent = dict.fromkeys(self._recent, 0)
        return forgiven

    def pause(self) -> float:
        """Pause the worker, longer each time; return the seconds."""
        seconds = self._pause
        self._paused_until = self._clock() + seconds
        self._pause = min(2 * seconds, MAX_PAUSE_SECONDS)
        return seconds
