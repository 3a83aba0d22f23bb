"""`/jobs`: look, list, cancel, and follow by server-sent events."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response, StreamingResponse

from app.jobs.job import JobState
from app.routes.http.answers import json_answer, problems, rfc3339
from app.routes.http.callers import caller_of
from app.routes.http.services import in_thread, services
from app.services.jobs import JobView

router = APIRouter(tags=["jobs"])

_QUIET_SECONDS = 10.0
_COMMIT_SECONDS = 1.0


class ProgressBody(BaseModel):
    """Progress of a job. It never goes back, not even where another worker takes over."""

    fraction: float = Field(ge=0, le=1)
    phase: Literal["reading", "starting", "selecting", "adapting", "fitting", "evaluating", "publishing"] | None = None
    round: int | None = None
    rounds: int | None = None
    basis_size: int | None = None
    objective: float | None = None
    elapsed_s: float = Field(description="Seconds since work on it began, breaks included.")
    eta_s: float | None = Field(None, description="Seconds left, as far as one can tell.")


class FailureBody(BaseModel):
    """Why a job failed."""

    type: str
    message: str


class JobBody(BaseModel):
    """A job as it stands."""

    id: str
    kind: Literal["train"]
    state: Literal["queued", "running", "succeeded", "failed", "cancelled"]
    model: str
    created_at: str
    started_at: str | None
    finished_at: str | None
    attempts: int
    position: int = Field(description="Jobs in front of it in the queue.")
    requeue_reason: str | None = Field(description="Why a job that had been started is in the queue again.")
    progress: ProgressBody
    result: dict[str, Any] | None = Field(description="`model`, `version` and `report` once it succeeded.")
    error: FailureBody | None


class JobsBody(BaseModel):
    """A page of jobs, the newest first."""

    jobs: list[JobBody]
    next_cursor: str | None


_JOB: dict[int | str, dict[str, Any]] = {200: {"model": JobBody}}


@router.get(
    "/jobs", response_class=Response, summary="List jobs", responses={200: {"model": JobsBody}, **problems(422)}
)
async def list_jobs(
    request: Request,
    state: Annotated[str | None, Query(description="Only jobs in this state.")] = None,
    model: Annotated[str | None, Query(description="Only jobs of this model.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the page before.")] = None,
) -> Response:
    """The newest first; `next_cursor` is null on the last page."""
    views, following = await in_thread(
        services(request).jobs.page,
        state=state,
        model=model,
        limit=limit,
        cursor=cursor,
        caller=caller_of(request),
    )
    return json_answer({"jobs": [job_json(view) for view in views], "next_cursor": following})


@router.get("/jobs/{job_id}", response_class=Response, summary="One job", responses=_JOB | problems(404))
async def get_job(request: Request, job_id: str) -> Response:
    """State, progress, and in the end the result or the reason of the failure."""
    return json_answer(job_json(await in_thread(services(request).jobs.get, job_id, caller=caller_of(request))))


@router.delete("/jobs/{job_id}", response_class=Response, summary="Cancel a job", responses=_JOB | problems(404))
async def cancel_job(request: Request, job_id: str) -> Response:
    """A queued job is cancelled at once, a running one within a second or two; one that has ended stays as it is."""
    return json_answer(job_json(await in_thread(services(request).jobs.cancel, job_id, caller=caller_of(request))))


@router.get(
    "/jobs/{job_id}/events",
    response_class=StreamingResponse,
    summary="Follow a job",
    responses={
        200: {
            "description": "The job at every change, until it has ended.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **problems(404),
    },
)
async def follow_job(request: Request, job_id: str) -> Response:
    """Server-sent events, each with the job as `GET /jobs/{id}` gives it; a comment line when nothing happens.

    A stream that ends before the job has is to be asked for again: the server was stopping.
    """
    first = await in_thread(services(request).jobs.get, job_id, caller=caller_of(request))
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(_events(request, first), media_type="text/event-stream", headers=headers)


async def _events(request: Request, first: JobView) -> AsyncIterator[bytes]:
    app = services(request)
    key = caller_of(request).key
    async for view in app.followers.follow(first, _QUIET_SECONDS):
        if not await app.key_ring.is_valid(key):  # revoked since
            return
        if view is None:
            yield b": still there\n\n"
        else:
            yield b"id: %d\nevent: job\ndata: %b\n\n" % (view.job.revision, orjson.dumps(job_json(view)))


def job_json(view: JobView) -> dict[str, object]:
    """A job as the API shows it."""
    job = view.job
    return {
        "id": job.id,
        "kind": job.kind,
        "state": job.state.value,
        "model": job.model,
        "created_at": rfc3339(job.created_at),
        "started_at": rfc3339(job.started_at),
        "finished_at": rfc3339(job.finished_at),
        "attempts": job.claims,
        "position": view.position,
        "requeue_reason": job.requeue_reason if job.state is JobState.QUEUED else None,
        "progress": _progress(view),
        "result": job.result,
        "error": job.error,
    }


def _progress(view: JobView) -> dict[str, object]:
    job, reported = view.job, view.job.progress or {}
    succeeded = job.state is JobState.SUCCEEDED
    left = reported.get("eta_s") if job.state is JobState.RUNNING else None
    if left is not None:  # it was said when the row was written
        left = round(max(0.0, left - max(0.0, view.now - job.updated_at)), 1)
    return {
        "fraction": 1.0 if succeeded else reported.get("fraction", 0.0),
        "phase": reported.get("phase"),
        "round": reported.get("round"),
        "rounds": reported.get("rounds"),
        "basis_size": reported.get("basis_size"),
        "objective": reported.get("objective"),
        "elapsed_s": round(_elapsed(view), 3),
        "eta_s": 0.0 if succeeded else left,
    }


def _elapsed(view: JobView) -> float:
    """Seconds since work on the job began. The end is written a moment before it can be read, so while a job runs
    the clock is shown a little late: it must not go back at the end."""
    job = view.job
    if job.started_at is None:
        return 0.0
    until = job.finished_at or max(job.updated_at, view.now - _COMMIT_SECONDS)
    return max(0.0, until - job.started_at)
