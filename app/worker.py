"""Composition of a worker: the supervisor of one job at a time, the child that computes, the sweep of the store.

`app.worker child` is the child: the supervisor starts it, talks to it over pipes and kills it at will.
"""

import logging
import os
import secrets
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from app import posix  # says where the service runs before anything fails for it
from app.compute.folder import ShardFolder
from app.database.engine import Database
from app.errors import NotFoundError, UnavailableError, WrongStoreError
from app.jobs import queries, queue, retention
from app.jobs.child import Handler, run_task
from app.jobs.job import JSON, Job
from app.jobs.observer import JobObserver
from app.jobs.supervisor import Supervisor
from app.jobs.workers import Resources
from app.launch import python_command
from app.log import set_up
from app.services import dataset_predictions
from app.services.dataset_predictions import PREDICTIONS
from app.services.intake.large_table import Cluster, LargeTables
from app.services.intake.table_store import FITS, TABLES
from app.services.monitoring.kept_predictions import trim
from app.services.train import training, training_job, updates
from app.settings import Settings
from app.storage import audit, catalog, datasets, kept_predictions, key_usage, monitoring
from app.storage.blobs import MODELS, BlobStore, sweep
from app.storage.store_identity import check_store_identity
from app.storage.stores import open_store
from app.storage.training_state import STATES
from app.telemetry.job_measures import JobMeasures
from app.telemetry.measures import Measures
from app.telemetry.server import serve_metrics
from app.telemetry.snapshots import SnapshotFolder
from app.telemetry.tracing import JobTraces, start_tracing
from core.errors import CoreError

log = logging.getLogger(__name__)

STORE_SWEEP_SECONDS = 3_600.0
"""Seconds between sweeps of the store."""
ORPHANED_BLOB_SECONDS = 86_400.0
"""Age at which a blob that nothing refers to is removed: longer than a training takes from writing to publishing."""

DAY_SECONDS = 86_400.0

_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")

_MEMORY_VARIABLES = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(posix.KEPT_ARRAY_BYTES),
    "MALLOC_TRIM_THRESHOLD_": str(posix.KEPT_BYTES),
}
"""glibc keeps the memory of large arrays for the next ones: fresh memory costs more than what is written into it."""


def run_worker(
    settings: Settings, stop: threading.Event, *, give_back: threading.Event | None = None, name: str | None = None
) -> None:
    """Do jobs until `stop` is set; the running one then returns to the queue. Must run in the main thread.

    give_back: if given, the running job is gone on with until this is set too. name: of this worker in the database, by
    default one that no other has.
    """
    database = Database(settings.database)
    blobs = open_store(settings)
    measures = Measures()
    folder = SnapshotFolder(settings.metrics, measures)
    folder.open()
    tracing = start_tracing("pursuit-worker")
    _serve_metrics(settings, measures, folder)
    _migrate(database, stop)
    name = name or worker_name()
    supervisor = Supervisor(
        database=database,
        command=python_command("app.worker", "child"),
        environment=child_environment(settings),
        publish=publish,
        worker=name,
        lease_seconds=settings.lease_seconds,
        poll_seconds=settings.poll_seconds,
        limits=Resources(memory=settings.memory_limit, rows=settings.worker_max_rows),
        check_ready=partial(_refuse_wrong_store, database, blobs),
        observer=WorkerTelemetry(JobMeasures(measures), None if tracing is None else JobTraces(tracing)),
        larger_worker_seconds=settings.larger_worker_seconds,
    )
    swept = (database, blobs, ShardFolder(settings.shards), settings, stop)
    threading.Thread(target=_sweep_regularly, args=swept, name="sweep", daemon=True).start()
    if not stop.is_set():  # as it may be when it has waited for the database
        log.info("worker %s is ready, with %d threads for each training", name, settings.training_threads)
    supervisor.run(stop, give_back)
    folder.close()
    if tracing is not None:
        tracing.close()
    database.close()


