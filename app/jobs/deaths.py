"""Deaths of workers and of their processes: how many a job may have, and what is said of them."""

from app.jobs.job import Job

MAX_ATTEMPTS = 3
"""Claims without a checkpoint between them, after which the job itself is taken to be what kills its workers."""
MAX_CLAIMS = 20
"""Claims in all: a job that makes some progress each time ends too."""
WORKER_DIED = "its worker died"


def is_exhausted(job: Job) -> bool:
    """True if a job has been tried as often as it may be."""
    return job.attempts >= MAX_ATTEMPTS or job.claims >= MAX_CLAIMS


def death_error(job: Job) -> dict[str, str]:
    """Return the error of a job that is not tried again."""
    times = job.attempts if job.attempts >= MAX_ATTEMPTS else job.claims
    reason = job.requeue_reason or "no heartbeat (the machine or the worker was lost)"
    return {
        "type": "worker-died",
        "message": f"worker died {times} times without finishing; the last time: {reason}",
    }
