"""A job: its request, progress and result, as one row of the queue."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

JSON = Mapping[str, Any]
"""A JSON object: a payload, progress, checkpoint, result or error."""


class JobState(StrEnum):
    """State of a job: queued -> running -> succeeded, failed or cancelled; running -> queued when its worker dies."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """True for the three states that nothing leaves."""
        return self in {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One row of the queue as it was read; times are UTC seconds since 1970 by the database's clock.

    kind: which handler does it. model: a label to list by. fence: raised by every claim; a write under an older one is
    refused. attempts: claims since the last checkpoint (at most MAX_ATTEMPTS of them); claims: claims in all, as
    clients see them. revision: raised by every change.
    requeue_reason: why it went back to the queue last, in words: what its process died of, or what did not answer.
    lease_seconds: length of its last lease, None where an older release claimed it. milestone: how far it has got that
    no checkpoint says (`Reporter.milestone`). trace_context: W3C traceparent of the request that submitted it.
    owner: id of the API key that asked for it. table_bytes: of a table that is kept for it alone.
    needs_memory: estimated bytes, needs_rows: rows of its table; only a worker whose limits allow both claims it
    (`app.jobs.workers`).
    """

    id: str
    kind: str
    model: str
    state: JobState
    priority: int
    payload: JSON
    needs_memory: int | None
    needs_rows: int | None
    owner: str | None
    table_bytes: int | None
    progress: JSON | None
    checkpoint: JSON | None
    result: JSON | None
    error: JSON | None
    attempts: int
    claims: int
    fence: int
    worker: str | None
    lease_until: float | None
    lease_seconds: float | None
    milestone: int
    trace_context: str | None
    cancel_requested: bool
    requeue_reason: str | None
    idempotency_key: str | None
    revision: int
    created_at: float
    started_at: float | None
    finished_at: float | None
    updated_at: float
