"""A worker process of the tests: URL NAME LEASE_SECONDS CLOCK. It publishes a version for every job that succeeds.

CLOCK: seconds that SQLite's clock is ahead in this process, or a file that has them.
"""

import logging
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event

from app.database.engine import Database
from app.jobs.job import JSON, Job
from app.jobs.supervisor import Supervisor
from app.storage import catalog
from tests.app.jobs.helpers import CHILD


def publish(connection: Connection, job: Job, outcome: JSON) -> JSON:
    """The job's result: the version it became."""
    version = catalog.publish(
        connection, model=job.model, artefact=f"models/{job.id}", size=1, job_id=job.id, summary=outcome
    )
    return {"model": job.model, "version": version.version, "outcome": dict(outcome)}


def shift_clock(database: Database, clock: str) -> None:
    """Let SQLite's function of the time be ahead in all connections of this process."""
    file = Path(clock)

    def julian_day(_: str) -> float:
        ahead = float(file.read_text() or 0.0) if file.exists() else float(clock)
        return (time.time() + ahead) / 86_400.0 + 2_440_587.5

    @event.listens_for(database.engine, "connect")
    def define(connection: Any, _: Any) -> None:
        connection.create_function("julianday", 1, julian_day)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    url, name, lease, clock = sys.argv[1:]
    database = Database(url)
    if clock != "0.0":
        shift_clock(database, clock)
    supervisor = Supervisor(
        database=database,
        command=CHILD,
        environment={},
        publish=publish,
        worker=name,
        lease_seconds=float(lease),
        poll_seconds=0.1,
    )
    supervisor.run(stop)
