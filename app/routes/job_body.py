"""A job as the API shows it, to whoever submits, follows or lists one."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from app.jobs.job import JobState
from app.routes.http.answers import FaultBody
from app.routes.http.fields import JobIdText, Moment, NameText
from app.services.jobs import JobView
from app.times import rfc3339

_COMMIT_SECONDS = 1.0


class ProgressBody(BaseModel):
    """Progress of a job. It never goes back, not even where another worker takes over."""

    fraction: float = Field(ge=0, le=1, description="Share of the work that is done.")
    phase: (
        Literal["reading", "starting", "selecting", "adapting", "fitting", "evaluating", "predicting", "publishing"]
        | None
    ) = Field(None, description="What is being done; null before it begins.")
    round: int | None = Field(None, description="Round of the adaptation.")
    rounds: int | None = Field(None, description="How many rounds there are at most.")
    basis_size: int | None = Field(None, description="Basis vectors so far.")
    objective: float | None = Field(None, description="Objective of the adaptation, which is minimised.")
    waiting: str | None = Field(
        None, description="What its worker waits for, such as an unavailable store or a full disk; else null."
    )
    elapsed_s: float = Field(description="Seconds since work on it began, breaks included.")
    eta_s: float | None = Field(
        None, description="Seconds left, as far as one can tell: null where its worker has been silent."
    )


class FailureBody(BaseModel):
    """Why a job failed."""

    type: str = Field(description="Class of the error.")
    message: str = Field(description="What was wrong, in a sentence.")
    errors: list[FaultBody] | None = Field(None, description="The first 20 places that are wrong.")
    total: int | None = Field(None, description="How many places there are in all.")


class JobBody(BaseModel):
    """A job as it stands."""

    id: JobIdText = Field(description="Id of the job.")
    kind: Literal["train", "update", "predict"] = Field(
        description="A training, one with more rows, or predictions of a dataset."
    )
    state: Literal["queued", "running", "succeeded", "failed", "cancelled"] = Field(
        description="The last three are ends."
    )
    model: NameText = Field(description="Name of the model.")
    created_at: Moment = Field(description="When it was submitted.")
    started_at: Moment | None = Field(description="When a worker first began; null before.")
    finished_at: Moment | None = Field(description="When it ended; null before.")
    attempts: int = Field(description="How often a worker began it.")
    position: int = Field(description="Jobs in front of it in the queue.")
    requeue_reason: str | None = Field(description="Why a job that had been started is in the queue again.")
    progress: ProgressBody = Field(description="How far it is.")
    result: dict[str, Any] | None = Field(
        description="Once it succeeded: `model` and `version`; of a training or an update its `report`; of "
        "predictions `rows`, `failed_rows`, `size_bytes`, `warnings`, in `predictions` the address of the file, and "
        "`prediction_id` where they are kept for their truth."
    )
    error: FailureBody | None = Field(description="Why it failed; null unless it did.")


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
        left = None if _is_silent(view) else round(max(0.0, left - max(0.0, view.now - job.updated_at)), 1)
    return {
        "fraction": 1.0 if succeeded else reported.get("fraction", 0.0),
        "phase": reported.get("phase"),
        "round": reported.get("round"),
        "rounds": reported.get("rounds"),
        "basis_size": reported.get("basis_size"),
        "objective": reported.get("objective"),
        "waiting": reported.get("waiting") if job.state is JobState.RUNNING else None,
        "elapsed_s": round(_elapsed(view), 3),
        "eta_s": 0.0 if succeeded else left,
    }


def _is_silent(view: JobView) -> bool:
    """True where two heartbeats of its worker, one a third of the lease, did not come: nobody knows how long it will
    take."""
    job = view.job
    if job.lease_until is None or job.lease_seconds is None:
        return False
    return view.now > job.lease_until - job.lease_seconds / 3


def _elapsed(view: JobView) -> float:
    """Seconds since work on the job began. The end is written a moment before it can be read, so while a job runs
    the clock is shown a little late: it must not go back at the end."""
    job = view.job
    if job.started_at is None:
        return 0.0
    until = job.finished_at or max(job.updated_at, view.now - _COMMIT_SECONDS)
    return max(0.0, until - job.started_at)