def worker_name() -> str:
    """Return a name that no other worker has."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


def release_lost(settings: Settings, worker: str) -> list[Job]:
    """Return the jobs of a worker that has died to the queue. UnavailableError."""
    with Database(settings.database) as database, database.write() as connection:
        return queue.release_lost(connection, worker)


class WorkerTelemetry(JobObserver):
    """Measures and traces of the jobs of this worker."""

    def __init__(self, measures: JobMeasures, traces: JobTraces | None = None) -> None:
        self._measures = measures
        self._traces = traces

    def started(self, job: Job) -> None:
        self._measures.started()
        if self._traces is not None:
            names = {"pursuit.job.id": job.id, "pursuit.model": job.model, "pursuit.job.claim": job.claims}
            self._traces.started(job.kind, job.trace_context, names)

    def phase(self, name: str) -> None:
        self._measures.phase(name)
        if self._traces is not None:
            self._traces.phase(name)

    def ended(self, end: str) -> None:
        self._measures.ended(end)
        if self._traces is not None:
            self._traces.ended(end)

    def paused(self) -> None:
        self._measures.paused()


def _serve_metrics(settings: Settings, measures: Measures, folder: SnapshotFolder) -> None:
    if settings.worker_metrics_port is None:
        return
    try:
        serve_metrics(settings.host, settings.worker_metrics_port, measures, folder)
    except OSError as error:  # such as another worker's of this machine, which shows the measures of both
        log.warning("/metrics is not answered on port %d: %s", settings.worker_metrics_port, error.strerror)


def child_environment(settings: Settings) -> dict[str, str]:
    """Return the variables of the child beside this process's environment: the store, and its share of the cores.

    The numerics run threads of their own over blocks of rows, so BLAS gets one.
    """
    own = {
        "PURSUIT_DATA_DIR": str(settings.data_dir.resolve()),
        "PURSUIT_ARTEFACT_URL": str(settings.artefacts or settings.artefact_url),
        "PURSUIT_LOG_FORMAT": settings.log_format,
        "PURSUIT_LOG_LEVEL": settings.log_level,
        "PURSUIT_THREADS": str(settings.training_threads),
        "PURSUIT_COMPUTE": settings.compute,
        "PURSUIT_SHARD_DIR": str(settings.shards),
        "PURSUIT_LARGE_TABLE_ROWS": str(settings.large_table_rows),
        "PURSUIT_COMPUTE_PATIENCE_SECONDS": str(settings.compute_patience_seconds),
    }
    return own | _MEMORY_VARIABLES | dict.fromkeys(_THREAD_VARIABLES, "1")


def child() -> int:
    """Do the one job on standard input; see `app.jobs.child`."""
    settings = Settings()
    set_up(style=settings.log_format, level=settings.log_level)
    with _compute(settings) as compute:
        large = LargeTables(folder=settings.shards, least=settings.large_table_rows, cluster=compute)
        store, threads = open_store(settings), settings.training_threads
        handlers = job_handlers(store, threads=threads, compute=compute, large_tables=large)
        return run_task(handlers, client_errors=(CoreError,))


def job_handlers(
    blobs: BlobStore, *, threads: int, compute: Cluster | None = None, large_tables: LargeTables | None = None
) -> dict[str, Handler]:
    """Return what does each kind of job, in the child."""
    return {
        training.KIND: training_job.training_handler(
            blobs, threads=threads, compute=compute, large_tables=large_tables
        ),
        updates.KIND: updates.update_handler(blobs, threads=threads),
        dataset_predictions.KIND: dataset_predictions.prediction_handler(blobs),
    }


def publish(connection: Connection, job: Job, outcome: JSON) -> JSON:
    """Write what a job of any kind leaves, in the transaction that ends it; return its result."""
    by_kind = {
        training.KIND: training.publish,
        updates.KIND: training.publish,
        dataset_predictions.KIND: dataset_predictions.publish,
    }
    return by_kind[job.kind](connection, job, outcome)


@contextmanager
def _compute(settings: Settings) -> Iterator[Cluster | None]:
    """Yield the cluster of the settings, which is not connected before a job needs it."""
    if settings.compute == "local":
        yield None
        return
    from app.compute.cluster import Cluster, dask_address  # noqa: PLC0415  an optional library, a second to load

    timeout = settings.compute_patience_seconds
    cluster = Cluster(dask_address(settings.compute), settings.shards, timeout=timeout)
    try:
        yield cluster
    finally:
        cluster.close()


def sweep_store(database: Database, blobs: BlobStore, *, older_than: float = ORPHANED_BLOB_SECONDS) -> list[str]:
    """Remove the old artefacts and tables that no version, dataset or unfinished job refers to; return their keys.

    WrongStoreError: what this database does not refer to may be another's.
    """
    check_store_identity(database, blobs)

    def artefacts(_: list[str]) -> set[str]:
        with database.read() as connection:
            return catalog.referenced_artefacts(connection)

    def tables(old: list[str]) -> set[str]:
        with database.read() as connection:
            kept = datasets.referenced_tables(connection)  # first: a job on a dataset is queued before that is deleted
            return kept | queries.tables_in_use(connection, old)

    def fits(old: list[str]) -> set[str]:
        with database.read() as connection:
            kept = datasets.referenced_fits(connection)
            return kept | queries.fits_in_use(connection, old)

    def outputs(old: list[str]) -> set[str]:
        with database.read() as connection:
            return queries.outputs_in_use(connection, old)

    def states(_: list[str]) -> set[str]:
        with database.read() as connection:
            return catalog.referenced_states(connection)

    removed = sweep(blobs, STATES, states, older_than=older_than)
    removed += sweep(blobs, MODELS, artefacts, older_than=older_than)
    removed += sweep(blobs, TABLES, tables, older_than=older_than)
    removed += sweep(blobs, PREDICTIONS, outputs, older_than=older_than)
    return removed + sweep(blobs, FITS, fits, older_than=older_than)


def end_quarantines(database: Database, blobs: BlobStore) -> list[str]:
    """Look again at the damaged artefacts; return the versions whose files are whole, which leave the quarantine."""
    with database.read() as connection:
        damaged = catalog.quarantined(connection)
    whole = []
    for version in damaged:
        try:
            blobs.read(version.artefact)
        except (NotFoundError, UnavailableError):
            log.error("%s is in quarantine: its stored file is damaged or lost", version.reference)
            continue
        with database.write() as connection:
            catalog.end_quarantine(connection, version.artefact)
        whole.append(version.reference)
    return whole


def _refuse_wrong_store(database: Database, blobs: BlobStore) -> None:
    """Raise WrongStoreError. An unavailable store is left to the job, which waits for it and says so."""
    try:
        check_store_identity(database, blobs)
    except WrongStoreError:
        raise
    except UnavailableError as error:
        log.warning("claiming a job although the store cannot be checked: %s", error)


def _migrate(database: Database, stop: threading.Event) -> None:
    """Bring the schema up to date; wait for a database that does not answer yet."""
    while not stop.is_set():
        try:
            database.migrate()
            return
        except UnavailableError as error:
            log.warning("waiting for the database: %s", error)
            stop.wait(2.0)


def remove_old(database: Database, settings: Settings) -> tuple[int, int]:
    """Remove ended jobs, unused datasets, kept predictions, summaries and entries of the audit log of an age that the
    settings name, and kept predictions beyond their bytes; return how many of the first two."""
    with database.write() as connection:
        audit.remove_old(connection, older_than=DAY_SECONDS * settings.keep_audit_days)
        key_usage.remove_old_usage(connection, older_than=DAY_SECONDS * settings.keep_usage_days)
        oldest = datetime.now(UTC).date() - timedelta(settings.keep_monitoring_days)
        monitoring.remove_before(connection, oldest.isoformat())
        kept_predictions.remove_old(connection, older_than=DAY_SECONDS * settings.keep_predictions_days)
    jobs = unused = 0
    if settings.keep_jobs_days is not None:
        age = DAY_SECONDS * settings.keep_jobs_days
        while True:
            with database.write() as connection:
                removed = retention.remove_ended(connection, older_than=age)
            jobs += removed
            if removed < retention.REMOVED_AT_ONCE:
                break
        with database.write() as connection:
            datasets.forget_keys(connection, older_than=age)
    if settings.keep_datasets_days is not None:
        with database.write() as connection:
            unused = datasets.remove_unused(connection, older_than=DAY_SECONDS * settings.keep_datasets_days)
    trim(database, most_bytes=settings.max_kept_predictions_bytes)
    return jobs, unused


def _sweep_regularly(
    database: Database, blobs: BlobStore, shards: ShardFolder, settings: Settings, stop: threading.Event
) -> None:
    while not stop.wait(STORE_SWEEP_SECONDS):
        try:
            log.info("removed %d ended jobs and %d unused datasets", *remove_old(database, settings))
            end_quarantines(database, blobs)
            removed = sweep_store(database, blobs)
            log.info("removed %d blobs that nothing refers to, %d old shards", len(removed), shards.sweep())
        except UnavailableError as error:
            log.warning("the store could not be swept: %s", error)


if __name__ == "__main__":
    if sys.argv[1:] != ["child"]:
        sys.exit("usage: python -m app.worker child  (workers are started by `pursuit worker`)")
    sys.exit(child())
