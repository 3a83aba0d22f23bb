"""Training: what the API does to submit it, what the child does to run it, what the supervisor does to publish it.

    submit   specification and table are read and checked, the table is stored by content, the job is queued
    run      the stored table -> its matrix -> core.train, with progress and checkpoints -> the artefact, in the store
    publish  the new version, in the transaction that ends the job

The three run in three processes and share nothing but the job's row and the store.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from app.database.engine import Database
from app.errors import Fault, InvalidRequestError, NotFoundError, UnavailableError
from app.jobs import queries, queue
from app.jobs.job import Job
from app.jobs.workers import Resources
from app.services.intake.ingest import IngestRequest, IngestResult, ingest, ingest_table
from app.services.intake.stored_tables import LIST_SUFFIX
from app.services.intake.table_store import StoredTable, stored_table
from app.services.intake.training_checks import table_options
from app.services.jobs import JobView, refuse_other_request, view
from app.services.keys.caller import ANYBODY, Caller
from app.services.specification import SpecBody, default_name
from app.services.train.origin import read_spec_and_origin
from app.storage import artefact, catalog, datasets
from app.storage.audit import AuditAction
from app.storage.blobs import BlobStore
from app.storage.locations import Locations
from app.tables import (
    Limits,
    ReadOptions,
    from_columns,
    from_rows,
    options_digest,
)
from app.telemetry.tracing import trace_context

KIND = "train"
"""The kind of these jobs in the queue."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The API's side. max_basis_size: the largest basis one may ask for; scratch: a directory for files in the making;
    read_seconds: how long reading a table may take; read_memory: bytes that it may take; max_queued: most jobs that
    wait; large_rows: rows above which a worker reads a table by parts, None where none does; locations: folders that
    may be read where they are.
    """

    database: Database
    blobs: BlobStore
    limits: Limits
    max_basis_size: int
    scratch: Path
    read_seconds: float = 1_800.0
    read_memory: int | None = None
    max_queued: int | None = None
    large_rows: int | None = None
    locations: Locations = field(default_factory=Locations)

    def submit_file(
        self, path: Path, *, filename: str, spec: object, key: str | None = None, caller: Caller = ANYBODY
    ) -> JobView:
        """Queue a training on a file of any format. Raises what is wrong with it or the specification; O(file)."""
        body, origin = read_spec_and_origin(spec, max_basis_size=self.max_basis_size)
        return self._submit(
            body, default_name(filename), key, lambda request: self._read(replace(request, upload=path)), caller, origin
        )

    def submit_columns(
        self, columns: Mapping[str, list[Any]], *, spec: object, key: str | None = None, caller: Caller = ANYBODY
    ) -> JobView:
        """Queue a training on columns of JSON values."""
        body, origin = read_spec_and_origin(spec, max_basis_size=self.max_basis_size)
        table = from_columns(columns, limits=self.limits)
        return self._submit(body, "model", key, lambda request: ingest_table(table, request), caller, origin)

    def submit_rows(
        self, rows: list[dict[str, Any]], *, spec: object, key: str | None = None, caller: Caller = ANYBODY
    ) -> JobView:
        """Queue a training on rows of JSON values by column."""
        body, origin = read_spec_and_origin(spec, max_basis_size=self.max_basis_size)
        table = from_rows(rows, limits=self.limits)
        return self._submit(body, "model", key, lambda request: ingest_table(table, request), caller, origin)

    def submit_dataset(
        self, dataset: str, *, spec: object, key: str | None = None, caller: Caller = ANYBODY
    ) -> JobView:
        """Queue a training on an uploaded dataset. NotFoundError if there is none of that id."""
        body, origin = read_spec_and_origin(spec, max_basis_size=self.max_basis_size)
        if body.sheet is not None:
            message = "the dataset was read when it was uploaded: say it there, POST /datasets?sheet=.."
            raise InvalidRequestError(f"spec.sheet: {message}", [Fault(message=message, column="sheet")])
        with self.database.read() as connection:
            found = datasets.get(connection, dataset)
        caller.check_model(body.model or default_name(found.name))
        if found.table.endswith(LIST_SUFFIX):  # which the operator may allow no more
            self.locations.check(str(found.profile["location"]))
        stored = self.blobs.path(found.table)
        digest = options_digest(table_options(body))
        with stored_table(self.database, self.blobs, self.scratch) as table:
            if digest in found.fits:
                with suppress(NotFoundError, UnavailableError):  # damaged or swept away: it is made again
                    table.fit_path.write_bytes(self.blobs.read(found.fits[digest]))
            result = self._read(self._request(stored, body, table.fit_path))
        table.key = found.table
        if found.fits.get(digest) != table.fit_key:
            with self.database.write() as connection:
                datasets.keep_fit(connection, found.id, digest, table.fit_key)
        return self._queue(body, default_name(found.name), key, table, result, caller, origin, dataset=dataset)

    def refuse_if_full(self, caller: Caller = ANYBODY) -> None:
        """Raise BusyError or LimitExceededError where no job would be queued: before a table is read for it."""
        with self.database.read() as connection:
            if self.max_queued is not None:
                queries.refuse_if_full(connection, self.max_queued)
            if caller.owner is not None and caller.most_queued is not None:
                queries.refuse_if_owner_is_full(connection, caller.owner, caller.most_queued)
            caller.check_bytes(connection, 1)

    def _origin(self, reference: str, caller: Caller) -> dict[str, Any]:
        """Return the version to begin at. NotFoundError."""
        caller.check_model(reference.partition("@")[0])
        with self.database.read() as connection:
            version = catalog.resolve(connection, reference)
        return {"reference": version.reference, "artefact": version.artefact}

    def _request(self, stored: Path, body: SpecBody, fit: Path) -> IngestRequest:
        return IngestRequest(stored=stored, limits=self.limits, spec=body, fit=fit, large_rows=self.large_rows)

    def _read(self, request: IngestRequest) -> IngestResult:
        return ingest(request, seconds=self.read_seconds, memory=self.read_memory)

    def _submit(
        self,
        body: SpecBody,
        name: str,
        key: str | None,
        read: Callable[[IngestRequest], IngestResult],
        caller: Caller,
        origin: str | None,
    ) -> JobView:
        caller.check_model(body.model or name)
        options = ReadOptions(decimal=body.decimal, thousands=body.thousands, sheet=body.sheet)
        with stored_table(self.database, self.blobs, self.scratch) as table:
            result = read(replace(self._request(table.path, body, table.fit_path), options=options))
            if caller.has_byte_limit:  # before it is in the store
                with self.database.read() as connection:
                    caller.check_bytes(connection, table.path.stat().st_size)
        return self._queue(body, name, key, table, result, caller, origin)

    def _queue(
        self,
        body: SpecBody,
        name: str,
        key: str | None,
        table: StoredTable,
        result: IngestResult,
        caller: Caller,
        origin: str | None,
        *,
        dataset: str | None = None,
    ) -> JobView:
        model = body.model or name
        asked = {"spec": body.model_dump(mode="json"), "table": table.key, "rows": result.rows, "reference": origin}
        resolved: dict[str, Any] = {"fit": table.fit_key}
        if origin is not None:
            resolved["from"] = self._origin(origin, caller)
        needs = Resources(memory=result.memory, rows=result.rows)
        with self.database.write() as connection:
            caller.hold(connection)
            if dataset is not None:  # it may have been deleted, and swept away, while it was read
                datasets.get(connection, dataset, hold=True)
            job, created = queue.submit(
                connection,
                kind=KIND,
                model=model,
                payload=asked | resolved,
                priority=body.priority,
                idempotency_key=key,
                needs=needs,
                table=table.key,
                fit=table.fit_key or None,
                max_queued=self.max_queued,
                trace_context=trace_context.get(),
                owner=caller.owner,
                max_owned=caller.most_queued,
                table_bytes=table.size or None,
            )
            if not created:
                refuse_other_request(job, key, kind=KIND, model=model, asked=asked)
            else:
                caller.check_bytes(connection)
                caller.record(connection, AuditAction.TRAIN, model, job=job.id, rows=result.rows)
                log.info("%s is queued", job.id, extra={"job": job.id, "model": job.model})
            return view(connection, job)


def publish(connection: Connection, job: Job, outcome: Mapping[str, Any]) -> dict[str, Any]:
    """The supervisor's side, inside the transaction that ends the job: a new version, and the job's result."""
    report = outcome["report"]
    version = catalog.publish(
        connection,
        model=job.model,
        artefact=outcome["artefact"],
        size=outcome["size"],
        job_id=job.id,
        owner=job.owner,
        summary=artefact.summary_of(report),
        state=outcome.get("state"),
    )
    return {"model": version.model, "version": version.version, "report": report}
