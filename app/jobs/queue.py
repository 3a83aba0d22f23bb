"""The durable queue: one row per job, leased by a worker, fenced against workers that come back from the dead.

A claim takes the first job that is queued, or running with its lease over, and raises `fence`. Every later write of
that worker has WHERE id AND fence AND state = 'running'. Zero rows mean that the lease was lost to another worker,
or that the job was cancelled: LeaseLostError, and the worker must stop and publish nothing. So a job may be
*run* more than once, but it *ends* once, and what is written in the transaction of `succeed` is written once.

A worker that dies leaves its lease to run out; a supervisor whose child died gives the job back at once (`died`).
Both count: after MAX_ATTEMPTS claims without a checkpoint between them, or MAX_CLAIMS in all, the job fails.

A running job with `cancel_requested` never succeeds if the worker calls `renew` first in the transaction that ends
it. Functions take an open connection, so that a job can be submitted or ended together with other rows; all but
`get`, `list_jobs`, `positions`, `unfinished`, `counts`, `has_work` and `watch` need `Database.write()`.
"""

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
    ColumnElement,
    Connection,
    Double,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    and_,
    case,
    func,
    null,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from app.database import metadata, now
from app.errors import InvalidRequestError, LeaseLostError, NotFoundError
from app.jobs import job as job_module
from app.jobs import roster
from app.jobs.bell import ring
from app.jobs.job import Job, JobState, new_job_id
from app.jobs.roster import LONGEST_WORKER, Size

MAX_ATTEMPTS = 3
"""Claims without a checkpoint between them, after which a job is taken to kill its workers."""
MAX_CLAIMS = 20
"""Claims in all: even a job that gets on a little each time has an end."""
MOST_JOBS = 500
"""The largest page of `list_jobs`."""
LONGEST_KEY = 255
LONGEST_MODEL = 64
LARGEST_PRIORITY = 1_000_000
ANY = Size()
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
_ORDER = (c.priority.desc(), c.created_at, c.id)
_UNLEASED: dict[Any, Any] = {c.worker: null(), c.lease_until: null()}


def submit(
    connection: Connection,
    *,
    kind: str,
    model: str,
    payload: job_module.JSON,
    priority: int = 0,
    idempotency_key: str | None = None,
    needs: Size = ANY,
) -> tuple[Job, bool]:
    """Put a job in the queue; (job, True), or (the job that has this key already, False). Safe under races.

    The caller compares `payload` with the old job's if the same key with another wish must be refused.
    Larger `priority` first, then older first. needs: who takes less does not get it. On PostgreSQL waiting workers
    wake at the commit. InvalidRequestError for a model, key or priority that
    cannot be kept.
    """
    key = idempotency_key
    if key is not None and not (1 <= len(key) <= LONGEST_KEY and key.isprintable()):
        raise InvalidRequestError(f"Idempotency-Key: expected 1 to {LONGEST_KEY} printable characters, got {key!r}")
    if not (1 <= len(model) <= LONGEST_MODEL and model.isprintable()):
        raise InvalidRequestError(f"model: expected 1 to {LONGEST_MODEL} printable characters, got {model!r}")
    if abs(priority) > LARGEST_PRIORITY:
        raise InvalidRequestError(f"priority: expected -{LARGEST_PRIORITY} to {LARGEST_PRIORITY}, got {priority}")
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    statement = (
        insert(jobs)
        .values(
            id=new_job_id(),
            kind=kind,
            model=model,
            state=JobState.QUEUED,
            priority=priority,
            payload=dict(payload),
            idempotency_key=idempotency_key,
            needs_memory=needs.memory,
            needs_rows=needs.rows,
            created_at=now(),
            updated_at=now(),
        )
        .on_conflict_do_nothing(index_elements=[c.idempotency_key])
        .returning(*jobs.c)
    )
    row = connection.execute(statement).one_or_none()
    if row is not None:
        ring(connection)
        return _job(row), True
    return _job(connection.execute(select(jobs).where(c.idempotency_key == idempotency_key)).one()), False


