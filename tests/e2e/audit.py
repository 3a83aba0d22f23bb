"""Invariants of database and store that hold after anything: read from both, past the API."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import select

from app.database.engine import Database
from app.database.tables import versions
from app.jobs import queries
from app.jobs.job import Job, JobState
from app.services.intake.table_store import FITS, TABLES
from app.services.predict.loaded_model import load_model
from app.storage import catalog
from app.storage.blobs import MODELS, BlobStore
from app.worker import sweep_store


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Counts of an audit. jobs: how many ended in each state; errors: of those that failed; versions: how many are
    published; swept: blobs that nothing referred to.
    """

    jobs: Counter[JobState]
    errors: tuple[str, ...]
    versions: int
    swept: int


def audit(database: Database, blobs: BlobStore, accepted: Iterable[str]) -> Findings:
    """AssertionError if a job was lost or has not ended, or a version is there twice, half, or of no job.

    Then sweeps the store as if all of it were old: nothing may be left that is not referred to.
    """
    jobs = _jobs(database)
    assert set(accepted) <= jobs.keys(), "a job that was accepted is gone"
    assert all(job.state.ended for job in jobs.values()), [job for job in jobs.values() if not job.state.ended]
    with database.read() as connection:
        rows = connection.execute(select(versions)).all()
    of_jobs = Counter(row.job_id for row in rows)
    succeeded = {job.id for job in jobs.values() if job.state is JobState.SUCCEEDED}
    assert set(of_jobs) == succeeded, "each job that succeeded has its version, and no other has one"
    assert set(of_jobs.values()) <= {1}
    for row in rows:
        result = jobs[row.job_id].result
        assert result is not None
        assert (result["model"], result["version"]) == (row.model, row.version)
        data = blobs.read(row.artefact)
        assert len(data) == row.size
        load_model(data)
    swept = sweep_store(database, blobs, older_than=0.0)
    with database.read() as connection:
        assert {blob.key for blob in blobs.keys(MODELS)} == catalog.referenced_artefacts(connection)
    assert [*blobs.keys(TABLES), *blobs.keys(FITS)] == [], "no dataset was uploaded, and all jobs have ended"
    assert blobs.clean(older_than=0.0) == 0, "the sweep has taken what was half-written"
    return Findings(
        jobs=Counter(job.state for job in jobs.values()),
        errors=tuple(f"{job.error['type']}: {job.error['message']}" for job in jobs.values() if job.error is not None),
        versions=len(rows),
        swept=len(swept),
    )


def _jobs(database: Database) -> dict[str, Job]:
    found: dict[str, Job] = {}
    cursor = None
    while True:
        with database.read() as connection:
            page, cursor = queries.list_jobs(connection, limit=queries.MAX_PAGE_SIZE, cursor=cursor)
        found |= {job.id: job for job in page}
        if cursor is None:
            return found
