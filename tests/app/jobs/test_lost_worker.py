"""The job of a worker that is known to have died: back in the queue at once, fenced, and none of others."""

import pytest

from app.database.engine import Database
from app.errors import LeaseLostError
from app.jobs import queue
from app.jobs.job import Job, JobState
from tests.app.jobs.helpers import claim, read, submit_echo


def release(database: Database, worker: str) -> list[Job]:
    with database.write() as connection:
        return queue.release_lost(connection, worker)


def test_its_job_is_free_before_its_lease_is_over(database: Database) -> None:
    job, other, waiting = (submit_echo(database) for _ in range(3))
    held, others = claim(database, "lost", lease_seconds=3600.0), claim(database, "lives")
    assert held is not None
    assert others is not None
    assert [one.id for one in release(database, "lost")] == [job.id]
    freed = read(database, job)
    assert (freed.state, freed.worker, freed.lease_until) == (JobState.QUEUED, None, None)
    assert (freed.requeue_reason, freed.attempts, freed.claims) == ("its worker died", 0, 1)
    assert read(database, other).worker == "lives"
    assert read(database, waiting).state is JobState.QUEUED
    assert release(database, "lost") == []
    again = claim(database, "next")
    assert again is not None
    assert (again.id, again.fence) == (job.id, held.fence + 1)


def test_what_a_worker_that_was_thought_dead_still_writes_is_refused(database: Database) -> None:
    submit_echo(database)
    held = claim(database, "lost", lease_seconds=3600.0)
    assert held is not None
    release(database, "lost")
    for write in (
        lambda connection: queue.renew(connection, held, lease_seconds=60.0),
        lambda connection: queue.succeed(connection, held, {}),
        lambda connection: queue.release(connection, held),
    ):
        with pytest.raises(LeaseLostError), database.write() as connection:
            write(connection)


def test_one_that_was_to_be_cancelled_is_cancelled(database: Database) -> None:
    job = submit_echo(database)
    claim(database, "lost", lease_seconds=3600.0)
    with database.write() as connection:
        queue.request_cancel(connection, job.id)
    release(database, "lost")
    assert read(database, job).state is JobState.CANCELLED
