"""Jobs: looked at, listed, cancelled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from app.database.clock import now
from app.database.engine import Database
from app.errors import ConflictError, InvalidRequestError
from app.identifiers import check_name
from app.jobs import queries, queue
from app.jobs.job import Job, JobState
from app.services.keys.caller import ANYBODY, Caller
from app.storage.audit import AuditAction


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job, how many are in front of it (0 unless queued), and the database's clock when it was read."""

    job: Job
    position: int
    now: float


class Jobs:
    """Jobs as the API shows them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, job_id: str, *, caller: Caller = ANYBODY) -> JobView:
        """One job. Raises NotFoundError; ForbiddenError for one of a model that the caller may not use."""
        with self._database.read() as connection:
            return view(connection, _job(connection, job_id, caller))

    def page(
        self, *, state: str | None, model: str | None, limit: int, cursor: str | None, caller: Caller = ANYBODY
    ) -> tuple[Sequence[JobView], str | None]:
        """Jobs of models that the caller may use, the newest first, and the cursor of the next page (None: the end)."""
        wanted = None if state is None else _state(state)
        if model is not None:
            caller.check_model(check_name(model))
        with self._database.read() as connection:
            jobs, following = queries.list_jobs(
                connection, state=wanted, model=model, models=caller.models, limit=limit, cursor=cursor
            )
            places = queries.positions(connection, jobs)
            clock = _clock(connection)
            return [JobView(job=job, position=places[job.id], now=clock) for job in jobs], following

    def changes(self, known: Mapping[str, tuple[int, int]]) -> list[JobView]:
        """Look once at all these jobs, by the revision and position they were seen with; return those that changed."""
        with self._database.read() as connection:
            revised = queries.revisions(connection, known)
            waiting = [job for job, (_, position) in known.items() if position]
            fresh = {job for job, revision in revised.items() if revision != known[job][0]}
            found = queries.get_many(connection, fresh.union(waiting).intersection(revised))
            places = queries.positions(connection, found)
            clock = _clock(connection)
        views = [JobView(job=job, position=places[job.id], now=clock) for job in found]
        return [view for view in views if (view.job.revision, view.position) != known[view.job.id]]

    def cancel(self, job_id: str, *, caller: Caller = ANYBODY) -> JobView:
        """Ask for a job's end: a queued one is cancelled at once, a running one in a moment.

        Raises NotFoundError; ForbiddenError for one of a model that the caller may not use.
        """
        with self._database.write() as connection:
            before = _job(connection, job_id, caller)
            cancelled = queue.request_cancel(connection, job_id)
            if not (before.state.ended or before.cancel_requested):
                caller.record(connection, AuditAction.CANCEL, job_id, model=before.model)
            return view(connection, cancelled)


def view(connection: Connection, job: Job) -> JobView:
    """A job with its place in the queue."""
    return JobView(job=job, position=queries.position(connection, job), now=_clock(connection))


def refuse_other_request(job: Job, key: str | None, *, kind: str, model: str, asked: Mapping[str, Any]) -> None:
    """Raise ConflictError where the job that has an idempotency key came of another request.

    asked: fields of the payload that hold what was asked. What it was resolved to is not compared: a name may mean a
    newer version by the time that a request comes again. Jobs of an earlier release may lack a field.
    """
    earlier = {name: job.payload.get(name, value) for name, value in asked.items()}
    if (job.kind, job.model, earlier) != (kind, model, dict(asked)):
        raise ConflictError(
            f"the idempotency key {key!r} was used before, for another request (job {job.id}); "
            "use a new key for a new request"
        )


def _job(connection: Connection, job_id: str, caller: Caller) -> Job:
    job = queries.get(connection, job_id)
    caller.check_model(job.model)
    return job


def _clock(connection: Connection) -> float:
    return float(connection.execute(select(now())).scalar_one())


def _state(text: str) -> JobState:
    try:
        return JobState(text)
    except ValueError:
        known = ", ".join(state.value for state in JobState)
        raise InvalidRequestError(f"state: expected one of {known}; got {text!r}") from None