def get(connection: Connection, job_id: str) -> Job:
    """The job as it is now; NotFoundError."""
    known = _ID.fullmatch(job_id) is not None
    row = connection.execute(select(jobs).where(c.id == job_id)).one_or_none() if known else None
    if row is None:
        raise NotFoundError(f"no job {job_id!r}")
    return _job(row)


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
    found = [_job(row) for row in connection.execute(query)]
    return found[:limit], found[limit - 1].id if len(found) > limit else None


def positions(connection: Connection, wanted: Iterable[Job]) -> dict[str, int]:
    """How many queued jobs go before each of these, by id; 0 for jobs that are not queued."""
    result = {job.id: 0 for job in wanted}
    place = func.row_number().over(order_by=_ORDER).label("place")
    line = select(c.id, place).where(c.state == JobState.QUEUED).subquery()
    rows = connection.execute(select(line.c.id, line.c.place).where(line.c.id.in_(result)))
    result.update({row.id: row.place - 1 for row in rows})
    return result


def position(connection: Connection, job: Job) -> int:
    """How many queued jobs go before this one; 0 if it is not queued."""
    return positions(connection, [job])[job.id]


def unfinished(connection: Connection) -> list[Job]:
    """All jobs that may still run: what they refer to must be kept."""
    query = select(jobs).where(c.state.in_([JobState.QUEUED, JobState.RUNNING])).order_by(*_ORDER)
    return [_job(row) for row in connection.execute(query)]


def counts(connection: Connection) -> dict[JobState, int]:
    """How many jobs are in each state, zeros included."""
    rows = connection.execute(select(c.state, func.count()).group_by(c.state))
    return dict.fromkeys(JobState, 0) | {JobState(state): number for state, number in rows}


def request_cancel(connection: Connection, job_id: str) -> Job:
    """Cancel: at once if nobody works on it, else a wish its worker sees soon; an ended job stays as it is.

    NotFoundError if there is no such job.
    """
    get(connection, job_id)
    free = or_(c.state == JobState.QUEUED, c.lease_until <= now())
    statement = (
        update(jobs)
        .where(c.id == job_id, c.state.in_([JobState.QUEUED, JobState.RUNNING]))
        .values(
            {
                c.state: case((free, JobState.CANCELLED.value), else_=c.state),
                c.finished_at: case((free, now()), else_=c.finished_at),
                c.lease_until: case((free, null()), else_=c.lease_until),
                c.worker: case((free, null()), else_=c.worker),
                c.checkpoint: case((free, null()), else_=c.checkpoint),
                c.cancel_requested: true(),
                **_touched(),
            }
        )
    )
    connection.execute(statement)
    return get(connection, job_id)


def has_work(connection: Connection, *, most: Size = ANY) -> bool:
    """True if a claim would find a job; only reads, so that idle workers do not hold the write lock."""
    return bool(connection.execute(select(select(c.id).where(_claimable(), _fits(most)).exists())).scalar_one())


def claim(connection: Connection, *, worker: str, lease_seconds: float, most: Size = ANY) -> Job | None:
    """Take the next job that is no larger than `most` for `lease_seconds`, or None. Jobs that are cancelled or worn
    out are ended on the way.
    """
    query = select(jobs).where(_claimable(), _fits(most)).order_by(*_ORDER).limit(1).with_for_update(skip_locked=True)
    while (row := connection.execute(query).one_or_none()) is not None:
        job = _job(row)
        if job.cancel_requested:
            _set(connection, job, _ending(JobState.CANCELLED))
        elif _worn_out(job):
            _set(connection, job, _ending(JobState.FAILED) | {c.error: _death(job)})
        else:
            return _set(
                connection,
                job,
                {
                    c.state: JobState.RUNNING,
                    c.fence: c.fence + 1,
                    c.attempts: c.attempts + 1,
                    c.claims: c.claims + 1,
                    c.worker: worker,
                    c.lease_until: now() + lease_seconds,
                    c.started_at: func.coalesce(c.started_at, now()),
                },
            )
    return None


