"""Helpers of the tests of jobs: submit, claim, expire leases, start real worker processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import update

from app.database.clock import now
from app.database.engine import Database
from app.database.tables import jobs
from app.jobs import queries, queue
from app.jobs.job import Job
from app.jobs.watch import Watch
from tests.processes import wait_until


class Clock:
    """A monotonic clock that a test moves, and what a process that goes by it has seen of leases."""

    def __init__(self) -> None:
        self.now = 0.0
        self.watch = Watch(clock=lambda: self.now)

    def look(self, database: Database) -> None:
        """Look at the leases as they are now, as a worker does that is idle."""
        with database.read() as connection:
            queue.has_work(connection, watch=self.watch)


CLOCK = Clock()
"""The one that `claim` and `expire` go by."""

CHILD = (sys.executable, "-m", "tests.app.jobs.echo_child")


def submit_echo(database: Database, kind: str = "echo", **fields: Any) -> Job:
    """Submit a job of the echo child's kinds and commit it."""
    values = {"model": "cars", "payload": {}} | fields
    with database.write() as connection:
        return queue.submit(connection, kind=kind, **values)[0]


def read(database: Database, job: Job) -> Job:
    """Return the job as it is now."""
    with database.read() as connection:
        return queries.get(connection, job.id)


def wait_for_end(database: Database, job: Job) -> float:
    """Wait until the job has ended; return the seconds it took. AssertionError if it does not in 30 seconds."""
    return wait_until(lambda: read(database, job).state.ended)


def claim(database: Database, worker: str = "w", lease_seconds: float = 60.0) -> Job | None:
    """Claim a job in a transaction of its own."""
    with database.write() as connection:
        return queue.claim(connection, worker=worker, lease_seconds=lease_seconds, watch=CLOCK.watch)


def claimed(database: Database) -> Job:
    """Submit a job and claim it."""
    submit_echo(database)
    job = claim(database)
    assert job is not None
    return job


def expire(database: Database) -> None:
    """Expire all leases, as if their workers had sent no heartbeat for long enough."""
    with database.write() as connection:
        leased = update(jobs).where(jobs.c.lease_until.is_not(None))
        connection.execute(leased.values(lease_until=now() - 0.001))
    CLOCK.look(database)
    CLOCK.now += 61.0


def lines(path: Path) -> list[str]:
    """Return the lines of a file that may not be there yet."""
    return path.read_text().splitlines() if path.exists() else []


class Worker:
    """A worker in a process of its own; killed at the end of the block, its children with it."""

    def __init__(
        self,
        url: str,
        name: str,
        lease_seconds: float = 1.5,
        *,
        clock_offset: float = 0.0,
        clock_file: Path | None = None,
    ) -> None:
        clock = str(clock_file or clock_offset)
        command = [sys.executable, "-m", "tests.app.jobs.worker_process", url, name, str(lease_seconds), clock]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGKILL)
        self.log = self.process.communicate(timeout=10)[1].decode()
        if kind is not None:
            sys.stderr.write(self.log)

    def signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.process.poll() is None:
            os.kill(self.process.pid, number)

    def stop(self) -> int:
        """Send SIGTERM and wait; return the exit code."""
        self.signal(signal.SIGTERM)
        return self.process.wait(timeout=15)
