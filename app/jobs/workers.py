"""The workers that are running, and how large a job each takes: one row per process, renewed by its heartbeat.

A worker without a heartbeat for WORKER_TIMEOUT_SECONDS is taken to be gone for good; until then a job that only it
could do waits for it. Rows of workers that are long gone are removed by those that run.
"""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, delete, or_, select

from app.database.clock import now
from app.database.tables import workers
from app.database.upsert import insert_or_update

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


def largest_limits(connection: Connection, *, timeout: float = WORKER_TIMEOUT_SECONDS) -> Resources:
    """Return the largest limit of any running worker, each by itself; None where one has no limit."""
    rows = connection.execute(select(_w.max_memory, _w.max_rows).where(_is_running(timeout))).all()
    memory, table_rows = ([row[column] for row in rows] for column in (0, 1))
    return Resources(
        memory=None if None in memory else max(memory, default=0),
        rows=None if None in table_rows else max(table_rows, default=0),
    )


def no_worker_fits(
    connection: Connection, memory: ColumnElement[int | None], rows: ColumnElement[int | None], timeout: float
) -> ColumnElement[bool] | None:
    """SQL condition: no running worker takes a job of this memory and these rows. None where one takes any job."""
    running = connection.execute(select(_w.max_memory, _w.max_rows).where(_is_running(timeout)).distinct()).all()
    if any(worker.max_memory is None and worker.max_rows is None for worker in running):
        return None
    return and_(
        or_(memory.is_not(None), rows.is_not(None)),
        *(
            or_(
                *([] if worker.max_memory is None else [memory > worker.max_memory]),
                *([] if worker.max_rows is None else [rows > worker.max_rows]),
            )
            for worker in running
        ),
    )


def _is_running(timeout: float) -> ColumnElement[bool]:
    return _w.seen_at >= now() - timeout