def watch(connection: Connection, job: Job) -> bool:
    """True if the running job should be cancelled; LeaseLostError if it is no longer ours. Only reads."""
    wish = connection.execute(select(c.cancel_requested).where(_ours(job))).scalar_one_or_none()
    if wish is None:
        raise _lost(job)
    return bool(wish)


def renew(connection: Connection, job: Job, *, lease_seconds: float, progress: job_module.JSON | None = None) -> bool:
    """Hold the job for `lease_seconds` from now, with news if there are any; True if it should be cancelled.

    LeaseLostError. Until the transaction ends nobody else can change the job's row.
    """
    values: dict[Any, Any] = {c.lease_until: now() + lease_seconds}
    if progress is not None:
        values |= {c.progress: dict(progress), **_touched()}
    statement = update(jobs).where(_ours(job)).values(values).returning(c.cancel_requested)
    wish = connection.execute(statement).scalar_one_or_none()
    if wish is None:
        raise _lost(job)
    return bool(wish)


def save_checkpoint(connection: Connection, job: Job, checkpoint: job_module.JSON) -> None:
    """Keep what the next claim would go on from. It is progress, so `attempts` starts again;
    LeaseLostError.
    """
    _write(connection, job, {c.checkpoint: dict(checkpoint), c.attempts: 0})


def succeed(connection: Connection, job: Job, result: job_module.JSON) -> Job:
    """The end, with its result; LeaseLostError."""
    return _write(connection, job, _ending(JobState.SUCCEEDED) | {c.result: dict(result)})


def fail(connection: Connection, job: Job, error: job_module.JSON) -> Job:
    """The end, with the reason: at least `type` and `message`. It is not tried again; LeaseLostError."""
    return _write(connection, job, _ending(JobState.FAILED) | {c.error: dict(error)})


def cancelled(connection: Connection, job: Job) -> Job:
    """The end that was asked for; LeaseLostError."""
    return _write(connection, job, _ending(JobState.CANCELLED))


def died(connection: Connection, job: Job, reason: str) -> Job:
    """The child died: back in the queue for any worker, or failed if that was the last try; LeaseLostError.

    A job that is to be cancelled is cancelled.
    """
    held = _write(connection, job, {c.last_death: reason})
    if held.cancel_requested:
        return _write(connection, job, _ending(JobState.CANCELLED))
    if _worn_out(held):
        return _write(connection, job, _ending(JobState.FAILED) | {c.error: _death(held)})
    ring(connection)
    return _write(connection, job, _UNLEASED | {c.state: JobState.QUEUED})


def postpone(connection: Connection, job: Job, error: job_module.JSON) -> Job:
    """What the job stands on is away: back in the queue, and this try counts only among MAX_CLAIMS; LeaseLostError.

    The last of these fails with `error`. A job that is to be cancelled is cancelled.
    """
    held = _write(connection, job, {c.last_death: str(error["message"])})
    if held.cancel_requested:
        return _write(connection, job, _ending(JobState.CANCELLED))
    if held.claims >= MAX_CLAIMS:
        return _write(connection, job, _ending(JobState.FAILED) | {c.error: dict(error)})
    tries = case((c.attempts > 0, c.attempts - 1), else_=0)
    return _write(connection, job, _UNLEASED | {c.state: JobState.QUEUED, c.attempts: tries})


def fail_unfit(connection: Connection, *, patience: float = roster.PATIENCE_SECONDS) -> list[Job]:
    """End the jobs that waited for `patience` seconds and are too large for every worker seen within them; which.

    The caller has signed the roster: there is a worker. A running job whose worker has gone counts from the
    end of its lease.
    """
    query = select(jobs).where(
        or_(c.needs_memory.is_not(None), c.needs_rows.is_not(None)),
        case((c.state == JobState.QUEUED, c.created_at), else_=c.lease_until) <= now() - patience,
        _claimable(),
        ~roster.somebody_fits(c.needs_memory, c.needs_rows, patience),
    )
    found = connection.execute(query.with_for_update(skip_locked=True)).all()
    if not found:
        return []
    most = roster.largest(connection, patience=patience)
    return [
        _set(connection, job, _ending(JobState.FAILED) | {c.error: _too_large(job, most)}) for job in map(_job, found)
    ]


