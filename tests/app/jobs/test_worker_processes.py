"""Worker processes that are killed, frozen and stopped: each job still ends, and ends once."""

import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from app.database.engine import Database
from app.jobs import queue
from app.jobs.job import JobState
from app.storage import catalog
from tests.app.jobs.helpers import Worker, lines, read, submit_echo, wait_for_end
from tests.freezing import freeze
from tests.processes import alive, wait_until

LEASE = 1.5
STEADY = 4.0
"""Seconds that a heartbeat is not late by, however busy the machine is."""


def stepping(log: Path, steps: int = 4, seconds: float = 0.2) -> dict[str, Any]:
    return {"steps": steps, "seconds": seconds, "log": str(log)}


def published(database: Database) -> list[str | None]:
    """The jobs that published a version, oldest first."""
    with database.read() as connection:
        return [version.job_id for version in catalog.list_versions(connection, "cars", limit=500)[0]][::-1]


def test_a_killed_child_goes_on_from_its_last_step_at_once(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    job = submit_echo(database, "steps", payload=stepping(log))
    with Worker(database_url, "a", lease_seconds=60.0):
        wait_until(lambda: (read(database, job).checkpoint or {}).get("step", 0) >= 2)
        victim = int(lines(log)[-1].split()[1])
        os.kill(victim, signal.SIGKILL)
        wait_for_end(database, job)
    after = read(database, job)
    assert (after.state, after.claims, after.requeue_reason) == (
        JobState.SUCCEEDED,
        2,
        "killed by signal 9 (out of memory?)",
    )
    steps = Counter(line.split()[0] for line in lines(log))
    assert steps["0"] == steps["1"] == 1, "the steps before the last checkpoint are not done again"
    assert published(database) == [job.id]


def test_a_killed_supervisor_takes_its_child_along_and_another_goes_on(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    job = submit_echo(database, "steps", payload=stepping(log, seconds=0.3))
    with Worker(database_url, "a", LEASE) as first:
        wait_until(lambda: (read(database, job).checkpoint or {}).get("step", 0) >= 2)
        child = int(lines(log)[-1].split()[1])
        with Worker(database_url, "b", LEASE):
            first.signal(signal.SIGKILL)
            wait_until(lambda: not alive(child), 1.0)
            waited = wait_for_end(database, job)
    after = read(database, job)
    assert (after.state, after.claims, after.fence) == (JobState.SUCCEEDED, 2, 2)
    assert waited < LEASE + 3.0
    assert Counter(line.split()[0] for line in lines(log))["0"] == 1
    assert published(database) == [job.id]


@pytest.mark.slow
def test_everything_killed_then_started_again(database: Database, database_url: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    job = submit_echo(database, "steps", payload=stepping(log))
    with Worker(database_url, "a", LEASE) as worker:
        wait_until(lambda: (read(database, job).checkpoint or {}).get("step", 0) >= 1)
        worker.signal(signal.SIGKILL)
    database.close()
    with Worker(database_url, "a", LEASE):
        wait_for_end(database, job)
    assert read(database, job).state == JobState.SUCCEEDED
    assert published(database) == [job.id]


@pytest.mark.slow
def test_a_frozen_supervisor_that_wakes_up_is_refused(database: Database, database_url: str, tmp_path: Path) -> None:
    """Stopped past its lease; another does the job. Awake, it publishes nothing and its own child is gone."""
    log = tmp_path / "log"
    job = submit_echo(database, "steps", payload=stepping(log, steps=3, seconds=0.5))
    with Worker(database_url, "zombie", LEASE) as zombie:
        wait_until(lambda: bool(lines(log)))
        child = int(lines(log)[0].split()[1])
        freeze(zombie.process.pid, database)
        with Worker(database_url, "b", LEASE):
            wait_for_end(database, job)
            after = read(database, job)
            zombie.signal(signal.SIGCONT)
            wait_until(lambda: not alive(child), 3.0)
            second = submit_echo(database)
            wait_for_end(database, second)
        assert zombie.stop() == 0
    assert (after.state, after.fence) == (JobState.SUCCEEDED, 2)
    assert read(database, job) == after
    assert "lease lost" in zombie.log
    assert published(database) == [job.id, second.id]


def test_two_workers_ten_jobs_each_once(database: Database, database_url: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    jobs = [
        submit_echo(database, "steps", payload=stepping(log, steps=1, seconds=0.0) | {"log": f"{log}{number}"})
        for number in range(10)
    ]
    with Worker(database_url, "a") as first, Worker(database_url, "b") as second:
        wait_until(lambda: all(read(database, job).state.ended for job in jobs), 30.0)
        assert (first.stop(), second.stop()) == (0, 0)
    for number, job in enumerate(jobs):
        after = read(database, job)
        assert (after.state, after.claims) == (JobState.SUCCEEDED, 1)
        assert len(lines(Path(f"{log}{number}"))) == 1
    assert sorted(filter(None, published(database))) == sorted(job.id for job in jobs)
    assert " by a " in first.log
    assert " by b " in second.log


def test_a_poisonous_job_fails_and_the_next_one_is_done(database: Database, database_url: str, tmp_path: Path) -> None:
    poison = submit_echo(database, "die", payload={"signal": 9, "log": str(tmp_path / "log")})
    good = submit_echo(database)
    with Worker(database_url, "a"):
        wait_for_end(database, good)
        assert read(database, poison).claims < 3, "another goes before one that has died"
        wait_for_end(database, poison)
    after = read(database, poison)
    assert (after.state, len(lines(tmp_path / "log"))) == (JobState.FAILED, 3)
    assert read(database, good).state == JobState.SUCCEEDED


def test_a_worker_on_which_every_job_dies_fails_none_of_them(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    """Its processes find something broken, as those of other workers do not: they do the jobs."""
    broken = tmp_path / "broken"
    broken.touch()
    jobs = [submit_echo(database, "die_where", payload={"broken": str(broken)}) for _ in range(5)]
    with Worker(database_url, "a") as worker:
        wait_until(lambda: sum(read(database, job).claims for job in jobs) >= 3)
        time.sleep(1.0)
        after = [read(database, job) for job in jobs]
        assert [job.state for job in after] == [JobState.QUEUED] * 5
        assert sorted(job.claims for job in after) == [0, 0, 1, 1, 1], "after the third it pauses"
        assert [job.attempts for job in after] == [0] * 5
        broken.unlink()
        with Worker(database_url, "b"):
            for job in jobs:
                wait_for_end(database, job)
    assert all(read(database, job).state == JobState.SUCCEEDED for job in jobs)
    assert "taken to be at fault" in worker.log


def test_signals_to_all_processes_of_a_worker_do_not_count(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    """As a service manager sends them to a whole control group."""
    log = tmp_path / "log"
    job = submit_echo(database, "spin", payload={"log": str(log)})
    with Worker(database_url, "a", lease_seconds=60.0) as worker:
        wait_until(lambda: bool(lines(log)))
        os.kill(int(lines(log)[0]), signal.SIGTERM)
        assert worker.stop() == 0
    after = read(database, job)
    assert (after.state, after.attempts, after.claims) == (JobState.QUEUED, 0, 0)


@pytest.mark.slow
def test_workers_that_are_killed_before_the_first_checkpoint_fail_no_job(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    job = submit_echo(database, "steps", payload=stepping(log, steps=1, seconds=0.4))
    for tries in (1, 2, 3):
        with Worker(database_url, f"w{tries}", LEASE) as worker:
            wait_until(lambda tries=tries: len(lines(log)) == tries)  # type: ignore[misc]
            worker.signal(signal.SIGKILL)
    with Worker(database_url, "last", LEASE):
        wait_for_end(database, job)
    after = read(database, job)
    assert (after.state, after.claims) == (JobState.SUCCEEDED, 4)


@pytest.mark.parametrize("hours", [1.0, pytest.param(-1.0, marks=pytest.mark.slow)])
def test_clocks_of_workers_an_hour_apart(tmp_path: Path, hours: float) -> None:
    """SQLite goes by the clock of whoever asks. A living job is not taken over; that of a dead worker is, and soon."""
    url, log = f"sqlite:///{tmp_path / 'pursuit.db'}", tmp_path / "log"
    with Database(url) as database:
        database.migrate()
        living = submit_echo(database, "steps", payload=stepping(log, steps=3, seconds=0.5))
        with Worker(url, "right", STEADY, clock_offset=0.0):
            wait_until(lambda: bool(lines(log)))
            with Worker(url, "wrong", STEADY, clock_offset=3600.0 * hours):
                wait_for_end(database, living)
        after = read(database, living)
        assert (after.state, after.claims, after.fence) == (JobState.SUCCEEDED, 1, 1)
        log.unlink()
        dying = submit_echo(database, "steps", payload=stepping(log, steps=2, seconds=0.5))
        with Worker(url, "wrong", STEADY, clock_offset=3600.0 * hours) as wrong:
            wait_until(lambda: bool(lines(log)))
            wrong.signal(signal.SIGKILL)
        with Worker(url, "right", STEADY, clock_offset=0.0):
            assert wait_for_end(database, dying) < 25.0
        assert read(database, dying).claims == 2


def test_a_clock_that_steps(tmp_path: Path) -> None:
    """The clock of both workers steps by an hour, forwards and back, while one of them works."""
    url, log, step = f"sqlite:///{tmp_path / 'pursuit.db'}", tmp_path / "log", tmp_path / "step"
    step.write_text("0")
    with Database(url) as database:
        database.migrate()
        job = submit_echo(database, "steps", payload=stepping(log, steps=4, seconds=0.5))
        with Worker(url, "a", STEADY, clock_file=step):
            wait_until(lambda: bool(lines(log)))
            with Worker(url, "b", STEADY, clock_file=step):
                for seconds in ("3600", "0", "-3600", "0"):
                    step.write_text(seconds)
                    time.sleep(0.4)
                wait_for_end(database, job)
        after = read(database, job)
    assert (after.state, after.claims, after.fence) == (JobState.SUCCEEDED, 1, 1)


def test_sigterm_gives_the_job_back_and_another_goes_on(database: Database, database_url: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    job = submit_echo(database, "steps", payload=stepping(log))
    with Worker(database_url, "a", lease_seconds=60.0) as first:
        wait_until(lambda: (read(database, job).checkpoint or {}).get("step", 0) >= 2)
        began = time.monotonic()
        assert first.stop() == 0
        assert time.monotonic() - began < 2.0
    between = read(database, job)
    assert (between.state, between.claims, between.worker) == (JobState.QUEUED, 0, None)
    with Worker(database_url, "b", lease_seconds=60.0):
        wait_for_end(database, job)
    assert read(database, job).state == JobState.SUCCEEDED
    assert Counter(line.split()[0] for line in lines(log))["0"] == 1


def test_cancel_within_two_seconds(database: Database, database_url: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    job = submit_echo(database, "spin", payload={"log": str(log)})
    with Worker(database_url, "a", lease_seconds=60.0):
        wait_until(lambda: read(database, job).progress is not None)
        with database.write() as connection:
            queue.request_cancel(connection, job.id)
        waited = wait_until(lambda: read(database, job).state == JobState.CANCELLED)
        assert waited < 2.0
        assert not alive(int(lines(log)[0]))
