"""Queries of jobs: one, a page, their positions in the queue. `app.jobs.queue` is what changes them."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select, true

from app.database.batched import batched
from app.database.clock import now
from app.database.tables import jobs
from app.errors import BusyError, InvalidRequestError, LimitExceededError, NotFoundError
from app.identifiers import is_job_id
from app.jobs.job import Job, JobState

MAX_PAGE_SIZE = 500
"""The largest page of `list_jobs`."""

OWNER_RETRY_SECONDS = 10
"""Seconds after which an owner whose jobs all wait is told to come again."""

_BATCH = 500
"""Values of one IN."""
_SEGMENTS = 100
"""Parts of one UNION; SQLite takes 500."""

_OLDEST = 256
"""Queued jobs that are looked at for the longest wait: more than are returned to the queue at once."""

_NAMES = tuple(field.name for field in fields(Job))
_values = attrgetter(*_NAMES)

c = jobs.c
QUEUE_ORDER = (c.priority.desc(), c.created_at, c.id)
"""The order in which queued jobs are claimed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Jobs that wait for a worker: how many, for how many seconds the first of them has, the memory in bytes and the
    rows that they need, in all and at most; and how many jobs a worker holds."""

    waiting: int
    oldest_seconds: float
    memory: int
    largest_memory: int
    rows: int
    largest_rows: int
    running: int


def backlog(connection: Connection) -> Backlog:
    """Measure the queue: one pass over its index, and a look at the jobs that run.

    A job waits since it was submitted or returned to the queue. One whose worker was lost waits too, since its lease
    is over by the database's clock: a worker has to be there to claim it. All are counted in one statement, so that a
    job which is claimed or returned meanwhile is counted once.
    """
    queued = _demand(c.state == JobState.QUEUED).subquery()
    lost = _demand(c.state == JobState.RUNNING, c.lease_until <= now()).subquery()
    held = select(func.count().label("number")).where(c.state == JobState.RUNNING, c.lease_until > now()).subquery()
    row = connection.execute(
        select(
            (queued.c.number + lost.c.number).label("waiting"),
            (queued.c.memory + lost.c.memory).label("memory"),
            (queued.c.rows + lost.c.rows).label("rows"),
            held.c.number.label("running"),
            *(part.c[name].label(f"{name}_{n}") for n, part in enumerate((queued, lost)) for name in _LARGEST),
        ).select_from(queued.join(lost, true()).join(held, true()))
    ).one()
    return Backlog(
        waiting=row.waiting,
        oldest_seconds=_longest_wait(connection),
        memory=int(row.memory),
        largest_memory=max(row.largest_memory_0, row.largest_memory_1),
        rows=int(row.rows),
        largest_rows=max(row.largest_rows_0, row.largest_rows_1),
        running=row.running,
    )


_LARGEST = ("largest_memory", "largest_rows")


def _demand(*conditions: ColumnElement[bool]) -> Select[Any]:
    """Select number, memory and rows of these jobs; 0 where there are none, and for jobs that say nothing of them."""
    return select(
        func.count().label("number"),
        func.coalesce(func.sum(c.needs_memory), 0).label("memory"),
        func.coalesce(func.max(c.needs_memory), 0).label("largest_memory"),
        func.coalesce(func.sum(c.needs_rows), 0).label("rows"),
        func.coalesce(func.max(c.needs_rows), 0).label("largest_rows"),
    ).where(*conditions)


def _longest_wait(connection: Connection) -> float:
    """Return the seconds that the job has waited which waits for longest.

    A queued job was last changed when it came into the queue, which no index has. So only the oldest are looked at: one
    of them that was never claimed has waited for longer than all that were submitted after it.
    """
    oldest = select(c.updated_at.label("since")).where(c.state == JobState.QUEUED).order_by(c.id).limit(_OLDEST)
    lost = select(c.lease_until.label("since")).where(c.state == JobState.RUNNING, c.lease_until <= now())
    since = [select(func.min(part.subquery().c.since)).scalar_subquery() for part in (oldest, lost)]
    waits = connection.execute(select(*(func.coalesce(now() - time, 0.0) for time in since))).one()
    return max(0.0, *map(float, waits))


def job_from_row(row: Any) -> Job:
    """Make a job of a row with all columns of the table."""
    values = dict(zip(_NAMES, _values(row), strict=True))
    values["state"] = JobState(values["state"])
    return Job(**values)


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
    models: Collection[str] | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> tuple[list[Job], str | None]:
    """Return a page of jobs, newest first, and the cursor of the next page (None at the end). models: only of these."""
    if not 1 <= limit <= MAX_PAGE_SIZE:
        raise InvalidRequestError(f"limit: expected 1 to {MAX_PAGE_SIZE}, got {limit}")
    query = select(jobs).order_by(c.id.desc()).limit(limit + 1)
    if state is not None:
        query = query.where(c.state == state)
    if model is not None:
        if not model.isprintable():  # PostgreSQL takes no NUL
            return [], None
        query = query.where(c.model == model)
    if models is not None:
        query = query.where(c.model.in_(models))
    if cursor is not None:
        if not is_job_id(cursor):
            raise InvalidRequestError(f"cursor: expected one from an earlier page, got {cursor[:80]!r}")
        query = query.where(c.id < cursor)
    page = [job_from_row(row) for row in connection.execute(query)]
    return page[:limit], page[limit - 1].id if len(page) > limit else None


def unfinished(connection: Connection, *, kind: str, model: str, other_than: str) -> str | None:
    """Return the id of a job of this kind and model, another than the one named, that is queued or running."""
    query = select(c.id).where(
        c.model == model, c.state.in_([JobState.QUEUED, JobState.RUNNING]), c.kind == kind, c.id != other_than
    )
    return connection.execute(query.limit(1)).scalar()


def refuse_if_full(connection: Connection, max_queued: int) -> None:
    """Raise BusyError if so many jobs wait."""
    waiting = select(c.id).where(c.state == JobState.QUEUED).limit(max_queued).subquery()
    if connection.execute(select(func.count()).select_from(waiting)).scalar_one() >= max_queued:
        raise BusyError("the queue of jobs is full (PURSUIT_MAX_QUEUED_JOBS); send the request again in a while")


def refuse_if_owner_is_full(connection: Connection, owner: str, max_owned: int) -> None:
    """Raise LimitExceededError if so many jobs of one API key wait."""
    waiting = select(c.id).where(c.owner == owner, c.state == JobState.QUEUED).limit(max_owned).subquery()
    if connection.execute(select(func.count()).select_from(waiting)).scalar_one() >= max_owned:
        raise LimitExceededError(
            "so many jobs of this API key wait that it may queue no more; send the request again when one has started",
            retry_seconds=OWNER_RETRY_SECONDS,
        )


def positions(connection: Connection, queried: Iterable[Job]) -> dict[str, int]:
    """Count the queued jobs in front of each of these, by id; 0 for jobs that are not queued.

    One pass over the index of the queue, as far as the last of these: each counts from the one before it.
    """
    some = list(queried)
    result = {job.id: 0 for job in some}
    waiting: list[Any] = []
    for ids in batched([job.id for job in some if not job.state.ended], _BATCH):  # nothing leaves an end
        query = select(c.id, c.state, c.priority, c.created_at).where(c.id.in_(ids))  # by the primary key alone
        waiting += [row for row in connection.execute(query) if row.state == JobState.QUEUED]
    waiting.sort(key=lambda row: (-row.priority, row.created_at, row.id))
    total = 0
    for start in range(0, len(waiting), _SEGMENTS):
        rows = waiting[start : start + _SEGMENTS]
        for row, number in zip(
            rows, _counts_between(connection, waiting[max(start - 1, 0) : start], rows), strict=True
        ):
            total += number
            result[row.id] = total
    return result


def _counts_between(connection: Connection, before: list[Any], rows: list[Any]) -> list[int]:
    """Count the queued jobs from each of these rows to the next, the first from `before`, or from the queue's head.

    The driver gets the text as it is: SQLAlchemy would take longer over it than the database over the counts.
    """
    mark = ":{}" if connection.dialect.name == "sqlite" else "%({})s"
    texts: list[str] = []
    values: dict[str, object] = {}
    previous = None
    for n, row in enumerate([*before, *rows], -len(before)):
        name = str(n + 1)
        values |= {f"p{name}": row.priority, f"t{name}": row.created_at, f"i{name}": row.id}
        p, t, i = (mark.format(letter + name) for letter in "pti")
        if n >= 0:
            queued = f"SELECT {n}, count(*) FROM jobs WHERE state = 'queued' AND priority"  # noqa: S608  a number of ours
            end = f"(created_at, id) < ({t}, {i})"
            if previous is None:
                texts += [f"{queued} = {p} AND {end}", f"{queued} > {p}"]
            else:
                last_priority, last_p, last_t, last_i = previous
                begin = f"{queued} = {last_p} AND (created_at, id) >= ({last_t}, {last_i})"
                if last_priority == row.priority:
                    texts.append(f"{begin} AND {end}")
                else:
                    texts += [begin, f"{queued} > {p} AND priority < {last_p}", f"{queued} = {p} AND {end}"]
        previous = (row.priority, p, t, i)
    counted = [0] * len(rows)
    for n, number in connection.exec_driver_sql(" UNION ALL ".join(texts), values):
        counted[n] += number
    return counted


def position(connection: Connection, job: Job) -> int:
    """Count the queued jobs in front of this one; 0 if it is not queued."""
    return positions(connection, [job])[job.id]


def revisions(connection: Connection, ids: Iterable[str]) -> dict[str, int]:
    """Return the revision of each of these jobs that there is."""
    result: dict[str, int] = {}
    for some in batched(ids, _BATCH):
        rows = connection.execute(select(c.id, c.revision).where(c.id.in_(some)))
        result.update({row.id: row.revision for row in rows})
    return result


def get_many(connection: Connection, ids: Iterable[str]) -> list[Job]:
    """Return those of these jobs that there are, in any order."""
    found: list[Job] = []
    for some in batched(ids, _BATCH):
        found += [job_from_row(row) for row in connection.execute(select(jobs).where(c.id.in_(some)))]
    return found


def tables_in_use(connection: Connection, keys: Iterable[str]) -> set[str]:
    """Return which of these keys are the tables of jobs that may still run: they must be kept."""
    return _in_use(connection, c.table_key, "table", keys)


def fits_in_use(connection: Connection, keys: Iterable[str]) -> set[str]:
    """Return which of these keys are the fits of jobs that may still run."""
    return _in_use(connection, c.fit_key, "fit", keys)


def references(connection: Connection) -> Iterator[tuple[str, str]]:
    """Yield the key of each blob that a job still needs or has left, with the name of the job."""
    unfinished = c.state.in_([JobState.QUEUED, JobState.RUNNING])
    for row in connection.execute(select(c.id, c.table_key, c.fit_key, c.payload).where(unfinished).order_by(c.id)):
        for key in (row.table_key or row.payload.get("table"), row.fit_key or row.payload.get("fit")):
            if key is not None:
                yield str(key), f"job {row.id}"
    left = select(c.id, c.output_key).where(c.output_key.is_not(None)).order_by(c.id)
    for job, key in connection.execute(left):
        yield key, f"the predictions of job {job}"


def output(connection: Connection, job_id: str) -> str | None:
    """Return the key of the blob that a job left, None where there is none."""
    return connection.execute(select(c.output_key).where(c.id == job_id)).scalar()


def outputs_in_use(connection: Connection, keys: Iterable[str]) -> set[str]:
    """Return which of these keys some job has left."""
    kept: set[str] = set()
    for some in batched(keys, _BATCH):
        found = connection.execute(select(c.output_key).where(c.output_key.in_(some)).distinct()).scalars()
        kept.update(key for key in found if key is not None)
    return kept


def _in_use(connection: Connection, column: ColumnElement[str | None], name: str, keys: Iterable[str]) -> set[str]:
    """Look the keys up by an index; only jobs of an earlier release, without the column, have their payload read."""
    unfinished = c.state.in_([JobState.QUEUED, JobState.RUNNING])
    payloads = connection.execute(select(c.payload).where(unfinished, column.is_(None))).scalars()
    used = {str(payload.get(name)) for payload in payloads}
    kept: set[str] = set()
    for some in batched(keys, _BATCH):
        kept |= used.intersection(some)
        found = connection.execute(select(column).where(unfinished, column.in_(some)).distinct()).scalars()
        kept.update(key for key in found if key is not None)
    return kept


def has_unfinished(connection: Connection) -> bool:
    """True if there is a job that may still run."""
    found = select(c.id).where(c.state.in_([JobState.QUEUED, JobState.RUNNING])).limit(1)
    return connection.execute(found).one_or_none() is not None


def counts(connection: Connection) -> dict[JobState, int]:
    """Count the jobs in each state, zeros included."""
    rows = connection.execute(select(c.state, func.count()).group_by(c.state))
    return dict.fromkeys(JobState, 0) | {JobState(state): number for state, number in rows}