def release(connection: Connection, job: Job) -> Job:
    """The worker stops in good order: back in the queue, and this try does not count; LeaseLostError.

    A job that is to be cancelled is cancelled.
    """
    ring(connection)
    back = case((c.cancel_requested, JobState.CANCELLED.value), else_=JobState.QUEUED.value)
    return _write(
        connection,
        job,
        _UNLEASED
        | {
            c.state: back,
            c.finished_at: case((c.cancel_requested, now()), else_=null()),
            c.checkpoint: case((c.cancel_requested, null()), else_=c.checkpoint),
            c.attempts: case((c.attempts > 0, c.attempts - 1), else_=0),
            c.claims: c.claims - 1,
        },
    )


def _claimable() -> ColumnElement[bool]:
    return or_(c.state == JobState.QUEUED, and_(c.state == JobState.RUNNING, c.lease_until <= now()))


def _fits(most: Size) -> ColumnElement[bool]:
    """The job is no larger than that."""
    limits = [(c.needs_memory, most.memory), (c.needs_rows, most.rows)]
    return and_(true(), *(or_(need.is_(None), need <= limit) for need, limit in limits if limit is not None))


def _too_large(job: Job, most: Size) -> dict[str, str]:
    asked = [(job.needs_memory, most.memory, "bytes of memory"), (job.needs_rows, most.rows, "rows")]
    wants = [f"{need} {what}" for need, _, what in asked if need is not None]
    takes = [f"{limit} {what}" for need, limit, what in asked if need is not None and limit is not None]
    most_taken = f": the most is {' and '.join(takes)}" if takes else ""
    return {
        "type": "too-large",
        "message": f"the job needs about {' and '.join(wants)}, and no worker takes it{most_taken}; "
        "a smaller basis_size or fewer rows need less",
    }


def _ours(job: Job) -> ColumnElement[bool]:
    """The fence: the job is still running under the claim that `job` came from."""
    return and_(c.id == job.id, c.fence == job.fence, c.state == JobState.RUNNING)


def _lost(job: Job) -> LeaseLostError:
    return LeaseLostError(f"{job.id} is no longer held by this worker (claim {job.fence})")


def _touched() -> dict[Any, Any]:
    return {c.revision: c.revision + 1, c.updated_at: now()}


def _ending(state: JobState) -> dict[Any, Any]:
    return _UNLEASED | {c.state: state, c.finished_at: now(), c.checkpoint: null()}


def _write(connection: Connection, job: Job, values: dict[Any, Any]) -> Job:
    row = connection.execute(
        update(jobs).where(_ours(job)).values(values | _touched()).returning(*jobs.c)
    ).one_or_none()
    if row is None:
        raise _lost(job)
    return _job(row)


def _set(connection: Connection, job: Job, values: dict[Any, Any]) -> Job:
    """A write under the lock that `claim` holds."""
    return _job(
        connection.execute(update(jobs).where(c.id == job.id).values(values | _touched()).returning(*jobs.c)).one()
    )


def _worn_out(job: Job) -> bool:
    return job.attempts >= MAX_ATTEMPTS or job.claims >= MAX_CLAIMS


def _death(job: Job) -> dict[str, str]:
    times = job.attempts if job.attempts >= MAX_ATTEMPTS else job.claims
    reason = job.last_death or "it stopped answering (the machine or the worker went away)"
    return {
        "type": "worker-died",
        "message": f"worker died {times} times without finishing; the last time: {reason}",
    }


def _job(row: Any) -> Job:
    values = {field.name: getattr(row, field.name) for field in fields(Job)}
    return Job(**values | {"state": JobState(row.state)})
