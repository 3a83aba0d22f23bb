"""Queries of jobs: one, a page, their positions in the queue. `app.jobs.queue` is what changes them."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, func, select

from app.database.tables import jobs
from app.errors import InvalidRequestError, NotFoundError
from app.identifiers import is_job_id
from app.jobs.job import Job, JobState

MAX_PAGE_SIZE = 500
"""The largest page of `list_jobs`."""

c = jobs.c
QUEUE_ORDER = (c.priority.desc(), c.created_at, c.id)
"""The order in which queued jobs are claimed."""


def job_from_row(row: Any) -> Job:
    """Make a job of a row with all columns of the table."""
    values = {field.name: getattr(row, field.name) for field in fields(Job)}
    return Job(**values | {"state": JobState(row.state)})


def get(connection: Connection, job_id: str) -> Job:
    """Return the job as it is now; NotFoundError."""
    row = connection.execute(select(jobs).where(c.id == job_id)).one_or_none() if is_job_id(job_id) else None
    if row is None:
        raise NotFoundError(f"no job {job_id[:80]!r}")
    return job_from_row(row)


def list_jobs(
    connection: Connection,
    *,
    state: JobState | None = None,
    model: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> tuple[list[Job], str | None]:
    """Return a page of jobs, newest first, and the cursor of the next page (None at the end)."""
    if not 1 <= limit <= MAX_PAGE_SIZE:
        raise InvalidRequestError(f"limit: expected 1 to {MAX_PAGE_SIZE}, got {limit}")
    query = select(jobs).order_by(c.id.desc()).limit(limit + 1)
    if state is not None:
        query = query.where(c.state == state)
    if model is not None:
        if not model.isprintable():  # PostgreSQL takes no NUL
            return [], None
        query = query.where(c.model == model)
    if cursor is not None:
        if not is_job_id(cursor):
            raise InvalidRequestError(f"cursor: expected one from an earlier page, got {cursor[:80]!r}")
        query = query.where(c.id < cursor)
    page = [job_from_row(row) for row in connection.execute(query)]
    return page[:limit], page[limit - 1].id if len(page) > limit else None


def positions(connection: Connection, queried: Iterable[Job]) -> dict[str, int]:
    """Count the queued jobs in front of each of these, by id; 0 for jobs that are not queued."""
    result = {job.id: 0 for job in queried}
    rank = func.row_number().over(order_by=QUEUE_ORDER).label("rank")
    ranked = select(c.id, rank).where(c.state == JobState.QUEUED).subquery()
    rows = connection.execute(select(ranked.c.id, ranked.c.rank).where(ranked.c.id.in_(result)))
    result.update({row.id: row.rank - 1 for row in rows})
    return result


def position(connection: Connection, job: Job) -> int:
    """Count the queued jobs in front of this one; 0 if it is not queued."""
    return positions(connection, [job])[job.id]


def unfinished(connection: Connection) -> list[Job]:
    """Return all jobs that may still run: what they refer to must be kept."""
    query = select(jobs).where(c.state.in_([JobState.QUEUED, JobState.RUNNING])).order_by(*QUEUE_ORDER)
    return [job_from_row(row) for row in connection.execute(query)]


def counts(connection: Connection) -> dict[JobState, int]:
    """Count the jobs in each state, zeros included."""
    rows = connection.execute(select(c.state, func.count()).group_by(c.state))
    return dict.fromkeys(JobState, 0) | {JobState(state): number for state, number in rows}
