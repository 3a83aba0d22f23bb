"""The durable queue: one row per job, leased by a worker, fenced against workers that return after their lease.

A claim takes the first job that is queued, or running with its lease over (`app.jobs.watch`), and raises `fence`.
Every later write of that worker has WHERE id AND fence AND state = 'running'. Zero rows mean that the lease was lost
to another worker, or that the job was cancelled: LeaseLostError, and the worker must stop and publish nothing. So a job
may be *run* more than once, but it *ends* once, and what is written in the transaction of `succeed` is written once.

A supervisor whose child died returns the job at once (`requeue_after_death`). That counts: after MAX_ATTEMPTS of them
without a checkpoint between them the job fails. What is not the job's fault does not: the lease of a worker that was
lost, a signal that came from outside, deaths on a worker on which all jobs die. MAX_CLAIMS bounds all of it.

A running job with `cancel_requested` never succeeds if the worker calls `renew` first in the transaction that ends
it. Functions take an open connection, so that a job can be submitted or ended together with other rows; all but
`has_work` and `is_cancel_requested` need `Database.write()`. What only reads jobs is in `app.jobs.queries`.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, func, null, or_, select, true, update

from app.database.clock import now
from app.database.tables import jobs
from app.database.upsert import insert_or_ignore
from app.errors import InvalidRequestError, LeaseLostError
from app.identifiers import NAME_LENGTH, check_idempotency_key, new_job_id
from app.jobs.deaths import WORKER_DIED, death_error, is_exhausted
from app.jobs.job import JSON, Job, JobState
from app.jobs.notify import notify_workers
from app.jobs.queries import QUEUE_ORDER, c, get, job_from_row, refuse_if_full, refuse_if_owner_is_full
from app.jobs.watch import Watch
from app.jobs.workers import (
    UNLIMITED,
    WORKER_TIMEOUT_SECONDS,
    Resources,
    largest_limits,
    no_worker_fits,
    running_limits,
    too_large_error,
)

MAX_PRIORITY = 1_000_000

_UNLEASED: dict[Any, Any] = {c.worker: null(), c.lease_until: null()}


def submit(
    connection: Connection,
    *,
    kind: str,
    model: str,
    payload: JSON,
    priority: int = 0,
    idempotency_key: str | None = None,
    needs: Resources = UNLIMITED,
    table: str | None = None,
    fit: str | None = None,
    max_queued: int | None = None,
    trace_context: str | None = None,
    owner: str | None = None,
    max_owned: int | None = None,
    table_bytes: int | None = None,
) -> tuple[Job, bool]:
    """Put a job in the queue: (job, True), or (the job that has this key already, False). Safe under races.

    The caller compares `payload` with the old job's if the same key with another request must be refused.
    Larger `priority` first, then older first. needs: a worker with smaller limits does not claim it. table, fit: keys
    of the blobs that it reads, kept until it has ended. On PostgreSQL idle workers are notified at the commit.
    owner: id of the API key that asks, of whose jobs at most `max_owned` wait: the caller holds the key's row, so that
    two requests do not both take the last place. table_bytes: of a table that is kept for this job alone.
    InvalidRequestError for a model, key or priority that cannot be kept; BusyError where `max_queued` jobs wait,
    LimitExceededError where the owner's do.
    """
    check_idempotency_key(idempotency_key)
    if not (1 <= len(model) <= NAME_LENGTH and model.isprintable()):
        raise InvalidRequestError(f"model: expected 1 to {NAME_LENGTH} printable characters, got {model!r}")
    if abs(priority) > MAX_PRIORITY:
        raise InvalidRequestError(f"priority: expected -{MAX_PRIORITY} to {MAX_PRIORITY}, got {priority}")
    values = {
        "id": new_job_id(),
        "kind": kind,
        "model": model,
        "state": JobState.QUEUED,
        "priority": priority,
        "payload": dict(payload),
        "idempotency_key": idempotency_key,
        "needs_memory": needs.memory,
        "needs_rows": needs.rows,
        "table_key": table,
        "fit_key": fit,
        "trace_context": trace_context,
        "owner": owner,
        "table_bytes": table_bytes,
        "created_at": now(),
        "updated_at": now(),
    }
    row = insert_or_ignore(connection, jobs, values, key=[c.idempotency_key])
    if row is not None:
        if max_queued is not None:
            refuse_if_full(connection, max_queued + 1)  # with this one, which is taken back
        if owner is not None and max_owned is not None:
            refuse_if_owner_is_full(connection, owner, max_owned + 1)
        notify_workers(connection)
        return job_from_row(row), True
    return job_from_row(connection.execute(select(jobs).where(c.idempotency_key == idempotency_key)).one()), False


def request_cancel(connection: Connection, job_id: str) -> Job:
    """Cancel at once if no worker holds the job, else ask its worker to; an ended job stays as it is.

    NotFoundError if there is no such job.
    """
    get(connection, job_id)
    unheld = or_(c.state == JobState.QUEUED, c.lease_until <= now())  # by a wrong clock it ends a little sooner
    statement = (
        update(jobs)
        .where(c.id == job_id, c.state.in_([JobState.QUEUED, JobState.RUNNING]))
        .values(
            {
                c.state: case((unheld, JobState.CANCELLED.value), else_=c.state),
                c.finished_at: case((unheld, now()), else_=c.finished_at),
                c.lease_until: case((unheld, null()), else_=c.lease_until),
                c.worker: case((unheld, null()), else_=c.worker),
                c.checkpoint: case((unheld, null()), else_=c.checkpoint),
                c.cancel_requested: true(),
                **_revised(),
            }
        )
    )
    connection.execute(statement)
    return get(connection, job_id)


def has_work(
    connection: Connection,
    *,
    limits: Resources = UNLIMITED,
    excluding: Collection[str] = (),
    watch: Watch | None = None,
) -> bool:
    """True if a claim would find a job; only reads, so that idle workers do not hold the write lock."""
    taken = [_fits(limits), c.id.not_in(excluding)]
    expired = (watch or Watch()).is_over(connection)
    # In the order of claims, which has an index: for EXISTS alone PostgreSQL goes through the table, ended jobs first.
    queued = select(c.id).where(_is_queued(), *taken).order_by(*QUEUE_ORDER).limit(1)
    return any(connection.execute(query).first() for query in (queued, select(c.id).where(expired, *taken).limit(1)))


def claim(
    connection: Connection,
    *,
    worker: str,
    lease_seconds: float,
    limits: Resources = UNLIMITED,
    excluding: Collection[str] = (),
    watch: Watch | None = None,
) -> Job | None:
    """Claim the next job within `limits` for `lease_seconds`, or None. Jobs that are to be cancelled or have no
    attempts left are ended on the way. excluding: ids of jobs that are left to other workers. watch: what this process
    has seen of leases; on SQLite none is over without one.
    """
    expired = (watch or Watch()).is_over(connection)
    queries = [
        select(jobs)
        .where(claimable, _fits(limits), c.id.not_in(excluding))
        .order_by(*QUEUE_ORDER)
        .limit(1)
        .with_for_update(skip_locked=True)
        for claimable in (_is_queued(), expired)  # an OR of them would sort all queued jobs for the first
    ]
    while rows := [row for query in queries for row in connection.execute(query)]:
        job = min(map(job_from_row, rows), key=lambda job: (-job.priority, job.created_at, job.id))
        if job.state == JobState.RUNNING:  # its worker was lost, which is not its fault
            job = replace(job, attempts=max(job.attempts - 1, 0))
        if job.cancel_requested:
            _set(connection, job, _ended(JobState.CANCELLED))
        elif is_exhausted(job):
            _set(connection, job, _ended(JobState.FAILED) | {c.error: death_error(job)})
        else:
            return _set(
                connection,
                job,
                {
                    c.state: JobState.RUNNING,
                    c.fence: c.fence + 1,
                    c.attempts: job.attempts + 1,
                    c.claims: c.claims + 1,
                    c.worker: worker,
                    c.lease_until: now() + lease_seconds,
                    c.lease_seconds: lease_seconds,
                    c.started_at: func.coalesce(c.started_at, now()),
                },
            )
    return None


def is_cancel_requested(connection: Connection, job: Job) -> bool:
    """True if the running job should be cancelled; LeaseLostError if the lease is lost. Only reads."""
    requested = connection.execute(select(c.cancel_requested).where(_is_leased(job))).scalar_one_or_none()
    if requested is None:
        raise _lease_lost(job)
    return bool(requested)


def renew(connection: Connection, job: Job, *, lease_seconds: float, progress: JSON | None = None) -> bool:
    """Renew the lease for `lease_seconds` from now and write the progress, if any; True if it should be cancelled.

    LeaseLostError. Until the transaction ends no other can change the job's row.
    """
    values: dict[Any, Any] = {c.lease_until: now() + lease_seconds, c.lease_seconds: lease_seconds}
    if progress is not None:
        values |= {c.progress: dict(progress), **_revised()}
    statement = update(jobs).where(_is_leased(job)).values(values).returning(c.cancel_requested)
    requested = connection.execute(statement).scalar_one_or_none()
    if requested is None:
        raise _lease_lost(job)
    return bool(requested)


def save_checkpoint(connection: Connection, job: Job, checkpoint: JSON) -> None:
    """Keep the state from which the next claim resumes. It is progress, so `attempts` starts again; LeaseLostError."""
    _write(connection, job, {c.checkpoint: dict(checkpoint), c.attempts: 0})


def save_milestone(connection: Connection, job: Job, number: int) -> None:
    """Keep how far the job has got. `attempts` starts again the first time that it gets there; LeaseLostError."""
    if _read_leased(connection, job) < number:
        _write(connection, job, {c.milestone: number, c.attempts: 0})


def succeed(connection: Connection, job: Job, result: JSON) -> Job:
    """End the job with its result; LeaseLostError."""
    return _write(connection, job, _ended(JobState.SUCCEEDED) | {c.result: dict(result)})


def keep_output(connection: Connection, job: Job, key: str) -> None:
    """Keep the key of the blob that a job leaves, in the transaction that ends it; it is kept while the job is."""
    connection.execute(update(jobs).where(c.id == job.id, c.fence == job.fence).values({c.output_key: key}))


def fail(connection: Connection, job: Job, error: JSON) -> Job:
    """End the job with an error: at least `type` and `message`. It is not tried again; LeaseLostError."""
    return _write(connection, job, _ended(JobState.FAILED) | {c.error: dict(error)})


def cancel(connection: Connection, job: Job) -> Job:
    """End the job as its cancellation was requested; LeaseLostError."""
    return _write(connection, job, _ended(JobState.CANCELLED))


def requeue_after_death(connection: Connection, job: Job, reason: str, *, counts: bool = True) -> Job:
    """Return a job whose process died to the queue, or fail it if that was the last attempt; LeaseLostError.

    counts: False where the death was not its fault. A job whose cancellation is requested is cancelled.
    """
    values: dict[Any, Any] = {} if counts else {c.attempts: _reduced(1)}
    written = _write(connection, job, values | {c.requeue_reason: reason})
    if written.cancel_requested:
        return _write(connection, job, _ended(JobState.CANCELLED))
    if is_exhausted(written):
        return _write(connection, job, _ended(JobState.FAILED) | {c.error: death_error(written)})
    notify_workers(connection)
    return _write(connection, job, _UNLEASED | {c.state: JobState.QUEUED})


def forgive_deaths(connection: Connection, deaths: Mapping[str, int]) -> None:
    """Take back so many deaths of each of these jobs, as far as they are still queued."""
    for job_id, number in deaths.items():
        connection.execute(update(jobs).where(c.id == job_id, _is_queued()).values({c.attempts: _reduced(number)}))


def postpone(connection: Connection, job: Job, error: JSON) -> Job:
    """Return a job whose store or cluster is unavailable to the queue as `release` does, with the reason."""
    return _write(connection, job, _requeued() | {c.requeue_reason: str(error["message"])})


def fail_oversized(
    connection: Connection, *, timeout: float = WORKER_TIMEOUT_SECONDS, watch: Watch | None = None
) -> list[Job]:
    """Fail and return the jobs that waited for `timeout` seconds and are too large for every worker seen within them.

    The caller has recorded its heartbeat: there is a worker. A running job whose worker is lost counts from the end of
    its lease.
    """
    watch = watch or Watch()
    running = running_limits(connection, watch, timeout=timeout)
    fits_none = no_worker_fits(running, c.needs_memory, c.needs_rows)
    if fits_none is None:
        return []
    rows: list[Any] = []
    for waiting in (
        and_(_is_queued(), watch.has_waited(connection, and_(_is_queued(), fits_none), timeout)),
        watch.is_over(connection, since=timeout),
    ):
        query = select(jobs).where(waiting, fits_none).with_for_update(skip_locked=True)
        rows += connection.execute(query).all()
    if not rows:
        return []
    limits = largest_limits(running)
    return [
        _set(connection, job, _ended(JobState.FAILED) | {c.error: too_large_error(job, limits)})
        for job in map(job_from_row, rows)
    ]


def release(connection: Connection, job: Job) -> Job:
    """Return the job of a worker that stops to the queue; this attempt does not count; LeaseLostError.

    A job whose cancellation is requested is cancelled.
    """
    notify_workers(connection)
    return _write(connection, job, _requeued())


def release_lost(connection: Connection, worker: str) -> list[Job]:
    """Return the jobs of a worker that is known to have died to the queue, before their leases are over; return them.

    That is not their fault: the attempts do not count, the claims do. The fence refuses whatever of it still writes.
    """
    query = select(jobs).where(c.state == JobState.RUNNING, c.worker == worker).with_for_update(skip_locked=True)
    lost = [job_from_row(row) for row in connection.execute(query).all()]
    kept = {c.claims: c.claims, c.requeue_reason: WORKER_DIED}
    released = [_set(connection, job, _requeued() | kept) for job in lost]
    if released:
        notify_workers(connection)
    return released


def _requeued() -> dict[Any, Any]:
    """Values of a job that is queued again as if it had not been claimed; cancelled if that is requested."""
    return _UNLEASED | {
        c.state: case((c.cancel_requested, JobState.CANCELLED.value), else_=JobState.QUEUED.value),
        c.finished_at: case((c.cancel_requested, now()), else_=null()),
        c.checkpoint: case((c.cancel_requested, null()), else_=c.checkpoint),
        c.attempts: _reduced(1),
        c.claims: c.claims - 1,
    }


def _reduced(number: int) -> ColumnElement[int]:
    """Attempts without so many of them."""
    return case((c.attempts > number, c.attempts - number), else_=0)


def _is_queued() -> ColumnElement[bool]:
    return c.state == JobState.QUEUED


def _fits(limits: Resources) -> ColumnElement[bool]:
    pairs = [(c.needs_memory, limits.memory), (c.needs_rows, limits.rows)]
    return and_(true(), *(or_(need.is_(None), need <= limit) for need, limit in pairs if limit is not None))


def _is_leased(job: Job) -> ColumnElement[bool]:
    """SQL condition, the fence: the job is still running under the claim that `job` came from."""
    return and_(c.id == job.id, c.fence == job.fence, c.state == JobState.RUNNING)


def _read_leased(connection: Connection, job: Job) -> int:
    milestone = connection.execute(select(c.milestone).where(_is_leased(job))).scalar_one_or_none()
    if milestone is None:
        raise _lease_lost(job)
    return int(milestone)


def _lease_lost(job: Job) -> LeaseLostError:
    return LeaseLostError(f"{job.id} is no longer held by this worker (claim {job.fence})")


def _revised() -> dict[Any, Any]:
    return {c.revision: c.revision + 1, c.updated_at: now()}


def _ended(state: JobState) -> dict[Any, Any]:
    return _UNLEASED | {c.state: state, c.finished_at: now(), c.checkpoint: null()}


def _write(connection: Connection, job: Job, values: dict[Any, Any]) -> Job:
    row = connection.execute(
        update(jobs).where(_is_leased(job)).values(values | _revised()).returning(*jobs.c)
    ).one_or_none()
    if row is None:
        raise _lease_lost(job)
    return job_from_row(row)


def _set(connection: Connection, job: Job, values: dict[Any, Any]) -> Job:
    """Write under the row lock that the caller holds."""
    return job_from_row(
        connection.execute(update(jobs).where(c.id == job.id).values(values | _revised()).returning(*jobs.c)).one()
    )
