"""A job that somebody wants to end: at once, as a request to its worker, or too late."""

import threading

import pytest

from app.database.engine import Database
from app.jobs import queue
from app.jobs.job import Job, JobState
from tests.app.jobs.helpers import claim, claimed, expire, read, submit_echo


def test_cancel_a_queued_job_at_once(database: Database) -> None:
    job = submit_echo(database)
    with database.write() as connection:
        cancelled = queue.request_cancel(connection, job.id)
    assert (cancelled.state, cancelled.claims) == (JobState.CANCELLED, 0)
    assert cancelled.finished_at is not None
    assert claim(database) is None
    with database.write() as connection:
        assert queue.request_cancel(connection, job.id) == cancelled, "cancelling twice changes nothing"


def test_cancel_a_running_job_is_a_request(database: Database) -> None:
    job = claimed(database)
    with database.write() as connection:
        after = queue.request_cancel(connection, job.id)
        assert (after.state, after.cancel_requested) == (JobState.RUNNING, True)
        assert queue.is_cancel_requested(connection, job)
        assert queue.renew(connection, job, lease_seconds=60)
        assert queue.cancel(connection, job).state == JobState.CANCELLED


@pytest.mark.parametrize("name", ["died", "release"])
def test_a_job_to_be_cancelled_does_not_go_back_to_the_queue(database: Database, name: str) -> None:
    job = claimed(database)
    with database.write() as connection:
        queue.request_cancel(connection, job.id)
        if name == "died":
            queue.requeue_after_death(connection, job, "why")
        else:
            queue.release(connection, job)
    ended = read(database, job)
    assert ended.state == JobState.CANCELLED
    assert ended.finished_at is not None


def test_cancel_when_the_worker_is_gone(database: Database) -> None:
    """It is cancelled at once after the lease, else at the next claim."""
    late, early = claimed(database), claimed(database)
    with database.write() as connection:
        queue.request_cancel(connection, early.id)
    expire(database)
    with database.write() as connection:
        assert queue.request_cancel(connection, late.id).state == JobState.CANCELLED
    assert claim(database) is None
    assert read(database, early).state == JobState.CANCELLED


@pytest.mark.parametrize("way", ["queued", "expired", "released"])
def test_a_cancelled_job_keeps_no_checkpoint(database: Database, way: str) -> None:
    """Checkpoints go with every end."""
    job = claimed(database)
    with database.write() as connection:
        queue.save_checkpoint(connection, job, {"number": 1})
    if way == "queued":
        with database.write() as connection:
            queue.release(connection, job)
    if way == "expired":
        expire(database)
    with database.write() as connection:
        queue.request_cancel(connection, job.id)
    if way == "released":
        with database.write() as connection:
            queue.release(connection, job)
    ended = read(database, job)
    assert ended.state == JobState.CANCELLED
    assert ended.checkpoint is None


def test_cancel_comes_too_late(database: Database) -> None:
    job = claimed(database)
    with database.write() as connection:
        ended = queue.succeed(connection, job, {})
        assert queue.request_cancel(connection, job.id) == ended


def test_cancel_and_success_at_the_same_time_agree(database: Database) -> None:
    """The first one decides; a job whose cancellation was committed never succeeds."""
    for _ in range(10):
        job = claimed(database)
        barrier = threading.Barrier(2)
        answers: list[Job] = []

        def cancel(job: Job = job, barrier: threading.Barrier = barrier, answers: list[Job] = answers) -> None:
            barrier.wait()
            with database.write() as connection:
                answers.append(queue.request_cancel(connection, job.id))

        thread = threading.Thread(target=cancel)
        thread.start()
        barrier.wait()
        with database.write() as connection:
            requested = queue.renew(connection, job, lease_seconds=60)
            ended = queue.cancel(connection, job) if requested else queue.succeed(connection, job, {})
        thread.join()
        assert read(database, job).state == ended.state
        assert answers[0].cancel_requested == (ended.state == JobState.CANCELLED)
