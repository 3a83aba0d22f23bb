"""The workers that are running, and how large a job each takes: one row per process, renewed by its heartbeat.

A worker without a heartbeat for WORKER_TIMEOUT_SECONDS is taken to be gone for good; until then a job that only it
could do waits for it. Rows of workers that are long gone are removed by those that run.
"""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, delete, or_, select

from app.database.clock import now
from app.database.tables import workers
from app.database.upsert import insert_or_update
from app.jobs.job import Job
from app.jobs.watch import Watch

WORKER_TIMEOUT_SECONDS = 120.0
"""Seconds that a job waits for a worker that is large enough: longer than a restart of one takes."""
WORKER_RETENTION_SECONDS = 86_400.0
"""The row of a worker without a heartbeat for so long is removed."""
_w = workers.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Memory in bytes and rows of a table: what a job is estimated to need, or the limits of a worker.

    None: not known, or no limit.
    """

    memory: int | None = None
    rows: int | None = None


UNLIMITED = Resources()


def record_heartbeat(connection: Connection, name: str, limits: Resources) -> None:
    """Record that this worker runs and takes jobs within these limits; remove the rows of workers long gone."""
    values = {_w.max_memory.key: limits.memory, _w.max_rows.key: limits.rows, _w.seen_at.key: now()}
    insert_or_update(connection, workers, {_w.name.key: name, **values}, key=[_w.name], update=values)
    connection.execute(delete(workers).where(_w.seen_at < now() - WORKER_RETENTION_SECONDS))


def running_limits(connection: Connection, watch: Watch, *, timeout: float = WORKER_TIMEOUT_SECONDS) -> set[Resources]:
    """Return the limits of the workers that run: with a heartbeat in so many seconds, on SQLite as `watch` saw them."""
    query = select(_w.name, _w.max_memory, _w.max_rows, _w.seen_at)
    if connection.dialect.name != "sqlite":
        rows = connection.execute(query.where(_w.seen_at >= now() - timeout)).all()
    else:
        known = connection.execute(query).all()
        silent = watch.unchanged_seconds("worker", {row.name: row.seen_at for row in known})
        rows = [row for row in known if silent[row.name] <= timeout]
    return {Resources(memory=row.max_memory, rows=row.max_rows) for row in rows}


def largest_limits(running: Collection[Resources]) -> Resources:
    """Return the largest of these limits, each by itself; None where a worker has no limit."""
    memory, rows = [worker.memory for worker in running], [worker.rows for worker in running]
    return Resources(memory=_largest(memory), rows=_largest(rows))


def no_worker_fits(
    running: Collection[Resources], memory: ColumnElement[int | None], rows: ColumnElement[int | None]
) -> ColumnElement[bool] | None:
    """SQL condition: none of these workers takes a job of this memory and these rows. None where one takes any job."""
    if UNLIMITED in running:
        return None
    return and_(
        or_(memory.is_not(None), rows.is_not(None)),
        *(
            or_(
                *([] if worker.memory is None else [memory > worker.memory]),
                *([] if worker.rows is None else [rows > worker.rows]),
            )
            for worker in running
        ),
    )


def too_large_error(job: Job, limits: Resources) -> dict[str, str]:
    """Error of a job that is too large for workers of these limits."""
    compared = [(job.needs_memory, limits.memory, "bytes of memory"), (job.needs_rows, limits.rows, "rows")]
    needs = [f"{need} {unit}" for need, _, unit in compared if need is not None]
    largest = [f"{limit} {unit}" for need, limit, unit in compared if need is not None and limit is not None]
    limit_text = f": the largest limit is {' and '.join(largest)}" if largest else ""
    return {
        "type": "too-large",
        "message": f"the job needs about {' and '.join(needs)}, and no worker takes it{limit_text}; "
        "a smaller basis_size or fewer rows need less",
    }


def _largest(limits: list[int | None]) -> int | None:
    known = [limit for limit in limits if limit is not None]
    return None if len(known) < len(limits) else max(known, default=0)
