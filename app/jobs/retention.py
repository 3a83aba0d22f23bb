"""Removal of jobs that ended long ago."""

from sqlalchemy import Connection, delete, select

from app.database.batched import batched
from app.database.clock import now
from app.database.tables import jobs
from app.identifiers import oldest_job_id
from app.jobs.job import JobState
from app.jobs.queries import c

REMOVED_AT_ONCE = 1_000
"""Ended jobs that one transaction removes: others wait for it on SQLite."""
_BATCH = 500
_CLOCK_SLACK_SECONDS = 86_400.0


def remove_ended(connection: Connection, *, older_than: float, limit: int = REMOVED_AT_ONCE) -> int:
    """Remove up to `limit` jobs that ended so many seconds ago, with their idempotency keys; return how many."""
    removed = 0
    for state in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED):
        old = select(c.id).where(
            c.state == state,
            c.id < oldest_job_id(older_than - _CLOCK_SLACK_SECONDS),  # ids sort by age: a range of the index
            c.finished_at < now() - older_than,
        )
        chosen = connection.execute(old.order_by(c.id).limit(limit - removed)).scalars().all()
        for ids in batched(chosen, _BATCH):
            removed += connection.execute(delete(jobs).where(c.id.in_(ids), c.state == state)).rowcount
    return removed
