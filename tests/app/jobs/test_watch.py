"""Leases as an onlooker sees them, whose clock the test moves."""

from pathlib import Path

import pytest
from sqlalchemy import update

from app.database.engine import Database
from app.database.tables import jobs
from app.jobs import queue
from app.jobs.job import Job
from app.jobs.watch import Watch
from app.jobs.workers import Resources, record_heartbeat
from tests.app.jobs.helpers import Clock, submit_echo


@pytest.fixture
def sqlite(tmp_path: Path) -> Database:
    database = Database(f"sqlite:///{tmp_path / 'pursuit.db'}")
    database.migrate()
    return database


def take(database: Database, watch: Watch | None = None, lease_seconds: float = 10.0) -> Job | None:
    with database.write() as connection:
        return queue.claim(connection, worker="w", lease_seconds=lease_seconds, watch=watch)


def step(database: Database, seconds: float) -> None:
    """All leases look as if the machine's clock had stepped by so many seconds since they were written."""
    with database.write() as connection:
        connection.execute(update(jobs).values(lease_until=jobs.c.lease_until - seconds))


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
def test_only_a_lease_that_stands_still_for_its_length_is_over(sqlite: Database, seconds: float) -> None:
    clock = Clock()
    submit_echo(sqlite)
    job = take(sqlite)
    assert job is not None
    step(sqlite, seconds)
    for _ in range(5):  # it is renewed every six seconds, of ten
        assert take(sqlite, clock.watch) is None
        clock.now += 6.0
        assert take(sqlite, clock.watch) is None
        with sqlite.write() as connection:
            queue.renew(connection, job, lease_seconds=10.0)
    assert take(sqlite, clock.watch) is None
    clock.now += 9.9
    assert take(sqlite, clock.watch) is None
    clock.now += 0.2
    taken = take(sqlite, clock.watch)
    assert taken is not None
    assert (taken.id, taken.fence) == (job.id, 2)


def test_the_length_of_a_lease_is_its_holders(sqlite: Database) -> None:
    """A worker with a shorter lease of its own does not take the job of one with a longer lease."""
    clock = Clock()
    submit_echo(sqlite)
    assert take(sqlite, lease_seconds=300.0) is not None
    assert take(sqlite, clock.watch, lease_seconds=2.0) is None
    clock.now += 299.0
    assert take(sqlite, clock.watch, lease_seconds=2.0) is None
    clock.now += 2.0
    assert take(sqlite, clock.watch, lease_seconds=2.0) is not None


def test_a_lease_of_an_older_release_has_the_onlookers_length(sqlite: Database) -> None:
    clock = Clock()
    submit_echo(sqlite)
    assert take(sqlite) is not None
    with sqlite.write() as connection:
        connection.execute(update(jobs).values(lease_seconds=None))
    assert take(sqlite, clock.watch) is None
    clock.now += 59.0
    assert take(sqlite, clock.watch) is None
    clock.now += 2.0
    assert take(sqlite, clock.watch) is not None


def test_what_is_forgotten_begins_anew() -> None:
    clock = Clock()
    assert clock.watch.unchanged_seconds("kind", {"a": 1}) == {"a": 0.0}
    clock.now = 5.0
    assert clock.watch.unchanged_seconds("kind", {"a": 1, "b": None}) == {"a": 5.0, "b": 0.0}
    assert clock.watch.unchanged_seconds("other", {"a": 1}) == {"a": 0.0}
    clock.now = 7.0
    assert clock.watch.unchanged_seconds("kind", {"b": None}) == {"b": 2.0}
    clock.now = 8.0
    assert clock.watch.unchanged_seconds("kind", {"a": 1, "b": 3}) == {"a": 0.0, "b": 0.0}


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
def test_a_job_waits_for_a_large_worker_as_long_as_it_is_looked_at(sqlite: Database, seconds: float) -> None:
    """Not as long as the clock says: it has stepped since the job was submitted."""
    clock = Clock()
    job = submit_echo(sqlite, needs=Resources(memory=1_000))
    with sqlite.write() as connection:
        connection.execute(update(jobs).values(created_at=jobs.c.created_at - seconds))

    def fail() -> list[str]:
        with sqlite.write() as connection:
            record_heartbeat(connection, "small", Resources(memory=10))
            return [one.id for one in queue.fail_oversized(connection, watch=clock.watch)]

    assert fail() == []
    clock.now += 119.0
    assert fail() == []
    clock.now += 2.0
    assert fail() == [job.id]
