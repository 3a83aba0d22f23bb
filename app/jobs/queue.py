"""The durable queue: one row per job, leased by a worker, fenced against workers that come back from the dead.

A claim takes the first job that is queued, or running with its lease over, and raises `fence`. Every later write of
that worker has WHERE id AND fence AND state = 'running'. Zero rows mean that the lease was lost to another worker,
or that the job was cancelled: LeaseLostError, and the worker must stop and publish nothing. So a job may be
*run* more than once, but it *ends* once, and what is written in the transaction of `succeed` is written once.

A worker that dies leaves its lease to run out; a supervisor whose child died gives the job back at once (`died`).
Both count: after MAX_ATTEMPTS claims without a checkpoint between them, or MAX_CLAIMS in all, the job fails.

A running job with `cancel_requested` never succeeds if the worker calls `renew` first in the transaction that ends
it. Functions take an open connection, so that a job can be submitted or ended together with other rows; all but
`has_work` and `watch` need `Database.write()`. The rows themselves, and who only reads them, are in `app.jobs.listing`.
"""

from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
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

from app.database import now
from app.errors import InvalidRequestError, LeaseLostError
from app.jobs import job as job_module
from app.jobs import roster
from app.jobs.bell import ring
from app.jobs.job import Job, JobState, new_job_id
from app.jobs.listing import LONGEST_KEY, LONGEST_MODEL, ORDER, as_job, c, get, jobs
from app.jobs.roster import Size

MAX_ATTEMPTS = 3
"""Claims without a checkpoint between them, after which a job is taken to kill its workers."""
MAX_CLAIMS = 20
"""Claims in all: even a job that gets on a little each time has an end."""
LARGEST_PRIORITY = 1_000_000
ANY = Size()


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
        return as_job(row), True
    return as_job(connection.execute(select(jobs).where(c.idempotency_key == idempotency_key)).one()), False


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


def has_work(connection: Connection, *, most: Size = ANY, without: Collection[str] = ()) -> bool:
    """True if a claim would find a job; only reads, so that idle workers do not hold the write lock."""
    found = select(c.id).where(_claimable(), _fits(most), c.id.not_in(without)).exists()
    return bool(connection.execute(select(found)).scalar_one())


def claim(
    connection: Connection,
    *,
    worker: str,
    lease_seconds: float,
    most: Size = ANY,
    without: Collection[str] = (),
) -> Job | None:
    """Take the next job that is no larger than `most` for `lease_seconds`, or None. Jobs that are cancelled or worn
    out are ended on the way. without: ids of jobs that this worker would rather not do now.
    """
    query = (
        select(jobs)
        .where(_claimable(), _fits(most), c.id.not_in(without))
        .order_by(*ORDER)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    while (row := connection.execute(query).one_or_none()) is not None:
        job = as_job(row)
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
    """What the job stands on is away: as `release`, however often, with the reason as its last death."""
    return _write(connection, job, _back() | {c.last_death: str(error["message"])})


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
        _set(connection, job, _ending(JobState.FAILED) | {c.error: _too_large(job, most)}) for job in map(as_job, found)
    ]


def release(connection: Connection, job: Job) -> Job:
    """The worker stops in good order: back in the queue, and this try does not count; LeaseLostError.

    A job that is to be cancelled is cancelled.
    """
    ring(connection)
    return _write(connection, job, _back())


def _back() -> dict[Any, Any]:
    """In the queue again, as if it had not been claimed; cancelled if it is to be."""
    return _UNLEASED | {
        c.state: case((c.cancel_requested, JobState.CANCELLED.value), else_=JobState.QUEUED.value),
        c.finished_at: case((c.cancel_requested, now()), else_=null()),
        c.checkpoint: case((c.cancel_requested, null()), else_=c.checkpoint),
        c.attempts: case((c.attempts > 0, c.attempts - 1), else_=0),
        c.claims: c.claims - 1,
    }


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
    return as_job(row)


def _set(connection: Connection, job: Job, values: dict[Any, Any]) -> Job:
    """A write under the lock that `claim` holds."""
    return as_job(
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
