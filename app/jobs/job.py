"""A job as the queue knows it: what was asked, how far it is, what came out."""

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

JSON = Mapping[str, Any]
"""A JSON object: what payloads, progress, checkpoints, results and errors are made of."""


class JobState(StrEnum):
    """queued -> running -> succeeded, failed or cancelled; running -> queued when its worker goes away."""

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

    kind: which handler does it. model: a label to list by. fence: raised by every claim; a write by a
    holder of an older one is refused. attempts: claims since the last checkpoint (the cap on deaths without
    progress counts these); claims: claims in all, what people are shown. revision: raised by every change.
    last_death: why the worker's child died last, in words. needs_memory: bytes it is thought to need, needs_rows: rows
    of its table; only a worker that takes so much gets it (`app.jobs.roster`).
    """

    id: str
    kind: str
    model: str
    state: JobState
    priority: int
    payload: JSON
    needs_memory: int | None
    needs_rows: int | None
    progress: JSON | None
    checkpoint: JSON | None
    result: JSON | None
    error: JSON | None
    attempts: int
    claims: int
    fence: int
    worker: str | None
    lease_until: float | None
    cancel_requested: bool
    last_death: str | None
    idempotency_key: str | None
    revision: int
    created_at: float
    started_at: float | None
    finished_at: float | None
    updated_at: float


def new_job_id() -> str:
    """`job_` and 32 hexadecimal digits: microseconds since 1970, then 72 random bits; so ids sort by age."""
    return f"job_{time.time_ns() // 1000:014x}{secrets.token_hex(9)}"
