"""Waiting for work: at once on PostgreSQL, by the clock elsewhere, and never worse than by the clock."""

import threading
import time

from sqlalchemy import text

from app.database import Database
from app.jobs.bell import Bell
from app.jobs.job import JobState
from tests.app.jobs.helpers import read, submit_echo, wait_for
from tests.app.jobs.test_supervisor import running


def waited(bell: Bell, seconds: float, stop: threading.Event | None = None) -> float:
    began = time.monotonic()
    bell.wait(seconds, stop or threading.Event())
    return time.monotonic() - began


def test_a_job_wakes_who_waits(database: Database) -> None:
    bell = Bell(database)
    if not database.is_sqlite:
        assert waited(bell, 60.0) < 30.0, "it begins to listen, and what came before was not heard"
        threading.Timer(0.3, submit_echo, args=(database,)).start()
        assert waited(bell, 60.0) < 30.0
        submit_echo(database)  # while nobody waits
        assert waited(bell, 60.0) < 30.0
    assert waited(bell, 0.3) >= 0.29, "nothing comes"
    bell.close()


def test_stopping_ends_the_wait(database: Database) -> None:
    bell, stop = Bell(database), threading.Event()
    waited(bell, 0.01)
    threading.Timer(0.2, stop.set).start()
    assert waited(bell, 60.0, stop) < 30.0
    bell.close()


def test_a_dropped_connection_is_made_again(database: Database) -> None:
    """The server ends all our connections; the worker goes on by the clock, then listens again."""
    if database.is_sqlite:
        return
    with running(database, poll_seconds=0.2):
        first = submit_echo(database)
        wait_for(lambda: read(database, first).state is JobState.SUCCEEDED, 60.0)
        drop = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
        with database.write() as connection:
            assert connection.execute(text(drop)).scalar_one() == 1
        second = submit_echo(database)
        wait_for(lambda: read(database, second).state is JobState.SUCCEEDED, 60.0)
        listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"

        def again() -> bool:
            with database.read() as connection:
                return bool(connection.execute(text(listening)).scalar_one() == 1)

        wait_for(again, 60.0)


def test_an_idle_worker_does_not_wait_for_its_next_look(database: Database) -> None:
    if database.is_sqlite:
        return
    with running(database, poll_seconds=100.0):
        time.sleep(1.0)  # it waits
        job = submit_echo(database)
        assert wait_for(lambda: read(database, job).state is JobState.SUCCEEDED, 60.0) < 60.0
