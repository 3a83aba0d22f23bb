"""Who takes how large a job, and what becomes of one that nobody takes."""

import pytest
from sqlalchemy import update

from app.database import Database, now
from app.jobs import listing, queue, roster
from app.jobs.job import Job, JobState
from app.jobs.roster import Size
from tests.app.jobs.helpers import expire, read, submit_echo


def sign(database: Database, name: str, *, memory: int | None = None, rows: int | None = None) -> None:
    with database.write() as connection:
        roster.sign(connection, name, Size(memory=memory, rows=rows))


def claim(database: Database, *, memory: int | None = None, rows: int | None = None) -> Job | None:
    most = Size(memory=memory, rows=rows)
    with database.read() as connection:
        there = queue.has_work(connection, most=most)
    with database.write() as connection:
        job = queue.claim(connection, worker="w", lease_seconds=60.0, most=most)
    assert there is (job is not None)
    return job


def fail_unfit(database: Database, patience: float = 30.0) -> list[str]:
    with database.write() as connection:
        return [job.id for job in queue.fail_unfit(connection, patience=patience)]


def earlier(database: Database, job: Job, seconds: float) -> None:
    """As if it was submitted that long ago."""
    with database.write() as connection:
        connection.execute(update(listing.jobs).where(listing.c.id == job.id).values(created_at=now() - seconds))


def gone(database: Database, name: str, seconds: float) -> None:
    """As if it was seen last that long ago."""
    with database.write() as connection:
        row = roster.workers.c
        connection.execute(update(roster.workers).where(row.name == name).values(seen_at=now() - seconds))


@pytest.mark.parametrize(
    ("needs", "most", "taken"),
    [
        (Size(memory=100, rows=10), Size(), True),
        (Size(memory=100, rows=10), Size(memory=100, rows=10), True),
        (Size(memory=101, rows=10), Size(memory=100), False),
        (Size(memory=100, rows=11), Size(memory=100, rows=10), False),
        (Size(memory=101), Size(rows=10), True),
        (Size(), Size(memory=1, rows=1), True),
    ],
)
def test_a_worker_takes_what_fits_it(database: Database, needs: Size, most: Size, taken: bool) -> None:
    job = submit_echo(database, needs=needs)
    assert (job.needs_memory, job.needs_rows) == (needs.memory, needs.rows)
    assert (claim(database, memory=most.memory, rows=most.rows) is not None) is taken


def test_a_large_job_does_not_hold_up_the_small_ones(database: Database) -> None:
    large = submit_echo(database, needs=Size(memory=1_000))
    small = submit_echo(database, needs=Size(memory=10))
    found = claim(database, memory=100)
    assert found is not None
    assert found.id == small.id
    assert read(database, large).state is JobState.QUEUED


def test_what_nobody_takes_fails_and_says_how_much_it_needs(database: Database) -> None:
    large = submit_echo(database, needs=Size(memory=2_000_000_000, rows=500))
    small = submit_echo(database, needs=Size(memory=10, rows=500))
    for job in (large, small):
        earlier(database, job, 60.0)
    sign(database, "a", memory=1_000_000_000)
    sign(database, "b", memory=500)
    assert fail_unfit(database) == [large.id]
    after = read(database, large)
    assert (after.state, (after.error or {})["type"]) == (JobState.FAILED, "too-large")
    assert "2000000000 bytes" in (after.error or {})["message"]
    assert "the most is 1000000000 bytes of memory" in (after.error or {})["message"]
    assert read(database, small).state is JobState.QUEUED


def test_a_job_waits_for_a_worker_that_is_started_again(database: Database) -> None:
    job = submit_echo(database, needs=Size(memory=1_000))
    sign(database, "small", memory=10)
    assert fail_unfit(database) == [], "it is new: its worker may not have come yet"
    earlier(database, job, 1_000.0)
    sign(database, "large", memory=1_000)
    gone(database, "large", 20.0)
    assert fail_unfit(database) == []
    gone(database, "large", 40.0)
    assert fail_unfit(database) == [job.id]


def test_a_worker_without_limits_takes_everything(database: Database) -> None:
    job = submit_echo(database, needs=Size(memory=10**15, rows=10**12))
    earlier(database, job, 1_000.0)
    sign(database, "any")
    assert fail_unfit(database) == []
    with database.read() as connection:
        assert roster.largest(connection) == Size()


def test_what_is_running_is_left_alone(database: Database) -> None:
    job = submit_echo(database, needs=Size(memory=1_000))
    earlier(database, job, 1_000.0)
    assert claim(database) is not None
    sign(database, "small", memory=10)
    assert fail_unfit(database) == []
    expire(database)
    assert fail_unfit(database) == [], "its worker may come back"
    assert fail_unfit(database, patience=0.0) == [job.id]


def test_rows_of_workers_long_gone_are_removed(database: Database) -> None:
    sign(database, "old", memory=10)
    gone(database, "old", 100_000.0)
    sign(database, "new", memory=5)
    sign(database, "new", memory=6)
    with database.read() as connection:
        assert roster.largest(connection, patience=1e9) == Size(memory=6)
