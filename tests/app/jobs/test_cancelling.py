"""A job that somebody wants to end: at once, as a wish, or too late."""

import threading

import pytest

from app.database import Database
from app.jobs import queue
from app.jobs.job import Job, JobState
from tests.app.jobs.helpers import claim, expire, held, read, submit_echo


def test_cancel_a_queued_job_at_once(database: Database) -> None:
    job = submit_echo(database)
    with database.write() as connection:
        cancelled = queue.request_cancel(connection, job.id)
    assert (cancelled.state, cancelled.claims) == (JobState.CANCELLED, 0)
    assert cancelled.finished_at is not None
    assert claim(database) is None
    with database.write() as connection:
        assert queue.request_cancel(connection, job.id) == cancelled, "cancelling twice changes nothing"


def test_cancel_a_running_job_is_a_wish(database: Database) -> None:
    job = held(database)
    with database.write() as connection:
        wished = queue.request_cancel(connection, job.id)
        assert (wished.state, wished.cancel_requested) == (JobState.RUNNING, True)
        assert queue.watch(connection, job)
        assert queue.renew(connection, job, lease_seconds=60)
        assert queue.cancelled(connection, job).state == JobState.CANCELLED


@pytest.mark.parametrize("name", ["died", "release"])
def test_a_job_to_be_cancelled_does_not_go_back_to_the_queue(database: Database, name: str) -> None:
    job = held(database)
    with database.write() as connection:
        queue.request_cancel(connection, job.id)
        if name == "died":
            queue.died(connection, job, "why")
        else:
            queue.release(connection, job)
    ended = read(database, job)
    assert ended.state == JobState.CANCELLED
    assert ended.finished_at is not None


def test_cancel_when_the_worker_is_gone(database: Database) -> None:
    """After the lease at once; before it, at the next claim."""
    late, early = held(database), held(database)
    with database.write() as connection:
        queue.request_cancel(connection, early.id)
    expire(database)
    with database.write() as connection:
        assert queue.request_cancel(connection, late.id).state == JobState.CANCELLED
    assert claim(database) is None
    assert read(database, early).state == JobState.CANCELLED


@pytest.mark.parametrize("way", ["queued", "expired", "released"])
def test_a_cancelled_job_keeps_no_checkpoint(database: Database, way: str) -> None:
    """Whichever way it ends, as after every other end."""
    job = held(database)
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
    job = held(database)
    with database.write() as connection:
        ended = queue.succeed(connection, job, {})
        assert queue.request_cancel(connection, job.id) == ended


def test_cancel_and_success_at_the_same_time_agree(database: Database) -> None:
    """Whoever is first decides; a job whose cancellation was committed never succeeds."""
    for _ in range(10):
        job = held(database)
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
            wish = queue.renew(connection, job, lease_seconds=60)
            ended = queue.cancelled(connection, job) if wish else queue.succeed(connection, job, {})
        thread.join()
        assert read(database, job).state == ended.state
        assert answers[0].cancel_requested == (ended.state == JobState.CANCELLED)
