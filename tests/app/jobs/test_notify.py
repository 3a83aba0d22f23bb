"""Notification of idle workers: at once on PostgreSQL, by polling elsewhere and where a connection drops."""

import threading
import time

from sqlalchemy import text

from app.database.engine import Database
from app.jobs.job import JobState
from app.jobs.notify import JobListener
from tests.app.jobs.helpers import read, submit_echo
from tests.app.jobs.test_supervisor import running
from tests.processes import wait_until


def waited(listener: JobListener, seconds: float, stop: threading.Event | None = None) -> float:
    began = time.monotonic()
    listener.wait(seconds, stop or threading.Event())
    return time.monotonic() - began


def test_a_job_wakes_the_worker_that_waits(database: Database) -> None:
    listener = JobListener(database)
    if not database.is_sqlite:
        assert waited(listener, 60.0) < 30.0, "it has only now subscribed, and what came before was not received"
        threading.Timer(0.3, submit_echo, args=(database,)).start()
        assert waited(listener, 60.0) < 30.0
        submit_echo(database)  # while nobody waits
        assert waited(listener, 60.0) < 30.0
    assert waited(listener, 0.3) >= 0.29, "nothing comes"
    listener.close()


def test_stopping_ends_the_wait(database: Database) -> None:
    listener, stop = JobListener(database), threading.Event()
    waited(listener, 0.01)
    threading.Timer(0.2, stop.set).start()
    assert waited(listener, 60.0, stop) < 30.0
    listener.close()


def test_a_dropped_connection_is_made_again(database: Database) -> None:
    """The server ends all our connections; the worker polls, then subscribes again."""
    if database.is_sqlite:
        return
    count = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"

    def subscribed() -> bool:
        with database.read() as connection:
            return bool(connection.execute(text(count)).scalar_one() == 1)

    with running(database, poll_seconds=0.2):
        first = submit_echo(database)
        wait_until(lambda: read(database, first).state is JobState.SUCCEEDED, 60.0)
        wait_until(subscribed, 60.0)  # the worker does when it is idle, which may be after the job
        drop = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
        with database.write() as connection:
            assert connection.execute(text(drop)).scalar_one() == 1
        second = submit_echo(database)
        wait_until(lambda: read(database, second).state is JobState.SUCCEEDED, 60.0)
        assert wait_until(subscribed, 60.0) < 60.0


def test_an_idle_worker_does_not_wait_for_its_next_poll(database: Database) -> None:
    if database.is_sqlite:
        return
    with running(database, poll_seconds=100.0):
        time.sleep(1.0)  # it waits
        job = submit_echo(database)
        assert wait_until(lambda: read(database, job).state is JobState.SUCCEEDED, 60.0) < 60.0
