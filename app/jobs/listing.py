"""The rows of jobs, as they are read: one, a page, the line they stand in. `app.jobs.queue` is who writes them."""

import re
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    func,
    select,
)

from app.database import metadata
from app.errors import InvalidRequestError, NotFoundError
from app.jobs.job import Job, JobState
from app.jobs.roster import LONGEST_WORKER

MOST_JOBS = 500
"""The largest page of `list_jobs`."""
LONGEST_KEY = 255
LONGEST_MODEL = 64
_ID = re.compile(r"job_[0-9a-f]{32}")

jobs = Table(
    "jobs",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("kind", String(64), nullable=False),
    Column("model", String(LONGEST_MODEL), nullable=False),
    Column("state", String(16), nullable=False),
    Column("priority", Integer, nullable=False),
    Column("payload", JSON(none_as_null=True), nullable=False),
    Column("needs_memory", BigInteger),
    Column("needs_rows", BigInteger),
    Column("progress", JSON(none_as_null=True)),
    Column("checkpoint", JSON(none_as_null=True)),
    Column("result", JSON(none_as_null=True)),
    Column("error", JSON(none_as_null=True)),
    Column("attempts", Integer, nullable=False, default=0),
    Column("claims", Integer, nullable=False, default=0),
    Column("fence", Integer, nullable=False, default=0),
    Column("worker", String(LONGEST_WORKER)),
    Column("lease_until", Double),
    Column("cancel_requested", Boolean, nullable=False, default=False),
    Column("last_death", Text),
    Column("idempotency_key", String(LONGEST_KEY)),
    Column("revision", Integer, nullable=False, default=1),
    Column("created_at", Double, nullable=False),
    Column("started_at", Double),
    Column("finished_at", Double),
    Column("updated_at", Double, nullable=False),
    UniqueConstraint("idempotency_key"),
    CheckConstraint("state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')", name="state"),
    CheckConstraint("(state = 'running') = (lease_until IS NOT NULL)", name="leased"),
    Index(None, "state", "priority", "created_at", "id"),
    Index(None, "model", "id"),
)
c = jobs.c
ORDER = (c.priority.desc(), c.created_at, c.id)
"""The line: who is claimed first."""


def as_job(row: Any) -> Job:
    """From all columns of a row."""
    values = {field.name: getattr(row, field.name) for field in fields(Job)}
    return Job(**values | {"state": JobState(row.state)})


def get(connection: Connection, job_id: str) -> Job:
    """The job as it is now; NotFoundError."""
    known = _ID.fullmatch(job_id) is not None
    row = connection.execute(select(jobs).where(c.id == job_id)).one_or_none() if known else None
    if row is None:
        raise NotFoundError(f"no job {job_id!r}")
    return as_job(row)


def list_jobs(
    connection: Connection,
    *,
    state: JobState | None = None,
    model: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> tuple[list[Job], str | None]:
    """Newest first, with the cursor of the next page (None at the end)."""
    if not 1 <= limit <= MOST_JOBS:
        raise InvalidRequestError(f"limit: expected 1 to {MOST_JOBS}, got {limit}")
    query = select(jobs).order_by(c.id.desc()).limit(limit + 1)
    if state is not None:
        query = query.where(c.state == state)
    if model is not None:
        if not model.isprintable():  # PostgreSQL takes no NUL
            return [], None
        query = query.where(c.model == model)
    if cursor is not None:
        if not _ID.fullmatch(cursor):
            raise InvalidRequestError(f"cursor: expected one from an earlier page, got {cursor!r}")
        query = query.where(c.id < cursor)
    found = [as_job(row) for row in connection.execute(query)]
    return found[:limit], found[limit - 1].id if len(found) > limit else None


def positions(connection: Connection, wanted: Iterable[Job]) -> dict[str, int]:
    """How many queued jobs go before each of these, by id; 0 for jobs that are not queued."""
    result = {job.id: 0 for job in wanted}
    place = func.row_number().over(order_by=ORDER).label("place")
    line = select(c.id, place).where(c.state == JobState.QUEUED).subquery()
    rows = connection.execute(select(line.c.id, line.c.place).where(line.c.id.in_(result)))
    result.update({row.id: row.place - 1 for row in rows})
    return result


def position(connection: Connection, job: Job) -> int:
    """How many queued jobs go before this one; 0 if it is not queued."""
    return positions(connection, [job])[job.id]


def unfinished(connection: Connection) -> list[Job]:
    """All jobs that may still run: what they refer to must be kept."""
    query = select(jobs).where(c.state.in_([JobState.QUEUED, JobState.RUNNING])).order_by(*ORDER)
    return [as_job(row) for row in connection.execute(query)]


def counts(connection: Connection) -> dict[JobState, int]:
    """How many jobs are in each state, zeros included."""
    rows = connection.execute(select(c.state, func.count()).group_by(c.state))
    return dict.fromkeys(JobState, 0) | {JobState(state): number for state, number in rows}
