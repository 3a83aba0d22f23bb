"""Followers of jobs, who share one look at the database per process: its cost grows with the jobs, not with them.

A look comes every LOOK_SECONDS, or so long after the last one that looking takes no more than a twentieth of a core.
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator

from anyio import to_thread

from app.errors import UnavailableError
from app.services.jobs import Jobs, JobView

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
"""How often the jobs that somebody follows are looked at."""
MAX_SHARE = 0.05
"""Share of the time that looking may take."""


class _Followed:
    """A job that somebody follows: how it was seen last, and the futures of those who wait for its next change."""

    def __init__(self, view: JobView) -> None:
        self.view = view
        self.followers = 0
        self.changed = asyncio.Event()


class JobFollowers:
    """Looks at the jobs that are followed while there are any; for one event loop."""

    def __init__(self, jobs: Jobs, stopping: threading.Event) -> None:
        self._jobs = jobs
        self._stopping = stopping
        self._followed: dict[str, _Followed] = {}
        self._looking: asyncio.Task[None] | None = None

    async def follow(self, view: JobView, quiet_seconds: float) -> AsyncIterator[JobView | None]:
        """Yield the job now and at every change until it has ended; None after so many seconds without one.

        Ends early where the database does not answer, or the server stops.
        """
        followed = self._followed.setdefault(view.job.id, _Followed(view))
        followed.followers += 1
        if view.now > followed.view.now and _mark(view) != _mark(followed.view):
            self._wake(followed, view)
        try:
            seen = view
            yield seen
            while not (seen.job.state.ended or self._stopping.is_set()):
                if _mark(followed.view) != _mark(seen):
                    seen = followed.view
                    yield seen
                    continue
                if self._looking is None:
                    self._looking = asyncio.create_task(self._look())
                changed = followed.changed
                try:
                    async with asyncio.timeout(quiet_seconds):
                        await changed.wait()
                except TimeoutError:
                    yield None
                if changed.is_set() and _mark(followed.view) == _mark(seen):
                    return  # the look failed, or is the last
        finally:
            followed.followers -= 1
            if not followed.followers:
                del self._followed[view.job.id]

    async def _look(self) -> None:
        """Look until nobody follows a job that has not ended."""
        pause = LOOK_SECONDS
        try:
            while True:
                await asyncio.sleep(pause)
                known = {
                    job: _mark(followed.view)
                    for job, followed in self._followed.items()
                    if not followed.view.job.state.ended
                }
                if not known or self._stopping.is_set():
                    return
                began = time.perf_counter()
                for view in await to_thread.run_sync(self._jobs.changes, known):
                    if view.job.id in self._followed:
                        self._wake(self._followed[view.job.id], view)
                pause = max(LOOK_SECONDS, (time.perf_counter() - began) / MAX_SHARE)
        except UnavailableError as error:
            log.warning("jobs cannot be followed: %s", error)
        finally:
            self._looking = None
            for followed in self._followed.values():
                self._wake(followed, followed.view)

    @staticmethod
    def _wake(followed: _Followed, view: JobView) -> None:
        followed.view = view
        followed.changed.set()
        followed.changed = asyncio.Event()


def _mark(view: JobView) -> tuple[int, int]:
    """Return what changes when the job does for those who follow it."""
    return view.job.revision, view.position
