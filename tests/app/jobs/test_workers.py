"""Limits of workers: which job a worker claims, and the end of a job that is too large for all."""

import pytest
from sqlalchemy import update

from app.database.clock import now
from app.database.engine import Database
from app.database.tables import jobs, workers
from app.jobs import queue
from app.jobs.job import Job, JobState
from app.jobs.workers import Resources, largest_limits, record_heartbeat, running_limits
from tests.app.jobs.helpers import CLOCK, expire, read, submit_echo


def heartbeat(database: Database, name: str, *, memory: int | None = None, rows: int | None = None) -> None:
    with database.write() as connection:
        record_heartbeat(connection, name, Resources(memory=memory, rows=rows))


def claim(database: Database, *, memory: int | None = None, rows: int | None = None) -> Job | None:
    limits = Resources(memory=memory, rows=rows)
    with database.read() as connection:
        found = queue.has_work(connection, limits=limits)
    with database.write() as connection:
        job = queue.claim(connection, worker="w", lease_seconds=60.0, limits=limits)
    assert found is (job is not None)
    return job


def fail_oversized(database: Database, timeout: float = 30.0) -> list[str]:
    with database.write() as connection:
        return [job.id for job in queue.fail_oversized(connection, timeout=timeout, watch=CLOCK.watch)]


def earlier(database: Database, job: Job, seconds: float) -> None:
    """Set back the time of its submission, or of the first look at it."""
    if database.is_sqlite:
        with database.read() as connection:
            CLOCK.watch.has_waited(connection, jobs.c.state == JobState.QUEUED, 0.0)
        CLOCK.now += seconds
        return
    with database.write() as connection:
        connection.execute(update(jobs).where(jobs.c.id == job.id).values(created_at=now() - seconds))


def gone(database: Database, name: str, seconds: float) -> None:
    """Let so many more seconds pass without its heartbeat."""
    with database.write() as connection:
        if database.is_sqlite:
            running_limits(connection, CLOCK.watch)
            CLOCK.now += seconds
            return
        row = workers.c
        connection.execute(update(workers).where(row.name == name).values(seen_at=row.seen_at - seconds))


@pytest.mark.parametrize(
    ("needs", "limits", "taken"),
    [
        (Resources(memory=100, rows=10), Resources(), True),
        (Resources(memory=100, rows=10), Resources(memory=100, rows=10), True),
        (Resources(memory=101, rows=10), Resources(memory=100), False),
        (Resources(memory=100, rows=11), Resources(memory=100, rows=10), False),
        (Resources(memory=101), Resources(rows=10), True),
        (Resources(), Resources(memory=1, rows=1), True),
    ],
)
def test_a_worker_takes_what_fits_it(database: Database, needs: Resources, limits: Resources, taken: bool) -> None:
    job = submit_echo(database, needs=needs)
    assert (job.needs_memory, job.needs_rows) == (needs.memory, needs.rows)
    assert (claim(database, memory=limits.memory, rows=limits.rows) is not None) is taken


def test_a_large_job_does_not_hold_up_the_small_ones(database: Database) -> None:
    large = submit_echo(database, needs=Resources(memory=1_000))
    small = submit_echo(database, needs=Resources(memory=10))
    found = claim(database, memory=100)
    assert found is not None
    assert found.id == small.id
    assert read(database, large).state is JobState.QUEUED


def test_a_job_that_is_too_large_for_all_fails_and_says_what_it_needs(database: Database) -> None:
    large = submit_echo(database, needs=Resources(memory=2_000_000_000, rows=500))
    small = submit_echo(database, needs=Resources(memory=10, rows=500))
    for job in (large, small):
        earlier(database, job, 60.0)
    heartbeat(database, "a", memory=1_000_000_000)
    heartbeat(database, "b", memory=500)
    assert fail_oversized(database) == [large.id]
    after = read(database, large)
    assert (after.state, (after.error or {})["type"]) == (JobState.FAILED, "too-large")
    assert "2000000000 bytes" in (after.error or {})["message"]
    assert "the largest limit is 1000000000 bytes of memory" in (after.error or {})["message"]
    assert read(database, small).state is JobState.QUEUED


def test_a_job_waits_for_a_worker_that_is_started_again(database: Database) -> None:
    job = submit_echo(database, needs=Resources(memory=1_000))
    heartbeat(database, "small", memory=10)
    assert fail_oversized(database) == [], "it is new: its worker may not have started yet"
    earlier(database, job, 1_000.0)
    heartbeat(database, "large", memory=1_000)
    for _ in range(2):
        assert fail_oversized(database) == []
        gone(database, "large", 20.0)
        heartbeat(database, "small", memory=10)
    failed = fail_oversized(database)
    if database.is_sqlite:  # it waits from when it was first seen that none takes it
        assert failed == []
        CLOCK.now += 31.0
        heartbeat(database, "small", memory=10)
        failed = fail_oversized(database)
    assert failed == [job.id]


def test_a_worker_without_limits_takes_everything(database: Database) -> None:
    job = submit_echo(database, needs=Resources(memory=10**15, rows=10**12))
    earlier(database, job, 1_000.0)
    heartbeat(database, "any")
    assert fail_oversized(database) == []
    with database.read() as connection:
        assert largest_limits(running_limits(connection, CLOCK.watch)) == Resources()


def test_what_is_running_is_left_alone(database: Database) -> None:
    job = submit_echo(database, needs=Resources(memory=1_000))
    earlier(database, job, 1_000.0)
    assert claim(database) is not None
    heartbeat(database, "small", memory=10)
    assert fail_oversized(database) == []
    expire(database)
    assert fail_oversized(database) == [], "its worker may come back"
    assert fail_oversized(database, timeout=0.0) == [job.id]


def test_rows_of_workers_long_gone_are_removed(database: Database) -> None:
    heartbeat(database, "old", memory=10)
    with database.write() as connection:
        connection.execute(update(workers).values(seen_at=now() - 100_000.0))
    heartbeat(database, "new", memory=5)
    heartbeat(database, "new", memory=6)
    with database.read() as connection:
        assert largest_limits(running_limits(connection, CLOCK.watch, timeout=1e9)) == Resources(memory=6)
