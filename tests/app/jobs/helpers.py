"""What the tests of the queue share: jobs to submit, leases to end, things to wait for, real worker processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import update

from app.database import Database, now
from app.jobs import listing, queue
from app.jobs.job import Job

CHILD = (sys.executable, "-m", "tests.app.jobs.echo_child")


def submit_echo(database: Database, kind: str = "echo", **fields: Any) -> Job:
    """One job of the echo child's kinds, committed."""
    values = {"model": "cars", "payload": {}} | fields
    with database.write() as connection:
        return queue.submit(connection, kind=kind, **values)[0]


def read(database: Database, job: Job) -> Job:
    """The job as it is now."""
    with database.read() as connection:
        return listing.get(connection, job.id)


def claim(database: Database, worker: str = "w", lease_seconds: float = 60.0) -> Job | None:
    """A claim in a transaction of its own."""
    with database.write() as connection:
        return queue.claim(connection, worker=worker, lease_seconds=lease_seconds)


def held(database: Database) -> Job:
    """A submitted job, claimed."""
    submit_echo(database)
    job = claim(database)
    assert job is not None
    return job


def expire(database: Database) -> None:
    """End all leases now, as if their workers had said nothing for long enough."""
    c = listing.jobs.c
    with database.write() as connection:
        connection.execute(update(listing.jobs).where(c.lease_until.is_not(None)).values(lease_until=now() - 0.001))


def wait_for(condition: Callable[[], bool], seconds: float = 15.0) -> float:
    """Seconds it took until the condition held; AssertionError if it does not in time."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, f"not so within {seconds} s"
        time.sleep(0.02)
    return time.monotonic() - began


def lines(path: Path) -> list[str]:
    """The lines of a file that may not be there yet."""
    return path.read_text().splitlines() if path.exists() else []


def alive(pid: int) -> bool:
    """True if the process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Worker:
    """A worker in a process of its own; killed at the end of the block, its children with it."""

    def __init__(self, url: str, name: str, lease_seconds: float = 1.5) -> None:
        command = [sys.executable, "-m", "tests.app.jobs.worker_process", url, name, str(lease_seconds)]
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
        """SIGTERM and wait; the exit code."""
        self.signal(signal.SIGTERM)
        return self.process.wait(timeout=15)
