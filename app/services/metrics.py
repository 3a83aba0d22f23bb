"""Measures of this process and of the others of its machine, with the state of the queue, for Prometheus."""

import logging
import threading
import time
from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric

from app.database.engine import Database
from app.errors import UnavailableError
from app.jobs import queries
from app.jobs.queries import Backlog
from app.services.predict.far_rows import FAR, largest_support
from app.services.readiness import Readiness
from app.telemetry.exposition import gauge, page
from app.telemetry.measures import Measures
from app.telemetry.snapshots import SnapshotFolder
from core.arrays import FloatArray

log = logging.getLogger(__name__)

QUEUE_SECONDS = 1.0
"""Seconds that the state of the queue is taken to be what it was, however often it is asked for."""


class Metrics:
    """The page of `/metrics`. The queue is the same seen from every API: take one of them, or the largest."""

    def __init__(self, database: Database, measures: Measures, folder: SnapshotFolder, readiness: Readiness) -> None:
        self._database = database
        self._measures = measures
        self._folder = folder
        self._readiness = readiness
        self._lock = threading.Lock()
        self._backlog: Backlog | None = None
        self._looked_at = -QUEUE_SECONDS

    def open(self) -> None:
        """Begin to share measures with the other processes of the machine."""
        self._folder.open()

    def close(self) -> None:
        """Leave this process's counts to the others."""
        self._folder.close()

    def predicted(self, model: str, arrays: Mapping[str, FloatArray]) -> None:
        """Count the rows of an answer, and those that are far from all training rows."""
        support = largest_support(arrays)
        near_prior: int | None = None
        if support is not None:
            near_prior = int(support.item() >= FAR) if len(support) == 1 else int((support >= FAR).sum())
        self._measures.predicted(model, len(arrays["mean"]), near_prior)

    def page(self, accept: str) -> tuple[bytes, str]:
        """Return the text and its media type."""
        return page(accept, self._measures.families, self._folder.total(), self._now())

    def _now(self) -> Iterator[Metric]:
        yield gauge("pursuit_ready", "1 where /health/ready was 200 when it was last looked.", self._readiness.is_good)
        backlog = self._queue()
        yield gauge("pursuit_database_up", "1 where the database answers.", backlog is not None)
        if backlog is None:
            return
        yield gauge("pursuit_queue_depth", "Jobs that wait for a worker.", backlog.waiting)
        yield gauge("pursuit_queue_oldest_seconds", "How long the first of them has waited.", backlog.oldest_seconds)
        yield gauge("pursuit_queue_wanted_bytes", "Memory that the waiting jobs need, in all.", backlog.memory)
        yield gauge("pursuit_queue_largest_bytes", "Memory that the largest of them needs.", backlog.largest_memory)
        yield gauge("pursuit_queue_wanted_rows", "Rows of the waiting jobs' tables, in all.", backlog.rows)
        yield gauge("pursuit_queue_largest_rows", "Rows of the largest of them.", backlog.largest_rows)
        yield gauge("pursuit_jobs_running", "Jobs that a worker holds.", backlog.running)

    def _queue(self) -> Backlog | None:
        with self._lock:
            if time.monotonic() - self._looked_at >= QUEUE_SECONDS:
                try:
                    with self._database.read() as connection:
                        self._backlog = queries.backlog(connection)
                except UnavailableError as error:
                    log.warning("the queue cannot be measured: %s", error)
                    self._backlog = None
                self._looked_at = time.monotonic()
            return self._backlog
