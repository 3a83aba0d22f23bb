"""`/jobs`: look, list, cancel, and follow by server-sent events."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel, Field
from starlette.responses import FileResponse, Response

from app.jobs.job import JobState
from app.routes.http.answers import json_answer, problems
from app.routes.http.bodies import PARQUET
from app.routes.http.callers import caller_of
from app.routes.http.fields import JobCursor, JobIdPath, Limit, NameText, NextCursor
from app.routes.http.services import in_thread, services
from app.routes.job_body import JobBody, job_json
from app.services.jobs import JobView

router = APIRouter(tags=["jobs"])

State = Annotated[str, Field(json_schema_extra={"enum": [state.value for state in JobState]})]

_QUIET_SECONDS = 10.0


class JobsBody(BaseModel):
    """A page of jobs, the newest first."""

    jobs: list[JobBody] = Field(description="Jobs of this page.")
    next_cursor: NextCursor


_EVENT: dict[str, Any] = {
    "type": "object",
    "description": "One event of the stream, as server-sent events are parsed.",
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9]+$", "description": "Grows with every change."},
        "event": {"const": "job", "description": "Always `job`."},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "description": "The job, as `GET /jobs/{id}` has it.",
        },
    },
}
_JOB: dict[int | str, dict[str, Any]] = {200: {"model": JobBody}}


@router.get(
    "/jobs", response_class=Response, summary="List jobs", responses={200: {"model": JobsBody}, **problems(422)}
)
async def list_jobs(
    request: Request,
    state: Annotated[State | None, Query(description="Only jobs in this state.")] = None,
    model: Annotated[NameText | None, Query(description="Only jobs of this model.")] = None,
    limit: Limit = 50,
    cursor: JobCursor = None,
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
async def get_job(request: Request, job_id: JobIdPath) -> Response:
    """State, progress, and in the end the result or the reason of the failure."""
    return json_answer(job_json(await in_thread(services(request).jobs.get, job_id, caller=caller_of(request))))


@router.delete("/jobs/{job_id}", response_class=Response, summary="Cancel a job", responses=_JOB | problems(404))
async def cancel_job(request: Request, job_id: JobIdPath) -> Response:
    """A queued job is cancelled at once, a running one within a second or two; one that has ended stays as it is."""
    return json_answer(job_json(await in_thread(services(request).jobs.cancel, job_id, caller=caller_of(request))))


async def _followed(request: Request, job_id: JobIdPath) -> JobView:
    """Return the job before the stream begins, so that one that is not there is a refusal."""
    return await in_thread(services(request).jobs.get, job_id, caller=caller_of(request))


@router.get(
    "/jobs/{job_id}/events",
    response_class=EventSourceResponse,
    summary="Follow a job",
    responses={
        200: {
            "description": "The job at every change, until it has ended.",
            "content": {"text/event-stream": {"schema": {"type": "array", "items": _EVENT}}},
        },
        **problems(404),
    },
)
async def follow_job(request: Request, first: Annotated[JobView, Depends(_followed)]) -> AsyncIterator[ServerSentEvent]:
    """Server-sent events, each with the job as `GET /jobs/{id}` gives it; a comment line when nothing happens.

    A stream that ends before the job has is to be asked for again: the server was stopping.
    """
    app, key = services(request), caller_of(request).key
    async for view in app.followers.follow(first, _QUIET_SECONDS):
        if not await app.key_ring.is_valid(key):  # revoked since
            return
        if view is None:
            yield ServerSentEvent(comment="still there")
        else:
            yield ServerSentEvent(
                id=str(view.job.revision), event="job", raw_data=orjson.dumps(job_json(view)).decode()
            )


@router.get(
    "/jobs/{job_id}/predictions",
    response_class=FileResponse,
    summary="The file of predictions",
    responses={
        200: {
            "description": "The file that a job of kind `predict` left.",
            "content": {PARQUET: {"schema": {"type": "string", "format": "binary"}}},
        },
        **problems(404, 409),
    },
)
async def get_predictions(request: Request, job_id: JobIdPath) -> Response:
    """A row for each row of the dataset, in its order: the columns that were kept, then the predictions. It is there
    for as long as the job is listed."""
    job, path = await in_thread(services(request).dataset_predictions.file, job_id, caller=caller_of(request))
    return FileResponse(path, media_type=PARQUET, filename=f"{job.model}-{job.id}.parquet")
