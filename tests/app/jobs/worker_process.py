"""A worker process of the tests: URL NAME LEASE_SECONDS. It publishes a model version for every job that succeeds."""

import logging
import signal
import sys
import threading

from sqlalchemy import Connection

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


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    url, name, lease = sys.argv[1:]
    supervisor = Supervisor(
        database=Database(url),
        command=CHILD,
        environment={},
        publish=publish,
        worker=name,
        lease_seconds=float(lease),
        poll_seconds=0.1,
    )
    supervisor.run(stop)
