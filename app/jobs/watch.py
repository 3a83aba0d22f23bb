"""Leases and heartbeats as one process sees them move, by its own monotonic clock: what SQLite's clock cannot say.

On PostgreSQL all processes have the server's clock. On SQLite `now()` is the clock of whoever asks: a step of it, or a
process that sees another, would take jobs from living workers, or keep those of dead ones. There a time in a row is
only a mark that moves: a lease is over when it has not moved for its length while this process looked on. So the job of
a dead worker waits for one lease after the first look of a worker that lives.
"""

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, false, or_, select

from app.database.clock import now
from app.database.tables import jobs
from app.jobs.job import JobState

c = jobs.c

_MAX_VALUES = 500
"""Values of one IN: further jobs have their turn at the next heartbeat."""


@dataclass(frozen=True, slots=True)
class _Lease:
    """A lease as it stands in its row, and for how many seconds more than its length it has stood so."""

    job: str
    fence: int
    until: float
    overdue: float


class Watch:
    """Leases as one process has seen them. lease_seconds: that of an older release, which did not write it."""

    def __init__(self, lease_seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._seen: dict[str, dict[str, tuple[Hashable, float]]] = {}

    def is_over(self, connection: Connection, *, since: float = 0.0) -> ColumnElement[bool]:
        """SQL condition: the job is running, and its lease has been over for `since` seconds."""
        running = c.state == JobState.RUNNING
        if connection.dialect.name != "sqlite":
            return and_(running, c.lease_until <= now() - since)
        stale = [
            and_(c.id == lease.job, c.fence == lease.fence, c.lease_until == lease.until)
            for lease in self._leases(connection)
            if lease.overdue >= since
        ]
        return and_(running, or_(false(), *stale))

    def has_waited(self, connection: Connection, waiting: ColumnElement[bool], seconds: float) -> ColumnElement[bool]:
        """SQL condition: the job has waited so long. waiting: condition of the jobs that are asked for."""
        if connection.dialect.name != "sqlite":
            return c.created_at <= now() - seconds
        ids = connection.execute(select(c.id).where(waiting)).scalars()
        ages = self.unchanged_seconds("waiting", dict.fromkeys(ids))
        return c.id.in_([job for job, age in ages.items() if age >= seconds][:_MAX_VALUES])

    def unchanged_seconds(self, kind: str, states: Mapping[str, Hashable]) -> dict[str, float]:
        """Return for how long each thing of a kind has been seen in the state that it is in; forget those that are not
        there any more."""
        at = self._clock()
        before = self._seen.get(kind, {})
        fresh = (None, at)
        seen = {
            name: entry if (entry := before.get(name, fresh))[0] == state and name in before else (state, at)
            for name, state in states.items()
        }
        self._seen[kind] = seen
        return {name: at - since for name, (_, since) in seen.items()}

    def _leases(self, connection: Connection) -> list[_Lease]:
        rows = connection.execute(
            select(c.id, c.fence, c.lease_until, c.lease_seconds).where(c.state == JobState.RUNNING)
        ).all()
        ages = self.unchanged_seconds("lease", {row.id: (row.fence, row.lease_until) for row in rows})
        return [
            _Lease(row.id, row.fence, row.lease_until, ages[row.id] - (row.lease_seconds or self._lease_seconds))
            for row in rows
        ]
