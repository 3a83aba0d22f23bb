"""What `/metrics` says of the queue, and an autoscaler goes by: which jobs wait, for how long, and what they need."""

import threading
from typing import Any

from sqlalchemy import update

from app.database.clock import now
from app.database.engine import Database
from app.database.tables import jobs
from app.jobs import queries, queue
from app.jobs.job import Job, JobState
from app.jobs.queries import Backlog
from app.jobs.workers import Resources
from tests.app.jobs.helpers import claim, read, submit_echo
from tests.app.jobs.test_supervisor import build

AGED = 5_000.0


def backlog(database: Database) -> Backlog:
    with database.read() as connection:
        return queries.backlog(connection)


def change(database: Database, job: Job, **values: Any) -> None:
    with database.write() as connection:
        connection.execute(update(jobs).where(jobs.c.id == job.id).values(values))


def age(database: Database, job: Job) -> None:
    """Let it have been submitted long ago."""
    change(database, job, created_at=now() - AGED, updated_at=now() - AGED)


def give_back(database: Database, job: Job) -> None:
    with database.write() as connection:
        queue.release(connection, job)


def test_an_empty_queue_wants_nothing(database: Database) -> None:
    assert backlog(database) == Backlog(
        waiting=0, oldest_seconds=0.0, memory=0, largest_memory=0, rows=0, largest_rows=0, running=0
    )


def test_jobs_of_all_kinds_count_with_what_they_need(database: Database) -> None:
    submit_echo(database, "train", needs=Resources(memory=3_000_000_000, rows=10))
    submit_echo(database, "update", needs=Resources(memory=2_000_000_000, rows=500))
    submit_echo(database, "predict", needs=Resources())  # not known
    found = backlog(database)
    assert (found.waiting, found.running) == (3, 0)
    assert (found.memory, found.largest_memory) == (5_000_000_000, 3_000_000_000)
    assert (found.rows, found.largest_rows) == (510, 500)
    assert 0.0 <= found.oldest_seconds < 60.0


def test_sums_are_whole_beyond_32_bits(database: Database) -> None:
    for _ in range(3):
        submit_echo(database, needs=Resources(memory=2**60, rows=2**40))
    assert (backlog(database).memory, backlog(database).rows) == (3 * 2**60, 3 * 2**40)


def test_a_job_in_hand_is_counted_once_and_one_that_ended_not_at_all(database: Database) -> None:
    for _ in range(3):
        submit_echo(database, needs=Resources(memory=7))
    job, other = claim(database), claim(database)
    assert job is not None
    assert other is not None
    assert (backlog(database).waiting, backlog(database).running, backlog(database).memory) == (1, 2, 7)
    with database.write() as connection:
        queue.succeed(connection, job, {})
        queue.fail(connection, other, {"type": "x", "message": "x"})
    assert (backlog(database).waiting, backlog(database).running) == (1, 0)


def test_a_job_that_was_given_back_waits_from_then_on(database: Database) -> None:
    """A training of hours whose worker is scaled down has not waited for hours."""
    aged = submit_echo(database)
    age(database, aged)
    job = claim(database)
    assert job is not None
    assert backlog(database).oldest_seconds == 0.0
    give_back(database, job)
    assert backlog(database).oldest_seconds < 60.0
    assert backlog(database).waiting == 1


def test_a_job_that_waits_for_a_cluster_waits_from_its_last_try(database: Database) -> None:
    job = submit_echo(database)
    age(database, job)
    held = claim(database)
    assert held is not None
    with database.write() as connection:
        queue.postpone(connection, held, {"message": "the cluster does not answer"})
    found = backlog(database)
    assert (found.waiting, found.running) == (1, 0)
    assert found.oldest_seconds < 60.0


def test_one_that_was_never_claimed_is_found_behind_those_that_came_back(database: Database) -> None:
    for _ in range(3):
        submit_echo(database, priority=9)
    held = [claim(database) for _ in range(3)]
    waiting = submit_echo(database)
    age(database, waiting)
    for job in held:
        assert job is not None
        give_back(database, job)
    submit_echo(database, priority=9)
    found = backlog(database)
    assert AGED <= found.oldest_seconds < AGED + 60.0
    assert found.waiting == 5


def test_the_job_of_a_lost_worker_waits_since_the_end_of_its_lease(database: Database) -> None:
    """Scaled to nothing, an autoscaler that saw it nowhere would start no worker for it."""
    submit_echo(database, needs=Resources(memory=70, rows=7))
    job = claim(database)
    assert job is not None
    submit_echo(database, needs=Resources(memory=30, rows=9))
    change(database, job, lease_until=now() - 100.0)
    found = backlog(database)
    assert (found.waiting, found.running) == (2, 0)
    assert 100.0 <= found.oldest_seconds < 160.0
    assert (found.memory, found.largest_memory, found.rows, found.largest_rows) == (100, 70, 16, 9)


def test_jobs_of_a_worker_that_pauses_wait(database: Database) -> None:
    """No process can be started there: another worker is wanted for its job."""
    submit_echo(database, needs=Resources(memory=5))
    worker = build(database, command=("/nowhere/python",))
    assert worker.run_one(threading.Event())
    found = backlog(database)
    assert (found.waiting, found.running, found.memory) == (1, 0, 5)
    assert not worker.run_one(threading.Event()), "it pauses"
    assert backlog(database).waiting == 1


def test_jobs_that_are_too_large_for_all_workers_wait_until_they_fail(database: Database) -> None:
    job = submit_echo(database, needs=Resources(memory=50, rows=3))
    worker = build(database, limits=Resources(memory=5))
    assert not worker.run_one(threading.Event())
    found = backlog(database)
    assert (found.waiting, found.largest_memory, found.largest_rows) == (1, 50, 3)
    assert not build(database, limits=Resources(memory=5), larger_worker_seconds=0.0).run_one(threading.Event())
    assert read(database, job).state is JobState.FAILED
    assert backlog(database).waiting == 0
